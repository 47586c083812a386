# SPDX-License-Identifier: Apache-2.0
"""Tests of the white-box counters: an index gives the axis values, and counters are those of the
RTL.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from models.register_map import REG_MAP
from verif.coverage.cover_model import CoverModel
from verif.coverage.device_coverage import NfCoverage
from verif.coverage.white_box import PlannedPoint, WhiteBox, WhiteBoxPoints

HERE = Path(__file__).parent
SOURCES = {
    "u_core.u_engine.u_cover": "nf_engine_cover.sv",
    "u_core.u_engine.u_miss_cover": "nf_miss_cover.sv",
    "u_core.u_engine.u_lookup.u_cover": "nf_lookup_cover.sv",
    "u_core.u_cover": "nf_core_cover.sv",
    "u_regs.u_cover": "nf_regs_cover.sv",
    "u_ram_cover": "nf_ram_cover.sv",
}
_POINT = re.compile(r"^  `NF_POINTS?\((\w+), (\d+)", re.MULTILINE)


def _element(value: int) -> SimpleNamespace:
    return SimpleNamespace(value=value)


def test_an_index_is_the_codes_of_the_axes() -> None:
    codes = [["x", "", "y", "z"], ["0", "1"]]
    plan = PlannedPoint(
        name="c",
        module="u_cover",
        array="c",
        reason="because",
        test="test_x::y",
        axes={"a": "AXIS", "b": codes[1]},
        never=[{"a": "y"}],
    )
    box = WhiteBox(CoverModel(), plan, codes)
    assert [*box.point.bins] == ["x x 0", "x x 1", "z x 0", "z x 1"]
    assert box.values(0b10_1) == ("y", "1")
    hits = [_element(0)] * 8
    hits[0b11_0] = _element(7)
    seen = _element(1 << 0b11_0)
    box.take(SimpleNamespace(u_cover=SimpleNamespace(c_hits=hits, c_seen=seen)))
    assert box.point.bins["z x 0"] == 7
    box.take(SimpleNamespace())  # a simulator or a top without the module
    assert sum(box.point.bins.values()) == 7


@pytest.mark.parametrize("module", SOURCES)
def test_every_counter_is_read_and_has_its_width(module: str) -> None:
    text = (HERE / SOURCES[module]).read_text(encoding="utf-8")
    widths = {name: int(width) for name, width in _POINT.findall(text)}
    boxes = [box for box in WhiteBoxPoints(CoverModel()).boxes if box.plan.module == module]
    assert widths == {
        box.plan.array: sum((len(codes) - 1).bit_length() for codes in box.codes) for box in boxes
    }


def test_the_end_of_a_run_reads_the_counters() -> None:
    boxes = [box for box in WhiteBoxPoints(CoverModel()).boxes if box.plan.module == "u_ram_cover"]
    ram = SimpleNamespace()
    for box in boxes:
        size = 1 << sum((len(codes) - 1).bit_length() for codes in box.codes)
        setattr(ram, f"{box.plan.array}_hits", [_element(3)] * size)
        setattr(ram, f"{box.plan.array}_seen", _element(2))
    for top, times in ((SimpleNamespace(u_ram_cover=ram), 3), (None, 0)):
        model = NfCoverage().finished(top)
        hits = {name: sum(one.bins.values()) for name, one in model.points.items()}
        assert {name: n for name, n in hits.items() if n} == {
            box.plan.name: times for box in boxes if times
        }


def test_axes_of_registers_are_those_of_the_register_map() -> None:
    boxes = {box.plan.name: box for box in WhiteBoxPoints(CoverModel()).boxes}
    sources = [field.name for field in REG_MAP.expand()["IRQ_STATUS"].fields]
    assert boxes["interrupt event"].codes[0] == sources == boxes["interrupt clear"].codes[0]
    # A flit of the retry buffer is read again only on a link with faults (test_link_ram_flips).
    rams = ["" if name == "RETRY" else name for name in REG_MAP.enums["Ram"]]
    assert boxes["RAM error moment"].codes[0] == rams

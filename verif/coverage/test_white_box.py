# SPDX-License-Identifier: Apache-2.0
"""Counters of the bound cover modules: their indices, and that their codes are those of the RTL."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from verif.coverage.cover_model import CoverModel
from verif.coverage.engine_points import LOOKUP, KeptPoints
from verif.coverage.memory_port_points import RAM, RamPoints
from verif.coverage.pipeline_points import (
    CORE,
    ENGINE,
    MISS,
    NO_CODE,
    REGS,
    MissPoints,
    PipelinePoints,
    WhiteBox,
)

HERE = Path(__file__).parent
MODULES = {
    ENGINE: "nf_engine_cover.sv",
    MISS: "nf_miss_cover.sv",
    LOOKUP: "nf_lookup_cover.sv",
    CORE: "nf_core_cover.sv",
    REGS: "nf_regs_cover.sv",
    RAM: "nf_ram_cover.sv",
}
_POINT = re.compile(r"^  `NF_POINTS?\((\w+), (\d+)", re.MULTILINE)


def _element(value: int) -> SimpleNamespace:
    return SimpleNamespace(value=value)


def test_an_index_is_the_codes_of_the_axes() -> None:
    axes = {"a": ["x", "y", "z"], "b": ["0", "1"]}
    cross = CoverModel().cross("c", "because", axes, test="test_x::y")
    box = WhiteBox(cross, "u_cover", "c", (("x", NO_CODE, "y", "z"), ("0", "1")))
    assert box.values(0b10_1) == ("y", "1")
    hits = [_element(0)] * 8
    hits[0b11_0] = _element(7)
    seen = _element(1 << 0b11_0)
    box.take(SimpleNamespace(u_cover=SimpleNamespace(c_hits=hits, c_seen=seen)))
    assert cross.point.bins["z x 0"] == 7
    box.take(SimpleNamespace())  # a simulator or a top without the module
    assert sum(cross.point.bins.values()) == 7


@pytest.mark.parametrize("module", MODULES)
def test_every_counter_is_read_and_has_its_width(module: str) -> None:
    text = (HERE / MODULES[module]).read_text(encoding="utf-8")
    widths = {name: int(width) for name, width in _POINT.findall(text)}
    points = (PipelinePoints, MissPoints, KeptPoints, RamPoints)
    every = [box for one in points for box in one(CoverModel()).boxes]
    boxes = {box.array: box for box in every if box.module == module}
    assert widths == {
        name: sum((len(codes) - 1).bit_length() for codes in box.codes)
        for name, box in boxes.items()
    }

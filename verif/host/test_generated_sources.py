# SPDX-License-Identifier: Apache-2.0
"""What is generated for the C++ host, against the link spec and the ports of the RTL."""

from __future__ import annotations

import ctypes
import json
import re
from pathlib import Path

import pytest

from scripts.build.filelist import read_filelist
from scripts.build.ports import Port, top_ports
from scripts.common.paths import ROOT
from scripts.common.records import FILELIST, TOP
from verif.host import generated_sources
from verif.host.c_interface import FIGURES_BYTES, Figures

# (lsb, width) as docs/spec/cxl-mem-68b.md gives them: §3, §5.
SPEC = {
    "header": {
        "Ak": (2, 1),
        "Sz": (4, 1),
        "RspCrd": (20, 4),
        "ReqCrd": (24, 4),
        "DataCrd": (28, 4),
    },
    "req": {
        "Opcode": (1, 4),
        "MetaField": (8, 2),
        "Tag": (12, 16),
        "Addr": (28, 47),
        "Ldid": (77, 4),
    },
    "rwd": {
        "Opcode": (1, 4),
        "MetaField": (8, 2),
        "Tag": (12, 16),
        "Addr": (28, 46),
        "Ldid": (77, 4),
    },
    "ndr": {"Opcode": (1, 3), "Tag": (8, 16), "Ldid": (24, 4), "Devload": (28, 2)},
    "drs": {
        "Opcode": (1, 3),
        "Tag": (8, 16),
        "Poison": (24, 1),
        "Ldid": (25, 4),
        "Devload": (29, 2),
    },
}


@pytest.mark.parametrize("message", SPEC)
def test_fields_stand_where_the_spec_says(message: str) -> None:
    header = generated_sources.constants()["cxl_wire.h"]
    body = header.partition(f"namespace {message} {{")[2].partition("\n}")[0]
    found = re.findall(r"Field k(\w+)\{(\d+), (\d+)\}", body)
    assert SPEC[message].items() <= {n: (int(lsb), int(w)) for n, lsb, w in found}.items()


def test_an_unconfirmed_fact_is_changed_in_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "kFlushRetimer = 0x20;" in generated_sources.constants()["cxl_wire.h"]
    monkeypatch.setattr(generated_sources, "FLUSH_RETIMER_CLOCKS", 48)
    assert "kFlushRetimer = 0x30;" in generated_sources.constants()["cxl_wire.h"]


def test_the_figures_have_room() -> None:
    assert ctypes.sizeof(Figures) <= FIGURES_BYTES


def ports(**parameters: int) -> list[Port]:
    files = read_filelist(ROOT, FILELIST)
    paths = [ROOT / name for name in files.sources], [ROOT / name for name in files.includes]
    return top_ports(TOP, *paths, tuple(parameters.items()))


@pytest.mark.parametrize(("lines_log2", "words"), [(20, ""), (30, "[2]")])
def test_a_port_is_as_wide_as_the_parameters_make_it(
    tmp_path: Path, lines_log2: int, words: str
) -> None:
    found = ports(MEM_LINES_LOG2=lines_log2)
    generated_sources.write_sources(tmp_path, TOP, found, {"MEM_LINES_LOG2": lines_log2})
    assert f"uint32_t m_axi_awaddr{words};" in (tmp_path / "nf_pins.h").read_text(encoding="utf-8")
    module = (tmp_path / generated_sources.PINS_MODULE).read_text(encoding="utf-8")
    assert f"#(.MEM_LINES_LOG2({lines_log2})) dut" in module
    pins = json.loads((tmp_path / generated_sources.PINS).read_text(encoding="utf-8"))
    assert len(pins["ToDevice"]) + len(pins["FromDevice"]) == len(found) - 1  # the clock


def test_a_payload_may_be_unknown_while_its_valid_is_0() -> None:
    outputs = ("irq", "tx_valid", "tx_flit", "s_axil_awready", "s_axil_bresp", "s_axil_bvalid")
    owners = [generated_sources._valid(name, outputs) for name in outputs]
    alone = ("irq", "tx_valid", "tx_valid", "s_axil_awready", "s_axil_bvalid", "s_axil_bvalid")
    assert tuple(owners) == alone

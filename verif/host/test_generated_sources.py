# SPDX-License-Identifier: Apache-2.0
"""Tests of the generated sources of the C++ host against the link spec and the ports of the RTL."""

import ctypes
import json
import re
from pathlib import Path

import pytest

from cocotbext.cxl.wire import assumptions
from scripts.build.filelist import read_filelist
from scripts.build.slang import Port, top_ports
from scripts.common.paths import ROOT
from scripts.common.records import FILELIST, TOP
from verif.host import generated_sources
from verif.host.c_interface import FIGURES_BYTES, Figures

# (lsb, width) as docs/spec/cxl-mem-68b.md gives them: §3, §5.
REQUEST = {"opcode": (1, 4), "meta_field": (8, 2), "tag": (12, 16), "ldid": (77, 4)}
ANSWER = {"opcode": (1, 3), "tag": (8, 16)}
SPEC = {
    "header": {"ak": (2, 1), "sz": (4, 1), "rsp_crd": (20, 4), "req_crd": (24, 4)}
    | {"data_crd": (28, 4)},
    "req": REQUEST | {"addr": (28, 47)},
    "rwd": REQUEST | {"addr": (28, 46)},
    "ndr": ANSWER | {"ldid": (24, 4), "devload": (28, 2)},
    "drs": ANSWER | {"poison": (24, 1), "ldid": (25, 4), "devload": (29, 2)},
}


@pytest.mark.parametrize("message", SPEC)
def test_fields_stand_where_the_spec_says(message: str) -> None:
    header = generated_sources.constants()["cxl_wire.h"]
    body = header.partition(f"namespace {message} {{")[2].partition("\n}")[0]
    found = re.findall(r"Field (\w+)\{(\d+), (\d+)\}", body)
    assert SPEC[message].items() <= {n: (int(lsb), int(w)) for n, lsb, w in found}.items()


def test_an_unconfirmed_fact_is_changed_in_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "FLUSH_RETIMER_CLOCKS = 32;" in generated_sources.constants()["cxl_wire.h"]
    monkeypatch.setattr(assumptions, "FLUSH_RETIMER_CLOCKS", 48)
    assert "FLUSH_RETIMER_CLOCKS = 48;" in generated_sources.constants()["cxl_wire.h"]


def test_the_figures_have_room() -> None:
    assert ctypes.sizeof(Figures) <= FIGURES_BYTES


def ports(**parameters: int) -> list[Port]:
    return top_ports(TOP, read_filelist(ROOT, FILELIST), parameters=tuple(parameters.items()))


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

# SPDX-License-Identifier: Apache-2.0
"""`nf measure bench profile`: the part of a line of C++, and the message without valgrind."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

import pytest

from scripts.benchmarks import bench_profile as bench
from scripts.common.errors import NfError
from scripts.common.paths import ROOT

FIFO = ROOT / "hdl" / "common" / "nf_fifo.sv"


def _line(macro: str) -> int:
    """The first line of the FIFO that has it."""
    lines = FIFO.read_text(encoding="utf-8").splitlines()
    return 1 + next(n for n, text in enumerate(lines) if macro in text)


def test_a_line_counts_for_the_rtl_it_was_made_from(tmp_path: Path) -> None:
    model = tmp_path / "Vnf___024root__0.cpp"
    model.write_text(
        f"/*{FIFO}:1 0x1*/void first(Vnf___024root* vlSelf) {{\n"
        f"    /*{FIFO}:{_line('always_ff')} 0x12ab*/vlSelfRef.a = \n"
        "        vlSelfRef.b;\n"
        f"    /*{FIFO}:{_line('`NF_ASSERT')} 0x12ac*/if (vlSelfRef.c) {{\n"
        "}\n"
        "void second(Vnf___024root* vlSelf) {\n"
        "    vlSelf = nullptr;\n"
        "    /*verif/host/nf_bulk_top.sv:3 0x12ad*/vlSelfRef.d = 1U;\n",
        encoding="utf-8",
    )
    parts = [bench.part_of(str(model), line, False) for line in range(2, 9)]
    assert parts == [
        *("hdl/common", "hdl/common", bench.ASSERTIONS, bench.ASSERTIONS),
        *(bench.OPERATORS, bench.OPERATORS, bench.HOST),
    ]
    assert bench.part_of(str(model), 2, True) == "hdl/common/nf_fifo.sv"


def test_python_and_what_runs_once_do_not_count() -> None:
    assert bench.part_of("/build/Vnf___024root__0__Slow.cpp", 3, False) == ""
    assert bench.part_of("/usr/src/Python/ceval.c", 3, False) == ""
    assert bench.part_of("/some/include/verilated_funcs.h", 3, False) == bench.OPERATORS
    assert bench.part_of("/some/verif/host/link_tx.cpp", 3, False) == bench.HOST


def test_a_result_of_cachegrind_is_summed_by_line() -> None:
    text = (
        "desc: I1 cache: 32768 B\ncmd: python\nevents: Ir I1mr ILmr\n"
        "fl=/x/verilated_funcs.h\nfn=one\n7 100 5 1\n8 1 0 0\nfn=two\n7 20 2 0\n"
        "fl=/usr/src/ceval.c\nfn=eval\n7 9999 1 1\nsummary: 10120 8 2\n"
    )
    assert dict(bench.lines_of(text)) == {
        ("/x/verilated_funcs.h", 7): (120, 7),
        ("/x/verilated_funcs.h", 8): (1, 0),
    }


def test_the_table_is_of_clocks_and_ends_with_the_sum() -> None:
    rows = bench.table("FP32", 10, Counter({"hdl": 50, "hdl/link": 150}), Counter({"hdl": 5}))
    assert [row.split() for row in rows[1:]] == [
        ["hdl/link", "15", "0.0", "75", "%"],
        ["hdl", "5", "0.5", "25", "%"],
        ["all", "20", "0.5", "100", "%"],
    ]
    with pytest.raises(NfError, match="nothing of the model was counted"):
        bench.table("FP32", 10, Counter(), Counter())


def test_without_valgrind_one_line_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NfError, match=r"needs valgrind, .* apt-get install valgrind"):
        bench.run(argparse.Namespace(lines=1, files=False), tmp_path / "out")

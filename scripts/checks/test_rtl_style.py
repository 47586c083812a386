# SPDX-License-Identifier: Apache-2.0
"""Tests of the check of RTL style: it finds each fault, and accepts a clean source."""

from __future__ import annotations

import pytest

from scripts.checks import rtl_style


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("x" * 101, "101 columns"),
        ("\tassign a = b;", "tab"),
        ("assign a = b; ", "blank at the end"),
        ("  localparam logic [2:0] OP_VOTE = 3'd1;", "OP_VOTE belongs into an enum"),
        ("    localparam logic [0:0] ON   = 1'b1;  // a comment", "ON belongs"),
        ("  nf_chain u_chain (.a, .d ('1), .sum);", "'1 at port d is one bit under Icarus"),
    ],
)
def test_found(line: str, says: str) -> None:
    ((number, what),) = rtl_style.faults(f"module m;\n{line}\nendmodule\n")
    assert number == 2
    assert says in what


def test_a_function_that_reads_a_signal() -> None:
    """Check that a function that reads a signal that is no argument is reported.

    The RTL once lost a write: the arguments did not change, but other inputs did.
    """
    text = """module m;
  // Both are the same in hardware.
  function automatic logic [7:0] ones(input logic hit, input pair_t p);
    logic [7:0] twice;
    twice = {WIDTH{p.low}} & 8'(index_of(hit) + 8'd2);
    for (int i = 0; i < 2; i++) twice = hit ? twice << i : DATA; /* data */
    return %s;
  endfunction
endmodule
"""
    assert not list(rtl_style.faults(text % "twice"))
    found = [(3, "function ones reads data, which is no argument of it")]
    assert list(rtl_style.faults(text % "twice | data[1]")) == found


def test_no_newline_at_the_end() -> None:
    assert list(rtl_style.faults("module m;\nendmodule")) == [(2, "no newline at the end")]


@pytest.mark.parametrize(
    "line",
    [
        "x" * 100,
        "  localparam logic [63:0] MASK = 64'h0000_00FF_0000_0001;",
        "  localparam logic [7:0] LAST = 8'(DEPTH - 1);",
        "  localparam int WIDTH = 8;",
        "// § is one column, as every character is: " + "§" * 56,
    ],
)
def test_allowed(line: str) -> None:
    assert not list(rtl_style.faults(f"{line}\n"))

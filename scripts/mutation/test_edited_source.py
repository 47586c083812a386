# SPDX-License-Identifier: Apache-2.0
"""Tests of mutants by hand: which of them one build holds, and that each stays what it was."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from scripts.build.filelist import read_filelist
from scripts.common.paths import ROOT
from scripts.common.records import FILELIST, TOP, Edit
from scripts.mutation.edited_source import Placed, place
from scripts.mutation.run_mutants import variant
from scripts.plan import listed_mutants
from scripts.plan.listed_mutants import ForeignMutant

FILES = read_filelist(ROOT, FILELIST)
COUNTER = "hdl/regs/nf_counter.sv"
ASSIGN = "assign count = count_q;"
STATEMENT = "else if (clear)     count_q <= WIDTH'(inc);"
CLEAR = "(clear)     count"
DECLARATION = "  logic [WIDTH-1:0] count_q;\n"


def _placed(*edits: Sequence[Edit]) -> tuple[Placed, dict[str, str]]:
    sources = {name: (ROOT / name).read_bytes().decode("latin-1") for name in FILES.sources}
    listed = [ForeignMutant(f"m{n}", "a reason", tuple(some)) for n, some in enumerate(edits)]
    return place(listed, sources, FILES, TOP), sources


CHOICE = "nf_mutation_pkg::nf_mutant =="
SHARED = {
    "assign": (ASSIGN, "assign count = ~count_q;", f"if ({CHOICE} 1) begin count = ~"),
    "condition": (CLEAR, "(clear && inc[0])     count", "(clear && inc[0]) : (clear))"),
    "wider": (CLEAR, "(clear + inc)     count", f"if ({CHOICE} 3 ||"),
    "statement": (STATEMENT, "else if (clear) count_q[0] <= 0;", "count_q[0] <= 0; end else"),
    "no statement": (STATEMENT, "", f"else if ({CHOICE} 5 ||"),
    "value": ("? '1 : sum", "? '1 : ~sum", "nf_note(6, nf_0 != nf_1)"),
    "more": (
        ASSIGN,
        "logic late_q;\n always_ff @(posedge clk) late_q <= clear;\n"
        " assign count = late_q ? '0 : count_q;",
        "logic late_q;\nalways_ff @(posedge clk) late_q <= clear;\nalways_comb begin",
    ),
}
ALONE = {
    "width": (DECLARATION, DECLARATION.replace("1:0", "2:0")),
    "parameter": ("int WIDTH = 32", "int WIDTH = 31"),
    "event": (
        "rst_n) begin\n    if (!rst_n)         count_q",
        "clk) begin\n    if (!rst_n) count_q",
    ),
    "initial": (ASSIGN, f"{ASSIGN}\n initial count_q = 1;"),
    "driven already": (ASSIGN, f"{ASSIGN}\n logic more;\n assign count[0] = more;"),
    "generate": (ASSIGN, "if (1) begin : g_more assign count = count_q; end"),
    "macro": ("`NF_ASSERT_NEVER(CountNeverWraps_A, count_q < before_q)", ""),
}


def test_edits_of_statements_share_a_build() -> None:
    placed, sources = _placed(*([Edit(COUNTER, old, new)] for old, new, _ in SHARED.values()))
    assert not placed.alone
    text = variant(placed.mutants, sources)[COUNTER]
    assert [name for name, (_, _, part) in SHARED.items() if part not in text] == []


def test_other_edits_have_separate_builds() -> None:
    placed, _ = _placed(*([Edit(COUNTER, old, new)] for old, new in ALONE.values()))
    assert placed.alone == {*placed.mutants}
    assert not placed.illegal


@pytest.mark.nightly("20 s: the design is read for each edit; the two above are the quick part")
def test_what_is_no_systemverilog_and_names_that_collide() -> None:
    both = "logic late_q;\n assign late_q = clear;\n assign count = late_q ? '0 : count_q;"
    edits = ("assign count = nothing_q;", "assign count = ;", both, both, ASSIGN)
    placed, _ = _placed(*([Edit(COUNTER, ASSIGN, new)] for new in edits))
    assert placed.illegal.keys() == {1, 2}
    assert placed.illegal[1].startswith(f"{COUNTER}:26:")
    assert "nothing_q" in placed.illegal[1]
    assert placed.alone == {1, 2, 4, 5}  # the last changes nothing


def test_the_listed_mutants_share_a_build() -> None:
    """Check a part of `verif/mutants`: nearly all share a build, and each is its edit alone."""
    listed = [m for m in listed_mutants.read()[::9] if m.edits[0].file in FILES.sources]
    placed, sources = _placed(*(one.edits for one in listed))
    assert len(placed.alone) < len(listed) / 10
    assert not placed.illegal
    for number, mutant in placed.mutants.items():
        text = mutant.mutated(sources[mutant.file])
        for edit in placed.edits[number]:
            assert "".join(edit.new.split()) in "".join(text.split())

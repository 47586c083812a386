# SPDX-License-Identifier: Apache-2.0
"""Tests of the summary for GitHub: its escapes, its rows, and its exit code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from scripts.common.errors import NfError
from scripts.common.records import CaseResult, FailureKind
from scripts.conftest import RECORD
from scripts.plan import discover
from scripts.plan.discover import TestCase
from scripts.report import ci_summary, write_report

NASTY = "100 % <b>|`x`, [a](b): *c*_d_ \\"
RED = replace(
    RECORD,
    passed=False,
    kind=FailureKind.MISMATCH,
    cause=NASTY,
    cases=(CaseResult("one/n=1", "failed", 1.0, 5.0, NASTY),),
    rerun="nf run a",
)
CRASHED = replace(RED, name="test_y::*", kind=FailureKind.CRASH, cause="died", cases=())
KNOWN = replace(RED, name="test_z::one", known="NF-1, until 2026-06-30", cause="late")


@pytest.fixture(autouse=True)
def planned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(discover, "last", lambda: [TestCase("verif.a,b.test_x", "one", "", line=7)])
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))


def test_failures_are_annotated_and_tabled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_report.write_all([RED, CRASHED, KNOWN, RECORD], "a: b", tmp_path, expected=5)
    (tmp_path / "summary.md").write_text("before\n", encoding="utf-8")
    assert ci_summary.main([str(tmp_path / "results.json")]) == 0
    text = NASTY.replace("%", "%25")
    assert capsys.readouterr().out.splitlines() == [
        "::error title=a%3A b::1 of 5 runs did not finish",
        "::error file=verif/a%2Cb/test_x.py,line=7,title=test_x%3A%3Aone/n=1 icarus default seed 1"
        f"::{text}%0Arerun: nf run a",
        "::error title=test_y%3A%3A* icarus default seed 1::died%0Arerun: nf run a",
    ]
    before, _, written = (tmp_path / "summary.md").read_text(encoding="utf-8").partition("\n")
    assert before == "before"
    rows = MarkdownIt("commonmark").enable("table").parse(written)
    cells = [one.content for one in rows if one.type == "inline"]
    assert cells[0].startswith("❌ not passed")
    shown = [
        "".join(
            child.content
            for child in one.children or ()
            if child.type == "text_special" or child.type == "text"
        )
        for one in rows
        if one.type == "inline"
    ]
    assert "1 passed, 2 failed, 1 known" in shown[1]
    assert shown[2] == "1 of 5 runs did not finish"
    assert [shown[at : at + 3] for at in (7, 11, 15)] == [
        ["failed", "test_x::one/n=1 icarus default seed 1", NASTY],
        ["failed", "test_y::* icarus default seed 1", "died"],
        ["known (NF-1, until 2026-06-30)", "test_z::one/n=1 icarus default seed 1", "late"],
    ]


def test_a_green_report_has_no_annotation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_report.write_all([RECORD], "x", tmp_path)
    assert ci_summary.main([str(tmp_path / "results.json")]) == 0
    assert capsys.readouterr().out == ""
    text = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert text.startswith("## ✅ passed: x\n\n1 passed, 0 failed")


def test_a_long_table_is_cut(tmp_path: Path) -> None:
    many = [replace(RED, id=f"{n}", seed=n + 1) for n in range(ci_summary.ROWS + 3)]
    write_report.write_all(many, "x", tmp_path)
    ci_summary.main([str(tmp_path / "results.json")])
    text = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert text.rstrip().endswith("\nand 3 more in the report")


def test_what_cannot_be_read_or_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NfError, match="cannot read"):
        ci_summary.main([str(tmp_path / "results.json")])
    write_report.write_all([RECORD], "x", tmp_path)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    with pytest.raises(NfError, match=r"cannot write .*GITHUB_STEP_SUMMARY"):
        ci_summary.main([str(tmp_path / "results.json")])

# SPDX-License-Identifier: Apache-2.0
"""The mutation score in the report: kept, read back, shown with every living mutant as a diff."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.conftest import RECORD
from scripts.report import json_file, mutation, page, write_report
from scripts.report.invocation import describe
from scripts.report.mutation import Living, Mutation, Score

FOUND = Mutation(
    command="nf mutate --sample 4 --seed 1",
    when="2026-01-01T00:00:00+00:00",
    seconds=65.0,
    overall=Score("all", killed=3, alive=1, equivalent=2, waived=1),
    modules=(Score("nf_fill", killed=3, alive=1),),
    operators=(Score("logical", killed=3, alive=1),),
    kinds=(("mismatch", 2), ("time-out", 1)),
    alive=(Living("nf_fill.logical.0123abcd", "a.sv:7", "-a && b\n+a <b> c", ("t default",)),),
    waived=(Living("nf_fill.reset.0123abcd", "a.sv:9", "-x\n+y", (), "it is read by nobody"),),
)


def test_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "score.json"
    assert mutation.read(path) is None
    mutation.write(FOUND, path)
    assert mutation.read(path) == FOUND
    path.write_text("{", encoding="utf-8")
    assert mutation.read(path) is None


def test_page_and_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutation, "read", lambda: FOUND)
    found = write_report.gather([RECORD], describe("try", [RECORD], 1.0, 1))
    shown = page.text(found, tmp_path)
    assert "3 of 4 killed (75.0 %), 2 proved equivalent, 1 waived" in shown
    assert "+a &lt;b&gt; c" in shown
    assert "ran over it: t default" in shown
    assert "it is read by nobody" in shown
    assert "no test sees a difference there" in shown
    assert '"nf_fill.logical.0123abcd"' in json_file.text(found)


def test_ratio_of_nothing() -> None:
    assert Score("none").percent == 100.0

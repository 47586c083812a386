# SPDX-License-Identifier: Apache-2.0
"""Results of earlier commands in the report, kept and read back: mutation score and proofs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from neuron_fabric.data import parse_json
from scripts.conftest import RECORD
from scripts.report import json_file, mutation, page, proofs, write_report
from scripts.report.invocation import describe
from scripts.report.mutation import Living, Mutation, Score
from scripts.report.proofs import ProofRow, Proofs

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


PROVED = Proofs(
    command="nf prove",
    rows=(
        ProofRow("fifo/three", "Order_A", "induction", 3, "proved", 1.5, "0123456789ab"),
        ProofRow("fifo/three", "Lost_A", "induction", 3, "proved", 1.5, "0123456789ab"),
        ProofRow("park/two", "Order_A", "bmc", 12, "broken", 9.0, "0123456789ab"),
        ProofRow("park/two", "Count_A", "bmc", 12, "unknown", 9.0, "0123456789ab"),
    ),
)


@pytest.mark.parametrize(("module", "found"), [(mutation, FOUND), (proofs, PROVED)])
def test_written_and_read(tmp_path: Path, module: Any, found: object) -> None:
    path = tmp_path / "kept.json"
    assert module.read(path) is None
    module.write(found, path)
    assert module.read(path) == found
    path.write_text("{", encoding="utf-8")
    assert module.read(path) is None


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


def test_proofs_in_page_and_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proofs, "read", lambda: PROVED)
    found = write_report.gather([RECORD], describe("try", [RECORD], 1.0, 1))
    shown = page.text(found, tmp_path)
    assert "4 properties: 2 proved, 1 broken, 1 unknown" in shown
    assert "Order_A, Lost_A" in shown
    rows = parse_json(json_file.text(found))["proofs"]["rows"]
    assert [row["result"] for row in rows] == ["proved", "proved", "broken", "unknown"]


def test_what_ran_again_is_renewed() -> None:
    again = ProofRow("park/two", "Order_A", "bmc", 12, "bounded", 8.0, "next")
    found = PROVED.renewed("nf prove park", [again], {"fifo/three", "park/two"})
    assert [(row.proof, row.result) for row in found.rows] == [
        ("fifo/three", "proved"),
        ("fifo/three", "proved"),
        ("park/two", "bounded"),
    ]
    assert PROVED.renewed("nf prove park", [again], {"park/two"}).rows == (again,)

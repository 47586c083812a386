# SPDX-License-Identifier: Apache-2.0
"""Proofs in the report: kept, read back, shown by proof with their properties."""

from __future__ import annotations

from pathlib import Path

import pytest

from neuron_fabric.data import parse_json
from scripts.conftest import RECORD
from scripts.report import json_file, page, proofs, write_report
from scripts.report.invocation import describe
from scripts.report.proofs import ProofRow, Proofs

FOUND = Proofs(
    command="nf prove",
    rows=(
        ProofRow("fifo/three", "Order_A", "induction", 3, "proved", 1.5, "0123456789ab"),
        ProofRow("fifo/three", "Lost_A", "induction", 3, "proved", 1.5, "0123456789ab"),
        ProofRow("park/two", "Order_A", "bmc", 12, "broken", 9.0, "0123456789ab"),
        ProofRow("park/two", "Count_A", "bmc", 12, "unknown", 9.0, "0123456789ab"),
    ),
)


def test_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "prove.json"
    assert proofs.read(path) is None
    proofs.write(FOUND, path)
    assert proofs.read(path) == FOUND
    path.write_text("{", encoding="utf-8")
    assert proofs.read(path) is None


def test_page_and_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proofs, "read", lambda: FOUND)
    found = write_report.gather([RECORD], describe("try", [RECORD], 1.0, 1))
    shown = page.text(found, tmp_path)
    assert "4 properties: 2 proved, 1 broken, 1 unknown" in shown
    assert "Order_A, Lost_A" in shown
    rows = parse_json(json_file.text(found))["proofs"]["rows"]
    assert [row["result"] for row in rows] == ["proved", "proved", "broken", "unknown"]


def test_what_ran_again_is_renewed() -> None:
    again = ProofRow("park/two", "Order_A", "bmc", 12, "bounded", 8.0, "next")
    found = FOUND.renewed("nf prove park", [again], {"fifo/three", "park/two"})
    assert [(row.proof, row.result) for row in found.rows] == [
        ("fifo/three", "proved"),
        ("fifo/three", "proved"),
        ("park/two", "bounded"),
    ]
    assert FOUND.renewed("nf prove park", [again], {"park/two"}).rows == (again,)

# SPDX-License-Identifier: Apache-2.0
"""`nf regress`: what the simulators read back is compared, and the report knows of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from scripts.cli import regress
from scripts.common.records import FailureKind


def results(folder: Path, changed: str = "") -> None:
    """Of every route, by both transports of two simulators; one of them has another bit."""
    from safetensors.numpy import save_file

    for route in regress.ROUTES:
        for who in ("verilator", "verilator-bulk", "icarus", "icarus-bulk"):
            name = f"{who}-{route}-step-000060.safetensors"
            values = np.arange(4, dtype=np.float32) + np.float32(name.startswith(changed or "-"))
            save_file({"fc.weight": values}, folder / name)


def test_the_report_has_the_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Green: a check and a run each. Before, the report was green whatever it said."""
    monkeypatch.setattr(regress, "OUT", tmp_path)
    results(tmp_path)
    step, record = regress.compare(["verilator", "icarus"])
    assert (step.returncode, step.passed, step.failed) == (0, 1, 0)
    assert (record.passed, record.kind, record.cause) == (True, None, "")
    assert record.sim == "verilator+icarus"
    results(tmp_path, changed="icarus-bulk-mix")
    step, record = regress.compare(["verilator", "icarus"])
    assert (step.returncode, step.passed, step.failed) == (1, 0, 1)
    assert (record.passed, record.kind) == (False, FailureKind.MISMATCH)
    assert record.cause.startswith("mix: ")
    assert "icarus-bulk" in record.cause
    assert record.cause in (tmp_path / "agree.log").read_text(encoding="utf-8")
    assert record.rerun.endswith("nf regress")

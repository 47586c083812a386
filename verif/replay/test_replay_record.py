# SPDX-License-Identifier: Apache-2.0
"""A replay leaves the record of a run, as `nf regress` reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from neuron_fabric.data import read_object
from scripts.common.records import FailureKind, RunRecord
from verif.conftest import SignalModel, nf_replay


@pytest.mark.parametrize("passed", [True, False])
def test_a_replay_leaves_the_record_of_a_run(
    capture: Path, signal_model: SignalModel, tmp_path: Path, passed: bool
) -> None:
    signal_model.passed = passed
    assert nf_replay(signal_model, capture, "--steps", 3, "--record", tmp_path / "r") == 1 - passed
    found = RunRecord.from_json(read_object(tmp_path / "r" / "record.json"))
    assert (found.name, found.sim, found.passed) == ("replay::capture", "verilator", passed)
    assert found.cycles == 1003
    assert (found.kind, found.cause) == (
        (None, "") if passed else (FailureKind.MISMATCH, "mismatch: it says so (log: run.log)")
    )
    (beside,) = signal_model.files.rglob("record.json")
    assert RunRecord.from_json(read_object(beside)) == found

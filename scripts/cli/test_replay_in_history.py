# SPDX-License-Identifier: Apache-2.0
"""Test that a replay is recorded in the history like a run, and that `nf rerun` repeats it."""

from __future__ import annotations

import argparse
from dataclasses import replace as with_fields
from pathlib import Path

import pytest

from scripts.cli import replay, rerun
from scripts.common.errors import NfError
from scripts.common.records import FILELIST, TOP, BuildSpec, RunSpec
from scripts.conftest import RECORD
from scripts.farm.replay_run import write_history
from scripts.history.database import History


def test_a_replay_is_recorded_and_driven_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scripts.common.paths.HISTORY", tmp_path / "history.sqlite")
    words = ".venv/bin/nf replay 'my grads' --steps 3 --transport bulk"
    red = with_fields(RECORD, name="replay::my_grads", passed=False, cause="a line", rerun=words)
    spec = RunSpec(BuildSpec(red.sim, TOP, FILELIST), "replay", ("my_grads",), rerun=words)
    write_history([(spec, red)])
    with History(write=False) as history:
        (one,) = history.runs(globs=["replay::*"])
    assert (one.result, one.record.cause, one.spec.rerun) == ("failed", "a line", words)
    driven: list[argparse.Namespace] = []

    def drive(args: argparse.Namespace) -> int:
        driven.append(args)
        return 1

    monkeypatch.setattr(replay, "run", drive)
    asked = argparse.Namespace(id=str(one.id), waves=False, timeout=9.0)
    assert rerun.run(asked) == 1
    assert driven[0].capture == "my grads"
    assert (driven[0].transport, driven[0].timeout) == ("bulk", 9.0)
    monkeypatch.setenv("NF_ICARUS", "/opt/icarus/bin/iverilog")
    with pytest.raises(NfError, match=r"was made without NF_ICARUS: unset it, or use `nf run`\."):
        rerun.run(asked)

# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf close`: the exit code when nothing was measured, and its time limit."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.cli import close
from scripts.cli.conftest import Nf
from scripts.common import paths, process
from scripts.common.records import RunRecord, RunSpec
from scripts.conftest import record
from scripts.run import simulate
from verif.coverage.cover_model import FUNCTIONAL

WORDS = ("--test", "test_scenario::mixed", "--point", "memory", "--jobs", "1")


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the folders of builds and reports to the folder of the test."""
    monkeypatch.setattr(paths, "BUILD", tmp_path)
    monkeypatch.setattr(paths, "REPORT", tmp_path / "report")
    monkeypatch.setattr(close, "RUNS", tmp_path / "close")


@pytest.mark.parametrize(("metrics", "code"), [({"memory": {"read": 20}}, 0), ({}, 1)])
def test_runs_that_measure_nothing_are_red(
    metrics: dict[str, dict[str, int]],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    nf: Nf,
) -> None:
    def one(spec: RunSpec, _folder: object) -> RunRecord:
        found = {FUNCTIONAL: metrics}
        return replace(record(), id=spec.id, seed=spec.seed, cycles=100, metrics=found)

    monkeypatch.setattr(simulate, "run", one)
    out = nf("close", *WORDS, "--runs", "2", "--plain", "0", code=code)
    assert ("no green run measured" in out) == bool(code)
    assert (tmp_path / "report" / close.PAGE).is_file()


def test_minutes_bound_the_whole_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nf: Nf
) -> None:
    """Check that `--minutes` also ends a build that takes longer."""

    def builds(spec: RunSpec, _folder: object) -> RunRecord:
        process.run_logged(["sleep", "120"], tmp_path / "log", cwd=tmp_path)
        raise AssertionError("it was not ended")

    monkeypatch.setattr(simulate, "run", builds)
    start = time.monotonic()
    out = nf("close", *WORDS, "--minutes", "0.05", code=1)
    assert time.monotonic() - start < 60
    assert "nf close: 0.05 minutes are over; what was under way is ended" in out
    assert "no green run measured" in out

# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf measure bench runner`: its table, its exit code, and one small measurement."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from scripts.benchmarks import bench_runner
from scripts.benchmarks.goals import SpeedGoal
from scripts.cli import main as cli
from scripts.conftest import QUICK
from scripts.plan.discover import discover, select


@pytest.mark.parametrize(("value", "code"), [(5.9, 0), (6.1, 1)])
def test_missed_goal_is_an_error(monkeypatch: pytest.MonkeyPatch, value: float, code: int) -> None:
    monkeypatch.setattr(bench_runner, "_specs", lambda args, sims: [])
    monkeypatch.setattr(bench_runner, "_jobs", lambda specs: [])
    monkeypatch.setattr(bench_runner, "_rebuild", lambda sim: SpeedGoal("rebuild", 0.1, 1.0))
    monkeypatch.setattr(bench_runner, "_empty", lambda sim: SpeedGoal("empty", value, 6.0))
    assert bench_runner.run(argparse.Namespace(sim=str(QUICK))) == code


@pytest.mark.nightly("600 simulations; the goals and their table are tested without")
def test_empty_tests_are_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bench_runner, "FOLDER", tmp_path)
    monkeypatch.setattr(bench_runner, "EMPTY", 4)
    row = bench_runner._empty(QUICK)
    assert 0.3 < row.value < 40
    assert len(list((tmp_path / "runs").glob("*copy*/record.json"))) == 4


def test_red_test_is_no_measurement(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        cli.main(["measure", "bench", "runner", "--quick", "no_such::test", "--sim", str(QUICK)])
        == 2
    )
    assert "no test matches" in capsys.readouterr().err


def test_quick_names_tests_that_exist() -> None:
    assert select(discover(), bench_runner.QUICK)

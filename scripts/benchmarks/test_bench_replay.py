# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf measure bench`: exit codes, wrong options, one small real measurement."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from scripts.benchmarks import bench_replay as bench
from scripts.benchmarks.goals import SpeedGoal, table
from scripts.cli.main import main
from verif.mem.memory_timing import LATENCIES


def test_a_goal_that_is_missed_says_so() -> None:
    _, missed, reached = table([SpeedGoal("a", value, 0.85, least=True) for value in (0.84, 0.85)])
    assert missed.split() == ["a", "0.84", ">=", "0.85", "MISSED"]
    assert reached.endswith("ok")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("misses --only xyz", "--only 'xyz': no row's name has that"),
        ("misses --lines 255", "'255' is not a number from 256 to 16384"),
        ("hook --rate fast", "'fast' is no rate, as 100mbit or 1gbit"),
    ],
)
def test_options_that_measure_nothing(
    capsys: pytest.CaptureFixture[str], words: str, text: str
) -> None:
    """Check one error line and exit code 2 for options that select nothing or are wrong."""
    try:
        code: object = main(["measure", "bench", *words.split()])
    except SystemExit as end:
        code = end.code
    said = capsys.readouterr()
    assert (code, said.out, len(said.err.splitlines())) == (2, "", 1)
    assert text in said.err


@pytest.mark.nightly(
    "compiles a bare harness of its own for half a minute; its parts are tested by themselves"
)
def test_one_small_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "SIGNAL_LINES", 24)
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    assert tuple(parser.parse_args([]).memory_latency) == LATENCIES == (3, 48, 100, 300)
    args = parser.parse_args(["--runs", "1", "--lines", "64", "--memory-latency", "7"])
    bench.run(args, tmp_path / "files")  # too short to judge the ratios
    shown = capsys.readouterr().out
    for text in (bench.BARE, bench.BULK, bench.SIGNAL, "at memory latency 7 (b) / (c)"):
        assert text in shown
    assert "to start, peak memory" in shown

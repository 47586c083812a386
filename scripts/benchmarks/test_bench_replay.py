# SPDX-License-Identifier: Apache-2.0
"""`nf measure bench replay`: when it is red, and one small real measurement."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from scripts.benchmarks import bench_replay as bench
from scripts.benchmarks.goals import SpeedGoal, table
from verif.mem.memory_config import MemConfig
from verif.mem.memory_timing import LATENCIES, MemoryTiming


def test_a_goal_that_is_missed_says_so() -> None:
    _, missed, reached = table([SpeedGoal("a", value, 0.85, least=True) for value in (0.84, 0.85)])
    assert missed.split() == ["a", "0.84", ">=", "0.85", "MISSED"]
    assert reached.endswith("ok")


def test_the_memory_that_is_printed_is_the_one_that_is_driven() -> None:
    """At signal level; the C++ memory takes the same three numbers."""
    timing, config = MemoryTiming(48, beat=2, stall=25), MemConfig()
    timing.apply(config)
    assert (config.latency, config.beat) == ((48, 48), 2)
    assert config.aw_stall == config.w_stall == config.ar_stall == 0.25
    assert str(timing) == "memory latency 48, 2 clocks a beat, 25 % stalled"
    assert str(MemoryTiming()) == "memory latency 100"
    for wrong in ({"latency": 0}, {"latency": 10_001}, {"beat": 0}, {"stall": 91}):
        with pytest.raises(ValueError, match="memory"):
            MemoryTiming(**wrong)


def test_every_latency_is_measured_unless_others_are_named() -> None:
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    assert tuple(parser.parse_args([]).memory_latency) == LATENCIES == (3, 48, 100, 300)
    assert parser.parse_args(["--memory-latency", "7"]).memory_latency == [7]


@pytest.mark.nightly(
    "compiles a bare harness of its own for half a minute; its parts are tested by themselves"
)
def test_one_small_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "SIGNAL_LINES", 24)
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    args = parser.parse_args(
        ["--sim", "verilator", "--runs", "1", "--lines", "64", "--memory-latency", "7"]
    )
    bench.run(args, tmp_path / "files")  # too short to judge the ratios
    shown = capsys.readouterr().out
    assert "memory latency 7 in (a), (b) and (c)" in shown
    for text in ("(a) bare C++ harness", "(b) bulk, all checks", "(c) signal level", "(b) / (c)"):
        assert text in shown
    assert "to start" in shown
    assert "peak memory" in shown

# SPDX-License-Identifier: Apache-2.0
"""`nf bench replay`: when it is red, and one small real measurement."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from scripts.benchmarks import bench_replay as bench
from scripts.benchmarks.goals import Goal, table
from verif.host.c_interface import MEMORY_LATENCY
from verif.mem.memory_config import MemConfig


def test_a_goal_that_is_missed_says_so() -> None:
    _, missed, reached = table([Goal("a", value, 0.85, least=True) for value in (0.84, 0.85)])
    assert missed.split() == ["a", "0.84", ">=", "0.85", "MISSED"]
    assert reached.endswith("ok")


def test_the_memory_latency_that_is_printed_is_the_one_that_is_driven() -> None:
    """The C++ memory takes it from the same constant."""
    assert MemConfig().latency == (MEMORY_LATENCY,) * 2, "signal level"


@pytest.mark.nightly(
    "compiles a bare harness of its own for half a minute; its parts are tested by themselves"
)
def test_one_small_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "SIGNAL_LINES", 24)
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    args = parser.parse_args(["--sim", "verilator", "--runs", "1", "--lines", "64"])
    bench.run(args, tmp_path / "files")  # too short to judge the ratios
    shown = capsys.readouterr().out
    assert "memory latency 3 clocks" in shown
    for text in ("(a) bare C++ harness", "(b) bulk, all checks", "(c) signal level", "(b) / (c)"):
        assert text in shown
    assert "to start" in shown
    assert "peak memory" in shown

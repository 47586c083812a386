# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf measure bench`: goals, options, and the measurements of each bench."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from scripts.benchmarks import bench_collectives, bench_misses
from scripts.benchmarks.bench_hook import at_home, by_links, hidden, shown
from scripts.benchmarks.bulk_loads import BulkLoads
from scripts.benchmarks.goals import SpeedGoal, table
from scripts.build import bulk_build
from scripts.cli.main import main
from scripts.ranks import node_network
from verif.mem.memory_timing import LATENCIES, MemoryTiming


def parsed(bench: ModuleType, *words: str) -> argparse.Namespace:
    """Return the parsed options of a bench."""
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    return parser.parse_args(words)


def test_a_goal_that_is_missed_says_so() -> None:
    _, missed, reached = table([SpeedGoal("a", value, 0.85, least=True) for value in (0.84, 0.85)])
    assert missed.split() == ["a", "0.84", ">=", "0.85", "MISSED"]
    assert reached.endswith("ok")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("misses --only xyz", "--only 'xyz': no row's name has that"),
        ("misses --lines 255", "'255' is not a number from 1024 to 16384"),
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


# ---- misses ------------------------------------------------------------------------------------
SLIP = 1.05
LINES = 2048
MEASURED = {
    ("hits: contributions, lines a clock", 300): 0.8,
    ("stream W 8: contributions, lines a clock", 48): 0.8,
    ("stream W 8, tiles of one line: lines a clock", 48): 0.8,
    ("worker-major W 8: lines a clock", 48): 0.274,
    ("misses, G_BINARY W 8: clocks a line", 300): 5.08,
    ("one at a time: miss, G_BINARY W 8", 300): 316.0,
    ("one at a time: first FP32 store of a line", 300): 318.0,
    ("plain read beside contributions that miss: clocks", 300): 315.0,
}
"""Clocks of LINES lines a worker, by row and memory latency."""


def test_targets_are_of_rows_and_latencies_that_are_measured() -> None:
    assert tuple(parsed(bench_misses).memory_latency) == LATENCIES
    for name, latency, _, _ in bench_misses.TARGETS:
        assert name in bench_misses.ROWS
        assert latency in LATENCIES
    assert all(name in bench_misses.ROWS for name, _ in MEASURED)


@pytest.mark.nightly("20 s: a build; test_overlaps compares clocks in every change")
def test_clocks_do_not_slip(tmp_path: Path) -> None:
    """Check that no measured row is more than 5 % worse than its known value.

    Rates in lines a clock must not decrease, clocks must not increase.
    """
    model = bulk_build.build("verilator")
    slipped = {}
    for (name, latency), wanted in MEASURED.items():
        found = bench_misses.ROWS[name](BulkLoads(model, tmp_path, MemoryTiming(latency), LINES))
        good = found * SLIP >= wanted if "lines a clock" in name else found <= SLIP * wanted
        if not good:
            slipped[name, latency] = found, wanted
    assert not slipped


@pytest.mark.nightly(
    "every row at two latencies; the clocks of the rows that matter are tested above"
)
def test_every_target_is_met(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench_misses.run(parsed(bench_misses, "--memory-latency", "48", "300")) == 0
    assert "MISSED" not in capsys.readouterr().out


# ---- hook ------------------------------------------------------------------------------------
MIB = 1 << 20
FOUND: dict[str, Any] = {
    "bucket": {"plain": [0.5, 0.3, 9.0], "low": [0.2, 0.2, 0.1], "alone": [0.1, 0.1, 0.1]},
    "step": {
        "plain": [1.0, 1.0, 1.0],
        "fp32": [1.02, 1.02, 9.0],
        "low": [0.4, 0.4, 0.4],
        "alone": [0.2, 0.2, 0.2],
    },
    "fine": {"low": [0.4, 0.4, 0.4], "alone": [0.2, 0.2, 0.2]},
    "long": {"low": [1.05, 1.05, 1.05], "alone": [1.0, 1.0, 1.0]},
    "memory": {"plain": 500 * MIB, "low": 510 * MIB},
    "gradients": 100 * MIB,
}


def test_backward_is_left_out_of_a_bucket() -> None:
    """Check the goals of made-up times, from which the time of backward is subtracted.

    0.4 s of plain DDP's 0.5 s are communication, and 0.1 s of the hook's 0.2 s.
    """
    home = {one.name: one.value for one in at_home(FOUND)}
    assert home["bucket, votes / plain"] == pytest.approx(0.25)
    assert home["step, all FP32 / plain"] == pytest.approx(1.02)
    assert home["memory / gradients"] == pytest.approx(0.10)
    assert all(one.good for one in at_home(FOUND))
    links = [one.value for one in by_links("1gbit", FOUND)]
    assert links == pytest.approx([0.25, 0.4])
    [share] = hidden("1gbit", FOUND)
    assert share.value == pytest.approx(0.75)
    assert share.good
    assert shown("x", FOUND)[0] == (
        "x         bucket plain    500.0 ms  low    200.0 ms  alone    100.0 ms  "
    )


def test_goals_are_missed() -> None:
    """Check that goals are missed for too much memory, too little hiding, and a slower bucket.

    The ratio is 1 if plain DDP has no communication time.
    """
    slow = {**FOUND, "long": {"low": [1.1], "alone": [1.0]}}
    slow |= {"bucket": {"plain": [0.2], "low": [0.3], "alone": [0.2]}}
    slow |= {"memory": {"plain": 0, "low": 16 * MIB}}
    assert [one.good for one in at_home(slow)] == [True, False, False]
    assert not hidden("x", slow)[0].good


@pytest.mark.nightly("eight processes import torch and train for a minute")
def test_it_is_measured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_network, "why_not", lambda: "no root here")
    assert main(["measure", "bench", "hook", "--runs", "1"]) in (0, 1)
    out = capsys.readouterr().out
    assert "1gbit: left out (no root here)" in out
    assert "hidden, buckets of a layer, backward 4 x, loopback" in out


def _cell(gloo: float, pool: float, wrong: int = 0, exact: bool = True) -> dict[str, Any]:
    times = {"gloo": [gloo] * 3, "pool": [pool] * 3}
    return {"seconds": times, "cpu": times, "wrong": wrong, "exact": exact}


def test_goals_of_collectives_can_be_missed() -> None:
    good = {2: {"all_reduce 4096": _cell(4.0, 2.0)}, 4: {"broadcast 65536": _cell(3.0, 2.0)}}
    bad = {2: {"all_reduce 4096": _cell(1.0, 2.0, wrong=1, exact=False)}}
    assert all(goal.good for goal in bench_collectives.goals(good))
    assert not any(goal.good for goal in bench_collectives.goals(bad))
    assert bench_collectives.shown(good)[1].split()[-2:] == ["2.00", "2.00"]

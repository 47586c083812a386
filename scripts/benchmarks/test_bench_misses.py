# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf measure bench misses`: its rows, and clocks of misses, within 5 % of known ones."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from scripts.benchmarks import bench_misses as bench
from scripts.benchmarks.bulk_loads import BulkLoads
from scripts.build import bulk_build
from verif.mem.memory_timing import LATENCIES, MemoryTiming

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


def parsed(*words: str) -> argparse.Namespace:
    """Return the parsed options of the command."""
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    return parser.parse_args(words)


def test_targets_are_of_rows_and_latencies_that_are_measured() -> None:
    assert tuple(parsed().memory_latency) == LATENCIES
    for name, latency, _, _ in bench.TARGETS:
        assert name in bench.ROWS
        assert latency in LATENCIES
    assert all(name in bench.ROWS for name, _ in MEASURED)


def test_clocks_do_not_slip(tmp_path: Path) -> None:
    """Check that no measured row is more than 5 % worse than its known value.

    Rates in lines a clock must not decrease, clocks must not increase.
    """
    model = bulk_build.build("verilator")
    slipped = {}
    for (name, latency), wanted in MEASURED.items():
        found = bench.ROWS[name](BulkLoads(model, tmp_path, MemoryTiming(latency), LINES))
        good = found * SLIP >= wanted if "lines a clock" in name else found <= SLIP * wanted
        if not good:
            slipped[name, latency] = found, wanted
    assert not slipped


@pytest.mark.nightly(
    "every row at two latencies; the clocks of the rows that matter are tested above"
)
def test_every_target_is_met(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.run(parsed("--memory-latency", "48", "300")) == 0
    assert "MISSED" not in capsys.readouterr().out

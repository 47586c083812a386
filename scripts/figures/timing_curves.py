# SPDX-License-Identifier: Apache-2.0
"""Many accesses under way: clocks over load, working set, tile and skew."""

from __future__ import annotations

from functools import partial

from scripts.figures import timing_loads as loads
from scripts.figures.result_file import Plot
from scripts.figures.timing_bench import (
    LAST,
    LATENCY,
    READ,
    SUMS_APART,
    Access,
    Bench,
    Found,
    curve,
    modes_of,
)
from scripts.figures.timing_loads import PLAIN, SLOTS, Setting
from verif.mem.memory_timing import MemoryTiming

OUTSTANDING = (1, 2, 4, 8, 16, 32, 64)
WORKING_SETS = (16, 32, 64, 96, 128, 256, 1024)
TILES = (1, 4, 16, 32, 64, 128, 512)
SKEWS = (0, 4, 16, 32, 64, 128)
_SHOWN = (PLAIN, "IDENTITY", "G_BINARY", "G_TERNARY", "G_INT4", "FP32")
_NOT_SHOWN = (
    "G_INT8 is left out: it lies on G_INT4, as both take the accesses to memory of G_BINARY.",
)
AT = MemoryTiming(LATENCY)
TILED = Setting(AT, 8, lines=TILES[-1])


def over_load(bench: Bench, found: Found) -> None:
    """Clocks an access over the number of accesses that are under way."""
    for access in (LAST, READ):
        lines = [
            curve(name, OUTSTANDING, partial(_at_load, bench, access, name))
            for name in modes_of(access)
        ]
        found.plots.append(
            Plot(
                f"{access.name}, all misses: clocks over load, memory latency {LATENCY}",
                *("accesses under way", "clocks an access", tuple(lines)),
                (SUMS_APART,) if access.worker is None else (),
            )
        )


def over_working_set(bench: Bench, found: Found) -> None:
    """All contributions of eight workers, worker after worker, to more and more lines."""
    shares = [lines / SLOTS for lines in WORKING_SETS]
    lines = [curve(name, shares, partial(_worker_after_worker, bench, name)) for name in _SHOWN]
    found.plots.append(
        Plot(
            f"Worker after worker, 8 workers: clocks over working set, memory latency {LATENCY}",
            *("lines / slots", "clocks a contribution", tuple(lines), _NOT_SHOWN),
        )
    )


def over_tile_and_skew(bench: Bench, found: Found) -> None:
    """All contributions of eight workers in tiles, or each so many lines behind the other."""
    for title, axis, value, unit in (
        ("tile size", TILES, _in_tiles, "lines that a worker writes before the next one"),
        ("worker skew", SKEWS, _behind, "lines that each worker is behind the one before"),
    ):
        lines = [curve(name, axis, partial(value, bench, name)) for name in _SHOWN]
        found.plots.append(
            Plot(
                f"8 workers, {TILED.lines} lines: clocks over {title}, memory latency {LATENCY}",
                *(unit, "clocks a contribution", tuple(lines), _NOT_SHOWN),
            )
        )


def _at_load(bench: Bench, access: Access, name: str, count: float) -> float:
    where = Setting(AT, access.workers, lines=4 * SLOTS, outstanding=int(count))
    return bench.run(name, where, access.stimulus(where)).clocks_each


def _worker_after_worker(bench: Bench, name: str, share: float) -> float:
    where = Setting(AT, 8, lines=int(share * SLOTS))
    return bench.run(name, where, loads.tiles(where, where.lines)).clocks_each


def _in_tiles(bench: Bench, name: str, tile: float) -> float:
    return bench.run(name, TILED, loads.tiles(TILED, int(tile))).clocks_each


def _behind(bench: Bench, name: str, skew: float) -> float:
    return bench.run(name, TILED, loads.skewed(TILED, int(skew))).clocks_each

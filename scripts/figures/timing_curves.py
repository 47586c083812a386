# SPDX-License-Identifier: Apache-2.0
"""Many accesses under way: over load, working set, tile, skew, and where bandwidth is scarce."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial

from scripts.figures import timing_loads as loads
from scripts.figures.result_file import Cell, Column, Line, Plot, Table
from scripts.figures.timing_bench import (
    LAST,
    LATENCY,
    READ,
    SECOND,
    SUMS_APART,
    Access,
    Bench,
    Found,
    curve,
    modes_of,
)
from scripts.figures.timing_loads import LOW_BIT, MODES, PLAIN, SLOTS, Setting, Stimulus, exposed
from scripts.figures.timing_stages import IN_ORDER, percentiles, split
from verif.mem.memory_timing import MemoryTiming

OUTSTANDING = (1, 2, 4, 8, 16, 32, 64)
WORKING_SETS = (16, 32, 64, 96, 128, 256, 1024)
TILES = (1, 4, 16, 32, 64, 128, 512)
SKEWS = (0, 4, 16, 32, 64, 128)
LINKS = {"x16": 1, "x8": 2, "x4": 4}
FOLLOWED_LINKS = ("x16", "x4")  # where the device bounds the rate, and where the link does
BEATS = (1, 2, 4)
MANY = 1024
"""Lines where rates are measured: filling and emptying the queues is then a small part."""
_SHOWN = (PLAIN, "IDENTITY", "G_BINARY", "G_TERNARY", "G_INT4", "FP32")
"""In plots where G_INT8 lies on G_INT4, as both take the accesses of G_BINARY."""
AT = MemoryTiming(LATENCY)
TILED = Setting(AT, 8, lines=TILES[-1])
_BIN = 20
"""Clocks of a bin of the histograms."""


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


def stages_under_load(bench: Bench, found: Found) -> None:
    """Latency of each kind of request with full credits: its distribution, by stage."""
    rows: list[tuple[Cell, ...]] = []
    lines: list[Line] = []
    for access in (LAST, READ):
        where = Setting(AT, access.workers, lines=4 * SLOTS)
        for name in modes_of(access):
            came = bench.run(name, where, access.stimulus(where))
            for part, clocks in split(came).items():
                rows.append((access.name, name, part, *percentiles(clocks)))
            rows.append((access.name, name, "whole", *percentiles(came.each)))
            if name in (PLAIN, "G_BINARY"):
                bins = Counter((came.each // _BIN * _BIN).tolist())
                points = tuple((float(at), 100 * bins[at] / came.accesses) for at in sorted(bins))
                lines.append(Line(f"{name}, {access.name}", points))
    found.tables.append(
        Table(
            f"Full credits, all misses, memory latency {LATENCY}: clocks of an access by stage",
            (
                *(Column("access"), Column("mode"), Column("stage")),
                *(Column("least"), Column("median"), Column("95 of 100"), Column("most")),
            ),
            tuple(rows),
            (
                "unit: the engine, the FP32 path or plain memory, with its accesses to memory; "
                f"stages: {', '.join(IN_ORDER)}.",
            ),
        )
    )
    found.plots.append(
        Plot(
            f"Latency with full credits, all misses, memory latency {LATENCY}",
            *("clocks of an access", f"% of the accesses, bins of {_BIN} clocks", tuple(lines)),
        )
    )


def over_working_set(bench: Bench, found: Found) -> None:
    """All contributions of eight workers, worker after worker, to more and more lines."""
    shares = [lines / SLOTS for lines in WORKING_SETS]
    lines = [curve(name, shares, partial(_worker_after_worker, bench, name)) for name in _SHOWN]
    found.plots.append(
        Plot(
            f"Worker after worker, 8 workers: clocks over working set, memory latency {LATENCY}",
            *("lines / slots", "clocks a contribution", tuple(lines)),
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
                *(unit, "clocks a contribution", tuple(lines)),
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


def under_pressure(bench: Bench, found: Found) -> None:
    """Full credits where the link or the memory port is what bounds plain memory."""
    rows: list[tuple[Cell, ...]] = []
    for pattern in ("second worker, all misses", "8 workers in tiles of 16 lines"):
        for link, flit in LINKS.items():
            for beat in BEATS:
                where = Setting(MemoryTiming(LATENCY, beat), 8, MANY, flit_clocks=flit)
                tiled = pattern != "second worker, all misses"
                stimulus = _tiled(where) if tiled else SECOND.stimulus(where)
                plain = bench.run(PLAIN, where, stimulus)
                for name in MODES:
                    came = bench.run(name, where, stimulus)
                    percent = exposed(came, plain)
                    moved = (came.beats_read + came.beats_written) / came.accesses
                    rows.append((pattern, link, beat, name, came.clocks_each, percent, moved))
                    if name in LOW_BIT and link in FOLLOWED_LINKS and beat == 1:
                        key = f"{name}, {pattern}, full credits, {link} at {LATENCY}"
                        key = f"{key}: clocks an access"
                        found.followed[key] = round(came.clocks_each, 3)
    found.tables.append(
        Table(
            f"Full credits, memory latency {LATENCY}: exposed overhead under bandwidth pressure",
            (
                *(Column("contributions"), Column("link"), Column("clocks a beat of memory")),
                *(Column("mode"), Column("clocks an access"), Column("exposed %")),
                Column("beats at the memory port an access"),
            ),
            tuple(rows),
            (
                "Plain memory moves one beat an access; a miss fetches its record and writes "
                "another back, so that a slow memory port is the modes' own bound.",
            ),
        )
    )


def _tiled(where: Setting) -> Stimulus:
    """A quarter of the lines, as eight workers write each."""
    return loads.tiles(replace(where, lines=where.lines // 4), 16)

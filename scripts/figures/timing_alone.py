# SPDX-License-Identifier: Apache-2.0
"""One access at a time, each a miss: what every mode adds to plain memory, and where."""

from __future__ import annotations

from functools import partial

from scripts.figures import timing_loads as loads
from scripts.figures.result_file import Cell, Column, Plot, Table
from scripts.figures.timing_bench import (
    ACCESSES,
    FIRST,
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
from scripts.figures.timing_loads import LOW_BIT, MODES, PLAIN, Setting
from scripts.figures.timing_stages import ALONE, split_alone
from verif.mem.memory_timing import MemoryTiming

LATENCIES = (100, 200, 300, 400, 500, 600)
BOUND = 1.67
"""Exposed overhead in percent that is aimed at where every access misses."""
PLAIN_CLOCKS = 11
"""What an access to plain memory takes beside the latency."""


def setting(access: Access, latency: int = LATENCY) -> Setting:
    """One access at a time, twice as many lines as slots."""
    return Setting(MemoryTiming(latency), access.workers, outstanding=1)


def added(access: Access) -> int:
    """Clocks over plain memory: one of lookup, one for each plane behind the bookkeeping line, and
    behind the last beat S2, from where a completion leaves, and for data S3."""
    return 1 + access.planes + (1 if access.worker is not None else 2)


def formula(access: Access, latency: float) -> float:
    """Exposed overhead in percent."""
    return 100 * added(access) / (latency + PLAIN_CLOCKS)


def one_at_a_time(bench: Bench, found: Found) -> None:
    """Overhead of each mode and kind of access, and the clocks of each part of it."""
    rows: list[tuple[Cell, ...]] = []
    parts: list[tuple[Cell, ...]] = []
    for access in (*ACCESSES, FIRST):
        where = setting(access)
        for name in MODES:
            came = bench.run(name, where, access.stimulus(where))
            plain = bench.run(PLAIN, where, access.stimulus(where))
            over, percent = came.clocks_each - plain.clocks_each, loads.exposed(came, plain)
            missed = over - BOUND / 100 * plain.clocks_each
            word = "met" if missed <= 0 else f"missed by {missed:.1f} clocks"
            lookups = came.hits + came.misses
            rows.append(
                (
                    *(access.name, name, came.clocks_each, over, percent),
                    word if name in LOW_BIT else "",
                    100 * came.misses / lookups if lookups else None,
                )
            )
            spent = split_alone(came)
            parts.append((access.name, name, *(float(spent[one].mean()) for one in ALONE)))
            if name in LOW_BIT and access is not FIRST:
                key = f"{name}, {access.name}, one at a time at {LATENCY}: clocks over plain memory"
                found.followed[key] = round(over, 2)
    head = f"One access at a time, memory latency {LATENCY}"
    columns = (
        *(Column("access"), Column("mode"), Column("clocks", 1), Column("over plain", 1)),
        *(Column("exposed %"), Column(f"<= {BOUND} %"), Column("missed %", 0)),
    )
    found.tables.append(
        Table(
            *(f"{head}: exposed overhead", columns, tuple(rows)),
            ("missed %: of the engine's lookups; plain memory and IDENTITY have none.",),
        )
    )
    found.tables.append(
        Table(
            f"{head}: where the clocks are spent (mean)",
            (Column("access"), Column("mode"), *(Column(one, 1) for one in ALONE)),
            tuple(parts),
            ("further beats: planes behind the bookkeeping line, or lines of an FP32 sum.",),
        )
    )


def over_latency(bench: Bench, found: Found) -> None:
    """Exposed overhead over the latency of memory, the formula beside it."""
    for access in (LAST, READ):
        lines = [
            curve(name, LATENCIES, partial(_exposed_at, bench, access, name))
            for name in modes_of(access)
            if name != PLAIN
        ]
        text = f"formula: {added(access)} / (latency + {PLAIN_CLOCKS})"
        lines.append(curve(text, LATENCIES, partial(formula, access), formula=True))
        found.plots.append(
            Plot(
                f"{access.name}, one at a time: exposed overhead over memory latency",
                *("memory latency, clocks", "exposed overhead, %", tuple(lines)),
                (SUMS_APART,) if access.worker is None else (),
            )
        )


def _exposed_at(bench: Bench, access: Access, name: str, latency: float) -> float:
    where = setting(access, int(latency))
    return bench.exposed(name, where, access.stimulus(where))

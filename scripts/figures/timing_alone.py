# SPDX-License-Identifier: Apache-2.0
"""One access at a time, each a miss: what every mode adds to plain memory, and where."""

from __future__ import annotations

from collections import defaultdict
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
from scripts.figures.timing_loads import LOW_BIT, MODES, PLAIN, Setting, Timed
from scripts.figures.timing_stages import ALONE, UNIT, split_alone
from verif.mem.memory_timing import MemoryTiming

LATENCIES = (100, 200, 300, 400, 500, 600)
BOUND = 1.67
"""Exposed overhead in percent that is aimed at where every access misses."""
PLAIN_CLOCKS = 11
"""What an access to plain memory takes beside the latency."""
BEFORE = ("SL",)
"""Stages of the engine before it asks memory; S0 asks in its own clock, as plain memory does."""
BEHIND_WRITE = ("S2",)
"""Stages behind the last beat of a record: S0 issues the fill in the clock of that beat, which goes
past S1; S2 applies the contribution, and the completion leaves."""
BEHIND_READ = (*BEHIND_WRITE, "S3", "S4")
"""The same for a result: S3 and S4 compute half of the vote, or of the sums, each."""


def setting(access: Access, latency: int = LATENCY) -> Setting:
    """One access at a time, twice as many lines as slots."""
    return Setting(MemoryTiming(latency), access.workers, outstanding=1)


def behind(access: Access) -> tuple[str, ...]:
    """Stages of the engine behind the last beat of the record."""
    return BEHIND_READ if access.worker is None else BEHIND_WRITE


def added(access: Access) -> int:
    """Clocks over plain memory: a clock for each stage of the engine before and behind memory, and
    one for each plane, which are the further beats of the record behind its bookkeeping line."""
    return len(BEFORE) + access.planes + len(behind(access))


def formula(access: Access, latency: float) -> float:
    """Exposed overhead in percent."""
    return 100 * added(access) / (latency + PLAIN_CLOCKS)


def one_at_a_time(bench: Bench, found: Found) -> None:
    """Overhead of each mode and kind of access, and the clocks of each part of it."""
    rows: list[tuple[Cell, ...]] = []
    parts: list[tuple[Cell, ...]] = []
    missing: dict[str, list[str]] = defaultdict(list)
    for access in (*ACCESSES, FIRST):
        where = setting(access)
        plain = bench.run(PLAIN, where, access.stimulus(where))
        for name in MODES:
            came = bench.run(name, where, access.stimulus(where))
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
            parts.append((access.name, name, *_means(came).values()))
            if missed > 0 and name in LOW_BIT:
                missing[where_spent(access, came, plain)].append(name)
            if access is not FIRST:
                found.followed.update(_followed(access, name, came.clocks_each, over))
    head = f"One access at a time, memory latency {LATENCY}"
    columns = (
        *(Column("access"), Column("mode"), Column("clocks", 1), Column("over plain", 1)),
        *(Column("exposed %"), Column(f"<= {BOUND} %"), Column("missed %", 0)),
    )
    found.tables.append(
        Table(
            *(f"{head}: exposed overhead", columns, tuple(rows)),
            (
                "missed %: of the engine's lookups; plain memory and IDENTITY have none.",
                *(f"{', '.join(names)}, {text}" for text, names in missing.items()),
            ),
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


def where_spent(access: Access, came: Timed, plain: Timed) -> str:
    """What the clocks over plain memory are, as measured, in a sentence."""
    took, base = _means(came), _means(plain)
    more = {name: took[name] - base[name] for name in ALONE}
    before, further, after = (more[name] for name in (UNIT[0], *UNIT[2:]))
    whole = sum(more.values())
    elsewhere = f"{whole - before - further - after:.1f}".replace("-0.0", "0.0")
    return (
        f"{access.name}: {whole:.1f} clocks over plain memory are {before:.1f} before memory "
        f"({', '.join(BEFORE)}), {further:.1f} of further beats (planes of the record), "
        f"{after:.1f} behind the last one ({', '.join(behind(access))}) and {elsewhere} elsewhere."
    )


def _means(came: Timed) -> dict[str, float]:
    return {name: float(clocks.mean()) for name, clocks in split_alone(came).items()}


def _followed(access: Access, name: str, clocks: float, over: float) -> dict[str, float]:
    """What the baseline holds of a row: plain memory's own clocks, of a mode those over it."""
    key = f"{name}, {access.name}, one at a time at {LATENCY}: clocks"
    if name == PLAIN:
        return {key: round(clocks, 2)}
    return {f"{key} over plain memory": round(over, 2)}


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
        stages = ", ".join((*BEFORE, *behind(access)))
        found.plots.append(
            Plot(
                f"{access.name}, one at a time: exposed overhead over memory latency",
                *("memory latency, clocks", "exposed overhead, %", tuple(lines)),
                (
                    f"The {added(access)} of the formula: a clock each for {stages}, and one for "
                    f"each of {access.planes} planes of the record.",
                    *((SUMS_APART,) if access.worker is None else ()),
                ),
            )
        )


def _exposed_at(bench: Bench, access: Access, name: str, latency: float) -> float:
    where = setting(access, int(latency))
    return bench.exposed(name, where, access.stimulus(where))

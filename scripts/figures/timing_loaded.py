# SPDX-License-Identifier: Apache-2.0
"""Latency of each kind of request with full credits, where every access misses: its distribution,
by the stages that it passes."""

from __future__ import annotations

from collections import Counter

from scripts.figures.result_file import Cell, Column, Line, Plot, Table
from scripts.figures.timing_bench import LAST, LATENCY, READ, Access, Bench, Found
from scripts.figures.timing_loads import MODES, SLOTS, Setting, Timed
from scripts.figures.timing_stages import Clocks, percentiles, split, split_loaded
from verif.mem.memory_timing import MemoryTiming

ACCESSES = (LAST, READ)
BIN = 20
"""Clocks of a bin of the histograms."""
HEAD = f"Full credits, all misses, memory latency {LATENCY}"
_NOTES = (
    "engine: the engine, the FP32 path or plain memory, without its accesses to memory; memory: "
    "from an access's first request to its last answer.",
    "unit: both, for FP32 sums, as two of them fetch their lines in turns, and wherever requests "
    "to memory cannot be told apart.",
)


def setting(access: Access) -> Setting:
    """As many accesses under way as credits allow, four times as many lines as slots."""
    return Setting(MemoryTiming(LATENCY), access.workers, lines=4 * SLOTS)


def stages_under_load(bench: Bench, found: Found) -> None:
    """Clocks of each kind of access by stage: percentiles of every mode, and histograms; one for
    all modes that differ in none."""
    rows: list[tuple[Cell, ...]] = []
    for access in ACCESSES:
        where = setting(access)
        same: dict[tuple[Line, ...], list[str]] = {}
        for name in MODES:
            came = bench.run(name, where, access.stimulus(where))
            parts: dict[str, Clocks] = _parts(came) | {"whole": came.each.astype("int64")}
            rows += [(access.name, name, part, *percentiles(parts[part])) for part in parts]
            lines = tuple(histogram(part, clocks) for part, clocks in parts.items())
            same.setdefault(lines, []).append(name)
            key = f"{name}, {access.name}, {where.lines} lines, full credits at {LATENCY}"
            found.followed[f"{key}: clocks an access"] = round(came.clocks_each, 3)
        found.plots += [
            Plot(
                f"{HEAD}: {access.name} by stage, {', '.join(names)}",
                *("clocks", f"% of the accesses, bins of {BIN} clocks", lines),
            )
            for lines, names in same.items()
        ]
    columns = (
        *(Column("access"), Column("mode"), Column("stage")),
        *(Column("least"), Column("median"), Column("95 of 100"), Column("most")),
    )
    found.tables.append(
        Table(f"{HEAD}: clocks of an access by stage", columns, tuple(rows), _NOTES)
    )


def _parts(came: Timed) -> dict[str, Clocks]:
    """By unit as a whole where its accesses to memory cannot be told apart."""
    try:
        return split_loaded(came)
    except ValueError:
        return split(came)


def histogram(name: str, clocks: Clocks) -> Line:
    """Percent of the accesses in each bin, from the first to the last that has some."""
    bins = Counter((clocks // BIN * BIN).tolist())
    places = range(min(bins), max(bins) + BIN, BIN)
    return Line(name, tuple((float(at), 100 * bins[at] / len(clocks)) for at in places))

# SPDX-License-Identifier: Apache-2.0
"""Ranking of runs by the coverage that they add, and a small set of runs that covers as much.

Both are greedy set cover. The minimum set cover is NP-hard; the greedy set is at most ln(points)
times as large. Runs that the others make superfluous are dropped at the end.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scripts.coverage.merged import Bits, Code, Merged, RunFacts
from scripts.coverage.places import BRANCH, LINE, Place, numbers, points

_LEAST_S = 0.01  # of a run: a clock that did not move must not make it infinitely good


@dataclass(frozen=True)
class Ranked:
    """A run in a ranking, with the functional bins and code points that no earlier run reached."""

    run: RunFacts
    bins: int
    code: int

    @property
    def adds(self) -> int:
        return self.bins + self.code


@dataclass(frozen=True)
class Reached:
    """Points that each run reached, functional bins before places of code.

    Attributes:
        runs: The runs.
        rows: A row of packed bits for each run.
        bins: Number of bits for functional bins, padded to whole bytes.
    """

    runs: tuple[RunFacts, ...]
    rows: Bits
    bins: int

    def count(self, row: Bits) -> tuple[int, int]:
        """Count the set bits of a row: (functional bins, code points)."""
        split = self.bins // 8
        return _ones(row[:split]), _ones(row[split:])


def reached(merged: Merged) -> Reached:
    """Return the points that each run reached; places of code have one number for all builds."""
    bins = 8 * ((len(merged.bins) + 7) // 8)
    numbering: dict[Place, int] = {}
    maps = {table: _numbered(code, numbering, bins) for table, code in merged.code.items()}
    size = bins + len(numbering)
    rows = np.zeros((len(merged.runs), (size + 7) // 8), np.uint8)
    for number, (run, found, hit) in enumerate(merged.each_run()):
        row = np.zeros(size + 1, np.uint8)  # the last one takes what is not of the design
        row[: len(found)] = found
        if run.table:
            row[maps[run.table][hit]] = 1
        rows[number] = np.packbits(row[:size])
    return Reached(merged.runs, rows, bins)


def _numbered(code: Code, numbering: dict[Place, int], offset: int) -> npt.NDArray[np.intp]:
    """Return the bit number of each point of a key table; -1 for points outside the design.

    New places are added to `numbering`; bit numbers begin at `offset`.
    """
    return np.array(
        [
            -1 if point is None else offset + numbering.setdefault(point.place, len(numbering))
            for point in points(code.keys)
        ],
        np.intp,
    )


def _ones(row: Bits) -> int:
    return int(np.bitwise_count(row).sum())


def by_second(found: Reached) -> list[Ranked]:
    """Return the runs ordered by the points that each adds per second to those before it.

    Runs that add nothing are left out.
    """
    return _greedy(found, [max(run.seconds, _LEAST_S) for run in found.runs])


def smallest(found: Reached) -> list[Ranked]:
    """Return a small set of runs, found greedily, that together reach all points."""
    chosen = _greedy(found, [1.0] * len(found.runs))
    order = {id(run): number for number, run in enumerate(found.runs)}
    rows = [found.rows[order[id(one.run)]] for one in chosen]
    for number in range(len(rows) - 1, -1, -1):  # is it still needed with the others?
        others = [row for other, row in enumerate(rows) if other != number]
        if others and not _ones(rows[number] & ~np.bitwise_or.reduce(others)):
            del rows[number], chosen[number]
    return chosen


def _greedy(found: Reached, costs: list[float]) -> list[Ranked]:
    """Solve the set cover greedily: choose the run with the most new points per cost, repeatedly.

    Evaluation is lazy: the gain of a run never grows, so most runs are not evaluated again.
    """
    have = np.zeros(found.rows.shape[1], np.uint8)
    heap = [(-_ones(row) / costs[n], n) for n, row in enumerate(found.rows)]
    heapq.heapify(heap)
    out: list[Ranked] = []
    while heap:
        _, number = heapq.heappop(heap)
        new = found.rows[number] & ~have
        gain = -_ones(new) / costs[number]
        if not gain:
            continue
        if heap and (gain, number) > heap[0]:
            heapq.heappush(heap, (gain, number))
            continue
        have |= new
        out.append(Ranked(found.runs[number], *found.count(new)))
    return out


def lines_of_runs(merged: Merged) -> Iterator[tuple[RunFacts, dict[str, set[int]]]]:
    """Yield each run with code coverage and the source lines that it executed, by file.

    Only these runs can kill a mutant of a line.
    """
    blocks = {
        table: [
            (number, point.place.file, tuple(numbers(point.lines)))
            for number, point in enumerate(points(code.keys))
            if point is not None and point.place.kind in (LINE, BRANCH)
        ]
        for table, code in merged.code.items()
    }
    for run, _, hit in merged.each_run():
        if not run.table:
            continue
        lines: dict[str, set[int]] = {}
        for number, file, some in blocks[run.table]:
            if hit[number]:
                lines.setdefault(file, set()).update(some)
        yield run, lines

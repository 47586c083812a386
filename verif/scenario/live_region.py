# SPDX-License-Identifier: Apache-2.0
"""A committed region while a scenario is drawn: lines of its epoch, their data, open work."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from models.line_packing import Mode
from models.regions import RegionConfig
from verif.scenario.line_values import lines_of
from verif.scenario.weights import Weights

HUGE = 1 << 12
"""Lines of a region beyond which nothing is contributed: to initialise more takes too long."""
LIMITS = {"after": 0, "racing": 5, "loaded": 2, "single": 1}
"""Requests in flight on a line, by the choice of the knob "overlap"; 0: any number. The scoreboard
tries all orders of racing requests, so few of them may race with reads or with a commit."""


@dataclass
class LiveRegion:
    """`index`: its descriptor in the scenario. `work`: (worker, line) still to be contributed."""

    index: int
    number: int
    config: RegionConfig
    overlap: str
    lines: list[int] = field(default_factory=list)
    work: deque[tuple[int, int]] = field(default_factory=deque)
    data: dict[int, list[bytes]] = field(default_factory=dict)
    kinds: str = ""
    closing: deque[int] = field(default_factory=deque)
    """Lines to read when the work is done."""
    raced: bool = False
    """Stores of one line may have raced: which of them came last is not known."""
    read: set[int] = field(default_factory=set)
    """Lines that were read in this epoch."""

    @property
    def limit(self) -> int:
        """Requests in flight on a line."""
        limit = LIMITS[self.overlap]
        return limit if self.config.mode.low_bit else min(limit, LIMITS["loaded"] + 1)

    @property
    def may_move(self) -> bool:
        """False where the data that the region leaves in memory may be one of several."""
        return self.config.mode.low_bit or not self.raced

    def write_limit(self, line: int) -> int:
        """The same for a contribution: nothing may pile up behind a read."""
        return LIMITS["loaded"] if not self.limit and line in self.read else self.limit

    def read_limit(self, line: int) -> int:
        """The same for a read: where contributions wait for nothing, it waits for silence."""
        self.read.add(line)
        return self.limit or 1

    def begin(self, weights: Weights, rng: random.Random, slots: int) -> None:
        """Draws the work of a new epoch."""
        config = self.config
        self.raced = not config.mode.low_bit and (self.raced or self.overlap != "single")
        self.lines = _lines(config.lines, weights, rng, slots)
        self.data.clear()
        self.read.clear()
        self.closing = deque(self.lines[:8])
        self.work.clear()
        if config.mode is Mode.IDENTITY:
            return
        share = weights.pick(rng, "share")
        pairs = []
        for line in self.lines:
            workers = list(range(config.workers))
            rng.shuffle(workers)
            keep = {"one missing": len(workers) - 1, "half": (len(workers) + 1) // 2}
            pairs += [(worker, line) for worker in workers[: keep.get(share, len(workers))]]
        self.work.extend(_ordered(pairs, weights.pick(rng, "arrival"), rng))

    def contribution(self, worker: int, line: int, weights: Weights, rng: random.Random) -> bytes:
        """Data of a worker for a line; drawn with that of all other workers."""
        rows = self.data.get(line)
        if rows is None:
            knob = "values_fp32" if self.config.mode is Mode.FP32 else "values"
            numbers = np.random.default_rng(rng.getrandbits(64))
            rows = self.data[line] = lines_of(self.config, weights.pick(rng, knob), numbers)
        return rows[worker]


def _lines(lines: int, weights: Weights, rng: random.Random, slots: int) -> list[int]:
    """The lines of a region that an epoch uses: how many, and where. In a huge region they are low:
    what has to leave its slot waits until the initialiser has come to it."""
    lines = min(lines, HUGE)
    count = {
        "1": 1,
        "2..4": rng.randint(2, 4),
        "about SLOTS": max(1, slots + rng.randint(-1, 1)),
        "above SLOTS": slots + rng.randint(2, max(3, slots // 2)),
    }[weights.pick(rng, "lines_in_use")]
    count = min(count, lines)
    place = weights.pick(rng, "line_place")
    if place == "spread":
        return sorted(rng.sample(range(lines), count))
    first = 0 if place == "low" else lines - count
    return list(range(first, first + count))


def _ordered(
    pairs: list[tuple[int, int]], arrival: str, rng: random.Random
) -> list[tuple[int, int]]:
    if arrival == "shuffled":
        rng.shuffle(pairs)
    elif arrival == "by worker":
        pairs.sort()
    elif arrival == "bursts":
        ranks = {pair: (rng.random() if n % 4 == 0 else 0.0) for n, pair in enumerate(pairs)}
        last = 0.0
        keyed = []
        for pair in pairs:
            last = ranks[pair] or last
            keyed.append((last, pair))
        pairs = [pair for _, pair in sorted(keyed, key=lambda one: one[0])]
    return pairs

# SPDX-License-Identifier: Apache-2.0
"""Measurements of the hook for the monitor: cosines and norms of samples, margins, agreement.

They are computed from decoded gradients and reduced samples, so all ranks compute the same values.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from neuron_fabric.codec import Route, unpack
from neuron_fabric.codec.routes import elements_of_line
from neuron_fabric.monitor.signals import random_margin

F32 = NDArray[np.float32]
U8 = NDArray[np.uint8]
Index = NDArray[np.int64]

WHOLE_BELOW = 4096
"""Elements up to which a sampled tensor is sampled whole, and the least of a larger one: a line of
512 may be the weights of a few classes, whose norm and cosine are not those of the tensor."""
ONE_LINE_IN = 16
WATCHED = 4096
"""Elements of a region whose signs are watched."""
NEW = 12
"""One part in so many of an agreement is the last step's: one step says little of gradients whose
noise is many times their mean."""
MOST = 0.1
"""A step counts as at most so much, either way: elements of one row of weights have one sign in
common, so single steps are far out, while a wrong sign is there in every step."""
NOTHING = ""
"""Name of the route that sends nothing, among errors of routes."""
_SEED = 2606
_PIECE = 1 << 16  # elements that stay in a cache


def sample_of(name: str, elements: int, step: int) -> Index | None:
    """Return the indices of a tensor's sampled elements in a step, sorted; None for all elements.

    Whole lines of 512 elements are drawn at random from the step and the name.
    """
    size = elements_of_line(Route.G_BINARY)
    lines = -(-elements // size)
    if elements < WHOLE_BELOW:
        return None
    draw = np.random.default_rng((_SEED, step, zlib.crc32(name.encode())))
    count = max(-(-lines // ONE_LINE_IN), WHOLE_BELOW // size)
    chosen = np.sort(draw.choice(lines, count, replace=False))
    index = (chosen[:, None] * size + np.arange(size)).reshape(-1)
    return index[index < elements].astype(np.int64)


class Measured:
    """Measurements of one step by profile region; see `StepReport`."""

    def __init__(self) -> None:
        self.nonfinite = 0
        self.closed: list[tuple[int, tuple[int, ...]]] = []
        """Rounds that were closed: bucket, and the ranks that were late."""
        self._cosines: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        self._decoded: dict[str, float] = defaultdict(float)
        self._reference: dict[str, float] = defaultdict(float)
        self._margins: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self._errors: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))

    def decoded(self, region: str, d: F32, s: float | None = None) -> None:
        """Add the squared norm of a decoded tensor d.

        ``s``: every element is +s or -s, so that the tensor need not be read.
        """
        self.add_norm(region, _dot(d, d) if s is None else d.size * s * s)

    def add_norm(self, region: str, square: float) -> None:
        """Add the squared norm of a decoded tensor."""
        self._decoded[region] += square

    def sampled(self, region: str, m: F32, d: F32, elements: int, shadow: bool) -> None:
        """Add the FP32 mean m and the decoded gradient d at the sampled elements of a tensor.

        Args:
            region: Profile region of the tensor.
            m: FP32 mean at the sampled elements.
            d: Decoded gradient there.
            elements: Number of elements in the whole tensor.
            shadow: Whether the tensor is sent in FP32, and its votes are only compared.
        """
        sums = _dot(m, d), _dot(m, m), _dot(d, d)
        self.add_sample(region, sums, elements / max(1, m.size), shadow)

    def add_sample(
        self, region: str, sums: tuple[float, float, float], factor: float, shadow: bool
    ) -> None:
        """Add <m, d>, <m, m> and <d, d> of a sample; ``factor``: elements over sampled ones."""
        for n, one in enumerate(sums):
            self._cosines[region][n] += one
        self._reference[region] += sums[1] * factor
        if shadow:
            self._decoded[region] += sums[2]

    def margin(self, region: str, d: F32, s: float, present: int) -> None:
        """Add the vote margins abs(plus - minus) of a tensor d that was decoded from counts.

        They are abs(d) * present / s.
        """
        if s > 0:
            pieces = (d[at : at + _PIECE] for at in range(0, d.size, _PIECE))
            total = sum(float(np.abs(piece).sum()) for piece in pieces)
            self.add_margin(region, total * present / s, d.size)

    def add_margin(self, region: str, total: float, elements: int) -> None:
        """Add the sum of abs(plus - minus) over a tensor."""
        self._margins[region][0] += total
        self._margins[region][1] += elements

    def add_errors(self, region: str, errors: Mapping[str, float]) -> None:
        """Add the squared error of each route on a tensor of this rank.

        That of `NOTHING` is the squared norm of the tensor, which sending nothing would lose.
        """
        for route, error in errors.items():
            self._errors[region][route] += error

    @property
    def errors(self) -> dict[str, dict[str, float]]:
        """Return the error of each route by region, as a share of the squared norm."""
        return {
            region: {route: error / found[NOTHING] for route, error in found.items()}
            for region, found in self._errors.items()
            if found[NOTHING] > 0
        }

    @property
    def norms(self) -> dict[str, tuple[float, float | None]]:
        """Return by region the squared norm of the decoded gradient and of the FP32 mean.

        The latter is estimated from the samples; None if the region was not sampled.
        """
        return {one: (square, self._reference.get(one)) for one, square in self._decoded.items()}

    @property
    def cosines(self) -> dict[str, tuple[float, float, float]]:
        """Return by region <m, d>, <m, m>, <d, d> over the sampled elements."""
        return {one: (sums[0], sums[1], sums[2]) for one, sums in self._cosines.items()}

    @property
    def margins(self) -> dict[str, tuple[int, int]]:
        """Return the sum of abs(plus - minus) and the number of elements by region."""
        return {one: (round(sums[0]), round(sums[1])) for one, sums in self._margins.items()}


class Agreements:
    """Agreement of the votes of this worker with the result, by profile region.

    0 is the mean for random votes of all workers, above 0 is agreement. Below 0 a worker disagrees
    with the others, or its votes are unrelated to theirs while they agree. ``running`` is a running
    mean from 0 on, in which each step counts `MOST` at most.
    """

    def __init__(self, workers: int) -> None:
        self.running: dict[str, float] = {}
        self._random = random_margin(workers)  # own votes are among those that decide
        self._seen: dict[str, list[int]] = defaultdict(lambda: [0, 0])

    def see(self, votes: Sequence[tuple[str, Route, U8, F32, float]]) -> None:
        """Compare this worker's votes with the signs of the decoded gradients.

        Some whole lines are compared. Zeros are no votes. Integer codes and a single worker are
        skipped.

        Args:
            votes: Of each tensor that this worker has voted on: its region and route, its packed
                lines, the decoded gradient, and its share of the elements of the region.
        """
        for route in {one[1] for one in votes if one[1].votes and self._random < 1}:
            found = [
                (region, lines, d, *compared(d.size, len(lines), route, share))
                for region, of, lines, d, share in votes
                if of == route
            ]
            size = elements_of_line(route)
            firsts = np.cumsum([0, *(size * len(at) for *_, at, _ in found)])
            product = unpack(np.concatenate([one[1][one[3]] for one in found]), route, firsts[-1])
            signs = np.zeros_like(product)  # 0 after the end of a tensor
            for first, (_, _, d, _, index) in zip(firsts, found, strict=False):
                np.take(d, index, out=signs[first : first + index.size], mode="clip")
            product *= signs
            votes_seen = np.packbits([product > 0, product != 0], axis=1).view(np.uint64)
            both = np.add.reduceat(np.bitwise_count(votes_seen), firsts[:-1] // 64, 1, np.int64)
            for (region, *_), same, seen in zip(found, *both.tolist(), strict=True):
                self.add(region, same, seen)

    def add(self, region: str, same: int, seen: int) -> None:
        """Add the number of compared votes that agree, and of all compared votes."""
        self._seen[region][0] += same
        self._seen[region][1] += seen

    @staticmethod
    def running_mean(before: float, share: float, random: float) -> float:
        """Return the running mean after a step in which ``share`` of the votes agreed.

        ``random``: the margin of random votes of all workers (`random_margin`).
        """
        now = (2 * share - 1 - random) / (1 - random)
        return before + (min(max(now, -MOST), MOST) - before) / NEW

    def step(self) -> dict[str, float]:
        """End a step; return the running means of the regions with votes in it."""
        found = {}
        for region, (same, seen) in self._seen.items():
            if seen:
                before = self.running.get(region, 0.0)
                found[region] = self.running_mean(before, same / seen, self._random)
                self.running[region] = found[region]
        self._seen.clear()
        return found


@lru_cache(maxsize=4096)
def compared(elements: int, lines: int, route: Route, share: float) -> tuple[Index, Index]:
    """Return which lines of a tensor an agreement compares, and which elements they hold.

    ``share`` is the tensor's share of the elements of its region.
    """
    size = elements_of_line(route)
    chosen = min(lines, max(1, int(WATCHED * share) // size))
    at = np.arange(chosen) * lines // chosen
    index = (at[:, None] * size + np.arange(size)).reshape(-1)
    return at, index[index < elements]


def _dot(a: F32, b: F32) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.dot(a, b))

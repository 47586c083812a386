# SPDX-License-Identifier: Apache-2.0
"""What the hook measures for the monitor: cosines and norms of samples, margins, steady signs.

All of it is computed from decoded gradients and reduced samples, so every rank finds the same.
"""

from __future__ import annotations

import zlib
from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from neuron_fabric.codec import Route
from neuron_fabric.codec.routes import elements_of_line

F32 = NDArray[np.float32]
Index = NDArray[np.int64]

WHOLE_BELOW = 4096
"""Elements up to which a sampled tensor is sampled whole."""
ONE_LINE_IN = 16
WATCHED = 4096
"""Elements of a region whose signs are watched."""
RUN = 32
"""Steps with one sign that make an element saturated."""
_SEED = 2606
_PIECE = 1 << 16  # elements that stay in a cache


def sample_of(name: str, elements: int, step: int) -> Index | None:
    """Indices of a tensor's sampled elements in a step: whole lines of 512, drawn from the step and
    the name, in order. None: all."""
    size = elements_of_line(Route.G_BINARY)
    lines = -(-elements // size)
    if elements < WHOLE_BELOW:
        return None
    draw = np.random.default_rng((_SEED, step, zlib.crc32(name.encode())))
    chosen = np.sort(draw.choice(lines, -(-lines // ONE_LINE_IN), replace=False))
    index = (chosen[:, None] * size + np.arange(size)).reshape(-1)
    return index[index < elements].astype(np.int64)


class Measured:
    """What the buckets of one step have shown, by region; see `StepReport`."""

    def __init__(self) -> None:
        self.nonfinite = 0
        self.abstained = 0
        self._cosines: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        self._decoded: dict[str, float] = defaultdict(float)
        self._reference: dict[str, float] = defaultdict(float)
        self._margins: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])

    def decoded(self, region: str, d: F32) -> None:
        """A decoded tensor, of which the votes are used."""
        self._decoded[region] += _dot(d, d)

    def sampled(self, region: str, m: F32, d: F32, elements: int, shadow: bool) -> None:
        """The mean and the decoded gradient at the sampled places of a tensor of ``elements``;
        ``shadow``: nothing else is decoded of it."""
        sums = _dot(m, d), _dot(m, m), _dot(d, d)
        for n, one in enumerate(sums):
            self._cosines[region][n] += one
        self._reference[region] += sums[1] * elements / max(1, m.size)
        if shadow:
            self._decoded[region] += sums[2]

    def margin(self, region: str, d: F32, s: float, present: int) -> None:
        """A tensor decoded from its counts: abs(plus - minus) is abs(d) * present / s."""
        if s > 0:
            pieces = (d[at : at + _PIECE] for at in range(0, d.size, _PIECE))
            total = sum(float(np.abs(piece).sum()) for piece in pieces)
            self._margins[region][0] += total * present / s
            self._margins[region][1] += d.size

    @property
    def norms(self) -> dict[str, tuple[float, float | None]]:
        """Squared norms: decoded, and of the FP32 mean where it was sampled."""
        return {one: (square, self._reference.get(one)) for one, square in self._decoded.items()}

    @property
    def cosines(self) -> dict[str, tuple[float, float, float]]:
        """<m, d>, <m, m>, <d, d> over the samples."""
        return {one: (sums[0], sums[1], sums[2]) for one, sums in self._cosines.items()}

    @property
    def margins(self) -> dict[str, tuple[int, int]]:
        """Sum of abs(plus - minus), and the elements."""
        return {one: (round(sums[0]), round(sums[1])) for one, sums in self._margins.items()}


class Signs:
    """How long the decoded signs of some elements of a region have stayed the same."""

    def __init__(self) -> None:
        self.last: dict[str, NDArray[np.int8]] = {}
        self.run: dict[str, NDArray[np.uint8]] = {}

    def see(self, name: str, d: F32, share: float) -> None:
        """A step of a tensor; ``share``: of its region's elements, so many of those watched."""
        every = max(1, int(d.size // max(1.0, WATCHED * share)))
        sign = np.sign(d[::every]).astype(np.int8)
        last = self.last.get(name)
        if last is None or last.size != sign.size:
            last, self.run[name] = sign, np.zeros(sign.size, np.uint8)
        held = self.run[name]
        same = (sign == last) & (sign != 0)
        self.run[name] = np.where(same, np.minimum(held, RUN - 1) + 1, 0).astype(np.uint8)
        self.last[name] = sign

    def forget(self, name: str) -> None:
        """The tensor goes in FP32."""
        self.last.pop(name, None)
        self.run.pop(name, None)

    def saturation(self, regions: dict[str, str]) -> dict[str, float]:
        """By region, the share of the watched elements that have had one sign for `RUN` steps."""
        found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for name, run in self.run.items():
            found[regions[name]][0] += int(np.count_nonzero(run >= RUN))
            found[regions[name]][1] += run.size
        return {region: part / size for region, (part, size) in found.items() if size}


def _dot(a: F32, b: F32) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.dot(a, b))

# SPDX-License-Identifier: Apache-2.0
"""Ranks in one process: an `all_reduce` for tests and the bench, and small profiles for them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from neuron_fabric.runtime.monitor.consensus import AllReduce, Vector, reduced

_SECONDS = 20.0


class LocalGroup:
    """``world`` ranks, as threads or one after the other: the n-th call of every rank is one
    reduction. Waiting for a rank that never comes ends with TimeoutError."""

    def __init__(self, world: int) -> None:
        self.world = world
        self._calls = [0] * world
        self._given: dict[int, list[tuple[Vector, int]]] = {}
        self._changed = threading.Condition()

    def rank(self, rank: int) -> AllReduce:
        """The `all_reduce` of one rank."""
        return partial(self._start, rank)

    def _start(self, rank: int, values: Vector, sums: int) -> _Wait:
        with self._changed:
            number = self._calls[rank]
            self._calls[rank] += 1
            self._given.setdefault(number, []).append((values.copy(), sums))
            self._changed.notify_all()
        return _Wait(self, number)

    def result(self, number: int) -> Vector:
        """What the ranks' vectors of one reduction give."""
        with self._changed:
            if not self._changed.wait_for(
                lambda: len(self._given[number]) == self.world,
                0.0 if threading.active_count() == 1 else _SECONDS,
            ):
                raise TimeoutError(f"reduction {number}: a rank has not come")
            vectors = [vector for vector, _ in self._given[number]]
            [sums] = {sums for _, sums in self._given[number]}
        return reduced(np.stack(vectors), sums)


@dataclass(frozen=True)
class _Wait:
    group: LocalGroup
    number: int

    def __call__(self) -> Vector:
        return self.group.result(self.number)


@dataclass(frozen=True)
class Route:
    """What the monitor looks at of a profile's `PhaseRoute`."""

    route: str = "G_BINARY"
    decode: str = "vote"


PHASES: Mapping[str, Route] = {
    "warmup": Route("FP32"),
    "steady": Route(),
    "recovery": Route("G_TERNARY", "net"),
}


@dataclass(frozen=True)
class SmallRegion:
    """A region with low-bit routes; ``measured`` as in a profile."""

    name: str
    elements: int
    phases: Mapping[str, Route] = field(default_factory=lambda: PHASES)
    measured: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class SmallProfile:
    """A profile of a few regions."""

    regions: tuple[SmallRegion, ...]
    monitor: Mapping[str, object] = field(default_factory=dict)
    name: str = "small"
    fingerprint: str = ""

# SPDX-License-Identifier: Apache-2.0
"""Interface between the hook and a reducer; nothing here needs torch."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from neuron_fabric.codec import Route

U8 = NDArray[np.uint8]
F32 = NDArray[np.float32]


@dataclass(frozen=True)
class Part:
    """Tensors of a bucket that travel alike, each from a new line.

    ``lines``: uint8[n, 64] of this worker. ``net``: the counts come back, else the votes alone; of
    integer codes it is their sums, in FP32 the worker-ordered sum. ``starts``: first line of every
    tensor; ``columns``: its place in the sidecar, which says whether this worker has a vote on it
    (not looked at in FP32, where zeros add nothing).
    """

    route: Route
    net: bool
    lines: U8
    starts: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """A bucket, the same on every rank: its parts as submitted, and of each tensor of the sidecar
    the sum over workers in their order: scales and number of those present, float32[T] each.

    A part is uint8[L, n, 64]: one layer of votes or of FP32 sums; the count planes of ``net``
    (`neuron_fabric.codec.count`); or the layers of sums of integer codes (`add_codes`).
    """

    parts: Sequence[U8]
    scales: F32
    present: F32


class BucketLost(Exception):
    """A bucket has no outcome, on no rank; why, in one line. Its gradients are where they were, and
    the ranks reduce them in FP32."""


@dataclass
class Counters:
    """Counters of a reducer since it was opened.

    Attributes:
        events: counts of `monitor.ReducerCounters` by field.
        sent: bytes that this rank has sent, by route; sidecars count as FP32.
        received: bytes that it has received.
        seconds: time by part of the work.
    """

    buckets: int = 0
    events: Counter[str] = field(default_factory=Counter)
    sent: Counter[str] = field(default_factory=Counter)
    received: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def moved(self, route: Route, sent: int = 0, received: int = 0) -> None:
        """Add bytes; called by several threads."""
        with self._lock:
            self.sent[route.value] += sent
            self.received[route.value] += received


class Reducer(Protocol):
    """`submit` is called in the same order on every rank and does not wait; `wait` is called in
    the order of the submits, from one other thread."""

    counters: Counters

    first_group: Any
    """`OwnGroup` of the submitting thread, to agree before packing."""
    second_group: Any
    """`OwnGroup` of the waiting thread, for other reductions."""

    def open(self, group: Any) -> None:
        """Open it, once, on every rank of ``group``. Raise LineError on every rank alike."""

    def submit(self, step: int, bucket: int, parts: Sequence[Part], sidecar: F32) -> Any:
        """Start the reduction of a bucket; a handle for `wait`. ``sidecar``: float32[2, T], this
        worker's scale and presence (1.0, or 0.0: it abstains) of each tensor; a NaN in either is
        for all."""

    def wait(self, handle: Any) -> Outcome:
        """Return the outcome of a bucket, on every rank alike.

        Raises:
            BucketLost: it has none.
            LineError: the training cannot go on.
        """

    def close(self) -> None:
        """Let go of what `open` has taken."""

# SPDX-License-Identifier: Apache-2.0
"""Interface between the communication hook and a reducer of packed gradients, without torch."""

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
    """Packed tensors of one bucket with the same route and decoding; each starts on a new line.

    Attributes:
        route: Route of the tensors.
        net: Whether counts are returned instead of votes. Integer codes always return sums, FP32
            the worker-ordered sum.
        lines: Lines of this worker, uint8[n, 64]: an array, or a tensor of a `TensorReducer`.
        starts: First line of each tensor.
        columns: Position of each tensor in the sidecar, which says whether this worker has a vote
            on it (ignored in FP32, where zeros add nothing).
    """

    route: Route
    net: bool
    lines: Any
    starts: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """Reduced bucket, the same on every rank: arrays, or tensors of a `TensorReducer`.

    Attributes:
        parts: Results of the parts, in the order in which they were submitted, uint8[L, n, 64]: one
            layer of votes or of FP32 sums; the count planes of ``net``
            (`neuron_fabric.codec.count`); or the layers of sums of integer codes (`add_codes`).
        scales: Sum of the workers' scales for each tensor of the sidecar, in their order,
            float32[T].
        present: Number of workers with a vote on each tensor, float32[T].
        late: Ranks without which the round was closed: their lines are in no part.
    """

    parts: Sequence[Any]
    scales: Any
    present: Any
    late: tuple[int, ...] = ()


class BucketLost(Exception):
    """A bucket could not be reduced, on any rank; one line says why.

    Its gradients are unchanged, and the ranks reduce them in FP32.
    """


@dataclass
class Counters:
    """Counters of a reducer since it was opened, on one rank.

    Attributes:
        buckets: reduced buckets.
        closed: those whose round was closed without some rank.
        late: those whose round was closed without this rank.
        events: counts of `monitor.ReducerCounters` by field.
        sent: bytes that this rank has sent, by route; sidecars count as FP32.
        received: bytes that this rank has received, by route.
        seconds: time by part of the work.
    """

    buckets: int = 0
    closed: int = 0
    late: int = 0
    events: Counter[str] = field(default_factory=Counter)
    sent: Counter[str] = field(default_factory=Counter)
    received: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def moved(self, route: Route, sent: int = 0, received: int = 0) -> None:
        """Add bytes sent and received by a route; thread-safe."""
        with self._lock:
            self.sent[route.value] += sent
            self.received[route.value] += received


class Reducer(Protocol):
    """Interface of a reducer of packed gradients over the ranks.

    `submit` is called in the same order on every rank and does not wait; `wait` is called in the
    order of the submits, from one other thread.
    """

    counters: Counters

    first_group: Any
    """`OwnGroup` of the submitting thread, to agree before packing."""
    second_group: Any
    """`OwnGroup` of the waiting thread, for other reductions."""

    def open(self, group: Any) -> None:
        """Open the reducer for the ranks of ``group``; a collective call, once.

        An error is a LineError, the same on every rank.
        """

    def submit(self, step: int, bucket: int, parts: Sequence[Part], sidecar: Any) -> Any:
        """Start the reduction of a bucket; return a handle for `wait`.

        Args:
            step: Training step.
            bucket: Number of the bucket in the step.
            parts: Lines of this worker.
            sidecar: float32[2, T]: this worker's scale and presence (1.0, or 0.0 if it abstains)
                for each tensor. The result for all is NaN if one is NaN.
        """

    def wait(self, handle: Any) -> Outcome:
        """Wait for the reduction of a bucket and return the result, the same on every rank.

        Raises:
            BucketLost: it could not be reduced.
            LineError: the training cannot continue.
        """

    def close(self) -> None:
        """Release all that `open` has acquired."""

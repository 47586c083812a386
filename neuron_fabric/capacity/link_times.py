# SPDX-License-Identifier: Apache-2.0
"""Latency and bandwidth of the network, fitted to the FP32 all-reduces of the training.

Warm-up gives times of whole buckets; later steps give those of the FP32 parts of mixed buckets and
of samples. Buckets in flight together share the network, so the time of an all-reduce starts when
the one before it has ended, or at its own start if that is later. The lower quartile of the last
times of each size (`usual`) is fitted by a line over the bytes (`LinkFit`).
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

_SHORTEST = 1e-6  # seconds below which a time is not weighed more


@dataclass
class LinkFit:
    """Line through the times of all-reduces over their bytes: weighted least squares.

    Errors are weighted as shares of each time, since times vary in proportion and decisions use
    ratios: unweighted, the residual of a 64 MiB all-reduce set the latency, 0.3 ms where 64 KiB
    took 4 ms.
    """

    weight: float = 0.0
    bytes: float = 0.0
    seconds: float = 0.0
    squares: float = 0.0
    products: float = 0.0

    def add(self, size: int, seconds: float) -> None:
        """Add one all-reduce of ``size`` bytes. Raise ValueError for a bad time."""
        if not (size > 0 and 0 <= seconds < math.inf):
            raise ValueError(f"{size} bytes in {seconds} s")
        weight = 1 / max(seconds, _SHORTEST) ** 2
        self.weight += weight
        self.bytes += weight * size
        self.seconds += weight * seconds
        self.squares += weight * size * size
        self.products += weight * size * seconds

    def line(self) -> tuple[float, float] | None:
        """Latency in seconds, and seconds a MiB: what `StepReport.seconds` carries. None before
        anything was measured; neither is negative, and of one size all counts as transfer."""
        if not self.weight:
            return None
        spread = self.weight * self.squares - self.bytes * self.bytes
        slope = self.seconds / self.bytes
        if spread > 1e-9 * self.weight * self.squares:
            slope = (self.weight * self.products - self.bytes * self.seconds) / spread
        slope = max(slope, 0.0)
        latency = (self.seconds - slope * self.bytes) / self.weight
        if latency < 0:
            latency, slope = 0.0, self.products / self.squares
        return latency, slope * (1 << 20)


KEPT = 5
"""Times of each size."""
FRESH = 200
"""Steps for which a size counts after it was last seen, unless set otherwise: a network changes."""


def usual(times: Sequence[float]) -> float:
    """Return the lower quartile.

    Not more, since a late rank delays all and is not the network. Not the minimum, which a
    training does not reach where ranks share cores: 64 KiB on two cores took 0.3 ms at the least,
    and mostly 2 ms.
    """
    return sorted(times)[(len(times) - 1) // 4]


@dataclass
class _Size:
    step: int = 0
    times: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))


class LinkTimes:
    """Times of one rank's all-reduces by their bytes. Callbacks come from other threads."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.fresh = FRESH
        self._clock, self._lock = clock, threading.Lock()
        self._sizes: dict[int, _Size] = {}
        self._last = 0.0
        self._step = 0

    def watch(self, step: int, size: int, future: Any) -> None:
        """Time an all-reduce of ``size`` bytes that starts now and ends with ``future``."""
        start = self._clock()
        future.add_done_callback(lambda _: self.ended(step, size, start))

    def ended(self, step: int, size: int, start: float) -> None:
        """Record an all-reduce of ``size`` bytes that has just ended."""
        with self._lock:
            now = self._clock()  # in here: whoever comes second has the later time
            begin, self._last = max(start, self._last), now
            if size <= 0:
                return
            one = self._sizes.setdefault(size, _Size())
            one.step = self._step = max(step, self._step)
            one.times.append(now - begin)

    def seconds(self) -> dict[str, float]:
        """`link_latency` and `link_mib`, as `StepReport.seconds` has them; nothing before the first
        all-reduce."""
        with self._lock:
            last = self._step - self.fresh
            took = {size: usual(one.times) for size, one in self._sizes.items() if one.step >= last}
        fit = LinkFit()
        for size, seconds in sorted(took.items()):
            fit.add(size, seconds)
        line = fit.line()
        return {} if line is None else {"link_latency": line[0], "link_mib": line[1]}

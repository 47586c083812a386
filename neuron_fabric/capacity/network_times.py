# SPDX-License-Identifier: Apache-2.0
"""Latency and bandwidth of the network, fitted to the FP32 all-reduces of the training.

Warm-up gives times of whole buckets; later steps give those of the FP32 parts of mixed buckets and
of samples. Buckets in flight together share the network, so the time of an all-reduce starts when
the one before it has ended, or at its own start if that is later. The lower quartile of the last
times of each size (`usual`) is fitted by a line over the bytes (`fit_line`).
"""

from __future__ import annotations

import math
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

_SHORTEST = 1e-6  # seconds below which a time is not weighed more


def fit_line(measured: Iterable[tuple[int, float]]) -> tuple[float, float] | None:
    """Fit a line to the times of all-reduces over their bytes by weighted least squares.

    Errors are weighted as shares of each time, since times vary in proportion and decisions use
    ratios: unweighted, the residual of a 64 MiB all-reduce set the latency, 0.3 ms where 64 KiB
    took 4 ms.

    Args:
        measured: Bytes and seconds of each all-reduce.

    Returns:
        Latency in seconds, and seconds per MiB, neither negative, as in `StepReport.seconds`; None
        if nothing was measured. If all have one size, the latency is 0.

    Raises:
        ValueError: A size is not above 0, or a time is negative or not finite.
    """
    weight = total = seconds = squares = products = 0.0
    for size, took in measured:
        if not (size > 0 and 0 <= took < math.inf):
            raise ValueError(f"{size} bytes in {took} s")
        one = 1 / max(took, _SHORTEST) ** 2
        weight += one
        total += one * size
        seconds += one * took
        squares += one * size * size
        products += one * size * took
    if not weight:
        return None
    spread = weight * squares - total * total
    slope = seconds / total
    if spread > 1e-9 * weight * squares:
        slope = (weight * products - total * seconds) / spread
    slope = max(slope, 0.0)
    latency = (seconds - slope * total) / weight
    if latency < 0:
        latency, slope = 0.0, products / squares
    return latency, slope * (1 << 20)


KEPT = 5
"""Times of each size."""
FRESH = 200
"""Steps for which a size counts after it was last seen, unless set otherwise: a network changes."""


def usual(times: Sequence[float]) -> float:
    """Return the lower quartile of times.

    Not more, since a late rank delays all and is not the network. Not the minimum, which a training
    does not reach where ranks share cores: 64 KiB on two cores took 0.3 ms at the least, and mostly
    2 ms.
    """
    return sorted(times)[(len(times) - 1) // 4]


class NetworkTimes:
    """Times of one rank's all-reduces by their bytes; callbacks may come from other threads."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.fresh = FRESH
        self._clock, self._lock = clock, threading.Lock()
        self._seen: dict[int, int] = {}
        self._times: dict[int, deque[float]] = {}
        self._last = 0.0
        self._step = 0

    def watch(self, step: int, size: int, future: Any) -> None:
        """Time an all-reduce of ``size`` bytes in a step, from now until ``future`` is done."""
        start = self._clock()
        future.add_done_callback(lambda _: self.ended(step, size, start))

    def ended(self, step: int, size: int, start: float) -> None:
        """Record an all-reduce of ``size`` bytes that began at ``start`` and has just ended."""
        with self._lock:
            now = self._clock()  # in here: whoever comes second has the later time
            begin, self._last = max(start, self._last), now
            if size <= 0:
                return
            self._seen[size] = self._step = max(step, self._step)
            self._times.setdefault(size, deque(maxlen=KEPT)).append(now - begin)

    def seconds(self) -> dict[str, float]:
        """Return `link_latency` (seconds) and `link_mib` (seconds per MiB), for a `StepReport`.

        Sizes that were not seen in the last ``fresh`` steps are left out; {} before the first
        all-reduce.
        """
        with self._lock:
            last = self._step - self.fresh
            took = {size: usual(self._times[size]) for size, n in self._seen.items() if n >= last}
        line = fit_line(sorted(took.items()))
        return {} if line is None else {"link_latency": line[0], "link_mib": line[1]}


FREE = 0.10
"""Share of a step that the host may work on low-bit gradients."""
LAST = 21
"""Steps of a median."""
WORK = ("pack", "submit", "count", "decode")
"""Parts of `Counters.seconds` that are the host's work; waiting for other ranks is none."""


class MeasuredRate:
    """Median over the last `LAST` steps of the seconds that a MiB took.

    A median, since a preempted thread makes single times far too long or, if it is preempted before
    its first reading of the clock, far too short.
    """

    def __init__(self) -> None:
        self._rates: deque[float] = deque(maxlen=LAST)

    def add(self, seconds: float, size: int) -> None:
        """Add a step in which ``size`` bytes took ``seconds``; a step without bytes is skipped."""
        if size > 0:
            self._rates.append(seconds * (1 << 20) / size)

    @property
    def mib(self) -> float | None:
        """Return the median in seconds per MiB; None before the first step."""
        return statistics.median(self._rates) if self._rates else None


class NetworkRate(NetworkTimes):
    """Time of all all-reduces of a step over their bytes, latencies included, as one rate.

    `NetworkTimes` would need buckets of several sizes to tell latency and bandwidth apart.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        super().__init__(clock)
        self._rate, self._took, self._size = MeasuredRate(), 0.0, 0

    def ended(self, step: int, size: int, start: float) -> None:
        """Record an all-reduce as `NetworkTimes.ended`."""
        with self._lock:
            now = self._clock()
            if step != self._step:
                self._rate.add(self._took, self._size)
                self._step, self._took, self._size = step, 0.0, 0
            self._took += now - max(start, self._last)
            self._size += size
            self._last = now

    def seconds(self) -> dict[str, float]:
        """Return `link_latency` (0) and `link_mib` as `NetworkTimes.seconds`."""
        with self._lock:
            mib = self._rate.mib
        return {} if mib is None else {"link_latency": 0.0, "link_mib": mib}


class HostRate:
    """Time that the host's work on low-bit gradients adds to a step, per MiB of FP32 gradients.

    Work of up to `FREE` of a step counts as none.

    Args:
        size: Bytes of all gradients in FP32.
    """

    def __init__(self, size: int) -> None:
        self._size, self._work, self._step = size, MeasuredRate(), MeasuredRate()

    def step(self, seconds: float) -> None:
        """Add the time from one step to the next."""
        self._step.add(seconds, self._size)

    def work(self, took: Mapping[str, float], size: int) -> None:
        """Add the seconds ``took`` by part in a step that packed ``size`` bytes of gradients."""
        self._work.add(sum(took.get(part, 0.0) for part in WORK), size)

    def seconds(self) -> dict[str, float]:
        """Return `host_mib`, for a `StepReport`; {} before the first low-bit gradients."""
        if self._work.mib is None:
            return {}
        return {"host_mib": max(0.0, self._work.mib - FREE * (self._step.mib or 0.0))}

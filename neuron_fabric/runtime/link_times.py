# SPDX-License-Identifier: Apache-2.0
"""What the network takes for FP32 all-reduces, measured as the training makes them.

Warm-up gives whole buckets; later on there are the FP32 parts of mixed buckets, and samples. The
time of an all-reduce begins where the one before it has ended, if that is later than its own start:
buckets under way together share the network. Of each size the lower quartile of the last few counts
(`usual`); through these goes a line (`capacity.LinkFit`).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from neuron_fabric.runtime.capacity import LinkFit

KEPT = 5
"""Times of each size."""
FRESH = 200
"""Steps for which a size counts that is not seen any more, unless it is told otherwise: a network
changes."""


def usual(times: Sequence[float]) -> float:
    """The lower quartile. A rank that comes late makes all wait, and is not the network, so not
    more; the least is not what a training will see where ranks share cores, and collectives of more
    rounds are further from it: 64 KiB on two cores took 0.3 ms at the least, and mostly 2."""
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
        """An all-reduce of ``size`` bytes starts now, and ends when ``future`` is there."""
        start = self._clock()
        future.add_done_callback(lambda _: self.ended(step, size, start))

    def ended(self, step: int, size: int, start: float) -> None:
        """An all-reduce of ``size`` bytes has just ended."""
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

# SPDX-License-Identifier: Apache-2.0
"""State of one aggregated line within an epoch.

A line stores the contributions themselves, not counters. Reads are computed from them, so the order
of arrival cannot matter by construction. Spec: controller §3 to §5, second edition §7, §10.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from models import fp32
from models.int_sums import IntResult, reduce_int
from models.line_packing import LINE_BYTES, illegal_codes
from models.memory import ZERO_LINE, merge
from models.modes import Mode, Tie
from models.regions import PLANE_SELECTOR, SUM8_SELECTOR, SUM16_SELECTOR, RegionConfig
from models.votes import LowBitResult, reduce_binary, reduce_tern5, reduce_ternary


def _stack(contributions: dict[int, bytes]) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    workers = sorted(contributions)
    joined = b"".join(contributions[w] for w in workers)
    return np.frombuffer(joined, dtype=np.uint8).reshape(len(workers), 1, LINE_BYTES)


@dataclass(slots=True)
class AggregatedLine:
    """State of one line of a region (not IDENTITY) in an epoch: contributions, poison and loss."""

    data: dict[int, bytes] = field(default_factory=dict)
    marked: set[int] = field(default_factory=set)
    """FP32: workers whose stored line is marked as poisoned by memory."""
    kept: bool = False
    """FP32: a clean sum of all workers was read since the last store, so it may have been kept."""
    poisoned: bool = False
    lost: bool = False
    """A state fill failed: the line never becomes complete again in this epoch."""
    counted_complete: bool = False
    saturated: bool = False
    illegal: bool = False
    counted_poisoned: bool = False
    """A contribution poisoned the line. A line lost by memory is poisoned too, but not counted."""
    late: int = 0
    """Contributions after the round was closed."""
    times_seen: Counter[int] = field(default_factory=Counter)
    """Number of times that each worker was new to the line; more than once after a loss."""
    _cache: LowBitResult | IntResult | bytes | None = None

    def copy(self) -> AggregatedLine:
        """Return an independent copy (contributions are immutable)."""
        times_seen = Counter(self.times_seen)
        return replace(self, data=dict(self.data), marked=set(self.marked), times_seen=times_seen)

    def seen(self, worker: int) -> bool:
        """Return True if ``worker`` has a clean contribution in this epoch that is not lost."""
        return worker in self.data

    def all_seen(self, workers: int) -> bool:
        """Return True if ``workers`` workers, all of the region, have a clean contribution."""
        return len(self.data) == workers

    def lose(self) -> None:
        """Apply the loss of the line's state record: the line becomes empty and poisoned."""
        self.data.clear()
        self.marked.clear()
        self.kept = False
        self.poisoned = True
        self.lost = True
        self._cache = None

    # -- low-bit ----------------------------------------------------------------------------------

    def add(self, worker: int, data: bytes, config: RegionConfig, cnt_max: int) -> int:
        """Add a clean low-bit contribution of a worker that has none yet.

        Args:
            worker: Number of the worker.
            data: Contribution, 64 bytes.
            config: Descriptor of the region.
            cnt_max: Largest value of a counter of the device.

        Returns:
            The number of illegal elements in it.
        """
        self.times_seen[worker] += 1
        self.data[worker] = bytes(data)
        self._cache = None
        bad = illegal_codes(data, config.mode)
        self.illegal = self.illegal or bad > 0
        if len(self.data) > cnt_max and not self.saturated and not config.mode.bits:
            self.saturated = bool(self.reduced(config, cnt_max).saturated[0])
        return bad

    def summed_codes(self, config: RegionConfig) -> IntResult:
        """Return the sums (n = 1) of the integer codes contributed so far."""
        if not isinstance(self._cache, IntResult):
            self._cache = reduce_int(_stack(self.data), config.mode, None, config.signed)
        return self._cache

    def view(self, selector: int, config: RegionConfig, cnt_max: int) -> bytes:
        """Return the 64 bytes that a read with this selector returns in a low-bit region.

        These are a count plane, sums of 8 or 16 bits (integer modes), or the votes.
        """
        if config.mode.bits:
            codes = self.summed_codes(config)
            if selector >= SUM8_SELECTOR:
                line = codes.sum8[selector - SUM8_SELECTOR]
            elif selector >= SUM16_SELECTOR:
                line = codes.sum16[selector - SUM16_SELECTOR]
            else:
                line = codes.planes[selector - PLANE_SELECTOR]
        else:
            votes = self.reduced(config, cnt_max)
            line = votes.planes[selector - PLANE_SELECTOR] if selector else votes.vote
        return bytes(line.tobytes())

    def reduced(self, config: RegionConfig, cnt_max: int) -> LowBitResult:
        """Return votes and counts (arrays with n = 1) of a line's contributions in a vote mode."""
        if not isinstance(self._cache, LowBitResult):
            lines = _stack(self.data)
            if config.mode == Mode.G_TERN5:
                self._cache = reduce_tern5(lines, None, config.threshold)
            elif config.mode == Mode.G_BINARY:
                tie = Tie.MINUS if config.tie_minus else Tie.PLUS
                self._cache = reduce_binary(lines, None, tie, cnt_max)
            else:
                self._cache = reduce_ternary(lines, None, config.threshold, cnt_max)
        return self._cache

    # -- FP32 -------------------------------------------------------------------------------------

    def store(self, worker: int, data: bytes, enables: int | None) -> None:
        """Store a clean FP32 contribution; ``enables`` None means the full line.

        The first partial write of an epoch clears the other bytes, so that old bytes never become
        data. A full write removes memory's poison mark; a partial one does not.
        """
        self.kept = False
        if not self.seen(worker):
            self.times_seen[worker] += 1
        if enables is None or not self.seen(worker):
            self.marked.discard(worker)
        if enables is not None:
            data = merge(self.data.get(worker, ZERO_LINE), data, enables)
        self.data[worker] = bytes(data)
        self._cache = None

    def summed(self) -> bytes:
        """Return the FP32 sum of the contributions so far, in the order of workers, as 64 bytes."""
        if not isinstance(self._cache, bytes):
            self._cache = fp32.ordered_sum(_stack(self.data)).tobytes()
        return self._cache

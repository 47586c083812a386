# SPDX-License-Identifier: Apache-2.0
"""The capacity check of a region: misses among its last contributions (spec: controller §5).

Whether a contribution hits a slot is micro-architecture: the model learns it from SLOT_MISS, which
software reads. If between two such reads, with nothing in flight, every operation of the engine has
missed, or none, or there was one alone, each outcome is known. Of the others it is not, and then
FALLBACK is compared with what both outcomes allow.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from verif.scoreboard.ranges import Span

HISTORY = 256
"""Longest window (docs/registers.md, CAP_WINDOW)."""
_KEPT = 4 * HISTORY


class _Made(NamedTuple):
    """A contribution: it missed (None: not known), with these limits in force."""

    missed: bool | None
    window: int
    threshold: int


class Capacity:
    """One region: how often the misses in its window were above the threshold."""

    def __init__(self) -> None:
        self._made: list[_Made] = []
        """Contributions since the history was restarted."""
        self._fresh = 0
        """The first of them that the next read of SLOT_MISS may resolve."""
        self._decided = 0
        """The first of them that is not yet in `_times`."""
        self._times = Span(0, 0)
        self._exact = True
        """False: some may have been made before the restart."""

    def contribution(self, window: int, threshold: int) -> None:
        """A contribution was presented to the engine."""
        self._made.append(_Made(None, window, threshold))
        if len(self._made) > _KEPT:
            self._decide(len(self._made))
            gone = len(self._made) - HISTORY
            del self._made[:gone]
            self._fresh = max(0, self._fresh - gone)
            self._decided = HISTORY

    def resolve(self, missed: bool | None) -> None:
        """SLOT_MISS was read: all that came since the last time missed, or hit; None: some did."""
        if missed is not None:
            for number in range(self._fresh, len(self._made)):
                self._made[number] = self._made[number]._replace(missed=missed)
        self._fresh = len(self._made)
        self._decide(self._fresh)

    def restart(self, exact: bool) -> None:
        """A commit of the region, or another window; `exact`: with nothing in flight."""
        self._decide(len(self._made))
        if exact:
            self._made.clear()
            self._fresh = self._decided = 0
        else:
            self._made = [one._replace(missed=None) for one in self._made]
            self._fresh = len(self._made)
        self._exact = exact

    def _count(self, end: int) -> Span:
        """0 or 1: the contribution before `end` brought the misses above the threshold."""
        _, window, threshold = self._made[end - 1]
        if threshold >= window:
            return Span(0, 0)
        last = [one.missed for one in self._made[max(0, end - window) : end]]
        certain = self._exact and last.count(True) > threshold
        return Span(int(certain), int(len(last) - last.count(False) > threshold))

    def _decide(self, end: int) -> None:
        self._times = self.times(end)
        self._decided = end

    def times(self, end: int | None = None) -> Span:
        """Least and most contributions, since the start, that exceeded the threshold."""
        low, high, _ = self._times
        for number in range(self._decided, len(self._made) if end is None else end):
            more = self._count(number + 1)
            low, high = low + more.low, high + more.high
        return Span(low, high)


class CapacityCheck:
    """All regions. The limits are those that the registers hold."""

    def __init__(self, regions: int, window: int, threshold: int) -> None:
        self.regions = [Capacity() for _ in range(regions)]
        self.window = window
        self.threshold = threshold
        self._operations = 0
        self._misses: int | None = 0

    def change(self, window: int, threshold: int, quiet: bool) -> None:
        """Other limits are in force from now on."""
        for region in self.regions:
            if window != self.window or not quiet:
                region.restart(quiet)
        self.window, self.threshold = window, threshold

    def operation(self) -> None:
        """An operation of the engine was answered."""
        self._operations += 1

    def contribution(self, region: int) -> None:
        """A contribution to a region in a low-bit mode was answered."""
        self.regions[region].contribution(self.window, self.threshold)

    def saw_misses(self, misses: int) -> None:
        """SLOT_MISS was read with nothing in flight."""
        missed: bool | None = None
        if self._misses is not None and misses - self._misses in (0, self._operations):
            missed = misses > self._misses
        for region in self.regions:
            region.resolve(missed)
        self._misses, self._operations = misses, 0

    def counters_cleared(self, quiet: bool) -> None:
        """CTRL.CLEAR_COUNTERS: what came since the last read of SLOT_MISS cannot be resolved."""
        self._misses = None if self._operations or not quiet else 0

    def times(self, region: int, busy: Collection[int]) -> Span:
        """Contributions to a region above the threshold; `busy`: regions with some in flight."""
        low, high, _ = self.regions[region].times()
        on = self.threshold < self.window
        return Span(low, high + (_KEPT if on and region in busy else 0))

    def all_times(self, busy: Collection[int]) -> Span:
        """The same of all regions."""
        spans = [self.times(region, busy) for region in range(len(self.regions))]
        return Span(sum(span.low for span in spans), sum(span.high for span in spans))

# SPDX-License-Identifier: Apache-2.0
"""Ranges of register values while requests are in flight, and clears by software.

The pins show in which cycle an event must be over, or before which cycle it cannot have happened;
in between a register may show either. While nothing is in flight every range is one value, so no
comparison is skipped.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

SETTLE_CLOCKS = 6
"""Clocks from an event on a port of the device until its registers must show it."""


class Span(NamedTuple):
    """Range of values: `low`..`high` (both included), and the values of `also`."""

    low: int
    high: int
    also: frozenset[int] = frozenset()

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int) and (self.low <= value <= self.high or value in self.also)

    def __str__(self) -> str:
        span = str(self.low) if self.low == self.high else f"{self.low}..{self.high}"
        others = sorted(value for value in self.also if not self.low <= value <= self.high)
        return " or ".join([span, *map(str, others)])


def exactly(value: int) -> Span:
    """Return the range that holds one value only."""
    return Span(value, value)


def either(*values: int) -> Span:
    """Return the set of the given values, as a Span."""
    return Span(values[0], values[0], frozenset(values))


def total(spans: Iterable[Span]) -> Span:
    """Return the range of the sum of one value of each range; `also` is ignored."""
    lows, highs, _ = zip(*spans, strict=True)
    return Span(sum(lows), sum(highs))


class Recent:
    """Count of the events on a port of the device: in all, and those at least SETTLE_CLOCKS cycles
    ago.

    Args:
        clock: Returns the present cycle.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.total = 0
        self._old = 0
        self._new: deque[tuple[int, int]] = deque()

    def add(self, count: int = 1) -> None:
        """Count `count` events in the present cycle."""
        self.total += count
        self._new.append((self.clock(), count))
        self._settle()

    def _settle(self) -> None:
        before = self.clock() - SETTLE_CLOCKS
        while self._new and self._new[0][0] <= before:
            self._old += self._new.popleft()[1]

    def span(self) -> Span:
        """Return the range of the count that a register may show: from the settled events to
        all.
        """
        self._settle()
        return Span(self._old, self.total)


@dataclass(slots=True)
class Before:
    """Knowledge of a `Cleared` counter when a read of it begins.

    Attributes:
        low: Least value that it had.
        base: Least number of events of the source that clears had removed.
        clears: Number of starts and ends of clears so far.
    """

    low: int
    base: int
    clears: int


class Cleared:
    """Range of a counter or sticky flag that software can clear: events since the last clear.

    Call `clear_begin` when the device has accepted the write that clears, and `clear_end` when it
    has answered. Events in between may be cleared or not.

    Args:
        source: Returns the range of the number of events since the start of the test.
    """

    def __init__(self, source: Callable[[], Span]) -> None:
        self.source = source
        self._base = exactly(0)
        self._clears = 0
        self._from: int | None = None
        self._open = 0

    def clear_begin(self) -> None:
        """Record that the device has accepted a write that clears."""
        if self._from is None:
            self._from = self.source().low
        self._clears += 1
        self._open += 1

    def clear_end(self) -> None:
        """Record the response to a write that clears; overlapping writes count as one, ended by the
        last.
        """
        self._clears += 1
        self._open = max(0, self._open - 1)
        if self._open:
            return
        start = self.source().low if self._from is None else self._from
        self._base = Span(start, self.source().high)
        self._from = None

    def reset(self) -> None:
        """Follow a reset of the device: earlier events no longer count."""
        self._base, self._from, self._open = exactly(self.source().high), None, 0
        self._clears += 1

    def span(self) -> Span:
        """Return the range of the number of events since the last clear, as the register may show
        it now.
        """
        now = self.source()
        if self._from is not None:
            return Span(0, now.high - self._base.low)
        return Span(max(0, now.low - self._base.high), max(0, now.high - self._base.low))

    def begin(self) -> Before:
        """Return the state that `end` needs of the begin of a read of the register."""
        return Before(self.span().low, self._base.low, self._clears)

    def end(self, before: Before) -> Span:
        """Return the range of the values that a read which ends now may return.

        Args:
            before: Result of `begin` when the read began.
        """
        now = self.span()
        if before.clears != self._clears or self._from is not None:
            return Span(0, max(now.high, self.source().high - before.base))
        return Span(before.low, now.high)

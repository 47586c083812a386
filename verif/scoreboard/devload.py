# SPDX-License-Identifier: Apache-2.0
"""Checks of the overload of the device: DevLoad, and FALLBACK of a region (spec: controller §5).

DevLoad of every response is compared with the thresholds in DEVLOAD_THRESHOLD. The level follows
the number of transactions that the device has admitted and not answered. From the pins this number
is known in a range: at least 1 (the one that is answered), at most the greatest number outstanding
at the host since that request came. A region in FALLBACK answers MODERATE or worse.

FALLBACK of a region is raised when more than CAP_THRESHOLD of its last CAP_WINDOW contributions
missed. Whether a contribution hits a slot is micro-architecture: it is learned from reads of
SLOT_MISS. If between two such reads, with nothing in flight, every operation of the engine has
missed, or none, each outcome is known; else FALLBACK is compared with what both outcomes allow.

The time at which a contribution is compared with the limits does not show on the pins either: it
lies between request and response. Contributions in flight while the limits changed may have met the
old ones.
"""

from collections import deque
from collections.abc import Collection
from typing import NamedTuple

from cocotbext.cxl.wire.messages import DevLoad
from models.register_map import REG_MAP
from verif.scoreboard.operations import Op
from verif.scoreboard.ranges import Span

HISTORY = 256
"""Longest window (docs/registers.md, CAP_WINDOW)."""
_KEPT = 4 * HISTORY


class Limits(NamedTuple):
    """Values of the registers CAP_WINDOW and CAP_THRESHOLD."""

    window: int
    threshold: int

    @property
    def on(self) -> bool:
        """Return whether the check can ever fail: at most the whole window can miss."""
        return self.threshold < self.window


class _Made(NamedTuple):
    """Contribution to a region: whether it missed its slot (None: unknown), and the limits that may
    have been in force.
    """

    missed: bool | None
    limits: Collection[Limits]


class Capacity:
    """Capacity check of one region: the number of times that misses in its window exceeded the
    threshold.
    """

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

    def contribution(self, limits: Collection[Limits]) -> None:
        """Record a contribution that the engine received; whether it missed is unknown so far.

        Args:
            limits: Limits of which any may have been in force.
        """
        self._made.append(_Made(None, limits))
        if len(self._made) > _KEPT:
            self._decide(len(self._made))
            gone = len(self._made) - HISTORY
            del self._made[:gone]
            self._fresh = max(0, self._fresh - gone)
            self._decided = HISTORY

    def resolve(self, missed: bool | None) -> None:
        """Record a read of SLOT_MISS, which resolves all contributions since the read before.

        Args:
            missed: True if all of them missed, False if all hit, None if some did: these stay
                unknown.
        """
        if missed is not None:
            for number in range(self._fresh, len(self._made)):
                self._made[number] = self._made[number]._replace(missed=missed)
        self._fresh = len(self._made)
        self._decide(self._fresh)

    def restart(self, exact: bool) -> None:
        """Restart the history of contributions after a commit or a change of the window.

        Args:
            exact: Whether nothing was in flight; if False, earlier contributions may still count.
        """
        self._decide(len(self._made))
        if exact:
            self._made.clear()
            self._fresh = self._decided = 0
        else:
            self._made = [one._replace(missed=None) for one in self._made]
            self._fresh = len(self._made)
        self._exact = exact

    def _count(self, end: int) -> Span:
        """Return whether the last contribution before index `end` exceeded the threshold, as a
        range in 0..1.
        """
        spans = [self._count_within(end, limits) for limits in self._made[end - 1].limits]
        return Span(min(span.low for span in spans), max(span.high for span in spans))

    def _count_within(self, end: int, limits: Limits) -> Span:
        if not limits.on:
            return Span(0, 0)
        last = [one.missed for one in self._made[max(0, end - limits.window) : end]]
        certain = self._exact and last.count(True) > limits.threshold
        return Span(int(certain), int(len(last) - last.count(False) > limits.threshold))

    def _decide(self, end: int) -> None:
        self._times = self.times(end)
        self._decided = end

    def times(self, end: int | None = None) -> Span:
        """Return the range of the number of contributions, since the start, that exceeded the
        threshold.

        Args:
            end: Count contributions before this index only; by default all.
        """
        low, high, _ = self._times
        for number in range(self._decided, len(self._made) if end is None else end):
            more = self._count(number + 1)
            low, high = low + more.low, high + more.high
        return Span(low, high)


class CapacityCheck:
    """Capacity checks of all regions, with the limits that the registers hold or may have held.

    Args:
        regions: Number of regions.
        window: CAP_WINDOW after reset.
        threshold: CAP_THRESHOLD after reset.
    """

    def __init__(self, regions: int, window: int, threshold: int) -> None:
        self.regions = [Capacity() for _ in range(regions)]
        self.limits = Limits(window, threshold)
        self._former: frozenset[Limits] = frozenset()
        """Limits that a contribution in flight, or the next one, may still have met."""
        self._writes = 0
        """Writes of the limits that were accepted and not answered."""
        self._operations = 0
        self._misses: int | None = 0

    def change(self, window: int, threshold: int, quiet: bool) -> None:
        """Record the start of a write of CAP_WINDOW or CAP_THRESHOLD.

        Args:
            window: CAP_WINDOW after the write.
            threshold: CAP_THRESHOLD after the write.
            quiet: Whether no request is in flight.
        """
        if window != self.limits.window or not quiet:
            self._restart(quiet)
        self._former |= {self.limits}
        self.limits = Limits(window, threshold)
        self._writes += 1

    def changed(self, quiet: bool) -> None:
        """Record the response to a write of the limits; `quiet`: no request is in flight.

        Without requests in flight the former limits are out of force; else the histories restart
        with doubt.
        """
        self._writes -= 1
        if quiet:
            self.idle()
        else:
            self._restart(False)

    def idle(self) -> None:
        """Record that no request is in flight: the next ones meet the present limits only."""
        if self._writes:  # what was just answered came before or after the new limits
            self._restart(False)
        else:
            self._former = frozenset()

    def reset(self, window: int, threshold: int) -> None:
        """Follow a reset of the device, which ends all requests in flight and sets these limits."""
        self._restart(False)
        self.limits, self._former, self._writes = Limits(window, threshold), frozenset(), 0

    def _restart(self, exact: bool) -> None:
        for region in self.regions:
            region.restart(exact)

    @property
    def on(self) -> bool:
        """Return whether a contribution may meet limits that it can exceed."""
        return any(limits.on for limits in self._former | {self.limits})

    def operation(self) -> None:
        """Count an answered operation of the engine, for comparison with SLOT_MISS."""
        self._operations += 1

    def contribution(self, region: int) -> None:
        """Record an answered contribution to a region in a low-bit mode."""
        self.regions[region].contribution(self._former | {self.limits})

    def saw_misses(self, misses: int) -> None:
        """Record a read of SLOT_MISS that returned `misses` with nothing in flight.

        If it rose by the number of operations since the last read, all missed; if not at all, none
        did.
        """
        missed: bool | None = None
        if self._misses is not None and misses - self._misses in (0, self._operations):
            missed = misses > self._misses
        for region in self.regions:
            region.resolve(missed)
        self._misses, self._operations = misses, 0

    def counters_cleared(self, quiet: bool) -> None:
        """Record a write of CTRL.CLEAR_COUNTERS; `quiet`: no request was in flight.

        Contributions since the last read of SLOT_MISS stay unresolved.
        """
        self._misses = None if self._operations or not quiet else 0

    def times(self, region: int, busy: Collection[int]) -> Span:
        """Return the range of the number of contributions to a region that exceeded the threshold.

        Args:
            region: Number of the region.
            busy: Numbers of the regions with unjudged requests.
        """
        low, high, _ = self.regions[region].times()
        return Span(low, high + (_KEPT if self.on and region in busy else 0))


_REGISTER = REG_MAP.expand()["DEVLOAD_THRESHOLD"]
RESET_THRESHOLDS = (
    _REGISTER.field("OPTIMAL").reset,
    _REGISTER.field("MODERATE").reset,
    _REGISTER.field("SEVERE").reset,
)
LEVELS = (DevLoad.OPTIMAL, DevLoad.MODERATE, DevLoad.SEVERE)


def level(occupancy: int, thresholds: tuple[int, ...]) -> DevLoad:
    """Return the DevLoad level of a number of outstanding transactions: the worst whose threshold
    is reached.

    Args:
        occupancy: Number of outstanding transactions.
        thresholds: Thresholds of OPTIMAL, MODERATE and SEVERE; 0 disables a level.

    Returns:
        The level; LIGHT if no threshold is reached.
    """
    reached = [one for one, least in zip(LEVELS, thresholds, strict=True) if 0 < least <= occupancy]
    return max(reached, default=DevLoad.LIGHT)


class DevLoadRule:
    """Check of the DevLoad level in responses.

    It follows requests, responses, writes of DEVLOAD_THRESHOLD and CAP_*, and accesses to FALLBACK.
    """

    def __init__(self) -> None:
        self.thresholds = RESET_THRESHOLDS
        self.calm_since: dict[int, int] = {}
        """Regions that are certainly not in FALLBACK, and when a read has shown it."""
        self._risky = False
        """A request in flight may raise FALLBACK."""
        self._risks = 0
        self.fallback_since: dict[int, int] = {}
        self._cap_was_on = False
        self._former: deque[tuple[int, tuple[int, ...]]] = deque()
        """Thresholds that have been in force, each with the time of its end."""
        self._outstanding = 0
        self._peaks: deque[tuple[int, int]] = deque()
        """Times and numbers outstanding, such that no later number is as great."""

    # -- events -------------------------------------------------------------------------------
    def request(self, now: int, risky: bool = True) -> None:
        """Record the arrival, at time `now`, of a request that is to be answered.

        Args:
            now: Present time.
            risky: Whether the request may raise FALLBACK of a region.
        """
        self._outstanding += 1
        if risky:
            self._risky, self._risks = True, self._risks + 1
            self.calm_since.clear()
        while self._peaks and self._peaks[-1][1] <= self._outstanding:
            self._peaks.pop()
        self._peaks.append((now, self._outstanding))

    def answered(self) -> None:
        """Record that a request was answered."""
        self._outstanding -= 1
        self._risky = self._risky and self._outstanding > 0

    def thresholds_begin(self, *thresholds: int) -> None:
        """Record the start of a write of DEVLOAD_THRESHOLD: old or new thresholds may be in force.

        Args:
            thresholds: New thresholds of OPTIMAL, MODERATE and SEVERE.
        """
        self._former.append((-1, self.thresholds))
        self.thresholds = (thresholds[0], thresholds[1], thresholds[2])

    def thresholds_end(self, now: int) -> None:
        """Record the response at time `now` to a write of DEVLOAD_THRESHOLD.

        Requests from now on meet the new thresholds only.
        """
        self._former = deque((now if end < 0 else end, old) for end, old in self._former)
        while len(self._former) > 1 and self._outstanding == 0:
            self._former.popleft()

    def set_capacity(self, window: int, threshold: int) -> None:
        """Record a write of CAP_WINDOW or CAP_THRESHOLD, with the values of both after it.

        If the capacity check can fail with them, regions may be in FALLBACK from now on.
        """
        if window and threshold < window:
            self._cap_was_on = True

    def fallback_begin(self) -> int:
        """Return the state that `saw_fallback` needs of the begin of a read of FALLBACK."""
        return -1 if self._risky else self._risks

    def saw_fallback(self, now: int, bits: int, regions: int, before: int = -1) -> None:
        """Record a read of FALLBACK that returned `bits` at time `now`.

        A bit that is 0 stays 0 if no request that may raise it was in flight since the read began.

        Args:
            now: Present time.
            bits: Value read.
            regions: Number of regions.
            before: Result of `fallback_begin` when the read began.
        """
        for region in range(regions):
            if bits >> region & 1:
                self.fallback_since.setdefault(region, now)
            elif before == self._risks:
                self.calm_since.setdefault(region, now)

    def clear_fallback(self, bits: int) -> None:
        """Record the start of a write of FALLBACK whose ones clear the flags of these regions."""
        for region in list(self.fallback_since):
            if bits >> region & 1:
                del self.fallback_since[region]

    # -- the check ----------------------------------------------------------------------------
    def check(self, op: Op, region: int | None, devload: int) -> str | None:
        """Check the DevLoad of a response.

        Args:
            op: Request that is answered.
            region: Region whose window holds the address, or None.
            devload: DevLoad of the response.

        Returns:
            Text of the finding, or None.
        """
        levels = self.levels(op)
        allowed = set(levels)
        since = None if region is None else self.fallback_since.get(region)
        # Unsupported opcodes and invalidations inside a window: the text leaves it open.
        belongs = not op.inert or op.access.region is not None
        if since is not None and op.start > since and belongs:
            if devload < DevLoad.MODERATE:
                return f"region {region} is in FALLBACK, DevLoad must be MODERATE or worse"
            allowed = {max(one, DevLoad.MODERATE) for one in levels}
        elif region is not None and op.start > self.calm_since.get(region, op.start):
            if devload not in allowed:
                return f"region {region} is not in FALLBACK, DevLoad must be as without it"
        elif region is not None and (self._cap_was_on or since is not None):
            allowed |= {max(one, DevLoad.MODERATE) for one in levels}
        if devload in allowed:
            return None
        names = " or ".join(one.name for one in sorted(allowed))
        return f"DevLoad must be {names} by the occupancy and the thresholds {self.thresholds}"

    def levels(self, op: Op) -> set[DevLoad]:
        """Return the levels that the number of outstanding transactions may have given when `op`
        was answered.
        """
        most = next((count for time, count in self._peaks if time >= op.start), 1)
        sets = [self.thresholds, *(old for end, old in self._former if end < 0 or end >= op.start)]
        edges = {1, most}
        for thresholds in sets:
            edges |= {edge for edge in thresholds if 1 <= edge <= most}
        return {level(edge, thresholds) for thresholds in sets for edge in edges}

# SPDX-License-Identifier: Apache-2.0
"""Check of DevLoad in every response against the thresholds in DEVLOAD_THRESHOLD (spec: controller
§5).

The level follows the number of transactions that the device has admitted and not answered. From the
pins this number is known in a range: at least 1 (the one that is answered), at most the greatest
number outstanding at the host since that request came. A region in FALLBACK answers MODERATE or
worse.
"""

from __future__ import annotations

from collections import deque

from cocotbext.cxl.wire.messages import DevLoad
from models.register_map import REG_MAP
from verif.scoreboard.operations import Op

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

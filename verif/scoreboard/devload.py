# SPDX-License-Identifier: Apache-2.0
"""Check of DevLoad in every response against its register thresholds (spec: controller §5).

The bench cannot know the queue occupancy, but two rules are exact: with the three levels switched
off the field is LIGHT, and a region in FALLBACK answers MODERATE or worse.
"""

from __future__ import annotations

from cocotbext.cxl.wire.messages import DevLoad
from verif.scoreboard.operations import Op

RESET_THRESHOLDS = (16, 48, 96)


class DevLoadRule:
    """Follows DEVLOAD_THRESHOLD, CAP_* and FALLBACK as the register bus shows them."""

    def __init__(self) -> None:
        self.thresholds = RESET_THRESHOLDS
        self.levels_off_since: int | None = None
        self.may_fall_back: set[int] = set()
        self.fallback_since: dict[int, int] = {}
        self._cap_was_on = False

    def set_thresholds(self, now: int, optimal: int, moderate: int, severe: int) -> None:
        """A write of DEVLOAD_THRESHOLD has completed at time `now`."""
        self.thresholds = (optimal, moderate, severe)
        if any(self.thresholds):
            self.levels_off_since = None
        elif self.levels_off_since is None:
            self.levels_off_since = now

    def set_capacity(self, window: int, threshold: int) -> None:
        """A write of CAP_WINDOW or CAP_THRESHOLD begins."""
        if window and threshold < window:
            self._cap_was_on = True

    def saw_fallback(self, now: int, bits: int, regions: int) -> None:
        """A read of FALLBACK has returned `bits` at time `now`."""
        for region in range(regions):
            if bits >> region & 1:
                self.may_fall_back.add(region)
                self.fallback_since.setdefault(region, now)

    def clear_fallback(self, bits: int) -> None:
        """A write-1-to-clear of FALLBACK begins."""
        for region in list(self.fallback_since):
            if bits >> region & 1:
                del self.fallback_since[region]

    def check(self, op: Op, region: int | None, devload: int) -> str | None:
        """What is wrong with the DevLoad of the response to `op`, in the window of `region`."""
        if region is not None and op.inert:
            # Unsupported opcodes and invalidations inside a window: the text leaves it open.
            known = region in self.fallback_since
            return None if known or self._cap_was_on else self._levels(op, devload)
        if region in self.fallback_since:
            since = self.fallback_since[region]
            if op.start > since and devload < DevLoad.MODERATE:
                return f"region {region} is in FALLBACK, DevLoad must be MODERATE or worse"
            return None
        if region is not None and self._cap_was_on:
            off = self.levels_off_since is not None and op.start > self.levels_off_since
            if off and devload == DevLoad.OPTIMAL:
                return "the levels are off, DevLoad must be LIGHT (or MODERATE for a fallback)"
            return None
        return self._levels(op, devload)

    def _levels(self, op: Op, devload: int) -> str | None:
        if self.levels_off_since is None or op.start <= self.levels_off_since:
            return None
        if devload != DevLoad.LIGHT:
            return "the levels are off and there is no FALLBACK here, DevLoad must be LIGHT"
        return None

# SPDX-License-Identifier: Apache-2.0
"""Bit flips in the device's RAMs: allowed values of counters and capture.

spec: controller, second edition, section 8. A bit flips when RAS_INJECT says so, and never by
itself: without an injection nothing is counted. Whether a flipped bit is read before it is written
over is micro-architecture, so that each one may be counted once or never; a test that knows better
says so (`found`).
"""

from __future__ import annotations

from collections.abc import Mapping

from models.nf_regs import REG_MAP
from models.parameters import DeviceParams
from verif.scoreboard.ranges import Span

NONE, PARITY, SECDED = range(3)
RETRY = REG_MAP.enums["Ram"]["RETRY"]
"""A flit is read as often as it is replayed; any other row is used once, or written back."""
MOST = (1 << 32) - 1


class RamFaults:
    """Predicted RAM errors, from the writes of RAS_INJECT and RAS_ERROR."""

    def __init__(self, params: DeviceParams) -> None:
        self.ecc = params.ecc
        self.counters = {"RAM_PARITY": self.bad, "RAM_CORRECTED": self.corrected}
        self.flips: list[tuple[int, int]] = []
        """RAM and row of every injection since reset."""

    def injected(self, ram: int, row: int) -> None:
        """Record a bit flip in a row."""
        self.flips.append((ram, row))

    def reset(self) -> None:
        """Follow a reset of the device."""
        self.flips.clear()

    def _again(self) -> bool:
        return any(ram == RETRY for ram, _ in self.flips)

    def bad(self) -> Span:
        """Return the range of untrusted words; with SECDED it takes two flips to make one."""
        if self.ecc == NONE:
            return Span(0, 0)
        needed = 2 if self.ecc == SECDED else 1
        return Span(0, MOST if self._again() else len(self.flips) // needed)

    def corrected(self) -> Span:
        """Return the range of corrected words."""
        if self.ecc != SECDED:
            return Span(0, 0)
        return Span(0, MOST if self._again() else len(self.flips))

    def captured(self, value: Mapping[str, int]) -> str | None:
        """Return the error in a read of RAS_ERROR, or None."""
        place = value["RAM"], value["ROW"]
        if value["VALID"] and not self.bad().high:
            return "RAS_ERROR.VALID is 1, no bit has flipped"
        # Without VALID it is the last one that was captured, if any.
        if place not in self.flips and (value["VALID"] or place != (0, 0)):
            return f"RAS_ERROR names {value}, where no bit has flipped"
        return None

# SPDX-License-Identifier: Apache-2.0
"""Bit flips in the device's RAMs: ranges of their counters, and check of RAS_ERROR.

A bit flips when RAS_INJECT is written, and never by itself: without an injection nothing is counted
(spec: controller, second edition, section 8). Whether a flipped bit is read before its row is
overwritten is micro-architecture, so each flip may be counted once or never.
"""

from collections.abc import Mapping

from models.parameters import DeviceParams
from models.register_map import REG_MAP
from verif.scoreboard.ranges import Span

NONE, PARITY, SECDED = range(3)
RETRY = REG_MAP.enums["Ram"]["RETRY"]
"""A flit is read as often as it is replayed; any other row is used once, or written back."""
MOST = (1 << 32) - 1


class RamFaults:
    """Predictor of RAM errors, from the writes of RAS_INJECT.

    Args:
        params: Parameters of the device; `ecc` is NONE, PARITY or SECDED.
    """

    def __init__(self, params: DeviceParams) -> None:
        self.ecc = params.ecc
        self.counters = {"RAM_PARITY": self.bad, "RAM_CORRECTED": self.corrected}
        self.flips: list[tuple[int, int]] = []
        """RAM and row of every injection since reset."""

    def injected(self, ram: int, row: int) -> None:
        """Record that a write of RAS_INJECT flipped a bit in a row of a RAM."""
        self.flips.append((ram, row))

    def reset(self) -> None:
        """Follow a reset of the device: earlier flips no longer count."""
        self.flips.clear()

    def _again(self) -> bool:
        return any(ram == RETRY for ram, _ in self.flips)

    def bad(self) -> Span:
        """Return the range of RAM_PARITY, the number of words read that are not to be trusted.

        With SECDED such a word takes two flips; a flip in the retry buffer may be read any number
        of times.
        """
        if self.ecc == NONE:
            return Span(0, 0)
        needed = 2 if self.ecc == SECDED else 1
        return Span(0, MOST if self._again() else len(self.flips) // needed)

    def corrected(self) -> Span:
        """Return the range of RAM_CORRECTED, the number of words that SECDED corrected when they
        were read.
        """
        if self.ecc != SECDED:
            return Span(0, 0)
        return Span(0, MOST if self._again() else len(self.flips))

    def captured(self, value: Mapping[str, int]) -> str | None:
        """Check the fields that a read of RAS_ERROR returned; return the text of the finding, or
        None.

        RAM and row must be those of an injection, or 0 before the first capture.
        """
        place = value["RAM"], value["ROW"]
        if value["VALID"] and not self.bad().high:
            return "RAS_ERROR.VALID is 1, no bit has flipped"
        # Without VALID it is the last one that was captured, if any.
        if place not in self.flips and (value["VALID"] or place != (0, 0)):
            return f"RAS_ERROR names {value}, where no bit has flipped"
        return None

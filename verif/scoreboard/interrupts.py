# SPDX-License-Identifier: Apache-2.0
"""IRQ_STATUS, IRQ_ENABLE and the interrupt pin (spec: controller §5, §7).

Each bit of IRQ_STATUS is sticky: it is 1 if there was an event of its source since it was cleared.
The pin is 1 while a bit is set that is enabled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from models.register_map import Register
from verif.scoreboard.ranges import Before, Cleared, Span


class Interrupts:
    """Sources by the name of their bit; each gives least and most events since the start."""

    def __init__(
        self, status: Register, enable: Register, sources: Mapping[str, Callable[[], Span]]
    ) -> None:
        self.status = status
        self.enable = enable
        self.bits = {field.name: Cleared(sources[field.name]) for field in status.fields}
        self._enabled = enable.reset
        self._enabling: int | None = None
        """What is being written to IRQ_ENABLE."""

    # -- writes -------------------------------------------------------------------------------
    def _chosen(self, ones: int) -> list[Cleared]:
        return [bit for name, bit in self.bits.items() if self.status.field(name).extract(ones)]

    def clear_begin(self, ones: int) -> None:
        """A write of IRQ_STATUS was accepted."""
        for bit in self._chosen(ones):
            bit.clear_begin()

    def clear_end(self, ones: int) -> None:
        """It was answered."""
        for bit in self._chosen(ones):
            bit.clear_end()

    def enable_begin(self, data: int, lanes: int) -> None:
        """A write of IRQ_ENABLE was accepted."""
        self._enabling = self.enable.stored(self._enabled, data, lanes)

    def enable_end(self) -> None:
        """It was answered."""
        if self._enabling is not None:
            self._enabled, self._enabling = self._enabling, None

    def reset(self) -> None:
        """The device was reset."""
        self._enabled, self._enabling = self.enable.reset, None
        for bit in self.bits.values():
            bit.reset()

    # -- reads --------------------------------------------------------------------------------
    def begin(self) -> dict[str, Before]:
        """A read of IRQ_STATUS begins."""
        return {name: bit.begin() for name, bit in self.bits.items()}

    def check(self, data: int, before: Mapping[str, Before]) -> str | None:
        """What is wrong with the value read, or None."""
        for name, bit in self.bits.items():
            events = bit.end(before[name])
            got = self.status.field(name).extract(data)
            if got not in (int(events.low > 0), int(events.high > 0)):
                return f"IRQ_STATUS.{name} is {got} after {events} such events"
        return None

    # -- the pin ------------------------------------------------------------------------------
    def pin(self) -> Span:
        """What the pin must be, as far as it is known."""
        low = high = 0
        if not self._enabled | (self._enabling or 0):
            return Span(0, 0)
        for name, bit in self.bits.items():
            field = self.enable.field(name)
            on = [field.extract(self._enabled)]
            if self._enabling is not None:
                on.append(field.extract(self._enabling))
            events = bit.span()
            low |= events.low > 0 and all(on)
            high |= events.high > 0 and any(on)
        return Span(int(low), int(high))

# SPDX-License-Identifier: Apache-2.0
"""Check of the interrupt pin against IRQ_STATUS and IRQ_ENABLE.

The pin is compared when it changes, and every PERIOD cycles in between: its right value changes
with events on other ports only, which the predictor sees.
"""

from __future__ import annotations

from typing import Any

from cocotb.triggers import ClockCycles, First, ValueChange
from pyuvm import uvm_component

from verif.scoreboard.ranges import SETTLE_CLOCKS, Span
from verif.scoreboard.register_predictor import RegisterPredictor

PERIOD = 200
"""Clocks between two looks at a pin that does not change."""


class IrqMonitor(uvm_component):
    """Monitor that checks the level of the interrupt pin; set `dut` and `predictor` before the run
    phase.
    """

    dut: Any
    predictor: RegisterPredictor

    async def run_phase(self) -> None:
        pin, clock = self.dut.irq, self.dut.clk
        change = ValueChange(pin)
        before: Span | None = None
        while True:
            moved = await First(change, ClockCycles(clock, PERIOD)) is change
            if self.dut.rst_n.value != 1:
                before = None
                continue
            want = self.predictor.interrupts.pin()
            if moved or before is None:
                await ClockCycles(clock, SETTLE_CLOCKS)  # its cause may be seen a little later
                before, want = want, self.predictor.interrupts.pin()
            self.judge(str(pin.value), before, want)
            before = want

    def judge(self, value: str, before: Span, after: Span) -> None:
        """Report a finding if the interrupt pin is unknown or outside its range.

        Args:
            value: Level of the pin: "0", "1", "x" or "z".
            before: Expected range at an earlier moment.
            after: Expected range now; the pin may have any level between the two.
        """
        if value not in "01":
            self.predictor.rules.report(f"IRQ pin is {value}")
        elif int(value) not in Span(min(before.low, after.low), max(before.high, after.high)):
            self.predictor.rules.report(f"IRQ pin is {value}, expected {after}")

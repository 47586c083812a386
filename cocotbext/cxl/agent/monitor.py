# SPDX-License-Identifier: Apache-2.0
"""Monitor of a flit interface: decodes both directions from the pins and checks the link rules.

Timing contract: everything is sampled right after RisingEdge(clk), before any register of the
device has moved, so a value is what the device samples in the same clock. A tx flit is transferred
in a clock with tx_valid and tx_ready. rst_n is followed by edges. ``clk`` must be the clock that
cocotb drives itself.
"""

from __future__ import annotations

from typing import Any

import cocotb
from cocotb.task import Task
from cocotb.triggers import FallingEdge, RisingEdge
from cocotb.utils import get_sim_time
from pyuvm import uvm_analysis_port, uvm_component

from cocotbext.cxl.agent import trace
from cocotbext.cxl.agent.config import CxlConfig
from cocotbext.cxl.agent.errors import ErrorLog
from cocotbext.cxl.agent.items import ObservedRequest, ObservedResponse
from cocotbext.cxl.agent.pins import CxlPins, bits_reader
from cocotbext.cxl.agent.tracker import FlitEvent, LinkTracker
from cocotbext.cxl.wire.flits import Direction


class CxlMemMonitor(uvm_component):
    """Analysis ports: ``request_port`` gives ObservedRequest, ``response_port`` ObservedResponse,
    ``link_port`` a FlitEvent for every flit.

    ``errors`` holds every broken rule; each is logged when it is found, and check_phase fails if
    there is one.
    """

    pins: CxlPins
    cfg: CxlConfig
    error_log: ErrorLog
    records: bool = False
    """It writes the link trace that NF_LINK_TRACE asks for."""

    def build_phase(self) -> None:
        self.request_port = uvm_analysis_port("request_port", self)
        self.response_port = uvm_analysis_port("response_port", self)
        self.link_port = uvm_analysis_port("link_port", self)
        self.cycle = 0
        """Clocks since the start of the run phase."""
        self.requests = self.responses = 0
        self._in_reset = True
        self._stalled: tuple[int, int] | None = None
        self._tasks: list[Task[None]] = []

    def start_of_simulation_phase(self) -> None:
        cfg = self.cfg
        report = self.error_log.report
        self.tracker = LinkTracker(cfg.link.retry, cfg.waive, cfg.device_wrap, report)
        self.trace = trace.from_environment() if self.records else None

    @property
    def errors(self) -> list[str]:
        """Broken rules, one text each."""
        return self.tracker.errors

    async def run_phase(self) -> None:
        self._tasks = [cocotb.start_soon(loop) for loop in (self._watch(), self._follow_reset())]

    def extract_phase(self) -> None:
        # What runs on would see the next run of this cocotb test, and write to a closed trace.
        for task in self._tasks:
            task.cancel()
        if self.trace is not None:
            self.trace.close()

    async def _watch(self) -> None:
        pins = self.pins
        edge = RisingEdge(pins.clk)
        rx_valid, rx_id, rx_flit, tx_valid, tx_id, tx_flit, tx_ready, phy_up = (
            bits_reader(pin)
            for pin in (
                pins.rx_valid,
                pins.rx_protocol_id,
                pins.rx_flit,
                pins.tx_valid,
                pins.tx_protocol_id,
                pins.tx_flit,
                pins.tx_ready,
                pins.phy_up,
            )
        )
        tracker = self.tracker
        phy = "0"
        while True:
            await edge
            self.cycle += 1
            if self._in_reset:
                continue
            before, phy = phy, phy_up()
            if before == "1" and phy == "0":
                tracker.phy_down()
                if self.trace is not None:
                    self.trace.note("phy_down")
            if rx_valid() == "1":
                words = self._words(rx_id(), rx_flit())
                if words is not None:
                    self._publish(tracker.observe(Direction.M2S, *words, self.cycle))
            valid = tx_valid()
            if valid == "1":
                words = self._words(tx_id(), tx_flit())
                if words is None:
                    continue
                if self._stalled not in (None, words):
                    self._pin_error("tx flit changed while tx_ready was low")
                if tx_ready() == "1":
                    self._stalled = None
                    self._publish(tracker.observe(Direction.S2M, *words, self.cycle))
                else:
                    self._stalled = words if self.cfg.check_stable else None
            elif valid != "0":
                self._pin_error("tx_valid is X or Z")
            elif self._stalled is not None:
                self._pin_error("tx_valid fell while tx_ready was low")
                self._stalled = None

    def _words(self, protocol_id: str, flit: str) -> tuple[int, int] | None:
        """Both as numbers."""
        try:
            return int(protocol_id, 2), int(flit, 2)
        except ValueError:
            self._pin_error("X or Z on the pins of a valid flit")
            return None

    def _pin_error(self, text: str) -> None:
        self.errors.append(f"clock {self.cycle}: pins: {text}")
        self.error_log.report(self.cycle, f"pins: {text}")

    def _publish(self, event: FlitEvent) -> None:
        if self.trace is not None:
            self.trace.flit(event.cycle, event.direction, event.protocol_id, event.flit)
        report = event.report
        if report is not None and report.messages:
            now = get_sim_time("ns")
            if event.direction is Direction.M2S:
                for message in report.messages:
                    self.requests += 1
                    bad = message in report.misframed
                    self.request_port.write(ObservedRequest(message, event.cycle, now, bad))
            else:
                for message in report.messages:
                    self.responses += 1
                    self.response_port.write(ObservedResponse(message, event.cycle, now))
        self.link_port.write(event)

    async def _follow_reset(self) -> None:
        rst_n: Any = self.pins.rst_n
        while True:
            if rst_n.value != 1:
                await RisingEdge(rst_n)
            self._in_reset = False
            await FallingEdge(rst_n)
            self._in_reset = True
            self._stalled = None
            self.tracker.reset()
            if self.trace is not None:
                self.trace.note("reset")

    def finish(self) -> list[str]:
        """End of test: adds what is still owed (once) and gives all errors."""
        if not self._finished:
            self._finished = True
            self.tracker.finish(self.cycle)
        return self.errors

    _finished = False

    def check_phase(self) -> None:
        errors = self.finish()
        assert not errors, f"{len(errors)} link errors, first: {errors[0]}"

# SPDX-License-Identifier: Apache-2.0
"""CxlMemMonitor: decodes both directions of a link from the pins and checks the link rules.

Timing contract: everything is sampled right after RisingEdge(clock), before any register of the
device has moved, so a value is what the device samples in the same clock. An s2m flit is
transferred in a clock with s2m_valid and s2m_ready. A reset is followed by its edges. ``clock``
must be the clock that cocotb drives itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cocotb
from cocotb.task import Task
from cocotb.triggers import RisingEdge
from cocotb.utils import get_sim_time

from cocotbext.cxl import trace
from cocotbext.cxl.bus import CxlMemBus, bits_reader, follow_reset
from cocotbext.cxl.config import CxlConfig
from cocotbext.cxl.errors import CxlError, ErrorLog
from cocotbext.cxl.link.flit_event import FlitEvent
from cocotbext.cxl.link.tracker import LinkTracker
from cocotbext.cxl.wire.flits import Direction
from cocotbext.cxl.wire.messages import M2SMessage, S2MMessage


@dataclass(frozen=True, slots=True)
class ObservedRequest:
    """An M2S message, complete on the pins in clock ``cycle``; ``misframed``: illegal Sz / BE."""

    message: M2SMessage
    cycle: int
    time_ns: float
    misframed: bool = False


@dataclass(frozen=True, slots=True)
class ObservedResponse:
    """An S2M message, complete on the pins in clock ``cycle``."""

    message: S2MMessage
    cycle: int
    time_ns: float


class CxlMemMonitor:
    """Hooks: every callable in ``on_request`` gets each ObservedRequest, in ``on_response`` each
    ObservedResponse, in ``on_flit`` a FlitEvent for every flit.

    ``errors`` holds every broken rule; each is logged when it is found. With the ``error_log`` of a
    host, the first one is raised in the calls that wait there. ``records``: it writes the link
    trace that NF_LINK_TRACE asks for. ``start``: False waits for start().
    """

    def __init__(
        self,
        bus: CxlMemBus,
        clock: Any,
        reset: Any = None,
        reset_active_level: bool = True,
        *,
        cfg: CxlConfig | None = None,
        error_log: ErrorLog | None = None,
        records: bool = True,
        start: bool = True,
    ) -> None:
        self.bus, self.clock, self.cfg = bus, clock, cfg or CxlConfig()
        self._reset, self._active_level = reset, bool(reset_active_level)
        self.log = logging.getLogger(f"cocotb.{bus.name}.monitor")
        self.error_log = error_log or ErrorLog(self.log.error)
        self.on_request: list[Callable[[ObservedRequest], None]] = []
        self.on_response: list[Callable[[ObservedResponse], None]] = []
        self.on_flit: list[Callable[[FlitEvent], None]] = []
        self.cycle = 0
        """Clocks since the start."""
        self.requests = self.responses = 0
        link, waive = self.cfg.link, self.cfg.waive
        self.tracker = LinkTracker(link.retry, waive, self.cfg.device_wrap, self.error_log.report)
        self.trace = trace.from_environment() if records else None
        self._in_reset = True
        self._finished = False
        self._stalled: tuple[int, int] | None = None
        self._tasks: list[Task[None]] = []
        if start:
            self.start()

    @property
    def errors(self) -> list[str]:
        """Broken rules, one text each."""
        return self.tracker.errors

    def start(self) -> None:
        """Starts to watch the pins; the constructor does, unless it was given start=False."""
        hooks = self._reset_entered, self._reset_left
        follow = follow_reset(self._reset, self._active_level, *hooks)
        self._tasks = [cocotb.start_soon(loop) for loop in (self._watch(), follow)]

    def stop(self) -> None:
        """Watches no more, and closes the trace."""
        for task in self._tasks:
            task.cancel()
        if self.trace is not None:
            self.trace.close()

    async def _watch(self) -> None:
        bus = self.bus
        edge = RisingEdge(self.clock)
        m2s_valid, m2s_id, m2s_flit = map(
            bits_reader, (bus.m2s_valid, bus.m2s_protocol_id, bus.m2s_flit)
        )
        s2m_valid, s2m_id, s2m_flit = map(
            bits_reader, (bus.s2m_valid, bus.s2m_protocol_id, bus.s2m_flit)
        )
        s2m_ready, phy_up = bits_reader(bus.s2m_ready, "1"), bits_reader(bus.phy_up, "1")
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
            valid = m2s_valid()
            if valid == "1":
                words = self._words(m2s_id(), m2s_flit())
                if words is not None:
                    self._publish(tracker.observe(Direction.M2S, *words, self.cycle))
            elif valid != "0":
                self._pin_error("m2s_valid is X or Z")
            valid = s2m_valid()
            if valid == "1":
                words = self._words(s2m_id(), s2m_flit())
                if words is None:
                    continue
                if self._stalled not in (None, words):
                    self._pin_error("the s2m flit changed while s2m_ready was low")
                if s2m_ready() == "1":
                    self._stalled = None
                    self._publish(tracker.observe(Direction.S2M, *words, self.cycle))
                else:
                    self._stalled = words if self.cfg.check_stable else None
            elif valid != "0":
                self._pin_error("s2m_valid is X or Z")
            elif self._stalled is not None:
                self._pin_error("s2m_valid fell while s2m_ready was low")
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
                    request = ObservedRequest(message, event.cycle, now, bad)
                    for take_request in self.on_request:
                        take_request(request)
            else:
                for message in report.messages:
                    self.responses += 1
                    response = ObservedResponse(message, event.cycle, now)
                    for take_response in self.on_response:
                        take_response(response)
        for take_flit in self.on_flit:
            take_flit(event)

    def _reset_left(self) -> None:
        self._in_reset = False

    def _reset_entered(self) -> None:
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

    def check(self) -> None:
        """End of test: raises CxlError if any rule was broken."""
        errors = self.finish()
        if errors:
            raise CxlError(f"{len(errors)} link errors, first: {errors[0]}")

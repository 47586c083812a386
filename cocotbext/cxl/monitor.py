# SPDX-License-Identifier: Apache-2.0
"""Monitor that decodes both directions of a link from the pins and checks the link rules.

See `endpoint` for the timing contract: a value is the one that the device samples in the same
clock. An s2m flit is transferred in a clock with s2m_valid and s2m_ready.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cocotb.triggers import RisingEdge
from cocotb.utils import get_sim_time

from cocotbext.cxl import trace
from cocotbext.cxl.bus import CxlMemBus, bits_reader
from cocotbext.cxl.config import CxlConfig
from cocotbext.cxl.endpoint import PinUser
from cocotbext.cxl.errors import ErrorLog
from cocotbext.cxl.link.flit_event import FlitEvent
from cocotbext.cxl.link.tracker import LinkTracker
from cocotbext.cxl.wire.flits import Direction, WireFlit
from cocotbext.cxl.wire.messages import M2SMessage, S2MMessage


@dataclass(frozen=True, slots=True)
class ObservedRequest:
    """M2S message that was complete on the pins in clock ``cycle``, at simulation time ``time_ns``.

    ``misframed`` is True if the Sz or BE bit of its flit was illegal.
    """

    message: M2SMessage
    cycle: int
    time_ns: float
    misframed: bool = False


@dataclass(frozen=True, slots=True)
class ObservedResponse:
    """S2M message that was complete on the pins in clock ``cycle``, at time ``time_ns``."""

    message: S2MMessage
    cycle: int
    time_ns: float


class CxlMemMonitor(PinUser):
    """Passive monitor of a link: it decodes all messages on the pins and checks the link rules.

    Every callable in ``on_request`` is called with each ObservedRequest, in ``on_response`` with
    each ObservedResponse, in ``on_flit`` with a FlitEvent per flit, in ``on_phy`` with each new
    level of phy_up, before the link rules are checked.

    ``errors`` holds every broken rule; each is logged when found. If the monitor shares the
    ``error_log`` of a host, waiting calls of the host raise the first one.

    Args:
        records: write the link trace that NF_LINK_TRACE requests.
        start: False to wait for start().
    """

    role = "monitor"

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
        super().__init__(bus, clock, reset, reset_active_level, error_log)
        self.cfg = cfg or CxlConfig()
        self.on_request: list[Callable[[ObservedRequest], None]] = []
        self.on_response: list[Callable[[ObservedResponse], None]] = []
        self.on_flit: list[Callable[[FlitEvent], None]] = []
        self.on_phy: list[Callable[[bool], None]] = []
        self.requests = self.responses = 0
        link, waive = self.cfg.link, self.cfg.waive
        self.tracker = LinkTracker(link.retry, waive, self.cfg.device_wrap, self.error_log.report)
        self.trace = trace.from_environment() if records else None
        self.errors = self.tracker.errors  # broken rules, and what is wrong with the pins
        self._finished = False
        self._stalled: tuple[int, int] | None = None
        if start:
            self.start()

    def stop(self) -> None:
        """Stop for good, and close the link trace."""
        super().stop()
        if self.trace is not None:
            self.trace.close()

    async def _run(self) -> None:
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
            if before != phy:
                for take_phy in self.on_phy:
                    take_phy(phy == "1")
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
                self._error(f"pins: m2s_valid is X or Z: {valid}")
            valid = s2m_valid()
            if valid == "1":
                words = self._words(s2m_id(), s2m_flit())
                if words is None:
                    continue
                if self._stalled is not None and self._stalled != words:
                    text = f"{_wire(self._stalled)} to {_wire(words)}"
                    self._error(f"pins: the s2m flit changed while s2m_ready was low: {text}")
                if s2m_ready() == "1":
                    self._stalled = None
                    self._publish(tracker.observe(Direction.S2M, *words, self.cycle))
                else:
                    self._stalled = words if self.cfg.check_stable else None
            elif valid != "0":
                self._error(f"pins: s2m_valid is X or Z: {valid}")
            elif self._stalled is not None:
                text = f"pins: s2m_valid fell while s2m_ready was low: {_wire(self._stalled)}"
                self._error(text)
                self._stalled = None

    def _publish(self, event: FlitEvent) -> None:
        if self.trace is not None:
            self.trace.flit(event.cycle, event.direction, event.protocol_id, event.flit)
        report = event.report
        if report is not None and report.messages:
            now = get_sim_time("ns")
            for message in report.messages:
                if event.direction is Direction.M2S:
                    self.requests += 1
                    bad = message in report.misframed
                    for take_request in self.on_request:
                        take_request(ObservedRequest(message, event.cycle, now, bad))
                else:
                    self.responses += 1
                    for take_response in self.on_response:
                        take_response(ObservedResponse(message, event.cycle, now))
        for take_flit in self.on_flit:
            take_flit(event)

    def _reset_entered(self) -> None:
        super()._reset_entered()
        self._stalled = None
        self.tracker.reset()
        if self.trace is not None:
            self.trace.note("reset")

    def finish(self) -> list[str]:
        """Return all errors, including missing responses; call it at the end of a test."""
        if not self._finished:
            self._finished = True
            self.tracker.finish(self.cycle)
        return self.errors


def _wire(words: WireFlit) -> str:
    protocol_id, flit = words
    return f"{protocol_id:04x} {flit:0132x}"

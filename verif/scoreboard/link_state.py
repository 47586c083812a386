# SPDX-License-Identifier: Apache-2.0
"""Check of link counters, LINK_STATE and LINK_ERR_INFO against the flits on the pins (spec: link
spec §9).

The link tracker of the monitor counts what the device's registers should count. A count that
depends on when the device notices a loss (a retrain catches flits on their way, a time-out ends a
wait) has a range; without losses and retrains every count is exact.
"""

from collections import Counter
from collections.abc import Callable

from cocotbext.cxl.link.flit_event import FlitEvent, FlitKind
from cocotbext.cxl.wire.control import RetryAck, RetryReq
from cocotbext.cxl.wire.flits import Direction
from models.register_map import REG_MAP
from models.register_types import Counts
from verif.scoreboard.ranges import Recent, Span, total

LINK_COUNTERS = REG_MAP.counters(Counts.LINK)
RETRY_COUNTERS = REG_MAP.counters(Counts.RETRY)
CAUGHT_BY_RETRAIN = 4
"""Flits that a falling phy_up may catch between the pins and the device's checks."""
_ERRORS = ("CRC_ERROR", "PID_UNCORRECTABLE", "PROTOCOL_ERROR")
_LOST = (FlitKind.BAD_ID, FlitKind.BAD_CRC)
UNBOUNDED = 1 << 32


class LinkState:
    """Predictor of the counters and state of the link, from the flits on the pins.

    Args:
        clock: Returns the present cycle.
        tracked: Returns the counters of the link tracker, by name of the counter register.
    """

    def __init__(self, clock: Callable[[], int], tracked: Callable[[], Counter[str]]) -> None:
        self.tracked = tracked
        self.events = {name: Recent(clock) for name in (*LINK_COUNTERS, "RETRY_REMOTE")}
        self.lost = Recent(clock)
        self.requests = Recent(clock)
        self.retrains = Recent(clock)
        self.up = False
        """The device has answered, or granted credits: its link has initialised."""
        self.asked = False
        """The host has sent a RETRY.Req: RRSM is 1 until the RETRY.Ack has left."""
        self._seen: Counter[str] = Counter()

    def flit(self, event: FlitEvent) -> None:
        """Count a flit that was transferred on the pins, in either direction."""
        received = event.direction is Direction.M2S
        self.events["RX_FLIT" if received else "TX_FLIT"].add()
        if received and event.kind in _LOST:
            self.lost.add()
        if not received and event.kind in (FlitKind.PROTOCOL, FlitKind.DATA):
            self.up = True
        if not received and isinstance(event.control, RetryAck):
            self.events["RETRY_REMOTE"].add()
        if isinstance(event.control, RetryReq):
            if received:
                self.asked = True
            else:
                self.requests.add()
        now = self.tracked()
        for name in LINK_COUNTERS:
            if name not in ("RX_FLIT", "TX_FLIT") and now[name] != self._seen[name]:
                self.events[name].add(now[name] - self._seen[name])
                self._seen[name] = now[name]

    def reset(self) -> None:
        """Follow a reset of device and tracker: the link is down, and the tracker counts from 0."""
        self._seen.clear()
        self.up = self.asked = False

    def retrain(self) -> None:
        """Count a fall of phy_up, with which the physical layer starts to retrain."""
        self.retrains.add()

    @property
    def faulty(self) -> bool:
        """Return whether a flit to the device was damaged, the device has requested a retry, or
        phy_up fell.

        From then on some counts are ranges.
        """
        return bool(self.lost.total or self.requests.total or self.retrains.total)

    def span(self, name: str) -> Span:
        """Return the range of the number of events of a link counter since the start of the
        test.
        """
        if name == "RETRY_LOCAL":
            # A flit lost while a retry is under way begins no other; a gap in the sequence may.
            return Span(0, max(self.lost.total, self.requests.total) + self.retrains.total)
        if name == "RETRY_TIMEOUT":
            return Span(0, self.requests.total)
        if name == "PHY_REINIT":
            return Span(self.retrains.span().low, UNBOUNDED if self.faulty else 0)
        span = self.events[name].span()
        if name == "TX_FLIT":  # counted when it is handed to the pins, and they may be held
            return Span(span.low, span.high + 2)
        if not self.faulty:
            return span
        if name == "RETRY_REMOTE":
            return Span(span.low, span.high + 1)
        slack = CAUGHT_BY_RETRAIN * self.retrains.total
        return Span(max(0, span.low - slack), span.high + slack)

    def errors(self) -> Span:
        """Return the range of the number of events that set IRQ_STATUS.LINK_ERROR, since the
        start.
        """
        # A link that fails in the end has lost something, or was retrained.
        failed = int(bool(self.retrains.total))
        return total((*map(self.span, _ERRORS), Span(0, failed)))

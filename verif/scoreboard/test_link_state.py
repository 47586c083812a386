# SPDX-License-Identifier: Apache-2.0
"""Tests of `LinkState`: link counters follow the flits at the pins; a register that differs is
reported.
"""

from __future__ import annotations

from collections import Counter

import pytest

from cocotbext.cxl.link.flit_event import FlitEvent, FlitKind
from cocotbext.cxl.wire.control import RetryAck, RetryReq
from cocotbext.cxl.wire.flits import Direction
from models.device import DeviceModel
from models.parameters import DeviceParams
from verif.scoreboard.link_state import LINK_COUNTERS, RETRY_COUNTERS, LinkState
from verif.scoreboard.predictor_bench import PredictorBench
from verif.scoreboard.ranges import SETTLE_CLOCKS
from verif.scoreboard.scoreboard import Scoreboard


class LinkBench(PredictorBench):
    """Register bus with a link whose flits the test gives, and a clock that it advances."""

    def __init__(self) -> None:
        self.now = 0
        self.tracked: Counter[str] = Counter()
        self.link = LinkState(lambda: self.now, lambda: self.tracked)
        scoreboard = Scoreboard(DeviceModel(DeviceParams()), 8, clock=lambda: self.now)
        super().__init__(scoreboard, DeviceParams(), self.link)

    def flit(self, way: Direction, kind: FlitKind = FlitKind.PROTOCOL, count: str = "") -> None:
        if count:
            self.tracked[count] += 1
        self.link.flit(FlitEvent(way, self.now, 0, 0, kind))
        self.now += SETTLE_CLOCKS


@pytest.mark.parametrize("name", [*LINK_COUNTERS, *RETRY_COUNTERS])
def test_every_counter_is_compared(name: str) -> None:
    bench = LinkBench()
    assert bench.read(name, 0)
    assert not bench.read(name, 7)


def test_flits_and_errors_are_counted() -> None:
    bench = LinkBench()
    for _ in range(5):
        bench.flit(Direction.M2S)
        bench.flit(Direction.S2M)
    for name in ("RX_FLIT", "TX_FLIT"):
        bench.exact(name, 5, 4)
    bench.flit(Direction.M2S, FlitKind.BAD_CRC, "CRC_ERROR")
    bench.exact("CRC_ERROR", 1, 0)
    assert not bench.read("PID_UNCORRECTABLE", 1)
    irq = bench.predictor.by_name["IRQ_STATUS"].field("LINK_ERROR").mask
    bench.exact("IRQ_STATUS", irq, 0)


def test_a_replay_is_granted_once() -> None:
    bench = LinkBench()
    event = FlitEvent(Direction.S2M, 0, 0, 0, FlitKind.CONTROL)
    event.control = RetryAck()
    bench.link.flit(event)
    bench.now += SETTLE_CLOCKS
    bench.exact("RETRY_REMOTE", 1, 0)


def test_state_and_error_of_a_link_without_faults() -> None:
    bench = LinkBench()
    bench.flit(Direction.S2M)
    bench.exact("LINK_STATE", 0, 2)
    assert not bench.read("LINK_STATE", 1 << 4), "nobody has asked for a replay"
    event = FlitEvent(Direction.M2S, 0, 0, 0, FlitKind.CONTROL)
    event.control = RetryReq(3)
    bench.link.flit(event)
    bench.exact("LINK_STATE", 1 << 4, 1 << 4 | 2)
    bench.exact("LINK_ERR_INFO", 0, 1 | 1 << 4)
    bench.exact("STATUS", 1, 0)


def test_a_clear_of_the_counters() -> None:
    bench = LinkBench()
    bench.flit(Direction.M2S)
    bench.write("CTRL", 1)
    bench.exact("RX_FLIT", 0, 1)

# SPDX-License-Identifier: Apache-2.0
"""Tests of `LinkState`: link counters follow the flits at the pins; a register that differs is
reported.
"""

import random
from collections import Counter

import pytest

from cocotbext.cxl.link.flit_event import FlitEvent, FlitKind
from cocotbext.cxl.wire.control import RetryAck, RetryReq
from cocotbext.cxl.wire.flits import Direction
from models.device import DeviceModel
from models.parameters import DeviceParams
from verif.scoreboard.link_state import LINK_COUNTERS, RETRY_COUNTERS, LinkState
from verif.scoreboard.predictor_bench import PredictorBench
from verif.scoreboard.ranges import SETTLE_CLOCKS, Span
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


def test_an_error_raises_the_interrupt() -> None:
    bench = LinkBench()
    bench.flit(Direction.M2S, FlitKind.BAD_CRC, "CRC_ERROR")
    irq = bench.predictor.by_name["IRQ_STATUS"].field("LINK_ERROR").mask
    bench.exact("IRQ_STATUS", irq, 0)


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


@pytest.mark.parametrize("seed", range(18))
def test_drawn_events_give_the_ranges_of_the_specification(seed: int) -> None:
    """Check all ranges after drawn flits; seeds differ in whether they have losses and retrains."""
    rng, bench, faults = random.Random(seed), LinkBench(), seed % 3
    link, sums, up, asked = bench.link, Counter[str](), False, False
    for _ in range(rng.randrange(1, 40)):
        if rng.random() < 0.1:  # the tracker counts from 0 again, the events from the start
            bench.predictor.reset()
            bench.tracked.clear()
            up = asked = False
        damaged, to_device = faults > 0 and rng.random() < 0.3, rng.random() < 0.5
        if faults == 2 and rng.random() < 0.1:
            link.retrain()
            sums["retrains"] += 1
        kinds = (FlitKind.BAD_ID, FlitKind.BAD_CRC) if damaged else tuple(FlitKind)[:4]
        kind = rng.choice(kinds)
        event = FlitEvent(Direction.M2S if to_device else Direction.S2M, 0, 0, 0, kind)
        if kind is FlitKind.CONTROL:
            event.control = rng.choice((RetryAck(), RetryReq(1) if faults or to_device else None))
        name, count = rng.choice(("CRC_ERROR", "PID_UNCORRECTABLE", "PROTOCOL_ERROR")), 0
        if damaged:
            bench.tracked[name] += (count := rng.randrange(1, 4))
        ack, req = (isinstance(event.control, one) for one in (RetryAck, RetryReq))
        link.flit(event)
        sums["RX_FLIT" if to_device else "TX_FLIT"] += 1
        sums["lost"] += damaged and to_device
        sums["requests"] += req and not to_device
        sums["RETRY_REMOTE"] += ack and not to_device
        sums[name] += count
        asked |= req and to_device
        up |= not to_device and kind in (FlitKind.PROTOCOL, FlitKind.DATA)
    bench.now += SETTLE_CLOCKS
    retrains, requests = sums["retrains"], sums["requests"]
    faulty = sums["lost"] + requests + retrains > 0
    assert (link.up, link.asked, link.faulty) == (up, asked, faulty)
    unknown = Span(retrains, 1 << 32 if faulty else 0)
    found = {name: link.span(name) for name in (*LINK_COUNTERS, *RETRY_COUNTERS)}
    assert found.pop("PHY_REINIT") == unknown
    assert found.pop("RETRY_TIMEOUT") == Span(0, requests)
    assert found.pop("RETRY_LOCAL") == Span(0, max(sums["lost"], requests) + retrains)
    assert found.pop("RETRY_REMOTE") == Span(sums["RETRY_REMOTE"], sums["RETRY_REMOTE"] + faulty)
    assert found.pop("TX_FLIT") == Span(sums["TX_FLIT"], sums["TX_FLIT"] + 2)
    slack = 4 * retrains  # flits that a fall of phy_up may catch
    assert found == {n: Span(max(0, sums[n] - slack), sums[n] + slack) for n in found}
    errors = [found[name] for name in ("CRC_ERROR", "PID_UNCORRECTABLE", "PROTOCOL_ERROR")]
    most = sum(one.high for one in errors) + (retrains > 0)
    assert link.errors() == Span(sum(one.low for one in errors), most)


@pytest.mark.parametrize(("valid", "kind", "right"), [(1, 1, True), (0, 0, True), (1, 0, False)])
def test_a_captured_error_has_a_kind(valid: int, kind: int, right: bool) -> None:
    bench = LinkBench()
    bench.flit(Direction.M2S, FlitKind.BAD_CRC, "CRC_ERROR")
    value = bench.predictor.by_name["LINK_ERR_INFO"].pack(VALID=valid, KIND=kind)
    assert bench.read("LINK_ERR_INFO", value) is right


@pytest.mark.parametrize("name", ["RX_FLIT", "CRC_ERROR"])
def test_a_reset_restarts_the_counters(name: str) -> None:
    bench = LinkBench()
    bench.flit(Direction.M2S, FlitKind.BAD_CRC, "CRC_ERROR")
    bench.exact(name, 1, 0)
    bench.predictor.reset()
    bench.tracked.clear()
    bench.exact(name, 0, 1)
    bench.flit(Direction.M2S, FlitKind.BAD_CRC, "CRC_ERROR")
    bench.exact(name, 1, 0, 2)


@pytest.mark.parametrize("fault", ["", "lost", "request", "retrain"])
def test_each_fault_alone_makes_the_link_faulty(fault: str) -> None:
    """Check that a lost flit, a RETRY.Req of the device and a retrain each open the registers."""
    bench = LinkBench()
    event = FlitEvent(Direction.M2S, 0, 0, 0, FlitKind.BAD_CRC)
    if fault == "request":
        event = FlitEvent(Direction.S2M, 0, 0, 0, FlitKind.CONTROL)
        event.control = RetryReq(1)
    if fault == "retrain":
        bench.link.retrain()
    elif fault:
        bench.link.flit(event)
    assert bench.link.faulty is bool(fault)
    assert bench.read("LINK_STATE", 5) is bool(fault)
    assert bench.read("LINK_ERR_INFO", 1 | 1 << 4) is bool(fault)


def test_an_error_without_a_lost_flit_may_be_captured() -> None:
    bench = LinkBench()
    bench.flit(Direction.M2S, count="PROTOCOL_ERROR")
    assert not bench.link.faulty
    assert bench.read("LINK_ERR_INFO", 1 | 1 << 4)


@pytest.mark.parametrize("way", list(Direction))
def test_the_tracker_counts_no_flit_a_second_time(way: Direction) -> None:
    bench, name = LinkBench(), "RX_FLIT" if way is Direction.M2S else "TX_FLIT"
    bench.flit(way, count=name)
    assert bench.link.span(name).low == 1

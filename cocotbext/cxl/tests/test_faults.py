# SPDX-License-Identifier: Apache-2.0
"""Tests of the fault injector between two link partners in Python, and of the fault table."""

import random
from collections import Counter

import pytest

from cocotbext.cxl.config import CxlConfig
from cocotbext.cxl.faults import (
    CAMPAIGN,
    CRC_KINDS,
    EPISODES,
    LOST_KINDS,
    FaultInjector,
    FaultKind,
    FaultRule,
    FaultTable,
    damage,
    judge,
)
from cocotbext.cxl.link.conftest import LinkBench
from cocotbext.cxl.link.device_stub import DeviceStub
from cocotbext.cxl.link.link_config import LinkConfig
from cocotbext.cxl.link.partner import DeviceLink, HostLink
from cocotbext.cxl.link.retry import Lrsm
from cocotbext.cxl.link.tracker import LinkTracker
from cocotbext.cxl.wire.conftest import random_requests
from cocotbext.cxl.wire.crc import crc_ok, seal
from cocotbext.cxl.wire.flits import Direction, ProtocolCode, WireFlit, decode_protocol_id
from cocotbext.cxl.wire.messages import M2SReq, ReqOp
from cocotbext.cxl.wire.packer import PackOptions

_PID = ProtocolCode.CACHEMEM.word


class FaultyBench(LinkBench):
    """Bench of host and device with a fault injector on the wire and a tracker on the pins."""

    tracker: LinkTracker

    def __init__(self, rules: tuple[FaultRule, ...], seed: int = 1) -> None:
        self.rng = rng = random.Random(seed)

        def config() -> LinkConfig:
            pack = PackOptions(dense=bool(seed & 1), rng=rng)
            return LinkConfig(pack=pack, rng=rng, retry=True, retry_timeout=100)

        self.faults, cfg = FaultInjector(rules, seed), CxlConfig()
        self.faults.attach(cfg)
        tracker = LinkTracker(True, cfg.waive)
        super().__init__(DeviceStub(DeviceLink(config()), (1, 9), rng), config(), tracker)
        self.faults.bind(self.host, self.begin_retrain, tracker)
        self.at_pins[Direction.M2S] = self.faults.to_device
        self.after_pins[Direction.S2M] = self.faults.to_host
        self.delay[Direction.M2S] = 2

    def begin_retrain(self) -> bool:
        begun = not self.retrain and self.host.phy
        self.retrain = True
        return begun

    def step(self) -> None:
        self.faults.tick()
        super().step()

    def observe(self, direction: Direction, flit: WireFlit) -> None:
        self.faults.observed(self.tracker.observe(direction, *flit, self.clock))

    def traffic(self, count: int) -> None:
        """Send requests in random bursts until all are answered."""
        want = len(self.responses) + count
        for message in random_requests(self.rng, count, 32):
            self.host.send(message)
            self.steps(self.rng.choice((0, 0, 1, 20)))
        self.run(lambda: len(self.responses) >= want, 200_000)

    def counters(self) -> tuple[Counter[str], Counter[str]]:
        both = (self.device.counters, self.host.counters)
        device, host = (Counter({n.upper(): k for n, k in c.items()}) for c in both)
        return device, host


def rules_for(kind: FaultKind, rate: float) -> tuple[FaultRule, ...]:
    """Return fault rules for one kind of fault.

    With a kind that hits RETRY flits, a second rule starts retries by flipped bits.
    """
    if kind in LOST_KINDS or "RETRY" in kind.value:
        carrier = FaultRule(FaultKind.FLIP_1, rate=0.01, spare_retry=True)
        return FaultRule(kind, rate=0.05 if "Frame" in kind.value else 0.3), carrier
    return (FaultRule(kind, rate=rate, clocks=(150, 300)),)


def run(rules: tuple[FaultRule, ...], count: int = 300, seed: int = 1) -> FaultyBench:
    bench = FaultyBench(rules, seed)
    bench.steps(30)
    assert bench.host.active
    bench.faults.armed = True
    bench.traffic(count)
    bench.faults.armed = False
    bench.steps(400)
    bench.traffic(20)
    bench.steps(400)
    assert bench.faults.settled
    return bench


def recovered(bench: FaultyBench) -> FaultTable:
    """Check that the fault table has no problem and every fault recovered; return the table."""
    table = judge(bench.faults, *bench.counters())
    assert table.problems == []
    assert bench.tracker.errors == []
    bench.clean()
    assert all(row.injected == row.recovered for row in table.rows)
    return table


@pytest.mark.parametrize("kind", CAMPAIGN)
@pytest.mark.parametrize("seed", [1, 2])
def test_each_kind_is_detected_and_recovered(kind: FaultKind, seed: int) -> None:
    for row in recovered(run(rules_for(kind, 0.02), seed=seed)).rows:
        if kind not in EPISODES and kind not in LOST_KINDS:
            assert row.detected == row.injected


@pytest.mark.parametrize("rate", [0.005, 0.05])
def test_mixed(rate: float) -> None:
    kinds = [kind for kind in CAMPAIGN if kind not in LOST_KINDS]
    recovered(run(tuple(FaultRule(kind, rate=rate / len(kinds)) for kind in kinds), 500, 3))


def test_places_and_directions() -> None:
    bench = run((FaultRule(FaultKind.FLIP_2, Direction.S2M, places=(3, 10)),))
    assert bench.faults.injected == {(FaultKind.FLIP_2, Direction.S2M): 2}
    assert bench.host.counters["crc_error"] == 2
    assert bench.device.counters["crc_error"] == 0


@pytest.mark.parametrize("kind", sorted(CRC_KINDS, key=str))
def test_damage_is_within_the_guarantee(kind: FaultKind) -> None:
    rng = random.Random(1)
    for _ in range(300):
        flit = seal(rng.getrandbits(512))
        pid, bad = damage(kind, (_PID, flit), rng)
        error = flit ^ bad
        assert pid == _PID
        assert error >> 528 == 0
        assert not crc_ok(bad)
        span = error.bit_length() - (error & -error).bit_length() + 1
        assert error.bit_count() <= 3 or (kind is FaultKind.BURST and span <= 14)


def test_protocol_ids() -> None:
    rng, halves = random.Random(1), set[tuple[int, int]]()
    for _ in range(300):
        damaged = damage(FaultKind.PID_HALF, (_PID, 0), rng)[0]
        halves |= {(0, damaged & 0xFF), (1, damaged >> 8)}
        half = decode_protocol_id(damaged)
        assert half.corrected
        assert half.code is ProtocolCode.CACHEMEM
        assert decode_protocol_id(damage(FaultKind.PID_BOTH, (_PID, 0), rng)[0]).code is None
    assert all(sum(side == one for side, _ in halves) > 50 for one in (0, 1))


@pytest.mark.parametrize("wanted", [False, True])
def test_faults_within_a_retry(wanted: bool) -> None:
    """Check that `in_retry` hits flits within a retry alone, whichever end it is of."""
    carrier = FaultRule(FaultKind.FLIP_1, rate=0.02, spare_retry=True)
    rule = FaultRule(FaultKind.PID_HALF, rate=1.0, in_retry=True)
    bench = FaultyBench((rule, carrier) if wanted else (rule,), seed=2)
    bench.steps(30)
    bench.faults.armed = True
    bench.traffic(200)
    hit = sum(number for (kind, _), number in bench.faults.injected.items() if kind is rule.kind)
    assert bool(hit) == wanted


def test_both_ends_of_a_retry() -> None:
    host, tracker = HostLink(LinkConfig(retry=True)), LinkTracker(True)
    faults = FaultInjector((FaultRule(FaultKind.FLIP_1, rate=1.0),))
    faults.bind(host, lambda: True, tracker)
    assert not faults.retrying
    for name, value, retrying in (
        *(("frozen", True, True), ("frozen", False, False)),
        *(("accepted", 1, True), ("cursor", 1, False)),
    ):
        setattr(tracker.m2s, name, value)
        assert faults.retrying == retrying, name
    host.retry.lrsm = Lrsm.LLRREQ
    assert faults.retrying


def test_missing_detections_are_shared() -> None:
    """Check that flits that nobody detected are missing once in all, not in every kind."""
    bench = run((FaultRule(FaultKind.FLIP_1, rate=0.02), FaultRule(FaultKind.FLIP_2, rate=0.02)))
    device, host = bench.counters()
    device["CRC_ERROR"] -= 1
    rows = [row for row in judge(bench.faults, device, host).rows if row.direction == "M2S"]
    assert sum(row.injected - row.detected for row in rows) == 1
    device["CRC_ERROR"] += 1
    rows = judge(bench.faults, device, host).rows
    assert all(row.injected == row.detected for row in rows)


def test_two_retrains_in_one_clock_are_one() -> None:
    faults = FaultInjector((FaultRule(FaultKind.PHY_REINIT, rate=1.0),))
    begun = iter((True, False))
    faults.bind(HostLink(LinkConfig(retry=True)), lambda: next(begun))
    faults.armed = True
    for hook in (faults.to_device, faults.to_host):
        hook((0, 0))
    assert sum(faults.injected.values()) == 1


ONE_WAY = {
    *(FaultKind.FLIP_1, FaultKind.FLIP_2, FaultKind.BURST),
    *(FaultKind.PID_HALF, FaultKind.PID_BOTH),
}


@pytest.mark.parametrize("kind", [*sorted(ONE_WAY, key=str), FaultKind.PHY_REINIT])
def test_flits_that_a_fault_waits_for(kind: FaultKind) -> None:
    """Check that damage waits for the repeated flit, and a retrain for both receivers."""
    faults = FaultInjector((FaultRule(kind, rate=1.0),))
    faults.bind(HostLink(LinkConfig(retry=True)), lambda: True)
    faults.armed = True
    faults.to_device((_PID, seal(0)))
    both = {Direction.M2S: 3, Direction.S2M: 3}
    assert faults._open[0].waits == ({Direction.M2S: 1} if kind in ONE_WAY else both)


@pytest.mark.parametrize("kind", sorted(LOST_KINDS, key=str))
@pytest.mark.parametrize("counter", ["", "RETRY_TIMEOUT", "PHY_REINIT"])
@pytest.mark.parametrize("end", [0, 1])
def test_a_lost_flit_needs_a_time_out_or_a_retrain(kind: FaultKind, counter: str, end: int) -> None:
    faults, counters = FaultInjector((FaultRule(kind, rate=1.0),)), (Counter[str](), Counter[str]())
    faults.injected[kind, Direction.M2S] = faults.recovered[kind, Direction.M2S] = 1
    counters[end][counter] = 1
    told = [f"{kind.value} M2S: nobody timed out"]
    assert judge(faults, *counters).problems == ([] if counter else told)


def test_bad_rules() -> None:
    with pytest.raises(ValueError, match="no chance"):
        FaultRule(FaultKind.FLIP_1, rate=2.0)
    with pytest.raises(ValueError, match="neither a rate nor a place"):
        FaultRule(FaultKind.FLIP_1)


# ---------------------------------------------------------------- negative twins of the table


def test_missed_and_unrecovered_faults_are_problems() -> None:
    bench = run((FaultRule(FaultKind.FLIP_1, rate=0.02),))
    device, host = bench.counters()
    device["CRC_ERROR"] -= 1
    assert any("CRC_ERROR" in text for text in judge(bench.faults, device, host).problems)
    host["CRC_ERROR"] += 1
    assert len(judge(bench.faults, device, host).problems) == 2
    bench.faults.recovered[FaultKind.FLIP_1, Direction.M2S] -= 1
    assert any("recovered" in text for text in judge(bench.faults, *bench.counters()).problems)


def test_a_run_without_faults_is_a_problem() -> None:
    bench = run((FaultRule(FaultKind.FLIP_1, places=(1 << 30,)),))
    assert any("nothing was tested" in t for t in judge(bench.faults, *bench.counters()).problems)


def test_silent_loss_is_not_recovered_in_silence() -> None:
    """Check that a request lost without any trace stays unanswered and unacknowledged.

    The protocol cannot detect such a loss.
    """
    bench = FaultyBench((FaultRule(FaultKind.SILENT_LOSS, Direction.M2S, places=(0,)),))
    bench.steps(200)
    bench.host.send(M2SReq(ReqOp.MEM_RD, 7, 64))
    bench.faults.armed = True
    bench.steps(2000)
    assert not bench.responses
    assert bench.host.unacknowledged >= 1

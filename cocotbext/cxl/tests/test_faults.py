# SPDX-License-Identifier: Apache-2.0
"""Fault injector between two Python link partners; the fault table and its error reports."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from cocotbext.cxl.config import CxlConfig
from cocotbext.cxl.faults import (
    CAMPAIGN,
    COUNTERS,
    CRC_KINDS,
    EPISODES,
    LOST_KINDS,
    FaultInjector,
    FaultKind,
    FaultPlan,
    FaultRule,
    damage,
    judge,
)
from cocotbext.cxl.link.device_stub import DeviceStub
from cocotbext.cxl.link.link_config import LinkConfig
from cocotbext.cxl.link.partner import DeviceLink, HostLink, WireFlit
from cocotbext.cxl.link.tracker import LinkTracker
from cocotbext.cxl.wire.crc import crc_ok, seal
from cocotbext.cxl.wire.flits import Direction, ProtocolCode, decode_protocol_id
from cocotbext.cxl.wire.messages import M2SReq, M2SRwD, ReqOp, RwdOp, S2MMessage
from cocotbext.cxl.wire.packer import PackOptions

_PID = ProtocolCode.CACHEMEM.word


class Wire:
    """Host, wire with faults, device, and the tracker at the device's pins. One step is one
    clock.
    """

    def __init__(self, plan: FaultPlan, seed: int = 1) -> None:
        rng = random.Random(seed)

        def config() -> LinkConfig:
            pack = PackOptions(dense=bool(seed & 1), rng=rng)
            return LinkConfig(pack=pack, rng=rng, retry=True, retry_timeout=100)

        self.rng = rng
        self.host = HostLink(config())
        self.stub = DeviceStub(DeviceLink(config()), (1, 9), rng)
        self.faults = FaultInjector(plan)
        self.cfg = CxlConfig()
        self.faults.attach(self.cfg)
        self.tracker = LinkTracker(True, self.cfg.waive)
        self.faults.bind(self.host, self.retrain, self.tracker)
        self.answers: list[S2MMessage] = []
        self.down: list[WireFlit | None] = [None, None]
        self.phy_at = -1
        self.want = False
        self.clock = 0

    def retrain(self) -> bool:
        begun = not self.want and self.phy_at < 0
        self.want = True
        return begun

    def step(self) -> None:
        self.clock += 1
        self.faults.tick()
        asked = self.host.retry.retrain_request or self.stub.link.retry.retrain_request
        if self.phy_at < 0 and (self.want or asked):
            self.want, self.phy_at = False, self.clock + 5
            self.set_phy(False)
        elif self.clock == self.phy_at:
            self.phy_at = -1
            self.set_phy(True)
        out, up = self.host.next_flit(), self.stub.next_flit()
        if out is not None:
            out = self.faults.to_device(out)
            event = self.tracker.observe(Direction.M2S, *out, self.clock)
            self.faults.observed(event)
        self.down.append(out)
        arrived = self.down.pop(0)
        if arrived is not None:
            self.stub.receive(*arrived)
        if up is not None:
            self.tracker.observe(Direction.S2M, *up, self.clock)
            self.answers += self.host.receive(*self.faults.to_host(up))

    def set_phy(self, up: bool) -> None:
        self.host.set_phy(up)
        self.stub.link.set_phy(up)
        if not up:
            self.tracker.phy_down()
            self.down = [None, None]

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.step()

    def traffic(self, count: int) -> None:
        """Send requests in random bursts until all are answered."""
        want = len(self.answers) + count
        for tag in range(count):
            if self.rng.randrange(2):
                self.host.send(M2SReq(ReqOp.MEM_RD, tag & 0xFFFF, 64 * self.rng.randrange(32)))
            else:
                data = self.rng.randbytes(64)
                addr = 64 * self.rng.randrange(32)
                self.host.send(M2SRwD(RwdOp.MEM_WR, tag & 0xFFFF, addr, data=data))
            self.steps(self.rng.choice((0, 0, 1, 20)))
        limit = self.clock + 200_000
        while len(self.answers) < want:
            self.step()
            assert self.clock < limit, f"stuck at {len(self.answers)} of {want}"

    def counters(self) -> tuple[Counter[str], Counter[str]]:
        both = (self.stub.link.counters, self.host.counters)
        device, host = (Counter({n.upper(): k for n, k in c.items()}) for c in both)
        return device, host


def rules_for(kind: FaultKind, rate: float) -> tuple[FaultRule, ...]:
    """Return the rule of this kind, and one that starts retries if the kind hits RETRY flits."""
    if kind in LOST_KINDS or "RETRY" in kind.value:
        carrier = FaultRule(FaultKind.FLIP_1, rate=0.01, spare_retry=True)
        return FaultRule(kind, rate=0.05 if "Frame" in kind.value else 0.3), carrier
    return (FaultRule(kind, rate=rate, clocks=(150, 300)),)


def run(rules: tuple[FaultRule, ...], count: int = 300, seed: int = 1) -> Wire:
    wire = Wire(FaultPlan(rules, seed), seed)
    wire.steps(30)
    assert wire.host.active
    wire.faults.armed = True
    wire.traffic(count)
    wire.faults.armed = False
    wire.steps(400)
    wire.traffic(20)
    wire.steps(400)
    assert wire.faults.settled
    return wire


@pytest.mark.parametrize("kind", CAMPAIGN)
@pytest.mark.parametrize("seed", [1, 2])
def test_each_kind_is_detected_and_recovered(kind: FaultKind, seed: int) -> None:
    wire = run(rules_for(kind, 0.02), seed=seed)
    assert len(wire.answers) == 320
    table = judge(wire.faults, *wire.counters())
    assert table.problems == []
    assert not wire.host.issues
    assert not wire.stub.link.issues
    assert wire.tracker.errors == []
    for row in table.rows:
        assert row.injected == row.recovered
        if kind not in EPISODES and kind not in LOST_KINDS:
            assert row.detected == row.injected


@pytest.mark.parametrize("rate", [0.005, 0.05])
def test_mixed(rate: float) -> None:
    kinds = [kind for kind in CAMPAIGN if kind not in LOST_KINDS]
    wire = run(tuple(FaultRule(kind, rate=rate / len(kinds)) for kind in kinds), 500, 3)
    assert len(wire.answers) == 520
    table = judge(wire.faults, *wire.counters())
    assert table.problems == []
    assert wire.tracker.errors == []


def test_places_and_directions() -> None:
    wire = run((FaultRule(FaultKind.FLIP_2, Direction.S2M, places=(3, 10)),))
    assert wire.faults.injected == {(FaultKind.FLIP_2, Direction.S2M): 2}
    assert wire.host.counters["crc_error"] == 2
    assert wire.stub.link.counters["crc_error"] == 0


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
    rng = random.Random(1)
    for _ in range(300):
        half = decode_protocol_id(damage(FaultKind.PID_HALF, (_PID, 0), rng)[0])
        assert half.corrected
        assert half.code is ProtocolCode.CACHEMEM
        assert decode_protocol_id(damage(FaultKind.PID_BOTH, (_PID, 0), rng)[0]).code is None


def test_two_retrains_in_one_clock_are_one() -> None:
    faults = FaultInjector(FaultPlan((FaultRule(FaultKind.PHY_REINIT, rate=1.0),)))
    begun = iter((True, False))
    faults.bind(HostLink(LinkConfig(retry=True)), lambda: next(begun))
    faults.armed = True
    for hook in (faults.to_device, faults.to_host):
        hook((0, 0))
    assert sum(faults.injected.values()) == 1


def test_bad_rules() -> None:
    with pytest.raises(ValueError, match="no chance"):
        FaultRule(FaultKind.FLIP_1, rate=2.0)
    with pytest.raises(ValueError, match="neither a rate nor a place"):
        FaultRule(FaultKind.FLIP_1)


# ---------------------------------------------------------------- negative twins of the table


def test_a_missed_fault_is_a_problem() -> None:
    wire = run((FaultRule(FaultKind.FLIP_3, rate=0.02),))
    device, host = wire.counters()
    device["CRC_ERROR"] -= 1
    assert any("CRC_ERROR" in text for text in judge(wire.faults, device, host).problems)
    host["CRC_ERROR"] += 1
    assert len(judge(wire.faults, device, host).problems) == 2


def test_a_fault_without_recovery_is_a_problem() -> None:
    wire = run((FaultRule(FaultKind.FLIP_1, Direction.M2S, rate=0.02),))
    wire.faults.recovered[FaultKind.FLIP_1, Direction.M2S] -= 1
    assert any("recovered" in text for text in judge(wire.faults, *wire.counters()).problems)


def test_a_run_without_faults_is_a_problem() -> None:
    wire = run((FaultRule(FaultKind.FLIP_1, places=(1 << 30,)),))
    assert any("nothing was tested" in t for t in judge(wire.faults, *wire.counters()).problems)


def test_silent_loss_is_not_recovered_in_silence() -> None:
    """Check that a silent loss, outside the protocol, is reported by the tracker as unanswered."""
    wire = Wire(FaultPlan((FaultRule(FaultKind.SILENT_LOSS, Direction.M2S, places=(0,)),)))
    wire.steps(200)
    wire.host.send(M2SReq(ReqOp.MEM_RD, 7, 64))
    wire.faults.armed = True
    wire.steps(2000)
    assert not wire.answers
    assert wire.host.unacknowledged >= 1


def test_names_of_the_counters() -> None:
    assert set(COUNTERS) >= {"CRC_ERROR", "PID_CORRECTABLE", "PID_UNCORRECTABLE", "RETRY_TIMEOUT"}

# SPDX-License-Identifier: Apache-2.0
"""Host, device model and monitor on plain pins, clock by clock, without a simulator."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

from cocotbext.cxl import device, host, monitor
from cocotbext.cxl.bus import CxlMemBus
from cocotbext.cxl.config import CxlConfig, ReadyPattern
from cocotbext.cxl.link.link_config import LinkConfig
from cocotbext.cxl.tests.test_monitor_pins import WIDTHS, Clock
from cocotbext.cxl.transactions import Transaction
from cocotbext.cxl.wire.messages import S2MDRS, M2SReq, M2SRwD, ReqOp, RwdOp

NAMES = [f"{way}_{name}" for way in ("m2s", "s2m") for name in ("valid", *WIDTHS)]
OPTIONAL = "s2m_ready", "phy_up", "retrain_request"


class Pin:
    """Pin: a level that is driven is read from the next clock on."""

    def __init__(self, name: str) -> None:
        self.width = WIDTHS.get(name.partition("_")[2], 1)
        self.now = self.next = "0" * self.width

    @property
    def value(self) -> str:
        return self.now

    @value.setter
    def value(self, level: int) -> None:
        self.next = format(level, f"0{self.width}b")


class Ends:
    """Host, device and monitor of a link, out of reset; ``levels`` has the pins of each clock."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, cfg: CxlConfig, *, without: str = "", seed: int = 1
    ) -> None:
        for module in (host, device, monitor):
            monkeypatch.setattr(module, "RisingEdge", lambda _clock: Clock())
        monkeypatch.setattr(monitor, "get_sim_time", lambda _unit: 0.0)
        names = (name for name in (*NAMES, *OPTIONAL) if name != without)
        self.pins: dict[str, Any] = {name: Pin(name) for name in names}
        bus = CxlMemBus(**self.pins)
        self.host = host.CxlMemHost(bus, None, cfg=cfg, start=False)
        link = LinkConfig(
            retry=cfg.link.retry, retry_timeout=cfg.link.retry_timeout, grant_plain=3, grant_data=3
        )
        rng = random.Random(seed)
        self.device = device.CxlMemDevice(
            bus, None, link_config=link, latency=(1, 9), rng=rng, start=False
        )
        self.monitor = monitor.CxlMemMonitor(bus, None, cfg=cfg, records=False, start=False)
        self.ends = self.host, self.device, self.monitor
        self.runs = [end._run() for end in self.ends]
        self.levels: list[dict[str, str]] = []
        for run in self.runs:
            run.send(None)
        self.reset(False)

    def reset(self, active: bool) -> None:
        for end in self.ends:
            if active:
                end._reset_entered()
            end._in_reset = active

    def clocks(self, number: int = 1) -> None:
        for _ in range(number):
            for run in self.runs:
                run.send(None)
            for pin in self.pins.values():
                pin.now = pin.next
            self.levels.append({name: pin.now for name, pin in self.pins.items()})

    def ones(self, name: str) -> str:
        """Return the levels of a pin, clock by clock."""
        return "".join(one[name] for one in self.levels)

    @property
    def errors(self) -> list[str]:
        return [error for end in self.ends for error in end.finish()]


def settings(name: str, seed: int) -> CxlConfig:
    shape = {"dense": CxlConfig.dense, "sparse": CxlConfig.sparse, "starved": CxlConfig.starved}
    cfg = shape[name.partition(" ")[0]](seed)
    cfg.link.retry, cfg.link.retry_timeout = "retry" in name, 60
    cfg.max_outstanding, cfg.queue_depth = 6, 3
    cfg.waive = lambda rule, _way: cfg.link.retry and rule == "crc"
    return cfg


@pytest.mark.parametrize(
    ("name", "without"),
    [
        ("dense", "phy_up"),
        ("sparse", "s2m_ready"),
        ("starved", "retrain_request"),
        ("dense retry", "retrain_request"),
        ("sparse retry", ""),
        ("starved retry", ""),
    ],
)
def test_drawn_traffic(name: str, without: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that reads return what was written, that the host keeps its limits, and the pins.

    A monitor judges the rules of the link. With retry, flits are damaged both ways, and either side
    retrains.
    """
    rng, cfg = random.Random(f"{name} {without}"), settings(name, len(without))
    retry = cfg.link.retry

    def damage(wire: tuple[int, int]) -> tuple[int, int]:
        return (wire[0], wire[1] ^ (retry and rng.random() < 0.02) << rng.randrange(528))

    cfg.damage_to_device = damage
    ends = Ends(monkeypatch, cfg, without=without)
    ends.device.damage_to_host = damage
    memory: dict[int, bytes] = {}
    busy: dict[int, Transaction] = {}
    reads: list[tuple[Transaction, bytes]] = []
    most = [0, 0]
    for clock in range(600):
        addr = 64 * rng.randrange(16)
        if ends.host.has_room and clock < 300 and (addr not in busy or busy[addr].done):
            if rng.random() < 0.5:
                memory[addr] = rng.randbytes(64)
                message: Any = M2SRwD(RwdOp.MEM_WR, 0, addr, data=memory[addr])
                busy[addr] = ends.host.submit(message)
            else:
                busy[addr] = ends.host.submit(M2SReq(ReqOp.MEM_RD, 0, addr))
                reads.append((busy[addr], memory.get(addr, bytes(64))))
        if retry and clock in (100, 200):
            ends.device.retrain() if clock == 100 else ends.host.retrain()
        ends.clocks()
        assert ends.host.outstanding == sum(not one.done for one in busy.values())
        most = [max(most[0], ends.host.outstanding), max(most[1], ends.host.link.packer.waiting)]
    assert ends.host.idle
    assert ends.errors == []
    assert most == [6, most[1]]
    assert most[1] <= 3
    assert len(reads) > 2
    for transaction, data in reads:
        assert isinstance(transaction.response, S2MDRS)
        assert transaction.response.data == data
        assert not transaction.response.poison
    for before, now in pairwise(ends.levels):
        if before["s2m_valid"] == "1" and before.get("s2m_ready") == "0":
            assert {n: before[n] for n in NAMES[3:]} == {n: now[n] for n in NAMES[3:]}
    if without != "phy_up":
        downs = ends.ones("phy_up").count("10")
        assert downs >= 1 + (without != "retrain_request") if retry else not downs


def test_the_physical_layer_comes_up_and_retrains(monkeypatch: pytest.MonkeyPatch) -> None:
    cfg = CxlConfig(LinkConfig(retry=True), phy_up_delay=3, retrain_clocks=5)
    ends = Ends(monkeypatch, cfg)
    assert not ends.host.retrain(), "it is down"
    ends.clocks(10)
    assert ends.ones("phy_up") == "00" + "1" * 8
    assert ends.host.retrain()
    assert not ends.host.retrain(), "one is pending"
    ends.clocks(20)
    assert ends.ones("phy_up")[10:] == "00000" + "1" * 15
    ends.device.retrain()
    ends.clocks(20)
    assert ends.ones("phy_up")[30:] == "1" + "00000" + "1" * 14
    assert ends.ones("retrain_request")[30:34] == "1100"
    assert ends.errors == []
    ends = Ends(monkeypatch, CxlConfig(LinkConfig(retry=False)))
    ends.clocks(30)
    ends.device.retrain()
    ends.clocks(20)
    assert "0" not in ends.ones("phy_up")[10:], "without retry a request is ignored"
    ends = Ends(monkeypatch, CxlConfig(LinkConfig(retry=True)), without="phy_up")
    ends.clocks(30)
    assert not ends.host.retrain(), "without a pin"


def test_a_reset_ends_all_and_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = Ends(monkeypatch, CxlConfig(phy_up_delay=6))
    for _ in range(2):
        ends.clocks(60)
        assert ends.host.up.is_set()
        sent = [ends.host.submit(M2SReq(ReqOp.MEM_RD, 0, 64 * n)) for n in range(20)]
        ends.clocks(4)
        assert "1" in ends.ones("m2s_valid")[-4:]
        ends.reset(True)
        assert all(one.aborted or one.done for one in sent)
        assert any(one.aborted for one in sent)
        assert not ends.host.up.is_set()
        assert ends.host.outstanding == 0
        ends.levels.clear()
        ends.clocks(5)
        for name in ("m2s_valid", "s2m_valid", "phy_up", "s2m_ready"):
            assert ends.ones(name) == "00000", name
        ends.reset(False)
        ends.levels.clear()
        ends.clocks(10)
        assert ends.ones("phy_up") == "0" * 5 + "1" * 5
        assert ends.ones("s2m_ready") == "1" * 10
        assert ends.errors == []


def test_a_damaged_flit_without_retry_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for to_host in (True, False):
        cfg, bad = CxlConfig(), set[int]()

        def damage(wire: tuple[int, int], bad: set[int] = bad) -> tuple[int, int]:
            return wire[0], wire[1] ^ (bad.pop() if bad else 0)

        ends = Ends(monkeypatch, cfg)
        ends.clocks(60)
        end, other = (ends.host, "device") if to_host else (ends.device, "host")
        ends.host.cfg.damage_to_host = damage if to_host else None
        ends.device.damage_to_device = None if to_host else damage
        for times in range(3):
            text = f"a flit of the {other} is bad and lost, as link-level retry is off"
            assert sum(text in error for error in end.errors) == times
            bad.add(1)
            for one in range(2):
                ends.host.submit(M2SReq(ReqOp.MEM_SPEC_RD if not to_host else ReqOp.MEM_RD, 0, 0))
                ends.clocks(30 + one)


@pytest.mark.parametrize("idle", [0.0, 1.0])
def test_idle_clocks_and_the_pattern_of_ready(idle: float, monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = (True, False, False, True, True)
    ends = Ends(monkeypatch, CxlConfig(idle_rate=idle, ready=ReadyPattern(pattern=pattern)))
    ends.clocks(50)
    assert ends.ones("s2m_ready") == "10011" * 10
    assert ("1" in ends.ones("m2s_valid")) == (not idle)
    assert ends.host.link.packer.waiting == 0

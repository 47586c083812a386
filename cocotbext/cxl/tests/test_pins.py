# SPDX-License-Identifier: Apache-2.0
"""Host, device model and monitor on plain pins, clock by clock, without a simulator; negative twins
of the rules of the pins.
"""

import random
from collections.abc import Generator
from itertools import pairwise
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from cocotbext.cxl import device, host, monitor
from cocotbext.cxl.bus import CxlMemBus
from cocotbext.cxl.config import CxlConfig, ReadyPattern
from cocotbext.cxl.errors import ErrorLog
from cocotbext.cxl.host import CxlMemHost
from cocotbext.cxl.link.device_stub import DeviceStub
from cocotbext.cxl.link.link_config import LinkConfig
from cocotbext.cxl.link.partner import HostLink
from cocotbext.cxl.transactions import Transaction
from cocotbext.cxl.wire.messages import S2MDRS, M2SReq, M2SRwD, ReqOp, RwdOp

WIDTHS = {"protocol_id": 16, "flit": 528}
IDLE = {"m2s_valid": "0", "s2m_valid": "0", "s2m_ready": "1"}


class Clock:
    """Awaitable in place of a clock edge: the test resumes the monitor by hand."""

    def __await__(self) -> Generator[None]:
        yield


def link_pins() -> dict[str, Any]:
    """Return pins of a link at level 0, with the physical layer up."""
    names = [f"{way}_{name}" for way in ("m2s", "s2m") for name in ("valid", *WIDTHS)]
    pins = {name: SimpleNamespace(value="0") for name in (*names, "s2m_ready", "phy_up")}
    pins["phy_up"].value = "1"
    return pins


class Pins:
    """Monitor on pins whose levels the test sets; `clock` gives one clock of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **cfg: Any) -> None:
        monkeypatch.setattr(monitor, "RisingEdge", lambda _clock: Clock())
        self.pins = link_pins()
        self.monitor = monitor.CxlMemMonitor(
            CxlMemBus(**self.pins), None, cfg=CxlConfig(**cfg), records=False, start=False
        )
        self.monitor._in_reset = False
        self.run = self.monitor._run()
        self.run.send(None)

    def clock(self, **levels: str) -> list[str]:
        """Give a clock with levels of pins, the others idle; return the findings about pins."""
        before = len(self.monitor.errors)
        for name, level in (IDLE | levels).items():
            self.pins[name].value = level
        self.run.send(None)
        found = self.monitor.errors[before:]
        return [one for one in found if "pins" in one]


def flit(way: str, rng: Random, **more: str) -> dict[str, str]:
    """Return levels of a valid flit with drawn bits, and other levels."""
    bits = {f"{way}_{name}": format(rng.getrandbits(w), f"0{w}b") for name, w in WIDTHS.items()}
    return {f"{way}_valid": "1", **bits, **more}


@pytest.mark.parametrize("unknown", ["X", "Z"])
@pytest.mark.parametrize("name", WIDTHS)
@pytest.mark.parametrize("way", ["m2s", "s2m"])
def test_an_unknown_level_of_a_valid_flit(
    way: str, name: str, unknown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pins, rng = Pins(monkeypatch), Random(f"{way} {name} {unknown}")
    levels = flit(way, rng)
    assert pins.clock(**levels) == []
    at, bits = rng.randrange(WIDTHS[name]), levels[f"{way}_{name}"]
    levels[f"{way}_{name}"] = bits[:at] + unknown + bits[at + 1 :]
    (found,) = pins.clock(**levels)
    assert "X or Z on the pins of a valid flit" in found
    assert levels[f"{way}_{name}"] in found
    assert pins.clock(**levels | {f"{way}_valid": "0"}) == []
    (found,) = pins.clock(**{f"{way}_valid": unknown})
    assert f"{way}_valid is X or Z: {unknown}" in found


def test_a_flit_that_waits_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(7)
    one, other = flit("s2m", rng, s2m_ready="0"), flit("s2m", rng, s2m_ready="0")
    taken = {"s2m_ready": "1"}
    for levels, text in (
        ([one, one, one | taken, other | taken], ""),
        ([one | taken, other | taken], ""),
        ([one, other], "the s2m flit changed while s2m_ready was low"),
        ([one, IDLE], "s2m_valid fell while s2m_ready was low"),
        ([one, one | taken, IDLE], ""),
    ):
        pins = Pins(monkeypatch)
        assert [found for one_clock in levels[:-1] for found in pins.clock(**one_clock)] == []
        found = pins.clock(**levels[-1])
        assert len(found) == bool(text)
        assert all(text in line for line in found)
        assert pins.clock(**levels[-1] | taken) == [], "it is reported once"
    pins = Pins(monkeypatch, check_stable=False)
    assert pins.clock(**one) == pins.clock(**other) == pins.clock() == []
    pins = Pins(monkeypatch)
    pins.clock(**one)
    pins.monitor._reset_entered()
    assert pins.clock(**other) == [], "in reset nothing is sampled"
    pins.monitor._in_reset = False
    assert pins.clock(**other) == [], "a reset ends what waited"


def test_an_unknown_valid_at_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that the device reports an unknown m2s_valid once, and again after a known level."""
    monkeypatch.setattr(device, "RisingEdge", lambda _clock: Clock())
    pins = link_pins()
    end = device.CxlMemDevice(CxlMemBus(**pins), None, start=False)
    end._in_reset = False
    run, counts = end._run(), []
    run.send(None)
    for level in "0XX0ZX0":
        pins["m2s_valid"].value = level
        run.send(None)
        counts.append(len(end.errors))
    assert counts == [0, 1, 1, 1, 2, 3, 3]
    assert "m2s_valid is X or Z: Z" in end.errors[1]


def test_the_host_tells_an_abort_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for looks in range(3):
        host = CxlMemHost(CxlMemBus(**link_pins()), None, start=False)
        assert host.finish() == []
        monkeypatch.setattr(HostLink, "failed", property(lambda _link: True))
        for _ in range(looks):
            host._look()
        (found,) = host.finish()
        assert "the link is in ABORT" in found
        assert ("has not acknowledged any retry" in found) == (looks > 0)
        monkeypatch.undo()


NAMES = [f"{way}_{name}" for way in ("m2s", "s2m") for name in ("valid", *WIDTHS)]
OPTIONAL = "s2m_ready", "phy_up", "retrain_request"


class Pin:
    """Pin: a level that is driven is read from the next clock on."""

    def __init__(self, name: str) -> None:
        self.width = WIDTHS.get(name.partition("_")[2], 1)
        self.now = self.next = "0" * self.width
        self.writes = 0

    @property
    def value(self) -> str:
        return self.now

    @value.setter
    def value(self, level: int) -> None:
        self.writes += 1
        self.next = format(level, f"0{self.width}b")


class Ends:
    """Host, device and monitor of a link, out of reset; ``levels`` has the pins of each clock."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        cfg: CxlConfig,
        *,
        without: str = "",
        seed: int = 1,
        stub: DeviceStub | None = None,
        log: ErrorLog | None = None,
    ) -> None:
        for module in (host, device, monitor):
            monkeypatch.setattr(module, "RisingEdge", lambda _clock: Clock())
        monkeypatch.setattr(monitor, "get_sim_time", lambda _unit: 0.0)
        names = (name for name in (*NAMES, *OPTIONAL) if name != without)
        self.pins: dict[str, Any] = {name: Pin(name) for name in names}
        bus = CxlMemBus(**self.pins)
        self.host = host.CxlMemHost(bus, None, cfg=cfg, error_log=log, start=False)
        link = LinkConfig(
            retry=cfg.link.retry, retry_timeout=cfg.link.retry_timeout, grant_plain=3, grant_data=3
        )
        rng = random.Random(seed)
        self.device = device.CxlMemDevice(
            bus, None, link_config=link, latency=(1, 9), rng=rng, stub=stub, start=False
        )
        self.monitor = monitor.CxlMemMonitor(
            bus, None, cfg=cfg, error_log=log, records=False, start=False
        )
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

# SPDX-License-Identifier: Apache-2.0
"""HostLink against DeviceLink and a plain memory over a wire that loses and corrupts flits."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from cocotbext.cxl.link.device_stub import DeviceStub
from cocotbext.cxl.link.link_config import LinkConfig
from cocotbext.cxl.link.partner import DeviceLink, HostLink, WireFlit
from cocotbext.cxl.link.retry import Lrsm, RetryBuffer
from cocotbext.cxl.wire.control import (
    Llcrd,
    RetryFrame,
    RetryIdle,
    RetryReq,
    decode_control,
    encode_control,
)
from cocotbext.cxl.wire.crc import seal
from cocotbext.cxl.wire.flits import ProtocolCode, is_control
from cocotbext.cxl.wire.messages import (
    BE_ALL,
    S2MDRS,
    S2MNDR,
    M2SMessage,
    M2SReq,
    M2SRwD,
    NdrOp,
    ReqOp,
    RwdOp,
    S2MMessage,
)
from cocotbext.cxl.wire.packer import PackOptions

PID = ProtocolCode.CACHEMEM.word


@dataclass
class Wire:
    """Host and device with ``delay`` clocks of latency each way."""

    host: HostLink
    stub: DeviceStub
    delay: int = 3
    damage: Callable[[WireFlit], WireFlit] | None = None
    ready: Callable[[], bool] = lambda: True
    down: list[WireFlit | None] = field(default_factory=list)
    up: list[WireFlit | None] = field(default_factory=list)
    responses: list[S2MMessage] = field(default_factory=list)
    clocks: int = 0

    def step(self) -> None:
        self.clocks += 1
        if self.host.retry.retrain_request or self.stub.link.retry.retrain_request:
            self.set_phy(False)
            self.set_phy(True)
        self._move(self.host.next_flit(), self.down, self._to_device)
        self._move(self.stub.next_flit(self.ready()), self.up, self._to_host)

    def set_phy(self, up: bool) -> None:
        self.down.clear()
        self.up.clear()
        self.host.set_phy(up)
        self.stub.link.set_phy(up)

    def _move(
        self,
        flit: WireFlit | None,
        line: list[WireFlit | None],
        deliver: Callable[[WireFlit], None],
    ) -> None:
        if flit is not None and self.damage is not None:
            flit = self.damage(flit)
        line.append(flit)
        if len(line) > self.delay:
            head = line.pop(0)
            if head is not None:
                deliver(head)

    def _to_device(self, flit: WireFlit) -> None:
        self.stub.receive(*flit)

    def _to_host(self, flit: WireFlit) -> None:
        self.responses += self.host.receive(*flit)

    def run(self, until: Callable[[], bool], limit: int = 20000) -> None:
        start = self.clocks
        while not until():
            self.step()
            assert self.clocks - start < limit, "stuck"


def make(seed: int = 0, **config: object) -> Wire:
    rng = random.Random(seed)
    host = LinkConfig(rng=rng, **config)  # type: ignore[arg-type]
    device = LinkConfig(
        rng=rng,
        retry=host.retry,
        retry_timeout=host.retry_timeout,
        pack=PackOptions(dense=host.pack.dense, multi_header=bool(seed & 1), rng=rng),
    )
    return Wire(HostLink(host), DeviceStub(DeviceLink(device), (1, 9), rng))


def traffic(rng: random.Random, count: int) -> list[M2SMessage]:
    """Return reads, writes and partial writes, each with its own tag."""
    out: list[M2SMessage] = []
    for tag in range(count):
        addr = 64 * rng.randrange(16)
        kind = rng.randrange(4)
        if kind < 2:
            out.append(M2SReq(ReqOp.MEM_RD if kind else ReqOp.MEM_RD_DATA, tag, addr))
        elif kind == 2:
            out.append(M2SRwD(RwdOp.MEM_WR, tag, addr, data=rng.randbytes(64)))
        else:
            be = rng.getrandbits(64)
            out.append(M2SRwD(RwdOp.MEM_WR_PTL, tag, addr, data=rng.randbytes(64), be=be))
    return out


def check_all_answered(wire: Wire, sent: list[M2SMessage]) -> None:
    assert sorted(m.tag for m in wire.responses) == [m.tag for m in sent]
    kinds = {m.tag: isinstance(m, S2MDRS) for m in wire.responses}
    assert all(kinds[m.tag] == isinstance(m, M2SReq) for m in sent)


def clean(wire: Wire) -> bool:
    return not wire.host.issues and not wire.stub.link.issues


CONFIGS: dict[str, dict[str, object]] = {
    "dense": {},
    "random": {"pack": PackOptions(dense=False, rng=random.Random(5))},
    "starved": {"grant_plain": 1, "grant_data": 1, "return_delay": (10, 60)},
    "batched": {"grant_plain": 8, "grant_data": 8, "return_batch": 8},
    "llcrd only": {"ak_in_headers": False, "credits_in_headers": False},
    "idle flits": {"idle_flit_rate": 0.5, "eds_rate": 0.2},
    "retry on": {"retry": True},
    "retry on, random": {"retry": True, "pack": PackOptions(dense=False, rng=random.Random(6))},
}


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("seed", range(4))
def test_traffic(name: str, seed: int) -> None:
    wire = make(seed, **CONFIGS[name])
    rng = random.Random(seed)
    wire.ready = lambda: rng.random() < 0.8
    sent = traffic(rng, 300)
    for message in sent:
        wire.host.send(message)
    wire.run(lambda: len(wire.responses) >= len(sent))
    for _ in range(300):
        wire.step()
    check_all_answered(wire, sent)
    assert clean(wire)
    assert wire.host.tx_idle
    assert wire.stub.idle
    if name != "idle flits":  # idle flits need acknowledgements too
        assert wire.host.unacknowledged <= 2
        assert wire.stub.link.unacknowledged <= 2


def test_data_is_what_was_written() -> None:
    wire = make(1)
    lines = {64 * i: random.Random(i).randbytes(64) for i in range(40)}
    for i, (addr, data) in enumerate(lines.items()):
        wire.host.send(M2SRwD(RwdOp.MEM_WR, i, addr, data=data))
    wire.run(lambda: len(wire.responses) == 40)
    wire.host.send(M2SRwD(RwdOp.MEM_WR_PTL, 99, 0, data=bytes(64), be=BE_ALL - 1))
    wire.run(lambda: len(wire.responses) == 41)
    for i, addr in enumerate(lines):
        wire.host.send(M2SReq(ReqOp.MEM_RD, i, addr))
    wire.run(lambda: len(wire.responses) == 81)
    got = {m.tag: m.data for m in wire.responses if isinstance(m, S2MDRS)}
    lines[0] = lines[0][:1] + bytes(63)
    assert [got[i] for i in range(40)] == list(lines.values())


def test_initialisation_order() -> None:
    host, device = HostLink(), DeviceLink()
    idle = seal(encode_control(RetryIdle()))
    assert [host.next_flit() for _ in range(3)] == [(PID, idle)] * 3
    host.receive(PID, idle ^ 1 << 500)  # not clean
    assert host.next_flit() == (PID, idle)
    host.receive(PID, idle)
    flit = host.next_flit()
    assert flit is not None
    assert "InitParam" in str(decode_control(flit[1])[0])
    assert host.next_flit() == (PID, idle)
    host.receive(PID, seal(0))
    assert host.counters["protocol_error"] == 1
    device.receive(*flit)
    answer = device.next_flit()
    assert answer is not None
    host.receive(*answer)
    assert host.active
    host.receive(*answer)
    assert host.counters["protocol_error"] == 2  # a second INIT


def test_protocol_ids_of_the_receiver() -> None:
    host = HostLink()
    idle = seal(encode_control(RetryIdle()))
    for pid in (0x5555, 0x8787, 0x5500, 0x9999, 0xFFFF, 0x0000, 0x5587, 0xCCCC, 0x4B4B):
        host.receive(pid, idle)
    counters = host.counters
    assert counters["pid_correctable"] == 1
    assert counters["pid_uncorrectable"] == 2
    assert counters["pid_unexpected"] == 2


def _bring_up(host: HostLink) -> DeviceLink:
    device = DeviceLink()
    for _ in range(12):
        for sender, receiver in ((host, device), (device, host)):
            flit = sender.next_flit()
            if flit is not None:
                receiver.receive(*flit)
    assert host.active
    assert device.active
    return device


def test_llcrd_after_16_acks_or_32_clocks() -> None:
    host = HostLink()
    device = _bring_up(host)
    for _ in range(40):
        host.next_flit()
    host.num_ack = 0
    assert all(host.next_flit() is None for _ in range(100))
    empty = seal(device.packer.empty().payload)
    host.receive(PID, empty)
    assert all(host.next_flit() is None for _ in range(100))  # one ack alone forces nothing
    host.receive(PID, empty)
    quiet = 0
    while (flit := host.next_flit()) is None:
        quiet += 1
    assert quiet in (30, 31, 32)
    assert decode_control(flit[1])[0] == Llcrd(2)
    for _ in range(16):
        host.receive(PID, empty)
    flit = host.next_flit()
    assert flit is not None
    assert decode_control(flit[1])[0] == Llcrd(16)


def test_credit_overflow_and_surplus_acks_are_reported() -> None:
    host = HostLink(LinkConfig(grant_plain=1, grant_data=0))
    device = _bring_up(host)
    device.credits.plain = 10
    device.send(S2MNDR(NdrOp.CMP, 1))
    device.send(S2MNDR(NdrOp.CMP, 2))
    flit = device.next_flit()
    assert flit is not None
    host.receive(*flit)
    assert "credits" in host.issues[0]
    host.receive(PID, seal(encode_control(Llcrd(200))))
    assert "outstanding" in host.issues[1]


def test_control_flit_with_a_static_bit() -> None:
    for retry in (False, True):
        host = HostLink(LinkConfig(retry=retry))
        _bring_up(host)
        host.receive(PID, seal(encode_control(RetryFrame()) | 1 << 300))
        assert host.counters["protocol_error"] == 1
        assert host.retry.lrsm is (Lrsm.LLRREQ if retry else Lrsm.NORMAL), "nobody knows its ESeq"


# ------------------------------------------------------------------------------ retry


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.1])
@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_retry_delivers_everything_once(seed: int, dense: bool, rate: float) -> None:
    rng = random.Random(seed)
    pack = PackOptions(dense=dense, rng=random.Random(seed))
    wire = make(seed, retry=True, retry_timeout=200, pack=pack)

    def damage(flit: WireFlit) -> WireFlit:
        if rng.random() >= rate:
            return flit
        if rng.random() < 0.2:
            return flit[0] ^ 0x0101, flit[1]
        return flit[0], flit[1] ^ 1 << rng.randrange(528)

    wire.damage = damage
    wire.delay = rng.randrange(1, 12)
    sent = traffic(rng, 200)
    for message in sent:
        wire.host.send(message)
    wire.run(lambda: len(wire.responses) >= len(sent), limit=60000)
    wire.damage = None
    for _ in range(600):
        wire.step()
    check_all_answered(wire, sent)
    assert clean(wire)
    assert wire.host.retry.lrsm is Lrsm.NORMAL
    assert wire.host.unacknowledged <= 2
    assert wire.stub.link.unacknowledged <= 2


def test_phy_retrain_loses_nothing() -> None:
    rng = random.Random(9)
    wire = make(9, retry=True)
    sent = traffic(rng, 200)
    for message in sent:
        wire.host.send(message)
    for _ in range(30):
        for _ in range(rng.randrange(5, 20)):
            wire.step()
        wire.set_phy(False)
        for _ in range(3):
            wire.step()
        wire.set_phy(True)
    wire.run(lambda: len(wire.responses) >= len(sent))
    check_all_answered(wire, sent)
    assert clean(wire)


def test_retry_counts_retrains_and_gives_up() -> None:
    host = HostLink(LinkConfig(retry=True, retry_timeout=8, max_retry=2, max_phy_reinit=1))
    _bring_up(host)
    host.receive(PID, 1 << 520)  # bad CRC; nobody answers the requests
    asked = retrains = 0
    while not host.failed:
        if host.retry.retrain_request:
            retrains += 1
            host.set_phy(False)
            assert host.next_flit() is None
            host.set_phy(True)
        flit = host.next_flit()
        if flit and isinstance(decode_control(flit[1])[0], RetryReq) and is_control(flit[1]):
            asked += 1
    assert (asked, retrains) == (4, 1)
    assert host.counters["link_failure"] == 1
    assert host.next_flit() is None


def test_frames_are_needed_before_a_request() -> None:
    host = HostLink(LinkConfig(retry=True))
    _bring_up(host)
    sent = host.buffer.wr_ptr
    for frames, answered in ((4, False), (5, True), (7, True)):
        for _ in range(frames):
            host.receive(PID, seal(encode_control(RetryFrame())))
        host.receive(PID, seal(encode_control(RetryReq(sent - 1, 1))))
        flits = [host.next_flit() for _ in range(8)]
        controls = [str(decode_control(f[1])[0]).split("(")[0] for f in flits if f]
        expected = ["RetryFrame"] * 5 + ["RetryAck", "Llcrd"]
        assert controls == (expected if answered else [])


def test_full_buffer_stops_the_sender() -> None:
    host = HostLink(LinkConfig(retry=True, retry_depth=22))
    _bring_up(host)
    host.credits.data = 1000
    for tag in range(200):
        host.send(M2SRwD(RwdOp.MEM_WR, tag, 0))
    while host.next_flit() is not None:
        pass
    assert host.buffer.free in (2, 3)
    assert host.packer.owed <= 3  # no ADF run was cut short
    host.buffer.free = 2
    host.credits.plain = 1
    host.send(M2SReq(ReqOp.MEM_RD, 1, 0))
    assert host.next_flit() is None
    host.num_ack = 8  # a flit that acknowledges something may still leave
    assert host.next_flit() is not None
    assert host.buffer.free == 1
    host.num_ack = 100
    assert host.next_flit() is None


def test_buffer_limits() -> None:
    with pytest.raises(ValueError, match="22"):
        RetryBuffer(21)
    buffer = RetryBuffer(22)
    for i in range(20):
        buffer.store(i, False)
    assert buffer.holds(0)
    assert not buffer.holds(21)
    assert buffer.acknowledge(20)
    assert not buffer.acknowledge(1)

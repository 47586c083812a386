# SPDX-License-Identifier: Apache-2.0
"""Tests of HostLink with DeviceLink and a plain memory over a wire that loses or damages flits."""

import random
from itertools import takewhile

import pytest

from cocotbext.cxl.link.conftest import LinkBench
from cocotbext.cxl.link.partner import HostLink
from cocotbext.cxl.link.retry import Lrsm, RetryBuffer
from cocotbext.cxl.wire.conftest import random_requests
from cocotbext.cxl.wire.control import (
    ControlFlit,
    Llcrd,
    RetryAck,
    RetryFrame,
    RetryIdle,
    RetryReq,
    decode_control,
    encode_control,
)
from cocotbext.cxl.wire.crc import seal
from cocotbext.cxl.wire.flits import Direction, FlitHeader, ProtocolCode, WireFlit, is_control
from cocotbext.cxl.wire.messages import (
    S2MDRS,
    S2MNDR,
    M2SReq,
    M2SRwD,
    NdrOp,
    ReqOp,
    RwdOp,
)
from cocotbext.cxl.wire.packer import PackOptions

PID = ProtocolCode.CACHEMEM.word
IDLE = seal(encode_control(RetryIdle()))


def control_of(flit: WireFlit | None) -> ControlFlit:
    assert flit is not None
    assert is_control(flit[1])
    return decode_control(flit[1])[0]


def receive(host: HostLink, *controls: ControlFlit) -> None:
    for control in controls:
        host.receive(PID, seal(encode_control(control)))


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
    bench, rng = LinkBench.make(seed, **CONFIGS[name]), random.Random(seed)
    bench.ready = lambda: rng.random() < 0.8
    bench.delay = dict.fromkeys(Direction, 3)
    sent = random_requests(rng, 300)
    bench.answered(sent)
    kinds = {one.tag: isinstance(one, S2MDRS) for one in bench.responses}
    assert all(kinds[one.tag] == isinstance(one, M2SReq) for one in sent)
    if name != "idle flits":  # idle flits need acknowledgements too
        assert bench.host.unacknowledged <= 2
        assert bench.device.unacknowledged <= 2


def test_initialisation_order() -> None:
    bench = LinkBench.make()
    host = bench.host
    assert [host.next_flit() for _ in range(3)] == [(PID, IDLE)] * 3
    host.receive(PID, IDLE ^ 1 << 500)  # not clean
    assert host.next_flit() == (PID, IDLE)
    host.receive(PID, IDLE)
    flit = host.next_flit()
    assert flit is not None
    assert "InitParam" in str(control_of(flit))
    assert host.next_flit() == (PID, IDLE)
    host.receive(PID, seal(0))
    assert host.counters["protocol_error"] == 1
    bench.device.receive(*flit)
    answer = bench.device.next_flit()
    assert answer is not None
    host.receive(*answer)
    assert host.active
    host.receive(*answer)
    assert host.counters["protocol_error"] == 2  # a second INIT


def test_protocol_ids_of_the_receiver() -> None:
    host = HostLink()
    for pid in (0x5555, 0x8787, 0x5500, 0x9999, 0xFFFF, 0x0000, 0x5587, 0xCCCC, 0x4B4B):
        host.receive(pid, IDLE)
    counters = host.counters
    assert counters["pid_correctable"] == 1
    assert counters["pid_uncorrectable"] == 2
    assert counters["pid_unexpected"] == 2


def test_llcrd_after_16_acks_or_32_clocks() -> None:
    bench = LinkBench.make().up()
    host = bench.host
    host.num_ack = 0
    assert all(host.next_flit() is None for _ in range(100))
    empty = seal(bench.device.packer.empty().payload)
    host.receive(PID, empty)
    assert all(host.next_flit() is None for _ in range(100))  # one ack alone forces nothing
    host.receive(PID, empty)
    quiet = 0
    while (flit := host.next_flit()) is None:
        quiet += 1
    assert quiet in (30, 31, 32)
    assert control_of(flit) == Llcrd(2)
    for _ in range(16):
        host.receive(PID, empty)
    assert control_of(host.next_flit()) == Llcrd(16)


def test_credit_overflow_and_surplus_acks_are_reported() -> None:
    bench = LinkBench.make(grant_plain=1, grant_data=0).up()
    host, device = bench.host, bench.device
    device.credits.plain = 10
    device.send(S2MNDR(NdrOp.CMP, 1))
    device.send(S2MNDR(NdrOp.CMP, 2))
    flit = device.next_flit()
    assert flit is not None
    host.receive(*flit)
    assert "credits" in host.issues[0]
    receive(host, Llcrd(200))
    assert "outstanding" in host.issues[1]


@pytest.mark.parametrize("retry", [False, True])
def test_control_flit_with_a_static_bit(retry: bool) -> None:
    host = LinkBench.make(retry=retry).up().host
    host.receive(PID, seal(encode_control(RetryFrame()) | 1 << 300))
    assert host.counters["protocol_error"] == 1
    assert host.retry.lrsm is (Lrsm.LLRREQ if retry else Lrsm.NORMAL), "nobody knows its ESeq"


# -- retry ----------------------------------------------------------------------------------------
def test_phy_retrain_loses_nothing() -> None:
    rng, bench = random.Random(9), LinkBench.make(9, retry=True)
    bench.delay = dict.fromkeys(Direction, 3)

    def ready() -> bool:
        bench.retrain = rng.random() < 0.1 and bench.host.counters["phy_reinit"] < 30
        return True

    bench.ready = ready
    bench.answered(random_requests(rng, 200))
    assert bench.host.counters["phy_reinit"] > 10


def test_retry_counts_retrains_and_gives_up() -> None:
    settings = {"retry": True, "retry_timeout": 8, "max_retry": 2, "max_phy_reinit": 1}
    host = LinkBench.make(**settings).up().host
    host.receive(PID, 1 << 520)  # bad CRC; nobody answers the requests
    asked = retrains = 0
    while not host.failed:
        if host.retry.retrain_request:
            retrains += 1
            host.set_phy(False)
            assert host.next_flit() is None
            host.set_phy(True)
        flit = host.next_flit()
        asked += flit is not None and isinstance(control_of(flit), RetryReq)
    assert (asked, retrains) == (4, 1)
    names = ("link_failure", "retry_timeout", "retry_local", "phy_reinit")
    assert [host.counters[name] for name in names] == [1, 4, 1, 1]
    assert host.next_flit() is None


@pytest.mark.parametrize(("frames", "answered"), [(4, False), (5, True), (7, True)])
def test_frames_are_needed_before_a_request(frames: int, answered: bool) -> None:
    host = LinkBench.make(retry=True).up().host
    receive(host, *[RetryFrame()] * frames, RetryReq(host.buffer.wr_ptr - 1, 1))
    flits = takewhile(bool, (host.next_flit() for _ in range(6)))
    assert [type(control_of(one)) for one in flits] == ([RetryFrame] * 5 + [RetryAck]) * answered


def test_retry_flits_that_nobody_asked_for_are_counted() -> None:
    for control, counter in (
        (RetryAck(), "unexpected_retry_ack"),
        (RetryReq(100, 1), "protocol_error"),  # a flit that was never sent
    ):
        host = LinkBench.make(retry=True).up().host
        before = host.counters.copy()
        receive(host, *[RetryFrame()] * 5, control)
        counted = {name: n - before[name] for name, n in host.counters.items() if n != before[name]}
        assert counted[counter] == 1
        assert "retry_remote" not in counted
        assert host.retry.lrsm is Lrsm.NORMAL


def test_credits_of_the_cache_are_counted_and_give_none() -> None:
    bench = LinkBench.make().up()
    credits = bench.host.credits
    before = credits.plain, credits.data
    given = FlitHeader(rsp_crd=2, req_crd=3, data_crd=4).encode() & 0xFFF0_0000
    empty = bench.device.packer.empty().payload & ~0xFFF0_0000
    bench.host.receive(PID, seal(empty | given))
    assert (credits.plain, credits.data) == before
    assert bench.host.counters["cache_credit"] == 3


def test_full_buffer_stops_the_sender() -> None:
    host = LinkBench.make(retry=True, retry_depth=22).up().host
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
    for depth in (21, 256):
        with pytest.raises(ValueError, match="22"):
            RetryBuffer(depth)
    assert RetryBuffer(255).free == 255
    buffer = RetryBuffer(22)
    for i in range(20):
        buffer.store(i, False)
    assert buffer.holds(0)
    assert not buffer.holds(21)
    assert buffer.acknowledge(20)
    assert not buffer.acknowledge(1)


@pytest.mark.parametrize(("free", "acks", "leaves"), [(2, 16, True), (2, 0, False), (1, 16, False)])
def test_the_last_entries_are_for_acknowledgements(free: int, acks: int, leaves: bool) -> None:
    host = LinkBench.make(retry=True).up().host
    host.buffer.free, host.num_ack = free, acks
    assert bool(next(filter(None, (host.next_flit() for _ in range(40))), None)) is leaves


@pytest.mark.parametrize(("rate", "sends"), [(0.0, False), (1e-9, False), (1.0, True)])
def test_idle_flits_are_as_frequent_as_configured(rate: float, sends: bool) -> None:
    host = LinkBench.make().up().host
    host.config.idle_flit_rate, host.num_ack = rate, 0
    assert {host.next_flit() is not None for _ in range(20)} == {sends}


# -- the first flits: neither end may lose the other's INIT.Param ---------------------------------
def comes_up(bench: LinkBench) -> None:
    """Check that both ends receive credits, report no error, and end with their LRSM in NORMAL."""
    both = bench.host, bench.device
    bench.run(lambda: all(end.credits.plain and end.credits.data for end in both), 9000)
    bench.steps(200)
    bench.clean()
    assert [end.retry.lrsm for end in both] == [Lrsm.NORMAL] * 2


ENDS = {"h": [Direction.S2M], "d": [Direction.M2S], "hd": [*Direction], "": []}


def starting(first: int, ends: str) -> LinkBench:
    """Return a bench, not run yet, with retry on, whose first flits are damaged.

    In clocks 1 to ``first`` all flits to the ends named in ``ends`` ("h", "d", "hd" or "") are
    damaged.
    """
    bench = LinkBench.make(first, retry=True)
    bench.delay = dict.fromkeys(Direction, 3)
    for direction in ENDS[ends]:
        bench.after_pins[direction] = lambda wire: (
            wire[0],
            wire[1] ^ (bench.clock <= first) << 200,
        )
    return bench


@pytest.mark.parametrize("ends", ["h", "d", "hd"])
@pytest.mark.parametrize("first", range(30))
def test_first_flits_are_damaged(ends: str, first: int) -> None:
    comes_up(starting(first, ends))


@pytest.mark.parametrize("ends", ["", "h", "d"])
@pytest.mark.parametrize("at", range(1, 24))
def test_retrain_among_the_first_flits(ends: str, at: int) -> None:
    bench = starting(at, ends)
    bench.steps(at)
    bench.set_phy(False)
    bench.steps(at % 3)
    bench.set_phy(True)
    comes_up(bench)


def test_first_training_is_no_retrain() -> None:
    bench = LinkBench.make(retry=True)
    bench.set_phy(False)
    bench.steps(50)
    bench.set_phy(True)
    comes_up(bench)
    assert not bench.host.counters["phy_reinit"]
    assert not bench.device.counters["phy_reinit"]


# -- hooks ----------------------------------------------------------------------------------------
def test_acks_are_held_and_let_out() -> None:
    bench = LinkBench.make(retry=True).up()
    host, device = bench.host, bench.device
    device.hold_acks(True)
    for tag in range(40):
        host.send(M2SReq(ReqOp.MEM_RD, tag, 0))
    bench.steps(200)
    assert host.unacknowledged > 20
    device.hold_acks(False)
    host.hold_peer_acks(True)
    bench.steps(200)
    assert host.unacknowledged > 20
    host.hold_peer_acks(False)
    assert host.unacknowledged <= 1
    assert not host.issues


def test_credits_are_held_and_let_out() -> None:
    bench = LinkBench.make(retry=True).up()
    host, device = bench.host, bench.device
    credits = host.credits.plain
    host.hold_peer_credits(True)
    host.send(M2SReq(ReqOp.MEM_RD, 1, 0))
    bench.steps(60)
    assert not host.tx_idle
    receive(host, Llcrd(0, req_crd=9))
    assert host.credits.plain == 0
    host.hold_peer_credits(False)
    assert host.credits.plain == credits + 1
    host.credits.plain = credits
    device.hold_credits(True)
    bench.steps(60)
    assert host.tx_idle
    assert host.credits.plain == credits - 1
    device.hold_credits(False)
    bench.steps(60)
    assert host.credits.plain == credits
    host.hold_peer_credits(True)
    host.reset()
    assert host.credits.plain == 0
    assert host._peer_credits is None, "a reset takes the hooks away"


@pytest.mark.parametrize("by_sender", [True, False])
def test_a_repeated_flit_comes_twice(by_sender: bool) -> None:
    bench = LinkBench.make(retry=True).up()
    bench.host.repeat_sent() if by_sender else bench.device.repeat_received()
    tags: list[int] = []
    bench.stub.on_request.append(lambda message: tags.append(message.tag))
    bench.host.send(M2SReq(ReqOp.MEM_RD, 7, 0))
    bench.host.send(M2SReq(ReqOp.MEM_RD, 8, 0))
    bench.steps(20)
    assert tags == [7, 8, 7, 8]

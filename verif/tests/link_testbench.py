# SPDX-License-Identifier: Apache-2.0
"""Testbenches of ``nf_link`` alone: flits at the pins, messages inside (link spec §1 to §9).

The host is the link partner of ``cocotbext.cxl`` with its credits and its retry; the core is a set
of queues. Every clock is one call of `clock()`, which samples before the edge and drives after it.

`RetryTestbench` is the bench of random traffic: flits may be damaged on either wire and the
physical layer may go down; every message must arrive once, unchanged and in the order of its
channel, and LinkTracker checks every flit independently. `LinkTestbench` is the bench of exact
flits and clocks: the wires have no delay, the host acknowledges and grants at once, and a test may
put flits of its own on the wire that the host accounts for.
"""

from __future__ import annotations

import os
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Self

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, Timer

from cocotbext.cxl.link.link_config import LinkConfig
from cocotbext.cxl.link.partner import HostLink, WireFlit
from cocotbext.cxl.link.tracker import LinkTracker
from cocotbext.cxl.wire import flits
from cocotbext.cxl.wire.control import (
    ControlFlit,
    InitParam,
    Llcrd,
    RetryAck,
    RetryFrame,
    RetryIdle,
    RetryReq,
    decode_control,
    encode_control,
    is_retryable,
)
from cocotbext.cxl.wire.crc import PAYLOAD_MASK, seal
from cocotbext.cxl.wire.messages import (
    BE_ALL,
    S2MDRS,
    S2MNDR,
    M2SReq,
    M2SRwD,
    ReqOp,
    RwdOp,
    S2MMessage,
)
from cocotbext.cxl.wire.packer import Credits
from models.parameters import DeviceParams
from verif.parameters import build_parameters
from verif.tests.link_coverage import LinkObserver
from verif.tests.link_rules import EVENTS, STATUS, count_events
from verif.tests.packed_structs import sampled, unpack

PID = flits.ProtocolCode.CACHEMEM.word
PARAMETERS = {**DeviceParams().as_rtl(), **build_parameters()}
REQ_CREDITS, RWD_CREDITS = PARAMETERS["REQ_CREDITS"], PARAMETERS["RWD_CREDITS"]
ALL_CREDITS = Credits(REQ_CREDITS, RWD_CREDITS)
"""Credits of the host when nothing is under way."""
RETRY_TIMEOUT, RETRY_DEPTH = PARAMETERS.get("RETRY_TIMEOUT", 4096), PARAMETERS["RETRY_DEPTH"]
NORMAL, LLRREQ, LOCAL_IDLE, PHY_REINIT, ABORT = range(5)
FRAMES: list[ControlFlit] = [RetryFrame()] * 5
"""Start of a RETRY.Req or RETRY.Ack sequence."""

Damage = Callable[[WireFlit], WireFlit]


class RetryTestbench:
    """One nf_link, a HostLink, and the core's side as queues."""

    def __init__(self, dut: Any, seed: int = 1, delay: int = 2, **config: Any) -> None:
        self.dut = dut
        self.rng = random.Random(seed)
        settings: dict[str, Any] = {"retry_timeout": RETRY_TIMEOUT, "rng": self.rng} | config
        self.host = HostLink(LinkConfig(retry=True, **settings))
        self.tracker: LinkTracker | None = LinkTracker(
            True, lambda rule, way: rule in ("crc", "protocol_id"), RETRY_DEPTH - 1
        )
        self.delay = delay
        self.to_device: Damage | None = None
        self.to_host: Damage | None = None
        self.ready_rate = self.core_rate = self.rx_rate = 1.0
        self.raw: deque[WireFlit] = deque()  # put on the wire before anything of the host's
        self.muted = False  # the host says nothing
        self.auto_phy = True  # a retrain request of either end is granted
        self._phy_back = 0
        self.events = dict.fromkeys((name for name, _ in EVENTS), 0)
        self.errors: list[int] = []  # status.error_kind
        self.sent_req: list[int] = []
        self.sent_rwd: list[int] = []
        self.sent_ndr: list[S2MNDR] = []
        self.sent_drs: list[S2MDRS] = []
        self.got_req: list[int] = []
        self.got_rwd: list[int] = []
        self.got_ndr: list[S2MNDR] = []
        self.got_drs: list[S2MDRS] = []
        self.out_ndr: deque[S2MNDR] = deque()
        self.out_drs: deque[S2MDRS] = deque()
        self.drs_taken = 0  # DRS that the device has accepted from the core
        self.tx_log: list[tuple[int, int]] = []  # (clock, flit) at the pins
        self.arrived = 0  # place in tx_log of the flit that reaches the host next
        self.now = 0
        self.phy = True

    # ---- reset
    async def start(self, first: bool = True, training: int = 0) -> None:
        """Reset the device and the host; ``first`` also starts the clock.

        ``training``: clocks until phy_up rises.
        """
        dut = self.dut
        for name in ("rx_valid", "tx_ready", "req_ready", "rwd_ready", "ndr_valid", "drs_valid"):
            getattr(dut, name).value = 0
        for name in ("rx_protocol_id", "rx_flit", "ndr", "drs", "multi_header", "ram_flip"):
            getattr(dut, name).value = 0
        dut.phy_up.value = not training
        dut.rst_n.value = 0
        if first:
            await Timer(1, unit="ns")
            Clock(dut.clk, 2, unit="ns", impl="gpi").start()
        await Timer(7, unit="ns")
        await RisingEdge(dut.clk)
        dut.rst_n.value = 1
        self.host.reset()
        if self.tracker:
            self.tracker.reset()
        config = self.host.config
        self.observer = LinkObserver(config.grant_plain, config.grant_data)
        self.down: deque[WireFlit | None] = deque([None] * self.delay)
        self.upward: deque[WireFlit | None] = deque([None] * self.delay)
        self.ndr: S2MNDR | None = None
        self.drs: S2MDRS | None = None
        self.ready = self.req_ready = self.rwd_ready = False
        self.phy = True
        self.stalled: int | None = None
        self.driven: WireFlit | None = None
        self.driven_flits, self._arriving = 0, False
        for _ in range(training):
            await RisingEdge(dut.clk)
        dut.phy_up.value = 1

    async def up(self, limit: int = 600, first: bool = True) -> Self:
        """Reset, and wait until both ends may send; return the bench. `first` as for `start`."""
        await self.start(first=first)
        await self.until(lambda: self.host.credits.plain > 0 and self.host.credits.data > 0, limit)
        return self

    async def leave_unacknowledged(self, completions: int) -> None:
        """The host falls silent; the device sends completions, which stay in its retry buffer."""
        self.muted = True
        await self.clocks(10)
        for _ in range(completions):
            self.answer(random_ndr(self.rng))
            await self.clocks(2)
        await self.clocks(20)

    # ---- messages
    def send(self, *messages: M2SReq | M2SRwD) -> None:
        """Queue requests in the host."""
        for message in messages:
            if isinstance(message, M2SReq):
                self.sent_req.append(req_word(message))
            else:
                self.sent_rwd.append(rwd_word(message))
            self.host.send(message)

    def answer(self, *messages: S2MMessage) -> None:
        """Queue answers in the core."""
        for message in messages:
            if isinstance(message, S2MNDR):
                self.sent_ndr.append(message)
                self.out_ndr.append(message)
            else:
                assert isinstance(message, S2MDRS)
                self.sent_drs.append(message)
                self.out_drs.append(message)

    def answer_random(self, ndr: int = 0, drs: int = 0) -> None:
        """Queue a number of random completions and of random read answers in the core."""
        self.answer(*(random_ndr(self.rng) for _ in range(ndr)))
        self.answer(*(random_drs(self.rng) for _ in range(drs)))

    @property
    def complete(self) -> bool:
        """As many came out as went in."""
        return (
            len(self.got_req) >= len(self.sent_req)
            and len(self.got_rwd) >= len(self.sent_rwd)
            and len(self.got_ndr) >= len(self.sent_ndr)
            and len(self.got_drs) >= len(self.sent_drs)
        )

    async def completed(self, limit: int) -> None:
        """Wait until as many messages came out as went in."""
        await self.until(lambda: self.complete, limit)

    async def delivered(self, limit: int) -> None:
        """Wait until all messages have arrived, and `check` them."""
        await self.completed(limit)
        self.check()

    def check(self) -> None:
        """Once each, in order, unchanged, and nobody complains."""
        assert self.got_req == self.sent_req
        assert self.got_rwd == self.sent_rwd
        assert self.got_ndr == self.sent_ndr
        assert self.got_drs == self.sent_drs
        assert not self.host.issues, self.host.issues[:3]
        assert not self.events["protocol_error"], self.errors
        assert self.events["tx_flit"] == len(self.tx_log), "TX_FLIT is not what left"
        assert self.events["rx_flit"] == self.driven_flits, "RX_FLIT is not what came"
        if self.tracker:
            # The host's all-data flits may look like RETRY flits while the device discards them.
            errors = [e for e in self.tracker.errors if " M2S " not in e and "response:" not in e]
            assert not errors, (len(errors), errors[:3])

    # ---- one clock
    async def clock(self) -> None:
        dut, chance = self.dut, self.rng.random
        await RisingEdge(dut.clk)
        self.now += 1
        self._sample()
        if self.auto_phy:
            self._retrain()
        if self.raw:
            out: WireFlit | None = self.raw.popleft()
        elif self.muted or (self.rx_rate < 1.0 and chance() >= self.rx_rate):
            out = None
            self.host.stall()
        else:
            out = self.host.next_flit()
        if out is not None and self.to_device is not None:
            out = self.to_device(out)
        self.down.append(out)
        out = self.down.popleft()
        self.driven = out
        dut.rx_valid.value = out is not None
        if out is not None:
            dut.rx_protocol_id.value, dut.rx_flit.value = out
        self.ready = self.phy and chance() < self.ready_rate
        dut.tx_ready.value = self.ready
        self.req_ready, self.rwd_ready = chance() < self.core_rate, chance() < self.core_rate
        dut.req_ready.value = self.req_ready
        dut.rwd_ready.value = self.rwd_ready
        if self.ndr is None and self.out_ndr and chance() < self.core_rate:
            self.ndr = n = self.out_ndr.popleft()
            dut.ndr.value = n.tag << 6 | n.ldid << 2 | n.devload
        dut.ndr_valid.value = self.ndr is not None
        if self.drs is None and self.out_drs and chance() < self.core_rate:
            self.drs = d = self.out_drs.popleft()
            head = d.tag << 7 | d.ldid << 3 | d.devload << 1 | d.poison
            dut.drs.value = head << 512 | int.from_bytes(d.data, "little")
        dut.drs_valid.value = self.drs is not None

    def _retrain(self) -> None:
        if self._phy_back:
            self._phy_back -= 1
            if not self._phy_back:
                self.set_phy(True)
        elif self.phy and (self.host.retry.retrain_request or int(self.dut.retrain_request.value)):
            self.set_phy(False)
            self._phy_back = 5
            self.tracker = None  # does not know the physical layer

    async def clocks(self, count: int) -> None:
        for _ in range(count):
            await self.clock()

    async def until(self, reached: Callable[[], bool], limit: int) -> None:
        for _ in range(limit):
            if reached():
                return
            await self.clock()
        counts = [len(x) for x in (self.got_req, self.got_rwd, self.got_ndr, self.got_drs)]
        raise AssertionError(f"stuck: {counts}, LRSM {self.lrsm}, host {self.host.retry.lrsm}")

    def set_phy(self, up: bool) -> None:
        """Both ends see the physical layer go down or come back; the wires are emptied."""
        self.phy = up
        self.dut.phy_up.value = up
        self.host.set_phy(up)
        for line in (self.down, self.upward):
            for i in range(len(line)):
                line[i] = None
        self.arrived = len(self.tx_log)

    @property
    def lrsm(self) -> int:
        return self.status()["lrsm"]

    def status(self) -> dict[str, int]:
        """Members of the port `status`."""
        return unpack(STATUS, int(self.dut.status.value))

    # ---- sampling
    def _sample(self) -> None:
        dut, tracker = self.dut, self.tracker
        events, status = int(dut.events.value), self.status()
        count_events(self.events, events, status["error_kind"])
        if status["error_kind"]:
            self.errors.append(status["error_kind"])
        self.observer.clock(self.now, status, self.phy, self.driven)
        # The strobes of a flit come a clock later than the flit.
        self.driven_flits += self._arriving
        self._arriving = self.driven is not None and self.phy
        if tracker and self.driven is not None and self.phy:
            tracker.observe(flits.Direction.M2S, *self.driven, self.now)
        arriving: WireFlit | None = None
        if int(dut.tx_valid.value):
            flit = int(dut.tx_flit.value)
            assert self.stalled in (None, flit), "tx_flit moved under back-pressure"
            self.stalled = None if self.ready else flit
            if self.ready:
                arriving = int(dut.tx_protocol_id.value), flit
                self.tx_log.append((self.now, flit))
                self.observer.sent(self.now, arriving)
                if tracker and self.phy:
                    tracker.observe(flits.Direction.S2M, *arriving, self.now)
        else:
            assert self.stalled is None, "tx_valid fell under back-pressure"
        self.upward.append(arriving)
        head = self.upward.popleft()
        if head is not None:
            if self.to_host is not None:
                head = self.to_host(head)
            self.arrived += 1
            for message in self.host.receive(*head):
                if isinstance(message, S2MNDR):
                    self.got_ndr.append(message)
                elif isinstance(message, S2MDRS):
                    self.got_drs.append(message)
        if self.req_ready and int(dut.req_valid.value):
            self.got_req.append(sampled(dut.req))
        if self.rwd_ready and int(dut.rwd_valid.value):
            self.got_rwd.append(sampled(dut.rwd))
        if self.ndr is not None and int(dut.ndr_ready.value):
            self.ndr = None
        if self.drs is not None and int(dut.drs_ready.value):
            self.drs, self.drs_taken = None, self.drs_taken + 1

    # ---- what the device sent
    def controls(self, since: int = 0) -> list[ControlFlit]:
        """Control flits among the flits from the ``since``-th on (all-data flits may look so)."""
        return [
            decode_control(f & PAYLOAD_MASK)[0]
            for _, f in self.tx_log[since:]
            if flits.is_control(f & PAYLOAD_MASK)
        ]

    def put(self, *kinds: ControlFlit) -> None:
        """Put control flits on the wire in place of the host's."""
        for kind in kinds:
            self.raw.append((PID, seal(encode_control(kind))))


class LinkTestbench(RetryTestbench):
    """Bench without delay on the wires, whose host acknowledges and grants as soon as it can.

    Args:
        dut: Top ``nf_link``.
        grant: Credits of either kind that the host grants; the second of them never bring more.
        lenient: The host does not judge the device, as the test puts flits on the wire that the
            host does not know of.
        config: Fields of LinkConfig.
    """

    def __init__(self, dut: Any, grant: int = 64, lenient: bool = False, **config: Any) -> None:
        eager = {"ack_force_threshold": 2, "flush_retimer": 1, "retry_depth": 255}
        settings = {"grant_plain": grant, "grant_data": grant, **eager, **config}
        super().__init__(dut, cocotb.RANDOM_SEED, 0, **settings)
        self.tracker = None
        self.lenient = lenient

    async def up(self, limit: int = 400, first: bool = True) -> Self:
        """Initialise the link, wait for the full grant of credits both ways and let all settle."""
        await self.start(first=first)
        await self.until(
            lambda: self.host.credits == ALL_CREDITS and not self.host.returns.initial, limit
        )
        assert int(self.dut.link_up.value)
        await self.clocks(120)
        return self

    def drive(
        self,
        *flits_or_kinds: int | ControlFlit,
        plain: int = 0,
        data: int = 0,
        protocol_id: int = PID,
    ) -> None:
        """Put sealed flits or control flits on the wire, ahead of what the host has to say.

        The host keeps each retryable one in its retry buffer, as if it had sent it.

        Args:
            flits_or_kinds: The flits.
            plain: Request credits of the host that they cost.
            data: Write credits of the host that they cost.
            protocol_id: Protocol ID of the flits.
        """
        for one in flits_or_kinds:
            flit = one if isinstance(one, int) else seal(encode_control(one))
            self.raw.append((protocol_id, flit))
            if isinstance(one, int) or is_retryable(one):
                self.host.buffer.store(flit, False)
        self.host.credits.plain -= plain
        self.host.credits.data -= data

    def grant(self, plain: int = 0, data: int = 0) -> None:
        """Grant credits to the device by an LLCRD of the test."""
        self.host.returns.peer.plain += plain
        self.host.returns.peer.data += data
        self.drive(Llcrd(0, flits.encode_credit(plain), 0, flits.encode_credit(data)))

    def hold(self, held: bool = True) -> None:
        """Let the host send messages alone: no acknowledgement and no credit of its own accord."""
        self.host.hold_acks(held)
        self.host.hold_credits(held)

    def _sample(self) -> None:
        dut, host = self.dut, self.host
        gone = self.drs_taken == len(self.got_drs) or not int(dut.drs_gone.value)
        assert gone, "drs_gone, though the data of a read has not left"
        owed, sent = host.unpacker.owed, len(self.tx_log)
        super()._sample()
        for _, flit in self.tx_log[sent:]:
            assert int(dut.tx_protocol_id.value) == PID
            assert not host.counters["crc_error"], "CRC of a sent flit"
            if owed <= 3 and not flits.is_control(flit):
                assert flits.FlitHeader.decode(flit).rsp_crd == 0
        assert self.lenient or not host.issues, host.issues
        assert host.credits.plain <= REQ_CREDITS, "more requests granted than there are places"
        assert host.credits.data <= RWD_CREDITS, "more writes granted than there are places"


def random_damage(rng: random.Random, rate: float) -> Damage:
    """Every kind of damage that the link must see, ``rate`` of the flits."""

    def damage(wire: WireFlit) -> WireFlit:
        if rng.random() >= rate:
            return wire
        pid, flit = wire
        kind = rng.randrange(5)
        if kind < 3:
            for bit in rng.sample(range(528), kind + 1):
                flit ^= 1 << bit
        elif kind == 3:
            length = rng.randrange(2, 15)
            pattern = rng.getrandbits(length) | 1 | 1 << length - 1
            flit ^= pattern << rng.randrange(528 - length)
        else:
            pid = rng.choice((pid ^ 0x2020, pid ^ 0x2000, pid ^ 0x20, 0x5587, 0x9955))
        return pid, flit

    return damage


def tricky_data(rng: random.Random) -> bytes:
    """A line that looks like a control flit when it is an all-data flit."""
    kind = rng.choice(
        (
            RetryFrame(),
            RetryFrame(),
            RetryReq(rng.randrange(64), rng.randrange(4)),
            RetryAck(False, False, rng.randrange(4), 3, rng.randrange(64), 9),
            RetryIdle(),
            Llcrd(8),
            InitParam(63),
        )
    )
    return encode_control(kind).to_bytes(64, "little")


def fill(bench: RetryTestbench, count: int, tricky: float = 0.3) -> None:
    """``count`` random messages of each kind into each end."""
    rng = bench.rng
    for _ in range(count):
        rwd, drs = random_rwd(rng), random_drs(rng)
        if rng.random() < tricky:
            rwd = M2SRwD(RwdOp.MEM_WR, rwd.tag, rwd.addr, rwd.ldid, data=tricky_data(rng))
        if rng.random() < tricky:
            drs = S2MDRS(0, drs.tag, drs.ldid, drs.devload, False, tricky_data(rng))
        both: list[M2SReq | M2SRwD] = [random_req(rng), rwd]
        for message in rng.sample(both, 2):
            bench.send(message)
        bench.answer(random_ndr(rng))
        bench.answer(drs)


def req_word(m: M2SReq) -> int:
    return (m.opcode << 20 | m.tag << 4 | m.ldid) << 46 | m.addr >> 6


def rwd_word(m: M2SRwD, illegal: bool = False, raw_be: bool = False) -> int:
    head = ((illegal << 4 | m.opcode) << 20 | m.tag << 4 | m.ldid) << 46 | m.addr >> 6
    be = m.be if m.carries_be or raw_be else BE_ALL
    return ((head << 1 | m.poison) << 64 | be) << 512 | int.from_bytes(m.data, "little")


def random_req(rng: random.Random) -> M2SReq:
    op = rng.choice([*ReqOp, *[rng.randrange(16)] * 3])
    return M2SReq(
        op,
        rng.getrandbits(16),
        rng.getrandbits(46) << 6 | rng.getrandbits(1) << 5,
        rng.getrandbits(4),
        tc=rng.getrandbits(2),
    )


def random_rwd(rng: random.Random, partial: float = 0.3) -> M2SRwD:
    is_partial = rng.random() < partial
    whole = rng.choice([*[RwdOp.MEM_WR] * 4, rng.choice((0, *range(3, 16)))])  # or reserved
    return M2SRwD(
        RwdOp.MEM_WR_PTL if is_partial else whole,
        rng.getrandbits(16),
        rng.getrandbits(46) << 6,
        rng.getrandbits(4),
        tc=rng.getrandbits(2),
        data=rng.randbytes(64),
        be=rng.getrandbits(64) if is_partial else BE_ALL,
        poison=rng.random() < 0.2,
    )


def random_ndr(rng: random.Random) -> S2MNDR:
    return S2MNDR(0, rng.getrandbits(16), rng.getrandbits(4), rng.getrandbits(2))


def random_drs(rng: random.Random) -> S2MDRS:
    return S2MDRS(
        0,
        rng.getrandbits(16),
        rng.getrandbits(4),
        rng.getrandbits(2),
        rng.random() < 0.2,
        rng.randbytes(64),
    )


def count_scale() -> int:
    return 1 if os.environ.get("NF_SIM", "verilator") == "icarus" else 5


def slots_flit(
    formats: Sequence[int], bodies: Sequence[int], sz: bool = False, be: bool = False
) -> int:
    """A sealed protocol flit of four slots given by format code and bits."""
    a, b, c, d = formats
    header = flits.FlitHeader(sz=sz, be=be, slots=(a, b, c, d)).encode()
    a, b, c, d = bodies
    return seal(header | a << 32 | b << 128 | c << 256 | d << 384)


def data_flit(*chunks: int) -> int:
    """Return a sealed all-data flit of up to four chunks of 128 bits."""
    return seal(sum(chunk << flits.G_BITS * k for k, chunk in enumerate(chunks)))


def write_flits(write: M2SRwD) -> tuple[int, int]:
    """Return both flits of a write whose header is in slot 0."""
    *first, last = flits.chunks_of_line(write.data)
    head = slots_flit((4, 0, 0, 0), (write.pack(), *first), sz=True)
    return head, slots_flit((5, 0, 4, 4), (0, last, 0, 0))


def random_slots_flit(rng: random.Random, plain: int, data: int) -> int:
    """A sealed protocol flit of random slots, legal or not.

    At most ``plain`` requests and ``data`` data headers are valid.
    """
    formats, bodies = [], []
    for slot in range(4):
        odd = rng.random() < 0.3
        code = rng.choice((0, 0, 0, 4, 4, 5, 5, 1, 2, 3, 6, 7) if odd else (0, 4, 5))
        body = 0
        if slot and code == 0:
            body = rng.getrandbits(128)
        elif code == (5 if slot else 4) and data and rng.random() < 0.7:
            body, data = random_rwd(rng).pack(), data - 1
        elif code == (4 if slot else 5) and plain and rng.random() < 0.7:
            body, plain = random_req(rng).pack(), plain - 1
        elif code < 4 and rng.random() < 0.3:
            body = 1 << rng.randrange(96)
        if slot and code in (4, 5) and rng.random() < 0.05:
            body |= 1 << 88
        formats.append(code)
        bodies.append(body)
    return slots_flit(formats, bodies, rng.random() < 0.9, rng.random() < 0.4)

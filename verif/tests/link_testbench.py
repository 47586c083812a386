# SPDX-License-Identifier: Apache-2.0
"""Testbench of ``nf_link`` alone: flits at the pins against messages inside.

The host side is the independent codec of ``cocotbext.cxl``; the core side is a set of queues with
random readiness. Every clock is one call of `LinkTestbench.clock()`, which samples before the edge
and drives after it. It checks the CRC and Protocol ID of sent flits, stability under back-pressure,
that credits are never exceeded, and that no more is acknowledged than was sent.
"""

from __future__ import annotations

import os
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, Timer

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
from cocotbext.cxl.wire.crc import PAYLOAD_MASK, crc_ok, seal
from cocotbext.cxl.wire.messages import BE_ALL, S2MDRS, S2MNDR, M2SReq, M2SRwD, ReqOp, RwdOp
from cocotbext.cxl.wire.packer import Credits, M2SPacker, PackOptions
from cocotbext.cxl.wire.unpack import S2MUnpacker
from models.parameters import DeviceParams
from verif.parameters import build_parameters
from verif.tests.link_coverage import LinkObserver
from verif.tests.link_rules import EVENTS, STATUS, count_events
from verif.tests.packed_structs import sampled, unpack

PID = flits.ProtocolCode.CACHEMEM.word
PARAMETERS = {**DeviceParams().as_rtl(), **build_parameters()}
REQ_CREDITS, RWD_CREDITS = PARAMETERS["REQ_CREDITS"], PARAMETERS["RWD_CREDITS"]


@dataclass
class Knobs:
    """Rates per clock, 0..1."""

    rx: float = 1.0
    tx_ready: float = 1.0
    req_ready: float = 1.0
    rwd_ready: float = 1.0
    ndr: float = 1.0
    drs: float = 1.0
    credits: float = 1.0  # how eagerly the host returns DRS and NDR credits


class LinkTestbench:
    """Host, core and checks around one nf_link."""

    def __init__(self, dut: Any, options: PackOptions | None = None, seed: int = 1) -> None:
        self.dut = dut
        self.rng = random.Random(seed)
        self.knobs = Knobs()
        self.packer = M2SPacker(options)
        self.unpacker = S2MUnpacker()
        self.credits = Credits()  # M2S credits that the host holds
        self.held_plain = self.held_data = 0  # S2M credits that the host may still grant
        self.granted = Credits()  # S2M credits at the device
        self.to_send: deque[tuple[int, int]] = deque()  # (protocol id, flit) put in by a test
        self.out_ndr: deque[S2MNDR] = deque()
        self.out_drs: deque[S2MDRS] = deque()
        self.got_req: list[int] = []
        self.got_rwd: list[int] = []
        self.got_ndr: list[S2MNDR] = []
        self.got_drs: list[S2MDRS] = []
        self.control: list[ControlFlit] = []
        self.events = dict.fromkeys((name for name, _ in EVENTS), 0)
        self.unacked = 0  # retryable flits of the host that are not acknowledged
        self.acks_owed = 0  # retryable flits of the device that the host has not acknowledged
        self.peer_up = self.local_init = False
        self.tx_log: list[tuple[int, int]] = []  # (clock, payload)
        self.rx_data_flits = self.now = 0
        self.drs_in = 0  # taken by the device
        self.pick_tx = self.pick_req = self.pick_rwd = False
        self.stalled: int | None = None
        self.s2m_credits = 64
        self.driven: tuple[int, int] | None = None

    async def start(self) -> None:
        dut = self.dut
        names = "rx_valid rx_protocol_id rx_flit tx_ready req_ready rwd_ready multi_header"
        for name in (names + " ndr_valid ndr drs_valid drs ram_flip").split():
            getattr(dut, name).value = 0
        dut.phy_up.value = 1
        dut.rst_n.value = 0
        # Reset must be in before the first edge: registers start at random values (Verilator).
        await Timer(1, unit="ns")
        Clock(dut.clk, 2, unit="ns", impl="gpi").start()
        await Timer(7, unit="ns")
        await RisingEdge(dut.clk)
        dut.rst_n.value = 1
        self._ndr: S2MNDR | None = None
        self._drs: S2MDRS | None = None
        self.observer = LinkObserver(self.s2m_credits, self.s2m_credits)

    async def clock(self) -> None:
        dut, knobs, chance = self.dut, self.knobs, self.rng.random
        await RisingEdge(dut.clk)
        self.now += 1
        self._sample()
        if self.to_send:
            self._put(1, *self.to_send.popleft())
        elif chance() < knobs.rx:
            self._send_something()
        else:
            self._put(0)
        self.pick_tx = chance() < knobs.tx_ready
        self.pick_req = chance() < knobs.req_ready
        self.pick_rwd = chance() < knobs.rwd_ready
        dut.tx_ready.value = self.pick_tx
        dut.req_ready.value = self.pick_req
        dut.rwd_ready.value = self.pick_rwd
        if self._ndr is None and self.out_ndr and chance() < knobs.ndr:
            self._ndr = self.out_ndr.popleft()
            n = self._ndr
            dut.ndr.value = n.tag << 6 | n.ldid << 2 | n.devload
        dut.ndr_valid.value = self._ndr is not None
        if self._drs is None and self.out_drs and chance() < knobs.drs:
            self._drs = self.out_drs.popleft()
            d = self._drs
            head = d.tag << 7 | d.ldid << 3 | d.devload << 1 | d.poison
            dut.drs.value = head << 512 | int.from_bytes(d.data, "little")
        dut.drs_valid.value = self._drs is not None

    def inject(self, kind: ControlFlit) -> None:
        """Put a control flit in front of everything else."""
        self.unacked += is_retryable(kind)
        self.to_send.append((PID, seal(encode_control(kind))))

    async def clocks(self, count: int) -> None:
        for _ in range(count):
            await self.clock()

    def _put(self, valid: int, pid: int = 0, flit: int = 0) -> None:
        self.driven = (pid, flit) if valid else None
        self.dut.rx_valid.value = valid
        self.dut.rx_protocol_id.value = pid
        self.dut.rx_flit.value = flit

    def _send_something(self) -> None:
        """The next flit of the host: data, or a control flit when one is due."""
        if not self.local_init:
            self.local_init = self.peer_up or self.rng.random() < 0.2
            kind = InitParam(63) if self.local_init else RetryIdle()
            self.unacked += self.local_init
            self._put(1, PID, seal(encode_control(kind)))
            return
        if not self.peer_up:
            self._put(1, PID, seal(encode_control(RetryIdle())))
            return
        if packed := self.packer.next(self.credits):
            self.credits.plain -= packed.plain
            self.credits.data -= packed.data
            payload = packed.payload
            if not packed.adf:
                payload |= self._header_extras()
            self.unacked += 1
            self.rx_data_flits += 1
            self._put(1, PID, seal(payload))
        elif (self.held_plain or self.held_data or self.acks_owed > 1) and (
            self.rng.random() < self.knobs.credits
        ):
            plain, data = self._grant()
            acks, self.acks_owed = self.acks_owed, 0
            llcrd = Llcrd(acks, plain, 0, data)
            self.unacked += 1
            self._put(1, PID, seal(encode_control(llcrd)))
        else:
            self._put(0)

    def _grant(self) -> tuple[int, int]:
        plain, data = flits.largest_credit(self.held_plain), flits.largest_credit(self.held_data)
        self.held_plain -= plain
        self.held_data -= data
        self.granted.plain += plain
        self.granted.data += data
        return flits.encode_credit(plain), flits.encode_credit(data)

    def _header_extras(self) -> int:
        if self.rng.random() >= self.knobs.credits:
            return 0
        plain, data = self._grant()
        ak = self.acks_owed >= 8
        self.acks_owed -= 8 * ak
        return ak << 2 | plain << 20 | data << 28

    # ---- sampling
    def _sample(self) -> None:
        dut = self.dut
        events, status = int(dut.events.value), unpack(STATUS, int(dut.status.value))
        count_events(self.events, events, status["error_kind"])
        self.observer.clock(self.now, status, True, self.driven)
        gone = self.drs_in == len(self.got_drs) or not int(dut.drs_gone.value)
        assert gone, "drs_gone, though the data of a read has not left"
        if int(dut.tx_valid.value):
            flit = int(dut.tx_flit.value)
            assert self.stalled in (None, flit), "tx_flit moved under back-pressure"
            self.stalled = None if self.pick_tx else flit
            if self.pick_tx:
                assert int(dut.tx_protocol_id.value) == PID
                self.observer.sent(self.now, (PID, flit))
                self._receive(flit)
        else:
            assert self.stalled is None, "tx_valid fell under back-pressure"
        if self.pick_req and int(dut.req_valid.value):
            self.got_req.append(sampled(dut.req))
        if self.pick_rwd and int(dut.rwd_valid.value):
            self.got_rwd.append(sampled(dut.rwd))
        if self._ndr is not None and int(dut.ndr_ready.value):
            self._ndr = None
        if self._drs is not None and int(dut.drs_ready.value):
            self._drs, self.drs_in = None, self.drs_in + 1

    def _receive(self, flit: int) -> None:
        assert crc_ok(flit), "CRC of a sent flit"
        payload = flit & PAYLOAD_MASK
        self.tx_log.append((self.now, payload))
        if self.unpacker.owed <= 3 and flits.is_control(payload):
            kind, issues = decode_control(payload)
            assert not issues, issues
            self.control.append(kind)
            if isinstance(kind, InitParam):
                assert not self.peer_up
                assert kind.wrap == PARAMETERS["RETRY_DEPTH"] - 1
                self.peer_up = True
                self.acks_owed += 1
                self.held_plain = self.held_data = self.s2m_credits
            elif isinstance(kind, Llcrd):
                self.acks_owed += 1
                self._acked(kind.ack)
                self._credited(kind.req_crd, kind.data_crd)
            elif isinstance(kind, RetryReq):
                self._answer(kind)
            else:
                assert isinstance(kind, RetryIdle | RetryFrame)
            return
        assert self.peer_up, "a protocol flit before INIT.Param"
        self.acks_owed += 1
        report = self.unpacker.feed(payload)
        assert not report.issues, report.issues
        if not report.adf:
            header = flits.FlitHeader.decode(report.header)
            self._acked(8 * header.ak)
            assert header.rsp_crd == 0
            self._credited(header.req_crd, header.data_crd)
        self.granted.plain -= report.plain
        self.granted.data -= report.data
        assert min(self.granted.plain, self.granted.data) >= 0, "sent without a credit"
        for message in report.messages:
            if isinstance(message, S2MNDR):
                self.got_ndr.append(message)
                self.held_plain += 1
            else:
                self.got_drs.append(message)
                self.held_data += 1

    def _answer(self, request: RetryReq) -> None:
        """The retry ends at once: nothing of what was lost is sent again."""
        viral = self.rng.random() < 0.5
        answer = RetryAck(True, viral, num_retry=request.num_retry, eseq=request.eseq)
        for kind in [RetryFrame()] * 5 + [answer]:
            self.to_send.append((PID, seal(encode_control(kind))))

    def _acked(self, count: int) -> None:
        self.unacked -= count
        assert self.unacked >= 0, "more acknowledged than sent"

    def _credited(self, req: int, data: int) -> None:
        self.credits.plain += flits.decode_credit(req)
        self.credits.data += flits.decode_credit(data)
        assert self.credits.plain <= REQ_CREDITS
        assert self.credits.data <= RWD_CREDITS

    # ---- helpers
    async def up(self, s2m_credits: int = 64) -> LinkTestbench:
        """Initialise the link and wait for the full grant of credits; returns the testbench."""
        self.s2m_credits = s2m_credits
        await self.start()
        for _ in range(400):
            await self.clock()
            if self.credits == Credits(REQ_CREDITS, RWD_CREDITS) and not self.held_plain:
                break
        assert int(self.dut.link_up.value)
        assert self.credits == Credits(REQ_CREDITS, RWD_CREDITS), self.credits
        return self

    async def drain(self, reqs: int, rwds: int, ndrs: int, drss: int, limit: int) -> None:
        for _ in range(limit):
            await self.clock()
            counts = (len(self.got_req), len(self.got_rwd), len(self.got_ndr), len(self.got_drs))
            if counts == (reqs, rwds, ndrs, drss):
                break
        else:
            raise AssertionError(f"{counts} of {(reqs, rwds, ndrs, drss)} messages seen")


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

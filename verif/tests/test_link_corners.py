# SPDX-License-Identifier: Apache-2.0
"""Corner cases of the link layer, one named test each (spec: link spec §2, §6 to §9)."""

import random
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

from cocotbext.cxl.config import CxlConfig, ReadyPattern
from cocotbext.cxl.faults import FaultKind, FaultRule
from cocotbext.cxl.link.flit_event import FlitEvent, FlitKind
from cocotbext.cxl.link.retry import Lrsm
from cocotbext.cxl.wire import control as wire_control
from cocotbext.cxl.wire.crc import PAYLOAD_MASK
from cocotbext.cxl.wire.flits import Direction, ProtocolCode, WireFlit, chunks_of_line
from cocotbext.cxl.wire.messages import M2SRwD, RwdOp
from models.register_map import REG_MAP
from verif.tests.decorator import nf_test
from verif.tests.link_base_test import HandMadeTest, LinkTest, control
from verif.tests.link_messages import data_flit, slots_flit

MIMICS = (
    wire_control.RetryFrame(),
    wire_control.RetryReq(3, 1),
    wire_control.RetryAck(False, False, 1, 9, 3, 40),
    wire_control.RetryIdle(),
    wire_control.Llcrd(200, 0, 15, 15),
    wire_control.InitParam(21),
)
"""Control flits whose 64 bytes, as write data, fill an all-data flit that looks like them."""


def line_of(flit: int) -> bytes:
    """Return the 64-byte payload of a flit, without its CRC."""
    return (flit & PAYLOAD_MASK).to_bytes(64, "little")


class MimicTest(LinkTest):
    """Base of tests that write and read lines that look like control flits.

    The writes are dense: every fifth flit is such a line, whole.
    """

    hits = 0

    def shape(self, cfg: CxlConfig) -> None:
        super().shape(cfg)
        cfg.link.ak_in_headers = True

    async def scenario(self) -> None:
        await self.env.clocks(100)
        self.faults.armed = True
        for mimic in MIMICS:
            line = line_of(wire_control.encode_control(mimic))
            run, places = self.memory(), [k << 6 for k in range(self.cfg.count(60))]
            for place in places:
                await run.write(place, line)
            await run.read_addresses(places)
        self.faults.armed = False
        await self.env.clocks(400)
        await self.some_traffic()
        assert self.hits, "no flit of this kind came"
        self.figure("hits", self.hits)
        await self.check_faults()
        got = await self.env.registers.read("PROTOCOL_ERROR")
        assert got == 0, "data was taken for a control flit"


class AdfLikeRetry(MimicTest):
    """Lines that look like control flits, among flits that the device discards after an error."""

    rules = (FaultRule(FaultKind.FLIP_2, Direction.M2S, rate=0.06, spare_retry=True),)
    lines: ClassVar[set[int]] = {wire_control.encode_control(mimic) for mimic in MIMICS}

    def on_flit(self, event: FlitEvent) -> None:
        super().on_flit(event)
        if event.direction is Direction.M2S and event.flit & PAYLOAD_MASK in self.lines:
            # Frozen: the device cannot know that this is data. Where it looks like a RETRY.Idle
            # or RETRY.Frame it may be a true one: not counted.
            shadow = self.env.cxl.monitor.tracker.m2s.frozen
            self.hits += shadow and event.kind is FlitKind.DISCARDED


class ReplayFromAdf(MimicTest):
    """Loss of all-data flits, in both directions: the replay begins with one."""

    def plan(self) -> tuple[FaultRule, ...]:
        def sent(wire: WireFlit) -> bool:
            buffer = self.host.buffer
            newest = buffer._entries[buffer.wr_ptr - 1]
            return newest == (wire[1], True) and self.host.retry.lrsm is Lrsm.NORMAL

        def coming(_wire: WireFlit) -> bool:
            return self.host.unpacker.owed > 3 and self.host.retry.lrsm is Lrsm.NORMAL

        def hit(where: Any, wire: WireFlit) -> bool:
            here: bool = where(wire)
            self.hits += here
            return here

        return tuple(
            FaultRule(FaultKind.FLIP_1, way, rate=0.3, where=partial(hit, where))
            for way, where in ((Direction.M2S, sent), (Direction.S2M, coming))
        )


class NumFreeBuf(LinkTest):
    """Test with a host that acknowledges nothing, so that the device's retry buffer fills.

    At NumFreeBuf 2 only acknowledging flits leave, at 1 no retryable flit.
    """

    rules = (FaultRule(FaultKind.DELAYED_ACK, Direction.S2M, places=(0,), clocks=(3000, 3000)),)
    least = 1 << 30
    wrong = ""

    def on_flit(self, event: FlitEvent) -> None:
        super().on_flit(event)
        if event.direction is Direction.M2S or not self.faults.armed:
            return
        way = self.env.cxl.monitor.tracker.s2m
        free = way.wrap + 1 - (way.accepted - way.acked)  # NumFreeBuf after this flit
        if free < self.least:
            self.least = free
            payload = event.flit & PAYLOAD_MASK
            if isinstance(event.control, wire_control.Llcrd):
                acks = event.control.ack > 0
            else:
                acks = event.kind is FlitKind.PROTOCOL and bool(payload >> 2 & 1)
            if free < 1 or (free == 1 and not acks):
                self.wrong = f"NumFreeBuf {free} after {event.kind.value} flit, acks {acks}"

    async def scenario(self) -> None:
        await self.env.clocks(200)
        self.faults.armed = True
        run = self.memory()
        flying = [await run.read(k << 6) for k in range(3 * self.cfg.hw.retry_depth)]
        await self.env.clocks(1200)
        assert not all(p.done for p in flying), "the device never stopped"
        assert self.least <= 2, f"it stopped at NumFreeBuf {self.least}"
        # More requests to acknowledge, and a completion that could leave.
        for k in range(16):
            await run.write((900 + k) << 6, bytes(64))
        await self.env.clocks(300)
        assert not self.wrong, self.wrong
        assert self.least == 1, f"NumFreeBuf 1 was not reached, but {self.least}"
        await run.drain()
        self.faults.armed = False
        await self.some_traffic()
        table = await self.check_faults()
        assert table.rows[0].detected == 1, "the sender did not come to its stop"


class Gate(ReadyPattern):
    """Pattern of s2m_ready that a test holds low by `is_open`."""

    is_open = True

    def values(self, _rng: random.Random) -> Iterator[bool]:
        while True:
            yield self.is_open


class ForeignFlits(LinkTest):
    """Test of flits that this device does not serve, and a RETRY.Ack that waits for s2m_ready."""

    shows = "test_link_corners::link_foreign_flits"
    waived = ("protocol_id", "framing")
    rules = (FaultRule(FaultKind.FLIP_1, Direction.S2M, places=(0,)),)

    def shape(self, cfg: CxlConfig) -> None:
        super().shape(cfg)
        cfg.ready = self.gate = Gate()

    async def scenario(self) -> None:
        names = ("PID_UNEXPECTED", "PID_CORRECTABLE", "STRAY_DATA", "CACHE_MESSAGE")
        before, host = await self.read(*names, "PID_UNCORRECTABLE"), self.env.cxl.host
        host.inject(0, ProtocolCode.IO.word)
        # Data slots, of which none is owed; one half of the protocol ID is damaged.
        host.inject(0, ProtocolCode.CACHEMEM.word ^ 0x0100, retryable=True)
        host.inject(slots_flit((0, 1, 0, 0), (0, 1, 0, 0)), retryable=True)  # CXL.cache in slot 1
        await self.env.clocks(300)
        host.inject(0, 0)  # no protocol ID: a loss, which begins a retry
        await self.env.clocks(300)
        assert await self.rise(before) == dict.fromkeys(before, 1) | {"STRAY_DATA": 2}
        assert await self.read("LINK_STATE") == {"LINK_STATE": 0}
        self.faults.on_fault.append(self._close)
        self.faults.armed = True
        await self.memory().read(0)
        rrsm = REG_MAP.expand()["LINK_STATE"].field("RRSM")
        for _ in range(100):
            if held := rrsm.extract(await self.env.registers.read("LINK_STATE")):
                break
        self.gate.is_open = True
        assert held, "no RETRY.Ack waits for s2m_ready"
        self.faults.armed = False
        await self.some_traffic()

    def _close(self, *_fault: object) -> None:
        self.gate.is_open = False


class RetryAfter(LinkTest):
    """Base of tests after whose errors link-level retry must still work."""

    rules = (FaultRule(FaultKind.FLIP_1, rate=0.03, spare_retry=True),)

    async def retries(self) -> None:
        """Run traffic with bit errors; check that each is detected and recovered."""
        self.faults.armed = True
        await self.some_traffic(80)
        self.faults.armed = False
        await self.some_traffic(10)
        await self.env.clocks(300)
        await self.check_faults()

    async def captured(self, kind: int, errors: int) -> None:
        """Check PROTOCOL_ERROR, the first error in LINK_ERR_INFO (its `kind`) and the interrupt."""
        regs = REG_MAP.expand()
        got = await self.read("PROTOCOL_ERROR", "LINK_ERR_INFO", "IRQ_STATUS")
        assert got["PROTOCOL_ERROR"] == errors, got
        assert got["LINK_ERR_INFO"] == regs["LINK_ERR_INFO"].pack(VALID=1, KIND=kind), got
        assert regs["IRQ_STATUS"].unpack(got["IRQ_STATUS"])["LINK_ERROR"], "no link interrupt"


class BeforeInit(RetryAfter):
    """Test of an LLCRD and an empty flit before INIT.Param: errors that give no credits."""

    waived = ("init", "framing")

    def shape(self, cfg: CxlConfig) -> None:
        super().shape(cfg)
        inner, word = cfg.damage_to_device, 0x5555
        assert inner is not None, "the injector of faults is attached"
        self.early = [(word, control(wire_control.Llcrd(0, 15, 0, 15))), (word, 0)]
        cfg.damage_to_device = lambda wire: self.early.pop(0) if self.early else inner(wire)
        cfg.link.eds_rate = 0.0

    async def scenario(self) -> None:
        assert not self.early
        await self.captured(4, 2)
        await self.retries()


class WrapValues(RetryAfter):
    """Test of sequence numbers with a lost first INIT.Param: RETRY.Req from 0, then ESeq in 0..21.

    Before INIT.Param the wrap value is 9, after it that of the host.
    """

    WRAPS: ClassVar[set[int]] = {0, 9, 10, 21}  # both wrap values and what follows them
    # Each asks for some retries, from random places: 40 did not always meet all of WRAPS.
    ROUNDS = 400

    def shape(self, cfg: CxlConfig) -> None:
        super().shape(cfg)
        self.eseqs: list[int] = []
        cfg.link.retry_depth = 22
        inner, self.lost = cfg.damage_to_device, 0
        assert inner is not None, "the injector of faults is attached"
        param = control(wire_control.InitParam(21))

        def lose(wire: WireFlit) -> WireFlit:
            if wire[1] == param and not self.lost:
                self.lost += 1
                return wire[0], wire[1] ^ 1 << 300
            return inner(wire)

        cfg.damage_to_device = lose

    def on_flit(self, event: FlitEvent) -> None:
        super().on_flit(event)
        if event.direction is Direction.S2M and isinstance(event.control, wire_control.RetryReq):
            self.eseqs.append(event.control.eseq)

    async def scenario(self) -> None:
        assert self.lost == 1
        assert self.eseqs == [0], f"RETRY.Req before INIT.Param: {self.eseqs}"
        assert await self.env.registers.read("CRC_ERROR") == 1
        await self.env.registers.write("CTRL", 1)
        for _ in range(self.ROUNDS):
            self.faults.armed = True
            await self.some_traffic(30)
            self.faults.armed = False
            await self.some_traffic(5)
            if set(self.eseqs) >= self.WRAPS:
                break
        self.logger.info("RETRY.Req from %s", sorted(set(self.eseqs)))
        assert max(self.eseqs) <= 21, "beyond the wrap value of the host"
        assert set(self.eseqs) >= self.WRAPS
        await self.check_faults()


@nf_test(HandMadeTest)
async def link_byte_enables_inside_adf(test: HandMadeTest) -> None:
    """Check that byte enables of a write are accepted as the last slot of an all-data flit."""
    driver = test.env.cxl.host
    for tag in range(8):
        be = test.env.rng.getrandbits(64)
        write = M2SRwD(RwdOp.MEM_WR_PTL, 0x700 + tag, tag << 6, data=test.line(), be=be)
        d = chunks_of_line(write.data)
        head = slots_flit((5, 4, 5, 0), (0, 0, write.pack(), d[0]), sz=True, be=True)
        done = driver.inject(head, retryable=True, data=1, expect=[write])
        driver.inject(data_flit(*d[1:], be), retryable=True)
        await done[0].wait()
    await test.check(*(tag << 6 for tag in range(8)))


@nf_test(HandMadeTest)
async def link_header_in_slot_0_over_rollover(test: HandMadeTest) -> None:
    """Check a write header in slot 0 while three data chunks of the last line roll over."""
    driver = test.env.cxl.host
    writes = [M2SRwD(RwdOp.MEM_WR, 0x600 + k, k << 6, data=test.line()) for k in range(16)]
    for first, second in zip(writes[::2], writes[1::2]):
        d, e = chunks_of_line(first.data), chunks_of_line(second.data)
        head = slots_flit((5, 4, 5, 0), (0, 0, first.pack(), d[0]), sz=True)
        both = slots_flit((4, 0, 0, 0), (second.pack(), *d[1:]), sz=True)
        done = driver.inject(head, retryable=True, data=1, expect=[first])
        done += driver.inject(both, retryable=True, data=1, expect=[second])
        driver.inject(data_flit(*e), retryable=True)
        for transaction in done:
            await transaction.wait()
    await test.check(*(k << 6 for k in range(16)))


@nf_test(ReplayFromAdf)
def link_replay_begins_with_adf() -> None:
    """Check that a replay may begin with an all-data flit, both ways (rollover is restored)."""


@nf_test(AdfLikeRetry)
def link_adf_like_retry() -> None:
    """Check that, after an error, an all-data flit that looks like a RETRY flit does no harm."""


@nf_test(NumFreeBuf)
def link_num_free_buf() -> None:
    """Check that at NumFreeBuf 2 only acknowledging flits leave, and at 1 no retryable flit."""


@nf_test(LinkTest, waived=("framing",))
async def link_all_zero_flit(test: LinkTest) -> None:
    """Check that the all-zero flit is a valid empty protocol flit and is acknowledged."""
    before = await test.read("RX_FLIT", "STRAY_DATA", "CRC_ERROR", "PROTOCOL_ERROR")
    for _ in range(20):
        test.env.cxl.host.inject(0, retryable=True)
    await test.env.clocks(300)
    rise = await test.rise(before)
    assert (rise["CRC_ERROR"], rise["PROTOCOL_ERROR"]) == (0, 0)
    assert rise["STRAY_DATA"] == 20, "G0 slots where nothing is owed"
    assert test.host.unacknowledged <= 1, "they are acknowledged"
    await test.some_traffic()


@nf_test(ForeignFlits)
def link_foreign_flits() -> None:
    """Check that foreign protocol IDs, stray data and CXL.cache are counted, and RRSM shows."""


@nf_test(RetryAfter, waived=("init",))
async def link_init_twice(test: RetryAfter) -> None:
    """Check that a second INIT.Param is an error and changes no sequence number."""
    await test.some_traffic(10)
    test.env.cxl.host.inject(control(wire_control.InitParam(21)), retryable=True)
    await test.env.clocks(60)
    await test.captured(5, 1)
    # The tracker has believed it; the device must not.
    test.env.cxl.monitor.tracker.m2s.wrap = test.host.config.retry_depth - 1
    await test.retries()


@nf_test(BeforeInit)
def link_non_retry_before_init() -> None:
    """Check that non-RETRY flits before INIT.Param are errors and give no credits."""


@nf_test(WrapValues)
def link_wrap_9_before_init() -> None:
    """Check that sequence numbers wrap at 9 before INIT.Param and at the peer's value after it."""

# SPDX-License-Identifier: Apache-2.0
"""Limits of ``nf_link`` alone: every bit of the CRC, more credits than fit, forced LLCRD.

spec: link spec §2, §3, §7, §9.
"""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import cocotb

from cocotbext.cxl.wire.control import (
    ControlFlit,
    InitParam,
    Llcrd,
    RetryAck,
    RetryFrame,
    RetryIdle,
    RetryReq,
    UnknownControl,
    decode_control,
    encode_control,
)
from cocotbext.cxl.wire.crc import PAYLOAD_MASK, seal
from cocotbext.cxl.wire.flits import FlitHeader, decode_credit, encode_credit
from cocotbext.cxl.wire.messages import S2MNDR, M2SReq, ReqOp
from cocotbext.cxl.wire.packer import Credits
from cocotbext.cxl.wire.slots import S2M_G_3DRS
from cocotbext.cxl.wire.unpack import S2MUnpacker
from verif.tests.link_coverage import covered
from verif.tests.link_rules import broken
from verif.tests.link_testbench import (
    PID,
    REQ_CREDITS,
    LinkTestbench,
    count_scale,
    random_drs,
    random_ndr,
)

_FORCE, _FLUSH, _HEADER = 16, 32, 8  # acks, clocks that force an LLCRD; acks a header takes


@cocotb.test
@covered
async def single_bit_errors(dut: Any) -> None:
    """Each of the 528 bits alone makes a flit bad."""
    bench = await LinkTestbench(dut).up()
    rng = random.Random(cocotb.RANDOM_SEED)
    for bit in rng.sample(range(528), 528):
        bench.to_send.append((PID, seal(rng.getrandbits(511) << 1) ^ 1 << bit))
    await bench.clocks(560)
    assert bench.events["crc_error"] == 528


@cocotb.test
@covered
async def static_bits(dut: Any) -> None:
    """Each bit that must be 0 in a control flit makes it an error, alone."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = await LinkTestbench(dut).up()
    kinds: tuple[ControlFlit, ...] = (
        RetryIdle(), RetryFrame(), RetryReq(1), RetryAck(), Llcrd(0), InitParam(63),
    )  # fmt: skip
    bench.unacked = 1 << 30
    for kind in kinds:
        good = encode_control(kind)
        payloads = [good ^ 1 << bit for bit in range(1, PAYLOAD_MASK.bit_length())]
        wrong = [one for one in payloads if "static" in "".join(decode_control(one)[1])]
        assert len(wrong) > 400, "fields are few"
        for one in rng.sample(wrong, len(wrong) * count_scale() // 5):
            await broken(bench, one)


@cocotb.test
@covered
async def control_codes(dut: Any) -> None:
    """Each LLCTRL with each SubType: a code that is reserved is an error and does nothing."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = await LinkTestbench(dut).up()
    plain = encode_control(RetryFrame()) & ~(0xFF << 32)
    payloads = [plain | code << 32 for code in rng.sample(range(256), 256)]
    reserved = [one for one in payloads if isinstance(decode_control(one)[0], UnknownControl)]
    assert len(reserved) > 240
    credits = bench.credits.plain, bench.credits.data
    bench.unacked = 1 << 30
    for one in reserved:
        await broken(bench, one)
    assert (bench.credits.plain, bench.credits.data) == credits


@cocotb.test
@covered
async def control_but_for_its_type(dut: Any) -> None:
    """A protocol flit with all bits of a control flit but the type is none: it acknowledges
    nothing, and is no part of a retry."""
    bench = await LinkTestbench(dut).up(s2m_credits=512)
    await bench.clocks(120)
    bench.knobs.rx, bench.unacked = 0.0, 1 << 30
    bench.out_ndr.extend(random_ndr(bench.rng) for _ in range(300))
    await bench.clocks(400)
    sent = len(bench.tx_log)  # one more at most: the last place is for one that acknowledges
    retry: list[ControlFlit] = [*[RetryFrame()] * 5, RetryReq(1), *[RetryFrame()] * 5, RetryAck()]
    for kind in (Llcrd(23), InitParam(63), RetryIdle(), *retry):
        bench.to_send.append((PID, seal(encode_control(kind) & ~1)))
    await bench.clocks(60)
    assert bench.out_ndr
    assert len(bench.tx_log) <= sent + 1, "flits are sent though nobody has acknowledged any"
    assert (bench.events["cache_message"], bench.events["protocol_error"]) == (15, 0)


@cocotb.test
@covered
async def more_credits_than_fit(dut: Any) -> None:
    """The host grants more than 1023 credits: the device keeps 1023 of them."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = await LinkTestbench(dut).up(s2m_credits=64 * rng.randrange(16, 24))
    await bench.clocks(120)
    bench.knobs.credits = 0.0  # none of them is granted again
    count = 600
    drss, ndrs = [random_drs(rng) for _ in range(count)], [random_ndr(rng) for _ in range(count)]
    bench.out_drs.extend(drss)
    bench.out_ndr.extend(ndrs)

    async def acknowledge() -> None:
        acks, bench.acks_owed = bench.acks_owed, 0
        bench.inject(Llcrd(acks))

    for _ in range(2 * count):
        await bench.clock()
        if bench.acks_owed > 16:
            await acknowledge()
        if len(bench.got_drs) == len(bench.got_ndr) == count:
            break
    assert bench.got_drs == drss
    assert bench.got_ndr == ndrs


def _llcrds(bench: LinkTestbench, since: int) -> list[tuple[int, Llcrd]]:
    """Clock and content of each LLCRD of the device among the flits from the ``since``-th on."""
    log = [(clock, decode_control(flit)[0]) for clock, flit in bench.tx_log[since:] if flit & 1]
    return [(clock, kind) for clock, kind in log if isinstance(kind, Llcrd)]


@cocotb.test
@covered
async def acknowledgements_saturate(dut: Any) -> None:
    """A host that sends on without any acknowledgement is owed 255 at most, what an LLCRD holds."""
    bench = await LinkTestbench(dut).up()
    await bench.clocks(120)
    bench.knobs.tx_ready = 0.0
    for _ in range(340):
        bench.inject(Llcrd(0))
    await bench.clocks(380)
    sent = len(bench.tx_log)
    bench.knobs.tx_ready = 1.0
    await bench.clocks(100)
    acks = [kind.ack for _, kind in _llcrds(bench, sent)]
    assert max(acks) == 255, acks
    assert sum(acks) < 340, f"{acks}: more than were sent"


@cocotb.test
@covered
async def many_acknowledgements(dut: Any) -> None:
    """While the wire takes nothing up to 255 acknowledgements add up; then none is missing."""
    bench = await LinkTestbench(dut).up()
    await bench.clocks(120)
    bench.knobs.rx = 0.0
    for count in (bench.rng.randrange(128, 192), bench.rng.randrange(192, 250)):
        bench.knobs.tx_ready = 0.0
        for _ in range(count):
            bench.inject(Llcrd(0))
        await bench.clocks(count + 10)
        bench.knobs.tx_ready = 1.0
        await bench.clocks(120)
        assert bench.unacked <= 1, f"{bench.unacked} of {count} flits are not acknowledged"


@cocotb.test
@covered
async def largest_grants(dut: Any) -> None:
    """Credits that came back go to the host in the largest grants that cover them, each of them
    when what is left has waited for its own time."""
    bench = await LinkTestbench(dut).up()
    await bench.clocks(120)
    for count in bench.rng.sample(range(1, min(REQ_CREDITS, 25)), 6):
        sent = len(bench.tx_log)
        for tag in range(count):  # all of them before the first flush
            bench.packer.push(M2SReq(ReqOp.MEM_RD, tag, tag << 6))
        await bench.clocks(6 * (_FLUSH + 4))
        grants = [(clock, kind.req_crd) for clock, kind in _llcrds(bench, sent) if kind.req_crd]
        sizes = [decode_credit(code) for _, code in grants]
        assert sizes == [1 << bit for bit in reversed(range(5)) if count >> bit & 1]
        apart = [later - before for (before, _), (later, _) in pairwise(grants)]
        assert all(clocks >= _FLUSH - 4 for clocks in apart), f"grants {apart} clocks apart"


@cocotb.test
@cocotb.parametrize(completions=[1, 2])
@covered
async def three_reads_in_a_slot(dut: Any, completions: int) -> None:
    """Each stage to the pins takes a flit. Then the headers of three reads wait, with credits for
    no more: with H5 and G6 they leave in one flit, beside the completions that wait, too."""
    bench = await LinkTestbench(dut).up(s2m_credits=2 + completions)
    await bench.clocks(120)
    dut.multi_header.value = 1
    drss = [replace(random_drs(bench.rng), data=bytes(64)) for _ in range(3)]
    ndrs = [random_ndr(bench.rng) for _ in range(2 + completions)]
    bench.knobs.rx = bench.knobs.tx_ready = 0.0
    for ndr in ndrs[:2]:
        bench.out_ndr.append(ndr)
        await bench.clocks(8)
    bench.out_ndr.extend(ndrs[2:])
    bench.out_drs.extend(drss)
    await bench.clocks(12)
    sent = len(bench.tx_log)
    bench.knobs.tx_ready = 1.0
    await bench.drain(0, 0, len(ndrs), len(drss), 60)
    assert (bench.got_ndr, bench.got_drs) == (ndrs, drss)
    flits = [flit & PAYLOAD_MASK for _, flit in bench.tx_log[sent:] if not flit & 1]
    third = [S2M_G_3DRS in FlitHeader.decode(flit).slots[1:] for flit in flits[:3]]
    assert third == [False, False, True], f"G6 in the first three flits: {third}"


@cocotb.test
@covered
async def one_read_in_a_flit(dut: Any) -> None:
    """A host that takes no H5 and G6 gets one header of a read in a flit, however many wait."""
    bench = await LinkTestbench(dut).up()
    await bench.clocks(120)
    sent = len(bench.tx_log)
    drss = [replace(random_drs(bench.rng), data=bytes(64)) for _ in range(24)]
    ndrs = [random_ndr(bench.rng) for _ in range(12)]
    bench.out_drs.extend(drss)
    await bench.clocks(30)
    bench.out_ndr.extend(ndrs)
    await bench.drain(0, 0, len(ndrs), len(drss), 200)
    assert (bench.got_ndr, bench.got_drs) == (ndrs, drss)
    unpacker = S2MUnpacker()
    reads = [unpacker.feed(flit).data for _, flit in bench.tx_log[sent:] if not flit & 1]
    assert max(reads) == 1, f"headers of reads in flits: {reads}"
    assert sum(reads) == len(drss)


@cocotb.test
@covered
async def acknowledged_by_llcrd(dut: Any) -> None:
    """Each number that an LLCRD acknowledges counts whole: the retry buffer is free again."""
    bench = await LinkTestbench(dut).up(s2m_credits=512)
    await bench.clocks(120)
    bench.knobs.rx = 0.0
    ndrs: list[S2MNDR] = []
    for number in range(8, 40):
        while bench.acks_owed < number and len(ndrs) < 500:
            ndrs.append(random_ndr(bench.rng))
            bench.out_ndr.append(ndrs[-1])
            await bench.clocks(4)
        acks, bench.acks_owed = bench.acks_owed, 0
        bench.inject(Llcrd(acks))
        await bench.clocks(8)
    assert bench.got_ndr == ndrs, f"{len(bench.got_ndr)} of {len(ndrs)} have left"


@cocotb.test
@covered
async def answers_without_credits(dut: Any) -> None:
    """The queues of answers take four each while the host grants nothing; then all leave."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = await LinkTestbench(dut).up(s2m_credits=0)
    ndrs, drss = [random_ndr(rng) for _ in range(6)], [random_drs(rng) for _ in range(6)]
    bench.out_ndr.extend(ndrs)
    bench.out_drs.extend(drss)
    await bench.clocks(30)
    left = len(bench.out_ndr), len(bench.out_drs)
    assert left == (1, 1), "four are taken, one more of each is offered"
    eight = encode_credit(8)
    bench.granted = Credits(8, 8)
    bench.inject(Llcrd(0, eight, 0, eight))
    await bench.drain(0, 0, len(ndrs), len(drss), 60)
    assert (bench.got_ndr, bench.got_drs) == (ndrs, drss)


@cocotb.test
@covered
async def credits_before_own_init(dut: Any) -> None:
    """The peer is up, grants credits, and the core has answers, while the wire takes nothing:
    INIT.Param is still the first flit, and nothing that waited is lost."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = LinkTestbench(dut)
    await bench.start()
    bench.knobs.rx = bench.knobs.tx_ready = 0.0
    ndrs, drss = [random_ndr(rng) for _ in range(3)], [random_drs(rng) for _ in range(3)]
    bench.out_ndr.extend(ndrs)
    bench.out_drs.extend(drss)
    four = encode_credit(4)
    bench.granted = Credits(4, 4)
    for kind in (RetryIdle(), InitParam(63), Llcrd(0, four, 0, four)):
        bench.inject(kind)
    await bench.clocks(rng.randrange(10, 30))
    bench.knobs.tx_ready = 1.0
    await bench.drain(0, 0, len(ndrs), len(drss), 60)
    assert (bench.got_ndr, bench.got_drs) == (ndrs, drss)


@cocotb.test
@covered
async def forced_llcrd(dut: Any) -> None:
    """An LLCRD leaves with the 16th acknowledgement, or when something has waited 32 clocks; a
    header that takes nothing along starts the time anew. It takes 8 along when there are 8."""
    bench = await LinkTestbench(dut).up()
    await bench.clocks(120)
    bench.knobs.rx = 0.0
    await bench.clocks(80)

    async def send(count: int) -> None:
        for _ in range(count):
            bench.inject(Llcrd(0))
        await bench.clocks(count + 1)

    assert bench.unacked <= 1, "what waited was not flushed"
    await send(1 - bench.unacked)
    sent = len(bench.tx_log)
    await bench.clocks(4 * _FLUSH)
    assert len(bench.tx_log) == sent, "an LLCRD for one: two such ends answer each other for ever"
    assert bench.unacked == 1
    await send(2 * _FORCE)
    await bench.clocks(8)
    assert _llcrds(bench, sent)[0][1].ack == _FORCE, "forced by the number of acknowledgements"
    for count in (_HEADER - 1, _HEADER):
        await bench.clocks(120)
        await send(count - bench.unacked)
        sent = len(bench.tx_log)
        bench.out_ndr.append(random_ndr(bench.rng))
        await bench.clocks(8)
        header = FlitHeader.decode(bench.tx_log[sent][1] & PAYLOAD_MASK)
        assert header.ak == (count == _HEADER), f"Ak of a header while {count} are owed"
    await bench.clocks(120)
    # Two acknowledgements wait; nothing else leaves.
    waits = []
    for header_after in (None, 10, 25):
        await send(2)
        start, sent = bench.now, len(bench.tx_log)
        if header_after is not None:
            await bench.clocks(header_after)
            bench.out_ndr.append(random_ndr(bench.rng))
        await bench.clocks(120)
        flushes = _llcrds(bench, sent)
        assert flushes, "two acknowledgements wait for ever"
        waits.append(flushes[0][0] - start - (header_after or 0))
        assert (bench.tx_log[sent][1] & PAYLOAD_MASK) & 1 == (header_after is None)
    dut._log.info("clocks until the flush: %s", waits)
    assert _FLUSH - 4 <= waits[0] <= _FLUSH + 8
    # From the header on: it takes 3 clocks more to the pins than the device needs to see the flits.
    assert all(_FLUSH - 4 <= wait <= _FLUSH + 8 for wait in waits[1:]), waits

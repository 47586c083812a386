# SPDX-License-Identifier: Apache-2.0
"""Limits of ``nf_link`` alone: every bit of the CRC, more credits than fit, forced LLCRD.

spec: link spec §2, §3, §7, §9.
"""

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
from cocotbext.cxl.wire.flits import FlitHeader, decode_credit
from cocotbext.cxl.wire.messages import M2SReq, ReqOp
from cocotbext.cxl.wire.slots import S2M_G_3DRS
from cocotbext.cxl.wire.unpack import S2MUnpacker
from verif.tests.link_coverage import link_test
from verif.tests.link_messages import PID, count_scale, random_drs
from verif.tests.link_testbench import ALL_CREDITS, REQ_CREDITS, LinkTestbench, link_up_test

_FORCE, _FLUSH, _HEADER = 16, 32, 8  # acks, clocks that force an LLCRD; acks a header takes


@link_up_test
async def single_bit_errors(bench: LinkTestbench) -> None:
    """Check that an error of each single one of the 528 bits of a flit is a CRC error."""
    rng = bench.rng
    for bit in rng.sample(range(528), 528):
        bench.raw.append((PID, seal(rng.getrandbits(511) << 1) ^ 1 << bit))
    await bench.clocks(560)
    assert bench.events["crc_error"] == 528


@link_up_test
async def static_bits(bench: LinkTestbench) -> None:
    """Check that each bit that must be 0 in a control flit makes it an error if it is 1."""
    rng = bench.rng
    plain: tuple[ControlFlit, ...] = (RetryIdle(), RetryFrame())
    for kind in (*plain, RetryReq(1), RetryAck(), Llcrd(0), InitParam(63)):
        good = encode_control(kind)
        payloads = [good ^ 1 << bit for bit in range(1, PAYLOAD_MASK.bit_length())]
        wrong = [one for one in payloads if "static" in "".join(decode_control(one)[1])]
        assert len(wrong) > 400, "fields are few"
        # The two without fields have one rule: together they try every bit.
        halves: dict[ControlFlit, list[int]] = {RetryIdle(): wrong[::2], RetryFrame(): wrong[1::2]}
        for one in halves.get(kind) or rng.sample(wrong, len(wrong) * count_scale() // 5):
            await bench.broken(one)


@link_up_test
async def control_codes(bench: LinkTestbench) -> None:
    """Check that each reserved LLCTRL and SubType of a control flit is an error without effect."""
    rng = bench.rng
    plain = encode_control(RetryFrame()) & ~(0xFF << 32)
    payloads = [plain | code << 32 for code in rng.sample(range(256), 256)]
    reserved = [one for one in payloads if isinstance(decode_control(one)[0], UnknownControl)]
    assert len(reserved) > 240
    for one in reserved:
        await bench.broken(one)
    assert bench.host.credits == ALL_CREDITS


@link_test
async def control_but_for_its_type(dut: Any) -> None:
    """Check that a protocol flit that otherwise looks like a control flit has no such effect.

    It acknowledges nothing, and is no part of a retry.
    """
    bench = await LinkTestbench(dut, 512).up()
    bench.muted = True
    bench.answer_random(ndr=300)
    await bench.clocks(400)
    sent = len(bench.tx_log)  # one more at most: the last place is for one that acknowledges
    retry: list[ControlFlit] = [*[RetryFrame()] * 5, RetryReq(1), *[RetryFrame()] * 5, RetryAck()]
    for kind in (Llcrd(23), InitParam(63), RetryIdle(), *retry):
        bench.drive(seal(encode_control(kind) & ~1))
    await bench.clocks(60)
    assert bench.out_ndr
    assert len(bench.tx_log) <= sent + 1, "flits are sent though nobody has acknowledged any"
    assert (bench.events["cache_message"], bench.events["protocol_error"]) == (15, 0)


@link_test
async def more_credits_than_fit(dut: Any) -> None:
    """Check that the device keeps 1023 credits if the host grants more."""
    grant = 64 * random.Random(cocotb.RANDOM_SEED).randrange(16, 24)
    bench = await LinkTestbench(dut, grant).up()
    bench.host.hold_credits(True)  # none of them is granted again
    bench.answer_random(600, 600)
    await bench.delivered(1200)


def _llcrds(bench: LinkTestbench, since: int) -> list[tuple[int, Llcrd]]:
    """Return (clock, content) of each LLCRD among the device's flits from number ``since`` on."""
    flits = ((clock, flit & PAYLOAD_MASK) for clock, flit in bench.tx_log[since:] if flit & 1)
    log = ((clock, decode_control(flit)[0]) for clock, flit in flits)
    return [(clock, kind) for clock, kind in log if isinstance(kind, Llcrd)]


@link_up_test
async def acknowledgements_saturate(bench: LinkTestbench) -> None:
    """Check that the device owes at most 255 acknowledgements, the maximum of an LLCRD.

    The host sends on without any acknowledgement.
    """
    bench.ready_rate = 0.0
    bench.drive(*[Llcrd(0)] * 340)
    await bench.clocks(380)
    sent = len(bench.tx_log)
    bench.ready_rate = 1.0
    await bench.clocks(100)
    acks = [kind.ack for _, kind in _llcrds(bench, sent)]
    assert max(acks) == 255, acks
    assert sum(acks) < 340, f"{acks}: more than were sent"


@link_up_test
async def many_acknowledgements(bench: LinkTestbench) -> None:
    """Check that no acknowledgement is missing after up to 250 added up under back-pressure."""
    bench.muted = True
    for count in (bench.rng.randrange(*ends) for ends in ((48, 112), (128, 192), (192, 250))):
        bench.ready_rate = 0.0
        bench.drive(*[Llcrd(0)] * count)
        await bench.clocks(count + 10)
        bench.ready_rate = 1.0
        await bench.clocks(120)
        left = bench.host.unacknowledged
        assert left <= 1, f"{left} of {count} flits are not acknowledged"


@link_up_test
async def largest_grants(bench: LinkTestbench) -> None:
    """Check that returned credits are granted to the host in the largest grants that they cover.

    Each further grant follows when the rest has waited for its own time.
    """
    for count in bench.rng.sample(range(1, min(REQ_CREDITS, 25)), 6):
        sent = len(bench.tx_log)
        # All of them before the first flush.
        bench.send(*(M2SReq(ReqOp.MEM_RD, tag, tag << 6) for tag in range(count)))
        await bench.clocks(6 * (_FLUSH + 4))
        grants = [(clock, kind.req_crd) for clock, kind in _llcrds(bench, sent) if kind.req_crd]
        sizes = [decode_credit(code) for _, code in grants]
        assert sizes == [1 << bit for bit in reversed(range(5)) if count >> bit & 1]
        apart = [later - before for (before, _), (later, _) in pairwise(grants)]
        assert all(clocks >= _FLUSH - 4 for clocks in apart), f"grants {apart} clocks apart"


@cocotb.parametrize(completions=[1, 2])
@link_test
async def three_reads_in_a_slot(dut: Any, completions: int) -> None:
    """Check that with multi-header slots (H5, G6) three waiting reads leave in one flit.

    Waiting completions leave with them. Each stage to the pins holds a flit at first, so that the
    reads wait; there are no more credits.
    """
    bench = await LinkTestbench(dut, 2 + completions).up()
    dut.multi_header.value = 1
    drss = [replace(random_drs(bench.rng), data=bytes(64)) for _ in range(3)]
    bench.muted, bench.ready_rate = True, 0.0
    for _ in range(2):
        bench.answer_random(ndr=1)
        await bench.clocks(8)
    bench.answer_random(ndr=completions)
    bench.answer(*drss)
    await bench.clocks(12)
    sent = len(bench.tx_log)
    bench.ready_rate = 1.0
    await bench.delivered(60)
    flits = [flit & PAYLOAD_MASK for _, flit in bench.tx_log[sent:] if not flit & 1]
    third = [S2M_G_3DRS in FlitHeader.decode(flit).slots[1:] for flit in flits[:3]]
    assert third == [False, False, True], f"G6 in the first three flits: {third}"


@link_up_test
async def one_read_in_a_flit(bench: LinkTestbench) -> None:
    """Check that without multi-header slots a flit has at most one read header."""
    sent = len(bench.tx_log)
    bench.answer(*(replace(random_drs(bench.rng), data=bytes(64)) for _ in range(24)))
    await bench.clocks(30)
    bench.answer_random(ndr=12)
    await bench.delivered(200)
    unpacker = S2MUnpacker()
    flits = (flit & PAYLOAD_MASK for _, flit in bench.tx_log[sent:] if not flit & 1)
    reads = [unpacker.feed(flit).data for flit in flits]
    assert max(reads) == 1, f"headers of reads in flits: {reads}"
    assert sum(reads) == 24


@link_test
async def acknowledged_by_llcrd(dut: Any) -> None:
    """Check that an LLCRD frees as many places of the retry buffer as it acknowledges (8 to 39)."""
    bench = await LinkTestbench(dut, 512).up()
    bench.muted = True
    for number in range(8, 40):
        while bench.host.num_ack < number and len(bench.sent.ndr) < 500:
            bench.answer_random(ndr=1)
            await bench.clocks(4)
        bench.drive(Llcrd(bench.host.num_ack))
        bench.host.num_ack = 0
        await bench.clocks(8)
    assert bench.got.ndr == bench.sent.ndr, "not all have left"


@link_test
async def answers_without_credits(dut: Any) -> None:
    """Check that the response queues accept four each without credits, and send all later."""
    bench = await LinkTestbench(dut, 0).up()
    bench.answer_random(6, 6)
    await bench.clocks(30)
    left = len(bench.out_ndr), len(bench.out_drs)
    assert left == (1, 1), "four are taken, one more of each is offered"
    bench.grant(8, 8)
    await bench.delivered(60)


@link_test
async def credits_before_own_init(dut: Any) -> None:
    """Check that INIT.Param is the first flit, and nothing is lost, if the peer is up long before.

    The peer grants credits and the core has responses while the wire is under back-pressure.
    """
    bench = LinkTestbench(dut)
    await bench.start()
    bench.muted, bench.ready_rate = True, 0.0
    bench.answer_random(3, 3)
    bench.drive(RetryIdle(), InitParam(63))
    bench.grant(4, 4)
    await bench.clocks(bench.rng.randrange(10, 30))
    bench.ready_rate = 1.0
    await bench.delivered(60)


@link_up_test
async def forced_llcrd(bench: LinkTestbench) -> None:
    """Check that an LLCRD leaves with the 16th acknowledgement, or after 32 clocks with fewer.

    A header without acknowledgement starts the time anew. A header acknowledges 8 flits if 8 wait.
    """
    bench.muted = True
    await bench.clocks(80)

    async def send(count: int) -> None:
        bench.drive(*[Llcrd(0)] * count)
        await bench.clocks(count + 1)

    assert bench.host.unacknowledged <= 1, "what waited was not flushed"
    await send(1 - bench.host.unacknowledged)
    sent = len(bench.tx_log)
    await bench.clocks(4 * _FLUSH)
    assert len(bench.tx_log) == sent, "an LLCRD for one: two such ends answer each other for ever"
    assert bench.host.unacknowledged == 1
    await send(2 * _FORCE)
    await bench.clocks(8)
    assert _llcrds(bench, sent)[0][1].ack == _FORCE, "forced by the number of acknowledgements"
    for count in (_HEADER - 1, _HEADER):
        await bench.clocks(120)
        await send(count - bench.host.unacknowledged)
        sent = len(bench.tx_log)
        bench.answer_random(ndr=1)
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
            bench.answer_random(ndr=1)
        await bench.clocks(120)
        flushes = _llcrds(bench, sent)
        assert flushes, "two acknowledgements wait for ever"
        waits.append(flushes[0][0] - start - (header_after or 0))
        assert (bench.tx_log[sent][1] & PAYLOAD_MASK) & 1 == (header_after is None)
    bench.dut._log.info("clocks until the flush: %s", waits)
    assert _FLUSH - 4 <= waits[0] <= _FLUSH + 8
    # From the header on: it takes 3 clocks more to the pins than the device needs to see the flits.
    assert all(_FLUSH - 4 <= wait <= _FLUSH + 8 for wait in waits[1:]), waits

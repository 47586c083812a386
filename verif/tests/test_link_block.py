# SPDX-License-Identifier: Apache-2.0
"""Block tests of ``nf_link`` alone (top ``nf_link``): packing, credits, rates, bad flits.

spec: link spec §1-§9 (retry: test_link_retry_block). REQ_CREDITS of the build must be 7 or more.
"""

from __future__ import annotations

import random
from collections.abc import Sized
from typing import Any

import cocotb

from cocotbext.cxl.wire import control, flits
from cocotbext.cxl.wire.crc import PAYLOAD_MASK, seal
from cocotbext.cxl.wire.messages import S2MDRS, S2MNDR, M2SReq, M2SRwD, ReqOp
from cocotbext.cxl.wire.packer import Credits, M2SPacker, PackOptions
from cocotbext.cxl.wire.unpack import M2SUnpacker
from verif.tests.link_coverage import covered
from verif.tests.link_testbench import (
    PID,
    REQ_CREDITS,
    RWD_CREDITS,
    Knobs,
    LinkTestbench,
    count_scale,
    random_drs,
    random_ndr,
    random_req,
    random_rwd,
    random_slots_flit,
    req_word,
    rwd_word,
    slots_flit,
)


@cocotb.test
@cocotb.parametrize(dense=[True, False], rate=[1.0, 0.5], stall=[False, True])
@covered
async def random_traffic(dut: Any, dense: bool, rate: float, stall: bool) -> None:
    """Random messages both ways at once: all arrive unchanged and in order of their channel."""
    rng = random.Random(cocotb.RANDOM_SEED + dense * 4 + stall * 2)
    bench = LinkTestbench(dut, PackOptions(dense=dense, rng=rng), rng.getrandbits(32))
    await bench.up(s2m_credits=rng.choice((1, 5, 64)))
    if stall:
        bench.knobs = Knobs(rate, 0.6, 0.4, 0.4, rate, rate, 0.3)
    else:
        bench.knobs = Knobs(rx=rate, ndr=rate, drs=rate)
    count = 120 * count_scale() + rng.randrange(4)  # credits come back one at a time, too
    reqs = [random_req(rng) for _ in range(count)]
    rwds = [random_rwd(rng) for _ in range(count)]
    ndrs = [random_ndr(rng) for _ in range(count)]
    drss = [random_drs(rng) for _ in range(count)]
    for a, b in zip(reqs, rwds, strict=True):
        both: list[M2SReq | M2SRwD] = [a, b]
        for message in rng.sample(both, 2):
            bench.packer.push(message)
    bench.out_ndr.extend(ndrs)
    bench.out_drs.extend(drss)
    await bench.drain(count, count, count, count, 60 * count)
    assert bench.got_req == [req_word(m) for m in reqs]
    assert bench.got_rwd == [rwd_word(m) for m in rwds]
    assert bench.got_ndr == ndrs
    assert bench.got_drs == drss
    bench.knobs = Knobs()
    await bench.clocks(200)
    assert bench.credits == Credits(REQ_CREDITS, RWD_CREDITS), "credits came back"
    assert bench.unacked <= 1, "acknowledgements came back"
    bad = {k: v for k, v in bench.events.items() if v and k not in ("tx_flit", "rx_flit")}
    assert not bad, bad


@cocotb.test
@covered
async def initialisation(dut: Any) -> None:
    """Only RETRY.Idle until a clean flit, one INIT.Param, RETRY.Idle until the peer's."""
    bench = LinkTestbench(dut)
    bench.knobs.rx = 0.0
    await bench.start()
    await bench.clocks(20)
    assert {type(c) for c in bench.control} == {control.RetryIdle}
    idle = seal(control.encode_control(control.RetryIdle()))
    bench.to_send.append((PID, idle ^ 1 << 77))
    await bench.clocks(10)
    assert not bench.peer_up
    assert bench.events["crc_error"] == 1
    bench.to_send.append((PID, idle))
    await bench.clocks(20)
    assert sum(isinstance(c, control.InitParam) for c in bench.control) == 1
    del bench.control[:]
    await bench.clocks(20)
    assert {type(c) for c in bench.control} == {control.RetryIdle}
    assert not int(dut.link_up.value)
    early = control.Llcrd(0, flits.encode_credit(4), 0, flits.encode_credit(4))
    bench.to_send += [(PID, seal(control.encode_control(early))), (PID, 0)]
    await bench.clocks(10)
    assert bench.events["protocol_error"] == 2, "non-RETRY flits before INIT.Param"
    bench.unacked += 1
    bench.to_send.append((PID, seal(control.encode_control(control.InitParam(9)))))
    await bench.clocks(20)
    assert int(dut.link_up.value)
    assert bench.credits == Credits(REQ_CREDITS, RWD_CREDITS), "granted without delay"
    first = next(kind for kind in bench.control if isinstance(kind, control.Llcrd))
    most = (flits.largest_credit(REQ_CREDITS), flits.largest_credit(RWD_CREDITS))
    granted = flits.decode_credit(first.req_crd), flits.decode_credit(first.data_crd)
    assert granted == most, "the largest grants that are covered"
    bench.to_send.append((PID, seal(control.encode_control(control.InitParam(9)))))
    await bench.clocks(50)
    sent = bench.events["tx_flit"]
    bench.out_ndr.append(S2MNDR(0, 1))
    bench.out_drs.append(S2MDRS(0, 2))
    await bench.clocks(100)
    assert bench.events["protocol_error"] == 3, "a second INIT.Param"
    assert bench.events["tx_flit"] == sent, "a link without credits and acks is silent"


@cocotb.test
@covered
async def write_rate(dut: Any) -> None:
    """Writes: 4 lines per 5 flits, no stall, one flit a clock; completions go back at that rate."""
    bench = await LinkTestbench(dut).up()
    rng = random.Random(7)
    rwds = [random_rwd(rng, 0.0) for _ in range(400)]
    for m in rwds:
        bench.packer.push(m)
    first = bench.now
    answered = 0
    while len(bench.got_rwd) < 400:
        await bench.clock()
        while answered < len(bench.got_rwd):  # the core completes at once
            bench.out_ndr.append(S2MNDR(0, answered & 0xFFFF))
            answered += 1
        assert bench.now - first < 4000
    dut._log.info("400 writes: %d flits, %d clocks", bench.rx_data_flits, bench.now - first)
    assert bench.got_rwd == [rwd_word(m) for m in rwds]
    if RWD_CREDITS >= 32:
        assert bench.rx_data_flits == 500
        assert bench.now - first <= 506
    await bench.drain(0, 400, 400, 0, 20)


@cocotb.test
@covered
async def read_rate(dut: Any) -> None:
    """DRS: 4 lines per 5 flits, one flit a clock, with an NDR per DRS travelling along."""
    bench = await LinkTestbench(dut).up()
    rng = random.Random(8)
    drss = [random_drs(rng) for _ in range(400)]
    ndrs = [random_ndr(rng) for _ in range(400)]
    bench.out_drs.extend(drss)
    bench.out_ndr.extend(ndrs)
    sent, first = len(bench.tx_log), bench.now
    await bench.drain(0, 0, 400, 400, 600)
    flits_sent = len(bench.tx_log) - sent
    dut._log.info("400 DRS + 400 NDR: %d flits, %d clocks", flits_sent, bench.now - first)
    assert flits_sent <= 501
    assert bench.now - first <= 508
    assert bench.got_drs == drss
    assert bench.got_ndr == ndrs


@cocotb.test
@covered
async def request_rate(dut: Any) -> None:
    """Two requests in one flit leave the queue in two clocks, 2 clocks after the flit."""
    bench = await LinkTestbench(dut).up()
    reqs = [M2SReq(ReqOp.MEM_RD, i, i << 6) for i in range(REQ_CREDITS)]
    for m in reqs:
        bench.packer.push(m)
    first = bench.now
    await bench.drain(REQ_CREDITS, 0, 0, 0, REQ_CREDITS + 4)
    dut._log.info("%d requests: %d clocks", REQ_CREDITS, bench.now - first)
    assert bench.got_req == [req_word(m) for m in reqs]


@cocotb.test
@covered
async def latencies(dut: Any) -> None:
    """Clocks from the edge that samples an input to the edge that sees the output, link idle."""
    bench = await LinkTestbench(dut).up()

    async def latency(seen: Sized) -> int:
        await bench.clock()  # the input is driven
        count, start = len(seen), bench.now
        while len(seen) == count and bench.now - start < 20:
            await bench.clock()
        taken = bench.now - start - 1
        await bench.clocks(80)
        return taken

    await bench.clocks(80)
    bench.packer.push(M2SReq(ReqOp.MEM_RD, 5, 64))
    rx_req = await latency(bench.got_req)
    bench.out_drs.append(S2MDRS(0, 1))
    drs_tx = await latency(bench.tx_log)
    bench.out_ndr.append(S2MNDR(0, 1))
    ndr_tx = await latency(bench.tx_log)
    dut._log.info("latency: rx->req %d, drs->tx %d, ndr->tx %d", rx_req, drs_tx, ndr_tx)
    assert (rx_req, drs_tx, ndr_tx) == (2, 3, 3)


@cocotb.test
@covered
async def channels_are_independent(dut: Any) -> None:
    """NDRs flow without DRS credits and the other way round."""
    bench = LinkTestbench(dut)
    bench.knobs.credits = 0.0
    bench.s2m_credits = 0
    await bench.start()
    await bench.clocks(60)
    rng = random.Random(3)
    drss, ndrs = [random_drs(rng) for _ in range(5)], [random_ndr(rng) for _ in range(5)]
    bench.out_drs.extend(drss)
    bench.out_ndr.extend(ndrs)
    four = flits.encode_credit(4)
    bench.granted.plain += 4
    bench.inject(control.Llcrd(0, four))
    await bench.clocks(30)
    assert bench.got_ndr == ndrs[:4]
    assert not bench.got_drs
    bench.granted.data += 4
    bench.inject(control.Llcrd(0, 0, 0, four))
    await bench.clocks(30)
    assert bench.got_ndr == ndrs[:4]
    assert bench.got_drs == drss[:4]
    bench.granted.data += 1
    # Code 4 without the CXL.mem flag: CXL.cache credits.
    bench.inject(control.Llcrd(0, 4, 0, flits.encode_credit(1)))
    await bench.clocks(30)
    assert bench.got_ndr == ndrs[:4]
    assert bench.got_drs == drss


@cocotb.test
@covered
async def protocol_ids(dut: Any) -> None:
    """Every kind of Protocol ID: used, repaired, dropped silently, dropped and counted."""
    bench = await LinkTestbench(dut).up()
    req = M2SReq(ReqOp.MEM_RD, 1, 0)
    codes = [0x55, 0x87, 0x99, 0x4B, 0xFF, 0xD2, 0xCC, 0x1E]
    rng = random.Random(5)
    words = [c * 0x101 for c in codes] + [c | 0x12 << 8 for c in codes] + [c << 8 for c in codes]
    words += [0x5587, 0x9955, 0x1234] + [rng.getrandbits(16) for _ in range(200)]
    expect = dict.fromkeys(bench.events, 0)
    taken = 0
    packer = M2SPacker()
    before = dict(bench.events)
    for word in words:
        pid = flits.decode_protocol_id(word)
        expect["pid_correctable"] += pid.corrected
        expect["pid_uncorrectable"] += pid.code is None
        used = pid.code is not None and pid.code.is_cachemem
        taken += used
        expect["pid_unexpected"] += pid.code is not None and not (used or pid.code.is_null)
        packer.push(req)
        packed = packer.next(Credits(1, 0))
        assert packed is not None
        # The CRC of what is not CXL.mem is nobody's business here.
        damage = 0 if used else rng.getrandbits(1) << rng.randrange(528)
        bench.to_send.append((word, seal(packed.payload) ^ damage))
        bench.credits.plain -= used
        bench.unacked += used
        await bench.clocks(1 if pid.code else 40)  # what follows a loss is dropped
    await bench.clocks(10)
    assert len(bench.got_req) == taken
    for name in ("pid_correctable", "pid_uncorrectable", "pid_unexpected", "crc_error"):
        assert bench.events[name] - before[name] == expect[name], name


@cocotb.test
@covered
async def crc_errors(dut: Any) -> None:
    """A flit with 1 to 3 flipped bits is counted and dropped."""
    bench = await LinkTestbench(dut).up()
    rng = random.Random(cocotb.RANDOM_SEED)
    for n in range(150):
        packer = M2SPacker()
        packer.push(random_req(rng))
        packed = packer.next(Credits(1, 0))
        assert packed is not None
        flit = seal(packed.payload)
        for bit in rng.sample(range(528), n % 3 + 1):
            flit ^= 1 << bit
        bench.to_send.append((PID, flit))
    await bench.clocks(170)
    assert bench.events["crc_error"] == 150
    assert not bench.got_req


@cocotb.test
@covered
async def broken_flits(dut: Any) -> None:
    """What breaks a rule is counted once a flit, and the rest of the flit is still used."""
    bench = await LinkTestbench(dut).up()
    rng = random.Random(9)
    req = [M2SReq(ReqOp.MEM_RD, i, i << 6) for i in range(4)]
    raw = [m.pack() for m in req]
    wr = [random_rwd(rng, 0.0) for _ in range(4)]
    chunks = [flits.chunks_of_line(m.data) for m in wr]

    async def feed(flit: int, reqs: int = 0, rwds: int = 0, **events: int) -> None:
        before = dict(bench.events)
        bench.got_req.clear()
        bench.got_rwd.clear()
        bench.unacked += 1
        bench.credits.plain -= reqs
        bench.to_send.append((PID, flit))
        await bench.clocks(12)
        assert (len(bench.got_req), len(bench.got_rwd)) == (reqs, rwds)
        for name in ("stray_data", "cache_message", "protocol_error"):
            assert bench.events[name] - before[name] == events.get(name, 0), (name, events)

    await feed(slots_flit((5, 0, 4, 0), (raw[0], 7, 0, 9)), reqs=1, stray_data=1)
    await feed(slots_flit((0, 4, 4, 4), (1, raw[0], 0, raw[1])), reqs=2, cache_message=1)
    await feed(slots_flit((5, 4, 3, 4), (raw[0], 1 << 88, 0, 0)), reqs=1, cache_message=1)
    await feed(slots_flit((5, 3, 4, 4), (raw[0], 1 << 24, 0, 0)), reqs=1, cache_message=1)
    await feed(slots_flit((6, 4, 4, 4), (0, raw[2], 0, 0)), reqs=1, protocol_error=1)
    await feed(slots_flit((5, 7, 4, 6), (0, 0, raw[2], 0)), reqs=1, protocol_error=1)
    await feed(slots_flit((5, 4, 4, 4), (raw[0], raw[1], raw[2], 0)), reqs=2, protocol_error=1)
    # Sz = 0: four chunks follow all the same, and the message is marked.
    bench.credits.data -= 3
    await feed(slots_flit((4, 0, 0, 0), (wr[0].pack(), *chunks[0][:3])), protocol_error=1)
    await feed(slots_flit((5, 0, 4, 4), (0, chunks[0][3], 0, 0)), rwds=1)
    assert bench.got_rwd == [rwd_word(wr[0], illegal=True)]
    # MemWr with byte enables: five data slots.
    await feed(
        slots_flit((5, 4, 5, 0), (0, 0, wr[1].pack(), chunks[1][0]), True, True), protocol_error=1
    )
    adf = chunks[1][1] | chunks[1][2] << 128 | chunks[1][3] << 256 | 5 << 384
    await feed(seal(adf), rwds=1)
    assert bench.got_rwd[0] >> 647 == 1
    assert bench.got_rwd[0] & PAYLOAD_MASK == int.from_bytes(wr[1].data, "little")
    # A rollover slot of another format: the data is late, the next header waits behind it.
    bench.credits.data -= 1
    await feed(slots_flit((4, 4, 0, 0), (wr[2].pack(), 0, *chunks[2][:2]), True))
    late = (0, raw[3], chunks[2][2], wr[3].pack())
    await feed(slots_flit((5, 4, 0, 5), late, True), reqs=1, protocol_error=1)
    adf = chunks[2][3] | chunks[3][0] << 128 | chunks[3][1] << 256 | chunks[3][2] << 384
    await feed(seal(adf), rwds=1)
    assert bench.got_rwd == [rwd_word(wr[2])]
    await feed(slots_flit((5, 0, 4, 4), (0, chunks[3][3], 0, 0)), rwds=1)
    assert bench.got_rwd == [rwd_word(wr[3])]
    await bench.clocks(100)
    assert bench.credits == Credits(REQ_CREDITS, RWD_CREDITS)
    # Control flits: a static bit, an unknown code.
    for wrong in (control.encode_control(control.RetryIdle()) | 1 << 300, 1 | 5 << 32):
        await feed(seal(wrong), protocol_error=1)
        await bench.clocks(20)  # each starts a retry
    bench.unacked -= 2
    for kind in (
        control.RetryReq(3),
        control.RetryFrame(),
        control.RetryAck(),
        control.RetryIdle(),
    ):
        await feed(seal(control.encode_control(kind)))
        bench.unacked -= 1


@cocotb.test
@covered
async def random_slots(dut: Any) -> None:
    """Flits of random slots, legal or not, decode as the model decodes them."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = await LinkTestbench(dut).up()
    model = M2SUnpacker()
    reqs: list[int] = []
    rwds: list[int] = []
    expect = dict.fromkeys(("stray_data", "cache_message", "protocol_error"), 0)
    bench.knobs.rx = 0.0
    bench.unacked = 1 << 30
    for _ in range(400 * count_scale()):
        plain, data = min(2, bench.credits.plain), min(1, bench.credits.data)
        before, payload = bench.credits, rng.getrandbits(512)
        if model.owed <= 3:
            payload = random_slots_flit(rng, plain, data) & PAYLOAD_MASK
        report = model.feed(payload)
        before.plain -= report.plain
        before.data -= report.data
        for m in report.messages:
            if isinstance(m, M2SReq):
                reqs.append(req_word(m))
            else:
                illegal = any(m is bad for bad in report.misframed)
                rwds.append(rwd_word(m, illegal, raw_be=True))
        for kind in {issue.kind.value for issue in report.issues} & set(expect):
            expect[kind] += 1
        bench.to_send.append((PID, seal(payload)))
        if bench.acks_owed > 12 and model.owed <= 3:
            bench.inject(control.Llcrd(bench.acks_owed))
            bench.acks_owed = 0
        await bench.clocks(rng.choice((1, 1, 1, 2, 4)))  # the wire may pause at any place
    await bench.clocks(60)
    assert bench.got_req == reqs
    assert bench.got_rwd == rwds
    for name, number in expect.items():
        assert bench.events[name] == number, name
    dut._log.info("%d Req, %d RwD, issues %s", len(reqs), len(rwds), expect)

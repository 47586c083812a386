# SPDX-License-Identifier: Apache-2.0
"""Block tests of ``nf_link`` alone: packing, credits, rates, bad flits.

spec: link spec §1-§9 (retry: test_link_retry_block). REQ_CREDITS of the build must be 7 or more.
"""

import random
from collections.abc import Sized
from dataclasses import replace
from itertools import product
from typing import Any

import cocotb

from cocotbext.cxl.wire import control, flits
from cocotbext.cxl.wire.crc import PAYLOAD_MASK, seal
from cocotbext.cxl.wire.messages import S2MDRS, S2MNDR, M2SReq, M2SRwD, ReqOp, RwdOp
from cocotbext.cxl.wire.packer import Credits, M2SPacker, PackOptions
from cocotbext.cxl.wire.unpack import M2SUnpacker
from verif.tests import link_testbench
from verif.tests.link_coverage import link_test
from verif.tests.link_messages import (
    FRAMES,
    PID,
    count_scale,
    data_flit,
    random_req,
    random_rwd,
    random_slots_flit,
    req_word,
    rwd_word,
    slots_flit,
)


def request_flit(message: M2SReq) -> int:
    """Return the sealed flit (with CRC) of one request, as the host's packer makes it."""
    packer = M2SPacker()
    packer.push(message)
    packed = packer.next(Credits(1, 0))
    assert packed is not None
    return seal(packed.payload)


@cocotb.parametrize(dense=[True, False], rate=[1.0, 0.5], stall=[False, True])
@link_test
async def random_traffic(dut: Any, dense: bool, rate: float, stall: bool) -> None:
    """Check that random messages both ways arrive unchanged and in the order of their channel."""
    rng = random.Random(cocotb.RANDOM_SEED + dense * 4 + stall * 2)
    slow: dict[str, Any] = {"return_delay": (0, 12), "ack_force_threshold": 16} if stall else {}
    pack = PackOptions(dense=dense, rng=rng)
    bench = await link_testbench.LinkTestbench(dut, rng.choice((1, 5, 64)), pack=pack, **slow).up()
    bench.rx_rate = rate
    bench.ready_rate, bench.core_rate = (0.6, 0.4) if stall else (1.0, rate)
    count = 120 * count_scale() + rng.randrange(4)  # credits come back one at a time, too
    for _ in range(count):
        both: list[M2SReq | M2SRwD] = [random_req(rng), random_rwd(rng)]
        bench.send(*rng.sample(both, 2))
    bench.answer_random(count, count)
    await bench.delivered(60 * count)
    bench.rx_rate = bench.ready_rate = bench.core_rate = 1.0
    await bench.clocks(200)
    assert bench.host.credits == link_testbench.ALL_CREDITS, "credits came back"
    assert bench.host.unacknowledged <= 1, "acknowledgements came back"
    bad = {k: v for k, v in bench.events.items() if v and k not in ("tx_flit", "rx_flit")}
    assert not bad, bad


@link_test
async def initialisation(dut: Any) -> None:
    """Check the start of a link: RETRY.Idle until a clean flit, one INIT.Param, then RETRY.Idle.

    Flits before the peer's INIT.Param and a second INIT.Param are errors; after it the largest
    grants of credits are sent.
    """
    bench = link_testbench.LinkTestbench(dut)
    bench.muted = True
    await bench.start()
    await bench.clocks(20)
    assert set(bench.controls()) == {control.RetryIdle()}
    idle = seal(control.encode_control(control.RetryIdle()))
    bench.raw.append((PID, idle ^ 1 << 77))
    await bench.clocks(10)
    assert not bench.host.initialised
    assert bench.events["crc_error"] == 1
    bench.raw.append((PID, idle))
    await bench.clocks(20)
    asked = next(c for c in bench.controls() if isinstance(c, control.RetryReq))
    bench.put(*FRAMES, control.RetryAck(True, num_retry=asked.num_retry, eseq=asked.eseq))
    await bench.clocks(20)
    wrap = [c.wrap for c in bench.controls() if isinstance(c, control.InitParam)]
    assert wrap == [link_testbench.RETRY_DEPTH - 1]
    sent = len(bench.tx_log)
    await bench.clocks(20)
    assert set(bench.controls(sent)) == {control.RetryIdle()}
    assert not int(dut.link_up.value)
    four = flits.encode_credit(4)
    bench.put(control.Llcrd(0, four, 0, four))
    bench.raw.append((PID, 0))
    await bench.clocks(10)
    assert bench.events["protocol_error"] == 2, "non-RETRY flits before INIT.Param"
    sent = len(bench.tx_log)
    bench.drive(control.InitParam(9))
    await bench.clocks(20)
    assert int(dut.link_up.value)
    assert bench.host.credits == link_testbench.ALL_CREDITS, "granted without delay"
    first = next(kind for kind in bench.controls(sent) if isinstance(kind, control.Llcrd))
    most = link_testbench.REQ_CREDITS, link_testbench.RWD_CREDITS
    granted = flits.decode_credit(first.req_crd), flits.decode_credit(first.data_crd)
    assert granted == tuple(map(flits.largest_credit, most)), "the largest grants that are covered"
    bench.put(control.InitParam(9))
    await bench.clocks(50)
    silent = bench.events["tx_flit"]
    bench.answer(S2MNDR(0, 1), S2MDRS(0, 2))
    await bench.clocks(100)
    assert bench.events["protocol_error"] == 3, "a second INIT.Param"
    assert bench.events["tx_flit"] == silent, "a link without credits and acks is silent"


@link_testbench.link_up_test
async def write_rate(bench: link_testbench.LinkTestbench) -> None:
    """Check that writes are received at 4 lines per 5 flits, with completions at that rate."""
    bench.send(*(random_rwd(bench.rng, 0.0) for _ in range(400)))
    first = bench.now
    while len(bench.got.rwd) < 400:
        await bench.clock()
        for done in range(len(bench.sent.ndr), len(bench.got.rwd)):
            bench.answer(S2MNDR(0, done))  # the core completes at once
        assert bench.now - first < 4000
    bench.dut._log.info("400 writes: %d clocks", bench.now - first)
    if link_testbench.RWD_CREDITS >= 32:
        assert bench.now - first <= 506, "400 lines are 500 flits"
    await bench.delivered(20)


@link_testbench.link_up_test
async def read_rate(bench: link_testbench.LinkTestbench) -> None:
    """Check that read data leaves at 4 lines per 5 flits, with an NDR per line."""
    bench.answer_random(400, 400)
    used, clocks = await bench.delivered(600)
    bench.dut._log.info("400 DRS + 400 NDR: %d flits, %d clocks", used, clocks)
    assert used <= 501
    assert clocks <= 508


@link_testbench.link_up_test
async def request_rate(bench: link_testbench.LinkTestbench) -> None:
    """Check that two requests in one flit reach the core in two clocks, 2 clocks after the flit."""
    bench.send(*(M2SReq(ReqOp.MEM_RD, i, i << 6) for i in range(link_testbench.REQ_CREDITS)))
    _, clocks = await bench.delivered(link_testbench.REQ_CREDITS + 4)
    bench.dut._log.info("%d requests: %d clocks", link_testbench.REQ_CREDITS, clocks)


@link_testbench.link_up_test
async def latencies(bench: link_testbench.LinkTestbench) -> None:
    """Check the clocks from an input to the output on an idle link: request 2, DRS 3, NDR 3."""

    async def latency(seen: Sized) -> int:
        await bench.clock()  # the input is driven
        count, start = len(seen), bench.now
        while len(seen) == count and bench.now - start < 20:
            await bench.clock()
        taken = bench.now - start - 1
        await bench.clocks(80)
        return taken

    bench.send(M2SReq(ReqOp.MEM_RD, 5, 64))
    rx_req = await latency(bench.got.req)
    bench.answer(S2MDRS(0, 1))
    drs_tx = await latency(bench.tx_log)
    bench.answer(S2MNDR(0, 1))
    ndr_tx = await latency(bench.tx_log)
    bench.dut._log.info("latency: rx->req %d, drs->tx %d, ndr->tx %d", rx_req, drs_tx, ndr_tx)
    assert (rx_req, drs_tx, ndr_tx) == (2, 3, 3)


@link_test
async def channels_are_independent(dut: Any) -> None:
    """Check that NDRs and DRSs leave by credits of one class alone, granted singly or at once.

    Then few of each wait in a device with multi-header slots, and credits cover some of each.
    """
    bench = link_testbench.LinkTestbench(dut, grant=0)
    await bench.start()
    await bench.clocks(60)
    bench.host.hold_credits(True)
    given = {"plain": 0, "data": 0}

    async def check() -> None:
        await bench.clocks(30)
        expected = bench.sent.ndr[: given["plain"]], bench.sent.drs[: given["data"]]
        assert (bench.got.ndr, bench.got.drs) == expected, f"responses by the credits {given}"

    ways = list(product(given, (1, 2, 4, 8), (False, True)))
    for kind, count, singly in bench.rng.sample(ways, len(ways)):
        bench.answer_random(count + 1, count + 1)
        for _ in range(count if singly else 1):
            bench.grant(**{kind: 1 if singly else count})
        given[kind] += count
        await check()
    bench.host.returns.peer.data += 1
    # Code 4 without the CXL.mem flag: CXL.cache credits.
    bench.drive(control.Llcrd(0, 4, 0, flits.encode_credit(1)))
    given["data"] += 1
    await check()

    async def grant(plain: int, data: int) -> None:
        for bit in (1, 2, 4, 8, 16, 32):
            if (plain | data) & bit:
                bench.grant(plain & bit, data & bit)
        given["plain"] += plain
        given["data"] += data
        await bench.clocks(2 * data)
        await check()

    await grant(len(bench.sent.ndr) - given["plain"], len(bench.sent.drs) - given["data"])
    dut.multi_header.value = 1
    for ndr, drs, *covered in bench.rng.sample([*product(range(1, 5), repeat=4)], 60):
        bench.answer_random(ndr, drs)
        await bench.clocks(8)
        plain, data = min(ndr, covered[0]), min(drs, covered[1])
        await grant(plain, data)
        await grant(ndr - plain, drs - data)


@link_testbench.link_up_test
async def protocol_ids(bench: link_testbench.LinkTestbench) -> None:
    """Check every kind of Protocol ID: used, repaired, dropped silently, dropped and counted."""
    rng, flit = bench.rng, request_flit(M2SReq(ReqOp.MEM_RD, 1, 0))
    codes = [0x55, 0x87, 0x99, 0x4B, 0xFF, 0xD2, 0xCC, 0x1E]
    words = [c * 0x101 for c in codes] + [c | 0x12 << 8 for c in codes] + [c << 8 for c in codes]
    words += [0x5587, 0x9955, 0x1234] + [rng.getrandbits(16) for _ in range(200)]
    expect = dict.fromkeys(("pid_correctable", "pid_uncorrectable", "pid_unexpected"), 0)
    taken = 0
    for word in words:
        pid = flits.decode_protocol_id(word)
        expect["pid_correctable"] += pid.corrected
        expect["pid_uncorrectable"] += pid.code is None
        used = pid.code is not None and pid.code.is_cachemem
        taken += used
        expect["pid_unexpected"] += pid.code is not None and not (used or pid.code.is_null)
        if used:
            bench.drive(flit, plain=1, protocol_id=word)
        else:  # nobody looks at the CRC of what is not CXL.mem
            bench.raw.append((word, flit ^ rng.getrandbits(1) << rng.randrange(528)))
        await bench.clocks(1 if pid.code else 40)  # flits after a loss are dropped
    await bench.clocks(10)
    assert len(bench.got.req) == taken
    for name, count in {**expect, "crc_error": 0}.items():
        assert bench.events[name] == count, name


@link_testbench.link_up_test
async def crc_errors(bench: link_testbench.LinkTestbench) -> None:
    """Check that a flit with 1 to 3 flipped bits is counted as CRC error and dropped."""
    for n in range(150):
        flit = request_flit(random_req(bench.rng))
        for bit in bench.rng.sample(range(528), n % 3 + 1):
            flit ^= 1 << bit
        bench.raw.append((PID, flit))
    await bench.clocks(170)
    assert bench.events["crc_error"] == 150
    assert not bench.got.req


@link_testbench.link_up_test
async def broken_flits(bench: link_testbench.LinkTestbench) -> None:
    """Check that a flit that breaks a rule is counted once, and its other slots are still used."""
    rng = bench.rng
    raw = [M2SReq(ReqOp.MEM_RD, i, i << 6).pack() for i in range(4)]
    # A write of a reserved opcode may have byte enables.
    wr = [replace(random_rwd(rng, 0.0), opcode=RwdOp.MEM_WR) for _ in range(4)]
    chunks = [flits.chunks_of_line(m.data) for m in wr]
    bench.muted = True  # a control flit in the midst of data would be data

    async def feed(flit: Any, reqs: int = 0, rwds: int = 0, **events: int) -> None:
        before = dict(bench.events)
        bench.got.req.clear()
        bench.got.rwd.clear()
        bench.drive(flit, plain=reqs)
        await bench.clocks(12)
        assert (len(bench.got.req), len(bench.got.rwd)) == (reqs, rwds)
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
    bench.host.credits.data -= 3
    await feed(slots_flit((4, 0, 0, 0), (wr[0].pack(), *chunks[0][:3])), protocol_error=1)
    await feed(slots_flit((5, 0, 4, 4), (0, chunks[0][3], 0, 0)), rwds=1)
    assert bench.got.rwd == [rwd_word(wr[0], illegal=True)]
    # MemWr with byte enables: five data slots.
    be = slots_flit((5, 4, 5, 0), (0, 0, wr[1].pack(), chunks[1][0]), True, True)
    await feed(be, protocol_error=1)
    await feed(data_flit(*chunks[1][1:], 5), rwds=1)
    assert bench.got.rwd[0] >> 647 == 1
    assert bench.got.rwd[0] & PAYLOAD_MASK == int.from_bytes(wr[1].data, "little")
    # A rollover slot of another format: the data is late, the next header waits for it.
    bench.host.credits.data -= 1
    await feed(slots_flit((4, 4, 0, 0), (wr[2].pack(), 0, *chunks[2][:2]), True))
    late = (0, raw[3], chunks[2][2], wr[3].pack())
    await feed(slots_flit((5, 4, 0, 5), late, True), reqs=1, protocol_error=1)
    await feed(data_flit(chunks[2][3], *chunks[3][:3]), rwds=1)
    assert bench.got.rwd == [rwd_word(wr[2])]
    await feed(slots_flit((5, 0, 4, 4), (0, chunks[3][3], 0, 0)), rwds=1)
    assert bench.got.rwd == [rwd_word(wr[3])]
    bench.muted = False
    await bench.clocks(100)
    assert bench.host.credits == link_testbench.ALL_CREDITS
    # Control flits: a static bit, an unknown code. Each starts a retry.
    errors = bench.events["protocol_error"]
    for wrong in (control.encode_control(control.RetryIdle()) | 1 << 300, 1 | 5 << 32):
        bench.raw.append((PID, seal(wrong)))
        await bench.clocks(32)
        errors += 1
        assert bench.events["protocol_error"] == errors
    kinds = (control.RetryReq(3), control.RetryFrame(), control.RetryAck(), control.RetryIdle())
    for kind in kinds:
        await feed(kind)


@link_test
async def random_slots(dut: Any) -> None:
    """Check that flits of random slots, legal or not, are decoded as the model decodes them."""
    bench = await link_testbench.LinkTestbench(dut, lenient=True).up()
    rng, model, host = bench.rng, M2SUnpacker(), bench.host
    reqs: list[int] = []
    rwds: list[int] = []
    expect = dict.fromkeys(("stray_data", "cache_message", "protocol_error"), 0)
    bench.muted = True
    for _ in range(400 * count_scale()):
        payload = rng.getrandbits(512)
        if model.owed <= 3:
            plain, data = min(2, host.credits.plain), min(1, host.credits.data)
            payload = random_slots_flit(rng, plain, data) & PAYLOAD_MASK
        report = model.feed(payload)
        for m in report.messages:
            if isinstance(m, M2SReq):
                reqs.append(req_word(m))
            else:
                illegal = any(m is bad for bad in report.misframed)
                rwds.append(rwd_word(m, illegal, raw_be=True))
        for kind in {issue.kind.value for issue in report.issues} & set(expect):
            expect[kind] += 1
        bench.drive(seal(payload), plain=report.plain, data=report.data)
        if host.num_ack > 12 and model.owed <= 3:
            bench.drive(control.Llcrd(host.num_ack))
            host.num_ack = 0
        await bench.clocks(rng.choice((1, 1, 1, 2, 4)))  # the wire may pause at any place
    await bench.clocks(60)
    assert bench.got.req == reqs
    assert bench.got.rwd == rwds
    for name, number in expect.items():
        assert bench.events[name] == number, name
    dut._log.info("%d Req, %d RwD, issues %s", len(reqs), len(rwds), expect)

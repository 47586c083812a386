# SPDX-License-Identifier: Apache-2.0
"""Corner cases of link-level retry (top ``nf_link``; spec: link spec §8, §9).

Build with a small RETRY_TIMEOUT. Verilator needs nf_link_retry_buffer.free_q and wr_q,
nf_link_lrsm.wrap_q and eseq_q public.
"""

import random
from typing import Any

import cocotb

from cocotbext.cxl.wire import control
from cocotbext.cxl.wire.crc import PAYLOAD_MASK, seal
from cocotbext.cxl.wire.flits import WireFlit, is_control
from cocotbext.cxl.wire.messages import M2SReq, ReqOp
from verif.tests.link_coverage import link_test
from verif.tests.link_messages import (
    FRAMES,
    PID,
    count_scale,
    random_damage,
    random_drs,
    random_ndr,
    random_req,
    random_rwd,
)
from verif.tests.link_testbench import (
    LOCAL_IDLE,
    NORMAL,
    RETRY_DEPTH,
    RETRY_TIMEOUT,
    RetryTestbench,
)

_ERR_CRC, _ERR_CONTROL, _ERR_ACK, _ERR_REQ, _ERR_RETRY_ACK = 1, 3, 8, 9, 10


@link_test
async def num_free_buf(dut: Any) -> None:
    """Check NumFreeBuf: at 2 only flits that acknowledge leave, at 1 none; no data run is cut."""
    left: set[int] = set()
    for seed in range(12):
        bench = RetryTestbench(dut, seed, grant=400, credits_in_headers=False)
        await bench.start()
        dut.multi_header.value = seed & 1
        await bench.clocks(200)
        free = dut.u_retry_buffer.free_q
        assert int(free.value) >= RETRY_DEPTH - 1, "an idle end owes one acknowledgement at most"
        bench.muted = True
        await bench.clocks(40)
        for _ in range(seed):
            bench.answer(random_ndr(bench.rng))  # another place of the runs in the buffer
            await bench.clock()
        bench.answer_random(drs=100)
        await bench.clocks(150)
        left.add(int(free.value))
        assert bench.host.unpacker.owed <= 3, "a run was cut short"
        bench.answer(random_ndr(bench.rng))
        await bench.clocks(30)
        assert int(free.value) == 2, "an NDR or owed data needs no run"
        bench.answer(random_ndr(bench.rng))
        # Something to acknowledge: one flit more, whatever else waits.
        bench.muted = False
        bench.send(*[M2SReq(ReqOp.MEM_RD, 1, 0)] * 40)
        sent = len(bench.tx_log)
        bench.host.hold_acks(True)
        await bench.clocks(100)
        assert int(free.value) == 1
        assert len(bench.tx_log) == sent + 1
        last = bench.tx_log[sent][1] & PAYLOAD_MASK
        assert not is_control(last), "LLCRD before a header that acknowledges"
        # Now acknowledge: everything comes.
        bench.host.hold_acks(False)
        await bench.delivered(2000)
    dut._log.info("NumFreeBuf where the reads stopped: %s", left)
    assert left <= {2, 3}


@link_test
async def sequences(dut: Any) -> None:
    """Check RETRY sequences: four frames are too few, seven are enough, other flits break them.

    Also unsolicited RETRY.Ack, requests for flits that are gone, static bits, the echo of
    NUM_RETRY, TIMEOUT, and acknowledgements of more flits than were sent.
    """
    bench = await RetryTestbench(dut, 3, tracked=False).up(100)
    bench.muted = True
    frame, idle = control.RetryFrame(), control.RetryIdle()
    wr = bench.write_pointer

    async def feed(*kinds: control.ControlFlit) -> list[control.ControlFlit]:
        sent = len(bench.tx_log)
        bench.put(*kinds)
        await bench.clocks(len(kinds) + 24)
        return bench.controls(sent)

    request = control.RetryReq(wr, 3)
    answer = [*FRAMES, control.RetryAck(True, False, 3, wr, wr, bench.free)]
    assert await feed(*[frame] * 4, request) == []
    assert await feed(*[frame] * 5, request) == answer
    assert await feed(*[frame] * 7, request) == answer
    assert await feed(*[frame] * 3, idle, *[frame] * 2, request) == []
    assert await feed(request) == []
    assert bench.errors == []
    # A RETRY.Req for a flit that is not in the buffer; a buffer further would be the place of one
    # that is.
    bench.answer(random_ndr(bench.rng))
    await bench.clocks(20)
    for asked in ((wr + 9) % RETRY_DEPTH, 255, wr + RETRY_DEPTH):
        sent = len(bench.tx_log)
        bench.put(*FRAMES, control.RetryReq(asked, 1))
        for _ in range(30):
            await bench.clock()
            assert not bench.controls(sent), f"an answer to a request for {asked}"
    assert bench.errors == [_ERR_REQ] * 3
    # A RETRY.Ack that nobody asked for; one outside a sequence is nothing.
    assert await feed(*FRAMES, control.RetryAck(True)) == []
    assert await feed(control.RetryAck(True)) == []
    assert bench.errors == [_ERR_REQ] * 3 + [_ERR_RETRY_ACK]
    assert bench.lrsm == NORMAL
    # A static bit counts in NORMAL only, where it starts a retry.
    bad = seal(control.encode_control(idle) | 1 << 300)
    sent = len(bench.tx_log)
    bench.raw.extend([(PID, bad), (PID, bad), (PID, 1 << 520), (PID, bad)])
    await bench.clocks(30)
    assert bench.errors[4:] == [_ERR_CONTROL, _ERR_CRC]
    assert bench.lrsm == LOCAL_IDLE
    # The answer must echo NUM_RETRY; a broken sequence is no answer.
    eseq = bench.controls(sent)[5]
    assert isinstance(eseq, control.RetryReq)
    assert eseq.num_retry == 1
    for other in (1 ^ 1 << bit for bit in range(5)):
        bench.put(*FRAMES, control.RetryAck(True, False, other, 0, eseq.eseq, 60))
    await feed(*FRAMES[:4], control.RetryAck(True, False, 1, 0, eseq.eseq, 60))
    assert bench.lrsm == LOCAL_IDLE
    # New flits go before RETRY.Idle: what the device has to say does not wait for the answer.
    bench.answer(random_ndr(bench.rng))
    await bench.until(lambda: len(bench.got.ndr) == 2, 30)
    # TIMEOUT is counted in flits: RETRY.Idle is sent, and then the next request.
    await bench.clocks(RETRY_TIMEOUT)
    reqs = [i for i, c in enumerate(bench.controls(sent)) if isinstance(c, control.RetryReq)]
    assert len(reqs) == 2
    assert reqs[1] - reqs[0] - 6 in (RETRY_TIMEOUT, RETRY_TIMEOUT + 1)
    second = bench.controls(sent)[reqs[1]]
    assert second == control.RetryReq(eseq.eseq, 2)
    await feed(*FRAMES, control.RetryAck(True, False, 2, 0, eseq.eseq, 60))
    assert bench.lrsm == NORMAL
    assert bench.events["retry_timeout"] == 1
    # More acknowledged than outstanding.
    for ack in (200, 64):
        bench.put(control.Llcrd(ack))
        await bench.clocks(8)
    assert bench.errors[6:] == [_ERR_ACK] * 2
    assert bench.free == RETRY_DEPTH


@link_test
async def wrap_values(dut: Any) -> None:
    """Check that ESeq wraps at 9 until INIT.Param, then at the value of the peer."""
    bench = RetryTestbench(dut, 4, retry_depth=22)
    await bench.start()
    assert int(dut.u_lrsm.wrap_q.value) == 9
    assert int(dut.u_lrsm.eseq_q.value) == 0
    bench.muted = True
    await bench.clocks(10)
    # Nothing before INIT.Param moves ESeq: it is an error.
    bench.put(control.RetryIdle(), control.Llcrd(0))
    bench.raw.append((PID, 0))
    await bench.clocks(10)
    assert bench.errors == [4, 4]
    assert int(dut.u_lrsm.eseq_q.value) == 0
    assert int(dut.u_lrsm.wrap_q.value) == 9
    bench = RetryTestbench(dut, 4, retry_depth=22)
    await bench.start()
    await bench.until(lambda: bench.host.active, 200)
    await bench.clocks(20)
    assert int(dut.u_lrsm.wrap_q.value) == 21
    seen = set()
    bench.fill(60)
    for _ in range(2000):
        await bench.clock()
        seen.add(int(dut.u_lrsm.eseq_q.value))
        if bench.complete:
            break
    assert seen == set(range(22))
    bench.check()


@link_test
async def full_at_any_place(dut: Any) -> None:
    """Check that a full retry buffer, or no credits, cut no run of data, whatever waits.

    Neither acknowledgements nor credits arrive, and nothing leaves without a credit. In the last
    rounds the host loses the first flits, and the device replays all, G6 among them.
    """
    rng = random.Random(cocotb.RANDOM_SEED)
    rounds, replayed = 160 * count_scale(), 3
    for number in range(rounds + replayed):
        few = rng.randrange(2, 16)
        lost = number >= rounds
        settings: dict[str, Any] = {"grant_plain": 200, "grant_data": rng.choice((200, 200, few))}
        settings |= {"grant_data": 200} if lost else {}
        bench = RetryTestbench(dut, rng.getrandbits(32), 1, credits_in_headers=False, **settings)
        await bench.start()
        dut.multi_header.value = 1
        await bench.clocks(50)
        bench.muted = True
        await bench.clocks(6)
        bench.answer_random(drs=40)
        rate = rng.choice((0.25, 0.35, 0.5))  # of completions, which G6 needs with its reads
        # Three reads wait for two owed slots only where back-pressure gives them the time.
        bench.ready_rate = 0.5 if lost else rng.choice((1.0, 0.5, 0.5))
        rate = 0.25 if lost else rate * bench.ready_rate
        for clock in range(2 * RETRY_DEPTH + 20):
            bench.to_host = random_damage(rng, 1.0) if lost and clock < 12 else None
            if rng.random() < rate:
                bench.answer(random_ndr(rng))
            await bench.clock()
        assert bench.host.unpacker.owed <= 3, "a run was cut short"
        assert bench.free >= 2
        if number % 8 and not lost:
            continue
        bench.muted, bench.ready_rate = False, 1.0
        await bench.delivered(2000)


@link_test
async def many_at_once(dut: Any) -> None:
    """Check large numbers: acknowledgements of a whole buffer, both ways, and long replays."""
    rng = random.Random(cocotb.RANDOM_SEED)
    settings: dict[str, Any] = {"grant_plain": 256, "grant_data": 256, "ak_in_headers": False}
    bench = await RetryTestbench(dut, rng.getrandbits(32), retry_depth=255, **settings).up(100)
    bench.host.hold_acks(True)
    bench.answer_random(drs=RETRY_DEPTH)
    await bench.clocks(2 * RETRY_DEPTH)
    free = dut.u_retry_buffer.free_q
    assert int(free.value) < RETRY_DEPTH // 4
    bench.host.hold_acks(False)
    await bench.delivered(2000, settle=300)
    assert int(free.value) >= RETRY_DEPTH - 1, "acknowledgements were not counted"
    # The other way round: back-pressure keeps what the device has to acknowledge.
    bench.ready_rate = 0.0
    for _ in range(RETRY_DEPTH):
        read = M2SReq(ReqOp.MEM_RD, rng.getrandbits(16), rng.getrandbits(46) << 6)
        bench.send(read, random_rwd(rng))
    await bench.clocks(2 * RETRY_DEPTH)
    assert bench.host.unacknowledged > RETRY_DEPTH // 2
    bench.ready_rate = 1.0
    await bench.delivered(3000, settle=300)
    assert bench.host.unacknowledged <= 1, "acknowledgements of the device were lost"
    # A long replay: the host has lost a flit, and asks for it half a buffer later.
    bench.answer_random(drs=RETRY_DEPTH // 2)
    await bench.clocks(8)
    bench.to_host = random_damage(rng, 1.0)
    await bench.clocks(4)
    bench.to_host, bench.muted = None, True
    await bench.clocks(RETRY_DEPTH // 2)
    bench.muted = False
    await bench.delivered(3000, settle=300)
    # The device has lost a flit, and back-pressure keeps its request for half a buffer.
    for _ in range(RETRY_DEPTH):
        bench.send(random_req(rng), random_rwd(rng))
    await bench.clocks(8)
    bench.to_device, bench.ready_rate = random_damage(rng, 1.0), 0.0
    await bench.clocks(4)
    bench.to_device = None
    await bench.clocks(RETRY_DEPTH // 2)
    bench.ready_rate = 1.0
    await bench.delivered(3000, settle=300)


@link_test
async def broken_control_flit(dut: Any) -> None:
    """Check that a control flit with a static bit set starts a retry.

    Whether it was retryable, and so counts in ESeq, is unknown. Without the retry the next one
    would begin a flit too early.
    """
    for bit in (19, 300):
        bench = await RetryTestbench(dut, bit, tracked=False).up(100)
        spoilt: list[int] = []

        def spoil(wire: WireFlit, bit: int = bit, spoilt: list[int] = spoilt) -> WireFlit:
            payload = wire[1] & PAYLOAD_MASK
            credits = isinstance(control.decode_control(payload)[0], control.Llcrd)
            if spoilt or not (payload & 1 and credits):
                return wire
            spoilt.append(payload)
            return PID, seal(payload | 1 << bit)

        bench.to_device = spoil
        bench.answer(random_drs(bench.rng))
        await bench.until(lambda seen=spoilt: bool(seen), 200)  # type: ignore[misc]
        await bench.clocks(60)
        assert bench.errors == [_ERR_CONTROL]
        assert bench.events["retry_local"] == 1, "no retry"
        # The next retry: each request and write comes once.
        for _ in range(6):
            bench.send(random_req(bench.rng), random_rwd(bench.rng))
        await bench.clocks(6)
        bench.to_device = random_damage(bench.rng, 1.0)
        await bench.clocks(2)
        bench.to_device = None
        await bench.completed(400)
        await bench.clocks(100)
        assert bench.got.req == bench.sent.req
        assert bench.got.rwd == bench.sent.rwd
        assert bench.lrsm == NORMAL


@link_test
async def dirty_request(dut: Any) -> None:
    """Check that a RETRY.Req with one static bit set gets no RETRY.Ack, and one without it does."""
    for number, dirt in enumerate((1 << 300, 0)):
        bench = await RetryTestbench(dut, number, tracked=False).up(100)
        sent = len(bench.tx_log)
        bench.put(*FRAMES)
        request = control.encode_control(control.RetryReq(bench.host.retry.eseq, 1))
        bench.raw.append((PID, seal(request | dirt)))
        await bench.clocks(100)
        acks = bench.answers(sent)
        assert len(acks) == number, f"{len(acks)} RETRY.Ack"


@link_test
async def acknowledged_in_replay(dut: Any) -> None:
    """Check that acknowledgements that arrive during a replay free places of the retry buffer."""
    rng = random.Random(cocotb.RANDOM_SEED)
    for _ in range(3):
        bench = await RetryTestbench(dut, rng.getrandbits(32), grant=400, tracked=False).up(100)
        # Some flits leave, which nobody acknowledges; then the host asks for all of them.
        start, free = bench.write_pointer, dut.u_retry_buffer.free_q
        before = int(free.value)
        await bench.leave_unacknowledged(rng.randrange(16, 40))
        held = before - int(free.value)
        assert held >= 8, "too few to see a replay"
        sent = len(bench.tx_log)
        bench.put(*FRAMES, control.RetryReq(start, 1))
        await bench.until(lambda b=bench, s=sent: len(b.tx_log) > s + 6, 60)  # type: ignore[misc]
        # It stands still in the middle of the replay, and the first few are acknowledged.
        bench.ready_rate, number = 0.0, rng.randrange(1, held // 2)
        await bench.clocks(4)
        bench.put(control.Llcrd(number))
        await bench.clocks(8)
        assert len(bench.tx_log) < sent + held, "the replay is over"
        assert int(free.value) == before - held + number, "acknowledged in a replay, not freed"
        bench.ready_rate = 1.0
        await bench.clocks(held + 8)
        assert len(bench.tx_log) == sent + 6 + held, "a replay from where the host has said"

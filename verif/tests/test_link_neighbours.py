# SPDX-License-Identifier: Apache-2.0
"""Second messages of a flit, and neighbouring fields of a RETRY.Ack.

Tops ``nf_link`` (builds link and link_retry; spec: link spec §3, §6, §7, §9). A message next
to one that is accepted and a field next to one that is compared are those that designs lose.
"""

import random
from typing import Any

import cocotb

from cocotbext.cxl.wire.control import RetryAck, RetryFrame, RetryIdle, RetryReq
from cocotbext.cxl.wire.flits import WireFlit, chunks_of_line
from cocotbext.cxl.wire.messages import M2SReq, ReqOp
from verif.tests import link_messages, link_testbench
from verif.tests.link_coverage import link_test

_EMPTY = (5, 4, 4, 4)
"""Formats of the four slots of a flit of requests or empty slots."""


@link_testbench.link_up_test
async def last_credit(bench: link_testbench.LinkTestbench) -> None:
    """Check that of two requests in a flit with one credit the second is an error."""
    rng = bench.rng
    for _ in range(3):
        bench.got.req.clear()
        bench.core_rate = 0.0
        errors = bench.events["protocol_error"]
        requests = [link_messages.random_req(rng) for _ in range(link_testbench.REQ_CREDITS)]
        refused = M2SReq(ReqOp.MEM_RD, rng.getrandbits(16), rng.getrandbits(46) << 6)
        bench.host.credits.plain = 0
        for request in requests[:-1]:
            bodies = [0, 0, 0, 0]
            bodies[rng.randrange(4)] = request.pack()
            bench.drive(link_messages.slots_flit(_EMPTY, bodies))
        bodies = [0] * 4
        first, second = sorted(rng.sample(range(4), 2))
        bodies[first], bodies[second] = requests[-1].pack(), refused.pack()
        bench.drive(link_messages.slots_flit(_EMPTY, bodies))
        await bench.clocks(link_testbench.REQ_CREDITS + 10)
        assert bench.events["protocol_error"] == errors + 1, "one request had no credit"
        bench.core_rate = 1.0
        await bench.clocks(link_testbench.REQ_CREDITS + 300)
        assert bench.got.req == [link_messages.req_word(request) for request in requests]
        assert bench.host.credits == link_testbench.ALL_CREDITS


@link_testbench.link_up_test
async def second_data_header(bench: link_testbench.LinkTestbench) -> None:
    """Check that a second data header in a flit is one error; the data belongs to the first."""
    rng = bench.rng
    for _ in range(30):
        bench.got.rwd.clear()
        errors = bench.events["protocol_error"]
        write, refused = link_messages.random_rwd(rng, 0.0), link_messages.random_rwd(rng, 0.0)
        at, again = sorted(rng.sample(range(4), 2))
        chunks = list(chunks_of_line(write.data))
        formats, bodies = list(_EMPTY), [0, 0, 0, 0]
        for slot in range(at, 4):
            if slot in (at, again):
                formats[slot] = 5 if slot else 4
                bodies[slot] = (write if slot == at else refused).pack()
            else:
                formats[slot], bodies[slot] = 0, chunks.pop(0)
        bench.drive(link_messages.slots_flit(formats, bodies, True))
        if len(chunks) == 4:
            bench.drive(link_messages.data_flit(*chunks))
        else:
            rest = [0] * len(chunks) + [4] * (3 - len(chunks))
            late = (*chunks, 0, 0, 0)[:3]
            bench.drive(link_messages.slots_flit((5, *rest), (0, *late)))
        bench.host.credits.data -= 1
        await bench.clocks(60)
        assert bench.got.rwd == [link_messages.rwd_word(write)]
        assert bench.events["protocol_error"] == errors + 1, f"headers in slots {at} and {again}"
        assert bench.events["stray_data"] == 0
        assert bench.host.credits == link_testbench.ALL_CREDITS


@link_test
async def answer_with_all_numbers(dut: Any) -> None:
    """Check that each field of a RETRY.Ack before a replay has its own value.

    NUM_RETRY and ESeq are those of the request, WrPtr and NumFreeBuf those of the sender.
    """
    rng = random.Random(cocotb.RANDOM_SEED)
    for _ in range(3):
        bench = await link_testbench.RetryTestbench(
            dut, rng.getrandbits(32), grant=400, tracked=False
        ).up(100)
        buffer = dut.u_retry_buffer
        start = int(buffer.wr_q.value)
        await bench.leave_unacknowledged(rng.randrange(8, 30))
        wr, free = int(buffer.wr_q.value), int(buffer.free_q.value)
        held = (wr - start) % link_testbench.RETRY_DEPTH
        for back in (held, rng.randrange(1, held)):
            asked, number = (wr - back) % link_testbench.RETRY_DEPTH, rng.getrandbits(5)
            sent = len(bench.tx_log)
            bench.put(*[RetryFrame()] * 5, RetryReq(asked, number))
            await bench.clocks(held + 40)
            assert bench.answers(sent) == [RetryAck(False, False, number, wr, asked, free)]


@link_test
async def silent_before_the_first(dut: Any) -> None:
    """Check that only RETRY.Idle leaves until one clean flit has arrived.

    Damaged flits before it cause no RETRY.Req: its peer may not be there.
    """
    rng = random.Random(cocotb.RANDOM_SEED)

    def spoil(wire: WireFlit) -> WireFlit:
        pid, flit = wire
        for bit in rng.sample(range(528), rng.randrange(1, 4)):
            flit ^= 1 << bit
        return pid, flit

    for _ in range(3):
        bench = link_testbench.RetryTestbench(dut, rng.getrandbits(32), tracked=False)
        bench.to_device = spoil
        await bench.start()
        await bench.clocks(rng.randrange(20, 200))
        assert bench.events["retry_local"] == 1, "nothing was damaged"
        assert bench.tx_log, "no RETRY.Idle"
        assert set(bench.controls()) == {RetryIdle()}
        bench.to_device = None
        bench.fill(5)
        await bench.delivered(60 * link_testbench.RETRY_TIMEOUT)


@link_test
async def nothing_left_after_abort(dut: Any) -> None:
    """Check that `drs_gone` is low while read responses wait, and high in RETRY_ABORT.

    A CLOSE, which waits for it, then ends.
    """
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = await link_testbench.RetryTestbench(
        dut, rng.getrandbits(32), grant=400, tracked=False
    ).up()
    bench.host.hold_acks(True)
    bench.answer_random(drs=2 * link_testbench.RETRY_DEPTH)  # more than the retry buffer takes
    await bench.clocks(4 * link_testbench.RETRY_DEPTH)
    assert not int(dut.drs_gone.value), "answers are in the queue"
    bench.muted = True
    bench.raw.append((link_messages.PID, 1 << 520))
    for _ in range(130 * (link_testbench.RETRY_TIMEOUT + 60)):
        await bench.clock()
        if bench.lrsm == link_testbench.ABORT:
            break
        assert not int(dut.drs_gone.value)
    assert bench.lrsm == link_testbench.ABORT
    await bench.clocks(rng.randrange(1, 20))
    assert int(dut.drs_gone.value), "answers are waited for that will never leave"

# SPDX-License-Identifier: Apache-2.0
"""What may wait in ``nf_link``, and for how long (link spec §9): credits alone until the flush
timer, LLCRD behind everything else that is new."""

from __future__ import annotations

import random
from typing import Any

import cocotb

from cocotbext.cxl.wire.control import InitParam, Llcrd
from cocotbext.cxl.wire.messages import S2MDRS, M2SReq, ReqOp
from verif.tests.link_coverage import covered
from verif.tests.link_retry_testbench import RetryTestbench, fill
from verif.tests.link_testbench import REQ_CREDITS, LinkTestbench, random_ndr

_FLUSH = 32
"""FlushRetimer, in clocks."""


@cocotb.test
@covered
async def credits_that_wait(dut: Any) -> None:
    """Credits come back within the flush time where nothing else does: no acknowledgement that
    would force an LLCRD, no header that would take them along."""
    bench = await LinkTestbench(dut).up()
    await bench.clocks(120)
    bench.knobs.credits = 0.0  # the host says nothing of its own accord
    for count in range(1, 5):
        bench.knobs.req_ready = 0.0
        for number in range(count):
            bench.packer.push(M2SReq(ReqOp.MEM_RD, number, number << 6))
        await bench.clocks(4 * _FLUSH)
        assert bench.credits.plain == REQ_CREDITS - count, "credits of what is still queued"
        assert bench.unacked <= 1, "something to acknowledge would flush the credits, too"
        start = bench.now
        bench.knobs.req_ready = 1.0
        while bench.credits.plain < REQ_CREDITS:
            assert bench.now - start < 3 * (_FLUSH + 10), f"{count} credits wait for ever"
            await bench.clock()
        assert bench.now - start >= _FLUSH - 4, "flushed before its time"


@cocotb.test
@covered
async def llcrd_goes_last(dut: Any) -> None:
    """LLCRD has the lowest priority: none leaves while there is a message to send, however much
    there is to acknowledge and to grant; all of it leaves behind the last."""
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = await LinkTestbench(dut).up()
    await bench.clocks(120)
    bench.knobs.rx = 0.0
    bench.knobs.credits = 0.0
    for _ in range(3):
        sent, done = len(bench.tx_log), len(bench.got_drs)
        for _ in range(rng.randrange(8, 14)):
            bench.out_drs.append(S2MDRS(0, rng.getrandbits(16), 0, 0, False, bytes(64)))
            bench.out_ndr.append(random_ndr(rng))
        bench.knobs.tx_ready = 0.0  # headers take eight along, faster than they come
        for _ in range(rng.randrange(24, 60)):
            bench.inject(Llcrd(0))
        await bench.clocks(70)
        bench.knobs.tx_ready = 1.0
        while bench.out_drs:
            await bench.clock()
        await bench.clocks(120)
        log = [flit for _, flit in bench.tx_log[sent:]]
        last = max(at for at, flit in enumerate(log) if not flit & 1)
        early = [at for at, flit in enumerate(log[:last]) if flit & 1]
        assert not early, f"LLCRD at {early} of {last} flits that messages need"
        assert len(bench.got_drs) > done
        assert bench.unacked <= 1
        # Acknowledge, and give the credits back.
        bench.knobs.rx = bench.knobs.credits = 1.0
        await bench.clocks(120)
        bench.knobs.rx = bench.knobs.credits = 0.0


@cocotb.test
@covered
async def first_credits_at_once(dut: Any) -> None:
    """The first credits do not wait for the flush timer, after whichever reset (§8)."""
    for again in range(3):
        bench = RetryTestbench(dut, 1)
        await bench.start(first=not again)
        await bench.until(lambda b=bench: b.host.credits.plain > 0, 600)  # type: ignore[misc]
        kinds = bench.controls()
        first = next(at for at, kind in enumerate(kinds) if isinstance(kind, Llcrd))
        up = next(at for at, kind in enumerate(kinds) if isinstance(kind, InitParam))
        wait = bench.tx_log[first][0] - bench.tx_log[up][0]
        assert wait < _FLUSH // 2, f"{wait} clocks from INIT.Param to the first credits"
        fill(bench, 10)
        await bench.until(lambda b=bench: b.complete, 600)  # type: ignore[misc]
        bench.check()

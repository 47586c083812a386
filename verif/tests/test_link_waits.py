# SPDX-License-Identifier: Apache-2.0
"""Waiting times in ``nf_link`` (link spec §9): credits, acknowledgements and LLCRD."""

from itertools import product
from typing import Any

from cocotbext.cxl.wire.control import InitParam, Llcrd
from cocotbext.cxl.wire.messages import S2MDRS, M2SReq, ReqOp
from cocotbext.cxl.wire.packer import Credits
from verif.tests import link_testbench
from verif.tests.link_coverage import link_test
from verif.tests.link_messages import random_rwd

_FLUSH = 32
"""Clocks (FlushRetimer) after which waiting credits and acknowledgements leave by LLCRD."""


@link_testbench.link_up_test
async def credits_that_wait(bench: link_testbench.LinkTestbench) -> None:
    """Check that credits return within the flush time if nothing else does.

    Credits of requests, and those of writes, wait alone. No acknowledgement would force an LLCRD,
    and no header would return them.
    """
    bench.hold()
    for count, write in product(range(1, 5), bench.rng.sample((False, True), 2)):
        bench.core_rate = 0.0
        for tag in range(count):
            bench.send(random_rwd(bench.rng) if write else M2SReq(ReqOp.MEM_RD, tag, tag << 6))
        await bench.clocks(4 * _FLUSH)
        kept = Credits(
            link_testbench.REQ_CREDITS - count * (not write),
            link_testbench.RWD_CREDITS - count * write,
        )
        assert bench.host.credits == kept, "credits of what is still queued"
        owed = bench.host.unacknowledged
        assert owed <= 1, "something to acknowledge would flush the credits, too"
        start = bench.now
        bench.core_rate = 1.0
        while bench.host.credits != link_testbench.ALL_CREDITS:
            assert bench.now - start < 3 * (_FLUSH + 10), f"{count} credits wait for ever"
            await bench.clock()
        assert bench.now - start >= _FLUSH - 4, "flushed before its time"


@link_testbench.link_up_test
async def llcrd_goes_last(bench: link_testbench.LinkTestbench) -> None:
    """Check that no LLCRD leaves while there is a message to send; all is acknowledged after it."""
    rng = bench.rng
    bench.muted = True
    for _ in range(3):
        sent, done = len(bench.tx_log), len(bench.got.drs)
        for _ in range(rng.randrange(8, 14)):
            bench.answer(S2MDRS(0, rng.getrandbits(16), 0, 0, False, bytes(64)))
            bench.answer_random(ndr=1)
        bench.ready_rate = 0.0  # headers take eight along, faster than they come
        bench.drive(*[Llcrd(0)] * rng.randrange(24, 60))
        await bench.clocks(70)
        bench.ready_rate = 1.0
        while bench.out_drs:
            await bench.clock()
        await bench.clocks(120)
        log = [flit for _, flit in bench.tx_log[sent:]]
        last = max(at for at, flit in enumerate(log) if not flit & 1)
        early = [at for at, flit in enumerate(log[:last]) if flit & 1]
        assert not early, f"LLCRD at {early} of {last} flits that messages need"
        assert len(bench.got.drs) > done
        assert bench.host.unacknowledged <= 1
        # Acknowledge, and give the credits back.
        bench.muted = False
        await bench.clocks(120)
        bench.muted = True


@link_test
async def first_credits_at_once(dut: Any) -> None:
    """Check that the first credits do not wait for the flush timer, after several resets (§8)."""
    for _ in range(3):
        bench = link_testbench.RetryTestbench(dut, 1)
        await bench.start()
        await bench.until(lambda b=bench: b.host.credits.plain > 0, 600)  # type: ignore[misc]
        kinds = bench.controls()
        first = next(at for at, kind in enumerate(kinds) if isinstance(kind, Llcrd))
        up = next(at for at, kind in enumerate(kinds) if isinstance(kind, InitParam))
        wait = bench.tx_log[first][0] - bench.tx_log[up][0]
        assert wait < _FLUSH // 2, f"{wait} clocks from INIT.Param to the first credits"
        bench.fill(10)
        await bench.delivered(600)

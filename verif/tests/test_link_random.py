# SPDX-License-Identifier: Apache-2.0
"""``nf_link`` alone under random settings, traffic and disturbances (link spec).

Builds: the defaults, and both ends of RETRY_DEPTH, REQ_CREDITS, RWD_CREDITS. The free places of the
retry buffer (nf_link_retry_buffer.free_q) are public.
"""

import random
from typing import Any

import cocotb

from cocotbext.cxl.link.retry import Lrsm
from verif.env.config import scale
from verif.tests.link_coverage import link_test
from verif.tests.link_draws import Episodes, host_settings, messages, rates
from verif.tests.link_testbench import NORMAL, RETRY_DEPTH, RETRY_TIMEOUT, RetryTestbench


async def _settle(bench: RetryTestbench, clocks: int) -> None:
    """Wait, for at most `clocks`, until all messages have arrived and both ends are idle.

    Check the messages, the retry states and that no acknowledgement is missing.
    """
    await bench.completed(clocks)
    await bench.clocks(3 * RETRY_TIMEOUT if bench.events["retry_local"] else 100)
    bench.check()
    assert bench.lrsm == NORMAL
    assert bench.host.retry.lrsm is Lrsm.NORMAL
    free = bench.dut.u_retry_buffer.free_q
    for _ in range(1000):  # a flush timer of the host, and flits that are on their way
        if bench.host.unacknowledged <= 1 and int(free.value) >= RETRY_DEPTH - 1:
            break
        await bench.clock()
    else:
        owed = bench.host.unacknowledged, RETRY_DEPTH - int(free.value)
        raise AssertionError(f"{owed} acknowledgements of device and host are missing")


def _rounds() -> int:
    """Return the number of settings that a run draws; NF_SCALE multiplies it."""
    return max(2, round(4 * scale()))


async def _drawn(dut: Any, kinds: tuple[str, ...], rounds: int) -> None:
    rng = random.Random(cocotb.RANDOM_SEED)
    for number in range(rounds):
        settings = host_settings(rng)
        bench = RetryTestbench(dut, rng.getrandbits(32), rng.randrange(1, 8), **settings)
        await bench.start(training=rng.choice((0, 0, 7)))
        dut.multi_header.value = rng.getrandbits(1)
        rates(bench)
        episodes = Episodes(bench, kinds)
        for _ in range(rng.randrange(3, 9)):
            messages(bench, rng.choice((4, 30, 120, 330)))
            await episodes.one()
        episodes.calm()
        left = sum(bench.sent.counts())
        # A host that grants one credit at a time may take this long for each.
        each = 40 + settings["return_delay"][1] + settings["flush_retimer"]
        await _settle(bench, each * left + 60 * RETRY_TIMEOUT)
        if "damage" not in kinds:
            told = {k: v for k, v in bench.events.items() if v and k not in ("rx_flit", "tx_flit")}
            assert not told, f"nothing was wrong, and {told} was counted"
        dut._log.info("round %d: %d messages, %d clocks", number, left, bench.now)


@link_test
async def packings(dut: Any) -> None:
    """Check random packing, grants, acknowledgements, back-pressure and multi-header slots."""
    await _drawn(dut, Episodes.PLAIN, _rounds())


@link_test
async def retries(dut: Any) -> None:
    """Check random packing, grants and back-pressure with random damaged flits and retrains."""
    await _drawn(dut, (*Episodes.PLAIN, "damage", "damage", "retrain", "retrain"), _rounds())

# SPDX-License-Identifier: Apache-2.0
"""Clocks of traffic in which two things overlap, compared with a baseline.

A fault that costs clocks alone breaks no answer. The order of requests is fixed and the data has no
effect on clocks, so that every seed and both simulators measure the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from cocotbext.cxl.wire.messages import M2SMessage
from models.modes import Mode
from verif.env.base_test import NfBaseTest
from verif.sequences.base import RACE_LIMIT, NfSequence
from verif.tests.decorator import nf_test

LATENCY = 48
"""Clocks of memory."""
WITHIN = 0.02
"""Largest difference from the baseline, as a share; a request alone takes the same clocks."""
CLOCKS = {
    4: {
        "hits_while_misses_are_deferred": 109,
        "kept_sums_while_gathers_wait": 667,
        "fills_while_lines_are_evicted": 300,
        "sums_of_closed_incomplete_lines": 890,
        "writes_and_reads_at_once": 367,
        "first_touch_after_a_closed_round": 193,
        "stores_that_miss": 300,
        "lone_sum": 68,
        "lone_kept_sum_after_info": 15,
        "sums_of_eight_workers": 321,
    },
    64: {
        "hits_while_misses_are_deferred": 429,
        "kept_sums_while_gathers_wait": 138,
        "fills_while_lines_are_evicted": 839,
        "sums_of_closed_incomplete_lines": 151,
        "writes_and_reads_at_once": 271,
        "first_touch_after_a_closed_round": 486,
        "stores_that_miss": 1061,
        "lone_sum": 68,
        "lone_kept_sum_after_info": 15,
        "sums_of_eight_workers": 321,
    },
}
"""Baseline, by number of slots: clocks from the first request to the last answer."""


class OverlapsTest(NfBaseTest):
    """Measurement of each overlap."""

    async def scenario(self) -> None:
        self.cfg.mem.latency = (LATENCY, LATENCY)
        run = self.sequence = NfSequence(self.env)
        lines_log2 = (2 * run.slots).bit_length()
        votes = await run.start_region(0, Mode.G_BINARY, lines_log2, 3, ready=True)
        sums = await run.start_region(1, Mode.FP32, lines_log2, 3, keep_sum=True, ready=True)
        some, data = range(16), bytes(64)

        def write(worker: int, line: int) -> M2SMessage:
            return run.write_msg(votes.address(worker, line), data)

        def hit(number: int) -> M2SMessage:
            return run.read_msg(votes.address(0, votes.lines - 1 - number % 4))

        await self.clocks(write(0, n) for n in range(votes.lines))
        measured = {
            # Three requests to lines in slots after each that misses.
            "hits_while_misses_are_deferred": await self.clocks(
                hit(n // 4) if n % 4 else write(1, n) for n in range(votes.lines)
            ),
            "fills_while_lines_are_evicted": await self.clocks(
                write(2, n) for n in range(votes.lines)
            ),
        }
        await self.clocks(
            run.write_msg(sums.address(worker, n), data) for n in some for worker in range(3)
        )
        kept = list(some)[:4]
        await self.clocks(run.read_msg(sums.address(0, n)) for n in kept)
        measured["kept_sums_while_gathers_wait"] = await self.clocks(
            run.read_msg(sums.address(0, kept[n % 4] if n % 2 else 4 + n // 2 % 12))
            for n in range(48)
        )
        await run.commit(1, sums)
        await self.clocks(run.write_msg(sums.address(n % 2, n // 2), data) for n in range(32))
        await run.close(1)
        measured["sums_of_closed_incomplete_lines"] = await self.clocks(
            run.read_msg(sums.address(0, n % 16)) for n in range(48)
        )
        measured["writes_and_reads_at_once"] = await self.clocks(
            hit(n) if n % 2 else write(0, votes.lines - 1 - n % 4) for n in range(256)
        )
        # What a commit forgets is not fetched, also where the round was closed.
        await run.close(0)
        await run.commit(0, votes)
        measured["first_touch_after_a_closed_round"] = await self.clocks(
            write(1, n) for n in range(votes.lines)
        )
        await run.commit(1, sums)
        for worker in range(3):
            measured["stores_that_miss"] = await self.clocks(
                run.write_msg(sums.address(worker, n), data) for n in range(sums.lines)
            )
        measured["lone_sum"] = await self.clocks([run.read_msg(sums.address(0, sums.lines - 1))])
        # The sum of the first line is kept, and comes back with an INFO that misses.
        await self.clocks(run.read_msg(sums.address(0, n)) for n in range(sums.lines))
        await self.clocks([run.read_msg(sums.address(1, 0))])
        measured["lone_kept_sum_after_info"] = await self.clocks([run.read_msg(sums.address(0, 0))])
        # Two sums are gathered at a time: one alone asks for a line every other clock.
        wide = await run.start_region(1, Mode.FP32, 2, 8, ready=True)
        await self.clocks(
            run.write_msg(wide.address(worker, n), data) for n in range(4) for worker in range(8)
        )
        measured["sums_of_eight_workers"] = await self.clocks(
            run.read_msg(wide.address(0, n % 4)) for n in range(32)
        )
        baseline = CLOCKS[run.slots]
        assert measured.keys() == baseline.keys()
        for name, clocks in measured.items():
            self.figure(f"{name}_clocks_at_latency_{LATENCY}", clocks)
        wrong = [
            f"{name}: {clocks} clocks, {baseline[name]} in the baseline"
            for name, clocks in measured.items()
            if abs(clocks - baseline[name]) > ("lone" not in name) * WITHIN * baseline[name]
        ]
        assert not wrong, "; ".join(wrong)

    async def clocks(self, messages: Iterable[M2SMessage]) -> int:
        """Send requests as fast as the link takes them; return the clocks to the last answer."""
        sent = [await self.sequence.issue(one, RACE_LIMIT) for one in messages]
        await self.env.cxl.host.drain()
        return int(max(one.end for one in sent) - sent[0].start)


@nf_test(OverlapsTest)
def overlaps() -> None:
    """Check that overlapping traffic takes as many clocks as before, within two per cent."""

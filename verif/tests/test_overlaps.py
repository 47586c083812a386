# SPDX-License-Identifier: Apache-2.0
"""Clocks of traffic in which two things overlap, compared with a baseline.

A fault that costs clocks alone breaks no answer. The order of requests is fixed and the data has no
effect on clocks, so that every seed and both simulators measure the same.
"""

from collections.abc import Iterable
from itertools import product

from cocotbext.cxl.wire.messages import M2SMessage
from models.modes import Mode
from models.regions import RegionConfig
from verif.env.base_test import NfBaseTest
from verif.sequences.base import RACE_LIMIT, NfSequence
from verif.tests.decorator import nf_test

LATENCY = 48
"""Clocks of memory."""
WITHIN = 0.02
"""Largest difference from the baseline, as a share; a request alone takes the same clocks."""
CLOCKS = {
    "hits_while_misses_are_deferred": {4: 109, 256: 1545},
    "kept_sums_while_gathers_wait": {4: 667, 256: 138},
    "fills_while_lines_are_evicted": {4: 300, 256: 3238},
    "sums_of_closed_incomplete_lines": {4: 890, 256: 151},
    "writes_and_reads_at_once": {4: 367, 256: 271},
    "first_touch_after_a_closed_round": {4: 193, 256: 1890},
    "stores_that_miss": {4: 300, 256: 4133},
    "lone_sum": {4: 68, 256: 68},
    "lone_kept_sum_after_info": {4: 15, 256: 15},
    "sums_of_eight_workers": {4: 321, 256: 321},
    "lone_miss_among_hits": {4: 21, 256: 21},
}
"""Baseline: clocks from the first request to the last answer, by number of slots."""


class OverlapsTest(NfBaseTest):
    """Measurement of each overlap."""

    async def scenario(self) -> None:
        self.cfg.mem.latency = (LATENCY, LATENCY)
        run = self.sequence = NfSequence(self.env)
        lines_log2 = (2 * run.slots).bit_length()
        votes = await run.start_region(0, Mode.G_BINARY, lines_log2, 3, ready=True)
        sums = await run.start_region(1, Mode.FP32, lines_log2, 3, keep_sum=True, ready=True)
        measured: dict[str, int] = {}

        async def timed(name: str, messages: Iterable[M2SMessage]) -> None:
            measured[name] = await self.clocks(messages)

        def write(worker: int, line: int, config: RegionConfig = votes) -> M2SMessage:
            return run.write_msg(config.address(worker, line), bytes(64))

        def read(line: int, config: RegionConfig = sums) -> M2SMessage:
            return run.read_msg(config.address(0, line))

        def hit(number: int) -> M2SMessage:
            return read(votes.lines - 1 - number % 4, votes)

        lines = range(votes.lines)
        await self.clocks(write(0, n) for n in lines)
        # Three requests to lines in slots after each that misses.
        await timed(
            "hits_while_misses_are_deferred", (hit(n // 4) if n % 4 else write(1, n) for n in lines)
        )
        await timed("fills_while_lines_are_evicted", (write(2, n) for n in lines))
        await self.clocks(write(worker, n, sums) for n, worker in product(range(16), range(3)))
        await self.clocks(read(n) for n in range(4))
        kept = (n % 4 if n % 2 else 4 + n // 2 % 12 for n in range(48))
        await timed("kept_sums_while_gathers_wait", map(read, kept))
        await run.commit(1, sums)
        await self.clocks(write(n % 2, n // 2, sums) for n in range(32))
        await run.close(1)
        await timed("sums_of_closed_incomplete_lines", (read(n % 16) for n in range(48)))
        mixed = (hit(n) if n % 2 else write(0, votes.lines - 1 - n % 4) for n in range(256))
        await timed("writes_and_reads_at_once", mixed)
        # What a commit forgets is not fetched, also where the round was closed.
        await run.close(0)
        await run.commit(0, votes)
        await timed("first_touch_after_a_closed_round", (write(1, n) for n in lines))
        await run.commit(1, sums)
        for worker in range(3):
            await timed("stores_that_miss", (write(worker, n, sums) for n in range(sums.lines)))
        await timed("lone_sum", [read(sums.lines - 1)])
        # The sum of the first line is kept, and comes back with an INFO that misses.
        await self.clocks(read(n) for n in range(sums.lines))
        await self.clocks([run.read_msg(sums.address(1, 0))])
        await timed("lone_kept_sum_after_info", [read(0)])
        # Two sums are gathered at a time: one alone asks for a line every other clock.
        wide = await run.start_region(1, Mode.FP32, 2, 8, ready=True)
        await self.clocks(write(worker, n, wide) for n, worker in product(range(4), range(8)))
        await timed("sums_of_eight_workers", (read(n % 4, wide) for n in range(32)))
        # The record arrives while an operation that hits enters the engine in each cycle: memory is
        # faster than the engine executes the reads that the credits cover.
        await self.clocks(read(n, votes) for n in lines)
        self.cfg.mem.latency = (4, 4)
        missed = await run.issue(write(2, 0), RACE_LIMIT)
        await self.clocks(read(votes.lines - 1 - n % 3, votes) for n in range(LATENCY))
        measured["lone_miss_among_hits"] = int(missed.end - missed.start)
        assert measured.keys() == CLOCKS.keys()
        wrong = []
        for name, clocks in measured.items():
            self.figure(f"{name}_clocks_at_latency_{LATENCY}", clocks)
            wanted = CLOCKS[name][run.slots]
            if abs(clocks - wanted) > ("lone" not in name) * WITHIN * wanted:
                wrong.append(f"{name}: {clocks} clocks, {wanted} in the baseline")
        assert not wrong, "; ".join(wrong)

    async def clocks(self, messages: Iterable[M2SMessage]) -> int:
        """Send requests as fast as the link takes them; return the clocks to the last answer."""
        sent = [await self.sequence.issue(one, RACE_LIMIT) for one in messages]
        await self.env.cxl.host.drain()
        return int(max(one.end for one in sent) - sent[0].start)


@nf_test(OverlapsTest)
def overlaps() -> None:
    """Check that overlapping traffic takes as many clocks as before, within two per cent."""

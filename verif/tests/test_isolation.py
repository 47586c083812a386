# SPDX-License-Identifier: Apache-2.0
"""Waits of one host's requests while another host keeps the device busy (second edition, §2).

A host sends single requests: alone, then during each activity of another host. The bound of a wait
depends on the latency of memory and on the rate of answers, not on the size of a region: three
times the latency alone, and the time of 64 answers, each as long as its beats at the port of memory
take or its data on the link; for a line that may have left its slot, two latencies of memory more
for each Req credit that a slot of a set has, and eight at least: another host may aim at one set.
The other host has as many requests under way as its credits cover.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import count

import cocotb

from cocotbext.cxl.transactions import Transaction
from cocotbext.cxl.wire.messages import M2SMessage, M2SRwD
from models.modes import Mode
from models.regions import RegionConfig
from verif.env.base_test import NfBaseTest
from verif.env.rtl_packages import parameter
from verif.parameters import build_parameters
from verif.sequences.base import RACE_LIMIT, NfSequence
from verif.sequences.sets import set_of
from verif.tests.decorator import nf_test

ANSWERS = 64
"""Requests of a class that may be answered before: as many as the device admits."""
LATENCIES = 2
LEAST_CREDITS = 4
LEAST_LATENCY = 32
"""A miss may take so many latencies of memory more for each credit of a slot; this many credits
and this many clocks of a latency count at least.
"""
PROBES = 5
"""Requests of each kind during an activity."""

Make = Callable[[], Awaitable[M2SMessage]]


class WaitsTest(NfBaseTest):
    """Measurement of the waits of one host during each activity of another one."""

    async def scenario(self) -> None:
        latency = int(self.settings.get("latency", 48))
        self.cfg.mem.latency = (latency, latency)
        run = self.sequence = NfSequence(self.env)
        workers = min(3, (1 << run.hw.cnt_w) - 1)
        marks_log2 = build_parameters().get("WRITTEN_LOG2", 12)
        # Two lines share a mark, where memory has room.
        lines_log2 = min(marks_log2 + 1, run.hw.mem_lines_log2 - 6)
        self.own = run.layout.region(Mode.G_BINARY, run.slots.bit_length(), workers)
        self.areas = [run.layout.region(Mode.G_BINARY, lines_log2, workers) for _ in range(2)]
        self.sums = run.layout.region(Mode.FP32, run.slots.bit_length(), workers)
        self.busy = False
        self.ways = min(parameter("WAYS"), run.slots)
        credits = max(LEAST_CREDITS, run.hw.req_credits / min(self.ways, parameter("PINS")))
        missing = LATENCIES * credits * max(latency, LEAST_LATENCY)
        await run.commit(0, self.own, ready=True)
        await run.fill_lines(self.own, None, 0)
        of_link = await self.clocks_of_an_answer()
        alone = await self.waits(4)
        for activity, beats in (
            (self.initialiser, 1),
            (self.contributions, 1),
            (self.votes, 1 + workers.bit_length()),  # its bookkeeping, and each plane of counts
            (self.sums_of_others, 1 + workers),
            (self.sums_of_one_set, 1 + workers),
            (self.commits, 1),
        ):
            answers, shares = ANSWERS * max(of_link, beats), {}
            for kind, clocks in (await self.during(activity)).items():
                miss = 0 if "plain" in kind else missing
                bound = 3 * alone[kind] + answers + miss
                shares[kind] = 100 * clocks / bound
                text = f"{activity.__name__}: {kind} waits {clocks} clocks, alone {alone[kind]}"
                self.logger.info("%s, bound %.0f", text, bound)
                assert clocks <= bound, f"{text}; the bound is {bound:.0f}"
            name = f"{activity.__name__}_at_latency_{latency}_percent_of_bound"
            self.figure(name, round(max(shares.values())))

    # -- the host that waits
    def kinds(self) -> dict[str, Make]:
        """Return what makes a request, by kind."""
        run, own = self.sequence, self.own
        lines = count()

        async def recent(write: bool) -> M2SMessage:
            await (await run.read(own.address(0, 0), RACE_LIMIT)).wait()
            return of_line(0, write)

        async def any_line(write: bool) -> M2SMessage:
            return of_line(1 + next(lines) * 7 % (own.lines - 1), write)

        async def plain(write: bool) -> M2SMessage:
            return run.write_msg(0, run.randbytes(64)) if write else run.read_msg(64)

        def of_line(line: int, write: bool) -> M2SMessage:
            address = own.address(0, line)
            return run.write_msg(address, run.randbytes(64)) if write else run.read_msg(address)

        return {
            f"{what} {name}": partial(make, write)
            for name, make in (("recent line", recent), ("other line", any_line), ("plain", plain))
            for what, write in (("read of", False), ("write to", True))
        }

    async def waits(self, rounds: int) -> dict[str, int]:
        """Return the longest wait of some requests of each kind, in clocks."""
        worst = {}
        for kind, make in self.kinds().items():
            sent: list[Transaction] = []
            while len(sent) < rounds:
                sent.append(await self.sequence.issue(await make()))
                await sent[-1].wait()
            worst[kind] = max(one.end - one.start for one in sent)
        return worst

    async def clocks_of_an_answer(self) -> float:
        """Return the clocks that an answer of one beat takes at the rates of link and memory."""
        reads = [await self.sequence.read(line << 6) for line in range(2, 2 + 2 * ANSWERS)]
        await self.sequence.drain()
        return float(reads[-1].end - reads[ANSWERS].end) / (ANSWERS - 1)

    # -- the host that keeps the device busy
    async def during(self, activity: Callable[[], Awaitable[None]]) -> dict[str, int]:
        """Return the longest waits of each kind of request during an activity."""
        self.busy = True
        task = cocotb.start_soon(activity())
        await self.env.clocks(200)
        worst = await self.waits(PROBES)
        self.busy = False
        await task
        await self.sequence.drain()
        return worst

    async def flood(self, make: Callable[[int], M2SMessage], most: int | None = None) -> None:
        """Keep as many requests under way as the credits of the host cover, but two of a class.

        Args:
            make: Returns the request of a number.
            most: Number of requests; None until the waits are measured.
        """
        hw = self.sequence.hw
        sent: list[Transaction] = []
        for number in range(most) if most else count():
            message = make(number)
            share = (hw.rwd_credits if isinstance(message, M2SRwD) else hw.req_credits) - 2
            while self.busy and len(sent) >= share:
                await self.env.clocks(1)
                sent = [one for one in sent if not one.done]
            if not self.busy:
                break
            sent.append(await self.sequence.issue(message, RACE_LIMIT))
        for one in sent:
            await one.wait()

    async def initialiser(self) -> None:
        """Claim areas in turn, and write lines that the initialiser has not reached."""
        run = self.sequence
        data = run.randbytes(64)
        while self.busy:
            for area in self.areas:
                await run.commit(1, area)

                def far(number: int, area: RegionConfig = area) -> M2SMessage:
                    line = area.lines - 1 - number * 2 % area.lines
                    return run.write_msg(area.address(0, line), data)

                await self.flood(far, min(area.lines // 2, 512))

    async def contributions(self) -> None:
        """Contribute to more lines than there are slots."""
        run, area = self.sequence, self.areas[0]
        data = run.randbytes(64)
        await run.commit(1, area)
        await self.flood(lambda n: run.write_msg(area.address(0, n % area.lines), data))

    async def votes(self) -> None:
        """Read votes of lines that were evicted."""
        run, area = self.sequence, self.areas[0]
        lines = min(area.lines, 4 * run.slots)
        await self.flood(lambda n: run.read_msg(area.address(0, n % lines)))

    async def sums_of_others(self) -> None:
        """Read FP32 sums, each of which is gathered."""
        await self.gathers(range(self.sums.lines))

    async def sums_of_one_set(self) -> None:
        """Read FP32 sums of lines of the set in which the recent line of the other host is."""
        sets = self.sequence.slots // self.ways
        aimed = set_of(0, 0, sets)
        await self.gathers([n for n in range(self.sums.lines) if set_of(1, n, sets) == aimed])

    async def gathers(self, lines: Sequence[int]) -> None:
        """Store to lines of an FP32 region as all workers, then read their sums."""
        run, config = self.sequence, self.sums
        await run.commit(1, config)
        data = run.randbytes(64)
        places = [(worker, line) for line in lines for worker in range(config.workers)]
        await self.flood(lambda n: run.write_msg(config.address(*places[n]), data), len(places))
        await self.flood(lambda n: run.read_msg(config.address(0, lines[n % len(lines)])))

    async def commits(self) -> None:
        """Commit and close a region, and read and write ordinary memory meanwhile."""
        run = self.sequence
        data = run.randbytes(64)
        await run.commit(1, self.areas[0])

        def plain(number: int) -> M2SMessage:
            address = (2 + number % 64) << 6
            return run.write_msg(address, data) if number % 2 else run.read_msg(address)

        task = cocotb.start_soon(self.flood(plain))
        while self.busy:
            await run.commit(1)
            await run.close(1)
        await task


@nf_test(WaitsTest)
def waits() -> None:
    """Check that no request waits longer than its bound during the activities of another host."""


@cocotb.parametrize(latency=[3, 48, 100, 300])
@nf_test(WaitsTest)
def waits_by_latency() -> None:
    """Check the same bound with fast and with slow memories."""

# SPDX-License-Identifier: Apache-2.0
"""Waits of one host's requests while another host keeps the device busy (second edition, §2).

A host probes the device with single requests: alone, then during each activity of another host.
The bound of a wait depends on the latency of memory and on the rate of answers, not on the size of
a region: three times the latency alone, and the time of 64 answers; for a miss eight latencies of
memory more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from itertools import count

import cocotb

from cocotbext.cxl.wire.messages import M2SMessage
from models.modes import Mode
from models.regions import RegionConfig
from verif.env.base_test import NfBaseTest
from verif.sequences.base import RACE_LIMIT, NfSequence
from verif.parameters import build_parameters
from verif.tests.decorator import nf_test

GROUP_LOG2 = 1
"""log2 of the lines that share a mark in the other host's region (hdl/README.md, Misses)."""
ANSWERS = 64
"""Answers that may come before: as many as the device admits of a class."""


class WaitsTest(NfBaseTest):
    """Measurement of the waits of one host during each activity of another one."""

    latency = 48
    """Clocks of memory."""
    rounds = 6
    """Probes of each kind during an activity."""

    async def scenario(self) -> None:
        self.latency = int(self.settings["latency"])
        self.cfg.mem.latency = (self.latency, self.latency)
        self.run_ = run = NfSequence(self.env)
        hw = run.hw
        self.busy = False
        workers = min(3, (1 << hw.cnt_w) - 1)
        large = min(build_parameters().get("WRITTEN_LOG2", 12) + GROUP_LOG2, hw.mem_lines_log2 - 5)
        self.own = run.layout.region(Mode.G_BINARY, (2 * hw.slots).bit_length(), workers)
        self.areas = [run.layout.region(Mode.G_BINARY, large, workers) for _ in range(2)]
        self.sums = run.layout.region(Mode.FP32, min(large, hw.slots.bit_length() + 1), workers)
        await run.commit(0, self.own, ready=True)
        for worker in range(2):
            for line in range(self.own.lines):
                await run.contribute(self.own, worker, line)
        await run.drain()
        answer = await self.clocks_an_answer()
        alone = {kind: max([await self.wait(probe) for _ in range(4)]) for kind, probe in self.probes()}
        for activity in (self.initialiser, self.contributions, self.votes, self.gathers, self.commits):
            worst = await self.beside(activity)
            for kind, waits in worst.items():
                miss = 0 if "plain" in kind else 8 * max(self.latency, 32)
                bound = 3 * alone[kind] + ANSWERS * answer + miss
                self.logger.info(f"{activity.__name__:14} {kind:18} {waits:6} alone {alone[kind]:5} bound {bound:6.0f} {'' if waits <= bound else 'OVER'}")

    # -- the host that waits
    def probes(self) -> Iterator[tuple[str, Callable[[], Awaitable[M2SMessage]]]]:
        """Yield the kinds of request, and what makes one."""
        run, own, slots = self.run_, self.own, self.run_.hw.slots
        lines = count()

        async def hit(selector: int, write: bool) -> M2SMessage:
            await (await run.read(own.address(0, 0), RACE_LIMIT)).wait()
            if write:
                return run.write_msg(own.address(selector, 0), run.randbytes(64))
            return run.read_msg(own.address(0, 0))

        async def miss(write: bool) -> M2SMessage:
            line = 1 + next(lines) * 7 % (own.lines - 1)
            if write:
                return run.write_msg(own.address(0, line), run.randbytes(64))
            return run.read_msg(own.address(0, line))

        async def plain(write: bool) -> M2SMessage:
            return run.write_msg(0, run.randbytes(64)) if write else run.read_msg(64)

        yield "plain read", lambda: plain(False)
        yield "plain write", lambda: plain(True)
        yield "vote, recent", lambda: hit(0, False)
        yield "contribution, recent", lambda: hit(0, True)
        yield "vote, miss", lambda: miss(False)
        yield "contribution, miss", lambda: miss(True)

    async def wait(self, make: Callable[[], Awaitable[M2SMessage]]) -> int:
        """Send one request; return the clocks until its answer."""
        sent = await self.run_.env.cxl.host.issue(await make())
        await sent.wait()
        return int(sent.end - sent.start)

    async def clocks_an_answer(self) -> float:
        """Return the clocks that an answer takes at the rates of link and memory."""
        reads = [await self.run_.read(line << 6) for line in range(2, 2 + 2 * ANSWERS)]
        await self.run_.drain()
        return (reads[-1].end - reads[ANSWERS].end) / (len(reads) - 1 - ANSWERS)

    # -- the host that keeps the device busy
    async def beside(self, activity: Callable[[], Awaitable[None]]) -> dict[str, int]:
        self.busy = True
        task = cocotb.start_soon(activity())
        await self.env.clocks(200)
        worst = {
            kind: max([await self.wait(probe) for _ in range(self.rounds)])
            for kind, probe in self.probes()
        }
        self.busy = False
        await task
        await self.run_.drain()
        return worst

    async def flood(self, make: Callable[[int], M2SMessage], most: int = 1 << 30) -> None:
        """Keep as many requests under way as the device admits, until the probes are done."""
        sent = []
        share = min(self.run_.hw.req_credits, self.run_.hw.rwd_credits) - 2
        for number in range(most):
            if not self.busy:
                break
            sent = [one for one in sent if not one.done]
            while len(sent) >= share:
                await self.env.clocks(1)
                sent = [one for one in sent if not one.done]
            sent.append(await self.run_.issue(make(number), RACE_LIMIT))

    def far(self, config: RegionConfig, number: int) -> int:
        """Return a line, from the end on, and each in another group of marks."""
        stride = max(1, config.lines >> build_parameters().get("WRITTEN_LOG2", 12))
        return config.lines - 1 - (number * stride + number * stride // config.lines) % config.lines

    async def initialiser(self) -> None:
        """Claim areas, and write lines that the initialiser has not reached."""
        while self.busy:
            for area in self.areas:
                await self.run_.commit(1, area)
                data = self.run_.randbytes(64)
                await self.flood(
                    lambda n, a=area: self.run_.write_msg(a.address(0, self.far(a, n)), data), 1000
                )

    async def contributions(self) -> None:
        """Contribute to more lines than there are slots."""
        area = self.areas[0]
        await self.run_.commit(1, area)
        data = self.run_.randbytes(64)
        await self.flood(
            lambda n: self.run_.write_msg(
                area.address(n // area.lines % area.workers, n % area.lines), data
            )
        )

    async def votes(self) -> None:
        """Read votes of lines that were evicted."""
        area = self.areas[0]
        lines = min(area.lines, 4 * self.run_.hw.slots)
        await self.flood(lambda n: self.run_.read_msg(area.address(0, n % lines)))

    async def gathers(self) -> None:
        """Read FP32 sums."""
        await self.run_.commit(1, self.sums)
        for worker in range(self.sums.workers):
            for line in range(self.sums.lines):
                await self.run_.write(self.sums.address(worker, line), self.run_.randbytes(64))
        await self.flood(lambda n: self.run_.read_msg(self.sums.address(0, n % self.sums.lines)))

    async def commits(self) -> None:
        """Commit and close a region while ordinary memory is read and written."""
        await self.run_.commit(1, self.areas[0])
        data = self.run_.randbytes(64)
        task = cocotb.start_soon(
            self.flood(
                lambda n: self.run_.write_msg((2 + n % 64) << 6, data)
                if n % 2
                else self.run_.read_msg((2 + n % 64) << 6)
            )
        )
        while self.busy:
            await self.run_.commit(1)
            await self.run_.close(1)
        await task


@cocotb.parametrize(latency=[3, 48, 100, 300])
@nf_test(WaitsTest)
def waits() -> None:
    """Check that no request of a host waits longer than the bound during another's activity."""

# SPDX-License-Identifier: Apache-2.0
"""New epochs while traffic runs: in other regions, and in the region that is committed."""

from __future__ import annotations

from dataclasses import replace

import cocotb

from models.line_packing import Mode
from models.regions import RegionConfig, records
from verif.sequences.base import NfSequence


class EpochOtherSequence(NfSequence):
    """One region is committed again and again while another one aggregates."""

    commits: int = 12
    lines_log2: int = 3
    workers: int = 6

    async def body(self) -> None:
        steady = self.layout.region(Mode.G_BINARY, self.lines_log2, self.workers)
        moving = self.layout.region(Mode.G_TERNARY, 1, 3)
        self.epoch = 0xFFFF_FFFC  # numbers wrap, and say nothing: 0 follows 2^32 - 1
        await self.commit(0, steady)
        await self.commit(1, moving)
        traffic = cocotb.start_soon(self.aggregate(steady))
        for number in range(self.commits):
            await self.contribute(moving, number % 3, number & 1)
            await self.drain_region(moving)
            await self.commit(1)
            await self.read_region(moving, number & 1, 0)
        await traffic

    async def drain_region(self, config: RegionConfig) -> None:
        """Waits for the answers of one region only."""
        await self.env.host.drain_if(lambda msg: msg.addr >> 12 == config.base >> 12)

    async def aggregate(self, config: RegionConfig) -> None:
        """All contributions, then all votes."""
        for worker in range(config.workers):
            for line in range(config.lines):
                await self.contribute(config, worker, line)
        await self.drain()
        for line in range(config.lines):
            await self.read_region(config, line, 0)


class EpochSameSequence(NfSequence):
    """The region in use is committed under traffic: each request is wholly before or after."""

    mode: Mode = Mode.G_BINARY
    commits: int = 8
    lines_log2: int = 4
    workers: int = 4
    reads: float = 0.15

    async def body(self) -> None:
        config = self.layout.region(self.mode, self.lines_log2, self.workers)
        await self.commit(0, config)
        self.stop = False
        traffic = cocotb.start_soon(self.traffic(config))
        for _ in range(self.commits):
            await self.env.clocks(self.rng.randint(5, 60))
            await self.commit(0)
        self.stop = True
        await traffic
        await self.drain()
        for line in range(config.lines):
            await self.read_region(config, line, 0)

    async def traffic(self, config: RegionConfig) -> None:
        """Random contributions and reads until `stop`; at most two in flight on a line."""
        rng = self.rng
        while not self.stop:
            line = rng.randrange(config.lines)
            if rng.random() < self.reads:
                await self.read_region(config, line, limit=2)
            else:
                await self.contribute(config, rng.randrange(config.workers), line, limit=2)


class CommitOverReadsSequence(NfSequence):
    """A commit gives a region other memory while its sums and votes wait for slow memory: these
    are of the round before it, whole."""

    async def body(self) -> None:
        rng = self.rng
        self.env.cfg.mem.latency = (60, 90)
        for mode in (Mode.FP32, Mode.G_BINARY, Mode.FP32):
            config = self.layout.region(mode, 4, rng.randint(3, 6))
            other = self.layout.region(mode, 4, config.workers)
            region = rng.randrange(self.cfg.hw.regions)
            await self.commit(region, config)
            lines = rng.sample(range(config.lines), 8)
            for worker in range(config.workers):
                for line in lines:
                    await self.contribute(config, worker, line)
            await self.drain()
            for line in lines:
                await self.read_region(config, line, 0)
            await self.commit(region, replace(config, state_base=other.state_base))
            for line in lines[:2]:
                await self.read_region(config, line, 0)
            await self.drain()


class CommitOverWritesSequence(NfSequence):
    """A commit gives a region other memory while contributions wait for the records of their lines
    or for the lines that they store: they count in the round before it. What they throw out is of a
    region beside it, so the commit has no write-back to wait for."""

    async def body(self) -> None:
        rng = self.rng
        for mode in (Mode.FP32, Mode.G_BINARY, Mode.G_TERNARY):
            self.env.cfg.mem.latency = (3, 20)
            config = self.layout.region(mode, 4, rng.randint(3, 6))
            other = self.layout.region(mode, 4, config.workers)
            beside = self.layout.region(Mode.G_BINARY, self.cfg.hw.slots.bit_length(), 3)
            region, next_to = rng.sample(range(self.cfg.hw.regions), 2)
            await self.commit(region, config)
            await self.commit(next_to, beside)
            lines = rng.sample(range(config.lines), 8)
            for line in lines:
                await self.contribute(config, 0, line)
            await self.drain()
            for line in range(self.cfg.hw.slots):  # they take the slots: nothing of `region` leaves
                await self.contribute(beside, 0, line)
            await self.drain()
            self.env.cfg.mem.latency = (60, 90)
            for line in lines:
                await self.contribute(config, rng.randrange(1, config.workers), line)
            await self.commit(region, replace(config, state_base=other.state_base))
            for line in lines[:4]:
                await self.contribute(config, 0, line)
            await self.drain()
            for line in lines:
                for selector in self.read_selectors(config)[-2:]:
                    await self.read_region(config, line, selector)
            await self.drain()


class StaleStateSequence(NfSequence):
    """A new epoch must not use old state, which is left in slots and in memory."""

    mode: Mode = Mode.G_BINARY
    epochs: int = 3

    async def body(self) -> None:
        slots = self.cfg.hw.slots
        lines_log2 = max(1, (2 * slots - 1).bit_length())
        config = self.layout.region(self.mode, lines_log2, 3)
        picked = self.rng.sample(range(config.lines), min(config.lines, slots + slots // 4))
        for number in range(self.epochs):
            await self.commit(0, config if number == 0 else None)
            for line in picked:
                if self.rng.random() < 0.7:
                    await self.contribute(config, self.rng.randrange(3), line)
            await self.drain()
            for line in picked[:: 1 + self.rng.randrange(3)]:
                await self.read_region(config, line)
            await self.drain()


class StaleNeighbourSequence(NfSequence):
    """Lines of a region that is too large for a mark of each: one was written in this epoch, the
    one beside it in the epoch before, and its record is fetched now."""

    async def body(self) -> None:
        rng = self.rng
        config = self.layout.region(rng.choice((Mode.G_BINARY, Mode.G_TERNARY)), 13, 3)
        region = rng.randrange(self.cfg.hw.regions)
        pairs = [2 * first for first in rng.sample(range(config.lines // 2), 6)]
        await self.commit(region, config)
        await self.write_back(config, [line + side for line in pairs for side in (0, 1)])
        await self.commit(region)
        fresh = [line + rng.randrange(2) for line in pairs]
        await self.write_back(config, fresh)
        first, distance = records(config, self.cfg.hw.cnt_w)
        unreadable = self.env.cfg.mem.read_error_lines  # what is stale cannot be lost
        unreadable.update(first + (line ^ 1) * distance + 1 for line in fresh[::2])
        for line in fresh:
            await self.read_region(config, line ^ 1, 8, limit=1)
            await self.read_region(config, line, 8, limit=1)
        await self.drain()
        unreadable.clear()
        await self.commit(region, replace(config, lines_log2=0))  # ends the initialiser

    async def write_back(self, config: RegionConfig, lines: list[int]) -> None:
        """A contribution to each of the lines, and to as many others as there are slots."""
        pairs = {line // 2 for line in lines}
        others = self.rng.sample(range(config.lines), 2 * self.cfg.hw.slots)
        for line in (*lines, *(line for line in others if line // 2 not in pairs)):
            await self.contribute(config, self.rng.randrange(3), line)
        await self.drain()

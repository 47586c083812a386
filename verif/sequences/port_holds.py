# SPDX-License-Identifier: Apache-2.0
"""Beats of the memory port that wait long for READY, by who sends or takes them; and commits that
come while something is under way. Needs few slots.
"""

from __future__ import annotations

import cocotb

from models.line_packing import FIRST_EDITION, LINE_BYTES, Mode
from models.regions import RAW_SELECTOR, RegionConfig
from verif.sequences.parked_programs import APART, MOST_PARKED, WORKERS, ParkedBase

HOLD = 40
"""Clocks for which a channel is held."""
REPEATS = 2


class TwoRegionBase(ParkedBase):
    """A low-bit region 0 of 16 lines, and an FP32 region 1."""

    low: RegionConfig
    fp32: RegionConfig

    async def two_regions(self, mode: Mode, fp32_lines_log2: int) -> None:
        """Commits both."""
        self.low = self.layout.region(mode, 4, WORKERS)
        self.fp32 = self.layout.region(Mode.FP32, fp32_lines_log2, WORKERS)
        await self.commit(0, self.low)
        await self.commit(1, self.fp32)


class HeldChannelSequence(TwoRegionBase):
    """Memory is not ready to take from each client; the device is not ready to take for each."""

    async def body(self) -> None:
        await self.prepare()
        await self.two_regions(Mode.G_BINARY, fp32_lines_log2=4)
        await self.initialised()
        for stall in (1.0, 0.5) * REPEATS:
            await self.memory_not_ready(stall)
        for delay in range(0, 48, 3):
            await self.device_not_ready(delay)
            await self.fills_not_taken(delay)

    async def memory_not_ready(self, stall: float) -> None:
        """Requests and data of each client are held for a while, or now and then; the first one
        finds a memory that was ready before it came."""
        mem, slots = self.env.cfg.mem, self.cfg.hw.slots
        for worker in range(4):
            await self.contribute(self.fp32, worker, 0)
        await self.drain()
        for name in ("aw_stall", "w_stall", "ar_stall"):
            for kind in ("record", "plain write", "plain read", "store", "sum", "initialiser"):
                for line in range(slots):
                    await self.contribute(self.low, 0, line)
                await self.contribute(self.fp32, 0, 0)
                await self.drain()
                commit = None
                setattr(mem, name, stall)
                for number in range(3):
                    if kind == "record":
                        await self.read_region(self.low, slots + number, 0)
                    elif kind == "plain write":
                        data = self.rng.randbytes(LINE_BYTES)
                        await self.write((3 + number) * LINE_BYTES, data)
                    elif kind == "plain read":
                        await self.read((3 + number) * LINE_BYTES)
                    elif kind == "store":
                        await self.contribute(self.fp32, number, 0)
                    elif kind == "sum":
                        await self.read_region(self.fp32, 0, 64)
                if kind == "initialiser":
                    region = self.layout.region(Mode.G_BINARY, 1, 3)
                    commit = cocotb.start_soon(self.commit(2, region))
                await self.env.clocks(APART + HOLD)
                setattr(mem, name, 0.0)
                if commit is not None:
                    await commit
                await self.drain()

    async def device_not_ready(self, delay: int) -> None:
        """Answers of the engine, one a clock, come before those of ordinary memory and of sums."""
        mem = self.env.cfg.mem
        for kind in ("contribute", "vote", "plane"):
            line = self.rng.randrange(self.low.lines)
            await self.away(self.low, line)
            await self.contribute(self.fp32, 0, 0)
            await self.drain()
            mem.r_stall = 1.0
            many = range(MOST_PARKED if delay % 2 else 5)
            await self.in_order([self.message(self.low, kind, line, worker) for worker in many])
            if kind == "plane":  # more, as answers of sums have a queue
                more = (self.message(self.low, kind, line) for _ in range(MOST_PARKED))
                await self.in_order([*more])
            mem.latency = (3 * APART, 3 * APART)
            if kind == "contribute":
                await self.write(7 * LINE_BYTES, self.rng.randbytes(LINE_BYTES), 1)
            elif kind == "vote":
                for line in range(3):
                    await self.read((8 + line) * LINE_BYTES)
            else:
                for number in range(10):
                    await self.read_region(self.fp32, 0, RAW_SELECTOR + number % 4)
            await self.env.clocks(2 * APART + delay)
            await self.release()
            mem.latency = (3, 3)

    async def fills_not_taken(self, delay: int) -> None:
        """Answers to stores, one a clock, come before what was fetched."""
        mem = self.env.cfg.mem
        lines = self.rng.sample(range(self.low.lines), 3)
        await self.away(self.low, *lines)
        await self.read_region(self.fp32, 1, 0)
        await self.drain()
        mem.b_stall = 1.0
        for worker in range(WORKERS):
            await self.contribute(self.fp32, worker, 1)
        await self.env.clocks(8 * APART)
        soon = bool(delay % 2)
        mem.latency = (1, 1) if soon else (2 * APART, 2 * APART)
        for line in lines:
            await self.read_region(self.low, line, 0)
        await self.env.clocks(delay % WORKERS if soon else APART + delay)
        await self.release()
        mem.latency = (3, 3)


class LatencySequence(ParkedBase):
    """Every path to memory waits for a short, a medium and a long time."""

    kept: RegionConfig  # its sums are kept

    async def body(self) -> None:
        await self.prepare()
        low = self.layout.region(Mode.G_BINARY, 4, WORKERS)
        fp32 = self.layout.region(Mode.FP32, 4, WORKERS)
        identity = self.layout.region(Mode.IDENTITY, 0, 1)
        self.kept = self.layout.region(Mode.FP32, 2, 2, keep_sum=True)
        for region, config in enumerate((low, fp32, identity, self.kept)):
            await self.commit(region, config)
        await self.initialised()
        for clocks in (1, 1, 8, 8, 30, 30, 80, 80):
            self.env.cfg.mem.latency = (clocks, clocks)
            await self.paths(low, fp32, identity)

    async def paths(self, low: RegionConfig, fp32: RegionConfig, identity: RegionConfig) -> None:
        """One request after the other."""
        rng = self.rng
        for config in (low, fp32):
            for line in range(2):
                await self.contribute(config, line, line, limit=1)
                await self.drain()
        await self.leave()
        for config in (low, fp32):
            for line in range(2):
                await self.read_region(config, line, 0)
                await self.drain()
        await self.contribute(fp32, 1, 1, be=rng.getrandbits(64) & ~1)
        await self.drain()
        for address in (identity.address(9, 0), 9 * LINE_BYTES):
            for _ in range(2):
                await self.write(address, rng.randbytes(LINE_BYTES), 1)
                await self.drain()
                await self.read(address)
                await self.drain()
        await self.commit(4, self.layout.region(Mode.G_TERNARY, 1, 2))
        await self.initialised()
        for line in range(self.kept.lines):
            for worker in range(self.kept.workers):
                await self.contribute(self.kept, worker, line, limit=1)
            await self.drain()
        for _ in range(2):  # gathered and kept; then fetched
            for line in range(self.kept.lines):
                await self.read_region(self.kept, line, 0)
                await self.drain()
            await self.leave()


class BusyCommitSequence(TwoRegionBase):
    """Commits of every mode while evictions, stores, sums and fills of others are under way."""

    async def body(self) -> None:
        await self.prepare()
        await self.two_regions(Mode.G_TERNARY, fp32_lines_log2=2)
        for mode in FIRST_EDITION:
            await self.commit(2, self.layout.region(mode, 0, 3))
            await self.initialised()
            for kind in ("nothing", "eviction", "store", "sum", "fill", "plain", "initialiser"):
                await self.meet(kind)
            await self.answers()
            await self.commit(2, self.layout.region(mode, 6, 3))
            await self.commit(2)  # while its own records are written
        await self.commit(2, self.layout.region(Mode.IDENTITY, 0, 1))

    async def answers(self) -> None:
        """A commit of region 2 while more answers wait than the link takes."""
        reader = cocotb.start_soon(self.flood())
        await self.env.clocks(3 * APART)
        await self.commit(2)
        await reader
        await self.drain()

    async def flood(self) -> None:
        """Reads of two lines, as fast as the link takes them."""
        for number in range(160):
            await self.read_region(self.low, number % 2, 0)

    async def meet(self, kind: str) -> None:
        """A commit of region 2 while memory does not answer."""
        mem = self.env.cfg.mem
        await self.contribute(self.fp32, 0, 0)
        for line in range(3 * self.cfg.hw.slots):
            await self.contribute(self.low, 0, line)
        await self.leave() if kind != "eviction" else await self.drain()
        await self.read_region(self.fp32, 0, 64)
        await self.drain()
        for line in range(self.cfg.hw.slots - 1):
            await self.contribute(self.low, 1, line)
        await self.drain()
        mem.b_stall = mem.r_stall = 1.0
        if kind == "eviction":
            for line in range(8, 10):
                await self.read_region(self.low, line, 0)
        elif kind == "store":
            await self.contribute(self.fp32, 1, 0)
        elif kind == "sum":
            await self.read_region(self.fp32, 0, 0)
        elif kind == "fill":
            for line in range(8, 11):
                await self.read_region(self.low, line, 0, limit=1)
        elif kind == "plain":
            await self.read(9 * LINE_BYTES)
        elif kind == "initialiser":
            await self.commit(3, self.layout.region(Mode.G_BINARY, 4, 3))
        await self.env.clocks(2 * APART)
        task = cocotb.start_soon(self.commit(2))
        await self.env.clocks(3 * APART)
        mem.b_stall = mem.r_stall = 0.0
        await task
        await self.drain()
        await self.initialised()

# SPDX-License-Identifier: Apache-2.0
"""The buffer of evictions at every level, slots that may not be taken, and marks of evicted lines.

Needs few slots: lines leave the chip when others are read.
"""

from __future__ import annotations

import cocotb

from models.line_packing import Mode
from verif.sequences.parked_programs import APART, ParkedBase

MISS_DEPTH, BUFFER = 64, 4
"""Evictions under way by default, and those of them whose data is held."""


class EvictionSequence(ParkedBase):
    """Every level of the eviction buffer, and every reason why a slot may not be taken."""

    async def body(self) -> None:
        await self.prepare()
        self.low = self.layout.region(Mode.G_BINARY, 5, 3)
        self.fp32 = self.layout.region(Mode.FP32, 0, 3)
        await self.commit(0, self.low)
        await self.commit(1, self.fp32)
        await self.initialised()
        await self.full_buffer()
        for delay in range(1, 25):
            await self.answered(delay)
        for store in (False, True):
            for dirty in (False, True):
                await self.busy_slot(store, dirty)
        for mode in (Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32):
            await self.before_initialiser(mode)
        for gap in range(4):
            await self.back_at_once(gap)
        await self.marks()
        await self.full_flight()

    async def dirty(self, first: int, count: int) -> None:
        """Lines in their slots that memory does not have as they are."""
        for line in range(first, first + count):
            await self.contribute(self.low, self.rng.randrange(3), line)
            await self.env.clocks(APART)

    async def full_buffer(self) -> None:
        """A fifth line is written back while four are not answered."""
        slots = self.cfg.hw.slots
        await self.leave()
        await self.dirty(0, slots)
        await self.drain()
        self.env.cfg.mem.b_stall = 1.0
        await self.dirty(slots, slots)
        for line in range(2 * slots, 3 * slots):
            await self.read_region(self.low, line, 0)
        await self.env.clocks(3 * APART)
        await self.release()

    async def answered(self, delay: int) -> None:
        """A line is written back around the clock in which memory answers to three others."""
        await self.leave()
        await self.dirty(0, self.cfg.hw.slots)
        await self.drain()
        self.env.cfg.mem.b_stall = 1.0
        for line in range(8, 11):
            await self.read_region(self.low, line, 0)
        await self.env.clocks(2 * APART)
        await self.read_region(self.low, 11, 0)
        await self.env.clocks(delay)
        await self.release()

    async def back_at_once(self, gap: int) -> None:
        """A line is wanted again in the clocks in which it leaves its slot, and while memory has
        not taken it."""
        mem, slots = self.env.cfg.mem, self.cfg.hw.slots
        for stall in (0.0, 1.0):
            await self.leave()
            await self.dirty(0, slots)
            await self.drain()
            mem.w_stall = stall
            await self.read_region(self.low, slots, 0)
            if gap:
                await self.env.clocks(gap)
            for line in range(slots):
                await self.read_region(self.low, line, 0)
            await self.env.clocks(2 * APART)
            mem.w_stall = 0.0
            await self.drain()

    async def marks(self) -> None:
        """Neighbours that share a mark, of which the second one to leave needs fewer planes than
        the first one, as many, and more; lines that share one with nobody; rounds without any."""
        for counts in ((1, 1), (1, 3), (3, 1)):
            await self.commit(0)
            await self.commit(0)
            self.env.cfg.mem.r_stall = 1.0
            first = [await self.read_region(self.low, line, 0) for line in range(2)]
            await self.env.clocks(2 * APART)
            forgotten = all(read.response is not None for read in first)
            assert forgotten, "a line that this round has not written waits for its record"
            self.env.cfg.mem.r_stall = 0.0
            for line, count in enumerate(counts):
                for worker in range(count):
                    await self.contribute(self.low, worker, line)
                await self.leave()
            self.env.cfg.mem.r_stall = 1.0
            half, last = self.low.lines // 2, self.low.lines - 1  # both behind the other mark
            others = [await self.read_region(self.low, line, 0) for line in (half, last)]
            await self.env.clocks(2 * APART)
            at_once = all(read.response is not None for read in others)
            assert at_once, "a line waits for the record of one that has another mark"
            self.env.cfg.mem.r_stall = 0.0
            for line in range(2):
                await self.read_region(self.low, line, 0)
            await self.drain()

    async def full_flight(self) -> None:
        """As many lines are written back as may be: the last ones are not even sent, then all
        wait for their answers. Lines in their slots do not wait."""
        slots, mem = self.cfg.hw.slots, self.env.cfg.mem
        many = self.layout.region(Mode.G_BINARY, 7, 1)
        await self.commit(2, many)
        await self.initialised()
        for more in range(3):
            await self.commit(2)
            last = slots + MISS_DEPTH - BUFFER - more
            for line in range(last):
                if line == slots:
                    mem.b_stall = 1.0
                await self.contribute(many, 0, line)
                await self.drain()
            mem.w_stall = 1.0
            for line in range(last, last + 2 * BUFFER):
                await self.contribute(many, 0, line)
                await self.env.clocks(4)
            await self.env.clocks(2 * APART)
            reads = [await self.read_region(many, line, 0) for line in range(last, last + BUFFER)]
            await self.env.clocks(2 * APART)
            hit = any(read.response is not None for read in reads)
            assert hit, "hits wait behind deferred operations of other lines"
            mem.w_stall = 0.0
            await self.env.clocks(2 * APART)
            await self.release()

    async def busy_slot(self, store: bool, dirty: bool) -> None:
        """A slot is wanted while stores or sums of another one are under way."""
        mem = self.env.cfg.mem
        for _ in range(3):
            await self.leave()
            await self.contribute(self.fp32, 0, 0)
            await self.drain()
            if dirty:
                await self.dirty(0, self.cfg.hw.slots - 1)
            await self.drain()
            mem.b_stall = mem.r_stall = 1.0
            if store:
                await self.contribute(self.fp32, 1, 0)
            else:
                await self.read_region(self.fp32, 0, 0)
            await self.env.clocks(2 * APART)
            await self.read_region(self.low, 12, 0)
            await self.env.clocks(2 * APART)
            mem.r_stall = 0.0
            await self.release()

    async def before_initialiser(self, mode: Mode) -> None:
        """Lines leave their slots behind the initialiser, while it is busy with others, and before
        it has come to their records."""
        mem, slots = self.env.cfg.mem, self.cfg.hw.slots
        config = self.layout.region(mode, 9, 2)
        mem.w_stall = 0.8
        await self.commit(0, config)
        first, last = range(3 * slots), range(config.lines - 3 * slots, config.lines)
        await self.env.clocks(5 * APART)
        for worker in range(2):  # of lines that have records by now: out, and in again
            for line in first:
                await self.contribute(config, worker, line)
            await self.drain()
        for line in last:
            await self.contribute(config, self.rng.randrange(2), line)
        await self.env.clocks(4 * APART)
        # A commit waits for the lines on their way out, and these for the initialiser.
        commit = cocotb.start_soon(self.commit(1))
        await self.env.clocks(4 * APART)
        mem.w_stall = 0.0
        await commit
        await self.drain()
        await self.initialised()
        for line in (*first, *last):
            await self.read_region(config, line, 0, limit=1)
        await self.drain()
        await self.commit(0, self.low)
        await self.initialised()

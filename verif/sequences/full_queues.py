# SPDX-License-Identifier: Apache-2.0
"""Queues of the engine that are full, and slots that may not be taken: each reason to stand still.

Memory stands still until the queue is full, and goes on; nothing is lost, repeated or overtaken.
"""

from __future__ import annotations

import cocotb

from models.line_packing import LINE_BYTES, Mode
from verif.sequences.parked_programs import APART, MOST_PARKED, WORKERS, ParkedBase


class FullExitSequence(ParkedBase):
    """More stores, and more sums, than the queues of their ways hold: parked ones, and hits."""

    async def body(self) -> None:
        await self.prepare()
        config = self.layout.region(Mode.FP32, 2, WORKERS)
        await self.commit(0, config)
        await self.initialised()
        mem = self.env.cfg.mem
        for kind in ("store", "raw"):
            await self.leave()
            await self.shut()
            messages = [self.message(config, kind, 0, worker) for worker in range(MOST_PARKED)]
            await self.in_order(messages)
            mem.aw_stall = mem.ar_stall = 1.0
            mem.b_stall = 0.0
            await self.env.clocks(3 * APART)
            mem.aw_stall = mem.ar_stall = 0.0
            await self.release()
            mem.aw_stall = mem.ar_stall = 1.0  # the line is in its slot now
            for worker in range(WORKERS):
                await self.issue(self.message(config, kind, 0, worker))
            await self.env.clocks(3 * APART)
            mem.aw_stall = mem.ar_stall = 0.0
            await self.drain()


class FullFillSequence(ParkedBase):
    """More lines are missing than the queue of fills holds. Needs 16 slots."""

    async def body(self) -> None:
        await self.prepare()
        lines = range(2 * MOST_PARKED)
        config = self.layout.region(Mode.G_TERNARY, 5, 3)
        await self.commit(0, config)
        await self.initialised()
        for line in lines:
            await self.contribute(config, 0, line)
        await self.leave()
        self.env.cfg.mem.ar_stall = 1.0
        for place in range(2):  # AR's queue is full before the first fill; a third would stop all
            await self.read((50 + place) * LINE_BYTES)
        await self.env.clocks(APART)
        for line in lines:  # not one a clock: three on their way fill the waiting queue as well
            await self.contribute(config, 1, line)
            await self.env.clocks(6)
        await self.env.clocks(APART)
        self.env.cfg.mem.ar_stall = 0.0
        await self.drain()


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


class BetweenBeatsSequence(ParkedBase):
    """Data of ordinary memory and of sums comes between the beats of a record."""

    rounds: int = 6

    async def body(self) -> None:
        await self.prepare()
        mem = self.env.cfg.mem
        config = self.layout.region(Mode.G_BINARY, 4, 64)
        fp32 = self.layout.region(Mode.FP32, 0, 6)
        await self.commit(0, config)
        await self.commit(1, fp32)
        await self.initialised()
        for worker in range(fp32.workers):
            await self.contribute(fp32, worker, 0)
        await self.drain()
        for _ in range(self.rounds):
            await self.leave()
            await self.read_region(fp32, 0, 0)
            await self.drain()
            mem.interleave = mem.reorder = True
            mem.r_stall = 1.0
            for line in range(3):
                await self.read_region(config, line, 0)
                await self.read((20 + line) * LINE_BYTES)
            await self.read_region(fp32, 0, 0)
            await self.env.clocks(2 * APART)
            mem.r_stall = 0.0
            await self.drain()
            mem.interleave = mem.reorder = False

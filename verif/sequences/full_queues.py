# SPDX-License-Identifier: Apache-2.0
"""Queues of the engine that are full: each reason to stand still.

Memory stands still until the queue is full, and goes on; nothing is lost, repeated or overtaken.
"""

from __future__ import annotations

from models.line_packing import LINE_BYTES, Mode
from models.regions import INFO_SELECTOR, RAW_SELECTOR, SUM16_SELECTOR, RegionConfig
from verif.sequences.parked_programs import APART, MOST_PARKED, WORKERS, ParkedBase

MISS_DEPTH, BUFFER = 64, 4
"""Evictions under way by default, and those of them whose data is held."""
PATIENCE = 256
"""Clocks that a deferred operation waits before those of FP32 that hit give way to it."""


class FullExitSequence(ParkedBase):
    """Stores and sums find no room in their queues, parked ones, fetched ones and hits; operations
    find no slot, and are deferred."""

    async def body(self) -> None:
        await self.prepare()
        self.fp32 = self.layout.region(Mode.FP32, 2, WORKERS)
        self.many = self.layout.region(Mode.G_BINARY, 7, 3)
        await self.commit(0, self.fp32)
        await self.commit(1, self.many)
        await self.initialised()
        for kind in ("store", "raw", "sum"):
            await self.no_room(kind)
        await self.beside_stores()
        await self.early()
        for config, selector in ((self.many, INFO_SELECTOR), (await self.codes(), SUM16_SELECTOR)):
            await self.away(config, 0)
            await self.read_region(config, 0, selector)
            await self.drain()
        await self.overtaken()
        alike = 8 + 64  # S0 cannot tell it from line 8 when that is deferred
        for rounds, (line, other) in enumerate(((8, 8), (8, alike), (alike, alike)), 1):
            await self.no_slot(line, other, 2 * rounds)
        for kind in ("store", "raw", "sum"):
            await self.no_turn(kind)

    async def codes(self) -> RegionConfig:
        """A region of integer codes."""
        config = self.layout.region(Mode.G_INT4, 0, 3)
        await self.commit(2, config)
        await self.initialised()
        return config

    async def full_exit(self, kind: str) -> None:
        """More stores or sums of line 0, which is in its slot, than their queue takes."""
        mem = self.env.cfg.mem
        if kind == "store":
            mem.aw_stall = 1.0
        else:
            mem.ar_stall = 1.0
        for worker in range(WORKERS):
            await self.issue(self.message(self.fp32, kind, 0, worker))
        await self.env.clocks(3 * APART)

    async def no_room(self, kind: str) -> None:
        """An operation that a fill would take along, and hits."""
        mem = self.env.cfg.mem
        await self.away(self.fp32, 1)
        await self.read_region(self.fp32, 0, RAW_SELECTOR)
        await self.drain()
        mem.r_stall = 1.0
        if kind != "store":  # its record is asked for while memory takes requests
            await self.issue(self.message(self.fp32, kind, 1))
            await self.env.clocks(APART)
        await self.full_exit(kind)
        if kind == "store":
            await self.issue(self.message(self.fp32, kind, 1))
            await self.env.clocks(APART)
        mem.r_stall = 0.0
        await self.env.clocks(3 * APART)
        for _ in range(2):  # of no record, and then in its slot: it needs no exit
            other = await self.read_region(self.many, 40, 0)
            await self.env.clocks(3 * APART)
            assert other.response is not None, f"another region waits for the exit of each {kind}"
        mem.aw_stall = mem.ar_stall = 0.0
        await self.drain()

    async def beside_stores(self) -> None:
        """Votes that wait for their record are answered when it comes, one after the other, while
        stores find no room."""
        mem = self.env.cfg.mem
        await self.away(self.many, 1)
        await self.read_region(self.fp32, 0, RAW_SELECTOR)
        await self.drain()
        mem.r_stall = 1.0
        votes = [await self.read_region(self.many, 1, 0) for _ in range(3)]
        await self.env.clocks(APART)
        await self.full_exit("store")
        mem.r_stall = 0.0
        await self.env.clocks(3 * APART)
        left = sum(vote.response is None for vote in votes)
        mem.aw_stall = 0.0
        await self.drain()
        assert not left, f"{left} votes wait for the room of stores"

    async def early(self) -> None:
        """A store and the record of its line: each of the two comes first."""
        mem = self.env.cfg.mem
        for name in ("r_stall", "b_stall"):
            await self.away(self.fp32, 1)
            setattr(mem, name, 1.0)
            await self.issue(self.message(self.fp32, "store", 1))
            await self.env.clocks(2 * APART)
            setattr(mem, name, 0.0)
            await self.drain()
        await self.away(self.fp32, 1)
        await self.issue(self.message(self.fp32, "poisoned store", 1))
        await self.drain()
        await self.away(self.fp32, 1)
        await self.contribute(self.fp32, 1, 1, be=1 << self.rng.randrange(64))
        await self.drain()

    async def overtaken(self) -> None:
        """Reads of a line that is there between more and more of one that is not."""
        await self.away(self.many, 0)
        await self.read_region(self.many, 1, 0)
        await self.drain()
        self.env.cfg.mem.r_stall = 1.0
        for _ in range(MOST_PARKED + 6):
            for line in range(2):
                await self.read_region(self.many, line, 8)
            await self.env.clocks(4)
        await self.env.clocks(APART)
        await self.release()

    async def no_slot(self, first: int, other: int, rounds: int) -> None:
        """All slots wait for their records, and `rounds` more reads of each; then line `first` is
        deferred, `other` behind it, and many more."""
        slots, mem = self.cfg.hw.slots, self.env.cfg.mem
        await self.away(self.many, *range(slots))
        mem.r_stall = 1.0
        for line in range(slots):
            await self.read_region(self.many, line, 0)
            await self.env.clocks(4)
        for line in rounds * [*range(slots)]:  # behind the others of its line
            await self.read_region(self.many, line, 8)
        await self.env.clocks(APART)
        for line in (first, other, *range(9, 9 + 2 * MOST_PARKED)):
            await self.read_region(self.many, line, 0)
            await self.env.clocks(4)
        await self.env.clocks(APART)
        await self.release()

    async def no_turn(self, kind: str) -> None:
        """An operation without a record has no room at its exit, and is deferred until it has.
        Reads of others are put behind it, though they have room, but for those of a line that is
        there: they take nothing that it waits for, however long."""
        mem = self.env.cfg.mem
        await self.commit(0)
        for worker in range(WORKERS):  # a sum of nothing asks memory for nothing
            await self.contribute(self.fp32, worker, 0)
        await self.read_region(self.many, 40, 0)
        await self.drain()
        await self.full_exit(kind)
        await self.issue(self.message(self.fp32, kind, 2))
        await self.env.clocks(PATIENCE + APART)
        hit = await self.read_region(self.many, 40, 0)
        await self.env.clocks(3 * APART)
        assert hit.response is not None, f"a read that hits waits for a deferred {kind}"
        for line in range(30, 33):
            await self.read_region(self.many, line, 0)
        await self.env.clocks(APART)
        mem.aw_stall = mem.ar_stall = 0.0
        await self.drain()


class FullFillSequence(ParkedBase):
    """More lines are missing than the queue of fills holds, and more records on their way than may
    be; then none is any more. Needs 16 slots for the queue."""

    async def body(self) -> None:
        await self.prepare()
        mem = self.env.cfg.mem
        lines = range(3 * MOST_PARKED)
        config = self.layout.region(Mode.G_TERNARY, 6, 3)
        await self.commit(0, config)
        await self.initialised()
        for line in lines:
            await self.contribute(config, 0, line)
        await self.leave()
        mem.ar_stall = 1.0
        mem.latency = (100, 100)  # the window grows
        for place in range(2):  # AR's queue is full before the first fill; a third would stop all
            await self.read((50 + place) * LINE_BYTES)
        await self.env.clocks(APART)
        for line in lines:
            await self.contribute(config, 1, line)
            await self.env.clocks(6)
        await self.env.clocks(APART)
        mem.ar_stall = 0.0
        await self.drain()
        mem.latency = (1, 1)  # and shrinks
        for _ in range(4):
            await self.leave()
            for line in lines:
                await self.read_region(config, line, 0)
                await self.env.clocks(6)
            await self.drain()


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
        for line in range(3):  # four planes each
            for worker in range(8):
                await self.contribute(config, worker, line)
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

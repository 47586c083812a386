# SPDX-License-Identifier: Apache-2.0
"""Queues of the engine that are full, and slots that may not be taken: each reason to stand still.

Memory stands still until the queue is full, and goes on; nothing is lost, repeated or overtaken.
"""

from __future__ import annotations

import cocotb

from models.line_packing import LINE_BYTES, Mode
from models.regions import INFO_SELECTOR, RAW_SELECTOR, SUM16_SELECTOR, RegionConfig
from verif.sequences.parked_programs import APART, MOST_PARKED, WORKERS, ParkedBase

MISS_DEPTH, BUFFER = 64, 4
"""Evictions under way by default, and those of them whose data is held."""


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
        await self.no_turn()

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
        other = await self.read_region(self.many, 40, 0)  # of no record: it needs no exit
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

    async def no_turn(self) -> None:
        """A store without a record has no room at its exit, and is deferred. Reads of others are
        put behind it, though they have room."""
        mem = self.env.cfg.mem
        await self.commit(0)
        await self.read_region(self.fp32, 0, RAW_SELECTOR)
        await self.drain()
        await self.full_exit("store")
        await self.issue(self.message(self.fp32, "store", 2))
        await self.env.clocks(APART)
        for line in range(30, 33):
            await self.read_region(self.many, line, 0)
        await self.env.clocks(APART)
        mem.aw_stall = 0.0
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
            last = await self.read_region(self.low, self.low.lines - 1, 0)
            await self.env.clocks(2 * APART)
            assert last.response is not None, "a line waits for the record of one in its row"
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

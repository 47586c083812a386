# SPDX-License-Identifier: Apache-2.0
"""Bursts that fill the engine's queues while memory is slow: misses, parked operations, stores."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import cocotb

from cocotbext.cxl.wire.messages import M2SMessage, M2SReq, ReqOp
from models.line_packing import FIRST_EDITION, LINE_BYTES, Mode
from models.regions import INFO_SELECTOR, RAW_SELECTOR, SUM16_SELECTOR, RegionConfig
from verif.parameters import build_parameters
from verif.sequences.base import NfSequence
from verif.sequences.line_data import fp32_line, line_for
from verif.sequences.pipeline_programs import APART, MOST_PARKED, WORKERS, ParkedBase


class ParkedSequence(NfSequence):
    """Up to all workers contribute to one line that is not on chip, back to back.

    The first one misses; the others are parked until its record is there, more than the queue of
    waiting operations holds. They commute: any order gives the same counts.
    """

    bursts: int = 6

    async def body(self) -> None:
        rng = self.rng
        self.env.cfg.mem.latency = (60, 140)
        configs: list[RegionConfig] = []
        for region, mode in enumerate((Mode.G_BINARY, Mode.FP32)):
            config = self.layout.region(mode, 4, rng.randint(40, 64))
            configs.append(config)
            await self.commit(region, config)
        for number in range(self.cfg.count(self.bursts)):
            config = configs[number % len(configs)]
            line = rng.randrange(config.lines)
            workers = rng.sample(range(config.workers), rng.randint(20, config.workers))
            for worker in workers:
                await self.contribute(config, worker, line)
            for _ in range(8):  # others want slots meanwhile
                other = rng.choice(configs)
                index = rng.choice([i for i in range(other.lines) if i != line])
                await self.contribute(other, rng.randrange(other.workers), index, limit=4)
            await self.drain()
            for selector in (0, *rng.sample(self.read_selectors(config)[1:], 3)):
                await self.read_region(config, line, selector)
            await self.drain()


class MissSequence(NfSequence):
    """A burst of contributions, each to another line: of few slots every one evicts a dirty line,
    of many each is filled, hit and taken from its line."""

    bursts: int = 4

    async def body(self) -> None:
        rng = self.rng
        mem = self.env.cfg.mem
        mem.latency = (20, 60)
        mem.w_stall = mem.aw_stall = 0.5
        slots = self.cfg.hw.slots
        config = self.layout.region(Mode.G_BINARY, max(6, slots.bit_length()), 5)
        await self.commit(rng.randrange(self.cfg.hw.regions), config)
        lines = rng.sample(range(config.lines), slots + max(12, slots // 4))
        for worker in range(self.cfg.count(self.bursts)):
            for line in rng.sample(lines, len(lines)):
                await self.contribute(config, worker % config.workers, line)
            await self.drain()
        for line in lines:
            for selector in (0, 8, 9):
                await self.read_region(config, line, selector)
        await self.drain()


class EverySlotSequence(NfSequence):
    """FP32 stores and sums of a few more lines than slots, in bursts: each slot is filled, stored
    to, summed from and given to another line; the next epoch takes all of them at once. Then the
    same with sums that are kept, which a slot gives without asking for its workers' lines."""

    async def body(self) -> None:
        rng = self.rng
        self.env.cfg.mem.latency = (10, 40)
        slots = self.cfg.hw.slots
        lines_log2 = max(4, slots.bit_length())
        lines = rng.sample(range(1 << lines_log2), slots + max(8, slots // 8))
        region = rng.randrange(self.cfg.hw.regions)
        for keep in (False, True):
            config = self.layout.region(Mode.FP32, lines_log2, 2, keep_sum=keep)
            for epoch in range(2):
                await self.commit(region, None if epoch else config)
                for worker in range(config.workers):
                    for line in rng.sample(lines, len(lines)):
                        await self.contribute(config, worker, line)
                await self.drain()
                for _ in range(1 + keep):
                    for line in rng.sample(lines, len(lines)):
                        await self.read_region(config, line, 0)
                    await self.drain()


class ReadOnlySequence(NfSequence):
    """Reads of many lines: no line changes, so nothing is written back."""

    async def body(self) -> None:
        rng = self.rng
        config = self.layout.region(Mode.G_BINARY, 5, 3)
        await self.commit(0, config)
        lines = rng.sample(range(config.lines), 2 * self.cfg.hw.slots + 2)
        for line in lines:
            await self.contribute(config, 0, line)
        await self.drain()
        for _ in range(2):
            for line in lines:
                await self.read_region(config, line, 0)
            await self.drain()
            before = await self.env.registers.read("EVICTION")
        for line in lines:
            await self.read_region(config, line, 8)
        await self.drain()
        written = await self.env.registers.read("EVICTION") - before
        assert not written, f"{written} lines were written back, though they were only read"


class StoreSequence(NfSequence):
    """FP32 stores, sums and raw reads of more lines than slots, with partial stores among them.

    Memory is slow: a slot is wanted while its stores or sums are under way.
    """

    transactions: int = 260
    partial: float = 0.5
    lines: int = 7

    async def body(self) -> None:
        rng = self.rng
        mem = self.env.cfg.mem
        mem.latency = (10, 90)
        mem.reorder = True
        config = self.layout.region(Mode.FP32, 3, 6)
        region = rng.randrange(self.cfg.hw.regions)
        await self.commit(region, config)
        for number in range(self.cfg.count(self.transactions)):
            line = rng.randrange(self.lines)
            kind = rng.random()
            if kind < 0.25:
                await self.read_region(config, line, 0, limit=3)
            elif kind < 0.35:
                await self.read_region(config, line, limit=3)
            else:
                await self.stores(config, rng.randrange(config.workers), line)
            if number % 90 == 89:
                await self.drain()
                await self.commit(region)

    async def stores(self, config: RegionConfig, worker: int, line: int) -> None:
        """One to three stores of a worker, back to back; perhaps poisoned."""
        rng = self.rng
        for _ in range(rng.choice((1, 1, 2, 3))):
            be = rng.getrandbits(64) if rng.random() < self.partial else None
            poison = rng.random() < 0.02
            data = fp32_line(rng)
            await self.contribute(config, worker, line, data, limit=3, be=be, poison=poison)


class StoreBurstSequence(NfSequence):
    """More stores of one line under way than any counter of few bits counts; then dense sums."""

    async def body(self) -> None:
        rng = self.rng
        mem = self.env.cfg.mem
        config = self.layout.region(Mode.FP32, 2, 64)
        await self.commit(0, config)
        for line in range(config.lines):
            await self.contribute(config, 0, line)
        await self.drain()
        mem.latency = (150, 200)
        mem.w_stall = mem.aw_stall = mem.ar_stall = 0.6
        for worker in range(1, 40):
            await self.contribute(config, worker, 0)
            if worker > 20:
                await self.contribute(config, worker, rng.randint(1, 3))
        await self.drain()
        mem.latency = (3, 3)
        for _ in range(24):
            await self.read_region(config, 0, rng.choice((0, 64 + rng.randrange(40))))
        await self.drain()
        for _ in range(100):  # one sum ends in the clock in which another one of its line begins
            await self.read_region(config, 0, 64 + rng.randrange(40))
            await self.env.clocks(rng.randint(1, 6))
        await self.drain()
        for line in range(config.lines):
            await self.read_region(config, line, 0)
        await self.drain()


class HammerSequence(NfSequence):
    """FP32 stores or reads without end, of as many lines as there are slots: each slot always has
    one under way, since memory takes longer than a round of them. A vote of another line needs one
    of the slots.

    AssertionError if the vote waits until they end.
    """

    most: int = 300
    apart: int = 8
    """Clocks: sent as fast as can be, they would come and go in bursts, and leave gaps."""
    racing: int = 4
    """Of one line, at most: the scoreboard tries all of their orders."""

    async def body(self) -> None:
        rng, slots = self.rng, self.cfg.hw.slots
        fp32 = self.layout.region(Mode.FP32, slots.bit_length(), 8)
        low = self.layout.region(Mode.G_BINARY, 2, 3)
        for region, config in zip(rng.sample(range(self.cfg.hw.regions), 2), (fp32, low)):
            await self.commit(region, config)
        latency = 6 * slots * self.apart
        self.env.cfg.mem.latency = (latency, latency)
        for reads in (False, True):
            for line in range(slots):
                await self.contribute(fp32, 0, line)
            await self.drain()
            for number in range(self.most):
                if number == slots * self.racing:
                    vote = await self.read_region(low, rng.randrange(low.lines), 0)
                elif number > slots * self.racing and vote.done:
                    break
                if reads:
                    await self.read_region(fp32, number % slots, 64, self.racing)
                else:
                    await self.contribute(fp32, number % 8, number % slots, limit=self.racing)
                await self.env.clocks(self.apart)
            assert vote.done, f"a vote stood behind {self.most} FP32 operations of other lines"
            await self.drain()


class EvictedSumSequence(NfSequence):
    """While a long sum is read, two of its workers store again; before, others want its slot.

    The second store is sent when the first is answered: a sum that holds the second alone is torn.
    """

    repeats: int = 8
    reads: int = 60

    async def body(self) -> None:
        rng = self.rng
        mem = self.env.cfg.mem
        config = self.layout.region(Mode.FP32, 0, 64)
        crowd = self.layout.region(Mode.G_BINARY, 5, 3)
        regions = rng.sample(range(self.cfg.hw.regions), 2)
        for region, one in zip(regions, (config, crowd), strict=True):
            await self.commit(region, one)
        for worker in range(config.workers):
            await self.contribute(config, worker, 0, self.values())
        await self.drain()
        mem.r_stall, mem.reorder, mem.interleave = 0.8, True, True  # a fill overtakes the sum
        for _ in range(self.cfg.count(self.repeats)):
            missing = rng.random() < 0.5  # then the first store is parked behind the sum
            if missing:
                await self.crowd_out(crowd)
                await self.drain()
            await self.read_region(config, 0, 0)
            if not missing:
                await self.env.clocks(rng.randint(1, 20))
                await self.crowd_out(crowd)
            low, high = rng.randrange(2 if missing else 40), rng.randrange(50, 64)
            ldid = self.ldid_for(config, low)
            await self.call(self.write_msg(config.address(low, 0), self.values(), ldid=ldid))
            await self.contribute(config, high, 0, self.values())
            await self.drain()
        mem.r_stall, mem.latency = 0.2, (3, 12)
        for _ in range(self.cfg.count(self.reads)):  # one ends in the clock in which one begins
            await self.read_region(config, 0, 64 + rng.randrange(64), limit=12)
        await self.drain()

    async def crowd_out(self, crowd: RegionConfig) -> None:
        """Other lines want all slots."""
        for line in self.rng.sample(range(crowd.lines), 2 * self.cfg.hw.slots):
            await self.contribute(crowd, self.rng.randrange(3), line)

    def values(self) -> bytes:
        """Values of one scale: no infinity or NaN that would swallow all other workers."""
        return struct.pack("<16f", *(self.rng.uniform(-1, 1) for _ in range(16)))


class PoisonedStoreSequence(NfSequence):
    """A poisoned FP32 store is all that a slot has seen when another line takes it."""

    async def body(self) -> None:
        rng = self.rng
        config = self.layout.region(Mode.FP32, 4, 3)
        await self.commit(rng.randrange(self.cfg.hw.regions), config)
        lines = rng.sample(range(config.lines), min(config.lines, self.cfg.hw.slots + 4))
        for line in lines:
            data = line_for(config.mode, rng)
            await self.contribute(config, rng.randrange(3), line, data, poison=True)
        await self.drain()
        for line in lines:
            await self.read_region(config, line, 0)
        await self.drain()


class FlowSequence(NfSequence):
    """Requests without end of one kind, single ones of the other: none waits for ever.

    `reads_flood`: reads are the flood, and writes must pass; else the other way round.
    """

    reads_flood: bool = True
    flood: int = 160
    patience: int = 150

    async def body(self) -> None:
        self.env.cfg.mem.w_stall = 0.7  # the flood backs up into the device
        for number in range(self.flood):
            await self.one(self.reads_flood)
            if number % 40 == 20:
                pending: Any = await self.one(not self.reads_flood)
                after = 0
                while not pending.done:
                    await self.one(self.reads_flood)
                    after += 1
                    assert after < self.patience, "starved by requests that came later"
        await self.drain()

    async def one(self, read: bool) -> Any:
        """A read or a write of ordinary memory."""
        addr = self.rng.randrange(128) << 6
        if read:
            return await self.read(addr | 1 << 14)
        return await self.write(addr, self.rng.randbytes(64))


class HeldSequence(NfSequence):
    """More requests of one kind wait for the host's credits than there are places for answers.

    Those of the other kind must pass, and a commit: it waits for answers, not until the host takes
    them. MemSpecRd, which nobody answers, takes no place at all.
    """

    data: bool = True  # reads wait, writes must pass; else the other way round
    waiting: int = 90
    passing: int = 20

    async def body(self) -> None:
        rng = self.rng
        for _ in range(self.waiting):
            await self.issue(M2SReq(ReqOp.MEM_SPEC_RD, 0, rng.randrange(64) << 6))
        held = [await self.one(self.data, number) for number in range(self.waiting)]
        await self.env.clocks(300)  # until every place is taken
        for number in range(self.passing):
            await self.one(not self.data, 1 << 8 | number)
        await self.env.host.drain_if(lambda msg: msg.addr >= 1 << 14)
        await self.commit(0, self.layout.region(Mode.G_BINARY, 0, 1))
        gone = sum(request.done for request in held)
        assert gone < 8, f"{gone} of the held requests went first: others waited for them"
        self.env.link.link.return_delay = (0, 8)
        await self.drain()
        for number in range(self.passing):
            await self.issue(M2SReq(ReqOp.MEM_INV_NT, 0, number << 6))
        await self.drain()
        await self.commit(0)

    async def one(self, read: bool, line: int) -> Any:
        """A read or a write of ordinary memory."""
        if read:
            return await self.read(line << 6)
        return await self.write(line << 6, self.rng.randbytes(64))


# Queues of the engine that are full: each reason to stand still.
#
# Memory stands still until the queue is full, and goes on; nothing is lost, repeated or
# overtaken.


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


# Memory stands still on one channel: how much the device takes before it stands still too, and
# what goes on meanwhile.
#
# The figures are the sizes of its queues, each filled to its last place. A place less would only
# be slower, which no comparison of results can tell. Needs 16 slots.


PORT = 2
"""Requests of all clients in the port to memory, each way."""
FILLS = 14
"""Records that are still to be asked for: the queue has 16 places, two for what may be on its way
to it."""
EVICTIONS = 4
"""Lines whose data is still to be sent."""
BUILT_MISS_DEPTH = build_parameters().get("BUILT_MISS_DEPTH", 64)
"""Records that memory has been asked for, and as many that it has been sent."""
EXITS = 8
"""FP32 stores or reads that keep the memory port busy for a while."""
ADMITTED = 64
"""Requests of each class of answer inside the device."""
RECORDS, PLAIN = 0, 1
"""AXI IDs of records and of ordinary memory."""
NEAR, COVER = 12, 12
"""A latency, and records of two beats that cover it: half as many, and those that are asked for
until the first comes."""
MISS = 17
"""Clocks of a read that misses, from and to the host, beside those of memory."""
FAR, CALM = 24, 4
"""A latency that takes more records; rounds after which they are as few again."""
MORE = 6
"""Requests beyond what fits."""
FIRST = 1
"""Addresses that a memory at rest takes before it stands still: it was ready already."""


class StandstillSequence(ParkedBase):
    """Each queue of the memory paths, filled by requests far enough apart to be alone in it."""

    async def body(self) -> None:
        await self.prepare()
        slots = self.cfg.hw.slots
        self.low = self.layout.region(
            Mode.G_BINARY, (2 * (slots + BUILT_MISS_DEPTH)).bit_length(), 2
        )
        self.fp32 = self.layout.region(Mode.FP32, 0, WORKERS)
        await self.commit(0, self.low)
        await self.commit(1, self.fp32)
        await self.initialised()
        await self.new_epoch()
        await self.busy_channel()
        await self.gathers()
        await self.victims()
        await self.lone_misses()
        await self.fills()
        await self.evictions()
        await self.admission()
        await self.turns()

    async def counted(self, counter: str, messages: Sequence[M2SMessage]) -> int:
        """By how much a counter rises while requests come that memory does not let pass."""
        before = await self.env.registers.read(counter)
        for message in messages:
            await self.issue(message)
        await self.env.clocks(len(messages) + 8 * APART)
        return await self.env.registers.read(counter) - before

    async def new_epoch(self) -> None:
        """A commit that leaves the area where it is needs no new records; KEEP_SUM means nothing to
        counts."""
        for config in (None, replace(self.low, keep_sum=True), self.low):
            await self.commit(0, config)
            busy = await self.env.registers.read("STATUS.INIT_BUSY")
            assert not busy, "records written once more"

    async def victims(self) -> None:
        """The line that has been longest in its slot leaves first: the others are still there."""
        slots = self.cfg.hw.slots
        new = self.rng.randrange(1, slots)
        await self.leave()
        for line in range(slots + new):
            await self.read_region(self.low, line, 0)
        await self.drain()
        before = await self.env.registers.read("SLOT_MISS")
        for line in range(new, slots + new):
            await self.read_region(self.low, line, 0)
        await self.drain()
        missed = await self.env.registers.read("SLOT_MISS") - before
        assert not missed, f"{missed} lines left their slots before older ones"

    async def lone_misses(self) -> None:
        """A line that misses alone waits for memory and its way there, whether the line that leaves
        for it has to be written or not."""
        mem, slots = self.env.cfg.mem, self.cfg.hw.slots
        lines = await self.recorded(16)
        latency, mem.latency = mem.latency, (NEAR, NEAR)
        took = []
        for dirty in (False, True):
            await self.leave()
            for line in range(slots if dirty else 0):
                await self.contribute(self.low, 0, line)
            await self.drain()
            for _ in range(8):
                read = await self.read_region(self.low, lines.pop(), 0)
                await self.drain()
                took.append(read.end - read.start)
        mem.latency = latency
        assert max(took) <= NEAR + MISS, f"misses take {took} clocks at a latency of {NEAR}"

    async def recorded(self, lines: int) -> list[int]:
        """Lines of which memory holds a record of this epoch; no slot holds them."""
        last = self.low.lines
        for line in range(last - lines, last):
            await self.contribute(self.low, 0, line)
        await self.leave()
        return list(range(last - lines, last))

    async def busy_channel(self) -> None:
        """Memory sends records all the time: it is asked for as many as cover its latency, and the
        reads of others stand behind no more; also when it was slower some hundred records ago."""
        slots, mem = self.cfg.hw.slots, self.env.cfg.mem
        lines = await self.recorded(2 * slots)
        latency, mem.latency = mem.latency, (FAR, FAR)
        for number in range(1 + CALM):
            for line in lines:
                await self.read_region(self.low, line, 0)
            await self.drain()
            if not number:
                mem.latency = (NEAR, NEAR)
        most = 0
        for line in lines[:slots]:
            await self.read_region(self.low, line, 0)
        while self.env.host.flight:
            await self.env.clocks(1)
            most = max(most, self.env.mem.responder.waiting[0].count(RECORDS))
        mem.latency = latency
        assert most <= COVER, f"{most} records asked for, {COVER} cover a latency of {NEAR}"

    async def gathers(self) -> None:
        """Memory takes no reads, or answers to no writes: a sum that is kept is answered from its
        slot beside any number of reads of workers' lines that wait, and beside a store to another
        line in no more clocks."""
        mem, kept = self.env.cfg.mem, self.layout.region(Mode.FP32, 0, 2, keep_sum=True)
        await self.commit(2, kept)
        await self.initialised()
        for worker in range(WORKERS):
            await self.contribute(self.fp32, worker, 0)
            await self.contribute(kept, worker % kept.workers, 0)
            await self.drain()
        await self.read_region(kept, 0, 0)
        await self.drain()
        mem.ar_stall = 1.0
        sums = []
        for number in range(EXITS + MORE):
            await self.issue(self.message(self.fp32, "raw", 0, number % WORKERS))
            await self.env.clocks(APART)
            sums.append(await self.read_region(kept, 0, 0))
            await self.env.clocks(2 * APART)
        found = [one.done for one in sums]
        mem.ar_stall = 0.0
        await self.drain()
        assert all(found), f"sums that are kept wait for reads of workers' lines: {found}"
        mem.b_stall = 1.0
        await self.contribute(self.fp32, 0, 0)
        await self.env.clocks(APART)
        other = await self.read_region(kept, 0, 0)
        await self.env.clocks(2 * APART)
        done = other.done
        mem.b_stall = 0.0
        await self.drain()
        alone = max(one.end - one.start for one in sums)
        took = other.end - other.start
        assert done, "a sum waits for a store to another line"
        assert took <= alone, f"{took} clocks beside a store to another line, not {alone}"

    async def fills(self) -> None:
        """Lines that miss while memory takes no address, and while it answers to none."""
        mem, slots = self.env.cfg.mem, self.cfg.hw.slots
        asked = min(slots, BUILT_MISS_DEPTH + FILLS, ADMITTED)
        for channel, room in (("ar_stall", FILLS + PORT + FIRST), ("r_stall", asked)):
            lines = await self.recorded(room + MORE)
            setattr(mem, channel, 1.0)
            found = await self.counted(
                "SLOT_MISS", [self.message(self.low, "vote", line) for line in lines]
            )
            setattr(mem, channel, 0.0)
            await self.drain()
            assert found == room, f"{found} lines wait for their records, room is for {room}"

    async def evictions(self) -> None:
        """Lines that leave the chip while memory takes no address of a write, and while it answers
        to none. Who wants a slot whose line did not change need not wait."""
        mem, slots = self.env.cfg.mem, self.cfg.hw.slots
        sent = EVICTIONS + PORT + FIRST
        for channel, room in (("aw_stall", sent), ("b_stall", BUILT_MISS_DEPTH)):
            for dirty in (slots, sent // 2):
                await self.leave()
                for line in range(slots):
                    if line < dirty:
                        await self.contribute(self.low, 0, line)
                    else:
                        await self.read_region(self.low, line, 0)
                await self.drain()
                setattr(mem, channel, 1.0)
                before = await self.env.registers.read("EVICTION")
                all_dirty, others = dirty == slots, []
                for line in range(slots, slots + room + MORE):
                    if all_dirty:
                        others.append(await self.contribute(self.low, 0, line))
                    else:
                        others.append(await self.read_region(self.low, line, 0))
                await self.env.clocks(len(others) + 8 * APART)
                found = await self.env.registers.read("EVICTION") - before
                done = sum(other.done for other in others)
                setattr(mem, channel, 0.0)
                await self.drain()
                wanted = room if all_dirty else min(dirty, room + MORE)
                assert found == wanted, f"{found} lines on their way out, not {wanted} ({channel})"
                served = room if all_dirty else room + MORE
                assert done == served, f"{done} others answered, {served} need not wait ({channel})"

    async def admission(self) -> None:
        """Reads and writes of ordinary memory that memory does not answer."""
        mem = self.env.cfg.mem
        mem.b_stall = mem.r_stall = 1.0
        for number in range(ADMITTED + MORE):
            await self.read(number * LINE_BYTES)
            await self.write((128 + number) * LINE_BYTES, self.rng.randbytes(LINE_BYTES))
        await self.env.clocks(8 * APART)
        found = [list(ids).count(PLAIN) for ids in self.env.mem.responder.waiting]
        mem.b_stall = mem.r_stall = 0.0
        await self.drain()
        assert found == [ADMITTED] * 2, f"{found} reads and writes admitted, not {ADMITTED}"

    async def turns(self) -> None:
        """Clients of the memory port that wait at once are served by turns."""
        mem, slots = self.env.cfg.mem, self.cfg.hw.slots
        recorded = await self.recorded(EVICTIONS)
        for line in range(slots - 1):
            await self.contribute(self.low, 0, line)
        for worker in range(EXITS):
            await self.contribute(self.fp32, worker, 0)
        await self.drain()
        for write in (False, True):
            mem.ar_stall = mem.aw_stall = mem.b_stall = mem.r_stall = 1.0
            kind = "store" if write else "raw"
            await self.in_order([self.message(self.fp32, kind, 0, w) for w in range(EXITS)])
            if write:
                mem.ar_stall = mem.r_stall = 0.0  # what is read pushes dirty lines out
            lines = range(slots, slots + EVICTIONS) if write else recorded
            await self.in_order([self.message(self.low, "vote", line) for line in lines])
            for number in range(MORE):
                address = number * LINE_BYTES
                if write:
                    await self.write(address, self.rng.randbytes(LINE_BYTES))
                else:
                    await self.read(address)
            await self.env.clocks(APART)
            mem.ar_stall = mem.aw_stall = 0.0
            await self.env.clocks(2 * APART)
            ids = self.env.mem.responder.waiting[write]
            mem.b_stall = mem.r_stall = 0.0
            await self.drain()
            # Some of the first client had left when the others came; three clients wait then.
            start = FIRST + 2
            rounds = [ids[at : at + 3] for at in range(start, start + 3 * (EVICTIONS - 1), 3)]
            assert all(len(set(one)) == 3 for one in rounds), f"served in the order {ids}"


# Beats of the memory port that wait long for READY, by who sends or takes them; and commits that
# come while something is under way. Needs few slots.


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

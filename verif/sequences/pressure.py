# SPDX-License-Identifier: Apache-2.0
"""Bursts that fill the queues of the engine, with a slow or stalled memory or a stalled host."""

import struct
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from itertools import product
from typing import Any

import cocotb

from cocotbext.cxl.wire.messages import M2SReq, ReqOp
from models.line_packing import LINE_BYTES
from models.modes import FIRST_EDITION, Mode
from models.regions import INFO_SELECTOR, RAW_SELECTOR, SUM16_SELECTOR, RegionConfig
from verif.parameters import build_parameters
from verif.sequences.base import ANY, NfSequence
from verif.sequences.line_data import fp32_line
from verif.sequences.pipeline_programs import APART, MOST_PARKED, WORKERS, ParkedBase
from verif.sequences.sets import displacing


class ParkedSequence(NfSequence):
    """Back-to-back contributions of up to all workers to one line that is in no slot.

    The first one misses; the others are parked until its record arrives, more than the queue of
    waiting operations holds. They commute: any order gives the same counts.
    """

    async def body(self) -> None:
        self.mem.latency = (60, 140)
        configs = [
            await self.start_region(region, mode, 4, self.randint(40, 64))
            for region, mode in enumerate((Mode.G_BINARY, Mode.FP32))
        ]
        for number in range(self.cfg.count(6)):
            config = configs[number % len(configs)]
            line = self.randrange(config.lines)
            workers = self.sample(range(config.workers), self.randint(20, config.workers))
            await self.fill_lines(config, line, workers, wait=False)
            for _ in range(8):  # other lines need slots at the same time
                other = self.choice(configs)
                index = self.choice([i for i in range(other.lines) if i != line])
                await self.contribute(other, self.randrange(other.workers), index, limit=4)
            await self.drain()
            selectors = (0, *self.sample(self.read_selectors(config)[1:], 3))
            await self.read_lines(config, line, selectors)


class MissSequence(NfSequence):
    """Bursts of contributions, each to another line, with a memory that is slow to accept writes.

    With few slots each evicts a dirty line; with many each slot is filled, hit and reused.
    """

    async def body(self) -> None:
        self.mem.latency = (20, 60)
        self.mem.w_stall = self.mem.aw_stall = 0.5
        config = await self.start_region(None, Mode.G_BINARY, max(6, self.slots.bit_length()), 5)
        lines = self.sample(range(config.lines), self.slots + max(12, self.slots // 4))
        for number in range(self.cfg.count(4)):
            await self.fill_lines(config, self.shuffled(lines), number % config.workers)
        await self.read_lines(config, lines, (0, 8, 9))


class EverySlotSequence(NfSequence):
    """FP32 stores and reads of sums of more lines than slots, in bursts, without and with KEEP_SUM.

    Each slot is filled, stored to, summed from and given to another line; the next epoch of the
    region claims all slots at once. With KEEP_SUM later sums are answered without reads of the
    workers' lines.
    """

    async def body(self) -> None:
        self.mem.latency = (10, 40)
        lines_log2 = max(4, self.slots.bit_length())
        lines = self.sample(range(1 << lines_log2), self.slots + max(8, self.slots // 8))
        region = self.any_region()
        for keep in (False, True):
            config = self.layout.region(Mode.FP32, lines_log2, 2, keep_sum=keep)
            for epoch in range(2):
                await self.commit(region, None if epoch else config)
                for worker in range(config.workers):
                    await self.fill_lines(config, self.shuffled(lines), worker, wait=worker > 0)
                for _ in range(1 + keep):
                    await self.read_lines(config, self.shuffled(lines))


class ReadOnlySequence(NfSequence):
    """Reads of more lines than slots: no line changes, so EVICTION must count no write-back."""

    async def body(self) -> None:
        config = await self.start_region(0, Mode.G_BINARY, 5, 3)
        lines = self.sample(range(config.lines), 2 * self.slots + 2)
        await self.fill_lines(config, lines, 0)
        for _ in range(2):
            await self.read_lines(config, lines)
            before = await self.registers.read("EVICTION")
        await self.read_lines(config, lines, 8)
        written = await self.registers.read("EVICTION") - before
        assert not written, f"{written} lines were written back, though they were only read"


class StoreSequence(NfSequence):
    """FP32 stores, partial stores, and reads of sums and of workers' lines, with slow memory.

    7 lines are in use: with fewer slots, a slot is needed while its stores or sums are in progress.
    """

    async def body(self) -> None:
        self.mem.latency = (10, 90)
        self.mem.reorder = True
        config = self.layout.region(Mode.FP32, 3, 6)
        region = self.any_region()
        await self.commit(region, config)
        for number in range(self.cfg.count(260)):
            line = self.randrange(7)
            kind = self.random()
            if kind < 0.35:
                await self.read_region(config, line, 0 if kind < 0.25 else None, limit=3)
            else:
                await self.stores(config, self.randrange(config.workers), line)
            if number % 90 == 89:
                await self.drain()
                await self.commit(region)

    async def stores(self, config: RegionConfig, worker: int, line: int) -> None:
        """Issue one to three stores of a worker back to back: 2 % poisoned, half partial."""
        for _ in range(self.choice((1, 1, 2, 3))):
            be = self.getrandbits(64) if self.random() < 0.5 else None
            poison = self.random() < 0.02
            data = fp32_line(self.rng)
            await self.contribute(config, worker, line, data, limit=3, be=be, poison=poison)


class StoreBurstSequence(NfSequence):
    """About 40 FP32 stores of one line in progress at once, then bursts of reads of it.

    The stores are more than a small counter of them could count. The reads are of the sum and of
    single workers' lines.
    """

    async def body(self) -> None:
        config = await self.start_region(0, Mode.FP32, 2, 64)
        await self.fill_lines(config, None, 0)
        self.mem.latency = (150, 200)
        self.mem.w_stall = self.mem.aw_stall = self.mem.ar_stall = 0.6
        for worker in range(1, 40):
            await self.contribute(config, worker, 0)
            if worker > 20:
                await self.contribute(config, worker, self.randint(1, 3))
        await self.drain()
        self.mem.latency = (3, 3)
        await self.read_each(
            (config, 0, self.choice((0, 64 + self.randrange(40)))) for _ in range(24)
        )
        for _ in range(100):  # a sum ends in the cycle in which another one of its line begins
            await self.read_region(config, 0, 64 + self.randrange(40))
            await self.cycles(self.randint(1, 6))
        await self.drain()
        await self.read_lines(config)


class HammerSequence(NfSequence):
    """An endless stream of FP32 stores, then reads, that keeps every slot busy, and one vote.

    There are as many FP32 lines as slots, and memory takes longer than one pass over them, so each
    slot always has an operation in progress. The vote is on another line and needs a slot, in the
    second stream a record, too; AssertionError if it waits until the stream ends.
    """

    racing: int = 4
    """Maximum number of requests in flight on a line: the scoreboard tries all of their orders."""

    async def body(self) -> None:
        fp32 = self.layout.region(Mode.FP32, self.slots.bit_length(), 8)
        low = self.layout.region(Mode.G_BINARY, 2, 3)
        await self.commit_all(fp32, low, regions=self.sample(range(self.hw.regions), 2))
        latency = 6 * self.slots * 8
        self.mem.latency = (latency, latency)
        for reads in (False, True):
            if reads:
                await self.fill_lines(low, range(low.lines), 0)
            await self.fill_lines(fp32, range(self.slots), 0)
            for number in range(300):
                if number == self.slots * self.racing:
                    vote = await self.read_region(low, self.randrange(low.lines), 0)
                elif number > self.slots * self.racing and vote.done:
                    break
                if reads:
                    await self.read_region(fp32, number % self.slots, 64, self.racing)
                else:
                    await self.contribute(fp32, number % 8, number % self.slots, limit=self.racing)
                await self.cycles(8)  # without a distance they would form bursts with gaps
            assert vote.done, f"a vote waited for {300} FP32 operations of other lines"
            await self.drain()


class EvictedSumSequence(NfSequence):
    """Two workers store again while a long FP32 sum is read and other lines compete for its slot.

    The second store is sent after the response of the first: a sum that holds only the second one
    is torn.
    """

    async def body(self) -> None:
        config = self.layout.region(Mode.FP32, 0, 64)
        crowd = self.layout.region(Mode.G_BINARY, 5, 3)
        await self.commit_all(config, crowd, regions=self.sample(range(self.hw.regions), 2))
        await self.fill_lines(config, 0, data=lambda _worker, _line: self.values())
        self.mem.r_stall = 0.8
        self.mem.reorder = self.mem.interleave = True  # a fill overtakes the sum
        for _ in range(self.cfg.count(8)):
            missing = self.random() < 0.5  # the first store is then parked after the sum
            if missing:
                await self.crowd_out(crowd)
                await self.drain()
            await self.read_region(config, 0, 0)
            if not missing:
                await self.cycles(self.randint(1, 20))
                await self.crowd_out(crowd)
            low, high = self.randrange(2 if missing else 40), self.randrange(50, 64)
            ldid = self.ldid_for(config, low)
            await self.call(self.write_msg(config.address(low, 0), self.values(), ldid=ldid))
            await self.contribute(config, high, 0, self.values())
            await self.drain()
        self.mem.r_stall, self.mem.latency = 0.2, (3, 12)
        # one ends in the cycle in which one begins
        await self.read_each(
            ((config, 0, 64 + self.randrange(64)) for _ in range(self.cfg.count(60))), limit=12
        )

    async def crowd_out(self, crowd: RegionConfig) -> None:
        """Contribute to twice as many other lines as there are slots, without waiting."""
        lines = self.sample(range(crowd.lines), 2 * self.slots)
        await self.fill_lines(crowd, lines, ANY, wait=False)

    def values(self) -> bytes:
        """Draw a line of binary32 values in -1..1: infinity or NaN would hide other workers."""
        return struct.pack("<16f", *(self.rng.uniform(-1, 1) for _ in range(16)))


class PoisonedStoreSequence(NfSequence):
    """Slots that are reused after nothing but a poisoned FP32 store, which marks the line only."""

    async def body(self) -> None:
        config = await self.start_region(None, Mode.FP32, 4, 3)
        lines = self.sample(range(config.lines), min(config.lines, self.slots + 4))
        await self.fill_lines(config, lines, ANY, poison=True)
        await self.read_lines(config, lines)


class FlowSequence(NfSequence):
    """A flood of plain reads or writes, and single requests of the other kind that must not starve.

    `reads_flood`: the flood consists of reads and writes must pass, or the other way round.
    """

    reads_flood: bool = True

    async def body(self) -> None:
        self.mem.w_stall = 0.7  # back-pressure reaches into the device
        for number in range(160):
            await self.one(self.reads_flood)
            if number % 40 == 20:
                pending = await self.one(not self.reads_flood)
                after = 0
                while not pending.done:
                    await self.one(self.reads_flood)
                    after += 1
                    assert after < 150, f"starved by {after} later requests"
        await self.drain()

    async def one(self, read: bool) -> Any:
        """Issue a plain read or write; return its `Transaction`. The kinds use different lines."""
        return await self.ordinary(read, self.randrange(128) | read << 8)


class HeldSequence(NfSequence):
    """More requests of one kind than places for responses, which wait for credits of the host.

    Requests of the other kind must pass, and so must a commit, which waits until all requests are
    served, but not until the host accepts their responses. MemSpecRd has no response and takes no
    place. `data`: reads wait and writes must pass, or the other way round.
    """

    data: bool = True

    async def body(self) -> None:
        for _ in range(90):
            await self.issue(M2SReq(ReqOp.MEM_SPEC_RD, 0, self.randrange(64) * LINE_BYTES))
        held = [await self.ordinary(self.data, number) for number in range(90)]
        await self.cycles(300)  # until every place is taken
        for number in range(20):
            await self.ordinary(not self.data, 1 << 8 | number)
        await self.env.host.drain_if(lambda msg: msg.addr >= 1 << 14)
        await self.start_region(0, Mode.G_BINARY, 0, 1)
        gone = sum(request.done for request in held)
        assert gone < 8, f"{gone} of the held requests completed: others waited for them"
        self.env.link.link.return_delay = (0, 8)
        await self.drain()
        for number in range(20):
            await self.issue(M2SReq(ReqOp.MEM_INV_NT, 0, number * LINE_BYTES))
        await self.drain()
        await self.commit(0)


PATIENCE = 256
"""Cycles that a deferred operation waits before FP32 operations that hit give way to it."""


class FullExitSequence(ParkedBase):
    """FP32 stores and sums that find the queue to memory full: parked, fetched, or in their slot.

    Memory stalls until a queue is full, then continues: nothing is lost, repeated or reordered.
    Operations that find no slot are deferred.
    """

    async def body(self) -> None:
        self.fp32 = await self.start_region(0, Mode.FP32, 2, WORKERS)
        self.many = await self.start_region(1, Mode.G_BINARY, 7, 3, ready=True)
        for kind in ("store", "raw", "sum"):
            await self.no_room(kind)
        await self.votes_with_stores()
        await self.early()
        codes = await self.start_region(2, Mode.G_INT4, 0, 3, ready=True)
        for config, selector in ((self.many, INFO_SELECTOR), (codes, SUM16_SELECTOR)):
            await self.away(config, 0)
            await self.read_lines(config, 0, selector)
        await self.overtaken()
        alike = 8 + 64  # stage S0 cannot distinguish it from line 8 when that is deferred
        for rounds, (line, other) in enumerate(((8, 8), (8, alike), (alike, alike)), 1):
            await self.no_slot(line, other, 2 * rounds)
        for kind in ("store", "raw", "sum"):
            await self.no_turn(kind)

    def exit_stalled(self, kind: str) -> AbstractAsyncContextManager[None]:
        """Return a context that stalls AW for kind "store", else AR."""
        return self.stalled("aw" if kind == "store" else "ar")

    async def full_exit(self, kind: str) -> None:
        """Send more stores or sums of line 0, which is in a slot, than their queue holds."""
        for worker in range(WORKERS):
            await self.issue(self.message(self.fp32, kind, 0, worker))
        await self.cycles(3 * APART)

    async def no_room(self, kind: str) -> None:
        """Fill the queue to memory while a parked operation of `kind` waits to issue with a fill.

        Reads of another region must still be answered.
        """
        await self.away(self.fp32, 1)
        await self.read_lines(self.fp32, 0, RAW_SELECTOR)
        with self.memory(r_stall=1.0):
            if kind != "store":  # request its record while memory accepts requests
                await self.issue(self.message(self.fp32, kind, 1))
                await self.cycles(APART)
            self.mem.aw_stall, self.mem.ar_stall = float(kind == "store"), float(kind != "store")
            await self.full_exit(kind)
            if kind == "store":
                await self.issue(self.message(self.fp32, kind, 1))
                await self.cycles(APART)
        await self.cycles(3 * APART)
        for _ in range(2):  # without a record, then in its slot: it needs no exit
            other = await self.read_region(self.many, 40, 0)
            await self.cycles(3 * APART)
            assert other.response is not None, f"another region waits for the exit of each {kind}"
        self.mem.aw_stall = self.mem.ar_stall = 0.0
        await self.drain()

    async def votes_with_stores(self) -> None:
        """Check that parked votes are answered when their record arrives while stores are stuck."""
        await self.away(self.many, 1)
        await self.read_lines(self.fp32, 0, RAW_SELECTOR)
        with self.memory(r_stall=1.0):
            votes = await self.read_lines(self.many, [1] * 3, wait=False)
            await self.cycles(APART)
            self.mem.aw_stall = 1.0
            await self.full_exit("store")
        await self.cycles(3 * APART)
        left = sum(vote.response is None for vote in votes)
        self.mem.aw_stall = 0.0
        await self.drain()
        assert not left, f"{left} votes wait for the exit of stores"

    async def early(self) -> None:
        """Let the response of a store arrive before and after the record of its line."""
        for channel in ("r", "b"):
            await self.away(self.fp32, 1)
            async with self.stalled(channel):
                await self.issue(self.message(self.fp32, "store", 1))
                await self.cycles(2 * APART)
        await self.away(self.fp32, 1)
        await self.issue(self.message(self.fp32, "poisoned store", 1))
        await self.away(self.fp32, 1)
        await self.fill_lines(self.fp32, 1, 1, be=1 << self.randrange(64))

    async def overtaken(self) -> None:
        """Alternate reads of a line in its slot with parked reads of a line that is not."""
        await self.away(self.many, 0)
        await self.read_lines(self.many, 1)
        async with self.stalled("r"):
            for _ in range(MOST_PARKED + 6):
                await self.read_lines(self.many, range(2), 8, wait=False)
                await self.cycles(4)
            await self.cycles(APART)

    async def no_slot(self, first: int, other: int, rounds: int) -> None:
        """Defer line `first`, then `other` and many more, while no slot can be freed.

        All slots wait for their records, each with `rounds` more parked reads.
        """
        slots = range(self.slots)
        await self.away(self.many, *slots)
        async with self.stalled("r"):
            await self.read_lines(self.many, slots, apart=4, wait=False)
            await self.read_lines(self.many, rounds * [*slots], 8, wait=False)
            await self.cycles(APART)
            deferred = (first, other, *range(9, 9 + 2 * MOST_PARKED))
            await self.read_lines(self.many, deferred, apart=4, wait=False)
            await self.cycles(APART)

    async def no_turn(self, kind: str) -> None:
        """Defer an operation without a record because the queue to memory is full.

        Later reads are queued after it although they have room, except reads that hit: they use
        nothing that it waits for, however long it waits.
        """
        await self.commit(0)
        # A sum without contributions would read nothing from memory.
        await self.fill_lines(self.fp32, 0, range(WORKERS), wait=False)
        await self.read_lines(self.many, 40)
        async with self.exit_stalled(kind):
            await self.full_exit(kind)
            await self.issue(self.message(self.fp32, kind, 2))
            await self.cycles(PATIENCE + APART)
            hit = await self.read_region(self.many, 40, 0)
            await self.cycles(3 * APART)
            assert hit.response is not None, f"a read that hits waits for a deferred {kind}"
            await self.read_lines(self.many, range(30, 33), wait=False)
            await self.cycles(APART)


class FullFillSequence(ParkedBase):
    """More lines that miss than the queue of fills holds, and more records than may be in flight.

    Then lines that miss one at a time. Needs 16 slots for the queue.
    """

    async def body(self) -> None:
        lines = range(3 * MOST_PARKED)
        config = await self.start_region(0, Mode.G_TERNARY, 6, 3, ready=True)
        await self.fill_lines(config, lines, 0)
        await self.leave()
        with self.memory(ar_stall=1.0):
            self.mem.latency = (100, 100)  # the window grows
            for place in range(2):  # AR's queue is full before the first fill; 3 would stop all
                await self.read((50 + place) * LINE_BYTES)
            await self.cycles(APART)
            await self.fill_lines(config, lines, 1, apart=6, wait=False)
            await self.cycles(APART)
        await self.drain()
        self.mem.latency = (1, 1)  # and shrinks
        for _ in range(4):
            await self.leave()
            await self.read_lines(config, lines, apart=6)


class BetweenBeatsSequence(ParkedBase):
    """Read data of ordinary memory and of FP32 sums between the beats of a record's burst."""

    async def body(self) -> None:
        config = await self.start_region(0, Mode.G_BINARY, 4, 64)
        fp32 = await self.start_region(1, Mode.FP32, 0, 6, ready=True)
        await self.fill_lines(fp32, 0, wait=False)
        for line in range(3):  # four planes each
            await self.fill_lines(config, line, range(8), wait=False)
        for _ in range(6):
            await self.leave()
            await self.read_lines(fp32, 0)
            with self.memory(interleave=True, reorder=True):
                async with self.stalled("r"):
                    for line in range(3):
                        await self.read_region(config, line, 0)
                        await self.read((20 + line) * LINE_BYTES)
                    await self.read_region(fp32, 0, 0)
                    await self.cycles(2 * APART)


PORT = 2
"""Number of requests of all clients that the memory port holds, for each direction."""
FILLS = 14
"""Number of records that wait to be requested: the queue has 16 places, 2 for those in transit."""
EVICTIONS = 4
"""Number of lines whose data waits to be sent to memory."""
BUILT_MISS_DEPTH = build_parameters().get("BUILT_MISS_DEPTH", 64)
"""Maximum number of records requested from memory, and of records sent to it."""
EXITS = 8
"""Number of FP32 stores or reads that keep the memory port busy for a while."""
ADMITTED = 64
"""Maximum number of requests of each class of response (NDR, DRS) inside the device."""
RECORDS, PLAIN = 0, 1
"""AXI IDs of records and of ordinary memory."""
NEAR, COVER = 12, 12
"""A memory latency in cycles, and the number of records of two beats in flight that cover it."""
MISS = 17
"""Cycles that a read that misses takes in addition to the memory latency."""
FAR, CALM = 24, 4
"""A latency that needs more records, and the passes after which their number has dropped."""
MORE = 6
"""Number of requests beyond the capacity of a queue."""
FIRST = 1
"""Number of addresses that an idle memory accepts before it stalls: READY was high already."""


class StandstillSequence(ParkedBase):
    """Each queue of the memory paths, filled to its last place while memory stalls on a channel.

    Counts the requests that the device accepts before it stalls, and checks that unrelated traffic
    continues. One place less would only be slower, which no comparison of results can detect.
    Requests are far enough apart to be alone in a queue. Needs 16 slots.
    """

    async def body(self) -> None:
        lines_log2 = (2 * (self.slots + BUILT_MISS_DEPTH)).bit_length()
        self.low = await self.start_region(0, Mode.G_BINARY, lines_log2, 2)
        self.fp32 = await self.start_region(1, Mode.FP32, 0, WORKERS, ready=True)
        await self.new_epoch()
        await self.busy_channel()
        await self.gathers()
        await self.victims()
        await self.lone_misses()
        await self.fills()
        await self.evictions()
        await self.admission()
        await self.turns()

    async def new_epoch(self) -> None:
        """Check that a commit without a change of the state area does not initialise records again.

        KEEP_SUM has no effect on the area of a region of counts.
        """
        for config in (None, replace(self.low, keep_sum=True), self.low):
            await self.commit(0, config)
            busy = await self.registers.read("STATUS.INIT_BUSY")
            assert not busy, "the initialiser writes records again after a commit"

    async def victims(self) -> None:
        """Check that the line that has been in its slot for the longest time is evicted first."""
        new = self.randrange(1, self.slots)
        await self.leave()
        await self.read_lines(self.low, range(self.slots + new))
        before = await self.registers.read("SLOT_MISS")
        await self.read_lines(self.low, range(new, self.slots + new))
        missed = await self.registers.read("SLOT_MISS") - before
        assert not missed, f"{missed} lines left their slots before older ones"

    async def lone_misses(self) -> None:
        """Check that single misses, with clean or dirty victim, take at most NEAR + MISS cycles."""
        lines = await self.recorded(16)
        took = []
        with self.memory(latency=(NEAR, NEAR)):
            for dirty in (False, True):
                await self.leave()
                await self.fill_lines(self.low, range(self.slots if dirty else 0), 0)
                reads = await self.read_lines(self.low, lines[: -8 - 1 : -1], alone=True)
                del lines[-8:]
                took += [read.end - read.start for read in reads]
        assert max(took) <= NEAR + MISS, f"misses take {took} cycles at a latency of {NEAR}"

    async def recorded(self, lines: int) -> list[int]:
        """Return the last `lines` lines of the region; they get a record and are in no slot."""
        found = range(self.low.lines - lines, self.low.lines)
        await self.fill_lines(self.low, found, 0)
        await self.leave()
        return list(found)

    async def busy_channel(self) -> None:
        """Check that only as many records are requested at a time as cover the memory latency.

        Reads of other clients then wait for no more than these, also if memory was slower a few
        hundred records earlier.
        """
        lines = await self.recorded(2 * self.slots)
        with self.memory(latency=(FAR, FAR)):
            for number in range(1 + CALM):
                await self.read_lines(self.low, lines)
                if not number:
                    self.mem.latency = (NEAR, NEAR)
            most = 0
            await self.read_lines(self.low, lines[: self.slots], wait=False)
            while self.env.host.flight:
                await self.cycles(1)
                most = max(most, self.env.mem.responder.waiting[0].count(RECORDS))
        assert most <= COVER, f"{most} records requested, {COVER} cover a latency of {NEAR}"

    async def gathers(self) -> None:
        """Check that a kept sum (KEEP_SUM) is answered from its slot while memory stalls.

        First with any number of reads of workers' lines that wait for AR, then with a store to
        another line whose response is stalled: the sum takes no more cycles.
        """
        kept = await self.start_region(2, Mode.FP32, 0, 2, keep_sum=True, ready=True)
        for worker in range(WORKERS):
            await self.contribute(self.fp32, worker, 0)
            await self.fill_lines(kept, 0, worker % kept.workers)
        await self.read_lines(kept, 0)
        sums = []
        async with self.stalled("ar"):
            for number in range(EXITS + MORE):
                await self.issue(self.message(self.fp32, "raw", 0, number % WORKERS))
                await self.cycles(APART)
                sums += await self.read_lines(kept, 0, apart=2 * APART, wait=False)
            found = [one.done for one in sums]
        assert all(found), f"kept sums wait for reads of workers' lines: {found}"
        async with self.stalled("b"):
            await self.fill_lines(self.fp32, 0, 0, apart=APART, wait=False)
            (other,) = await self.read_lines(kept, 0, apart=2 * APART, wait=False)
            done = other.done
        alone = max(one.end - one.start for one in sums)
        took = other.end - other.start
        assert done, "a sum waits for a store to another line"
        assert took <= alone, f"{took} cycles with a store to another line, {alone} without"

    async def fills(self) -> None:
        """Check how many lines miss while memory accepts no read address or returns no data."""
        asked = min(self.slots, BUILT_MISS_DEPTH + FILLS, ADMITTED)
        for channel, room in (("ar", FILLS + PORT + FIRST), ("r", asked)):
            lines = await self.recorded(room + MORE)
            async with self.stalled(channel):
                before = await self.registers.read("SLOT_MISS")
                for line in lines:
                    await self.issue(self.message(self.low, "vote", line))
                await self.cycles(len(lines) + 8 * APART)
                found = await self.registers.read("SLOT_MISS") - before
            assert found == room, f"{found} lines wait for their records, expected {room}"

    async def evictions(self) -> None:
        """Check how many lines are evicted while memory takes no address or sends no response.

        An operation that needs the slot of a clean line does not wait.
        """
        sent = EVICTIONS + PORT + FIRST
        channels = (("aw", sent), ("b", BUILT_MISS_DEPTH))
        for (channel, room), dirty in product(channels, (self.slots, sent // 2)):
            await self.leave()
            await self.fill_lines(self.low, range(dirty), 0, wait=False)
            await self.read_lines(self.low, range(dirty, self.slots))
            all_dirty, lines = dirty == self.slots, displacing(0, room + MORE, self.slots)
            async with self.stalled(channel):
                before = await self.registers.read("EVICTION")
                if all_dirty:
                    others = await self.fill_lines(self.low, lines, 0, wait=False)
                else:
                    others = await self.read_lines(self.low, lines, wait=False)
                await self.cycles(len(others) + 8 * APART)
                found = await self.registers.read("EVICTION") - before
                done = sum(other.done for other in others)
            wanted = room if all_dirty else min(dirty, room + MORE)
            assert found == wanted, f"{channel}: {found} evictions in flight, not {wanted}"
            served = room if all_dirty else room + MORE
            assert done == served, f"{channel}: {done} others answered, {served} need no wait"

    async def admission(self) -> None:
        """Check how many plain reads and writes the device admits while memory answers none."""
        async with self.stalled("b", "r"):
            for number in range(ADMITTED + MORE):
                await self.ordinary(True, number)
                await self.ordinary(False, 128 + number)
            await self.cycles(8 * APART)
            found = [list(ids).count(PLAIN) for ids in self.env.mem.responder.waiting]
        assert found == [ADMITTED] * 2, f"{found} reads and writes admitted, not {ADMITTED}"

    async def turns(self) -> None:
        """Check that clients of the memory port that wait together are served round-robin."""
        recorded = await self.recorded(EVICTIONS)
        await self.fill_lines(self.low, range(self.slots - 1), 0, wait=False)
        await self.fill_lines(self.fp32, 0, range(EXITS))
        for write in (False, True):
            async with self.stalled("b", "r"):
                with self.memory(ar_stall=1.0, aw_stall=1.0):
                    kind = "store" if write else "raw"
                    await self.in_order([self.message(self.fp32, kind, 0, w) for w in range(EXITS)])
                    if write:
                        self.mem.ar_stall = self.mem.r_stall = 0.0  # reads evict dirty lines
                    lines = range(self.slots, self.slots + EVICTIONS) if write else recorded
                    await self.in_order([self.message(self.low, "vote", line) for line in lines])
                    for number in range(MORE):
                        await self.ordinary(not write, number)
                    await self.cycles(APART)
                await self.cycles(2 * APART)
                ids = self.env.mem.responder.waiting[write]
            # Some requests of the first client had left when the others arrived; then three wait.
            start = FIRST + 2
            rounds = [ids[at : at + 3] for at in range(start, start + 3 * (EVICTIONS - 1), 3)]
            assert all(len(set(one)) == 3 for one in rounds), f"served in the order {ids}"


HOLD = 40
"""Number of cycles for which a channel is stalled."""
REPEATS = 2


class TwoRegionBase(ParkedBase):
    """Base of sequences with a low-bit region 0 of 16 lines and an FP32 region 1."""

    async def two_regions(self, mode: Mode, fp32_lines_log2: int) -> None:
        """Commit region 0 of `mode` (16 lines) and FP32 region 1 of 2^`fp32_lines_log2` lines."""
        shapes = ((mode, 4, WORKERS), (Mode.FP32, fp32_lines_log2, WORKERS))
        self.low, self.fp32 = await self.start_regions(*shapes)


class HeldChannelSequence(TwoRegionBase):
    """Long waits of VALID for READY on the memory port, for every client that sends or receives."""

    async def body(self) -> None:
        await self.two_regions(Mode.G_BINARY, fp32_lines_log2=4)
        await self.initialised()
        for stall in (1.0, 0.5) * REPEATS:
            await self.memory_not_ready(stall)
        for delay in range(0, 48, 3):
            await self.device_not_ready(delay)
            await self.fills_not_taken(delay)

    async def memory_not_ready(self, stall: float) -> None:
        """Stall each request channel (AW, W, AR) while each client of the memory port sends.

        The first one finds a memory that was ready before it arrived. `stall` is the probability of
        a stalled cycle.
        """
        await self.fill_lines(self.fp32, 0, range(4))
        kinds = ("record", "plain write", "plain read", "store", "sum", "initialiser")
        for name, kind in product(("aw", "w", "ar"), kinds):
            await self.fill_lines(self.low, range(self.slots), 0, wait=False)
            await self.fill_lines(self.fp32, 0, 0)
            commit = None
            async with self.stalled(name, level=stall):
                if kind == "initialiser":
                    commit = cocotb.start_soon(self.start_region(2, Mode.G_BINARY, 1, 3))
                else:
                    for number in range(3):
                        await self.request(kind, number)
                await self.cycles(APART + HOLD)
            if commit is not None:
                await commit
            await self.drain()

    async def request(self, kind: str, number: int) -> None:
        """Issue a request that makes the client `kind` use the memory port."""
        await {
            "record": lambda: self.read_region(self.low, self.slots + number, 0),
            "plain write": lambda: self.ordinary(False, 3 + number),
            "plain read": lambda: self.ordinary(True, 3 + number),
            "store": lambda: self.contribute(self.fp32, number, 0),
            "sum": lambda: self.read_region(self.fp32, 0, 64),
        }[kind]()

    async def device_not_ready(self, delay: int) -> None:
        """Let engine responses, one per cycle, precede those of ordinary memory and of sums.

        `delay` changes the cycle in which the responses of memory arrive.
        """
        for kind in ("contribute", "vote", "plane"):
            line = self.randrange(self.low.lines)
            await self.away(self.low, line)
            await self.fill_lines(self.fp32, 0, 0)
            with self.memory(latency=(3, 3)):
                async with self.stalled("r"):
                    workers = [*range(MOST_PARKED if delay % 2 else 5)]
                    if kind == "plane":  # more, as the responses of sums have a queue
                        workers += [0] * MOST_PARKED
                    await self.in_order([self.message(self.low, kind, line, w) for w in workers])
                    self.mem.latency = (3 * APART, 3 * APART)
                    if kind == "contribute":
                        await self.ordinary(False, 7, 1)
                    elif kind == "vote":
                        for place in range(8, 11):
                            await self.ordinary(True, place)
                    else:
                        selectors = [RAW_SELECTOR + number % 4 for number in range(10)]
                        await self.read_lines(self.fp32, 0, selectors, wait=False)
                    await self.cycles(2 * APART + delay)

    async def fills_not_taken(self, delay: int) -> None:
        """Let memory responses to stores, one per cycle, precede fetched records in the engine."""
        lines = self.sample(range(self.low.lines), 3)
        await self.away(self.low, *lines)
        await self.read_lines(self.fp32, 1)
        soon = bool(delay % 2)
        with self.memory(latency=(3, 3)):
            async with self.stalled("b"):
                await self.fill_lines(self.fp32, 1, range(WORKERS), wait=False)
                await self.cycles(8 * APART)
                self.mem.latency = (1, 1) if soon else (2 * APART, 2 * APART)
                await self.read_lines(self.low, lines, wait=False)
                await self.cycles(delay % WORKERS if soon else APART + delay)


class LatencySequence(ParkedBase):
    """Accesses on each path to memory at latencies of 1, 8, 30 and 80 cycles."""

    async def body(self) -> None:
        shapes = ((Mode.G_BINARY, 4, WORKERS), (Mode.FP32, 4, WORKERS), (Mode.IDENTITY, 0, 1))
        low, fp32, identity = await self.start_regions(*shapes)
        self.kept = await self.start_region(3, Mode.FP32, 2, 2, keep_sum=True, ready=True)
        for cycles in (1, 1, 8, 8, 30, 30, 80, 80):
            self.mem.latency = (cycles, cycles)
            await self.paths(low, fp32, identity)

    async def paths(self, low: RegionConfig, fp32: RegionConfig, identity: RegionConfig) -> None:
        """Use each path to memory with one request at a time."""
        for config, line in product((low, fp32), range(2)):
            await self.fill_lines(config, line, line, limit=1)
        await self.leave()
        for config in (low, fp32):
            await self.read_lines(config, range(2), alone=True)
        await self.fill_lines(fp32, 1, 1, be=self.getrandbits(64) & ~1)
        for address in (identity.address(9, 0), 9 * LINE_BYTES):
            for _ in range(2):
                await self.write(address, self.randbytes(LINE_BYTES), 1)
                await self.drain()
                await self.read_addresses([address])
        await self.start_region(4, Mode.G_TERNARY, 1, 2, ready=True)
        for line in range(self.kept.lines):
            await self.fill_lines(self.kept, line, limit=1)
        for _ in range(2):  # gathered and kept; then fetched
            await self.read_lines(self.kept, alone=True)
            await self.leave()


class BusyCommitSequence(TwoRegionBase):
    """Commits of one region while operations of other regions wait for memory, in each mode."""

    async def body(self) -> None:
        await self.two_regions(Mode.G_TERNARY, fp32_lines_log2=2)
        for mode in FIRST_EDITION:
            await self.start_region(2, mode, 0, 3, ready=True)
            for kind in ("nothing", "eviction", "store", "sum", "fill", "plain", "initialiser"):
                await self.meet(kind)
            await self.full_answers()
            await self.start_region(2, mode, 6, 3)
            await self.commit(2)  # while its own records are written
        await self.start_region(2, Mode.IDENTITY, 0, 1)

    async def full_answers(self) -> None:
        """Commit region 2 while more responses wait than the link accepts."""
        flood = [number % 2 for number in range(160)]
        reader = cocotb.start_soon(self.read_lines(self.low, flood, wait=False))
        await self.cycles(3 * APART)
        await self.commit(2)
        await reader
        await self.drain()

    async def meet(self, kind: str) -> None:
        """Commit region 2 while memory does not answer an operation of this kind (see `begin`)."""
        await self.fill_lines(self.fp32, 0, 0, wait=False)
        await self.fill_lines(self.low, range(3 * self.slots), 0)
        if kind != "eviction":
            await self.leave()
        await self.read_lines(self.fp32, 0, 64)
        await self.fill_lines(self.low, range(self.slots - 1), 1)
        with self.memory(b_stall=1.0, r_stall=1.0):
            await self.begin(kind)
            await self.cycles(2 * APART)
            task = cocotb.start_soon(self.commit(2))
            await self.cycles(3 * APART)
        await task
        await self.drain()
        await self.initialised()

    async def begin(self, kind: str) -> None:
        """Start an operation that a commit meets; `kind` "nothing" starts none."""
        await {
            "nothing": lambda: self.cycles(0),
            "eviction": lambda: self.read_lines(self.low, range(8, 10), wait=False),
            "store": lambda: self.contribute(self.fp32, 1, 0),
            "sum": lambda: self.read_region(self.fp32, 0, 0),
            "fill": lambda: self.read_lines(self.low, range(8, 11), limit=1, wait=False),
            "plain": lambda: self.ordinary(True, 9),
            "initialiser": lambda: self.start_region(3, Mode.G_BINARY, 4, 3),
        }[kind]()

# SPDX-License-Identifier: Apache-2.0
"""Memory stands still on one channel: how much the device takes before it stands still too, and
what goes on meanwhile.

The figures are the sizes of its queues, each filled to its last place. A place less would only be
slower, which no comparison of results can tell. Needs 16 slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cocotbext.cxl.wire.messages import M2SMessage
from models.line_packing import LINE_BYTES, Mode
from verif.parameters import build_parameters
from verif.sequences.parked_programs import APART, WORKERS, ParkedBase

PORT = 2
"""Requests of all clients in the port to memory, each way."""
FILLS = 14
"""Records that are still to be asked for: the queue has 16 places, two for what may be on its way
to it."""
EVICTIONS = 4
"""Lines whose data is still to be sent."""
MISS_DEPTH = build_parameters().get("MISS_DEPTH", 64)
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
        self.low = self.layout.region(Mode.G_BINARY, (2 * (slots + MISS_DEPTH)).bit_length(), 2)
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
        asked = min(slots, MISS_DEPTH + FILLS, ADMITTED)
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
        for channel, room in (("aw_stall", sent), ("b_stall", MISS_DEPTH)):
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

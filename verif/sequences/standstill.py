# SPDX-License-Identifier: Apache-2.0
"""Memory stands still on one channel: how much the device takes before it stands still too, and
what goes on meanwhile.

The figures are the sizes of its queues, each filled to its last place. A place less would only be
slower, which no comparison of results can tell. Needs 16 slots.
"""

from __future__ import annotations

from collections.abc import Sequence

from cocotbext.cxl.wire.messages import M2SMessage
from models.line_packing import LINE_BYTES, Mode
from verif.sequences.parked_programs import APART, WORKERS, ParkedBase

WAITING = 16
"""Operations that wait for the record of their line."""
EVICTIONS = 4
"""Lines on their way to their records."""
EXITS = 8
"""FP32 stores that the engine has issued: six in a queue, two at the port."""
GATHERS = 10
"""FP32 reads that it has issued: two more, as two are gathered at a time."""
ADMITTED = 64
"""Requests of each class of answer inside the device."""
MORE = 6
"""Requests beyond what fits."""
FIRST = 1
"""Addresses that a memory at rest takes before it stands still: it was ready already."""


class StandstillSequence(ParkedBase):
    """Each queue of the memory paths, filled by requests far enough apart to be alone in it."""

    async def body(self) -> None:
        await self.prepare()
        self.low = self.layout.region(Mode.G_BINARY, 7, 2)
        self.fp32 = self.layout.region(Mode.FP32, 0, WORKERS)
        await self.commit(0, self.low)
        await self.commit(1, self.fp32)
        await self.initialised()
        await self.new_epoch()
        await self.victims()
        await self.misses()
        for dirty in (self.cfg.hw.slots, EVICTIONS):
            await self.evictions(dirty)
        await self.exits()
        await self.admission()
        await self.turns()

    async def counted(self, counter: str, messages: Sequence[M2SMessage]) -> int:
        """By how much a counter rises while requests come that memory does not let pass."""
        before = await self.env.registers.read(counter)
        await self.in_order(messages)
        return await self.env.registers.read(counter) - before

    async def new_epoch(self) -> None:
        """A commit that leaves the area where it is needs no new records."""
        await self.commit(0)
        assert not await self.env.registers.read("STATUS.INIT_BUSY"), "records written once more"

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

    async def misses(self) -> None:
        """Lines that miss while memory takes no read address."""
        await self.leave()
        self.env.cfg.mem.ar_stall = 1.0
        messages = [self.message(self.low, "vote", line) for line in range(WAITING + MORE)]
        found = await self.counted("SLOT_MISS", messages)
        self.env.cfg.mem.ar_stall = 0.0
        await self.drain()
        found -= FIRST
        assert found == WAITING, f"{found} lines wait for their records, room is for {WAITING}"

    async def evictions(self, dirty: int) -> None:
        """Lines that leave the chip while memory answers to no write. A fill waits for the eviction
        of its own line alone, and a line that did not change makes room for it at once."""
        slots = self.cfg.hw.slots
        await self.leave()
        for line in range(slots):
            if line < dirty:
                await self.contribute(self.low, 0, line)
            else:
                await self.read_region(self.low, line, 0)
        await self.drain()
        self.env.cfg.mem.b_stall = 1.0
        before = await self.env.registers.read("EVICTION")
        reads = []
        for line in range(slots, slots + EVICTIONS + MORE):
            reads.append(await self.read_region(self.low, line, 0))
            await self.env.clocks(APART)
        found = await self.env.registers.read("EVICTION") - before
        done = sum(read.done for read in reads)
        self.env.cfg.mem.b_stall = 0.0
        await self.drain()
        assert found == EVICTIONS, f"{found} lines on their way out, room is for {EVICTIONS}"
        served = EVICTIONS if dirty > EVICTIONS else EVICTIONS + MORE
        assert done == served, f"{done} reads of other lines answered, {served} need not wait"

    async def exits(self) -> None:
        """FP32 stores and reads of an open line while memory takes no address."""
        mem = self.env.cfg.mem
        await self.leave()
        await self.contribute(self.fp32, 0, 0)
        await self.drain()
        for kind, room in (("store", EXITS), ("raw", GATHERS)):
            mem.aw_stall = mem.ar_stall = 1.0
            messages = [self.message(self.fp32, kind, 0, worker) for worker in range(room + MORE)]
            found = await self.counted("SLOT_HIT", messages)
            mem.aw_stall = mem.ar_stall = 0.0
            await self.drain()
            found -= FIRST
            assert found == room, f"{found} FP32 operations ({kind}) issued, room is for {room}"

    async def admission(self) -> None:
        """Reads and writes of ordinary memory that memory does not answer."""
        mem = self.env.cfg.mem
        mem.b_stall = mem.r_stall = 1.0
        for number in range(ADMITTED + MORE):
            await self.read(number * LINE_BYTES)
            await self.write((128 + number) * LINE_BYTES, self.rng.randbytes(LINE_BYTES))
        await self.env.clocks(8 * APART)
        found = [len(ids) for ids in self.env.mem.responder.waiting]
        mem.b_stall = mem.r_stall = 0.0
        await self.drain()
        assert found == [ADMITTED] * 2, f"{found} reads and writes admitted, not {ADMITTED}"

    async def turns(self) -> None:
        """Clients of the memory port that wait at once are served by turns."""
        mem, slots = self.env.cfg.mem, self.cfg.hw.slots
        await self.leave()
        for line in range(slots - 1):
            await self.contribute(self.low, 0, line)
        await self.contribute(self.fp32, 0, 0)
        await self.drain()
        for write in (False, True):
            mem.ar_stall = mem.aw_stall = mem.b_stall = mem.r_stall = 1.0
            kind = "store" if write else "raw"
            await self.in_order([self.message(self.fp32, kind, 0, w) for w in range(EXITS)])
            if write:
                mem.ar_stall = mem.r_stall = 0.0  # what is read pushes dirty lines out
            first = slots + EVICTIONS * write
            messages = [self.message(self.low, "vote", first + n) for n in range(EVICTIONS)]
            await self.in_order(messages)
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

# SPDX-License-Identifier: Apache-2.0
"""Bursts that fill the engine's queues while memory is slow: misses, parked operations, stores."""

from __future__ import annotations

import struct
from typing import Any

from cocotbext.cxl.wire.messages import M2SReq, ReqOp
from models.line_packing import Mode
from models.regions import RegionConfig
from verif.sequences.base import NfSequence
from verif.sequences.line_data import fp32_line, line_for


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

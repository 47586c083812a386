# SPDX-License-Identifier: Apache-2.0
"""Errors and poison of the device memory, on every path that the device has to it.

The model is told in advance of faults on ordinary lines and FP32 data. The scoreboard learns of
faults on the device's own records from the memory port (scoreboard/memory_port.py); for these, a
sequence sends one request at a time, so that the order of a loss and the requests is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import cocotb
from cocotb.triggers import RisingEdge

from models.line_packing import Mode
from models.regions import INFO_SELECTOR, RegionConfig, planes_kept, records
from verif.sequences.base import RACE_LIMIT, NfSequence
from verif.sequences.line_data import byte_enables, line_for, random_line


class MemoryErrorSequence(NfSequence):
    """Errors and poison on ordinary lines, behind an IDENTITY region, and on FP32 data."""

    transactions: int = 240
    epochs: int = 4
    poison: float = 0.1
    partial: float = 0.4

    async def body(self) -> None:
        fp32 = self.layout.region(Mode.FP32, 1, 4)
        identity = self.layout.region(Mode.IDENTITY, 0, 1)
        for region, config in enumerate((fp32, identity)):
            await self.commit(region, config)
        # By kind, so that each of them is met: there are more ordinary lines than others.
        pools = [
            list(range(24)),
            [identity.state_line + selector for selector in range(8)],
            [fp32.state_line + k for k in range(fp32.workers * fp32.lines)],
        ]
        for number in range(self.epochs):
            await self.commit(0)
            for place in range(fp32.workers * fp32.lines):  # what is read is there
                await self.contribute(fp32, place % fp32.workers, place // fp32.workers)
            await self.drain()
            for pool in pools:
                # A refused store poisons its line for the epoch: every other epoch has none.
                self.mark(pool, refuse=number % 2 > 0 or pool is not pools[-1])
            for _ in range(self.cfg.count(self.transactions) // self.epochs):
                await self.one(fp32, identity)
            await self.drain()
            self.clear()

    def mark(self, pool: list[int], refuse: bool) -> None:
        """Reads of some lines fail, writes of others if `refuse`; the medium poisons some."""
        rng, cfg, model = self.rng, self.env.cfg.mem, self.env.scoreboard.model
        share = len(pool) // 4
        unreadable = rng.sample(pool, share)
        refused = rng.sample(pool, share) if refuse else []
        for lines in (cfg.read_error_lines, model.read_errors):
            lines.update(unreadable)
        for lines in (cfg.write_error_lines, model.write_errors):
            lines.update(refused)
        for line in rng.sample(pool, share + 1):
            self.env.mem.store.poison(line)
            self.env.scoreboard.quiescence.poison(line)

    def clear(self) -> None:
        """Ends the errors; a line stays poisoned until it is written."""
        cfg, model = self.env.cfg.mem, self.env.scoreboard.model
        for lines in (cfg.read_error_lines, model.read_errors):
            lines.clear()
        for lines in (cfg.write_error_lines, model.write_errors):
            lines.clear()

    async def one(self, fp32: RegionConfig, identity: RegionConfig) -> None:
        """A request of any kind. FP32: one at a time on a line, as a refused store loses it."""
        rng = self.rng
        kind = rng.random()
        be = byte_enables(rng) if rng.random() < self.partial else None
        if kind < 0.3:
            worker, line = rng.randrange(fp32.workers), rng.randrange(fp32.lines)
            await self.contribute(fp32, worker, line, limit=1, be=be)
            return
        if kind < 0.5:
            await self.read_region(fp32, rng.randrange(fp32.lines), limit=1)
            return
        addr = identity.address(rng.randrange(8), 0) if kind < 0.7 else rng.randrange(28) << 6
        if rng.random() < 0.5:
            poison = rng.random() < self.poison
            await self.write(addr, random_line(rng), RACE_LIMIT, be=be, poison=poison)
        else:
            await self.read(addr, RACE_LIMIT)


class RecordSequence(NfSequence):
    """Base: a region with more lines than slots, so that each access fetches a record."""

    mode: Mode = Mode.G_BINARY
    workers: int = 9
    region: int = 0

    def make(self) -> RegionConfig:
        """The region, with lines to spare."""
        lines_log2 = (2 * self.cfg.hw.slots + 15).bit_length()
        return self.layout.region(self.mode, lines_log2, self.workers)

    def record(self, config: RegionConfig, line: int) -> list[int]:
        """Lines of memory that are read to fetch the record of a line; bookkeeping first."""
        cnt_w = self.cfg.hw.cnt_w
        first, distance = records(config, cnt_w)
        first += line * distance
        planes = planes_kept(config.most, cnt_w) if config.mode.low_bit else distance - 1
        return list(range(first, first + 1 + planes))

    async def each(self, config: RegionConfig, lines: list[int], worker: int | None) -> None:
        """A contribution of `worker` to each line, or a read of it; one request at a time."""
        for line in lines:
            if worker is None:
                selectors = (0, self.other(config), INFO_SELECTOR)
                await self.read_region(config, line, self.rng.choice(selectors))
            else:
                await self.contribute(config, worker, line, line_for(config.mode, self.rng))
            await self.drain()

    @staticmethod
    def other(config: RegionConfig) -> int:
        """A selector that shows more of the state than the result does."""
        return 64 if config.mode is Mode.FP32 else 8

    async def whole_epoch(self, config: RegionConfig, lines: list[int]) -> None:
        """A new epoch, in which nothing is wrong any more."""
        await self.commit(self.region)
        await self.initialised()
        await self.each(config, lines, 2)
        await self.each(config, lines, None)


class RecordErrorSequence(RecordSequence):
    """A record that comes back with an error or poison, in one beat: the line is lost.

    Not so a line without state: its planes are what an older owner of the memory left.
    """

    async def body(self) -> None:
        config = self.make()
        await self.commit(self.region, config)
        await self.initialised()
        picked = self.rng.sample(range(config.lines), self.cfg.hw.slots + 8)
        used, fresh = picked[:-4], picked[-4:]
        for early in (1, 2):  # these need a second plane
            await self.each(config, used[2::4], early)
        await self.each(config, used, 0)
        for number, line in enumerate(used[:-2]):
            self.spoil(config, line, number, first=0)
        for number, line in enumerate(fresh):
            self.spoil(config, line, number, first=number % 3 > 0)
        for line in [*used, *fresh]:
            await self.each(config, [line], self.rng.choice((None, None, 1)))
        self.env.cfg.mem.read_error_lines.clear()
        # What was lost stays lost, also when it was only read and has left its slot since.
        for worker in (None, 3, None):
            await self.each(config, [*used, *fresh], worker)
        await self.needless(config)

    async def needless(self, config: RegionConfig) -> None:
        """Of two neighbours one has more contributions. A plane that only they reach cannot be read
        in the record of the other: nothing is lost."""
        await self.commit(self.region)
        line = self.rng.randrange(config.lines // 2) * 2
        for worker in range(3):
            await self.each(config, [line], worker)
        await self.each(config, [line + 1], 0)
        others = [other for other in range(config.lines) if other // 2 != line // 2]
        await self.each(config, others[: self.cfg.hw.slots], None)
        self.env.cfg.mem.read_error_lines.update(self.record(config, line + 1)[2:])
        await self.each(config, [line + 1], None)
        self.env.cfg.mem.read_error_lines.clear()

    def spoil(self, config: RegionConfig, line: int, number: int, first: int) -> None:
        """An error or poison in one beat of the record, not before beat `first`."""
        beats = self.record(config, line)[first:] or self.record(config, line)
        # The bookkeeping, the lowest planes, which these records need, and any.
        last = len(beats) - 1
        beat = beats[(0, min(1, last), min(2, last), self.rng.randint(0, last))[number % 4]]
        if number // 4 % 2:
            self.env.mem.store.poison(beat)
        else:
            self.env.cfg.mem.read_error_lines.add(beat)


class RefusedWriteBackSequence(RecordSequence):
    """Write-backs of some lines are refused: poison until the next epoch, never a wrong answer."""

    async def body(self) -> None:
        config = self.make()
        other = self.layout.region(Mode.G_TERNARY, 1, 2)
        await self.commit(self.region, config)
        await self.commit(self.region + 1, other)
        await self.initialised()
        lines = self.rng.sample(range(config.lines), self.cfg.hw.slots + 4)
        await self.each(config, lines, 0)
        errors = self.env.cfg.mem.write_error_lines
        errors.update(self.rng.choice(self.record(config, line)) for line in lines[1:4])
        await self.each(config, lines, 1)
        errors.clear()
        await self.each(other, [0, 1], 0)
        await self.each(config, lines, None)
        await self.each(config, lines, 3)
        await self.each(config, lines, None)
        await self.each(other, [0, 1], None)  # another region has nothing to do with it
        await self.whole_epoch(config, lines)


class RefusedMeanwhileSequence(RecordSequence):
    """A write-back is refused while a read of another record of its region waits for the port."""

    async def body(self) -> None:
        rng, mem = self.rng, self.env.cfg.mem
        config = self.make()
        await self.commit(self.region, config)
        await self.initialised()
        slots = self.cfg.hw.slots
        lines = rng.sample(range(config.lines), 2 * slots)
        await self.each(config, lines, 0)
        await self.each(config, lines[: slots - 1], None)  # one line is left to be written back
        errors = mem.write_error_lines
        errors.add(self.record(config, lines[-1])[0])
        mem.ar_stall = mem.b_stall = 1.0
        for line in lines[slots - 1 : slots + 3]:  # the last one waits for the read channel
            await self.contribute(config, 1, line, limit=1)
        await self.env.clocks(60)
        mem.b_stall = 0.0
        await self.env.clocks(60)
        mem.ar_stall = 0.0
        await self.drain()
        errors.clear()
        await self.whole_epoch(config, lines)


class RefusedInitialisationSequence(RecordSequence):
    """Old records that could not be overwritten are not taken for state.

    The forgery is exact: region 0 has left records of its first epoch in the area, and region 1
    claims it for its own first epoch.
    """

    async def body(self) -> None:
        old = self.make()
        await self.commit(0, old)
        await self.initialised()
        lines = self.rng.sample(range(old.lines), self.cfg.hw.slots + 4)
        await self.each(old, lines, 0)
        await self.each(old, lines, 1)
        away, window = self.make(), self.make()
        await self.commit(0, away)
        self.region, config = 1, replace(old, base=window.base)
        errors = self.env.cfg.mem.write_error_lines
        errors.update(self.record(config, line)[0] for line in lines[::2])
        await self.commit(self.region, config)
        await self.initialised()
        errors.clear()
        await self.each(config, lines, None)
        await self.each(config, lines, 0)
        await self.each(config, lines, None)
        await self.whole_epoch(config, lines)


class RandomErrorSequence(RecordSequence):
    """Errors by rate on all paths at once, among mixed traffic; then an epoch without.

    The scoreboard learns of each error from the memory port. One request at a time is in flight on
    a line, so that it is known which one met it.
    """

    rounds: int = 4
    transactions: int = 150
    rate: float = 0.04

    async def body(self) -> None:
        rng, mem = self.rng, self.env.cfg.mem
        lines_log2 = (2 * self.cfg.hw.slots).bit_length()
        modes = [Mode.G_BINARY, Mode.FP32, rng.choice((Mode.G_TERNARY, Mode.IDENTITY))]
        configs = []
        for mode in modes[: self.cfg.hw.regions]:
            size = lines_log2 if mode is not Mode.IDENTITY else 0
            configs.append(self.layout.region(mode, size, rng.choice((2, 3, 5, 7))))
        for number in range(self.rounds):
            for region, config in enumerate(configs):
                await self.commit(region, config)
            if rng.random() < 0.7:  # else the initialiser meets them, too
                await self.initialised()
            if number + 1 < self.rounds:
                mem.read_error_rate = rng.choice((0.0, self.rate, self.rate))
                mem.write_error_rate = rng.choice((0.0, 0.0, self.rate / 2))
            for _ in range(self.cfg.count(self.transactions)):
                await self.one(rng.choice(configs))
            await self.drain()
            mem.read_error_rate = mem.write_error_rate = 0.0
            for _ in range(self.cfg.count(self.transactions) // 4):
                await self.one(rng.choice(configs))
            await self.drain()
            while not self.env.mem.idle:
                await self.env.clocks(10)

    async def one(self, config: RegionConfig) -> None:
        """A request to a region or to ordinary memory."""
        rng = self.rng
        if rng.random() < 0.25:
            addr = rng.randrange(32) << 6
            if rng.random() < 0.5:
                be = byte_enables(rng) if rng.random() < 0.3 else None
                await self.write(addr, random_line(rng), 1, be=be, poison=rng.random() < 0.1)
            else:
                await self.read(addr, 1)
            return
        line = rng.randrange(config.lines)
        if config.mode is Mode.IDENTITY:
            address = config.address(rng.randrange(8), line)
            await (
                self.write(address, random_line(rng), 1)
                if rng.random() < 0.5
                else self.read(address, 1)
            )
        elif rng.random() < 0.6:
            partial = config.mode is Mode.FP32 and rng.random() < 0.2
            be = byte_enables(rng) if partial else None
            await self.contribute(config, rng.randrange(config.workers), line, limit=1, be=be)
        else:
            await self.read_region(config, line, limit=1)


# What memory answers with an error or poison: beats that have to wait, and stores made again.


PLACES = 16
"""Lines of ordinary memory."""


class WaitingBeatsSequence(NfSequence):
    """Votes go before the lines of ordinary memory, whose beats have to wait for a clock or more.

    Each beat with an error, or with poison, is counted once all the same.
    """

    reads: int = 240

    async def body(self) -> None:
        rng = self.rng
        self.env.cfg.mem.latency = (1, 8)  # so that some meet a vote, whatever a vote takes
        config = self.layout.region(Mode.G_BINARY, 1, 2)
        await self.commit(0, config)
        for line in range(config.lines):
            await self.contribute(config, 0, line)
        poisoned, unreadable = (set(rng.sample(range(PLACES), PLACES // 2)) for _ in range(2))
        for line in range(PLACES):
            await self.write(line << 6, rng.randbytes(64), poison=line in poisoned)
        await self.drain()
        for lines in (self.env.cfg.mem.read_error_lines, self.env.scoreboard.model.read_errors):
            lines.update(unreadable)
        self.waited: set[int] = set()
        watch = cocotb.start_soon(self.watch())
        for _ in range(self.reads):
            if rng.random() < 0.5:
                await self.read_region(config, rng.randrange(config.lines), limit=RACE_LIMIT)
            else:
                await self.read(rng.randrange(PLACES) << 6, RACE_LIMIT)
        await self.drain()
        await self.refusals(config)
        watch.cancel()
        assert self.waited == {0, 1, 2}, f"one of three kinds never had to wait: {self.waited}"
        for name in ("MEM_POISON", "MEM_READ_ERROR", "MEM_WRITE_ERROR"):
            await self.env.registers.read(name)

    async def refusals(self, config: RegionConfig) -> None:
        """Duplicates, which are answered at once, and writes of which memory refuses half."""
        rng, env = self.rng, self.env
        refused = rng.sample(range(PLACES), PLACES // 2)
        for lines in (env.cfg.mem.write_error_lines, env.scoreboard.model.write_errors):
            lines.update(refused)
        for _ in range(self.reads):
            if rng.random() < 0.5:
                await self.contribute(config, 0, rng.randrange(config.lines), limit=RACE_LIMIT)
            else:
                await self.write(rng.randrange(PLACES) << 6, rng.randbytes(64), RACE_LIMIT)
        await self.drain()

    async def watch(self) -> None:
        """Notes what had to wait: a beat with an error (1), or with poison alone (0), a refusal
        (2)."""
        dut = self.env.dut
        while True:
            await RisingEdge(dut.clk)
            if dut.m_axi_rvalid.value == 1 and dut.m_axi_rready.value == 0:
                if int(dut.m_axi_rresp.value) >> 1:
                    self.waited.add(1)
                elif int(dut.m_axi_ruser.value) & 1:
                    self.waited.add(0)
            held = dut.m_axi_bvalid.value == 1 and dut.m_axi_bready.value == 0
            if held and int(dut.m_axi_bresp.value) >> 1:
                self.waited.add(2)


class RefusedAgainSequence(NfSequence):
    """Memory refuses a store of a worker that has stored before: the worker stays seen.

    So its next store, which memory takes, is no new line of it, and completes nothing again.
    """

    async def body(self) -> None:
        rng = self.rng
        region = rng.randrange(self.cfg.hw.regions)
        config = self.layout.region(Mode.FP32, rng.randrange(2), rng.randint(2, 5))
        for last in (False, True):
            await self.commit(region, config)
            worker, line = rng.randrange(config.workers), rng.randrange(config.lines)
            others = [w for w in range(config.workers) if w != worker]
            for first in rng.sample(
                [worker, *(others if last else others[1:])], len(others) + last
            ):
                await self.contribute(config, first, line)
            await self.drain()
            backing = config.state_line + worker * config.lines + line
            self.refuse((backing,))
            await self.contribute(config, worker, line)
            await self.drain()
            await self.look(config.address(1, line), region)
            self.refuse(())
            await self.contribute(config, worker, line)
            await self.drain()
            await self.look(config.address(1, line), region)
            for first in others:
                await self.contribute(config, first, line)
            await self.drain()
            await self.look(config.address(1, line), region)

    def refuse(self, lines: Iterable[int]) -> None:
        """Memory refuses writes of these lines, and of no other."""
        for kept in (self.env.cfg.mem.write_error_lines, self.env.scoreboard.model.write_errors):
            kept.clear()
            kept.update(lines)

    async def look(self, info: int, region: int) -> None:
        """INFO of the line, and what the region counts."""
        await self.fetch(info)
        await self.env.registers.read(f"REGION[{region}].COMPLETE_LINES")
        await self.env.registers.read(f"REGION[{region}].STATUS")


# Lines that a memory error took, and to which every worker contributes all the same.


class LostLineSequence(RecordSequence):
    """Some records cannot be read; then all workers come, with evictions between them.

    The lines stay poisoned and are never counted complete; those beside them are.
    """

    workers: int = 3

    async def body(self) -> None:
        rng = self.rng
        config = self.make()
        await self.commit(self.region, config)
        await self.initialised()
        lines = rng.sample(range(config.lines), self.cfg.hw.slots + 4)
        await self.each(config, lines, 0)
        lost = lines[: len(lines) // 2]
        errors = self.env.cfg.mem.read_error_lines
        for line in lost:
            errors.add(self.record(config, line)[0])
        await self.each(config, lines, None)
        errors.clear()
        for worker in (1, 0, 2):
            await self.each(config, lines, worker)
        await self.each(config, lines, None)
        await self.env.registers.read(f"REGION[{self.region}].COMPLETE_LINES")


class BlameSequence(RecordSequence):
    """Write-backs of two regions are queued, those of one are refused: the other one is trusted."""

    bursts: int = 6
    untouched: int = 4
    """Lines of the one region in no slot when they are read at the end: lost for certain."""

    async def body(self) -> None:
        rng = self.rng
        guilty = rng.randrange(1, self.cfg.hw.regions)  # not the one that a wrong index gives
        other = rng.choice([one for one in range(self.cfg.hw.regions) if one != guilty])
        bad = self.layout.region(Mode.G_BINARY, 4, 6)
        good = self.layout.region(Mode.G_TERNARY, 4, 6)
        await self.commit(guilty, bad)
        await self.commit(other, good)
        await self.initialised()
        self.env.cfg.mem.latency = (20, 60)
        errors = self.env.cfg.mem.write_error_lines
        errors.update(self.record(bad, line)[0] for line in range(bad.lines))
        for worker in range(self.bursts):
            work = [(good, line) for line in range(good.lines)]
            work += [(bad, line) for line in range(self.untouched, bad.lines)]
            rng.shuffle(work)
            for config, line in work[: 6 * self.cfg.hw.slots]:
                await self.contribute(config, worker, line, limit=1)
            await self.drain()
        errors.clear()
        for line in range(good.lines):
            for selector in (0, 8):
                await self.read_region(good, line, selector, limit=1)
        for line in range(bad.lines):  # what was not written back must not come back as it was
            await self.read_region(bad, line, self.rng.choice((0, 8)), limit=1)
        await self.drain()

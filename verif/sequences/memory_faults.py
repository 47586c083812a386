# SPDX-License-Identifier: Apache-2.0
"""Errors and poison of the device memory, on every path of the device to it.

The model is informed in advance of faults on ordinary lines and FP32 data. The scoreboard learns of
faults on the device's records from the memory port (scoreboard/memory_port.py); for these, a
sequence sends one request at a time, so that the order of a loss and the requests is known.
"""

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from itertools import product

import cocotb
from cocotb.triggers import RisingEdge

from models.line_packing import LINE_BYTES
from models.modes import Mode
from models.regions import INFO_SELECTOR, RegionConfig, planes_kept, records
from verif.sequences.base import RACE_LIMIT, NfSequence
from verif.sequences.line_data import byte_enables


class MemoryErrorSequence(NfSequence):
    """Memory errors and poison on ordinary memory, on an IDENTITY region and on FP32 data.

    Reads and writes of some lines fail, other lines are poisoned, while random requests use them.
    """

    async def body(self) -> None:
        fp32, identity = await self.start_regions((Mode.FP32, 1, 4), (Mode.IDENTITY, 0, 1))
        data = range(fp32.workers * fp32.lines)
        # One pool for each kind, so that each is hit: there are more ordinary lines than others.
        pools = [
            list(range(24)),
            [identity.state_line + selector for selector in range(8)],
            [fp32.state_line + place for place in data],
        ]
        for number in range(4):
            await self.commit(0)
            await self.contribute_each((fp32, *divmod(place, fp32.lines)) for place in data)
            with ExitStack() as faults:
                for pool in pools:
                    # A refused store poisons its line for the epoch: every other epoch has none.
                    self.mark(faults, pool, refuse=number % 2 > 0 or pool is not pools[-1])
                for _ in range(self.cfg.count(240) // 4):
                    await self.one(fp32, identity)
                await self.drain()

    def mark(self, faults: ExitStack, pool: list[int], refuse: bool) -> None:
        """Let reads of a quarter of the lines fail, and writes if `refuse`; poison about as many.

        A line stays poisoned until it is written.

        Args:
            faults: stack whose exit ends the errors.
            pool: memory line addresses to choose from.
            refuse: let writes fail as well.
        """
        share = len(pool) // 4
        unreadable = self.sample(pool, share)
        refused = self.sample(pool, share) if refuse else []
        faults.enter_context(self.failing(unreadable, refused, known=True))
        for line in self.sample(pool, share + 1):
            self.env.mem.store.poison(line)
            self.env.scoreboard.judge.poison(line)

    async def one(self, fp32: RegionConfig, identity: RegionConfig) -> None:
        """Issue a random request to one of both regions or to ordinary memory.

        FP32: one at a time on a line, as a refused store poisons it.
        """
        kind = self.random()
        be = byte_enables(self.rng) if self.random() < 0.4 else None
        if kind < 0.3:
            worker, line = self.randrange(fp32.workers), self.randrange(fp32.lines)
            await self.contribute(fp32, worker, line, limit=1, be=be)
        elif kind < 0.5:
            await self.read_region(fp32, self.randrange(fp32.lines), limit=1)
        else:
            place = identity.address(self.randrange(8), 0) if kind < 0.7 else None
            addr = self.randrange(28) * LINE_BYTES if place is None else place
            await self.either(addr, RACE_LIMIT, be, self.random() < 0.1)


class RecordSequence(NfSequence):
    """Base of sequences on a region with more lines than slots, so that accesses fetch records."""

    mode: Mode = Mode.G_BINARY
    workers: int = 9
    region: int = 0

    def make(self) -> RegionConfig:
        """Return a descriptor of a region with more than twice as many lines as slots."""
        return self.layout.region(self.mode, (2 * self.slots + 15).bit_length(), self.workers)

    def record(self, config: RegionConfig, line: int) -> list[int]:
        """Return the memory line addresses that a fetch of a record reads, bookkeeping first."""
        cnt_w = self.hw.cnt_w
        distance = records(config, cnt_w)[1]
        planes = planes_kept(config.most, cnt_w) if config.mode.low_bit else distance - 1
        first = self.bookkeeping(config, line)
        return list(range(first, first + 1 + planes))

    async def each(self, config: RegionConfig, lines: list[int], worker: int | None) -> None:
        """Contribute as `worker` to each line, or read it (None); one request at a time.

        A read is of the result, of INFO, or of count plane 0 (FP32: worker 0's line).
        """
        for line in lines:
            if worker is None:
                selectors = (0, self.part_selector(config), INFO_SELECTOR)
                await self.read_lines(config, line, self.choice(selectors))
            else:
                await self.fill_lines(config, line, worker)

    async def steps(self, config: RegionConfig, lines: list[int], *workers: int | None) -> None:
        """Contribute to each line as each worker of `workers` in order; None reads; see `each`."""
        for worker in workers:
            await self.each(config, lines, worker)

    async def used_lines(self, spare: int) -> tuple[RegionConfig, list[int]]:
        """Commit the region and contribute as worker 0 to `spare` more lines than slots.

        Returns:
            The descriptor and the indices of these lines.
        """
        config = self.make()
        await self.commit(self.region, config, ready=True)
        lines = self.sample(range(config.lines), self.slots + spare)
        await self.each(config, lines, 0)
        return config, lines

    async def whole_epoch(self, config: RegionConfig, lines: list[int]) -> None:
        """Start a new epoch, contribute as worker 2 and read each line, without faults."""
        await self.commit(self.region, ready=True)
        await self.steps(config, lines, 2, None)


class RecordErrorSequence(RecordSequence):
    """Records whose fetch meets an error or poison in one beat: the line is lost (poisoned, empty).

    A line without state in this epoch is not lost by bad planes, which an earlier owner has left.
    """

    async def body(self) -> None:
        config = self.make()
        await self.commit(self.region, config, ready=True)
        picked = self.sample(range(config.lines), self.slots + 8)
        used, fresh = picked[:-4], picked[-4:]
        await self.steps(config, used[2::4], 1, 2)  # these need a second plane
        await self.each(config, used, 0)
        bad = [self.spoil(config, line, number, first=0) for number, line in enumerate(used[:-2])]
        bad += [self.spoil(config, line, n, first=n % 3 > 0) for n, line in enumerate(fresh)]
        with self.failing(reads=[beat for beat in bad if beat is not None]):
            for line in picked:
                await self.each(config, [line], self.choice((None, None, 1)))
        # A lost line stays lost, also if it was only read and has left its slot since.
        await self.steps(config, picked, None, 3, None)
        await self.needless(config)

    async def needless(self, config: RegionConfig) -> None:
        """Make planes unreadable that the record of a line does not need: nothing is lost.

        The record's own contributions reach one plane; a neighbour, with which it shares a mark,
        has more.
        """
        await self.commit(self.region)
        line = self.randrange(config.lines // 2) * 2
        await self.steps(config, [line], 0, 1, 2)
        await self.each(config, [line + 1], 0)
        others = [other for other in range(config.lines) if other // 2 != line // 2]
        await self.each(config, others[: self.slots], None)
        with self.failing(reads=self.record(config, line + 1)[2:]):
            await self.each(config, [line + 1], None)

    def spoil(self, config: RegionConfig, line: int, number: int, first: int) -> int | None:
        """Choose a beat of a line's record; poison it, or return its address for an error.

        Args:
            config: descriptor of the region.
            line: index of the line.
            number: number of the call, which selects beat and kind of fault.
            first: first beat to choose from; 1 leaves out the bookkeeping line.

        Returns:
            The memory line address whose reads shall fail; None if the beat was poisoned.
        """
        beats = self.record(config, line)[first:] or self.record(config, line)
        # The bookkeeping, the lowest planes, which these records need, and any beat.
        last = len(beats) - 1
        beat = beats[(0, min(1, last), min(2, last), self.randint(0, last))[number % 4]]
        if number // 4 % 2:
            self.env.mem.store.poison(beat)
            return None
        return beat


class RefusedWriteBackSequence(RecordSequence):
    """Write-backs of some lines that memory refuses: poison until the next epoch, no wrong data.

    A second region must not be affected.
    """

    async def body(self) -> None:
        config = self.make()
        other = self.layout.region(Mode.G_TERNARY, 1, 2)
        await self.commit(self.region, config)
        await self.commit(self.region + 1, other, ready=True)
        lines = self.sample(range(config.lines), self.slots + 4)
        await self.each(config, lines, 0)
        refused = [self.choice(self.record(config, line)) for line in lines[1:4]]
        with self.failing(writes=refused):
            await self.each(config, lines, 1)
        await self.each(other, [0, 1], 0)
        await self.steps(config, lines, None, 3, None)
        await self.each(other, [0, 1], None)  # another region is not affected
        await self.whole_epoch(config, lines)


class RefusedMeanwhileSequence(RecordSequence):
    """A write-back that memory refuses while the fetch of another record of the region waits."""

    async def body(self) -> None:
        config, lines = await self.used_lines(self.slots)
        await self.each(config, lines[: self.slots - 1], None)  # one dirty line is left
        with self.failing(writes=[self.bookkeeping(config, lines[-1])]):
            async with self.stalled("ar"):
                with self.memory(b_stall=1.0):
                    # The last one waits for the read channel.
                    some = lines[self.slots - 1 : self.slots + 3]
                    await self.fill_lines(config, some, 1, limit=1, wait=False)
                    await self.cycles(60)
                await self.cycles(60)
        await self.whole_epoch(config, lines)


class RefusedInitialisationSequence(RecordSequence):
    """Old records that memory refused to overwrite at the start of a region, not taken for state.

    The forgery is exact: region 0 has left records of its first epoch in the area, and region 1
    claims the area for its own first epoch.
    """

    async def body(self) -> None:
        self.region = 0
        old, lines = await self.used_lines(4)
        await self.each(old, lines, 1)
        away, window = self.make(), self.make()
        await self.commit(0, away)
        self.region, config = 1, replace(old, base=window.base)
        with self.failing(writes=[self.bookkeeping(config, line) for line in lines[::2]]):
            await self.commit(self.region, config, ready=True)
        await self.steps(config, lines, None, 0, None)
        await self.whole_epoch(config, lines)


class RandomErrorSequence(RecordSequence):
    """Random memory errors on all paths in mixed traffic, and a part without errors after each.

    The scoreboard sees each error at the memory port. One request at a time is in flight on
    a line, so that it is known which one hit the error. After the last commit there are no errors.
    """

    rate: float = 0.04

    async def body(self) -> None:
        lines_log2 = (2 * self.slots).bit_length()
        modes = [Mode.G_BINARY, Mode.FP32, self.choice((Mode.G_TERNARY, Mode.IDENTITY))]
        configs = []
        for mode in modes[: self.hw.regions]:
            size = lines_log2 if mode is not Mode.IDENTITY else 0
            configs.append(self.layout.region(mode, size, self.choice((2, 3, 5, 7))))
        transactions = self.cfg.count(150)
        for number in range(4):
            await self.commit_all(*configs)
            if self.random() < 0.7:  # else the initialiser hits errors, too
                await self.initialised()
            if number + 1 < 4:
                self.mem.read_error_rate = self.choice((0.0, self.rate, self.rate))
                self.mem.write_error_rate = self.choice((0.0, 0.0, self.rate / 2))
            for count in (transactions, transactions // 4):
                for _ in range(count):
                    await self.one(self.choice(configs))
                await self.drain()
                self.mem.read_error_rate = self.mem.write_error_rate = 0.0
            while not self.env.mem.idle:
                await self.cycles(10)

    async def one(self, config: RegionConfig) -> None:
        """Issue a random request to the region (75 %) or to ordinary memory."""
        if self.random() < 0.25:
            addr = self.randrange(32) * LINE_BYTES
            partial, poison = self.random() < 0.3, self.random() < 0.1
            await self.either(addr, 1, byte_enables(self.rng) if partial else None, poison)
            return
        line = self.randrange(config.lines)
        if config.mode is Mode.IDENTITY:
            await self.either(config.address(self.randrange(8), line), 1)
        elif self.random() < 0.6:
            partial = config.mode is Mode.FP32 and self.random() < 0.2
            be = byte_enables(self.rng) if partial else None
            await self.contribute(config, self.randrange(config.workers), line, limit=1, be=be)
        else:
            await self.read_region(config, line, limit=1)


PLACES = 16
"""Number of lines of ordinary memory in use, from address 0."""


class WaitingBeatsSequence(NfSequence):
    """Memory responses with an error or poison that wait for a cycle because votes have priority.

    Each such response is counted once although it waits. The kinds are those of `watch`.
    """

    async def body(self) -> None:
        self.mem.latency = (1, 8)  # so that some beats coincide with a vote
        config = await self.start_region(0, Mode.G_BINARY, 1, 2)
        await self.fill_lines(config, None, 0, wait=False)
        poisoned, unreadable = (set(self.sample(range(PLACES), PLACES // 2)) for _ in range(2))
        for line in range(PLACES):
            data = self.randbytes(LINE_BYTES)
            await self.write(line * LINE_BYTES, data, poison=line in poisoned)
        await self.drain()
        self.waited: set[int] = set()
        with self.failing(reads=unreadable, known=True):
            watch = cocotb.start_soon(self.watch())
            for _ in range(240):
                if self.random() < 0.5:
                    await self.read_region(config, self.randrange(config.lines), limit=RACE_LIMIT)
                else:
                    await self.ordinary(True, self.randrange(PLACES), RACE_LIMIT)
            await self.drain()
            await self.refusals(config)
            watch.cancel()
        assert self.waited == {0, 1, 2}, f"only the kinds {self.waited} of 0, 1, 2 had to wait"
        await self.read_registers("MEM_POISON", "MEM_READ_ERROR", "MEM_WRITE_ERROR")

    async def refusals(self, config: RegionConfig) -> None:
        """Mix duplicates, which are answered at once, with writes, half of which memory refuses."""
        with self.failing(writes=self.sample(range(PLACES), PLACES // 2), known=True):
            for _ in range(240):
                if self.random() < 0.5:
                    await self.contribute(config, 0, self.randrange(config.lines), limit=RACE_LIMIT)
                else:
                    await self.ordinary(False, self.randrange(PLACES), RACE_LIMIT)
            await self.drain()

    async def watch(self) -> None:
        """Record kinds of waiting memory responses: 0 poison, 1 read error, 2 refused write."""
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
    """An FP32 store that memory refuses: its worker, which stored before, stays a contributor.

    Its next store, which memory accepts, is thus not a new line of the worker, and the line does
    not become complete a second time.
    """

    async def body(self) -> None:
        region = self.any_region()
        config = self.layout.region(Mode.FP32, self.randrange(2), self.randint(2, 5))
        for last in (False, True):
            await self.commit(region, config)
            worker, line = self.randrange(config.workers), self.randrange(config.lines)
            others = [w for w in range(config.workers) if w != worker]
            first = [worker, *(others if last else others[1:])]
            await self.fill_lines(config, line, self.sample(first, len(others) + last))
            with self.failing(writes=[self.data_line(config, worker, line)], known=True):
                await self.store(region, config, line, worker)
            await self.store(region, config, line, worker)
            await self.store(region, config, line, others)

    async def store(
        self, region: int, config: RegionConfig, line: int, workers: int | Iterable[int]
    ) -> None:
        """Store as each worker, then read INFO of the line and the region's counters."""
        await self.fill_lines(config, line, workers)
        await self.fetch(config.address(INFO_SELECTOR, line))
        await self.read_registers("COMPLETE_LINES", "STATUS", region=region)


class LostLineSequence(RecordSequence):
    """Lines whose records cannot be read (lost), then contributions of all workers with evictions.

    Lost lines stay poisoned and are never counted complete; their neighbours are.
    """

    workers: int = 3

    async def body(self) -> None:
        config, lines = await self.used_lines(4)
        lost = lines[: len(lines) // 2]
        with self.failing(reads=[self.bookkeeping(config, line) for line in lost]):
            await self.each(config, lines, None)
        await self.steps(config, lines, 1, 0, 2, None)
        await self.read_registers("COMPLETE_LINES", region=self.region)


class BlameSequence(RecordSequence):
    """Write-backs of two regions in one queue, of which memory refuses those of one region.

    Records of the other region stay trusted.
    """

    async def body(self) -> None:
        regions = self.hw.regions
        guilty = self.randrange(1, regions)  # not the one that a wrong index gives
        other = self.choice([one for one in range(regions) if one != guilty])
        bad = self.layout.region(Mode.G_BINARY, 4, 6)
        good = self.layout.region(Mode.G_TERNARY, 4, 6)
        await self.commit_all(bad, good, regions=(guilty, other), ready=True)
        self.mem.latency = (20, 60)
        with self.failing(writes=[self.bookkeeping(bad, line) for line in range(bad.lines)]):
            for worker in range(6):
                work = [*product([good], [worker], range(good.lines))]
                # The first lines are in no slot when they are read: they are certainly lost.
                work += product([bad], [worker], range(4, bad.lines))
                await self.contribute_each(self.shuffled(work)[: 6 * self.slots], limit=1)
        await self.read_lines(good, None, (0, 8), limit=1, wait=False)
        # a line that was not written back must not return unchanged
        last = ((bad, line, self.choice((0, 8))) for line in range(bad.lines))
        await self.read_each(last, limit=1)

# SPDX-License-Identifier: Apache-2.0
"""Every number of workers, every number of a region, and every change that a commit makes."""

from __future__ import annotations

from dataclasses import replace

from models.line_packing import FIRST_EDITION, LINE_BYTES, Mode
from models.regions import CommitCode, RegionConfig, state_lines
from verif.sequences.base import NfSequence
from verif.sequences.line_data import line_for
from verif.sequences.memory_faults import RecordSequence

AGGREGATING = (Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32)
EXTREMES = (1, 2, 3, 63, 64)
"""Numbers of workers that are a class by themselves."""


class EveryWorkersSequence(NfSequence):
    """W from 1 to 64 in each mode: whole lines, a contribution too many, result and parts."""

    async def body(self) -> None:
        rng = self.rng
        work = [(mode, workers) for mode in AGGREGATING for workers in range(1, 65)]
        rng.shuffle(work)
        for mode, workers in work:
            self.layout.next_line = self.layout.plain_lines
            config = self.layout.region(mode, int(workers in EXTREMES), workers)
            await self.commit(0, config)
            for line in range(config.lines):
                await self.one(config, line)
            await self.drain()

    async def one(self, config: RegionConfig, line: int) -> None:
        """A line of all workers, in any order."""
        rng = self.rng
        order = rng.sample(range(config.workers), config.workers)
        for worker in order:
            await self.contribute(config, worker, line)
        await self.drain()
        await self.contribute(config, order[-1], line)
        await self.drain()
        for selector in (0, rng.choice(self.read_selectors(config)[1:])):
            await self.read_region(config, line, selector)


class EveryRegionSequence(RecordSequence):
    """Each thing that a region has of its own, in every region of the device, one by one."""

    async def body(self) -> None:
        rng, regions = self.rng, self.cfg.hw.regions
        for region in rng.sample(range(regions), regions):
            other = (region + 1) % regions
            crowd = self.layout.region(Mode.G_BINARY, 4, 1)
            await self.commit(other, crowd)
            await self.initialised()
            await self.overlaps(region, crowd)
            for mode in rng.sample(FIRST_EDITION, len(FIRST_EDITION)):
                await self.one(region, mode, crowd)
            await self.refused_writes(region, crowd)
            # Out of the way of the next one.
            away = self.layout.region(Mode.G_BINARY, 0, 1)
            await self.commit(region, away)
            await self.commit(other, self.layout.region(Mode.G_BINARY, 0, 1))

    async def one(self, region: int, mode: Mode, crowd: RegionConfig) -> None:
        """A region in one mode: what it takes, what it gives, what it refuses."""
        config = self.layout.region(mode, 0, 2, bind=True, ld_mask=0x0007)
        bad = replace(config, threshold=0)
        await self.commit(region, bad, expect=CommitCode.THRESHOLD)
        await self.commit(region, config)
        await self.initialised()
        await self.refusals(config)
        if mode is Mode.IDENTITY:
            await self.contribute(config, 0, 0, limit=1)
            await self.read_region(config, 0, 0, limit=1)
            return
        other = 64 if mode is Mode.FP32 else 8
        for selector in (0, other):  # early
            await self.read_region(config, 0, selector, limit=1)
        await self.contribute(config, 0, 0, limit=1)
        await self.crowd_out(crowd)
        await self.read_region(config, 0, 0, limit=1)  # what was written back is fetched
        data = line_for(mode, self.rng)
        if mode is Mode.G_TERNARY:  # an illegal code
            data = (int.from_bytes(data, "little") & ~3 | 1).to_bytes(LINE_BYTES, "little")
        await self.contribute(config, 1, 0, data, limit=1)
        await self.drain()
        for name in ("DONE", f"REGION[{region}].STATUS", f"REGION[{region}].COMPLETE_LINES"):
            await self.env.registers.read(name)
        for selector in (0, other):
            await self.read_region(config, 0, selector, limit=1)
        await self.drain()
        await self.commit(region)
        await self.contribute(config, 0, 0, limit=1, poison=True)
        await self.read_region(config, 0, 0, limit=1)
        await self.drain()

    async def overlaps(self, region: int, crowd: RegionConfig) -> None:
        """Descriptors that share addresses, or memory, with another region."""
        free = self.layout.region(Mode.G_BINARY, 4, 1)
        window = replace(crowd, state_base=free.state_base)
        area = replace(crowd, base=free.base)
        await self.commit(region, window, expect=CommitCode.WINDOW_OVERLAP)
        await self.commit(region, area, expect=CommitCode.STATE_OVERLAP)

    async def refused_writes(self, region: int, crowd: RegionConfig) -> None:
        """Memory refuses the record of a line: to the initialiser, then to a write-back."""
        errors = self.env.cfg.mem.write_error_lines
        config = self.layout.region(Mode.G_BINARY, 1, 2)
        record = self.record(config, 0)[0]
        errors.add(record)
        await self.commit(region, config)
        await self.initialised()
        errors.clear()
        await self.each(config, [0, 1], None)
        await self.commit(region)
        await self.each(config, [0, 1], 0)
        errors.add(record)
        await self.crowd_out(crowd)
        errors.clear()
        await self.each(config, [0, 1], None)

    async def refusals(self, config: RegionConfig) -> None:
        """An access for each cause that is the region's own."""
        data = line_for(config.mode, self.rng)
        first, second = config.address(0, 0), config.address(1, 0)
        await self.read(config.state_base)
        await self.read(first, ldid=5)
        await self.write(first, data, ldid=6)
        await self.write(second, data, ldid=2)
        if config.mode is not Mode.IDENTITY:
            await self.read(config.address(7, 0), ldid=0)
        if config.mode.low_bit:
            await self.write(first, data, ldid=0, be=self.rng.getrandbits(64))
        await self.drain()


class EveryChangeSequence(NfSequence):
    """A region of each mode is committed with every single change, and its lines are touched."""

    async def body(self) -> None:
        for region, mode in enumerate(FIRST_EDITION):
            await self.region_of(region, mode)
        for mode in FIRST_EDITION:  # a region that lets nobody in, or one alone, bound or not
            for mask in (0, 1 << self.rng.randrange(16), 0x0FF0, 0xFFFF):
                for bind in (False, True):
                    await self.masked(mode, mask, bind)

    async def region_of(self, region: int, mode: Mode) -> None:
        """All changes that end in a mode."""
        rng = self.rng
        first = self.layout.region(mode, 2, 5)
        elsewhere = self.layout.region(mode, 2, 6)
        area = self.layout.region(Mode.IDENTITY, 3, 1).state_base  # room for any shape
        start = replace(first, state_base=area + -area % (16 * LINE_BYTES))
        other = Mode.G_BINARY if mode is not Mode.G_BINARY else Mode.FP32
        steps = [
            start,
            start,
            replace(start, strict=True),
            replace(start, strict=True, workers=3),
            replace(start, strict=True, workers=3, lines_log2=1),
        ]
        last = steps[-1]
        steps += [replace(last, mode=other), last]
        moved = replace(last, base=elsewhere.base)
        steps += [moved, replace(moved, state_base=elsewhere.state_base)]
        steps += [replace(start, workers=rng.choice((2, 4)), lines_log2=0)]
        for config in steps:
            await self.commit(region, config)
            await self.touch(config)

    async def touch(self, config: RegionConfig) -> None:
        """The first operation on each line of the round: a write, a result, a part."""
        if config.mode is Mode.IDENTITY:
            return
        part = 64 if config.mode is Mode.FP32 else 8
        for line in range(config.lines):
            kind = (line + self.rng.randrange(3)) % 3
            if kind == 0:
                await self.contribute(config, 0, line, limit=1)
            else:
                await self.read_region(config, line, (0, part)[kind - 1], limit=1)
        await self.drain()

    async def masked(self, mode: Mode, mask: int, bind: bool) -> None:
        """Accesses by all devices to a region of such a mask."""
        config = self.layout.region(mode, 0, 16, bind=bind, ld_mask=mask)
        await self.commit(self.cfg.hw.regions - 1, config)
        for ldid in self.rng.sample(range(16), 4):
            data = line_for(mode, self.rng)
            await self.write(config.address(ldid, 0), data, 1, ldid=ldid)
            await self.read(config.address(0, 0), 1, ldid=ldid)
        await self.drain()


class LargeRegionSequence(NfSequence):
    """Regions of 2^10 lines and more, of every mode. Needs a large memory and many slots.

    Lines that aggregate are used long before the initialiser has come to them; it is stopped by the
    next commit, as so many records would take it a minute.
    """

    async def body(self) -> None:
        rng = self.rng
        for lines_log2 in (rng.randint(10, 13), 14, rng.randint(15, 20)):
            config = self.layout.region(Mode.IDENTITY, lines_log2, 1)
            await self.commit(0, config)
            places = [(rng.choice((0, 1, 128, 255)), line) for line in self.lines(config)]
            for selector, line in places:
                await self.contribute(config, selector, line, limit=1)
            await self.drain()
            for selector, line in places:
                await self.read_region(config, line, selector)
            await self.drain()
        shapes = [
            (mode, rng.randint(*limits)) for mode in AGGREGATING for limits in ((10, 13), (14, 17))
        ]
        for mode, lines_log2 in rng.sample(shapes, len(shapes)):
            config = self.layout.region(mode, lines_log2, 3)
            await self.commit(0, config)
            lines = self.lines(config)
            for worker in (2, 0):
                for line in lines:
                    await self.contribute(config, worker, line)
                await self.drain()
            for line in lines:
                await self.read_region(config, line, 0)
            await self.drain()
        for mode in rng.sample(AGGREGATING, len(AGGREGATING)):
            await self.largest(mode)
        self.layout.next_line = self.layout.plain_lines
        await self.commit(0, self.layout.region(Mode.G_BINARY, 0, 1))

    async def largest(self, mode: Mode) -> None:
        """Records in half of memory. No more lines are used than there are slots: one that leaves
        waits for the initialiser, which would take hours."""
        rng = self.rng
        self.layout.next_line = self.layout.plain_lines
        lines_log2 = self.cfg.hw.mem_lines.bit_length() - 2
        config = RegionConfig(0, 0, lines_log2, 3, mode)
        while state_lines(config, self.cfg.hw.cnt_w) > self.cfg.hw.mem_lines // 2:
            config = replace(config, lines_log2=config.lines_log2 - 1)
        config = self.layout.region(mode, config.lines_log2, 3)
        await self.commit(0, config)
        lines = [*self.lines(config), *(rng.randrange(config.lines) for _ in range(100))]
        lines = list(dict.fromkeys(lines))
        for worker in (2, 0):
            for line in rng.sample(lines, len(lines)):
                await self.contribute(config, worker, line)
                if worker == 0:  # waits for the store
                    await self.read_region(config, line, 0)
            await self.drain()
        for line in rng.sample(lines, len(lines)):
            await self.read_region(config, line, 0)
        await self.drain()
        await self.env.registers.read("REGION[0].STATUS")  # far from DONE

    def lines(self, config: RegionConfig) -> list[int]:
        """Both ends, any line, and those that differ from it in one bit of the index."""
        first = self.rng.randrange(config.lines)
        bits = (first ^ 1 << bit for bit in range(config.lines_log2))
        return [0, config.lines - 1, first, *bits]

# SPDX-License-Identifier: Apache-2.0
"""Exact forgeries: lines that would be a record of the coming epoch, if they were believed.

The layout of a record is the device's own (hdl/README.md, State area): the bitmap of the workers in
bits 63:0, poison, lost, saturated, the generation in bits 98:67, and KEPT in bit 99. A region's
generation is the number of its commits. A host can place such a line in an area that is not a
region's yet, and, as FP32 data, in one that is.
"""

from __future__ import annotations

from dataclasses import replace

from models.line_packing import LINE_BYTES, Mode
from models.regions import INFO_SELECTOR, RegionConfig, record_lines, records
from verif.sequences.base import NfSequence

GENERATION_AT = 67


def forged(generation: int, bitmap: int, kept: bool = False) -> bytes:
    """A bookkeeping line: clean, these workers seen in this epoch, and perhaps with a kept sum."""
    flags = int(kept) << (GENERATION_AT + 32)
    return (flags | generation << GENERATION_AT | bitmap).to_bytes(LINE_BYTES, "little")


class ForgedSequence(NfSequence):
    """Base: places forgeries and reads what must be empty lines."""

    def bookkeeping(self, config: RegionConfig, line: int) -> int:
        """The line of memory that holds the bookkeeping of a line."""
        first, distance = records(config, self.cfg.hw.cnt_w)
        return first + line * distance

    def bitmap(self, config: RegionConfig) -> int:
        """Some or all workers."""
        every = (1 << config.workers) - 1
        return every if self.rng.random() < 0.5 else self.rng.getrandbits(64) & every | 1

    async def empty(self, config: RegionConfig, lines: list[int]) -> None:
        """Reads the lines, one request at a time on each; the model knows that they are empty.

        Then most of them are written, twice, and so push each other out: only beside a line that
        was written back is a record fetched.
        """
        await self.look(config, lines)
        left = max(1, len(lines) // 4)
        for _ in range(2):
            for line in lines[left:]:
                await self.contribute(config, self.rng.randrange(config.workers), line, limit=1)
        await self.look(config, lines)

    async def look(self, config: RegionConfig, lines: list[int]) -> None:
        """A read of each line."""
        other = 64 if config.mode is Mode.FP32 else 8
        for line in lines:
            await self.read_region(config, line, self.rng.choice((0, 0, other)), limit=1)
        await self.drain()


class ReshapeSequence(ForgedSequence):
    """A region changes one thing of its shape on its own area, which FP32 data has prepared.

    `change`: "workers", "lines", "mode", or "place" (an area that was ordinary memory).
    """

    change: str = "workers"

    async def body(self) -> None:
        first, second = self.shapes()
        region = self.rng.randrange(self.cfg.hw.regions)
        if self.change == "place":
            for line in range(second.lines):
                data = forged(2, self.bitmap(second))
                await self.write(self.bookkeeping(second, line) * LINE_BYTES, data)
            await self.drain()
        await self.commit(region, first)
        prepared = range(second.lines)
        if self.change != "place":
            for line in prepared:
                offset = self.bookkeeping(second, line) - first.state_line
                worker, index = divmod(offset, first.lines)
                assert worker < first.workers, "the forgery does not fit"
                await self.contribute(first, worker, index, forged(2, self.bitmap(second)))
        await self.drain()
        await self.initialised()
        await self.commit(region, second)
        lines = self.rng.sample(prepared, second.lines)
        await self.empty(second, lines)
        for line in lines:
            await self.contribute(second, self.rng.randrange(second.workers), line, limit=1)
        await self.empty(second, lines)

    def shapes(self) -> tuple[RegionConfig, RegionConfig]:
        """The descriptor before and after."""
        rng = self.rng
        lines_log2 = 4
        if self.change == "mode":
            workers = rng.randint(16, 64)
            low_bit = rng.choice((Mode.G_BINARY, Mode.G_TERNARY))
            second = self.layout.region(low_bit, lines_log2, workers)
            first = self.layout.region(Mode.FP32, lines_log2, workers)  # keeps the room behind
            first = replace(first, base=second.base, state_base=second.state_base)
            return first, second
        workers = rng.randint(4, 12)
        first = self.layout.region(Mode.FP32, lines_log2, workers)
        if self.change == "workers":
            return first, replace(first, workers=rng.randint(1, workers - 1))
        if self.change == "lines":
            return first, replace(first, lines_log2=rng.randint(1, lines_log2 - 1))
        second = self.layout.region(Mode.FP32, lines_log2, workers)
        return first, replace(second, base=first.base)


class RefusedTwiceSequence(ForgedSequence):
    """After a refused initialisation the next commit of the same shape initialises again."""

    async def body(self) -> None:
        rng = self.rng
        config = self.layout.region(rng.choice((Mode.G_BINARY, Mode.G_TERNARY)), 3, 5)
        region = rng.randrange(self.cfg.hw.regions)
        places = [self.bookkeeping(config, line) for line in range(config.lines)]
        for number, place in enumerate(places):
            await self.write(place * LINE_BYTES, forged(1 + number % 2, self.bitmap(config)))
        await self.drain()
        self.env.cfg.mem.write_error_lines.update(places)
        await self.commit(region, config)
        await self.initialised()
        self.env.cfg.mem.write_error_lines.clear()
        for line in range(config.lines):
            await self.read_region(config, line, 0, limit=1)
            await self.drain()
        await self.commit(region)
        await self.initialised()
        await self.empty(config, rng.sample(range(config.lines), config.lines))


class RefusedFrontSequence(ForgedSequence):
    """The first record is refused: a line that the initialiser has not reached yet is lost, too.

    `last`: in the last region that there is, else in any of them.
    """

    last: bool = False

    async def body(self) -> None:
        rng = self.rng
        config = self.layout.region(rng.choice((Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32)), 9, 3)
        regions = self.cfg.hw.regions
        region = regions - 1 if self.last else rng.randrange(regions)
        self.env.cfg.mem.write_error_lines.add(self.bookkeeping(config, 0))
        await self.commit(region, config)
        while not await self.env.registers.read("MEM_WRITE_ERROR"):
            pass
        ahead = rng.sample(range(config.lines // 2, config.lines), 2 * self.cfg.hw.slots)
        for line in ahead:
            if rng.random() < 0.5:
                await self.contribute(config, rng.randrange(3), line, limit=1)
            await self.read_region(config, line, 0, limit=1)
        await self.drain()


class MovedSequence(ForgedSequence):
    """A region moves while it is initialised: all of its new area is overwritten as well.

    A second region waits meanwhile, and becomes IDENTITY memory before its turn comes.
    """

    async def body(self) -> None:
        rng = self.rng
        mode = rng.choice((Mode.G_BINARY, Mode.FP32))
        here, there = (self.layout.region(mode, 9, 3) for _ in range(2))
        queued = self.layout.region(Mode.G_TERNARY, 6, 3)
        plain = replace(queued, mode=Mode.IDENTITY, lines_log2=0)
        for line in range(there.lines):
            data = forged(2, self.bitmap(there))
            self.env.mem.store.write(self.bookkeeping(there, line), int.from_bytes(data, "little"))
        first, second = rng.sample(range(self.cfg.hw.regions), 2)
        await self.commit(first, here)
        await self.commit(second, queued)
        await self.commit(first, replace(here, state_base=there.state_base))
        await self.commit(second, plain)
        kept = rng.sample(range(256), 12)
        for selector in kept:
            await self.write(plain.address(selector, 0), rng.randbytes(LINE_BYTES))
        await self.empty(here, rng.sample(range(64), 2 * self.cfg.hw.slots))
        await self.initialised()
        await self.empty(here, rng.sample(range(here.lines), 4 * self.cfg.hw.slots))
        for selector in kept:
            await self.read(plain.address(selector, 0))


class InitialiserSequence(ForgedSequence):
    """Every record of a large area is forged; its lines are read around the initialiser's front.

    A second region waits for the initialiser; its lines are as empty from the start.
    """

    lines_log2: int = 13
    reads: int = 150

    async def body(self) -> None:
        rng = self.rng
        config = self.layout.region(Mode.G_BINARY, self.lines_log2, 1)
        queued = self.layout.region(Mode.G_TERNARY, 3, 2)
        for one in (config, queued):
            for line in range(one.lines):
                data = forged(1, self.bitmap(one))
                place = self.bookkeeping(one, line)
                self.env.mem.store.write(place, int.from_bytes(data, "little"))
        first, second = sorted(rng.sample(range(self.cfg.hw.regions), 2))
        await self.commit(first, config)
        await self.commit(second, queued)
        await self.empty(queued, list(range(queued.lines)))
        await self.front(config)
        await self.initialised()
        ends = [config.lines - 1, 4096, 4095, *rng.sample(range(config.lines), 30)]
        await self.empty(config, [line for line in ends if line < config.lines])

    async def front(self, config: RegionConfig) -> None:
        """Reads and contributions just before and behind the line that is initialised."""
        rng = self.rng
        seen = self.env.mem.store.lines
        size = record_lines(config.workers, self.cfg.hw.cnt_w)
        place = 0
        for number in range(self.cfg.count(self.reads)):
            while place < config.lines - 1 and not seen[config.state_line + place * size]:
                place += 1
            line = min(max(place + rng.randint(-8, 24), 0), config.lines - 1)
            if rng.random() < 0.4:
                await self.contribute(config, 0, line, limit=1)
            await self.read_region(config, line, 0, limit=1)
            if number % 8 == 7:
                await self.env.clocks(rng.randint(1, 60))
        await self.drain()


class BesideMarkSequence(ForgedSequence):
    """The last line of a region is written back while the initialiser is far from it.

    Its neighbours share its mark, so that they are asked for; their records are forged, and still
    to be initialised. Then the initialiser comes to them, and memory answers it nothing: a record
    that was sent is not yet one that is there.
    """

    lines_log2: int = 13

    async def body(self) -> None:
        hw, mem = self.cfg.hw, self.env.cfg.mem
        config = self.layout.region(Mode.G_BINARY, self.lines_log2, 3)
        last = config.lines - 1
        forgeries = range(last - 8 * hw.slots, last + 1)
        for line in forgeries:
            data = forged(1, self.bitmap(config))
            self.env.mem.store.write(self.bookkeeping(config, line), int.from_bytes(data, "little"))
        await self.commit(self.rng.randrange(hw.regions), config)
        await self.contribute(config, 0, last)
        await self.drain()
        await self.look(config, list(forgeries[:-1]))
        busy = await self.env.registers.read("STATUS.INIT_BUSY")
        assert busy, "every record was initialised: nothing was tested"
        front = self.bookkeeping(config, self.rng.choice(forgeries[: -hw.slots]))
        while self.env.mem.store.read(front)[0]:
            await self.env.clocks(1)
        mem.b_stall = 1.0
        await self.env.clocks(60)
        for line in forgeries[:-1]:  # INFO alone tells a record without counts from none
            await self.read_region(config, line, INFO_SELECTOR, limit=1)
        await self.drain()
        mem.b_stall = 0.0
        await self.look(config, [last, *forgeries])

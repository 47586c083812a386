# SPDX-License-Identifier: Apache-2.0
"""Evictions (more lines in use than slots), and content of memory before a commit."""

from __future__ import annotations

from models.line_packing import Mode
from models.regions import INFO_SELECTOR, MAX_WORKERS, RegionConfig, state_lines
from verif.mem.memory_config import MemBeat
from verif.sequences.base import RACE_LIMIT, NfSequence
from verif.sequences.line_data import ONES, ZEROS, random_line


class EvictionSequence(NfSequence):
    """More lines than slots, workers in the outer loop: every line is evicted between them."""

    modes: tuple[Mode, ...] = (Mode.G_BINARY, Mode.G_TERNARY)
    workers: int = 3
    factor: float = 1.25
    shuffle: bool = False
    reads: float = 0.05

    async def body(self) -> None:
        slots = self.cfg.hw.slots
        modes = self.modes[: self.cfg.hw.regions]
        share = int(slots * self.factor) // len(modes) + 1  # more than the slots, also when few
        lines_log2 = (share * len(modes) - 1).bit_length()
        configs = [self.layout.region(mode, lines_log2, self.workers) for mode in modes]
        for region, config in enumerate(configs):
            await self.commit(region, config)
        places = [
            (config, line)
            for config in configs
            for line in self.rng.sample(range(config.lines), share)
        ]
        for worker in range(self.workers):
            if self.shuffle:
                self.rng.shuffle(places)
            for config, line in places:
                await self.contribute(config, worker, line, limit=RACE_LIMIT)
                if self.rng.random() < self.reads:
                    other, index = self.rng.choice(places)
                    await self.read_region(other, index, limit=RACE_LIMIT)
        await self.drain()
        for config, line in places:
            for selector in (0, 8):
                await self.read_region(config, line, selector)


class AllInFlightSequence(NfSequence):
    """As many lines as can be on their way to memory at a time, which answers to one in a while:
    whatever is not in a slot is on its way, and is wanted again."""

    rounds: int = 12

    async def body(self) -> None:
        hw, rng = self.cfg.hw, self.rng
        lines = 2 * hw.slots
        config = self.layout.region(Mode.G_BINARY, (lines - 1).bit_length(), MAX_WORKERS)
        await self.commit(0, config)
        await self.initialised()
        self.env.cfg.mem.b_stall = 0.9
        for _ in range(self.rounds):
            for line in rng.sample(range(lines), lines):
                await self.contribute(config, rng.randrange(MAX_WORKERS), line, limit=RACE_LIMIT)
        self.env.cfg.mem.b_stall = 0.0
        await self.drain()
        for line in range(lines):
            await self.read_region(config, line, rng.choice((0, 8)), limit=1)
        await self.drain()


class AgainAtOnceSequence(NfSequence):
    """Lines are wanted again in each of the clocks behind the miss that throws them out, alone and
    beside others whose marks share a row. Slots are given up in the order in which they were taken.
    """

    gaps: int = 10
    rounds: int = 4

    async def body(self) -> None:
        hw, rng = self.cfg.hw, self.rng
        lines = 2 * hw.slots
        config = self.layout.region(Mode.G_BINARY, (lines - 1).bit_length(), MAX_WORKERS)
        for gap in range(self.gaps * self.rounds):  # none of a new round has a mark
            await self.commit(0, config)
            await self.initialised()
            order = rng.sample(range(lines), lines)
            inside, outside = order[: hw.slots], order[hw.slots :]
            for line in inside:
                await self.touch(config, line)
            await self.drain()
            count = rng.randint(1, 3)
            for number in range(count):  # in consecutive clocks, or with one between
                await self.touch(config, outside[number])
                if number == 1 and rng.random() < 0.5:
                    await self.env.clocks(1)
            if gap % self.gaps:
                await self.env.clocks(gap % self.gaps)
            for line in rng.sample(inside[:count], rng.randint(1, count)):
                await self.touch(config, line)
            await self.drain()
            for line in range(lines):
                await self.read_region(config, line, rng.choice((0, 8)), limit=RACE_LIMIT)
            await self.drain()

    async def touch(self, config: RegionConfig, line: int) -> None:
        """A contribution of any worker."""
        await self.contribute(config, self.rng.randrange(MAX_WORKERS), line, limit=RACE_LIMIT)


class PinnedSlotSequence(NfSequence):
    """The slot whose turn it is to be given up is pinned by a sum, as is none of those before it: a
    miss takes one of them and waits for nothing. Lines take the slots in turn behind a reset."""

    async def body(self) -> None:
        slots, mem = self.cfg.hw.slots, self.env.cfg.mem
        crowd = self.layout.region(Mode.G_BINARY, slots.bit_length(), 2)
        summed = self.layout.region(Mode.FP32, 0, 2)
        await self.commit(0, crowd)
        await self.commit(1, summed)
        await self.initialised()
        lines = [(crowd, line) for line in range(2 * slots - 2)]
        lines.insert(slots - 1, (summed, 0))  # into the last slot, which is the oldest at the end
        for config, line in lines:
            await self.contribute(config, 0, line)
            await self.drain()
        mem.r_stall = 1.0
        await self.read_region(summed, 0, 0)
        await self.env.clocks(40)
        missed = await self.contribute(crowd, 0, 2 * slots - 2)
        await self.env.clocks(100)
        answered = missed.response is not None
        mem.r_stall = 0.0
        await self.drain()
        assert answered, "a miss waits for a slot though others can be given up"


class NeighbourRoundsSequence(NfSequence):
    """A commit forgets the evicted lines of its region, and of none of those whose marks lie beside
    them."""

    regions: int = 3
    lines_log2: int = 7

    async def body(self) -> None:
        count = min(self.regions, self.cfg.hw.regions)
        configs = [self.layout.region(Mode.G_BINARY, self.lines_log2, 2) for _ in range(count)]
        for region, config in enumerate(configs):
            await self.commit(region, config)
        for again in self.rng.sample(range(count), count):
            share = min(configs[0].lines, self.cfg.hw.slots)  # enough to evict those before
            places = [
                (config, line)
                for config in configs
                for line in self.rng.sample(range(config.lines), share)
            ]
            for config, line in places:
                await self.contribute(config, self.rng.randrange(2), line)
            await self.drain()
            await self.commit(again)
            for config, line in places:
                await self.read_region(config, line, self.rng.choice((0, 8)))
            await self.drain()


class FetchedPlanesSequence(NfSequence):
    """A record is fetched with the planes that its contributions can have reached, and no more: c
    of them reach ceil(log2(c + 1)), whatever W needs. Of more lines than slots, whose marks nobody
    shares; one request at a time."""

    rounds: int = 4

    async def body(self) -> None:
        rng, hw = self.rng, self.cfg.hw
        self.read_beats = 0
        config = self.layout.region(Mode.G_BINARY, (2 * hw.slots - 1).bit_length(), 15)
        await self.commit(0, config)
        await self.initialised()
        for _ in range(self.rounds):
            await self.commit(0)
            counts = [rng.choice((1, 2, 3, 7, 8)) for _ in range(config.lines)]
            for line, count in enumerate(counts):
                for worker in rng.sample(range(config.workers), count):
                    await self.contribute(config, worker, line)
                await self.drain()
            fetches = 0
            for line, count in enumerate(counts):
                before = self.read_beats
                await self.read_region(config, line, rng.choice((INFO_SELECTOR, 0)))
                await self.drain()
                beats = self.read_beats - before
                fetches += beats > 0
                planes = min(count.bit_length(), hw.cnt_w)
                assert beats in (0, 1 + planes), f"{beats} beats for {count} contributions"
            assert fetches >= config.lines - hw.slots, "a line that left was not fetched"

    def beat(self, beat: MemBeat) -> None:
        """A beat at the memory port."""
        self.read_beats += not beat.write


class GarbageSequence(NfSequence):
    """Garbage and forged records in the state area before a commit are never taken for state."""

    workers: int = 5
    lines_log2: int = 2
    mode: Mode = Mode.G_BINARY

    async def body(self) -> None:
        config = self.layout.region(self.mode, self.lines_log2, self.workers)
        await self.fill(config)
        await self.commit(0, config)
        await self.use(config)
        # The same area again, with true records of the last epoch in it as the forgery.
        moved = self.layout.region(self.mode, self.lines_log2, self.workers)
        await self.commit(0, moved)
        await self.fill(config, keep=0.7)
        await self.commit(0, config)
        await self.use(config)

    async def fill(self, config: RegionConfig, keep: float = 0.0) -> None:
        """Writes the state area while it is still ordinary memory."""
        size = state_lines(config, self.cfg.hw.cnt_w)
        for line in range(min(size, 64)):
            if self.rng.random() < keep:
                continue
            data = self.rng.choice((ZEROS, ONES, random_line(self.rng), b"\x01" + ZEROS[1:]))
            await self.write(config.state_base + (line << 6), data)
        await self.drain()

    async def use(self, config: RegionConfig) -> None:
        """Early reads, contributions, reads; a small slot pool then evicts."""
        for line in range(config.lines):
            await self.read_region(config, line, 0)
            await self.read_region(config, line, 8 if config.mode.low_bit else 64)
        await self.drain()
        for worker in range(config.workers):
            for line in range(config.lines):
                if self.rng.random() < 0.8:
                    await self.contribute(config, worker, line)
        await self.drain()
        for line in range(config.lines):
            await self.read_region(config, line, 0)
        await self.drain()

# SPDX-License-Identifier: Apache-2.0
"""Evictions (more lines in use than slots), and content of memory before a commit."""

from __future__ import annotations

import cocotb

from models.line_packing import Mode
from models.regions import INFO_SELECTOR, MAX_WORKERS, VIEW_SELECTORS, RegionConfig, state_lines
from verif.mem.memory_config import MemBeat
from verif.sequences.base import RACE_LIMIT, NfSequence
from verif.sequences.line_data import ONES, ZEROS, byte_enables, random_line
from verif.sequences.pipeline_programs import APART, ParkedBase


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


# The buffer of evictions at every level, slots that may not be taken, and marks of evicted lines.
#
# Needs few slots: lines leave the chip when others are read.


MISS_DEPTH, BUFFER = 64, 4
"""Evictions under way by default, and those of them whose data is held."""


class EvictionBufferSequence(ParkedBase):
    """Every level of the eviction buffer, and every reason why a slot may not be taken."""

    async def body(self) -> None:
        await self.prepare()
        self.low = self.layout.region(Mode.G_BINARY, 5, 3)
        self.fp32 = self.layout.region(Mode.FP32, 0, 3)
        await self.commit(0, self.low)
        await self.commit(1, self.fp32)
        await self.initialised()
        await self.full_buffer()
        for delay in range(1, 25):
            await self.answered(delay)
        for store in (False, True):
            for dirty in (False, True):
                await self.busy_slot(store, dirty)
        for mode in (Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32):
            await self.before_initialiser(mode)
        for gap in range(4):
            await self.back_at_once(gap)
        await self.marks()
        await self.full_flight()

    async def dirty(self, first: int, count: int) -> None:
        """Lines in their slots that memory does not have as they are."""
        for line in range(first, first + count):
            await self.contribute(self.low, self.rng.randrange(3), line)
            await self.env.clocks(APART)

    async def full_buffer(self) -> None:
        """A fifth line is written back while four are not answered."""
        slots = self.cfg.hw.slots
        await self.leave()
        await self.dirty(0, slots)
        await self.drain()
        self.env.cfg.mem.b_stall = 1.0
        await self.dirty(slots, slots)
        for line in range(2 * slots, 3 * slots):
            await self.read_region(self.low, line, 0)
        await self.env.clocks(3 * APART)
        await self.release()

    async def answered(self, delay: int) -> None:
        """A line is written back around the clock in which memory answers to three others."""
        await self.leave()
        await self.dirty(0, self.cfg.hw.slots)
        await self.drain()
        self.env.cfg.mem.b_stall = 1.0
        for line in range(8, 11):
            await self.read_region(self.low, line, 0)
        await self.env.clocks(2 * APART)
        await self.read_region(self.low, 11, 0)
        await self.env.clocks(delay)
        await self.release()

    async def back_at_once(self, gap: int) -> None:
        """A line is wanted again in the clocks in which it leaves its slot, and while memory has
        not taken it."""
        mem, slots = self.env.cfg.mem, self.cfg.hw.slots
        for stall in (0.0, 1.0):
            await self.leave()
            await self.dirty(0, slots)
            await self.drain()
            mem.w_stall = stall
            await self.read_region(self.low, slots, 0)
            if gap:
                await self.env.clocks(gap)
            for line in range(slots):
                await self.read_region(self.low, line, 0)
            await self.env.clocks(2 * APART)
            mem.w_stall = 0.0
            await self.drain()

    async def marks(self) -> None:
        """Neighbours that share a mark, of which the second one to leave needs fewer planes than
        the first one, as many, and more; lines that share one with nobody; rounds without any."""
        for counts in ((1, 1), (1, 3), (3, 1)):
            await self.commit(0)
            await self.commit(0)
            self.env.cfg.mem.r_stall = 1.0
            first = [await self.read_region(self.low, line, 0) for line in range(2)]
            await self.env.clocks(2 * APART)
            forgotten = all(read.response is not None for read in first)
            assert forgotten, "a line that this round has not written waits for its record"
            self.env.cfg.mem.r_stall = 0.0
            for line, count in enumerate(counts):
                for worker in range(count):
                    await self.contribute(self.low, worker, line)
                await self.leave()
            self.env.cfg.mem.r_stall = 1.0
            half, last = self.low.lines // 2, self.low.lines - 1  # both behind the other mark
            others = [await self.read_region(self.low, line, 0) for line in (half, last)]
            await self.env.clocks(2 * APART)
            at_once = all(read.response is not None for read in others)
            assert at_once, "a line waits for the record of one that has another mark"
            self.env.cfg.mem.r_stall = 0.0
            for line in range(2):
                await self.read_region(self.low, line, 0)
            await self.drain()

    async def full_flight(self) -> None:
        """As many lines are written back as may be: the last ones are not even sent, then all
        wait for their answers. Lines in their slots do not wait."""
        slots, mem = self.cfg.hw.slots, self.env.cfg.mem
        many = self.layout.region(Mode.G_BINARY, 7, 1)
        await self.commit(2, many)
        await self.initialised()
        for more in range(3):
            await self.commit(2)
            last = slots + MISS_DEPTH - BUFFER - more
            for line in range(last):
                if line == slots:
                    mem.b_stall = 1.0
                await self.contribute(many, 0, line)
                await self.drain()
            mem.w_stall = 1.0
            for line in range(last, last + 2 * BUFFER):
                await self.contribute(many, 0, line)
                await self.env.clocks(4)
            await self.env.clocks(2 * APART)
            reads = [await self.read_region(many, line, 0) for line in range(last, last + BUFFER)]
            await self.env.clocks(2 * APART)
            hit = any(read.response is not None for read in reads)
            assert hit, "hits wait behind deferred operations of other lines"
            mem.w_stall = 0.0
            await self.env.clocks(2 * APART)
            await self.release()

    async def busy_slot(self, store: bool, dirty: bool) -> None:
        """A slot is wanted while stores or sums of another one are under way."""
        mem = self.env.cfg.mem
        for _ in range(3):
            await self.leave()
            await self.contribute(self.fp32, 0, 0)
            await self.drain()
            if dirty:
                await self.dirty(0, self.cfg.hw.slots - 1)
            await self.drain()
            mem.b_stall = mem.r_stall = 1.0
            if store:
                await self.contribute(self.fp32, 1, 0)
            else:
                await self.read_region(self.fp32, 0, 0)
            await self.env.clocks(2 * APART)
            await self.read_region(self.low, 12, 0)
            await self.env.clocks(2 * APART)
            mem.r_stall = 0.0
            await self.release()

    async def before_initialiser(self, mode: Mode) -> None:
        """Lines leave their slots behind the initialiser, while it is busy with others, and before
        it has come to their records."""
        mem, slots = self.env.cfg.mem, self.cfg.hw.slots
        config = self.layout.region(mode, 9, 2)
        mem.w_stall = 0.8
        await self.commit(0, config)
        first, last = range(3 * slots), range(config.lines - 3 * slots, config.lines)
        await self.env.clocks(5 * APART)
        for worker in range(2):  # of lines that have records by now: out, and in again
            for line in first:
                await self.contribute(config, worker, line)
            await self.drain()
        for line in last:
            await self.contribute(config, self.rng.randrange(2), line)
        await self.env.clocks(4 * APART)
        # A commit waits for the lines on their way out, and these for the initialiser.
        commit = cocotb.start_soon(self.commit(1))
        await self.env.clocks(4 * APART)
        mem.w_stall = 0.0
        await commit
        await self.drain()
        await self.initialised()
        for line in (*first, *last):
            await self.read_region(config, line, 0, limit=1)
        await self.drain()
        await self.commit(0, self.low)
        await self.initialised()


# Every place of tables that a draw fills here and there: marks of evicted lines, tallies of
# workers, what waits for a slot. A table that is too short, or whose rows share a place, answers
# for the wrong line.


class EveryTallySequence(NfSequence):
    """Each worker of each region contributes, of a region more or less than of the next; half of
    the regions begin again, and every tally is compared at the end of the test."""

    async def body(self) -> None:
        rng, regions = self.rng, self.cfg.hw.regions
        work = []
        for region in rng.sample(range(regions), regions):
            config = self.layout.region(Mode.G_BINARY, 0, 64)
            await self.commit(region, config)
            work += [(config, worker) for worker in range(config.workers)]
        again = rng.sample(range(regions), regions // 2)
        for _ in range(2):
            for config, worker in rng.sample(work, len(work)):
                await self.contribute(config, worker, 0)
            await self.drain()
            for region in again:
                await self.commit(region)
            work = rng.sample(work, len(work) // 2)


class EveryMarkSequence(NfSequence):
    """A line of each row of marks, in each region, is evicted and fetched again: nobody's
    contribution is lost by a commit of another region, and none of an older epoch comes back."""

    rows: int = 128
    lines: int = 32
    """Lines of a row, in a region of as many lines as marks."""

    async def body(self) -> None:
        rng, regions = self.rng, self.cfg.hw.regions
        small = self.layout.region(Mode.G_BINARY, 8, 3)
        await self.commit(0, small)
        await self.initialised()
        work = [(small, line) for line in range(0, small.lines, 2)]
        await self.each(work, 0)
        await self.unmarked(work)
        configs: list[RegionConfig] = []
        for region in range(regions):
            config = self.layout.region(Mode.G_BINARY, (self.rows * self.lines).bit_length() - 1, 3)
            await self.commit(region, config)
            configs.append(config)
        work = [
            (config, row * self.lines + rng.randrange(self.lines))
            for config in configs
            for row in range(self.rows)
        ]
        await self.initialised()
        await self.each(work, 0)
        await self.unmarked(work)
        for region in rng.sample(range(regions), regions // 2):
            await self.commit(region)
        await self.each(work, 1)
        for config, line in rng.sample(work, len(work)):
            await self.read_region(config, line, INFO_SELECTOR)
        await self.drain()
        for region in range(regions):
            await self.commit(region, self.layout.region(Mode.G_BINARY, 0, 1))

    async def unmarked(self, work: list[tuple[RegionConfig, int]]) -> None:
        """Lines beside those that have left, which nobody has used, ask memory for nothing."""
        self.env.cfg.mem.r_stall = 1.0
        used = set(work)
        reads = [
            await self.read_region(config, line ^ 1, 0)
            for config, line in self.rng.sample(work, self.rows // 4)
            if (config, line ^ 1) not in used
        ]
        await self.env.clocks(300)
        at_once = [read.response is not None for read in reads]
        assert at_once, "no line without a mark was read"
        assert all(at_once), "a line without a mark is fetched"
        self.env.cfg.mem.r_stall = 0.0
        await self.drain()

    async def each(self, work: list[tuple[RegionConfig, int]], worker: int) -> None:
        """A worker's contribution to each of these lines, in any order."""
        for config, line in self.rng.sample(work, len(work)):
            await self.contribute(config, worker, line)
        await self.drain()


class EveryMissSequence(NfSequence):
    """FP32 operations of every kind wait for the record of their line in every slot: whole and
    partial stores, sums, lines of a worker. Memory answers to the stores before the records or
    behind them, and in the second epoch it refuses half of the stores."""

    passes: int = 12

    async def body(self) -> None:
        rng, mem, slots = self.rng, self.env.cfg.mem, self.cfg.hw.slots
        config = self.layout.region(Mode.FP32, slots.bit_length(), 4)
        lines = rng.sample(range(config.lines), slots + slots // 4)
        data = range(config.state_line, config.state_line + config.workers * config.lines)
        for refuses in (False, True):
            await self.commit(0, config)
            await self.initialised()
            for line in lines:
                await self.contribute(config, 0, line)
            await self.drain()
            refused = rng.sample(data, len(data) // 2) if refuses else []
            mem.write_error_lines.update(refused)
            self.env.scoreboard.model.write_errors.update(refused)
            for number in range(self.passes):
                mem.r_stall = 0.9 if refuses or number % 2 else 0.0
                for line in rng.sample(lines, len(lines)):
                    await self.one(config, line)
                await self.drain()
        mem.r_stall = 0.0
        mem.write_error_lines.clear()
        self.env.scoreboard.model.write_errors.clear()

    async def one(self, config: RegionConfig, line: int) -> None:
        """An operation of any kind."""
        kind = self.rng.random()
        if kind < 0.6:
            be = byte_enables(self.rng) if kind < 0.15 else None
            await self.contribute(config, self.rng.randrange(config.workers), line, be=be)
        else:
            await self.read_region(config, line, 0 if kind < 0.8 else None)


class EveryParkSequence(NfSequence):
    """As many operations wait for records as the device admits: a host with all its credits sends
    contributions and reads, of a few lines or of many, and memory answers when all have come."""

    rounds: int = 12
    admitted: int = 64
    """Of each kind, by default: as many answers as the device has places for."""

    async def body(self) -> None:
        rng, mem, slots = self.rng, self.env.cfg.mem, self.cfg.hw.slots
        config = self.layout.region(Mode.G_BINARY, slots.bit_length() + 1, 64)
        await self.commit(0, config)
        await self.initialised()
        for number in range(self.rounds):
            for line in range(config.lines // 2 * (number % 2), config.lines // (2 - number % 2)):
                await self.contribute(config, number, line)  # the others leave
            await self.drain()
            away = config.lines // 2 * (1 - number % 2)
            few = rng.sample(range(away, away + config.lines // 2), rng.choice((2, 6, 40)))
            written, read = few[::2], few[1::2]  # what races on a line commutes
            workers = rng.sample(range(config.workers), config.workers)
            mem.r_stall = 1.0
            work = [True, False] * self.admitted
            rng.shuffle(work)
            for write in work:
                if write:
                    await self.contribute(config, workers.pop(), rng.choice(written))
                else:
                    await self.read_region(config, rng.choice(read), INFO_SELECTOR)
            await self.env.clocks(600)
            mem.r_stall = 0.0
            await self.drain()


class EveryFigureSequence(NfSequence):
    """Each figure of STATUS, of every region, counts to 256: complete and poisoned lines, refused
    accesses, and late contributions behind CLOSE. The predictor compares what is read."""

    lines_log2: int = 8

    async def body(self) -> None:
        rng, regions = self.rng, self.cfg.hw.regions
        for region in rng.sample(range(regions), regions):
            config = self.layout.region(Mode.G_BINARY, self.lines_log2, 2, ld_mask=0x00FF)
            await self.commit(region, config)
            for worker in range(2):
                for line in rng.sample(range(config.lines), config.lines):
                    await self.contribute(config, worker, line, poison=not worker)
                await self.drain()
            for line in range(config.lines):
                await self.read(config.address(0, line), ldid=rng.randrange(8, 16))
            await self.figures(region, config)
            await self.commit(region)
            await self.close(region)
            for line in range(config.lines):
                await self.contribute(config, line % 2, line)
            await self.figures(region, config)
            await self.commit(region, self.layout.region(Mode.G_BINARY, 0, 1))

    async def figures(self, region: int, config: RegionConfig) -> None:
        """Reads the figures by both ways."""
        await self.drain()
        for name in ("STATUS", "COMPLETE_LINES"):
            await self.env.registers.read(f"REGION[{region}].{name}")
        for selector in VIEW_SELECTORS:
            await self.read_region(config, 0, selector)
        await self.drain()

# SPDX-License-Identifier: Apache-2.0
"""Evictions (more lines in use than slots), and the tables of evicted lines."""

from itertools import product

import cocotb

from models.modes import Mode
from models.regions import INFO_SELECTOR, MAX_WORKERS, RegionConfig
from verif.mem.memory_config import MemBeat
from verif.sequences.base import ANY, RACE_LIMIT, NfSequence
from verif.sequences.line_data import byte_enables
from verif.sequences.pipeline_programs import APART, ParkedBase


class EvictionSequence(NfSequence):
    """Contributions to more lines than slots, workers in the outer loop.

    Every line is evicted between workers. `factor` is the number of lines as a multiple of the
    slots, `reads` the probability of a read after a contribution, `shuffle` draws a new order per
    worker.
    """

    modes: tuple[Mode, ...] = (Mode.G_BINARY, Mode.G_TERNARY)
    factor: float = 1.25
    shuffle: bool = False
    reads: float = 0.05

    async def body(self) -> None:
        modes = self.modes[: self.hw.regions]
        share = int(self.slots * self.factor) // len(modes) + 1  # more than few slots, too
        lines_log2 = (share * len(modes) - 1).bit_length()
        configs = await self.start_regions(*((mode, lines_log2, 3) for mode in modes))
        places = [
            (config, line) for config in configs for line in self.sample(range(config.lines), share)
        ]
        for worker in range(3):
            if self.shuffle:
                self.rng.shuffle(places)
            for config, line in places:
                await self.contribute(config, worker, line, limit=RACE_LIMIT)
                if self.random() < self.reads:
                    await self.read_region(*self.choice(places), limit=RACE_LIMIT)
        await self.drain()
        for config, line in places:
            await self.read_lines(config, line, (0, 8), wait=False)


class AllInFlightSequence(NfSequence):
    """The maximum number of write-backs in flight, with a memory that answers 10 % of the cycles.

    Every line that is not in a slot is being written back, and is needed again.
    """

    async def body(self) -> None:
        lines = range(2 * self.slots)
        log2 = (len(lines) - 1).bit_length()
        config = await self.start_region(0, Mode.G_BINARY, log2, MAX_WORKERS, ready=True)
        async with self.stalled("b", level=0.9):
            for _ in range(12):
                order = self.shuffled(lines)
                await self.fill_lines(config, order, ANY, limit=RACE_LIMIT, wait=False)
        await self.read_each(((config, line, self.choice((0, 8))) for line in lines), limit=1)


class AgainAtOnceSequence(NfSequence):
    """Lines that are needed again 0 to 9 cycles after the miss that evicts them.

    One to three of them are evicted in consecutive cycles; their marks may share a row of the mark
    table. Slots are evicted in the order in which they were filled. In half of the rounds all but
    one of a few workers have contributed before, so that the counts have all their bits.
    """

    async def body(self) -> None:
        lines, lines_log2 = range(2 * self.slots), (2 * self.slots - 1).bit_length()
        counted = (Mode.G_BINARY, Mode.G_TERNARY, *([Mode.G_TERN5] * 2 * self.hw.tern5))
        for gap in range(10 * 4):  # a new round has no marks
            few = gap // 10 % 2 == 1
            mode = self.choice(counted) if few else Mode.G_BINARY
            workers = self.randint(3, 5) if few else MAX_WORKERS
            config = await self.start_region(0, mode, lines_log2, workers, ready=True)
            order = self.shuffled(lines)
            inside, outside = order[: self.slots], order[self.slots :]
            before = range(config.workers - 1) if few else ANY
            await self.fill_lines(config, inside, before, limit=RACE_LIMIT)
            count = self.randint(1, 3)
            for number in range(count):  # in consecutive cycles, or with one between
                await self.fill_lines(config, outside[number], ANY, limit=RACE_LIMIT, wait=False)
                if number == 1 and self.random() < 0.5:
                    await self.cycles(1)
            await self.cycles(gap % 10)
            again = self.sample(inside[:count], self.randint(1, count))
            await self.fill_lines(config, again, ANY, limit=RACE_LIMIT)
            await self.read_each(
                ((config, line, self.choice((0, 8))) for line in lines), limit=RACE_LIMIT
            )


class PinnedSlotSequence(NfSequence):
    """A miss while an FP32 sum in progress pins the next victim slot: another slot is evicted.

    After a reset lines fill the slots in order, so the sum's line is placed into the last slot.
    """

    async def body(self) -> None:
        shapes = ((Mode.G_BINARY, self.slots.bit_length(), 2), (Mode.FP32, 0, 2))
        crowd, summed = await self.start_regions(*shapes, ready=True)
        lines = [(crowd, line) for line in range(2 * self.slots - 2)]
        lines.insert(self.slots - 1, (summed, 0))  # in the last slot, the oldest one at the end
        for config, line in lines:
            await self.fill_lines(config, line, 0)
        async with self.stalled("r"):
            await self.read_lines(summed, 0, apart=40, wait=False)
            missed = await self.contribute(crowd, 0, 2 * self.slots - 2)
            await self.cycles(100)
            answered = missed.response is not None
        assert answered, "a miss waits for a pinned slot though others can be evicted"


class NeighbourRoundsSequence(NfSequence):
    """Commits of regions with adjacent marks: each clears only the marks of the committed region.

    Marks say which lines have a record of the epoch; after a commit lost or stale state would show.
    """

    async def body(self) -> None:
        count = min(3, self.hw.regions)
        configs = await self.start_regions(*[(Mode.G_BINARY, 7, 2)] * count)
        for again in self.shuffled(range(count)):
            share = min(configs[0].lines, self.slots)  # enough to evict all earlier lines
            places = [
                (config, line)
                for config in configs
                for line in self.sample(range(config.lines), share)
            ]
            await self.contribute_each((config, self.randrange(2), line) for config, line in places)
            await self.commit(again)
            await self.read_each((config, line, self.choice((0, 8))) for config, line in places)


class FetchedPlanesSequence(NfSequence):
    """Number of memory beats per fetched record: bookkeeping and the planes that it can need.

    c contributions reach ceil(log2(c + 1)) planes, however many W needs. There are more lines than
    slots, no two lines share a mark, and there is one request at a time.
    """

    async def body(self) -> None:
        self.read_beats = 0
        lines_log2 = (2 * self.slots - 1).bit_length()
        config = await self.start_region(0, Mode.G_BINARY, lines_log2, 15, ready=True)
        for _ in range(4):
            await self.commit(0)
            counts = [self.choice((1, 2, 3, 7, 8)) for _ in range(config.lines)]
            for line, count in enumerate(counts):
                await self.fill_lines(config, line, self.sample(range(config.workers), count))
            fetches = 0
            for line, count in enumerate(counts):
                before = self.read_beats
                await self.read_lines(config, line, self.choice((INFO_SELECTOR, 0)))
                beats = self.read_beats - before
                fetches += beats > 0
                planes = min(count.bit_length(), self.hw.cnt_w)
                assert beats in (0, 1 + planes), f"{beats} beats for {count} contributions"
            assert fetches >= config.lines - self.slots, f"only {fetches} records were fetched"

    def beat(self, beat: MemBeat) -> None:
        """Count read beats on the memory port; the test connects it to the memory monitor."""
        self.read_beats += not beat.write


MISS_DEPTH, BUFFER = 64, 4
"""Maximum number of evictions in flight by default, and of those whose data is still buffered."""


class EvictionBufferSequence(ParkedBase):
    """Directed cases of the eviction buffer: fill levels, slots that are no victims, shared marks.

    Needs few slots: lines are evicted by reads of other lines.
    """

    async def body(self) -> None:
        shapes = ((Mode.G_BINARY, 5, 3), (Mode.FP32, 0, 3))
        self.low, self.fp32 = await self.start_regions(*shapes, ready=True)
        await self.full_buffer()
        for delay in range(1, 25):
            await self.answered(delay)
        for store, dirty in product((False, True), repeat=2):
            await self.busy_slot(store, dirty)
        for mode in (Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32):
            await self.before_initialiser(mode)
        for gap in range(4):
            await self.back_at_once(gap)
        await self.marks()
        await self.full_flight()

    async def dirty(self, first: int, count: int) -> None:
        """Contribute to lines `first` to `first` + `count` - 1, whose slots become dirty."""
        lines = range(first, first + count)
        await self.fill_lines(self.low, lines, ANY, apart=APART, wait=False)

    async def all_dirty(self) -> None:
        """Fill every slot with a line that has a contribution since its fetch (dirty)."""
        await self.leave()
        await self.dirty(0, self.slots)
        await self.drain()

    async def full_buffer(self) -> None:
        """Evict many dirty lines while memory answers none: more than four are unanswered."""
        await self.all_dirty()
        async with self.stalled("b"):
            await self.dirty(self.slots, self.slots)
            await self.read_lines(self.low, range(2 * self.slots, 3 * self.slots), wait=False)
            await self.cycles(3 * APART)

    async def answered(self, delay: int) -> None:
        """Evict a dirty line around the cycle in which memory answers three write-backs.

        `delay` is the number of cycles from that eviction to the first answer.
        """
        await self.all_dirty()
        async with self.stalled("b"):
            await self.read_lines(self.low, range(8, 11), wait=False)
            await self.cycles(2 * APART)
            await self.read_lines(self.low, 11, apart=delay, wait=False)

    async def back_at_once(self, gap: int) -> None:
        """Read a line `gap` cycles after the miss that evicts it; memory takes its data or not."""
        for stall in (0.0, 1.0):
            await self.all_dirty()
            async with self.stalled("w", level=stall):
                await self.read_lines(self.low, self.slots, apart=gap, wait=False)
                await self.read_lines(self.low, range(self.slots), wait=False)
                await self.cycles(2 * APART)

    async def answered_at_once(self, *lines: int) -> bool:
        """Read lines while memory reads are stalled; return True if all reads are answered."""
        with self.memory(r_stall=1.0):
            reads = await self.read_lines(self.low, lines, wait=False)
            await self.cycles(2 * APART)
            return all(read.response is not None for read in reads)

    async def marks(self) -> None:
        """Evict two neighbours that share a mark of evicted lines.

        The second one needs fewer planes than the first one, as many, or more. Lines with another
        mark, and all lines at the start of an epoch, are read without memory.
        """
        for counts in ((1, 1), (1, 3), (3, 1)):
            await self.commit(0)
            await self.commit(0)
            at_once = await self.answered_at_once(0, 1)
            assert at_once, "a line without contributions in this round waits for a record"
            for line, count in enumerate(counts):
                await self.fill_lines(self.low, line, range(count), wait=False)
                await self.leave()
            at_once = await self.answered_at_once(self.low.lines // 2, self.low.lines - 1)
            assert at_once, "a line with another mark waits for a record"
            await self.read_lines(self.low, range(2))

    async def full_flight(self) -> None:
        """Reach the maximum number of write-backs in flight; lines in their slots do not wait.

        At first memory does not even accept the last ones, then all wait for their responses.
        """
        many = await self.start_region(2, Mode.G_BINARY, 7, 1, ready=True)
        for more in range(3):
            await self.commit(2)
            last = self.slots + MISS_DEPTH - BUFFER - more
            await self.fill_lines(many, range(self.slots), 0, alone=True)
            async with self.stalled("b"):
                await self.fill_lines(many, range(self.slots, last), 0, alone=True)
                with self.memory(w_stall=1.0):
                    lines = range(last, last + 2 * BUFFER)
                    await self.fill_lines(many, lines, 0, apart=4, wait=False)
                    await self.cycles(2 * APART)
                    reads = await self.read_lines(many, range(last, last + BUFFER), wait=False)
                    await self.cycles(2 * APART)
                    hit = any(read.response is not None for read in reads)
                    assert hit, "hits wait for deferred operations of other lines"
                await self.cycles(2 * APART)

    async def busy_slot(self, store: bool, dirty: bool) -> None:
        """Read a line that misses while a store or a sum of another slot is in progress.

        Args:
            store: let a store be in progress, else a sum.
            dirty: make the other slots dirty first.
        """
        for _ in range(3):
            await self.leave()
            await self.fill_lines(self.fp32, 0, 0)
            if dirty:
                await self.dirty(0, self.slots - 1)
            await self.drain()
            async with self.stalled("b"):
                with self.memory(r_stall=1.0):
                    if store:
                        await self.contribute(self.fp32, 1, 0)
                    else:
                        await self.read_region(self.fp32, 0, 0)
                    await self.cycles(2 * APART)
                    await self.read_lines(self.low, 12, apart=2 * APART, wait=False)

    async def before_initialiser(self, mode: Mode) -> None:
        """Evict lines with initialised records, and lines that the initialiser has not reached.

        A commit of another region meanwhile waits for these evictions.
        """
        config = self.layout.region(mode, 9, 2)
        with self.memory(w_stall=0.8):
            await self.commit(0, config)
            first, last = range(3 * self.slots), range(config.lines - 3 * self.slots, config.lines)
            await self.cycles(5 * APART)
            for worker in range(2):  # of lines that have records by now: out, and in again
                await self.fill_lines(config, first, worker)
            await self.fill_lines(config, last, ANY, wait=False)
            await self.cycles(4 * APART)
            # A commit waits for the lines that are evicted, and these for the initialiser.
            commit = cocotb.start_soon(self.commit(1, ready=True))
            await self.cycles(4 * APART)
        await commit
        await self.drain()
        await self.read_lines(config, (*first, *last), limit=1)
        await self.commit(0, self.low, ready=True)


class EveryMarkSequence(NfSequence):
    """A line of every row of the mark table of every region, evicted and fetched again.

    A mark says that a line was evicted in this epoch. A commit of another region must lose no
    contribution, and no state of an older epoch may return.
    """

    rows: int = 128
    lines: int = 32
    """Lines whose marks share a row, in a region of as many lines as marks."""

    async def body(self) -> None:
        regions = self.hw.regions
        small = await self.start_region(0, Mode.G_BINARY, 8, 3, ready=True)
        work = [(small, line) for line in range(0, small.lines, 2)]
        await self.each(work, 0)
        await self.unmarked(work)
        lines_log2 = (self.rows * self.lines).bit_length() - 1
        configs = await self.start_regions(*[(Mode.G_BINARY, lines_log2, 3)] * regions)
        work = [
            (config, row * self.lines + self.randrange(self.lines))
            for config, row in product(configs, range(self.rows))
        ]
        await self.initialised()
        await self.each(work, 0)
        await self.unmarked(work)
        for region in self.sample(range(regions), regions // 2):
            await self.commit(region)
        await self.each(work, 1)
        await self.read_each((config, line, INFO_SELECTOR) for config, line in self.shuffled(work))
        await self.start_regions(*[(Mode.G_BINARY, 0, 1)] * regions)

    async def unmarked(self, work: list[tuple[RegionConfig, int]]) -> None:
        """Check that neighbours of evicted lines that were never used are read without memory.

        `work` lists the (region, line) that were used.
        """
        used = set(work)
        async with self.stalled("r"):
            reads = [
                await self.read_region(config, line ^ 1, 0)
                for config, line in self.sample(work, self.rows // 4)
                if (config, line ^ 1) not in used
            ]
            await self.cycles(300)
            at_once = [read.response is not None for read in reads]
        assert at_once, "no line without a mark was read"
        assert all(at_once), "a line without a mark is fetched"

    async def each(self, work: list[tuple[RegionConfig, int]], worker: int) -> None:
        """Contribute as `worker` to each (region, line) of `work`, in random order."""
        await self.contribute_each((config, worker, line) for config, line in self.shuffled(work))


class EveryMissSequence(NfSequence):
    """FP32 operations of every kind that wait for the record of their line, in every slot.

    Whole and partial stores, reads of sums and of single workers' lines. Memory answers stores
    before or after the records, and refuses half of the stores in the second of two epochs of the
    region.
    """

    async def body(self) -> None:
        config = self.layout.region(Mode.FP32, self.slots.bit_length(), 4)
        lines = self.sample(range(config.lines), self.slots + self.slots // 4)
        data = range(config.state_line, config.state_line + config.workers * config.lines)
        for refuses in (False, True):
            await self.commit(0, config, ready=True)
            await self.fill_lines(config, lines, 0)
            refused = self.sample(data, len(data) // 2) if refuses else []
            with self.failing(writes=refused, known=True), self.memory(r_stall=0.0):
                for number in range(12):
                    self.mem.r_stall = 0.9 if refuses or number % 2 else 0.0
                    for line in self.shuffled(lines):
                        await self.one(config, line)
                    await self.drain()

    async def one(self, config: RegionConfig, line: int) -> None:
        """Issue a store (45 %), partial store (15 %), read of the sum (20 %) or any read (20 %)."""
        kind = self.random()
        if kind < 0.6:
            be = byte_enables(self.rng) if kind < 0.15 else None
            await self.contribute(config, self.randrange(config.workers), line, be=be)
        else:
            await self.read_region(config, line, 0 if kind < 0.8 else None)


class EveryParkSequence(NfSequence):
    """The maximum number of operations that wait for records to be fetched.

    A host with all its credits sends contributions and INFO reads of few or many lines, and memory
    answers after all have arrived.
    """

    async def body(self) -> None:
        lines_log2 = self.slots.bit_length() + 1
        config = await self.start_region(0, Mode.G_BINARY, lines_log2, 64, ready=True)
        halves = range(config.lines // 2), range(config.lines // 2, config.lines)
        for number in range(12):
            here, away = halves if number % 2 == 0 else halves[::-1]
            await self.fill_lines(config, here, number)  # evicts the others
            few = self.sample(away, self.choice((2, 6, 40)))
            written, read = few[::2], few[1::2]  # operations that race on a line commute
            workers = self.shuffled(range(config.workers))
            async with self.stalled("r"):
                work = [True, False] * 64
                self.rng.shuffle(work)
                for write in work:
                    if write:
                        await self.contribute(config, workers.pop(), self.choice(written))
                    else:
                        await self.read_region(config, self.choice(read), INFO_SELECTOR)
                await self.cycles(600)

# SPDX-License-Identifier: Apache-2.0
"""Forged records: placed where a host can place them, they are never taken for state."""

from collections.abc import Iterable
from dataclasses import replace

from models.line_packing import LINE_BYTES
from models.modes import Mode
from models.regions import INFO_SELECTOR, RegionConfig, record_lines, state_lines
from verif.env.rtl_packages import parameter
from verif.sequences.base import ANY, NfSequence
from verif.sequences.line_data import AGGREGATING, LOW_BIT, ONES, ZEROS, forged, random_line


class ForgedSequence(NfSequence):
    """Base of sequences that place forged records in memory and read lines that must be empty."""

    def bitmap(self, config: RegionConfig) -> int:
        """Draw a bitmap of the region's workers: all of them in half of the cases, else some."""
        every = (1 << config.workers) - 1
        return every if self.random() < 0.5 else self.getrandbits(64) & every | 1

    def place(self, config: RegionConfig, lines: Iterable[int], generation: int) -> None:
        """Write forged bookkeeping lines of some lines of a region directly to the memory model."""
        for line in lines:
            data = forged(generation, self.bitmap(config))
            self.env.mem.store.write(self.bookkeeping(config, line), int.from_bytes(data, "little"))

    async def empty(self, config: RegionConfig, lines: list[int]) -> None:
        """Read the lines, contribute twice to three quarters of them, and read again.

        At first the lines must be empty, as the model knows. The contributions evict lines: a
        record is only fetched if a line with the same mark was written back. One request at a time
        is in flight on a line.
        """
        await self.look(config, lines)
        left = max(1, len(lines) // 4)
        for _ in range(2):
            await self.fill_lines(config, lines[left:], ANY, limit=1, wait=False)
        await self.look(config, lines)

    async def look(self, config: RegionConfig, lines: list[int]) -> None:
        """Read each line: selector 0 or count plane 0 (FP32: worker 0's line); await responses."""
        for line in lines:
            selector = self.choice((0, 0, self.part_selector(config)))
            await self.read_region(config, line, selector, limit=1)
        await self.drain()


class ReshapeSequence(ForgedSequence):
    """Commits that change one property of a region whose new records were forged through FP32 data.

    `change` is "workers", "lines", "mode", "place" (an area that was ordinary memory before), or
    "sums" (kept from now on: the area grows into what was ordinary memory). The device must not
    take the forged records for state of the new epoch.
    """

    change: str = "workers"

    async def body(self) -> None:
        first, second = self.shapes()
        region = self.any_region()
        prepared = range(second.lines)
        end = state_lines(first, self.hw.cnt_w)
        places = {line: self.bookkeeping(second, line) - first.state_line for line in prepared}
        for line, offset in places.items():
            if not 0 <= offset < end:
                data = forged(2, self.bitmap(second))
                await self.write(self.bookkeeping(second, line) * LINE_BYTES, data)
        await self.drain()
        await self.commit(region, first)
        for line, offset in places.items():
            worker, index = divmod(offset, first.lines)
            if 0 <= worker < first.workers:
                await self.contribute(first, worker, index, forged(2, self.bitmap(second)))
            else:
                assert self.change in ("place", "sums"), f"line {line}: no worker {worker}"
        await self.drain()
        await self.initialised()
        await self.commit(region, second)
        lines = self.sample(prepared, second.lines)
        await self.empty(second, lines)
        await self.fill_lines(second, lines, ANY, limit=1, wait=False)
        await self.empty(second, lines)

    def shapes(self) -> tuple[RegionConfig, RegionConfig]:
        """Return the descriptors before and after the change that the option `change` names."""
        lines_log2 = 4
        if self.change == "mode":
            workers = self.randint(16, 64)
            second = self.layout.region(self.choice(LOW_BIT), lines_log2, workers)
            first = self.layout.region(Mode.FP32, lines_log2, workers)  # reserves the room after it
            return replace(first, base=second.base, state_base=second.state_base), second
        workers = self.randint(4, 12)
        first = self.layout.region(Mode.FP32, lines_log2, workers)
        if self.change == "workers":
            return first, replace(first, workers=self.randint(1, workers - 1))
        if self.change == "lines":
            return first, replace(first, lines_log2=self.randint(1, lines_log2 - 1))
        if self.change == "sums":
            second = self.layout.region(Mode.FP32, lines_log2, workers, keep_sum=True)
            return replace(second, keep_sum=False), second
        second = self.layout.region(Mode.FP32, lines_log2, workers)
        return first, replace(second, base=first.base)


class RefusedTwiceSequence(ForgedSequence):
    """Commit of a region whose records memory refuses to write, then a commit of the same shape.

    All lines are lost in the first epoch; the second commit initialises the records again.
    """

    async def body(self) -> None:
        config = self.layout.region(self.choice(LOW_BIT), 3, 5)
        region = self.any_region()
        places = [self.bookkeeping(config, line) for line in range(config.lines)]
        for number, place in enumerate(places):
            await self.write(place * LINE_BYTES, forged(1 + number % 2, self.bitmap(config)))
        await self.drain()
        with self.failing(writes=places):
            await self.commit(region, config, ready=True)
        await self.read_lines(config, alone=True, limit=1)
        await self.commit(region, ready=True)
        await self.empty(config, self.shuffled(range(config.lines)))


class RefusedFrontSequence(ForgedSequence):
    """Initialisation whose first record memory refuses: lines not yet reached by it are lost, too.

    `last`: use the region with the highest number instead of a random one.
    """

    last: bool = False

    async def body(self) -> None:
        config = self.layout.region(self.choice(AGGREGATING), 9, 3)
        region = self.hw.regions - 1 if self.last else self.any_region()
        self.mem.write_error_lines.add(self.bookkeeping(config, 0))
        await self.commit(region, config)
        while not await self.registers.read("MEM_WRITE_ERROR"):
            pass
        ahead = self.sample(range(config.lines // 2, config.lines), 2 * self.slots)
        for line in ahead:
            if self.random() < 0.5:
                await self.contribute(config, self.randrange(3), line, limit=1)
            await self.read_region(config, line, 0, limit=1)
        await self.drain()


class RefusedMateSequence(ForgedSequence):
    """Write-backs before the initialiser, which empty records of neighbours, and one refusal.

    The forged record that stays must not be taken for state: all records of the region are unknown.
    """

    async def body(self) -> None:
        config = self.layout.region(self.choice(LOW_BIT), 9, 3)
        lines = range(config.lines - 2 * self.slots - 2, config.lines)
        self.place(config, lines, 1)
        self.mem.write_error_lines.add(self.bookkeeping(config, self.choice(lines)))
        await self.commit(self.any_region(), config)
        for line in self.shuffled(lines)[: self.slots + 1]:
            await self.contribute(config, self.randrange(3), line, limit=1)
        await self.drain()
        while not await self.registers.read("MEM_WRITE_ERROR"):
            busy = await self.registers.read("STATUS.INIT_BUSY")
            assert busy, "no write-back came before the initialiser: the test shows nothing"
        await self.look(config, self.shuffled(lines))


class MovedSequence(ForgedSequence):
    """A commit that moves the state area while the old one is still being initialised.

    All of the new area, which holds forged records, must be initialised as well. A second region
    waits for the initialiser and becomes IDENTITY memory before its turn.
    """

    async def body(self) -> None:
        mode = self.choice((Mode.G_BINARY, Mode.FP32))
        here, there = (self.layout.region(mode, 9, 3) for _ in range(2))
        queued = self.layout.region(Mode.G_TERNARY, 6, 3)
        plain = replace(queued, mode=Mode.IDENTITY, lines_log2=0)
        self.place(there, range(there.lines), 2)
        first, second = self.sample(range(self.hw.regions), 2)
        await self.commit_all(here, queued, regions=(first, second))
        await self.commit(first, replace(here, state_base=there.state_base))
        await self.commit(second, plain)
        kept = self.sample(range(256), 12)
        for selector in kept:
            await self.write(plain.address(selector, 0), self.randbytes(LINE_BYTES))
        await self.empty(here, self.sample(range(64), 2 * self.slots))
        await self.initialised()
        await self.empty(here, self.sample(range(here.lines), 4 * self.slots))
        await self.read_addresses(plain.address(selector, 0) for selector in kept)


class InitialiserSequence(ForgedSequence):
    """Reads close to the line that is being initialised, in a large area of forged records.

    A second region waits for the initialiser; its lines must be empty from the start.
    """

    lines_log2: int = 13

    async def body(self) -> None:
        config = self.layout.region(Mode.G_BINARY, self.lines_log2, 1)
        queued = self.layout.region(Mode.G_TERNARY, 3, 2)
        for one in (config, queued):
            self.place(one, range(one.lines), 1)
        regions = sorted(self.sample(range(self.hw.regions), 2))
        await self.commit_all(config, queued, regions=regions)
        await self.empty(queued, list(range(queued.lines)))
        await self.front(config)
        await self.initialised()
        ends = [config.lines - 1, 4096, 4095, *self.sample(range(config.lines), 30)]
        await self.empty(config, [line for line in ends if line < config.lines])

    async def front(self, config: RegionConfig) -> None:
        """Contribute to and read lines from 8 before to 24 after the one being initialised."""
        seen = self.env.mem.store.lines
        size = record_lines(config.workers, self.hw.cnt_w)
        place = 0
        for number in range(self.cfg.count(150)):
            while place < config.lines - 1 and not seen[config.state_line + place * size]:
                place += 1
            line = min(max(place + self.randint(-8, 24), 0), config.lines - 1)
            if self.random() < 0.4:
                await self.contribute(config, 0, line, limit=1)
            await self.read_region(config, line, 0, limit=1)
            if number % 8 == 7:
                await self.cycles(self.randint(1, 60))
        await self.drain()


class BesideMarkSequence(ForgedSequence):
    """Write-back of the last line of a region while the initialiser is far from its record.

    The neighbours of the line share its mark, so they are fetched although their forged records are
    not overwritten yet. Then the initialiser reaches them, and memory answers none of its writes: a
    record that was sent is not yet in memory.

    `last`: use the region with the highest number instead of a random one.
    """

    last: bool = False

    async def body(self) -> None:
        config = self.layout.region(Mode.G_BINARY, 13, 3)
        last = config.lines - 1
        forgeries = range(last - 8 * self.slots, last + 1)
        self.place(config, forgeries, 1)
        await self.commit(self.hw.regions - 1 if self.last else self.any_region(), config)
        await self.fill_lines(config, last, 0)
        await self.look(config, list(forgeries[:-1]))
        busy = await self.registers.read("STATUS.INIT_BUSY")
        assert busy, "every record was initialised before the reads: the test shows nothing"
        front = self.bookkeeping(config, self.choice(forgeries[: -self.slots]))
        while self.env.mem.store.read(front)[0]:
            await self.cycles(1)
        with self.memory(b_stall=1.0):
            await self.cycles(60)
            # Only INFO distinguishes a record without counts from no record.
            await self.read_lines(config, forgeries[:-1], INFO_SELECTOR, limit=1)
        await self.look(config, [last, *forgeries])


class MatesSequence(ForgedSequence):
    """Reads of lines whose neighbours are being written back, from a memory that writes late.

    Four lines share a mark. Their region waits for the initialiser, so the first that is written
    back overwrites the forged records of the others. These are read while it does that, and before
    memory has answered: the writes may not have landed.
    """

    rounds: int = 12

    async def body(self) -> None:
        large = self.layout.region(Mode.G_BINARY, 13, 1)  # keeps the initialiser busy
        config = self.layout.region(self.choice(LOW_BIT), parameter("WRITTEN_LOG2") + 2, 3)
        other = self.layout.region(Mode.G_BINARY, (2 * self.slots).bit_length(), 1)
        first, second, third = self.sample(range(self.hw.regions), 3)
        await self.commit(third, other, ready=True)
        for generation in range(1, 1 + self.cfg.count(self.rounds)):
            await self.fill_lines(other)  # takes all slots
            count = min(config.lines // 4, self.slots)
            firsts = self.sample(range(0, config.lines, 4), count)
            groups = [self.shuffled(range(line, line + 4)) for line in firsts]
            for group in groups:
                self.place(config, group, generation)
            await self.commit_all(large, config, regions=(first, second))
            await self.fill_lines(config, [group.pop() for group in groups], ANY)
            mates = [group.pop() for group in groups for _ in range(3)]
            for line in self.shuffled(range(other.lines)):
                await self.contribute(other, 0, line, limit=1)
                await self.cycles(self.randint(0, 12))
                if mates and self.random() < 0.6:
                    await self.read_region(config, mates.pop(), INFO_SELECTOR, limit=1)
            busy = await self.registers.read("STATUS.INIT_BUSY")
            assert busy, "every record was initialised before the reads: the test shows nothing"
            await self.drain()


class NextGroupSequence(ForgedSequence):
    """Write-back of the first line of the group about which the initialiser asks next.

    The initialiser will pass this group, so the write-back must empty the forged records in it.
    """

    async def body(self) -> None:
        config = self.layout.region(self.choice(LOW_BIT), 13, 3)
        group = config.lines >> parameter("WRITTEN_LOG2")
        other = self.layout.region(Mode.G_BINARY, (2 * self.slots).bit_length(), 1)
        first, second = self.sample(range(self.hw.regions), 2)
        await self.commit(second, other, ready=True)
        await self.fill_lines(other)  # takes all slots
        mates = self.sample(range(group + 1, 2 * group), 2 * self.slots)
        self.place(config, [group - 1, *mates], 1)
        await self.commit(first, config)
        await self.fill_lines(config, group, ANY)
        await self.fill_lines(other)  # evicts it
        left = self.env.mem.store.read(self.bookkeeping(config, group - 1))[0]
        assert left, "the initialiser has left the first group: the test shows nothing"
        await self.look(config, mates)
        await self.initialised()
        await self.empty(config, mates)


class GarbageSequence(NfSequence):
    """Garbage and forged records in a state area before its commit, which must not become state."""

    mode: Mode = Mode.G_BINARY

    async def body(self) -> None:
        config = self.layout.region(self.mode, 2, 5)
        await self.forge(config)
        await self.commit(0, config)
        await self.use(config)
        # The same area again: the forgeries are true records of the last epoch.
        await self.start_region(0, self.mode, 2, 5)
        await self.forge(config, keep=0.7)
        await self.commit(0, config)
        await self.use(config)

    async def forge(self, config: RegionConfig, keep: float = 0.0) -> None:
        """Write garbage to the first 64 lines of a state area while it is ordinary memory.

        `keep` is the share of lines that are left as they are.
        """
        size = state_lines(config, self.hw.cnt_w)
        for line in range(min(size, 64)):
            if self.random() >= keep:
                data = self.choice((ZEROS, ONES, random_line(self.rng), b"\x01" + ZEROS[1:]))
                await self.write(config.state_base + line * LINE_BYTES, data)
        await self.drain()

    async def use(self, config: RegionConfig) -> None:
        """Read all lines, send 80 % of the contributions, and read again."""
        await self.read_lines(config, None, (0, self.part_selector(config)))
        work = self.every_contribution([config])
        await self.contribute_each(one for one in work if self.random() < 0.8)
        await self.read_lines(config)

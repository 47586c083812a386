# SPDX-License-Identifier: Apache-2.0
"""FP32 sums that the device keeps: hits, invalidation and memory faults.

The scoreboard checks each response. It cannot see where a sum came from: `KeptSequence.sums` counts
the lines that the device reads from memory, by their kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import cocotb

from models.line_packing import LINE_BYTES
from models.modes import Mode
from models.regions import RAW_SELECTOR, RegionConfig
from verif.env.rtl_packages import parameter
from verif.mem.memory_config import LINE_BITS, MemBeat
from verif.sequences.base import ANY
from verif.sequences.line_data import byte_enables, forged
from verif.sequences.memory_faults import RecordSequence

if TYPE_CHECKING:
    from verif.env.env import NfEnv


class KeptSequence(RecordSequence):
    """Base of sequences on an FP32 region with KEEP_SUM and more lines than the engine has slots.

    With KEEP_SUM the device stores the sum of the first complete gather of a line in the state
    area, and serves reads from there until a store to the line or a new epoch (second edition
    §3). `begin` draws 3 more lines than slots, so that lines are evicted and fetched again.
    """

    mode = Mode.FP32

    def __init__(self, env: NfEnv) -> None:
        super().__init__(env, workers=env.rng.randint(2, 9))
        self.seen: Counter[str] = Counter()

    def beat(self, beat: MemBeat) -> None:
        """Count a memory read beat by its kind of line; a test connects it to the monitor."""
        if not beat.write:
            self.seen[self.env.scoreboard.memory.located(beat)[1]] += 1

    def make(self) -> RegionConfig:
        """Return a descriptor with KEEP_SUM; its state area may begin at an odd line."""
        lines_log2 = (self.slots + 3).bit_length()
        return self.layout.region(self.mode, lines_log2, self.workers, keep_sum=True)

    async def begin(self) -> tuple[RegionConfig, list[int]]:
        """Commit the region, wait for its records, draw `slots` + 3 of its lines; return both."""
        config = self.make()
        await self.commit(self.region, config, ready=True)
        return config, self.sample(range(config.lines), self.slots + 3)

    async def complete(self, config: RegionConfig, lines: list[int]) -> None:
        """Contribute as every worker to the lines, in random order, and wait for the responses."""
        work = self.shuffled([*product([config], range(config.workers), lines)])
        await self.contribute_each(work, limit=2)

    async def sums(
        self, config: RegionConfig, lines: Sequence[int], times: int = 1
    ) -> Counter[str]:
        """Read each sum `times` times; return how many memory lines the device read, by kind."""
        self.seen.clear()
        await self.read_lines(config, lines, [0] * times)
        return Counter(self.seen)

    def partial(self, share: float) -> int | None:
        """Draw byte enables with probability `share`, else return None (a whole store)."""
        return byte_enables(self.rng) if self.random() < share else None

    async def parts(self, config: RegionConfig, lines: list[int]) -> None:
        """Make the first store of the epoch to each line partial and read it: other bytes are 0."""
        for line in self.shuffled(lines):
            worker = self.randrange(config.workers)
            await self.contribute(config, worker, line, limit=4, be=byte_enables(self.rng))
            await self.read_region(config, line, RAW_SELECTOR + worker, limit=4)


class ServedSequence(KeptSequence):
    """Memory reads per FP32 sum: each worker's line once, then none while the sum is kept."""

    rounds: int = 3

    def make(self) -> RegionConfig:
        """Return a descriptor whose data end at an odd line, with a gap before its records."""
        config = super().make()
        odd = (config.state_line + config.workers * config.lines) % 2
        return config if odd else replace(config, state_base=config.state_base + LINE_BYTES)

    async def body(self) -> None:
        config, lines = await self.begin()
        for number in range(self.rounds):
            if number:
                await self.commit(self.region)
                await self.sums(config, lines[:2])  # kept in the epoch before
            await self.complete(config, lines)
            await self.expect(config, lines, lines)
            await self.expect(config, lines, [])
            again = self.sample(lines, len(lines) // 2)
            for line in again:  # one of them by poison, in every round
                await self.spoil(config, line, poison=line == again[0])
            await self.drain()
            good = [line for line in again if line not in self.tainted]
            await self.expect(config, [line for line in lines if line not in self.tainted], good)
            for _ in range(2):  # a poisoned line is never kept
                await self.expect(config, sorted(self.tainted), sorted(self.tainted))

    async def expect(self, config: RegionConfig, lines: list[int], gathered: list[int]) -> None:
        """Check that sums of the lines in `gathered` read each worker's line once, the others none.

        If no line is gathered, three reads of each line wait for its record together.
        """
        self.rng.shuffle(lines)
        found = (await self.sums(config, lines, 1 if gathered else 3))["FP32"]
        wanted = len(gathered) * config.workers
        assert found == wanted, f"{len(lines)} sums read {found} lines of workers, not {wanted}"

    @property
    def tainted(self) -> set[int]:
        """Indices of the lines that a store poisoned in the present epoch, from the model."""
        state = self.env.scoreboard.model.line_state
        config = self.env.scoreboard.model.config(self.region)
        assert config is not None, f"region {self.region} is not committed"
        found = ((line, state(self.region, line)) for line in range(config.lines))
        return {line for line, seen in found if seen is not None and seen.poisoned}

    async def spoil(self, config: RegionConfig, line: int, poison: bool) -> None:
        """Store to a line (whole, partial or poisoned), which ends its kept sum (KEEP_SUM)."""
        kind = self.random()
        be = byte_enables(self.rng) if kind < 0.4 else None
        poison = poison or kind > 0.8
        await self.fill_lines(config, line, ANY, limit=1, be=be, poison=poison, wait=False)


class StoreMissSequence(KeptSequence):
    """Stores to lines whose kept sums (KEEP_SUM) were evicted: these must not be used again.

    The lines are used in turn, so that each has been evicted before its turn.
    """

    rounds: int = 3

    async def body(self) -> None:
        config, lines = await self.begin()
        await self.complete(config, lines)
        for _ in range(self.rounds):
            await self.sums(config, lines)
            for line in lines:
                await self.fill_lines(config, line, ANY, be=self.partial(0.3))
                if self.random() < 0.5:
                    await self.sums(config, [line])
        await self.sums(config, lines)


class MixedKeptSequence(KeptSequence):
    """FP32 stores, reads of sums and of workers' lines, randomly mixed, on evicted lines."""

    transactions: int = 240

    async def body(self) -> None:
        config, lines = await self.begin()
        await self.complete(config, lines)
        hot = lines[:2]
        for _ in range(self.cfg.count(self.transactions)):
            line = self.choice(hot if self.random() < 0.5 else lines)
            kind = self.random()
            if kind < 0.75:
                await self.read_region(config, line, 0 if kind < 0.6 else None, limit=4)
            elif kind < 0.98:
                be = self.partial(0.4)
                worker = self.randrange(config.workers)
                await self.contribute(config, worker, line, limit=4, be=be)
            else:
                await self.drain()
                await self.commit(self.region)
                await self.parts(config, lines)
                await self.complete(config, lines)
        await self.drain()


class KeptFaultSequence(KeptSequence):
    """Memory errors and poison on sums kept by KEEP_SUM, and on the workers' lines that are added.

    A kept sum that cannot be read is gathered again. A sum with a poisoned worker is not kept.
    """

    async def body(self) -> None:
        config, lines = await self.begin()
        await self.complete(config, lines)
        # Poison before a sum was kept: each read returns poison.
        marked = self.sample(lines, 3)
        self.poison(config, marked)
        await self.sums(config, lines)
        found = await self.sums(config, marked)
        assert found["FP32"] == len(marked) * config.workers, "a poisoned sum was kept"
        # Poison after it: the kept sum is returned.
        self.poison(config, self.sample(lines, 4))
        await self.sums(config, lines)
        await self.sums(config, lines[::-1])
        # Errors and corruption of the kept sum itself.
        unreadable = []
        for number, line in enumerate(lines):
            place = self.bookkeeping(config, line) + 1
            if number % 3 == 0:
                unreadable.append(place)
            elif number % 3 == 1:  # it no longer holds what was written
                self.env.mem.store.write(place, self.getrandbits(LINE_BITS), poison=True)
        with self.failing(reads=unreadable):
            for _ in range(8):  # the poison bit of an error response is drawn
                await self.sums(config, lines)
        await self.sums(config, lines)
        # Refused stores invalidate the kept sum, too.
        places, worker = self.sample(lines, 2), self.randrange(config.workers)
        refused = [self.data_line(config, worker, line) for line in places]
        with self.failing(writes=refused, known=True):
            await self.fill_lines(config, places, worker)
        await self.sums(config, lines)

    def poison(self, config: RegionConfig, lines: list[int]) -> None:
        """Poison, in memory and in the model, the data of a random worker of each line."""
        for line in lines:
            place = self.data_line(config, self.randrange(config.workers), line)
            self.env.mem.store.poison(place)
            self.env.scoreboard.judge.poison(place)


class SharedMarkSequence(KeptSequence):
    """Sums that were kept before a commit, of lines that share a mark with one written back since.

    The mark makes the device fetch their records, which are of an older generation.
    """

    rounds: int = 3

    def make(self) -> RegionConfig:
        log2 = max(parameter("WRITTEN_LOG2") + 2, (self.slots + 3).bit_length())
        return self.layout.region(self.mode, log2, self.workers, keep_sum=True)

    async def body(self) -> None:
        config, _ = await self.begin()
        size = config.lines >> parameter("WRITTEN_LOG2")  # lines that share a mark
        other = self.layout.region(Mode.G_BINARY, (2 * self.slots).bit_length(), 1)
        await self.commit((self.region + 1) % self.hw.regions, other, ready=True)
        for _ in range(self.rounds):
            await self.fill_lines(other)  # takes all slots
            count = min(config.lines // size, self.slots)
            groups = self.sample(range(0, config.lines, size), count)
            pairs = [self.sample(range(group, group + size), 2) for group in groups]
            written, mates = (list(lines) for lines in zip(*pairs, strict=True))
            await self.complete(config, mates)
            await self.sums(config, mates)
            await self.fill_lines(other)
            await self.commit(self.region)
            await self.fill_lines(config, written, 0)
            await self.fill_lines(other)
            found = await self.sums(config, mates)
            assert found["FP32 bookkeeping"], "no record of the epoch before was fetched"
            await self.parts(config, mates)
            await self.complete(config, mates)
            await self.sums(config, mates)


class RefusedStoreSequence(KeptSequence):
    """First stores of workers that memory refuses, before or after their record is fetched."""

    rounds: int = 12

    async def body(self) -> None:
        config, lines = await self.begin()
        self.mem.latency, self.mem.reorder = (1, 40), True
        for _ in range(self.rounds):
            await self.commit(self.region)
            bad = {
                self.data_line(config, self.randrange(config.workers), line)
                for line in self.sample(lines, len(lines) // 2)
            }
            with self.failing(writes=bad, known=True):
                await self.fill_lines(config, lines, limit=1)
            for _ in range(2):
                await self.sums(config, lines)


class CommitSequence(KeptSequence):
    """A commit that waits for an FP32 sum (KEEP_SUM), which the new epoch must not keep.

    In half of the rounds memory answers stores of another region in each clock by then: they go
    before the sum, and the commit does not wait for them.
    """

    rounds: int = 8

    async def body(self) -> None:
        config, lines = await self.begin()
        stores = max(1, min(self.slots, parameter("PINS")) - 8)  # each holds a slot
        other = self.layout.region(Mode.FP32, stores.bit_length(), self.workers)
        await self.commit((self.region + 1) % self.hw.regions, other, ready=True)
        for number in range(self.rounds):
            line = self.choice(lines)
            await self.complete(config, [line])
            with self.memory(r_stall=1.0, b_stall=float(number % 2)):
                await self.read_lines(config, line, apart=40, wait=False)
                commit = cocotb.start_soon(self.commit(self.region))
                await self.cycles(40)
                if number % 2:
                    await self.fill_lines(other, range(stores), 0, wait=False)
                    await self.cycles(4 * stores)
            await commit
            await self.sums(config, [line])
            await self.drain()


class ReshapedSequence(KeptSequence):
    """Commit that sets KEEP_SUM, by which memory after the old state area becomes records.

    A host has written forged records of the coming epoch to this memory; they must have no effect.
    """

    async def body(self) -> None:
        config = self.make()
        before = replace(config, keep_sum=False)
        await self.commit(self.region, before, ready=True)
        end = before.state_line + (config.workers + 1) * config.lines
        places = {line: self.bookkeeping(config, line) for line in range(config.lines)}
        lines = [line for line, place in places.items() if place >= end]
        everyone = (1 << config.workers) - 1
        for line in lines:
            record = forged(2, everyone, kept=self.random() < 0.5)
            await self.write(places[line] * LINE_BYTES, record)
        await self.drain()
        await self.commit(self.region, config)
        await self.read_lines(config, self.sample(lines, len(lines) // 2), limit=1)
        await self.initialised()
        await self.sums(config, lines)

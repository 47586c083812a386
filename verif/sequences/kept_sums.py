# SPDX-License-Identifier: Apache-2.0
"""FP32 sums that are kept: what serves them, what ends them, and what memory may do to them.

The scoreboard judges each answer. What it cannot see is where an answer came from: `reads` counts
the lines that the device has read from memory, by what they are.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import cocotb

from models.line_packing import LINE_BYTES, Mode
from models.regions import RAW_SELECTOR, RegionConfig, records
from verif.mem.memory_config import LINE_BITS, MemBeat
from verif.sequences.forged_records import forged
from verif.sequences.line_data import byte_enables
from verif.sequences.memory_faults import RecordSequence

if TYPE_CHECKING:
    from verif.env.env import NfEnv


class KeptSequence(RecordSequence):
    """Base: a region with KEEP_SUM and a few more lines than slots."""

    mode = Mode.FP32

    def __init__(self, env: NfEnv) -> None:
        super().__init__(env, workers=env.rng.randint(2, 9))
        self.seen: Counter[str] = Counter()

    def beat(self, beat: MemBeat) -> None:
        """A beat on the memory port."""
        if not beat.write:
            place = self.env.scoreboard.memory.located(beat)[1]
            self.seen[place] += 1

    def make(self) -> RegionConfig:
        """The region; its state area may begin at an odd line."""
        lines_log2 = (self.cfg.hw.slots + 3).bit_length()
        return self.layout.region(self.mode, lines_log2, self.workers, keep_sum=True)

    async def begin(self) -> tuple[RegionConfig, list[int]]:
        """A region whose records are initialised, and some of its lines, one slot or more."""
        config = self.make()
        await self.commit(self.region, config)
        await self.initialised()
        return config, self.rng.sample(range(config.lines), self.cfg.hw.slots + 3)

    async def complete(self, config: RegionConfig, lines: list[int]) -> None:
        """Every worker contributes to the lines, in any order."""
        work = [(worker, line) for line in lines for worker in range(config.workers)]
        self.rng.shuffle(work)
        for worker, line in work:
            await self.contribute(config, worker, line, limit=2)
        await self.drain()

    async def sums(self, config: RegionConfig, lines: list[int], times: int = 1) -> Counter[str]:
        """Reads the sums; returns what was read from memory for that."""
        self.seen.clear()
        for line in lines:
            for _ in range(times):
                await self.read_region(config, line, 0)
        await self.drain()
        return Counter(self.seen)


class ServedSequence(KeptSequence):
    """The first sum of a complete line reads each worker once, later ones none of them."""

    rounds: int = 3

    def make(self) -> RegionConfig:
        """The data end at an odd line, behind which the records are aligned."""
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
            again = self.rng.sample(lines, len(lines) // 2)
            for line in again:  # one of them by poison, in every round
                await self.spoil(config, line, poison=line == again[0])
            await self.drain()
            good = [line for line in again if line not in self.tainted]
            await self.expect(config, [line for line in lines if line not in self.tainted], good)
            # A poisoned line is never kept.
            for _ in range(2):
                await self.expect(config, sorted(self.tainted), sorted(self.tainted))

    async def expect(self, config: RegionConfig, lines: list[int], gathered: list[int]) -> None:
        """Reads `lines`; those in `gathered` alone may read the lines of workers. Where none is,
        three reads of a line wait for its record together."""
        self.rng.shuffle(lines)
        found = (await self.sums(config, lines, 1 if gathered else 3))["FP32"]
        wanted = len(gathered) * config.workers
        assert found == wanted, f"{len(lines)} sums read {found} lines of workers, not {wanted}"

    @property
    def tainted(self) -> set[int]:
        """Lines that a store has poisoned in this epoch."""
        state = self.env.scoreboard.model.line_state
        config = self.env.scoreboard.model.config(self.region)
        assert config is not None
        found = ((line, state(self.region, line)) for line in range(config.lines))
        return {line for line, seen in found if seen is not None and seen.poisoned}

    async def spoil(self, config: RegionConfig, line: int, poison: bool) -> None:
        """A store that ends the kept sum of a line."""
        kind = self.rng.random()
        be = byte_enables(self.rng) if kind < 0.4 else None
        worker = self.rng.randrange(config.workers)
        poison = poison or kind > 0.8
        await self.contribute(config, worker, line, limit=1, be=be, poison=poison)


class StoreMissSequence(KeptSequence):
    """Stores to lines whose kept sums are in memory: none of them comes back with its record.

    The lines are taken in turn, so that each has left its slot when its turn comes.
    """

    rounds: int = 3

    async def body(self) -> None:
        config, lines = await self.begin()
        await self.complete(config, lines)
        for _ in range(self.rounds):
            await self.sums(config, lines)
            for line in lines:
                be = byte_enables(self.rng) if self.rng.random() < 0.3 else None
                await self.contribute(config, self.rng.randrange(config.workers), line, be=be)
                await self.drain()
                if self.rng.random() < 0.5:
                    await self.sums(config, [line])
        await self.sums(config, lines)


class MixedKeptSequence(KeptSequence):
    """Stores, sums and raw reads in any order, on lines that come and go."""

    transactions: int = 240

    async def body(self) -> None:
        config, lines = await self.begin()
        await self.complete(config, lines)
        hot = lines[:2]
        for _ in range(self.cfg.count(self.transactions)):
            line = self.rng.choice(hot if self.rng.random() < 0.5 else lines)
            kind = self.rng.random()
            if kind < 0.6:
                await self.read_region(config, line, 0, limit=4)
            elif kind < 0.75:
                await self.read_region(config, line, limit=4)
            elif kind < 0.98:
                be = byte_enables(self.rng) if self.rng.random() < 0.4 else None
                worker = self.rng.randrange(config.workers)
                await self.contribute(config, worker, line, limit=4, be=be)
            else:
                await self.drain()
                await self.commit(self.region)
                await self.parts(config, lines)
                await self.complete(config, lines)
        await self.drain()

    async def parts(self, config: RegionConfig, lines: list[int]) -> None:
        """First stores of the epoch that enable a part of a line: the rest is zero from then on."""
        for line in self.rng.sample(lines, len(lines)):
            worker = self.rng.randrange(config.workers)
            await self.contribute(config, worker, line, limit=4, be=byte_enables(self.rng))
            await self.read_region(config, line, RAW_SELECTOR + worker, limit=4)


class KeptFaultSequence(KeptSequence):
    """Errors and poison on kept sums, and on the lines that they are made of.

    A kept sum that cannot be read is gathered again. One of a line with a bad worker is not kept.
    """

    async def body(self) -> None:
        config, lines = await self.begin()
        await self.complete(config, lines)
        rng, memory = self.rng, self.env.cfg.mem
        # Before a sum was kept: what memory marks comes out as poison, each time.
        marked = rng.sample(lines, 3)
        for line in marked:
            self.poison(config.state_line + rng.randrange(config.workers) * config.lines + line)
        await self.sums(config, lines)
        found = await self.sums(config, marked)
        assert found["FP32"] == len(marked) * config.workers, "a poisoned sum was kept"
        # After it: the sum is from before.
        for line in rng.sample(lines, 4):
            self.poison(config.state_line + rng.randrange(config.workers) * config.lines + line)
        await self.sums(config, lines)
        await self.sums(config, lines[::-1])
        # The kept sum itself.
        first, distance = records(config, self.cfg.hw.cnt_w)
        for number, line in enumerate(lines):
            place = first + line * distance + 1
            if number % 3 == 0:
                memory.read_error_lines.add(place)
            elif number % 3 == 1:  # what it holds is no longer what was written
                self.env.mem.store.write(place, rng.getrandbits(LINE_BITS), poison=True)
        for _ in range(8):  # with an error the mark of poison is drawn
            await self.sums(config, lines)
        memory.read_error_lines.clear()
        await self.sums(config, lines)
        # Stores that memory refuses end the kept sum, too.
        places = rng.sample(lines, 2)
        worker = rng.randrange(config.workers)
        for line in places:
            place = config.state_line + worker * config.lines + line
            memory.write_error_lines.add(place)
            self.env.scoreboard.model.write_errors.add(place)
        for line in places:
            await self.contribute(config, worker, line)
        await self.drain()
        memory.write_error_lines.clear()
        self.env.scoreboard.model.write_errors.clear()
        await self.sums(config, lines)

    def poison(self, line: int) -> None:
        """The medium marks a line of a worker."""
        self.env.mem.store.poison(line)
        self.env.scoreboard.quiescence.poison(line)


class RefusedStoreSequence(KeptSequence):
    """First stores that memory refuses, before and after the record of their line has come."""

    rounds: int = 4

    async def body(self) -> None:
        config, lines = await self.begin()
        memory, model = self.env.cfg.mem, self.env.scoreboard.model
        memory.latency, memory.reorder = (1, 40), True
        for _ in range(self.rounds):
            await self.commit(self.region)
            bad = {
                config.state_line + self.rng.randrange(config.workers) * config.lines + line
                for line in self.rng.sample(lines, len(lines) // 2)
            }
            for places in (memory.write_error_lines, model.write_errors):
                places.update(bad)
            for worker in range(config.workers):
                for line in lines:
                    await self.contribute(config, worker, line, limit=1)
            await self.drain()
            for places in (memory.write_error_lines, model.write_errors):
                places.clear()
            await self.sums(config, lines)
            await self.sums(config, lines)


class CommitSequence(KeptSequence):
    """A commit that waits for nothing but a sum, which comes back to be kept: the round that it
    begins has nothing of it."""

    rounds: int = 4

    async def body(self) -> None:
        config, lines = await self.begin()
        memory = self.env.cfg.mem
        for _ in range(self.rounds):
            line = self.rng.choice(lines)
            await self.complete(config, [line])
            memory.r_stall = 1.0
            await self.read_region(config, line, 0)
            await self.env.clocks(40)
            commit = cocotb.start_soon(self.commit(self.region))
            await self.env.clocks(40)
            memory.r_stall = 0.0
            await commit
            await self.sums(config, [line])


class ReshapedSequence(KeptSequence):
    """Ordinary memory behind an area becomes records when the region begins to keep sums.

    A host has written there what would be records of the coming epoch.
    """

    async def body(self) -> None:
        config = self.make()
        before = replace(config, keep_sum=False)
        await self.commit(self.region, before)
        await self.initialised()
        first, distance = records(config, self.cfg.hw.cnt_w)
        behind = before.state_line + (config.workers + 1) * config.lines
        lines = [line for line in range(config.lines) if first + line * distance >= behind]
        everyone = (1 << config.workers) - 1
        for line in lines:
            place = (first + line * distance) * LINE_BYTES
            await self.write(place, forged(2, everyone, kept=self.rng.random() < 0.5))
        await self.drain()
        await self.commit(self.region, config)
        for line in self.rng.sample(lines, len(lines) // 2):
            await self.read_region(config, line, 0, limit=1)
        await self.drain()
        await self.initialised()
        await self.sums(config, lines)

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
from verif.sequences.epochs import forged
from verif.sequences.line_data import byte_enables
from verif.sequences.memory_faults import RecordSequence

if TYPE_CHECKING:
    from verif.env.env import NfEnv
import itertools
import random
import struct

from verif.sequences.base import NfSequence
from verif.sequences.line_data import FP32_CORNERS


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


# FP32 sums of operands drawn for each other: ties, cancellations, carries, boundaries.


SIGN = 1 << 31
HIDDEN = 1 << 23
LARGEST = 0x7F7F_FFFF


def bits_of(sign: int, exponent: int, mantissa: int) -> int:
    """binary32 from its fields (biased exponent)."""
    return sign << 31 | exponent << 23 | mantissa


def _tie(rng: random.Random) -> tuple[int, int]:
    """A value and half a unit in its last place, a little less or more, of either sign."""
    exponent = rng.randint(26, 254)
    value = bits_of(0, exponent, rng.getrandbits(23) if rng.random() < 0.7 else HIDDEN - 1)
    half = bits_of(rng.getrandbits(1), exponent - 24, 0)
    return value, half + rng.choice((0, 0, 1, -1))


def _cancel(rng: random.Random) -> tuple[int, int]:
    """x and -x, or a neighbour of -x."""
    value = rng.getrandbits(31) % (LARGEST + 1) | rng.getrandbits(1) << 31
    return value, max((value ^ SIGN) + rng.choice((0, 0, 1, -1)), 0) & 0xFFFF_FFFF


def _carry(rng: random.Random) -> tuple[int, int]:
    """Two values of one exponent and sign: the sum carries out, and rounds on the way."""
    exponent, sign = rng.randint(1, 254), rng.getrandbits(1)
    near = rng.randint(0, min(3, exponent - 1))
    return (
        bits_of(sign, exponent, rng.getrandbits(23) | 1),
        bits_of(sign, exponent - near, rng.getrandbits(23) | 1),
    )


def _carry_sticky(rng: random.Random) -> tuple[int, int]:
    """A sum that carries out, then is a tie but for one bit anywhere below: even last bit, rounded
    up."""
    distance = rng.randint(1, 20)
    while True:
        whole = rng.randrange(1 << 23 - distance, 1 << 24 - distance)
        high = (1 << 24) - 1 - rng.randrange(min(whole, 1 << 20))
        if (high + whole) % 4 == 1:
            break
    exponent, sign = rng.randint(distance + 1, 253), rng.getrandbits(1)
    low = (whole << distance) + (1 << rng.randrange(distance))
    return (
        bits_of(sign, exponent, high % HIDDEN),
        bits_of(sign, exponent - distance, low % HIDDEN),
    )


def _overflow(rng: random.Random) -> tuple[int, int]:
    """The largest values, and what brings them to infinity or just not."""
    sign = rng.getrandbits(1)
    small = bits_of(sign, rng.randint(228, 231), rng.choice((0, 0, 1, HIDDEN - 1)))
    return LARGEST - rng.choice((0, 0, 1)) | sign << 31, small


def _subnormal(rng: random.Random) -> tuple[int, int]:
    """Values around the smallest normal one: sums and differences on both sides of it."""
    high = bits_of(0, rng.choice((0, 1, 1, 2, 3, rng.randint(1, 28))), rng.getrandbits(23))
    low = bits_of(rng.getrandbits(1), rng.choice((0, 0, 1, 2)), rng.getrandbits(23))
    return high | rng.getrandbits(1) << 31, low


def _near(rng: random.Random) -> tuple[int, int]:
    """Exponents 0 to 30 apart, so that every place of the sticky bit is met."""
    exponent = rng.randint(31, 254)
    other = exponent - rng.randint(0, 30)
    return (
        bits_of(rng.getrandbits(1), exponent, rng.choice((0, rng.getrandbits(23)))),
        bits_of(rng.getrandbits(1), other, rng.getrandbits(23)),
    )


def _power(rng: random.Random) -> tuple[int, int]:
    """A power of two less what is far below it: the difference has one place more."""
    exponent, sign = rng.randint(29, 254), rng.getrandbits(1)
    half = HIDDEN // 2
    low = rng.choice((0, 1, half - 1, half, half + 1, HIDDEN - 1, rng.getrandbits(23)))
    return (
        bits_of(sign, exponent, 0),
        bits_of(1 - sign, exponent - rng.randint(22, 28), low),
    )


KINDS = (_tie, _cancel, _carry, _carry_sticky, _overflow, _subnormal, _near, _power)


def pair(rng: random.Random) -> tuple[int, int]:
    """Two operands of one of the kinds, in either order."""
    a, b = rng.choice(KINDS)(rng)
    return (a, b) if rng.random() < 0.5 else (b, a)


class PairSequence(NfSequence):
    """Many lines of 16 pairs: workers 0 and 1 give a pair, others perhaps a third operand."""

    lines_log2: int = 6

    async def body(self) -> None:
        rng = self.rng
        workers = rng.randint(3, 64)
        config = self.layout.region(Mode.FP32, self.lines_log2, workers)
        await self.commit(rng.randrange(self.cfg.hw.regions), config)
        lines = range(self.cfg.count(config.lines))
        # Zeros, infinities, NaNs and the like: each with each, four to a line.
        corners = list(itertools.product(FP32_CORNERS, FP32_CORNERS))
        rng.shuffle(corners)
        for line in lines:
            pairs = [pair(rng) for _ in range(12)]
            pairs += [corners.pop() if corners else pair(rng) for _ in range(4)]
            who = sorted(rng.sample(range(workers), 2))
            for worker, words in zip(who, zip(*pairs, strict=True), strict=True):
                await self.contribute(config, worker, line, struct.pack("<16I", *words))
            if rng.random() < 0.3:
                words = tuple(pair(rng)[0] for _ in range(16))
                third = struct.pack("<16I", *words)
                await self.contribute(config, rng.randrange(workers), line, third)
        await self.drain()
        for line in lines:
            await self.read_region(config, line, 0)
        await self.drain()


class LoneLineSequence(NfSequence):
    """Sums of one line and of none between others, and raw lines: byte for byte, NaNs included."""

    lines_log2: int = 3

    async def body(self) -> None:
        rng = self.rng
        config = self.layout.region(Mode.FP32, self.lines_log2, rng.randint(33, 64))
        await self.commit(rng.randrange(self.cfg.hw.regions), config)
        present: dict[int, list[int]] = {}
        for line in range(config.lines):
            present[line] = rng.sample(range(config.workers), rng.choice((0, 1, 1, 2, 5)))
            for worker in present[line]:
                words = [rng.choice(FP32_CORNERS) for _ in range(16)]
                await self.contribute(config, worker, line, struct.pack("<16I", *words))
        await self.drain()
        for _ in range(self.cfg.count(60)):
            line = rng.randrange(config.lines)
            worker = rng.choice([*present[line], rng.randrange(config.workers)])
            await self.read_region(config, line, rng.choice((0, 64 + worker)))
        await self.drain()

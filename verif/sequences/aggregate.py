# SPDX-License-Identifier: Apache-2.0
"""One region, one mode: every worker contributes to every line, then everything is read."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from models.line_packing import FIRST_EDITION, LINE_BYTES, Mode
from models.regions import RAW_SELECTOR, CommitCode, RegionConfig, state_lines
from verif.sequences.base import RACE_LIMIT, NfSequence
from verif.sequences.line_data import byte_enables, line_for
from verif.sequences.memory_faults import RecordSequence


class AggregateSequence(NfSequence):
    """`epochs` epochs over a region of `mode`, contributions in random order."""

    mode: Mode = Mode.G_BINARY
    workers: int = 5
    lines_log2: int = 2
    epochs: int = 2
    region: int = 0
    early: float = 0.0
    strict: bool = False
    bind: bool = False
    tie_minus: bool = False
    threshold: int = 1
    partial: float = 0.0

    async def body(self) -> None:
        config = self.layout.region(
            self.mode,
            self.lines_log2,
            self.workers,
            strict=self.strict,
            bind=self.bind,
            tie_minus=self.tie_minus,
            threshold=self.threshold,
        )
        for number in range(self.epochs):
            await self.commit(self.region, config if number == 0 else None)
            await self.one_epoch(config)

    async def one_epoch(self, config: RegionConfig) -> None:
        """Contributions in random order (some early reads between them), then all results."""
        rng = self.rng
        work = [(w, i) for w in range(config.workers) for i in range(config.lines)]
        rng.shuffle(work)
        limit = RACE_LIMIT if self.early else None
        for worker, line in work:
            be = byte_enables(rng) if rng.random() < self.partial else None
            await self.contribute(config, worker, line, limit=limit, be=be)
            if rng.random() < self.early:
                await self.read_region(config, rng.randrange(config.lines), limit=limit)
        await self.drain()
        for line in range(config.lines):
            selectors = self.read_selectors(config)
            if len(selectors) > 12:
                selectors = [0, *rng.sample(selectors[1:], 11)]
            for selector in selectors:
                await self.read_region(config, line, selector)
        await self.drain()


class IdentitySequence(NfSequence):
    """An IDENTITY region: plain memory behind protection; full, partial and poisoned writes."""

    region: int = 0
    lines_log2: int = 1
    transactions: int = 150
    poison: float = 0.05
    bind: bool = False

    async def body(self) -> None:
        config = self.layout.region(Mode.IDENTITY, self.lines_log2, 16, bind=self.bind)
        await self.commit(self.region, config)
        rng = self.rng
        places = [(rng.randrange(256), rng.randrange(config.lines)) for _ in range(12)]
        places += [(0, 0), (255, config.lines - 1)]
        for number in range(self.cfg.count(self.transactions)):
            selector, line = rng.choice(places)
            addr = config.address(selector, line)
            if rng.random() < 0.5:
                ldid = selector & 15 if self.bind else None
                be = byte_enables(rng) if rng.random() < 0.4 else None
                poison = rng.random() < self.poison
                data = line_for(config.mode, rng)
                await self.write(addr, data, RACE_LIMIT, ldid=ldid, be=be, poison=poison)
            else:
                await self.read(addr, RACE_LIMIT)
            if number % 70 == 69:  # a new epoch keeps the memory as it is
                await self.drain()
                await self.commit(self.region)


# Low-bit lines by their counts: every element gets a count that was drawn, corners most of all.
#
# Independent random bits never give a count near 0 or W; gradients of workers correlate, so these
# counts are the usual ones.


ALL_ILLEGAL = b"\x55" * LINE_BYTES
"""256 ternary codes 01."""

Counts = np.ndarray


def corner_counts(workers: int, top: int) -> list[int]:
    """Counts 0..`workers` at which something changes: ends, half, carries, the largest count."""
    powers = [1 << k for k in range(7)]
    near = [0, workers, workers // 2, top, *powers]
    return sorted({c + d for c in near for d in (-1, 0, 1) if 0 <= c + d <= workers})


class CountSequence(NfSequence):
    """Regions of one mode; W, T, TIE, region and the counts of each line are drawn.

    A region for each number of planes that W may need. More lines than slots if there are few
    slots, so that each line is evicted between workers.
    """

    mode: Mode = Mode.G_BINARY
    lines: int = 5
    few: tuple[tuple[int, int], ...] = (
        (1, 1),
        (2, 3),
        (4, 7),
        (8, 15),
        (16, 31),
        (32, 63),
        (64, 64),
    )
    thresholds: tuple[tuple[int, int], ...] = (
        (1, 2),
        (1, 64),
        (65, 127),
        (128, 191),
        (192, 239),
        (240, 255),  # with a count it leaves eight bits
    )

    async def body(self) -> None:
        rng = self.rng
        many = self.few[-2:]  # slow ones: one of them where the run is to be short
        for few in (*self.few[:-2], *rng.sample(many, min(2, self.cfg.count(2)))):
            workers = rng.randint(*few)
            config = self.layout.region(
                self.mode,
                (self.lines - 1).bit_length(),
                workers,
                tie_minus=rng.random() < 0.5,
                threshold=rng.randint(*rng.choice(self.thresholds[:2])),
            )
            await self.commit(rng.randrange(self.cfg.hw.regions), config)
            await self.fill(config, rng.sample(range(config.lines), self.lines))

    async def fill(self, config: RegionConfig, lines: list[int]) -> None:
        """All contributions, workers in the outer loop; then results and planes, twice over."""
        data = {line: self.contributions(config) for line in lines}
        for worker in self.rng.sample(range(config.workers), config.workers):
            for line in lines:
                await self.contribute(config, worker, line, data[line][worker])
        await self.drain()
        for selector in (0, *range(8, 16)):
            for line in lines:
                await self.read_region(config, line, selector)
        await self.drain()

    def contributions(self, config: RegionConfig) -> list[bytes]:
        """A line of each worker, so that the elements have the counts that were drawn."""
        rng = np.random.default_rng(self.rng.getrandbits(64))
        elements = 512 if config.mode is Mode.G_BINARY else 256
        plus, minus = self.counts(config, elements, rng)
        rank = np.argsort(rng.random((config.workers, elements)), axis=0)
        ups = rank < plus
        if config.mode is Mode.G_BINARY:
            bits = ~ups
        else:
            downs = ~ups & (rank < plus + minus)
            bits = np.empty((config.workers, 512), dtype=bool)
            bits[:, 0::2] = downs  # sign
            bits[:, 1::2] = ups | downs  # gate
        return [row.tobytes() for row in np.packbits(bits, axis=1, bitorder="little")]

    def counts(
        self, config: RegionConfig, elements: int, rng: np.random.Generator
    ) -> tuple[Counts, Counts]:
        """Votes of +1 (non-negative ones) and of -1 of each element: `int[elements]` twice."""
        workers, top = config.workers, self.cfg.hw.cnt_max
        corners = corner_counts(workers, top)
        kind = self.rng.randrange(4)
        if kind == 0:  # all alike
            plus = np.full(elements, self.rng.choice((0, 1, workers - 1, workers)))
        elif kind == 1:  # one stands out, in either half of the line
            plus = np.full(elements, self.rng.randint(0, min(top, workers) // 2))
            plus[self.rng.randrange(elements)] = workers
        else:
            plus = rng.choice(corners, elements)
        if config.mode is Mode.G_BINARY:
            return plus, np.zeros_like(plus)
        t = config.threshold
        near = [s * n for n in (0, 1, t - 1, t, t + 1, t % 64, workers) for s in (-1, 1)]
        nets = [n for n in near if abs(n) <= workers]
        net = rng.choice(nets, elements)
        both = rng.integers(0, (workers - np.abs(net)) // 2 + 1)
        if kind == 1:  # one sign alone
            return plus, np.zeros_like(plus)
        return both + np.maximum(net, 0), both + np.maximum(-net, 0)


class ThresholdSequence(CountSequence):
    """64 workers, of whom a drawn number agree; T from each of its ranges, a commit each."""

    mode = Mode.G_TERNARY

    async def body(self) -> None:
        rng = self.rng
        region = rng.randrange(self.cfg.hw.regions)
        first = self.layout.region(Mode.G_TERNARY, 0, rng.randint(60, 64))
        for low, high in self.thresholds:
            values = first.register_values() | {"THRESHOLD": rng.randint(low, high)}
            config = RegionConfig.from_registers(values)
            await self.commit(region, config)
            await self.fill(config, [0])


class IllegalLineSequence(NfSequence):
    """Lines that are all illegal, half illegal, or hold one illegal code; duplicates of each.

    In a region that was drawn; another one aggregates legal data beside it.
    """

    async def body(self) -> None:
        rng = self.rng
        region, calm = rng.sample(range(self.cfg.hw.regions), 2)
        config = self.layout.region(Mode.G_TERNARY, 1, 6)
        beside = self.layout.region(Mode.G_TERNARY, 1, 6)
        await self.commit(region, config)
        await self.commit(calm, beside)
        half = bytes(32) + ALL_ILLEGAL[:32]
        one = (1 << 2 * rng.randrange(256)).to_bytes(LINE_BYTES, "little")
        for round_ in range(2):
            for worker, data in enumerate((ALL_ILLEGAL, half, half[::-1], one, ALL_ILLEGAL)):
                line = rng.randrange(config.lines)
                for _ in range(rng.randint(1, 2)):  # of a duplicate nothing is counted
                    await self.contribute(config, worker, line, data, limit=1)
                await self.contribute(beside, worker, line)
                await self.drain()
                for name in ("ILLEGAL_CODE", f"REGION[{region}].STATUS", f"REGION[{calm}].STATUS"):
                    await self.env.registers.read(name)
            await self.commit(region)  # clears the flag of the region
            await self.env.registers.read(f"REGION[{region}].STATUS")
            if round_ == 0:
                await self.contribute(config, 5, 0)
                await self.drain()
                await self.env.registers.read(f"REGION[{region}].STATUS")


class EmptyLineSequence(NfSequence):
    """Lines without a contribution, and with a few: m = 0 reads as zeros, whatever TIE is."""

    async def body(self) -> None:
        rng = self.rng
        for mode in (Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32):
            region = rng.randrange(self.cfg.hw.regions)
            config = self.layout.region(mode, 2, rng.randint(3, 64), tie_minus=True)
            await self.commit(region, config)
            seen = [rng.sample(range(config.workers), min(n, config.workers)) for n in range(4)]
            for line, workers in enumerate(seen):  # line i has i contributions
                for worker in workers:
                    await self.contribute(config, worker, line)
            await self.drain()
            for line in rng.sample(range(4), 4):
                selectors = [*rng.sample(self.read_selectors(config), 3), 0]
                if mode is Mode.FP32:  # what has come is not early, though others are missing
                    selectors += [RAW_SELECTOR + worker for worker in seen[line]]
                for selector in selectors:
                    await self.read_region(config, line, selector, limit=1)
            await self.drain()


# Lines whose elements go through every count there can be, and sums of every pair of classes.


Pair = tuple[int, int]
"""Votes of +1 and of -1 of an element (G_BINARY: the second one is not looked at)."""


def contributions(mode: Mode, workers: int, pairs: Sequence[Pair]) -> list[bytes]:
    """A line of each worker; element e has the counts `pairs[e % len(pairs)]`, plus first."""
    elements = 512 if mode is Mode.G_BINARY else 256
    table = np.array([pairs[e % len(pairs)] for e in range(elements)])
    worker = np.arange(workers)[:, None]
    ups = worker < table[:, 0]
    if mode is Mode.G_BINARY:
        bits = ~ups
    else:
        downs = ~ups & (worker < table.sum(axis=1))
        bits = np.empty((workers, 512), dtype=bool)
        bits[:, 0::2] = downs  # sign
        bits[:, 1::2] = ups | downs  # gate
    return [row.tobytes() for row in np.packbits(bits, axis=1, bitorder="little")]


class EveryCountSequence(NfSequence):
    """Each count beside the majority and the threshold, each content of each plane."""

    async def body(self) -> None:
        rng = self.rng
        for tie in (False, True):
            for workers in (2, 3, 2 * rng.randint(3, 7), 2 * rng.randint(3, 7) + 1):
                await self.majority(workers, tie)
        for workers in (1, rng.randint(8, 12)):
            for threshold in (1, 2, workers // 2, workers, workers + 1, 100, 255):
                await self.net(workers, max(threshold, 1))
        for pairs in ([(6, 0)], [(0, 6)]):  # all elements alike
            config = self.layout.region(Mode.G_TERNARY, 0, 6)
            await self.commit(1, config)
            await self.lines(config, contributions(config.mode, 6, pairs), 0)
        await self.planes(Mode.G_BINARY, [(64, 0)])
        await self.planes(Mode.G_BINARY, [(64, 0), (0, 0)])
        await self.planes(Mode.G_TERNARY, [(64, 0)])
        await self.both_planes()

    async def lines(self, config: RegionConfig, rows: Sequence[bytes], line: int) -> None:
        """Contributions of the first workers, then the result."""
        for worker in self.rng.sample(range(len(rows)), len(rows)):
            await self.contribute(config, worker, line, rows[worker])
        await self.drain()
        await self.read_region(config, line, 0)
        await self.drain()

    async def majority(self, workers: int, tie_minus: bool) -> None:
        """Every count of m contributions: of all workers, and of one and of two less."""
        config = self.layout.region(Mode.G_BINARY, 2, workers, tie_minus=tie_minus)
        await self.commit(0, config)
        for line, m in enumerate(m for m in (workers, workers - 1, workers - 2) if m > 0):
            rows = contributions(config.mode, m, [(count, 0) for count in range(m + 1)])
            await self.lines(config, rows, line)

    async def net(self, workers: int, threshold: int) -> None:
        """Every pair of counts that W workers can give, or as many as a line has elements."""
        config = self.layout.region(Mode.G_TERNARY, 1, workers, threshold=threshold)
        await self.commit(1, config)
        pairs = [(p, q) for p in range(workers + 1) for q in range(workers + 1 - p)]
        for line in range(config.lines):
            await self.lines(config, contributions(config.mode, workers, pairs[:256]), line)

    async def planes(self, mode: Mode, pairs: Sequence[Pair]) -> None:
        """64 workers that agree: plane p is read when 2^p of them have come."""
        config = self.layout.region(mode, 0, 64)
        await self.commit(2, config)
        rows = contributions(mode, 64, pairs)
        for worker, row in enumerate(rows):
            await self.contribute(config, worker, 0, row)
            if (worker + 1).bit_count() == 1:
                await self.drain()
                for plane in range(8):
                    await self.read_region(config, 0, 8 + plane)
                await self.drain()

    async def both_planes(self) -> None:
        """As many votes of +1 as of -1 in every element: a plane of ones."""
        for plane in range(6):
            half = 1 << plane
            config = self.layout.region(Mode.G_TERNARY, 0, 2 * half)
            await self.commit(2, config)
            await self.lines(config, contributions(config.mode, 2 * half, [(half, half)]), 0)
            await self.read_region(config, 0, 8 + plane)
            await self.drain()


EDGES = (
    (0x3F80_0000, 0xBF80_0000),  # cancel
    (0x0000_0000, 0x0000_0000),
    (0x8000_0000, 0x8000_0000),
    (0x7F7F_FFFF, 0x7F7F_FFFF),  # overflow
    (0x7F7F_FFFF, 0x3F80_0000),  # stays the largest number
    (0x7F80_0000, 0x3F80_0000),
    (0x7F80_0000, 0xFF80_0000),
    (0x7FC0_0000, 0x3F80_0000),
    (0x0000_0001, 0x0000_0001),  # two subnormals that give one
    (0x007F_FFFF, 0x007F_FFFF),  # and a normal
    (0x0080_0001, 0x8080_0000),  # normals that give a subnormal
    (0x007F_FFFF, 0x0000_0001),  # the smallest normal
    (0x3F80_0000, 0x3380_0000),  # a tie, to even below
    (0x3F80_0001, 0x3380_0000),  # and above
    (0x3F80_0000, 0x3380_0001),
    (0x3F80_0000, 0x3300_0001),
)
"""Operands of results at the edges of the format."""


class EveryPairSequence(NfSequence):
    """FP32 sums of every class of operand with every other, four values of each; of the edges."""

    async def body(self) -> None:
        config = self.layout.region(Mode.FP32, 4, 2)
        await self.commit(0, config)
        pairs = list(itertools.product(range(8), range(8)))
        for line in range(config.lines):
            part = [pairs[(16 * line + k) % len(pairs)] for k in range(16)]
            for worker in range(2):
                words = [self.operand(pair[worker]) for pair in part]
                await self.contribute(config, worker, line, struct.pack("<16I", *words))
        await self.drain()
        for line in range(config.lines):
            await self.read_region(config, line, 0)
        await self.drain()
        for line, worker in itertools.product(range(2), range(2)):
            words = [edge[worker] for edge in EDGES]
            await self.contribute(config, worker, line, struct.pack("<16I", *words))
        await self.drain()
        for line in range(2):
            await self.read_region(config, line, 0)
        await self.drain()

    def operand(self, kind: int) -> int:
        """A word of a class: 0, -0, subnormal, normal, huge, +inf, -inf, NaN."""
        rng = self.rng
        sign = rng.getrandbits(1) << 31
        return {
            0: 0,
            1: 1 << 31,
            2: sign | rng.randint(1, (1 << 23) - 1),
            3: sign | rng.randint(64, 190) << 23 | rng.getrandbits(23),
            4: sign | 254 << 23 | rng.getrandbits(23),
            5: 0x7F80_0000,
            6: 0xFF80_0000,
            7: 0x7FC0_0000 | rng.getrandbits(22),
        }[kind]


# Every number of workers, every number of a region, and every change that a commit makes.


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

# SPDX-License-Identifier: Apache-2.0
"""Aggregation in one region: modes, counts, workers, region numbers and changes of descriptors."""

import struct
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from models.commit_check import CommitCode
from models.line_packing import LINE_BYTES
from models.modes import FIRST_EDITION, Mode
from models.regions import RAW_SELECTOR, RegionConfig, state_lines
from verif.sequences.base import RACE_LIMIT, NfSequence
from verif.sequences.line_data import AGGREGATING, ILLEGAL, byte_enables, line_for
from verif.sequences.memory_faults import RecordSequence


class AggregateSequence(NfSequence):
    """Epochs of one region of `mode`: all contributions in random order, then reads of all lines.

    Each of the `epochs` epochs starts with a commit of region number `region`, of 2^`lines_log2`
    lines and `workers` workers. `early` is the probability of a read of a random line after a
    contribution, `partial` that of a contribution with byte enables (MemWrPtl). The other options
    are fields of the descriptor.
    """

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
        names = ("strict", "bind", "tie_minus", "threshold")
        options = {name: getattr(self, name) for name in names}
        config = self.layout.region(self.mode, self.lines_log2, self.workers, **options)
        for number in range(self.epochs):
            await self.commit(self.region, config if number == 0 else None)
            await self.one_epoch(config)

    async def one_epoch(self, config: RegionConfig) -> None:
        """Contribute in random order, with early reads; then read lines by up to 12 selectors."""
        work = list(product(range(config.workers), range(config.lines)))
        self.rng.shuffle(work)
        limit = RACE_LIMIT if self.early else None
        for worker, line in work:
            be = byte_enables(self.rng) if self.random() < self.partial else None
            await self.contribute(config, worker, line, limit=limit, be=be)
            if self.random() < self.early:
                await self.read_region(config, self.randrange(config.lines), limit=limit)
        await self.drain()
        for line in range(config.lines):
            selectors = self.read_selectors(config)
            if len(selectors) > 12:
                selectors = [0, *self.sample(selectors[1:], 11)]
            await self.read_lines(config, line, selectors, wait=False)
        await self.drain()


class IdentitySequence(NfSequence):
    """An IDENTITY region (protected plain memory): full, partial and poisoned writes, and reads."""

    bind: bool = False

    async def body(self) -> None:
        config = await self.start_region(0, Mode.IDENTITY, 1, 16, bind=self.bind)
        places = [(self.randrange(256), self.randrange(config.lines)) for _ in range(12)]
        places += [(0, 0), (255, config.lines - 1)]
        for number in range(self.cfg.count(150)):
            selector, line = self.choice(places)
            addr = config.address(selector, line)
            if self.random() < 0.5:
                ldid = selector & 15 if self.bind else None
                be = byte_enables(self.rng) if self.random() < 0.4 else None
                poison = self.random() < 0.05
                data = line_for(config.mode, self.rng)
                await self.write(addr, data, RACE_LIMIT, ldid=ldid, be=be, poison=poison)
            else:
                await self.read(addr, RACE_LIMIT)
            if number % 70 == 69:  # a new epoch does not change the memory
                await self.drain()
                await self.commit(0)


Counts = np.ndarray


def lines_of_votes(mode: Mode, ups: Counts, downs: Counts) -> list[bytes]:
    """Pack the votes of each worker into a line of G_BINARY or G_TERNARY; return a line per worker.

    Args:
        mode: G_BINARY, which votes -1 wherever `ups` is false, or G_TERNARY.
        ups: bool[workers, elements], votes of +1; 512 elements (G_BINARY) or 256 (G_TERNARY).
        downs: bool[workers, elements], votes of -1, disjoint from `ups`; unused for G_BINARY.
    """
    if mode is Mode.G_BINARY:
        bits = ~ups
    else:
        bits = np.empty((len(ups), 512), dtype=bool)
        bits[:, 0::2] = downs  # sign
        bits[:, 1::2] = ups | downs  # gate
    return [row.tobytes() for row in np.packbits(bits, axis=1, bitorder="little")]


def corner_counts(workers: int, top: int) -> list[int]:
    """Return the numbers of votes within 1 of 0, `workers`, half of them, `top` or a power of two.

    The list is sorted and limited to 0..`workers`; `top` is the highest count of the device's
    counters.
    """
    powers = [1 << k for k in range(7)]
    near = [0, workers, workers // 2, top, *powers]
    return sorted({c + d for c in near for d in (-1, 0, 1) if 0 <= c + d <= workers})


class CountSequence(NfSequence):
    """Low-bit lines in which the number of votes of each element is drawn, mostly at corner values.

    Independent random bits never give a count near 0 or W, but the gradients of workers correlate,
    so such counts are the usual ones. For each number of planes that W may need (a range of W in
    `few`) a region of 8 lines gets contributions of all workers to 5 of its lines, then the result
    and the planes are read; W, T, TIE and the number of the region are drawn. With few slots there
    are more lines than slots, so that each line is evicted between workers.
    """

    mode: Mode = Mode.G_BINARY
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
        (240, 255),  # its sum with a count exceeds eight bits
    )

    async def body(self) -> None:
        many = self.few[-2:]  # slow ones: one of them in a short run
        for few in (*self.few[:-2], *self.sample(many, min(2, self.cfg.count(2)))):
            workers, minus = self.randint(*few), self.random() < 0.5
            threshold = self.randint(*self.choice(self.thresholds[:2]))
            config = await self.start_region(
                None, self.mode, 3, workers, tie_minus=minus, threshold=threshold
            )
            await self.vote(config, self.sample(range(config.lines), 5))

    async def vote(self, config: RegionConfig, lines: list[int]) -> None:
        """Send the contributions of all workers to `lines`, one worker after the other, then read.

        Read the result and the 8 count planes of each line.
        """
        data = {line: self.contributions(config) for line in lines}
        workers = self.shuffled(range(config.workers))
        await self.fill_lines(config, lines, workers, lambda worker, line: data[line][worker])
        for selector in (0, *range(8, 16)):
            await self.read_lines(config, lines, selector, wait=False)
        await self.drain()

    def contributions(self, config: RegionConfig) -> list[bytes]:
        """Return a line per worker, with the numbers of votes per element that `counts` draws.

        In each element a random ranking of the workers decides who votes +1, then who votes -1.
        """
        rng = np.random.default_rng(self.getrandbits(64))
        elements = 512 if config.mode is Mode.G_BINARY else 256
        plus, minus = self.counts(config, elements, rng)
        rank = np.argsort(rng.random((config.workers, elements)), axis=0)
        ups = rank < plus
        return lines_of_votes(config.mode, ups, ~ups & (rank < plus + minus))

    def counts(
        self, config: RegionConfig, elements: int, rng: np.random.Generator
    ) -> tuple[Counts, Counts]:
        """Draw the number of votes of +1 (G_BINARY: bits 0) and -1 per element, int[elements]."""
        workers, top = config.workers, self.hw.cnt_max
        corners = corner_counts(workers, top)
        kind = self.randrange(4)
        if kind == 0:  # all alike
            plus = np.full(elements, self.choice((0, 1, workers - 1, workers)))
        elif kind == 1:  # one outlier, in either half of the line
            plus = np.full(elements, self.randint(0, min(top, workers) // 2))
            plus[self.randrange(elements)] = workers
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
    """G_TERNARY lines of 60 to 64 workers, with a THRESHOLD drawn from each of `thresholds`.

    The numbers of votes are drawn as in `CountSequence`, so that net votes lie next to the
    threshold.
    """

    mode = Mode.G_TERNARY

    async def body(self) -> None:
        region = self.any_region()
        first = self.layout.region(Mode.G_TERNARY, 0, self.randint(60, 64))
        for low, high in self.thresholds:
            config = replace(first, threshold=self.randint(low, high))
            await self.commit(region, config)
            await self.vote(config, [0])


class IllegalLineSequence(NfSequence):
    """G_TERNARY lines with 256, 128 or one illegal code (01), some of them sent twice.

    They go to a drawn region while another one aggregates legal lines; ILLEGAL_CODE and the STATUS
    of both regions are read after each. The illegal codes of a duplicate are not counted. At last
    lines of any bytes go to two regions in consecutive cycles, one of G_TERN5 if the device has it.
    """

    async def body(self) -> None:
        region, calm = self.sample(range(self.hw.regions), 2)
        config = await self.start_region(region, Mode.G_TERNARY, 1, 6)
        legal = await self.start_region(calm, Mode.G_TERNARY, 1, 6)
        half = bytes(32) + ILLEGAL[:32]
        one = (1 << 2 * self.randrange(256)).to_bytes(LINE_BYTES, "little")
        for round_ in range(2):
            for worker, data in enumerate((ILLEGAL, half, half[::-1], one, ILLEGAL)):
                line = self.randrange(config.lines)
                for _ in range(self.randint(1, 2)):  # the codes of a duplicate are not counted
                    await self.contribute(config, worker, line, data, limit=1)
                await self.fill_lines(legal, line, worker)
                names = ("ILLEGAL_CODE", f"REGION[{region}].STATUS", f"REGION[{calm}].STATUS")
                await self.read_registers(*names)
            await self.commit(region)  # clears the flag of the region
            await self.read_registers("STATUS", region=region)
            if round_ == 0:
                await self.fill_lines(config, 0, 5)
                await self.read_registers("STATUS", region=region)
        both = [config, self.layout.region(Mode.G_TERN5, 1, 6) if self.hw.tern5 else legal]
        for number, gated in zip((region, calm), both, strict=True):
            await self.commit(number, gated)
            await self.fill_lines(gated, None, 0)  # its lines are in slots now
        for gated, worker, line in self.shuffled([*product(both, range(1, 6), (0, 1))]):
            await self.contribute(gated, worker, line, self.randbytes(LINE_BYTES))
        await self.drain()
        await self.read_registers("ILLEGAL_CODE")


class EmptyLineSequence(NfSequence):
    """Early reads of lines with 0, 1, 2 and 3 contributions, in each mode, with TIE set to minus.

    A line without a contribution reads as zeros, whatever TIE is.
    """

    async def body(self) -> None:
        for mode in AGGREGATING:
            region = self.any_region()
            config = await self.start_region(region, mode, 2, self.randint(3, 64), tie_minus=True)
            seen = [self.sample(range(config.workers), min(n, config.workers)) for n in range(4)]
            for line, workers in enumerate(seen):  # line i has i contributions
                await self.fill_lines(config, line, workers, wait=False)
            await self.drain()
            for line in self.shuffled(range(4)):
                selectors = [*self.sample(self.read_selectors(config), 3), 0]
                if mode is Mode.FP32:  # lines of present workers are not early
                    selectors += [RAW_SELECTOR + worker for worker in seen[line]]
                await self.read_lines(config, line, selectors, limit=1, wait=False)
            await self.drain()


Pair = tuple[int, int]
"""Votes of +1 and of -1 of an element (G_BINARY ignores the second one)."""


def contributions(mode: Mode, workers: int, pairs: Sequence[Pair]) -> list[bytes]:
    """Return a line per worker in which element e has pairs[e % len(pairs)] votes of +1 and -1.

    The first workers vote +1, the next ones -1.
    """
    elements = 512 if mode is Mode.G_BINARY else 256
    table = np.array([pairs[e % len(pairs)] for e in range(elements)])
    worker = np.arange(workers)[:, None]
    ups = worker < table[:, 0]
    return lines_of_votes(mode, ups, ~ups & (worker < table.sum(axis=1)))


class EveryCountSequence(NfSequence):
    """Lines with every number of votes near the majority and the threshold, and plane patterns.

    G_BINARY: each number of votes of m workers, with both values of TIE. G_TERNARY: each pair of
    numbers of votes, with several thresholds. Planes: all zeros, all ones, and alternate bits.
    """

    async def body(self) -> None:
        for tie in (False, True):
            for workers in (2, 3, 2 * self.randint(3, 7), 2 * self.randint(3, 7) + 1):
                await self.majority(workers, tie)
        for workers in (1, self.randint(8, 12)):
            for threshold in (1, 2, workers // 2, workers, workers + 1, 100, 255):
                await self.net(workers, max(threshold, 1))
        for pair in ((6, 0), (0, 6)):  # all elements alike
            await self.one_line(6, pair)
        await self.planes(Mode.G_BINARY, [(64, 0)])
        await self.planes(Mode.G_BINARY, [(64, 0), (0, 0)])
        await self.planes(Mode.G_TERNARY, [(64, 0)])
        for plane in range(6):  # as many votes of +1 as of -1 in every element: a plane of ones
            half = 1 << plane
            config = await self.one_line(2 * half, (half, half))
            await self.read_lines(config, 0, 8 + plane)

    async def one_line(self, workers: int, pair: Pair) -> RegionConfig:
        """Commit a G_TERNARY region of one line, give all elements the same counts, and read it.

        Args:
            workers: W of the region.
            pair: Votes of +1 and of -1 of each element.

        Returns:
            The descriptor of the region.
        """
        config = await self.start_region(1, Mode.G_TERNARY, 0, workers)
        await self.result(config, contributions(config.mode, workers, [pair]), 0)
        return config

    async def result(self, config: RegionConfig, rows: Sequence[bytes], line: int) -> None:
        """Send row w of `rows` as worker w, workers in random order, then read the result."""
        workers = self.sample(range(len(rows)), len(rows))
        await self.fill_lines(config, line, workers, lambda worker, _line: rows[worker])
        await self.read_lines(config, line)

    async def majority(self, workers: int, tie_minus: bool) -> None:
        """Read G_BINARY lines with every number of + votes among m, for m from W - 2 to W."""
        config = await self.start_region(0, Mode.G_BINARY, 2, workers, tie_minus=tie_minus)
        for line, m in enumerate(m for m in (workers, workers - 1, workers - 2) if m > 0):
            rows = contributions(config.mode, m, [(count, 0) for count in range(m + 1)])
            await self.result(config, rows, line)

    async def net(self, workers: int, threshold: int) -> None:
        """Read G_TERNARY lines with the first 256 pairs of counts (p, q), p + q <= W."""
        config = await self.start_region(1, Mode.G_TERNARY, 1, workers, threshold=threshold)
        pairs = [(p, q) for p in range(workers + 1) for q in range(workers + 1 - p)]
        for line in range(config.lines):
            await self.result(config, contributions(config.mode, workers, pairs[:256]), line)

    async def planes(self, mode: Mode, pairs: Sequence[Pair]) -> None:
        """Let 64 workers contribute to a line; read all planes after 1, 2, 4, ..., 64 of them.

        `pairs` are the votes of +1 and of -1 of the elements, as in `contributions`.
        """
        config = await self.start_region(2, mode, 0, 64)
        for worker, row in enumerate(contributions(mode, 64, pairs)):
            await self.contribute(config, worker, 0, row)
            if (worker + 1).bit_count() == 1:
                await self.drain()
                await self.read_lines(config, 0, range(8, 16))


EDGES = (
    (0x3F80_0000, 0xBF80_0000),  # cancel
    (0x0000_0000, 0x0000_0000),
    (0x8000_0000, 0x8000_0000),
    (0x7F7F_FFFF, 0x7F7F_FFFF),  # overflow
    (0x7F7F_FFFF, 0x3F80_0000),  # stays the largest number
    (0x7F80_0000, 0x3F80_0000),
    (0x7F80_0000, 0xFF80_0000),
    (0x7FC0_0000, 0x3F80_0000),
    (0x0000_0001, 0x0000_0001),  # two subnormals that give a subnormal
    (0x007F_FFFF, 0x007F_FFFF),  # and a normal
    (0x0080_0001, 0x8080_0000),  # normals that give a subnormal
    (0x007F_FFFF, 0x0000_0001),  # the smallest normal
    (0x3F80_0000, 0x3380_0000),  # a tie, to even below
    (0x3F80_0001, 0x3380_0000),  # and above
    (0x3F80_0000, 0x3380_0001),
    (0x3F80_0000, 0x3300_0001),
)
"""Pairs of binary32 words whose sum lies at an edge of the format; 16 pairs, one per element."""


class EveryPairSequence(NfSequence):
    """FP32 sums of two workers: every class of operand with every other, then the pairs of `EDGES`.

    Each of the 64 pairs of classes (see `operand`) gets four drawn pairs of values.
    """

    async def body(self) -> None:
        config = await self.start_region(0, Mode.FP32, 4, 2)
        pairs = list(product(range(8), range(8)))
        for line in range(config.lines):
            part = [pairs[(16 * line + k) % len(pairs)] for k in range(16)]
            for worker in range(2):
                words = [self.operand(pair[worker]) for pair in part]
                await self.contribute(config, worker, line, struct.pack("<16I", *words))
        await self.drain()
        await self.read_lines(config)
        edges = [struct.pack("<16I", *words) for words in zip(*EDGES, strict=True)]
        for line in range(2):
            await self.fill_lines(config, line, data=lambda worker, _line: edges[worker])
        await self.read_lines(config, range(2))

    def operand(self, kind: int) -> int:
        """Draw a binary32 word of a class.

        Args:
            kind: 0 zero, 1 minus zero, 2 subnormal, 3 normal, 4 in the largest binade, 5 +infinity,
                6 -infinity, 7 NaN.
        """
        sign = self.getrandbits(1) << 31
        return {
            0: 0,
            1: 1 << 31,
            2: sign | self.randint(1, (1 << 23) - 1),
            3: sign | self.randint(64, 190) << 23 | self.getrandbits(23),
            4: sign | 254 << 23 | self.getrandbits(23),
            5: 0x7F80_0000,
            6: 0xFF80_0000,
            7: 0x7FC0_0000 | self.getrandbits(22),
        }[kind]


EXTREMES = (1, 2, 3, 63, 64)
"""Numbers of workers that each have a separate coverage bin; their regions get two lines."""


class EveryWorkersSequence(NfSequence):
    """Regions with each W from 1 to 64, in each of G_BINARY, G_TERNARY and FP32.

    Each line gets all contributions and a duplicate; then the result and one other selector are
    read.
    """

    async def body(self) -> None:
        work = list(product(AGGREGATING, range(1, 65)))
        self.rng.shuffle(work)
        for mode, workers in work:
            self.layout.next_line = self.layout.plain_lines
            config = await self.start_region(0, mode, int(workers in EXTREMES), workers)
            for line in range(config.lines):
                order = self.shuffled(range(workers))
                await self.fill_lines(config, line, order)
                await self.fill_lines(config, line, order[-1])
                selectors = (0, self.choice(self.read_selectors(config)[1:]))
                await self.read_lines(config, line, selectors, wait=False)
            await self.drain()


class EveryRegionSequence(RecordSequence):
    """Directed accesses to everything that the device has once per region, in every region.

    Each region is used in each mode of the first edition: commits with an error, refused accesses
    of each cause, early reads, eviction and fetch of a record, illegal codes, poison, DONE, and
    errors of the memory on its records.
    """

    async def body(self) -> None:
        regions = self.hw.regions
        for region in self.shuffled(range(regions)):
            other = (region + 1) % regions
            crowd = await self.start_region(other, Mode.G_BINARY, 4, 1, ready=True)
            await self.overlaps(region, crowd)
            for mode in self.shuffled(FIRST_EDITION):
                await self.one(region, mode, crowd)
            await self.refused_writes(region, crowd)
            for number in (region, other):  # out of the way of the next region
                await self.start_region(number, Mode.G_BINARY, 0, 1)

    async def one(self, region: int, mode: Mode, crowd: RegionConfig) -> None:
        """Commit a region in one mode and access it: refused, early, evicted, complete, poisoned.

        Args:
            region: Number of the region.
            mode: Mode to use; an IDENTITY region is only written and read.
            crowd: Region whose lines evict those of this one.
        """
        config = self.layout.region(mode, 0, 2, bind=True, ld_mask=0x0007)
        await self.commit(region, replace(config, threshold=0), expect=CommitCode.THRESHOLD)
        await self.commit(region, config, ready=True)
        await self.refusals(config)
        if mode is Mode.IDENTITY:
            await self.contribute(config, 0, 0, limit=1)
            await self.read_region(config, 0, 0, limit=1)
            return
        views = (0, self.part_selector(config))
        await self.read_lines(config, 0, views, limit=1, wait=False)  # early
        await self.contribute(config, 0, 0, limit=1)
        await self.crowd_out(crowd)
        await self.read_region(config, 0, 0, limit=1)  # fetches the written-back record
        data = line_for(mode, self.rng)
        if mode is Mode.G_TERNARY:  # an illegal code
            data = (int.from_bytes(data, "little") & ~3 | 1).to_bytes(LINE_BYTES, "little")
        await self.fill_lines(config, 0, 1, data, limit=1)
        await self.read_registers("DONE")
        await self.read_registers("STATUS", "COMPLETE_LINES", region=region)
        await self.read_lines(config, 0, views, limit=1)
        await self.commit(region)
        await self.contribute(config, 0, 0, limit=1, poison=True)
        await self.read_lines(config, 0, limit=1)

    async def overlaps(self, region: int, crowd: RegionConfig) -> None:
        """Commit descriptors whose window or state area overlaps `crowd`, and check their codes."""
        free = self.layout.region(Mode.G_BINARY, 4, 1)
        window = replace(crowd, state_base=free.state_base)
        area = replace(crowd, base=free.base)
        await self.commit(region, window, expect=CommitCode.WINDOW_OVERLAP)
        await self.commit(region, area, expect=CommitCode.STATE_OVERLAP)

    async def refused_writes(self, region: int, crowd: RegionConfig) -> None:
        """Let memory refuse writes of a record, by the initialiser and then by a write-back.

        `crowd` is the region whose lines evict the record. After each error all lines are accessed.
        """
        config = self.layout.region(Mode.G_BINARY, 1, 2)
        record = [self.bookkeeping(config, 0)]
        with self.failing(writes=record):
            await self.commit(region, config, ready=True)
        await self.each(config, [0, 1], None)
        await self.commit(region)
        await self.each(config, [0, 1], 0)
        with self.failing(writes=record):
            await self.crowd_out(crowd)
        await self.each(config, [0, 1], None)

    async def refusals(self, config: RegionConfig) -> None:
        """Send an access for each cause of refusal that depends on the region (not CONTROL)."""
        data = line_for(config.mode, self.rng)
        first, second = config.address(0, 0), config.address(1, 0)
        await self.read(config.state_base)
        await self.read(first, ldid=5)
        await self.write(first, data, ldid=6)
        await self.write(second, data, ldid=2)
        if config.mode is not Mode.IDENTITY:
            await self.read(config.address(7, 0), ldid=0)
        if config.mode.low_bit:
            await self.write(first, data, ldid=0, be=self.getrandbits(64))
        await self.drain()


class EveryChangeSequence(NfSequence):
    """Commits that change each field of a descriptor, in each mode, each followed by accesses.

    Then regions with several values of LD_MASK, with and without BIND, accessed by four LD-IDs.
    """

    async def body(self) -> None:
        for region, mode in enumerate(FIRST_EDITION):
            await self.changes(region, mode)
        for mode in FIRST_EDITION:  # a region that admits nobody, one or several, bound or not
            for mask, bind in product((0, 1 << self.randrange(16), 0x0FF0, 0xFFFF), (False, True)):
                await self.masked(mode, mask, bind)

    async def changes(self, region: int, mode: Mode) -> None:
        """Commit a sequence of descriptors of `mode` to a region, and access its lines after each.

        Two neighbours of the sequence differ in one field: STRICT, W, n, the mode or an address;
        the first two are equal.
        """
        first = self.layout.region(mode, 2, 5)
        elsewhere = self.layout.region(mode, 2, 6)
        area = self.layout.region(Mode.IDENTITY, 3, 1).state_base  # room for any shape
        start = replace(first, state_base=area + -area % (16 * LINE_BYTES))
        strict = replace(start, strict=True)
        fewer = replace(strict, workers=3)
        last = replace(fewer, lines_log2=1)
        other = Mode.G_BINARY if mode is not Mode.G_BINARY else Mode.FP32
        moved = replace(last, base=elsewhere.base)
        away = replace(moved, state_base=elsewhere.state_base)
        small = replace(start, workers=self.choice((2, 4)), lines_log2=0)
        steps = (start, start, strict, fewer, last, replace(last, mode=other), last, moved, away)
        for config in (*steps, small):
            await self.commit(region, config)
            await self.touch(config)

    async def touch(self, config: RegionConfig) -> None:
        """Issue one operation on each line: a contribution, or a read of the result or a plane.

        For FP32 the third kind is a read of worker 0's line. They are the first of the region's
        epoch.
        """
        if config.mode is Mode.IDENTITY:
            return
        for line in range(config.lines):
            kind = (line + self.randrange(3)) % 3
            if kind == 0:
                await self.contribute(config, 0, line, limit=1)
            else:
                selector = (0, self.part_selector(config))[kind - 1]
                await self.read_region(config, line, selector, limit=1)
        await self.drain()

    async def masked(self, mode: Mode, mask: int, bind: bool) -> None:
        """Write and read a region with this LD_MASK (and BIND) as four random LD-IDs."""
        last = self.hw.regions - 1
        config = await self.start_region(last, mode, 0, 16, bind=bind, ld_mask=mask)
        for ldid in self.sample(range(16), 4):
            await self.write(config.address(ldid, 0), line_for(mode, self.rng), 1, ldid=ldid)
            await self.read(config.address(0, 0), 1, ldid=ldid)
        await self.drain()


class LargeRegionSequence(NfSequence):
    """Regions of 2^10 lines and more, of every mode. Needs a large memory and many slots.

    Lines of aggregating regions are used long before the initialiser reaches their records; the
    next commit stops the initialiser, since writing so many records would take minutes.
    """

    async def body(self) -> None:
        for lines_log2 in (self.randint(10, 13), 14, self.randint(15, 20)):
            config = await self.start_region(0, Mode.IDENTITY, lines_log2, 1)
            places = [(config, self.choice((0, 1, 128, 255)), line) for line in self.lines(config)]
            await self.contribute_each(places, limit=1)
            await self.read_each((config, line, selector) for _, selector, line in places)
        shapes = [
            (mode, self.randint(*limits)) for mode in AGGREGATING for limits in ((10, 13), (14, 17))
        ]
        for mode, lines_log2 in self.shuffled(shapes):
            config = await self.start_region(0, mode, lines_log2, 3)
            lines = self.lines(config)
            for worker in (2, 0):
                await self.fill_lines(config, lines, worker)
            await self.read_lines(config, lines)
        for mode in self.shuffled(AGGREGATING):
            await self.largest(mode)
        self.layout.next_line = self.layout.plain_lines
        await self.start_region(0, Mode.G_BINARY, 0, 1)

    async def largest(self, mode: Mode) -> None:
        """Contribute to and read a region whose records take half of the memory.

        It uses at most as many lines as there are slots: the write-back of an evicted line would
        wait for the initialiser, which takes hours.
        """
        self.layout.next_line = self.layout.plain_lines
        config = RegionConfig(0, 0, self.hw.mem_lines.bit_length() - 2, 3, mode)
        while state_lines(config, self.hw.cnt_w) > self.hw.mem_lines // 2:
            config = replace(config, lines_log2=config.lines_log2 - 1)
        config = await self.start_region(0, mode, config.lines_log2, 3)
        lines = [*self.lines(config), *(self.randrange(config.lines) for _ in range(100))]
        lines = list(dict.fromkeys(lines))
        await self.fill_lines(config, self.shuffled(lines), 2)
        for line in self.shuffled(lines):
            await self.contribute(config, 0, line)
            await self.read_region(config, line, 0)  # waits for the store
        await self.drain()
        await self.read_lines(config, self.shuffled(lines))
        await self.read_registers("STATUS", region=0)  # far from DONE

    def lines(self, config: RegionConfig) -> list[int]:
        """Return line indices: 0, the last, a random one, and those one bit away from that one."""
        first = self.randrange(config.lines)
        bits = (first ^ 1 << bit for bit in range(config.lines_log2))
        return [0, config.lines - 1, first, *bits]

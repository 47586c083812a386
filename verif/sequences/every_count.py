# SPDX-License-Identifier: Apache-2.0
"""Lines whose elements go through every count there can be, and sums of every pair of classes."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence

import numpy as np

from models.line_packing import Mode
from models.regions import RegionConfig
from verif.sequences.base import NfSequence

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

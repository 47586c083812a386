# SPDX-License-Identifier: Apache-2.0
"""Low-bit lines by their counts: every element gets a count that was drawn, corners most of all.

Independent random bits never give a count near 0 or W; gradients of workers correlate, so these
counts are the usual ones.
"""

from __future__ import annotations

import numpy as np

from models.line_packing import LINE_BYTES, Mode
from models.regions import RAW_SELECTOR, RegionConfig
from verif.sequences.base import NfSequence

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

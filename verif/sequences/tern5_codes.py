# SPDX-License-Identifier: Apache-2.0
"""Regions of G_TERN5: every byte, every net, drawn votes of 1 to 64 workers, and refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from models.line_packing import TERN5_CODES, Mode, elements_per_line, trits_to_lines
from models.regions import MAX_WORKERS, CommitCode, RegionConfig
from verif.sequences.base import RACE_LIMIT, NfSequence
from verif.sequences.round_views import most_workers

WORKERS = (1, 2, 3, 7, 8, 15, 16, 31, 32, 63, 64)
SHAPES = ("plus", "minus", "off", "legal", "any byte", "illegal")
ELEMENTS = elements_per_line(Mode.G_TERN5)


class Tern5Sequence(NfSequence):
    """What sequences of G_TERN5 share."""

    @property
    def most(self) -> int:
        """The most workers that the counters of this build hold."""
        return most_workers(Mode.G_TERN5, self.cfg.hw)

    def workers(self) -> int:
        """A number of workers that the counters of this build hold."""
        rng, most = self.rng, self.most
        return min(rng.choice(WORKERS), most) if rng.random() < 0.5 else rng.randint(1, most)

    def line(self, shape: str) -> bytes:
        """A line of one sign, of any legal bytes, of any bytes, or of illegal bytes alone."""
        rng = self.rng
        if shape in ("plus", "minus", "off"):
            trits = np.full(ELEMENTS, {"plus": 1, "minus": -1, "off": 0}[shape], np.int8)
            return bytes(trits_to_lines(trits).tobytes())
        low, high = {"legal": (0, TERN5_CODES - 1), "illegal": (TERN5_CODES, 255)}.get(
            shape, (0, 255)
        )
        return bytes(rng.randint(low, high) for _ in range(64))


class EveryByteSequence(Tern5Sequence):
    """Each of the 256 bytes at each place modulo 4 of a line, alone and against its neighbour."""

    async def body(self) -> None:
        shifts = self.rng.sample(range(256), 2)
        for workers in (1, 2):
            config = self.layout.region(Mode.G_TERN5, 2, workers)
            await self.commit(0, config)
            for line in range(config.lines):
                for worker in range(workers):
                    first = 64 * line + shifts[worker] * worker
                    data = bytes((first + byte) % 256 for byte in range(64))
                    await self.contribute(config, worker, line, data)
                await self.drain()
                await self.read_views(config, line)


class EveryNetSequence(Tern5Sequence):
    """All workers contribute; the line has every net from -W to W; thresholds of each kind."""

    rounds: int = 8

    async def body(self) -> None:
        rng, edges = self.rng, self.rng.sample(range(8), 8)
        for number in range(self.rounds):
            # The widest even and the widest odd W, then any.
            workers = max(1, self.most - number) if number < 2 else self.workers()
            below, above = max(1, workers - 1), rng.randint(MAX_WORKERS + 1, 254)
            thresholds = (1, 2, below, workers, workers + 1, above, 255, rng.randint(1, workers))
            threshold = thresholds[edges[number % len(edges)]]
            config = self.layout.region(Mode.G_TERN5, 0, workers, threshold=threshold)
            await self.commit(0, config)
            random = np.random.default_rng(rng.getrandbits(64))
            nets = np.resize(np.arange(-workers, workers + 1), ELEMENTS)
            random.shuffle(nets)
            minus = random.integers(0, (workers - np.abs(nets)) // 2 + 1) - np.minimum(nets, 0)
            rank = random.random((workers, ELEMENTS)).argsort(axis=0)
            votes = np.where(rank < minus, -1, np.where(rank < 2 * minus + nets, 1, 0))
            for worker in rng.sample(range(workers), workers):
                data = bytes(trits_to_lines(votes[worker]).tobytes())
                await self.contribute(config, worker, 0, data)
            await self.drain()
            await self.read_views(config, 0)


class Tern5CodesSequence(Tern5Sequence):
    """W from 1 to 64, subsets of the workers in any order; duplicates, poison, STRICT, early reads,
    illegal bytes, evictions and rounds of other modes in between."""

    rounds: int = 3

    async def body(self) -> None:
        rng = self.rng
        crowd = self.layout.region(Mode.G_BINARY, (2 * self.cfg.hw.slots - 1).bit_length(), 1)
        await self.commit(1, crowd)
        await self.fetched(crowd)
        await self.marks()
        for _ in range(self.rounds):
            workers = self.workers()
            config = self.layout.region(
                Mode.G_TERN5,
                rng.randint(0, 1),
                workers,
                strict=rng.random() < 0.3,
                threshold=rng.choice((1, 1, 2, rng.randint(1, workers))),
            )
            await self.commit(0, config)
            for line in range(config.lines):
                await self.fill(config, line, rng.choice(SHAPES), crowd)
            # The same area in another round, or in another mode: nothing of the old may show.
            other = rng.choice((replace(config, mode=Mode.G_TERNARY), config))
            await self.commit(0, other)
            await self.read_views(other, 0)
            await self.commit(0, config)
            await self.fill(config, 0, "legal", crowd)

    async def fetched(self, crowd: RegionConfig) -> None:
        """Contributions to several lines that have left their slots: each comes with a fill, when
        the others have gone through the pipeline already."""
        config = self.layout.region(Mode.G_TERN5, 1, min(3, self.most))
        await self.commit(0, config)
        for worker in range(config.workers):
            for line in range(config.lines):
                await self.contribute(config, worker, line, self.line("legal"))
            await self.crowd_out(crowd)
        for line in range(config.lines):
            await self.read_views(config, line)

    async def marks(self) -> None:
        """One, some and 64 illegal bytes: of a new worker, of one already seen, of poisoned data;
        and a line that has nothing but poison."""
        rng, legal, illegal = self.rng, self.line("legal"), self.line("illegal")
        config = self.layout.region(Mode.G_TERN5, 2, min(3, self.most))
        await self.commit(0, config)
        for line, count in enumerate((1, rng.randint(2, 63), 64)):
            places = set(rng.sample(range(64), count))
            data = bytes((illegal if byte in places else legal)[byte] for byte in range(64))
            for worker, poison in ((0, False), (0, False), (1, True)):
                await self.contribute(config, worker, line, data, poison=poison)
                await self.drain()
            await self.read_views(config, line)
        await self.contribute(config, 0, 3, legal, poison=True)
        await self.drain()
        await self.read_views(config, 3)

    async def fill(self, config: RegionConfig, line: int, shape: str, crowd: RegionConfig) -> None:
        """Contributions of some workers, or of all, between reads of every kind."""
        rng = self.rng
        senders = rng.sample(range(config.workers), config.workers)
        if rng.random() < 0.4:
            senders = senders[: rng.randint(0, config.workers)]
        poisoned = rng.choice(senders) if senders and rng.random() < 0.2 else None
        for place, worker in enumerate(senders):
            data = self.line(rng.choice((shape, shape, rng.choice(SHAPES))))
            await self.contribute(
                config, worker, line, data, limit=RACE_LIMIT, poison=worker == poisoned
            )
            if rng.random() < 0.1:  # a duplicate, with another line
                again = rng.choice(senders[: place + 1])
                await self.contribute(config, again, line, self.line("any byte"), limit=RACE_LIMIT)
            if rng.random() < 0.2:
                await self.read_region(config, line, limit=RACE_LIMIT)
            if place == len(senders) // 2:  # the next contribution comes with a fill
                await self.crowd_out(crowd)
        await self.drain()
        if rng.random() < 0.5:
            await self.crowd_out(crowd)
        await self.read_views(config, line)


class Tern5RefusalSequence(Tern5Sequence):
    """Selectors without a meaning, partial writes, and more workers than the counters hold."""

    async def body(self) -> None:
        rng, unused = self.rng, self.cfg.hw.regions - 1
        config = self.layout.region(Mode.G_TERN5, 0, self.workers())
        await self.commit(0, config)
        await self.contribute(config, 0, 0, self.line("legal"))
        for selector in (7, 16, 17, 32, 33, 64, 65, 255):
            await self.read(config.address(selector, 0))
        await self.write(config.address(0, 0), bytes(64), be=rng.getrandbits(64))
        await self.write(config.address(config.workers, 0), bytes(64))
        await self.drain()
        for code in range(7, 16):
            bad = replace(config, mode=Mode(code))
            await self.commit(rng.choice((0, unused)), bad, expect=CommitCode.MODE)
        if self.most < MAX_WORKERS:
            for workers in (self.most + 1, rng.randint(self.most + 1, MAX_WORKERS)):
                many = self.layout.region(Mode.G_TERN5, 0, workers)
                await self.commit(rng.choice((0, unused)), many, expect=CommitCode.PLANES)
                await self.commit(unused, replace(many, mode=Mode.G_TERNARY))
        full = self.layout.region(Mode.G_TERN5, 0, self.most)
        await self.commit(unused, full)
        # What was refused has changed nothing.
        await self.read_views(config, 0)
        await self.contribute(config, config.workers - 1, 0, self.line("plus"))
        await self.drain()
        await self.read_views(config, 0)

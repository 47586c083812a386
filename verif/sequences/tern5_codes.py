# SPDX-License-Identifier: Apache-2.0
"""Regions of G_TERN5: every byte, every net vote, drawn votes, all views, and refusals."""

from dataclasses import replace

import numpy as np

from models.commit_check import CommitCode, most_workers
from models.line_packing import LINE_BYTES, TERN5_CODES, trits_to_lines
from models.modes import Mode, elements_per_line
from models.regions import MAX_WORKERS, RegionConfig
from verif.sequences.int_codes import TERN5_SHAPES, CodesSequence

TERN5_WORKERS = (1, 2, 3, 7, 8, 15, 16, 31, 32, 63, 64)
ELEMENTS = elements_per_line(Mode.G_TERN5)


class Tern5Sequence(CodesSequence):
    """Base of the sequences on G_TERN5 regions (five trits a byte)."""

    poisoned = 0.2
    evicted = 0.5

    @property
    def most(self) -> int:
        """Maximum number of workers of a G_TERN5 region that the counters of this build hold."""
        return most_workers(Mode.G_TERN5, self.hw)

    def workers(self) -> int:
        """Draw a number of workers, at most `most`; half of the draws are corner values."""
        most = self.most
        return (
            min(self.choice(TERN5_WORKERS), most) if self.random() < 0.5 else self.randint(1, most)
        )

    def line(self, shape: str) -> bytes:
        """Return a 64-byte line of one of `TERN5_SHAPES`: all trits alike, or random bytes.

        "legal" bytes are below 243, "illegal" ones are 243 to 255.
        """
        if shape in ("plus", "minus", "off"):
            trits = np.full(ELEMENTS, {"plus": 1, "minus": -1, "off": 0}[shape], np.int8)
            return bytes(trits_to_lines(trits).tobytes())
        bounds = {"legal": (0, TERN5_CODES - 1), "illegal": (TERN5_CODES, 255)}
        low, high = bounds.get(shape, (0, 255))
        return bytes(self.randint(low, high) for _ in range(LINE_BYTES))

    def line_of(self, config: RegionConfig, shape: str) -> bytes:
        """Return `line(shape)`; all G_TERN5 regions have the same format."""
        return self.line(shape)


class EveryByteSequence(Tern5Sequence):
    """G_TERN5 lines with each of the 256 byte values at each position modulo 4.

    They are sent to a region of one worker and to one of two workers, with different bytes.
    """

    async def body(self) -> None:
        shifts = self.sample(range(256), 2)

        def content(worker: int, line: int) -> bytes:
            first = LINE_BYTES * line + shifts[worker] * worker
            return bytes((first + byte) % 256 for byte in range(LINE_BYTES))

        for workers in (1, 2):
            config = await self.start_region(0, Mode.G_TERN5, 2, workers)
            for line in range(config.lines):
                await self.fill_lines(config, line, data=content)
                await self.read_views(config, line)


class EveryNetSequence(Tern5Sequence):
    """G_TERN5 lines with every net vote from -W to W, for eight W with eight kinds of THRESHOLD."""

    async def body(self) -> None:
        edges = self.shuffled(range(8))
        for number in range(8):
            # The largest even and the largest odd W, then any.
            workers = max(1, self.most - number) if number < 2 else self.workers()
            below, above = max(1, workers - 1), self.randint(MAX_WORKERS + 1, 254)
            thresholds = (1, 2, below, workers, workers + 1, above, 255, self.randint(1, workers))
            threshold = thresholds[edges[number % len(edges)]]
            config = await self.start_region(0, Mode.G_TERN5, 0, workers, threshold=threshold)
            rows = self.votes(workers)
            for worker in self.shuffled(range(workers)):
                await self.contribute(config, worker, 0, rows[worker])
            await self.drain()
            await self.read_views(config, 0)

    def votes(self, workers: int) -> list[bytes]:
        """Return a line per worker whose net votes per element are all of -W to W, in random order.

        Each net n is the difference of minus + n votes of +1 and `minus` votes of -1, cast by
        random workers.
        """
        random = np.random.default_rng(self.getrandbits(64))
        nets = np.resize(np.arange(-workers, workers + 1), ELEMENTS)
        random.shuffle(nets)
        minus = random.integers(0, (workers - np.abs(nets)) // 2 + 1) - np.minimum(nets, 0)
        rank = random.random((workers, ELEMENTS)).argsort(axis=0)
        votes = np.where(rank < minus, -1, np.where(rank < 2 * minus + nets, 1, 0))
        return [bytes(trits_to_lines(row).tobytes()) for row in votes]


class Tern5CodesSequence(Tern5Sequence):
    """Contributions to G_TERN5 regions: W from 1 to 64, subsets of workers, illegal bytes, poison.

    Commits of other modes on the same area come between: no state of the last epoch may show.
    """

    async def body(self) -> None:
        crowd = self.crowd_layout()
        await self.commit(1, crowd)
        await self.fetched(crowd)
        await self.marks()
        for _ in range(3):
            log2, workers, strict = self.randint(0, 1), self.workers(), self.random() < 0.3
            threshold = self.choice((1, 1, 2, self.randint(1, workers)))
            config = await self.start_region(
                0, Mode.G_TERN5, log2, workers, strict=strict, threshold=threshold
            )
            for line in range(config.lines):
                await self.sum_line(config, line, self.choice(TERN5_SHAPES), crowd)
            # The same area in another mode, or again: nothing of the old round may show.
            other = self.choice((replace(config, mode=Mode.G_TERNARY), config))
            await self.commit(0, other)
            await self.read_views(other, 0)
            await self.commit(0, config)
            await self.sum_line(config, 0, "legal", crowd)

    async def fetched(self, crowd: RegionConfig) -> None:
        """Contribute to evicted lines: each contribution waits for the fetch of its record."""
        config = await self.start_region(0, Mode.G_TERN5, 1, min(3, self.most))
        for worker in range(config.workers):
            await self.fill_lines(
                config, None, worker, lambda _worker, _line: self.line("legal"), wait=False
            )
            await self.crowd_out(crowd)
        for line in range(config.lines):
            await self.read_views(config, line)

    async def marks(self) -> None:
        """Send lines with 1, some and 64 illegal bytes: by a new worker, as duplicate, poisoned.

        The last line gets nothing but poison.
        """
        legal, illegal = self.line("legal"), self.line("illegal")
        config = await self.start_region(0, Mode.G_TERN5, 2, min(3, self.most))
        for line, count in enumerate((1, self.randint(2, 63), LINE_BYTES)):
            places = set(self.sample(range(LINE_BYTES), count))
            data = bytes((illegal if byte in places else legal)[byte] for byte in range(LINE_BYTES))
            await self.fill_lines(config, line, (0, 0), data, alone=True)
            await self.fill_lines(config, line, 1, data, poison=True)
            await self.read_views(config, line)
        await self.fill_lines(config, 3, 0, legal, poison=True)
        await self.read_views(config, 3)


class Tern5RefusalSequence(Tern5Sequence):
    """Refused accesses and commits of G_TERN5 regions.

    Undefined selectors, partial writes, reserved modes, and more workers than the counters hold.
    """

    async def body(self) -> None:
        unused = self.hw.regions - 1
        config = await self.start_region(0, Mode.G_TERN5, 0, self.workers())
        await self.contribute(config, 0, 0, self.line("legal"))
        for selector in (7, 16, 17, 32, 33, 64, 65, 255):
            await self.read(config.address(selector, 0))
        await self.write(config.address(0, 0), bytes(LINE_BYTES), be=self.getrandbits(64))
        await self.write(config.address(config.workers, 0), bytes(LINE_BYTES))
        await self.drain()
        for code in range(7, 16):
            bad = replace(config, mode=Mode(code))
            await self.commit(self.choice((0, unused)), bad, expect=CommitCode.MODE)
        if self.most < MAX_WORKERS:
            for workers in (self.most + 1, self.randint(self.most + 1, MAX_WORKERS)):
                many = self.layout.region(Mode.G_TERN5, 0, workers)
                await self.commit(self.choice((0, unused)), many, expect=CommitCode.PLANES)
                await self.commit(unused, replace(many, mode=Mode.G_TERNARY))
        await self.start_region(unused, Mode.G_TERN5, 0, self.most)
        # The refused commits have changed nothing.
        await self.read_views(config, 0)
        await self.fill_lines(config, 0, config.workers - 1, self.line("plus"))
        await self.read_views(config, 0)

# SPDX-License-Identifier: Apache-2.0
"""Regions of integer codes and of G_TERN5: drawn codes, every byte, all views, and refusals."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from models.commit_check import CommitCode, most_workers
from models.int_sums import sums_of_planes
from models.line_packing import LINE_BYTES, TERN5_CODES, code_range, pack_int, trits_to_lines
from models.modes import Mode, elements_per_line
from models.regions import (
    MAX_WORKERS,
    PLANE_SELECTOR,
    SUM8_SELECTOR,
    SUM16_SELECTOR,
    RegionConfig,
    planes_kept,
    sum_selectors,
)
from verif.sequences.base import RACE_LIMIT, NfSequence

INTS = (Mode.G_INT4, Mode.G_INT8)
WORKERS = (1, 2, 7, 8, 15, 16, 17, 63, 64)
SELECTORS = (0, 7, 15, 16, 17, 18, 19, 20, 31, 32, 33, 34, 48, 64, 80, 144, 160)
"""Read selectors of a region of integer codes: ends and middle of each view, and undefined ones."""
SHAPES = ("smallest", "largest", "alternating", "one hot", "zeros", "random")
TERN5_SHAPES = ("plus", "minus", "off", "legal", "any byte", "illegal")


class CodesSequence(NfSequence):
    """Base of sequences that sum integer codes or vote (G_TERN5) and read by all selectors.

    Options: `poisoned` is the probability that one worker of a line sends poison, `evicted` that
    the line is evicted before it is read.
    """

    poisoned: float
    evicted: float = 0.0
    crowded: bool = True
    """Evict lines between contributions, so that they are fetched again (needs few slots)."""
    other: str = ""
    """Shape of a third of the contributions to a line; "" draws one of `TERN5_SHAPES`."""

    def line_of(self, config: RegionConfig, shape: str) -> bytes:
        """Return a 64-byte line of codes of the named shape."""
        raise NotImplementedError

    async def sum_line(
        self, config: RegionConfig, line: int, shape: str, crowd: RegionConfig
    ) -> None:
        """Contribute to a line as some or all workers in random order; read it by all selectors.

        Between the contributions there are duplicates with other codes, reads and evictions, and
        at most one of the workers sends poison.

        Args:
            config: descriptor of the region.
            line: index of the line.
            shape: shape of two thirds of the contributions, the others have `other`.
            crowd: region whose lines evict those of this one.
        """
        tern5 = config.mode is Mode.G_TERN5
        senders = self.shuffled(range(config.workers))
        if self.random() < 0.4:
            senders = senders[: self.randint(0, config.workers)]
        bad = self.choice(senders) if senders and self.random() < self.poisoned else None
        for place, worker in enumerate(senders):
            other = self.other or self.choice(TERN5_SHAPES)
            data: bytes | None = self.line_of(config, self.choice((shape, shape, other)))
            await self.contribute(config, worker, line, data, RACE_LIMIT, poison=worker == bad)
            if self.random() < 0.1:
                again = self.choice(senders[: place + 1])
                data = self.line_of(config, "any byte") if tern5 else None
                await self.contribute(config, again, line, data, RACE_LIMIT)
            if self.random() < 0.2:
                await self.read_region(config, line, limit=RACE_LIMIT)
            # After half of the contributions, or a tenth of them, the next one is taken by a fill.
            half = place == len(senders) // 2
            if half if tern5 else self.crowded and self.random() < 0.1:
                await self.crowd_out(crowd)
        await self.drain()
        if self.evicted and self.random() < self.evicted:
            await self.crowd_out(crowd)
        await self.read_views(config, line)


class IntSequence(CodesSequence):
    """Base of the sequences on regions of G_INT4 and G_INT8."""

    poisoned = 0.15
    other = "random"

    @property
    def most(self) -> int:
        """Maximum number of workers whose codes this build's counters add without saturation."""
        return min(MAX_WORKERS, self.hw.cnt_max)

    def workers(self) -> int:
        """Draw a number of workers, at most `most`, mostly a corner value."""
        return min(self.choice((*WORKERS, self.randint(1, self.most))), self.most)

    def line_of(self, config: RegionConfig, shape: str) -> bytes:
        """Return a 64-byte line of codes of one of `SHAPES`, in the mode and sign of the region."""
        count = elements_per_line(config.mode)
        low, high = code_range(config.mode, config.signed)
        line = [self.randint(low, high) for _ in range(count)]
        fixed = {"smallest": [low], "largest": [high], "alternating": [low, high]}
        if shape != "random":
            pattern = fixed.get(shape, [0])
            line = pattern * (count // len(pattern))
        if shape == "one hot":
            line[self.randrange(count)] = self.choice((low, high, 1))
        return bytes(pack_int(line, config.mode, config.signed).tobytes())


class IntCodesSequence(IntSequence):
    """Sums of integer codes: W from 1 to 64, corner codes, subsets of workers, and disturbances.

    Duplicates, poison, evictions and commits of the other sign occur between contributions.
    """

    async def body(self) -> None:
        crowd = self.crowd_layout()
        await self.commit(1, crowd)
        await self.extremes()
        for number in range(6):
            log2, workers = self.randint(0, 1), self.workers()
            signed, strict = self.random() < 0.6, self.random() < 0.3
            config = await self.start_region(
                0, INTS[number % 2], log2, workers, signed=signed, strict=strict
            )
            for line in range(config.lines):
                await self.sum_line(config, line, self.choice(SHAPES), crowd)
            # The same area with the other sign, or again: nothing of the old round may show.
            other = self.choice((replace(config, signed=not config.signed), config))
            await self.commit(0, other)
            await self.read_views(other, 0)
            await self.sum_line(other, 0, "random", crowd)

    async def extremes(self) -> None:
        """Read the largest and the smallest sum of the counters: all codes at an extreme."""
        mode = self.choice(INTS)
        config = await self.start_region(0, mode, 1, self.most, signed=self.random() < 0.5)
        for line, shape in enumerate(("largest", "smallest")):
            for worker in range(self.most):
                await self.contribute(config, worker, line, self.line_of(config, shape))
            await self.drain()
            await self.read_views(config, line)


class NeighbourSumsSequence(IntSequence):
    """Reads of sums in consecutive cycles: G_INT4 and G_INT8, signed or not, SUM8 and SUM16."""

    async def body(self) -> None:
        kinds = list(product(INTS, (False, True)))
        for _ in range(3):
            used = self.sample(kinds, min(len(kinds), self.hw.regions))
            regions = [self.layout.region(m, 1, self.workers(), signed=s) for m, s in used]
            asked: list[tuple[RegionConfig, int, int]] = []
            for place, config in enumerate(regions):
                await self.commit(place, config)
                for line in range(config.lines):
                    workers = self.sample(range(config.workers), min(config.workers, 3))
                    await self.fill_lines(config, line, workers, wait=False)
                asked += product([config], range(config.lines), sum_selectors(config))
            await self.drain()
            await self.read_each(self.shuffled(asked))


class SameAsVotesSequence(IntSequence):
    """The same lines sent to a region of integer codes and to a G_BINARY region.

    The sums of the device must equal the weighted sums of the G_BINARY count planes, which the host
    computes.
    """

    rounds: int = 4
    signs: tuple[bool, ...] = (True, True, False)

    async def body(self) -> None:
        for number in range(self.rounds):
            workers = self.workers()
            signed = self.choice(self.signs)
            config = self.layout.region(INTS[number % 2], 0, workers, signed=signed)
            votes = self.layout.region(Mode.G_BINARY, 0, workers)
            await self.commit_all(config, votes)
            senders = self.sample(range(workers), self.randint(1, workers))
            for worker in senders:
                data = self.line_of(config, self.choice(SHAPES))
                await self.contribute(config, worker, 0, data)
                await self.contribute(votes, worker, 0, data)
            await self.drain()
            await self.compare(config, votes, len(senders))

    async def compare(self, config: RegionConfig, votes: RegionConfig, m: int) -> None:
        """Compare sums from the planes of both regions with each view of sums of the codes' region.

        Args:
            config: region of integer codes.
            votes: G_BINARY region with the same contributions.
            m: number of contributions.
        """
        mode, signed = config.mode, config.signed
        planes = range(PLANE_SELECTOR, PLANE_SELECTOR + planes_kept(config.workers, self.hw.cnt_w))
        zeros = sums_of_planes(await self.views(votes, planes), mode, signed, zeros_of=m)[0]
        ones = sums_of_planes(await self.views(config, planes), mode, signed)[0]
        assert (zeros == ones).all(), "planes of a G_BINARY region give other sums"
        sign = "i" if signed else "u"
        for first, kind in ((SUM16_SELECTOR, f"<{sign}2"), (SUM8_SELECTOR, f"<{sign}1")):
            chosen = [s for s in sum_selectors(config) if 0 <= s - first < SUM16_SELECTOR]
            if chosen:
                got = (await self.views(config, chosen)).reshape(-1).view(kind)
                text = f"W {config.workers}, {mode.name}, signed {signed}"
                assert (got == zeros).all(), f"sums at {first} differ from the planes ({text})"

    async def views(self, config: RegionConfig, selectors: Sequence[int]) -> Any:
        """Read line 0 by these selectors; return uint8[len(selectors), 1, 64]."""
        data = [
            (await self.fetch(config.address(s, 0), ldid=self.ldid_for(config, 0))).data
            for s in selectors
        ]
        return np.frombuffer(b"".join(data), np.uint8).reshape(len(data), 1, LINE_BYTES).copy()


class IntRefusalSequence(IntSequence):
    """Refused accesses and commits of regions of integer codes.

    Undefined selectors, partial writes, reserved modes, and more workers than the counters can add.
    """

    async def body(self) -> None:
        edges = set(product(INTS, (1, 15, 16, 17)))
        edges |= {(mode, self.workers()) for mode in INTS}
        for mode, workers in self.sample(sorted(edges), len(edges)):
            if workers > self.hw.cnt_max:
                continue
            config = await self.start_region(0, mode, 0, workers, signed=self.random() < 0.5)
            await self.contribute(config, 0, 0)
            for selector in self.shuffled(SELECTORS):
                await self.read(config.address(selector, 0), RACE_LIMIT)
            partial = self.getrandbits(64)
            await self.write(config.address(0, 0), bytes(LINE_BYTES), RACE_LIMIT, be=partial)
            await self.write(config.address(workers % 256, 0), bytes(LINE_BYTES), RACE_LIMIT)
            await self.drain()
        await self.commits(config)

    async def commits(self, config: RegionConfig) -> None:
        """Commit reserved modes (code MODE), and more workers than counters can add (PLANES)."""
        unused = self.hw.regions - 1
        for code in self.sample(range(6, 16), 10):
            bad = replace(config, mode=Mode(code))
            await self.commit(self.choice((0, unused)), bad, expect=CommitCode.MODE)
            worse = replace(bad, threshold=self.choice((0, 1)), workers=self.choice((0, 65, 1)))
            await self.commit(0, worse, expect=CommitCode.MODE)
        most = self.most
        if most < MAX_WORKERS:
            counts = (most + 1, self.randint(most + 1, MAX_WORKERS))
            for mode, workers in zip(INTS, counts, strict=True):
                many = self.layout.region(mode, 0, workers)
                await self.commit(unused, many, expect=CommitCode.PLANES)
                await self.commit(0, many, expect=CommitCode.PLANES)
                await self.commit(0, replace(many, threshold=0), expect=CommitCode.THRESHOLD)
                await self.commit(0, replace(many, mode=Mode.G_BINARY))
                await self.start_region(0, mode, 0, most)
        # The refused commits have changed nothing.
        await self.commit(0, config)
        await self.contribute(config, 0, 0)
        await self.read_views(config, 0)


class EveryIntSequence(IntSequence):
    """Reads by every selector of regions of integer codes: each mode and sign, each class of W.

    Complete lines with codes of every shape, and lines with none or some workers, clean and
    poisoned. Needs all count planes.
    """

    async def body(self) -> None:
        for mode, signed in product(INTS, (False, True)):
            classes = (1, self.randint(2, 14), 15, 16, 17, self.randint(18, 62), 63, 64)
            for workers in self.shuffled(classes):
                config = await self.start_region(0, mode, 2, workers, signed=signed)
                await self.complete(config)
                if workers == 16:  # it has every view
                    await self.incomplete(config)

    async def complete(self, config: RegionConfig) -> None:
        """Contribute to line 0 as all workers, with shapes in turn; read it by all selectors."""
        for number, worker in enumerate(self.shuffled(range(config.workers))):
            data = self.line_of(config, SHAPES[number % len(SHAPES)])
            await self.contribute(config, worker, 0, data)
        await self.drain()
        await self.read_views(config, 0)

    async def incomplete(self, config: RegionConfig) -> None:
        """Read lines 1 and 2 by all selectors, without clean contributions, then with one.

        Line 2 has a poisoned contribution from the start.
        """
        await self.fill_lines(config, 2, 0, poison=True)
        for _ in range(2):
            for line in (1, 2):
                await self.read_views(config, line)
                await self.contribute(config, 1, line, self.line_of(config, "random"))
            await self.drain()


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

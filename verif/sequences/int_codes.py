# SPDX-License-Identifier: Apache-2.0
"""Regions of integer codes: drawn codes, sums by every view, and the same codes as votes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from models.int_sums import sums_of_planes
from models.line_packing import (
    TERN5_CODES,
    Mode,
    code_range,
    elements_per_line,
    pack_int,
    trits_to_lines,
)
from models.regions import (
    MAX_WORKERS,
    PLANE_SELECTOR,
    SUM8_SELECTOR,
    SUM16_SELECTOR,
    CommitCode,
    RegionConfig,
    planes_kept,
    sum_selectors,
)
from verif.sequences.base import RACE_LIMIT, NfSequence
from verif.sequences.round_views import most_workers

INTS = (Mode.G_INT4, Mode.G_INT8)
WORKERS = (1, 2, 7, 8, 15, 16, 17, 63, 64)
SELECTORS = (0, 7, 15, 16, 17, 18, 19, 20, 31, 32, 33, 34, 48, 64, 80, 144, 160)
"""First, middle and last of each view, and what lies between and behind them."""
SHAPES = ("smallest", "largest", "alternating", "one hot", "zeros", "random")


class IntSequence(NfSequence):
    """What sequences of integer codes share."""

    def workers(self) -> int:
        """A number of workers that the counters of this build can sum."""
        most = min(MAX_WORKERS, self.cfg.hw.cnt_max)
        drawn = self.rng.choice((*WORKERS, self.rng.randint(1, most)))
        return min(drawn, most)

    def codes(self, config: RegionConfig, shape: str) -> bytes:
        """A line of codes."""
        count, (low, high) = (
            elements_per_line(config.mode),
            code_range(config.mode, config.signed),
        )
        line = [self.rng.randint(low, high) for _ in range(count)]
        if shape in ("smallest", "largest"):
            line = [low if shape == "smallest" else high] * count
        elif shape == "alternating":
            line = [low, high] * (count // 2)
        elif shape in ("one hot", "zeros"):
            line = [0] * count
        if shape == "one hot":
            line[self.rng.randrange(count)] = self.rng.choice((low, high, 1))
        return bytes(pack_int(line, config.mode, config.signed).tobytes())


class IntCodesSequence(IntSequence):
    """W from 1 to 64, codes at their corners, subsets of the workers in any order; duplicates,
    poison, STRICT, early reads and evictions in between."""

    rounds: int = 6
    crowded: bool = True
    """Lines are evicted and fetched again (few slots)."""

    async def body(self) -> None:
        rng = self.rng
        crowd = self.layout.region(Mode.G_BINARY, (2 * self.cfg.hw.slots - 1).bit_length(), 1)
        await self.commit(1, crowd)
        await self.extremes()
        for number in range(self.rounds):
            config = self.layout.region(
                INTS[number % 2],
                rng.randint(0, 1),
                self.workers(),
                signed=rng.random() < 0.6,
                strict=rng.random() < 0.3,
            )
            await self.commit(0, config)
            for line in range(config.lines):
                await self.line(config, line, rng.choice(SHAPES), crowd)
            # The same area in the other mode or sign: nothing of the old round may show.
            other = rng.choice((replace(config, signed=not config.signed), config))
            await self.commit(0, other)
            await self.read_views(other, 0)
            await self.line(other, 0, "random", crowd)

    async def extremes(self) -> None:
        """The largest and the smallest sum that the counters can hold."""
        most = min(MAX_WORKERS, self.cfg.hw.cnt_max)
        config = self.layout.region(self.rng.choice(INTS), 1, most, signed=self.rng.random() < 0.5)
        await self.commit(0, config)
        for line, shape in enumerate(("largest", "smallest")):
            for worker in range(most):
                await self.contribute(config, worker, line, self.codes(config, shape))
            await self.drain()
            await self.read_views(config, line)

    async def line(self, config: RegionConfig, line: int, shape: str, crowd: RegionConfig) -> None:
        """Contributions of some workers, or of all, between reads of every kind."""
        rng = self.rng
        senders = rng.sample(range(config.workers), config.workers)
        if rng.random() < 0.4:
            senders = senders[: rng.randint(0, config.workers)]
        poisoned = rng.choice(senders) if senders and rng.random() < 0.15 else None
        for place, worker in enumerate(senders):
            data = self.codes(config, rng.choice((shape, shape, "random")))
            await self.contribute(
                config, worker, line, data, limit=RACE_LIMIT, poison=worker == poisoned
            )
            if rng.random() < 0.1:  # a duplicate, with other codes
                again = rng.choice(senders[: place + 1])
                await self.contribute(config, again, line, limit=RACE_LIMIT)
            if rng.random() < 0.2:
                await self.read_region(config, line, limit=RACE_LIMIT)
            if self.crowded and rng.random() < 0.1:
                await self.crowd_out(crowd)
        await self.drain()
        await self.read_views(config, line)


class NeighbourSumsSequence(IntSequence):
    """Reads of regions of every code and sign, one clock behind the other: each is shown by its own
    mode, sign and view."""

    rounds: int = 3

    async def body(self) -> None:
        rng = self.rng
        kinds = [(mode, signed) for mode in INTS for signed in (False, True)]
        for _ in range(self.rounds):
            used = rng.sample(kinds, min(len(kinds), self.cfg.hw.regions))
            regions = [self.layout.region(m, 1, self.workers(), signed=s) for m, s in used]
            for place, config in enumerate(regions):
                await self.commit(place, config)
                for line in range(config.lines):
                    for worker in rng.sample(range(config.workers), min(config.workers, 3)):
                        await self.contribute(config, worker, line)
            await self.drain()
            asked = [
                (config, line, selector)
                for config in regions
                for line in range(config.lines)
                for selector in sum_selectors(config)
            ]
            for config, line, selector in rng.sample(asked, len(asked)):
                await self.read_region(config, line, selector)
            await self.drain()


class SameAsVotesSequence(IntSequence):
    """The same codes to a region of their mode and to a G_BINARY region: the count planes of the
    votes, weighed by the host, are the sums that the device shows."""

    rounds: int = 4
    signs: tuple[bool, ...] = (True, True, False)

    async def body(self) -> None:
        rng = self.rng
        for number in range(self.rounds):
            workers = self.workers()
            signed = rng.choice(self.signs)
            config = self.layout.region(INTS[number % 2], 0, workers, signed=signed)
            votes = self.layout.region(Mode.G_BINARY, 0, workers)
            await self.commit(0, config)
            await self.commit(1, votes)
            senders = rng.sample(range(workers), rng.randint(1, workers))
            for worker in senders:
                data = self.codes(config, rng.choice(SHAPES))
                await self.contribute(config, worker, 0, data)
                await self.contribute(votes, worker, 0, data)
            await self.drain()
            await self.compare(config, votes, len(senders))

    async def compare(self, config: RegionConfig, votes: RegionConfig, m: int) -> None:
        """All ways to the sums."""
        planes = planes_kept(config.workers, self.cfg.hw.cnt_w)
        selectors = range(PLANE_SELECTOR, PLANE_SELECTOR + planes)
        zeros = sums_of_planes(
            await self.lines(votes, selectors), config.mode, config.signed, zeros_of=m
        )[0]
        ones = sums_of_planes(await self.lines(config, selectors), config.mode, config.signed)[0]
        assert (zeros == ones).all(), "planes of a G_BINARY region give other sums"
        kinds = {SUM16_SELECTOR: "i2" if config.signed else "u2"}
        kinds[SUM8_SELECTOR] = "i1" if config.signed else "u1"
        for first, kind in kinds.items():
            chosen = [s for s in sum_selectors(config) if 0 <= s - first < SUM16_SELECTOR]
            if chosen:
                got = (await self.lines(config, chosen)).reshape(-1).view(f"<{kind}")
                text = f"W {config.workers}, {config.mode.name}, signed {config.signed}"
                assert (got == zeros).all(), f"sums at {first} differ from the planes ({text})"

    async def lines(self, config: RegionConfig, selectors: Sequence[int]) -> Any:
        """uint8[v, 1, 64]"""
        data = [
            (await self.fetch(config.address(s, 0), ldid=self.ldid_for(config, 0))).data
            for s in selectors
        ]
        return np.frombuffer(b"".join(data), np.uint8).reshape(len(data), 1, 64).copy()


class IntRefusalSequence(IntSequence):
    """Selectors without a meaning, partial writes, and descriptors that no commit accepts."""

    async def body(self) -> None:
        rng = self.rng
        edges = {(mode, w) for mode in INTS for w in (1, 15, 16, 17, self.workers())}
        for mode, workers in rng.sample(sorted(edges), len(edges)):
            if workers > self.cfg.hw.cnt_max:
                continue
            config = self.layout.region(mode, 0, workers, signed=rng.random() < 0.5)
            await self.commit(0, config)
            await self.contribute(config, 0, 0)
            for selector in rng.sample(SELECTORS, len(SELECTORS)):
                await self.read(config.address(selector, 0), RACE_LIMIT)
            partial = rng.getrandbits(64)
            await self.write(config.address(0, 0), bytes(64), RACE_LIMIT, be=partial)
            await self.write(config.address(workers % 256, 0), bytes(64), RACE_LIMIT)
            await self.drain()
        await self.commits(config)

    async def commits(self, config: RegionConfig) -> None:
        """Reserved modes, whatever else is wrong; more workers than the counters can sum."""
        rng, unused = self.rng, self.cfg.hw.regions - 1
        for code in rng.sample(range(6, 16), 10):
            bad = replace(config, mode=Mode(code))
            await self.commit(rng.choice((0, unused)), bad, expect=CommitCode.MODE)
            worse = replace(bad, threshold=rng.choice((0, 1)), workers=rng.choice((0, 65, 1)))
            await self.commit(0, worse, expect=CommitCode.MODE)
        most = self.cfg.hw.cnt_max
        if most < MAX_WORKERS:
            for mode, workers in zip(
                INTS, (most + 1, rng.randint(most + 1, MAX_WORKERS)), strict=True
            ):
                many = self.layout.region(mode, 0, workers)
                await self.commit(unused, many, expect=CommitCode.PLANES)
                await self.commit(0, many, expect=CommitCode.PLANES)
                await self.commit(0, replace(many, threshold=0), expect=CommitCode.THRESHOLD)
                await self.commit(0, replace(many, mode=Mode.G_BINARY))
                await self.commit(0, self.layout.region(mode, 0, most))
        # What was refused has changed nothing.
        await self.commit(0, replace(config))
        await self.contribute(config, 0, 0)
        await self.read_views(config, 0)


# Integer codes gone through: each mode and sign, each class of W, each view of a line.


class EveryIntSequence(IntSequence):
    """Every view of a line that all workers have contributed to, with codes of every shape among
    them; and of lines that nobody or some have, clean and poisoned. Needs all count planes."""

    async def body(self) -> None:
        rng = self.rng
        for mode, signed in itertools.product(INTS, (False, True)):
            classes = (1, rng.randint(2, 14), 15, 16, 17, rng.randint(18, 62), 63, 64)
            for workers in rng.sample(classes, len(classes)):
                config = self.layout.region(mode, 2, workers, signed=signed)
                await self.commit(0, config)
                await self.complete(config, 0)
                if workers == 16:  # it has every view
                    await self.incomplete(config)

    async def complete(self, config: RegionConfig, line: int) -> None:
        """A line with all of its workers."""
        for number, worker in enumerate(self.rng.sample(range(config.workers), config.workers)):
            data = self.codes(config, SHAPES[number % len(SHAPES)])
            await self.contribute(config, worker, line, data)
        await self.drain()
        await self.read_views(config, line)

    async def incomplete(self, config: RegionConfig) -> None:
        """Lines 1 and 2: of nobody, then of one worker; line 2 is poisoned from the start."""
        await self.contribute(config, 0, 2, poison=True)
        await self.drain()
        for _ in range(2):
            for line in (1, 2):
                await self.read_views(config, line)
                await self.contribute(config, 1, line, self.codes(config, "random"))
            await self.drain()


# Regions of G_TERN5: every byte, every net, drawn votes of 1 to 64 workers, and refusals.


TERN5_WORKERS = (1, 2, 3, 7, 8, 15, 16, 31, 32, 63, 64)
TERN5_SHAPES = ("plus", "minus", "off", "legal", "any byte", "illegal")
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
        return min(rng.choice(TERN5_WORKERS), most) if rng.random() < 0.5 else rng.randint(1, most)

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
                await self.fill(config, line, rng.choice(TERN5_SHAPES), crowd)
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
            data = self.line(rng.choice((shape, shape, rng.choice(TERN5_SHAPES))))
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

# SPDX-License-Identifier: Apache-2.0
"""One region, one mode: every worker contributes to every line, then everything is read."""

from __future__ import annotations

from models.line_packing import Mode
from models.regions import RegionConfig
from verif.sequences.base import RACE_LIMIT, NfSequence
from verif.sequences.line_data import byte_enables, line_for


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

# SPDX-License-Identifier: Apache-2.0
"""Rare events of an aggregation: duplicates, poison, illegal codes, early and strict reads."""

from __future__ import annotations

from models.line_packing import Mode
from models.regions import RegionConfig
from verif.sequences.base import RACE_LIMIT, NfSequence
from verif.sequences.line_data import byte_enables, line_for, random_line

AGGREGATING = (Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32)


class EventSequence(NfSequence):
    """Contributions to regions of all aggregating modes; options set the share of each event."""

    workers: int = 6
    lines_log2: int = 1
    epochs: int = 2
    repeats: int = 2
    duplicates: float = 0.0
    poison: float = 0.0
    illegal: float = 0.0
    early: float = 0.0
    partial: float = 0.0
    plain: float = 0.0
    strict: bool = False
    race: bool = True

    def modes(self) -> list[Mode]:
        """Modes to run, cut to the regions of the device."""
        return list(AGGREGATING[: self.cfg.hw.regions])

    async def body(self) -> None:
        configs = [
            self.layout.region(mode, self.lines_log2, self.workers, strict=self.strict)
            for mode in self.modes()
        ]
        for number in range(self.epochs):
            for region, config in enumerate(configs):
                await self.commit(region, config if number == 0 else None)
            await self.one_epoch(configs)
            await self.drain()
            for config in configs:
                await self.read_all(config)
            await self.drain()

    async def one_epoch(self, configs: list[RegionConfig]) -> None:
        """All contributions `repeats` times in random order, with the events of the options."""
        rng = self.rng
        work = [
            (config, worker, line)
            for config in configs
            for worker in range(config.workers)
            for line in range(config.lines)
        ] * self.repeats
        rng.shuffle(work)
        work = work[: len(work) * 3 // 4]
        for config, worker, line in work:
            await self.one_write(config, worker, line)
            if rng.random() < self.duplicates:
                await self.one_write(config, worker, line)
            if rng.random() < self.early:
                await self.read_region(config, line, limit=self.limit)

    @property
    def limit(self) -> int:
        """Requests in flight on a line: one makes every count exact."""
        return RACE_LIMIT if self.race else 1

    async def one_write(self, config: RegionConfig, worker: int, line: int) -> None:
        """A contribution, perhaps poisoned, illegal in some elements, or partial."""
        rng = self.rng
        data = line_for(config.mode, rng, self.illegal)
        poison = rng.random() < self.poison
        partial = config.mode is Mode.FP32 and rng.random() < self.partial
        be = byte_enables(rng) if partial else None
        await self.contribute(config, worker, line, data, self.limit, poison=poison, be=be)
        if rng.random() < self.plain:
            await self.write(rng.randrange(64) << 6, random_line(rng), poison=poison)

    async def read_all(self, config: RegionConfig) -> None:
        """Every selector of every line."""
        for line in range(config.lines):
            for selector in self.read_selectors(config):
                await self.read_region(config, line, selector)


class DuplicateSequence(EventSequence):
    """Half of the contributions are repeated with other data; FP32 takes the later one."""

    duplicates = 0.5
    partial = 0.3


class PoisonSequence(EventSequence):
    """A fifth of the data is poisoned; a clean resend may follow, or a write of plain memory."""

    poison = 0.2
    plain = 0.4
    duplicates = 0.2
    early = 0.1

    async def one_epoch(self, configs: list[RegionConfig]) -> None:
        """Poison that others depend on is dealt: side by side, and behind a clean store."""
        for config in configs:
            if config.mode is Mode.FP32:
                await self.contribute(config, 1, 0, limit=1)
                await self.contribute(config, 1, 0, limit=1, poison=True)
                await self.read_region(config, 0, 0, limit=1)
        await self.drain()
        await super().one_epoch(configs)
        await self.drain()
        await self.side_by_side(configs[-1])

    async def side_by_side(self, config: RegionConfig) -> None:
        """Poisoned contributions and poisoned plain writes in turn, so that some share a clock."""
        for count in range(4 * config.workers):
            worker, line = count % config.workers, count % config.lines
            await self.contribute(config, worker, line, limit=self.limit, poison=True)
            for _ in range(1 + count % 3):
                addr = self.rng.randrange(64) << 6
                await self.write(addr, random_line(self.rng), poison=True)


class IllegalCodeSequence(EventSequence):
    """Half of the ternary lines hold illegal codes."""

    illegal = 0.5
    poison = 0.05
    duplicates = 0.1
    repeats = 1

    def modes(self) -> list[Mode]:
        return [Mode.G_TERNARY]


class EarlyReadSequence(EventSequence):
    """Reads of incomplete lines, lax and strict, one request at a time on a line."""

    early = 0.6
    repeats = 1
    race = False


class CodesEventSequence(EventSequence):
    """Integer codes, which are read by views of their own; one request at a time on a line."""

    poison = 0.1
    duplicates = 0.1
    early = 0.5
    repeats = 1
    race = False

    def modes(self) -> list[Mode]:
        return [Mode.G_INT4, Mode.G_INT8]

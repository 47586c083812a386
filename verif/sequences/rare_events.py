# SPDX-License-Identifier: Apache-2.0
"""Rare events of an aggregation: duplicates, poison, illegal codes, and early reads."""

from models.line_packing import LINE_BYTES
from models.modes import Mode
from models.regions import RegionConfig
from verif.sequences.base import RACE_LIMIT, NfSequence
from verif.sequences.line_data import AGGREGATING, byte_enables, line_for, random_line


class EventSequence(NfSequence):
    """Contributions to regions of all aggregating modes, with rare events at given rates.

    The options are probabilities for each contribution: `duplicates`, `poison`, `illegal` codes,
    `early` reads, `partial` FP32 stores, and `plain` writes to ordinary memory after it. `race`
    allows several requests in flight on a line. Each region has two epochs, each of which ends with
    reads of all lines by all selectors.
    """

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
        """Return the modes of regions 0, 1, ..., at most one for each region of the device."""
        return list(AGGREGATING[: self.hw.regions])

    async def body(self) -> None:
        configs = [self.layout.region(mode, 1, 6, strict=self.strict) for mode in self.modes()]
        for number in range(2):
            for region, config in enumerate(configs):
                await self.commit(region, config if number == 0 else None)
            await self.one_epoch(configs)
            await self.drain()
            for config in configs:
                await self.read_lines(config, None, self.read_selectors(config), wait=False)
            await self.drain()

    async def one_epoch(self, configs: list[RegionConfig]) -> None:
        """Contribute in random order: 75 % of all pairs of worker and line, `repeats` times."""
        work = self.every_contribution(configs) * self.repeats
        self.rng.shuffle(work)
        for config, worker, line in work[: len(work) * 3 // 4]:
            await self.one_write(config, worker, line)
            if self.random() < self.duplicates:
                await self.one_write(config, worker, line)
            if self.random() < self.early:
                await self.read_region(config, line, limit=self.limit)

    @property
    def limit(self) -> int:
        """Maximum number of requests in flight on a line; 1 makes expected counters exact."""
        return RACE_LIMIT if self.race else 1

    async def one_write(self, config: RegionConfig, worker: int, line: int) -> None:
        """Issue a contribution: poisoned, with illegal codes or partial, as the options say."""
        data = line_for(config.mode, self.rng, self.illegal)
        poison = self.random() < self.poison
        partial = config.mode is Mode.FP32 and self.random() < self.partial
        be = byte_enables(self.rng) if partial else None
        await self.contribute(config, worker, line, data, self.limit, poison=poison, be=be)
        if self.random() < self.plain:
            await self.write(self.randrange(64) * LINE_BYTES, random_line(self.rng), poison=poison)


class DuplicateSequence(EventSequence):
    """Duplicates of half of the contributions, with other data, which FP32 regions store."""

    duplicates = 0.5
    partial = 0.3


class PoisonSequence(EventSequence):
    """Poison on a fifth of contributions, some with a later duplicate or a plain memory write."""

    poison = 0.2
    plain = 0.4
    duplicates = 0.2
    early = 0.1

    async def one_epoch(self, configs: list[RegionConfig]) -> None:
        """Send the contributions of an epoch, and before and after them directed cases of poison.

        Before: a poisoned FP32 store after a clean one of the same worker. After: poisoned
        contributions and poisoned memory writes alternate, so that some are counted in the same
        cycle.
        """
        for config in configs:
            if config.mode is Mode.FP32:
                await self.contribute(config, 1, 0, limit=1)
                await self.contribute(config, 1, 0, limit=1, poison=True)
                await self.read_region(config, 0, 0, limit=1)
        await self.drain()
        await super().one_epoch(configs)
        await self.drain()
        config = configs[-1]
        for count in range(4 * config.workers):
            worker, line = count % config.workers, count % config.lines
            await self.contribute(config, worker, line, limit=self.limit, poison=True)
            for _ in range(1 + count % 3):
                addr = self.randrange(64) * LINE_BYTES
                await self.write(addr, random_line(self.rng), poison=True)


class IllegalCodeSequence(EventSequence):
    """Illegal codes in half of the lines of a G_TERNARY region, with some poison and duplicates."""

    illegal = 0.5
    poison = 0.05
    duplicates = 0.1
    repeats = 1

    def modes(self) -> list[Mode]:
        return [Mode.G_TERNARY]


class EarlyReadSequence(EventSequence):
    """Reads of lines that lack contributions, one request at a time on a line; STRICT by option."""

    early = 0.6
    repeats = 1
    race = False


class CodesEventSequence(EventSequence):
    """Poison, duplicates, early reads in G_INT4 and G_INT8 regions; one request a line at once."""

    poison = 0.1
    duplicates = 0.1
    early = 0.5
    repeats = 1
    race = False

    def modes(self) -> list[Mode]:
        return [Mode.G_INT4, Mode.G_INT8]

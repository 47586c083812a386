# SPDX-License-Identifier: Apache-2.0
"""Rare events of an aggregation: duplicates, poison, illegal codes, early reads, FALLBACK."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from cocotbext.cxl.wire.messages import RwdOp
from models.commit_check import CommitCode
from models.line_packing import LINE_BYTES
from models.modes import Mode
from models.regions import VIEW_SELECTORS, RegionConfig
from models.register_map import REG_MAP
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
        work = [
            (config, *pair)
            for config in configs
            for pair in product(range(config.workers), range(config.lines))
        ] * self.repeats
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


THRESHOLDS = REG_MAP.expand()["DEVLOAD_THRESHOLD"]
IRQ_FALLBACK = REG_MAP.expand()["IRQ_STATUS"].field("FALLBACK").mask
KINDS = ("clean", "poisoned", "late")


class CapacityKindsSequence(NfSequence):
    """Misses of one kind of contribution (clean, poisoned or late) counted in the capacity window.

    The miss that exceeds CAP_THRESHOLD raises FALLBACK, whatever the contribution does to its line.
    A further miss raises the interrupt again although FALLBACK was not cleared.
    """

    async def body(self) -> None:
        most = 9
        config = self.layout.region(Mode.G_BINARY, (2 * most + 1).bit_length(), 3)
        region = self.any_region()
        for kind in self.shuffled(KINDS):
            await self.exceed(region, config, kind, most)

    async def exceed(self, region: int, config: RegionConfig, kind: str, most: int) -> None:
        """Exceed a threshold below `most` with misses of one kind; check FALLBACK and interrupt."""
        threshold = self.randrange(most)
        await self.set_registers(
            CAP_THRESHOLD=threshold + self.randrange(3),
            CAP_WINDOW=self.randint(threshold + 1, most + 1),
        )
        await self.commit(region, config)
        ends = self.randint(0, threshold)
        lines = self.sample(range(config.lines), threshold + 2)
        for number, line in enumerate(lines[:-1]):
            if number == ends:  # earlier misses stay in the window
                await self.registers.write("CAP_THRESHOLD", threshold)
                await self.commit(region, replace(config, workers=0), CommitCode.WORKERS)
                if kind == "late":
                    await self.close(region)
            assert not await self.registers.read("FALLBACK"), (
                f"{kind}: FALLBACK after {number} misses"
            )
            await self.miss(config, line, kind)
        found = await self.registers.read("FALLBACK")
        assert found == 1 << region, f"{kind}: FALLBACK is {found:#x} after {threshold + 1} misses"
        await self.registers.write("IRQ_STATUS", IRQ_FALLBACK)
        assert not await self.registers.read("IRQ_STATUS.FALLBACK"), "the interrupt was not cleared"
        await self.miss(config, lines[-1], kind)
        assert await self.registers.read("IRQ_STATUS.FALLBACK"), f"{kind}: no second interrupt"
        await self.set_registers(CAP_WINDOW=0, FALLBACK=1 << region)
        assert await self.registers.read("IRQ_STATUS.FALLBACK"), "FALLBACK cleared its interrupt"
        await self.registers.write("IRQ_STATUS", IRQ_FALLBACK)

    async def miss(self, config: RegionConfig, line: int, kind: str) -> None:
        """Contribute to a line that was not used since the region's commit, and read SLOT_MISS."""
        await self.fill_lines(
            config, line, self.randrange(config.workers), poison=kind == "poisoned"
        )
        await self.read_registers("SLOT_MISS")  # shows the scoreboard that it was a miss


class FallbackAnswersSequence(NfSequence):
    """Every kind of response of a region in each of four modes while its FALLBACK flag is set.

    FALLBACK outlives commits. It raises the DevLoad levels light and optimal to moderate, but not
    severe; the scoreboard checks the DevLoad of each response.
    """

    async def body(self) -> None:
        region = self.any_region()
        await self.set_registers(CAP_THRESHOLD=0, CAP_WINDOW=1)
        votes = await self.start_region(region, Mode.G_BINARY, 0, 3)
        await self.fill_lines(votes, 0, 0)
        assert await self.registers.read("FALLBACK") == 1 << region, (
            "one miss did not raise FALLBACK"
        )
        others = [self.layout.region(mode, 0, 3) for mode in (Mode.FP32, Mode.G_INT4)]
        plain = self.layout.region(Mode.IDENTITY, 0, 1)
        for config in self.sample((votes, plain, *others), 4):
            await self.commit(region, config)
            for optimal, severe in self.sample(((0, 0), (1, 0), (1, 1)), 3):
                levels = THRESHOLDS.pack(OPTIMAL=optimal, MODERATE=0, SEVERE=severe)
                await self.registers.write("DEVLOAD_THRESHOLD", levels)
                await self.every_answer(config)

    async def every_answer(self, config: RegionConfig) -> None:
        """Send single requests: contribution, duplicate, refused ones, reads by selectors."""
        worker = self.randrange(config.workers)
        for poison in (True, False, False):
            await self.fill_lines(config, 0, worker, poison=poison)
        selectors = self.read_selectors(config)
        chosen = self.sample(selectors, min(8, len(selectors)))
        if config.mode is not Mode.IDENTITY:
            chosen += [0, *VIEW_SELECTORS, 255]  # 255 is refused
            await self.call(self.write_msg(config.address(255, 0), bytes(LINE_BYTES)))
        for selector in chosen:
            await self.fetch(config.address(selector, 0))
        whole = self.write_msg(config.address(0, 0), bytes(LINE_BYTES))
        await self.call(replace(whole, opcode=RwdOp.MEM_WR_PTL))

# SPDX-License-Identifier: Apache-2.0
"""Rare events of an aggregation: duplicates, poison, illegal codes, early and strict reads."""

from __future__ import annotations

from dataclasses import replace

from cocotbext.cxl.wire.messages import RwdOp
from models.line_packing import Mode
from models.nf_regs import REG_MAP
from models.regions import VIEW_SELECTORS, CommitCode, RegionConfig
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


# The capacity check of contributions that change nothing, and FALLBACK that is raised again.


THRESHOLDS = REG_MAP.expand()["DEVLOAD_THRESHOLD"]
IRQ_FALLBACK = REG_MAP.expand()["IRQ_STATUS"].field("FALLBACK").mask
KINDS = ("clean", "poisoned", "late")


class CapacityKindsSequence(NfSequence):
    """Contributions of one kind to lines that no slot holds: each is a miss of the window.

    The one that brings them above the threshold raises FALLBACK, whatever it does to its line. A
    further one raises the interrupt anew, though FALLBACK was not cleared.
    """

    async def body(self) -> None:
        most = 9
        config = self.layout.region(Mode.G_BINARY, (2 * most + 1).bit_length(), 3)
        region = self.rng.randrange(self.cfg.hw.regions)
        for kind in self.rng.sample(KINDS, len(KINDS)):
            threshold = self.rng.randrange(most)
            await self.env.registers.write("CAP_THRESHOLD", threshold + self.rng.randrange(3))
            await self.env.registers.write("CAP_WINDOW", self.rng.randint(threshold + 1, most + 1))
            await self.commit(region, config)
            ends = self.rng.randint(0, threshold)
            lines = self.rng.sample(range(config.lines), threshold + 2)
            for number, line in enumerate(lines[:-1]):
                if number == ends:  # what came before is in the window still
                    await self.env.registers.write("CAP_THRESHOLD", threshold)
                    await self.commit(region, replace(config, workers=0), CommitCode.WORKERS)
                    if kind == "late":
                        await self.close(region)
                assert not await self.env.registers.read("FALLBACK"), f"{kind}: too early"
                await self.miss(config, line, kind)
            assert await self.env.registers.read("FALLBACK") == 1 << region, f"{kind}: none"
            await self.env.registers.write("IRQ_STATUS", IRQ_FALLBACK)
            assert not await self.env.registers.read("IRQ_STATUS.FALLBACK")
            await self.miss(config, lines[-1], kind)
            assert await self.env.registers.read("IRQ_STATUS.FALLBACK"), f"{kind}: not again"
            await self.env.registers.write("CAP_WINDOW", 0)
            await self.env.registers.write("FALLBACK", 1 << region)
            assert await self.env.registers.read("IRQ_STATUS.FALLBACK"), "its clear is another one"
            await self.env.registers.write("IRQ_STATUS", IRQ_FALLBACK)

    async def miss(self, config: RegionConfig, line: int, kind: str) -> None:
        """A contribution to a line that was not touched before in this round."""
        worker = self.rng.randrange(config.workers)
        await self.contribute(config, worker, line, poison=kind == "poisoned")
        await self.drain()
        await self.env.registers.read("SLOT_MISS")  # tells the scoreboard that it was one


class FallbackAnswersSequence(NfSequence):
    """FALLBACK outlives commits: every kind of answer of a region in each mode has to tell it.

    Light and optimal are lifted, severe is not; the scoreboard checks the DevLoad of each answer.
    """

    async def body(self) -> None:
        rng, registers = self.rng, self.env.registers
        region = rng.randrange(self.cfg.hw.regions)
        await registers.write("CAP_THRESHOLD", 0)
        await registers.write("CAP_WINDOW", 1)
        votes = self.layout.region(Mode.G_BINARY, 0, 3)
        await self.commit(region, votes)
        await self.contribute(votes, 0, 0)
        await self.drain()
        assert await registers.read("FALLBACK") == 1 << region
        others = [self.layout.region(mode, 0, 3) for mode in (Mode.FP32, Mode.G_INT4)]
        plain = self.layout.region(Mode.IDENTITY, 0, 1)
        for config in rng.sample((votes, plain, *others), 4):
            await self.commit(region, config)
            for optimal, severe in rng.sample(((0, 0), (1, 0), (1, 1)), 3):
                levels = THRESHOLDS.pack(OPTIMAL=optimal, MODERATE=0, SEVERE=severe)
                await registers.write("DEVLOAD_THRESHOLD", levels)
                await self.every_answer(config)

    async def every_answer(self, config: RegionConfig) -> None:
        """One at a time: what is taken, what is a duplicate, what is refused, what is read."""
        worker = self.rng.randrange(config.workers)
        for poison in (True, False, False):
            await self.contribute(config, worker, 0, poison=poison)
            await self.drain()
        selectors = self.read_selectors(config)
        chosen = self.rng.sample(selectors, min(8, len(selectors)))
        if config.mode is not Mode.IDENTITY:
            chosen += [0, *VIEW_SELECTORS, 255]  # the last one is refused
            await self.write(config.address(255, 0), bytes(64))
            await self.drain()
        for selector in chosen:
            await self.fetch(config.address(selector, 0))
        unknown = replace(self.write_msg(config.address(0, 0), bytes(64)), opcode=RwdOp.MEM_WR_PTL)
        await self.call(unknown)

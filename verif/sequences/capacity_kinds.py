# SPDX-License-Identifier: Apache-2.0
"""The capacity check of contributions that change nothing, and FALLBACK that is raised again."""

from __future__ import annotations

from dataclasses import replace

from cocotbext.cxl.wire.messages import RwdOp
from models.line_packing import Mode
from models.nf_regs import REG_MAP
from models.regions import VIEW_SELECTORS, CommitCode, RegionConfig
from verif.sequences.base import NfSequence

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

# SPDX-License-Identifier: Apache-2.0
"""The capacity check of contributions that change nothing, and FALLBACK that is raised again."""

from __future__ import annotations

from models.line_packing import Mode
from models.nf_regs import REG_MAP
from models.regions import RegionConfig
from verif.sequences.base import NfSequence

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
            await self.env.registers.write("CAP_THRESHOLD", threshold)
            await self.env.registers.write("CAP_WINDOW", self.rng.randint(threshold + 1, most + 1))
            await self.commit(region, config)
            if kind == "late":
                await self.close(region)
            lines = self.rng.sample(range(config.lines), threshold + 2)
            for line in lines[:-1]:
                assert not await self.env.registers.read("FALLBACK"), f"{kind}: too early"
                await self.miss(config, line, kind)
            assert await self.env.registers.read("FALLBACK") == 1 << region, f"{kind}: none"
            await self.env.registers.write("IRQ_STATUS", IRQ_FALLBACK)
            assert not await self.env.registers.read("IRQ_STATUS.FALLBACK")
            await self.miss(config, lines[-1], kind)
            assert await self.env.registers.read("IRQ_STATUS.FALLBACK"), f"{kind}: not again"
            await self.env.registers.write("CAP_WINDOW", 0)
            await self.env.registers.write("FALLBACK", 1 << region)
            await self.env.registers.write("IRQ_STATUS", IRQ_FALLBACK)

    async def miss(self, config: RegionConfig, line: int, kind: str) -> None:
        """A contribution to a line that was not touched before in this round."""
        worker = self.rng.randrange(config.workers)
        await self.contribute(config, worker, line, poison=kind == "poisoned")
        await self.drain()
        await self.env.registers.read("SLOT_MISS")  # tells the scoreboard that it was one

# SPDX-License-Identifier: Apache-2.0
"""Every access that a region knows, by hosts that it admits and by hosts that it does not."""

from __future__ import annotations

from models.line_packing import Mode
from models.regions import STATUS_SELECTOR, VIEW_SELECTORS, Cause, RegionConfig
from verif.sequences.base import NfSequence

MODES = (Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32, Mode.G_INT4, Mode.G_INT8, Mode.IDENTITY)


class StrangersSequence(NfSequence):
    """LD_MASK is drawn. What a stranger asks for is refused, whatever the selector tells.

    The scoreboard compares each answer; the cause of each refusal is compared here.
    """

    async def body(self) -> None:
        rng = self.rng
        region = rng.randrange(self.cfg.hw.regions)
        for mode in rng.sample(MODES, len(MODES)):
            mask = rng.randint(1, 0xFFFE)
            config = self.layout.region(mode, rng.randrange(2), 3, ld_mask=mask)
            await self.commit(region, config)
            for worker in range(config.workers):
                await self.contribute(config, worker, 0)
            await self.drain()
            await self.each(config)

    async def each(self, config: RegionConfig) -> None:
        """Every kind of read, and a write, by one host of each sort, in any order.

        Poison in a write that is refused is not received.
        """
        rng, registers = self.rng, self.env.registers
        hosts = [[k for k in range(16) if config.ld_mask >> k & 1 == known] for known in (0, 1)]
        selectors = self.read_selectors(config)
        if config.mode is Mode.IDENTITY:
            selectors = [0, STATUS_SELECTOR, *rng.sample(selectors, 4)]
        else:
            selectors += VIEW_SELECTORS
        for selector in rng.sample(selectors, len(selectors)):
            for known in rng.sample((0, 1), 2):
                await registers.write("ERR_INFO", 1)
                await self.fetch(config.address(selector, 0), ldid=rng.choice(hosts[known]))
                await self.check(not known)
        for known in rng.sample((0, 1), 2):
            await registers.write("ERR_INFO", 1)
            worker = rng.randrange(config.workers)
            host, poison = rng.choice(hosts[known]), not known or rng.random() < 0.5
            await self.contribute(config, worker, 0, ldid=host, poison=poison)
            await self.drain()
            await self.check(not known)

    async def check(self, refused: bool) -> None:
        """The access was refused because of its LD-ID, or was not refused."""
        info = await self.env.registers.read("ERR_INFO.VALID")
        assert info == refused, f"ERR_INFO.VALID is {info}"
        if refused:
            assert await self.env.registers.read("ERR_INFO.CAUSE") == Cause.LD_MASK

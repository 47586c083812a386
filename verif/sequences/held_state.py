# SPDX-License-Identifier: Apache-2.0
"""State that stays until somebody changes it, set as far as it can be: a reset has to end it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from models.line_packing import Mode
from models.nf_regs import REG_MAP
from models.regions import RegionConfig
from verif.sequences.control_lines import ControlSequence

REGS = REG_MAP.expand()
ILLEGAL = b"\x55" * 64


class HeldStateSequence(ControlSequence):
    """First a look at where things were before the reset; then all of them are set anew."""

    places: ClassVar[list[int]] = []
    """Where the control window and the regions of the case before were."""

    async def body(self) -> None:
        rng, hw, registers = self.rng, self.cfg.hw, self.env.registers
        for place in self.places:
            await self.fetch(place)
            await self.write(place, rng.randbytes(64))
        await self.drain()
        await registers.write("ERR_INFO", 1)  # the next one is captured
        owners = {region: rng.randrange(16) for region in range(hw.regions)}
        await self.open(rng.randint(1, 0xFFFF), owners)
        for name in ("IRQ_ENABLE", "DEVLOAD_THRESHOLD"):
            await registers.write(name, REGS[name].fields[0].mask)
        await registers.write("CAP_THRESHOLD", 0)
        await registers.write("CAP_WINDOW", rng.randint(1, 256))
        self.configs: list[RegionConfig] = []
        for region in range(hw.regions):
            mode = Mode.G_TERNARY if region == 0 else rng.choice((Mode.G_BINARY, Mode.G_TERNARY))
            self.configs.append(self.layout.region(mode, rng.randint(1, 2), 2))
            await self.commit(region, self.configs[-1])
        await self.stir()
        type(self).places = [self.window.base, *(config.base for config in self.configs)]

    async def stir(self) -> None:
        """Sets what events set: counters, flags and captures."""
        for region, config in enumerate(self.configs):
            await self.fill(region, config)
        await self.fetch(self.configs[0].address(255, 0))  # refused, and captured

    async def fill(self, region: int, config: RegionConfig) -> None:
        """A line is complete, another has an illegal code where that is one; many rounds end."""
        for worker in range(config.workers):
            await self.contribute(config, worker, 0)
        await self.contribute(config, 0, 1, ILLEGAL, poison=False)
        await self.contribute(config, 1, 1, poison=True)
        await self.drain()
        if region == 0 or self.rng.random() < 0.5:
            await self.close(region)


class ClearsSequence(HeldStateSequence):
    """Each command that ends something, one after the other: it ends nothing else.

    The scoreboard compares every register behind each of them. They come in both orders, with all
    set anew between them: of any two, each is once the first.
    """

    async def body(self) -> None:
        type(self).places = []  # it begins with no case before it
        await super().body()
        clears = list(self.clears())
        order = self.rng.sample(clears, len(clears))
        await self.write_each(order)
        for region in range(self.cfg.hw.regions):
            await self.commit(region)
        await self.stir()
        await self.write_each(order[::-1])

    async def write_each(self, order: list[tuple[str, int]]) -> None:
        """All registers are read behind each write."""
        for name, value in order:
            await self.env.registers.write(name, value)
            await self.env.registers.read_all()

    def clears(self) -> Iterator[tuple[str, int]]:
        """A register, and what is written to it."""
        yield "CTRL", REGS["CTRL"].pack(CLEAR_COUNTERS=1)
        yield "ERR_INFO", 1
        yield "LINK_ERR_INFO", 1
        yield "RAS_ERROR", 1
        for field in REGS["IRQ_STATUS"].fields:
            if field.name in ("DONE", "FALLBACK", "ACCESS_ERROR", "POISON"):
                yield "IRQ_STATUS", field.mask
        for region in self.rng.sample(range(self.cfg.hw.regions), 2):
            yield "FALLBACK", 1 << region
            yield f"REGION[{region}].EPOCH", self.rng.getrandbits(32)

# SPDX-License-Identifier: Apache-2.0
"""DONE and FALLBACK through their lives, and the registers of their limits at every edge."""

from __future__ import annotations

import itertools

import cocotb

from models.line_packing import LINE_BYTES, Mode
from models.nf_regs import REG_MAP
from models.regions import VIEW_SELECTORS, RegionConfig
from verif.sequences.base import NfSequence
from verif.sequences.line_data import ZEROS


class EveryStatusSequence(NfSequence):
    """Two regions; the registers are read after every step, and the predictor compares them."""

    async def body(self) -> None:
        first, second = (self.layout.region(mode, 0, 2) for mode in (Mode.G_BINARY, Mode.FP32))
        await self.commit(0, first)
        await self.commit(1, second)
        await self.done(first, second)
        await self.fallback()
        await self.limits()
        await self.loads()
        for enabled in (False, True):
            await self.interrupts(enabled)
        await self.apart()

    async def complete(self, config: RegionConfig) -> None:
        """Every worker contributes; then the status is read."""
        for line, worker in itertools.product(range(config.lines), range(config.workers)):
            await self.contribute(config, worker, line)
        await self.drain()
        for name in ("DONE", "FALLBACK", "IRQ_STATUS"):
            await self.env.registers.read(name)

    async def done(self, first: RegionConfig, second: RegionConfig) -> None:
        """DONE is raised, ended by a commit, raised again, and beside another one."""
        for _ in range(2):
            await self.complete(first)
            await self.commit(0)
            await self.env.registers.read("DONE")
        await self.complete(first)
        await self.complete(second)

    async def fallback(self) -> None:
        """FALLBACK of one region, then of a second one; cleared, and raised again."""
        registers = self.env.registers
        wide = [self.layout.region(Mode.G_BINARY, 5, 3) for _ in range(2)]
        for region, config in enumerate(wide):
            await self.commit(region, config)
        await registers.write("CAP_WINDOW", 8)
        await registers.write("CAP_THRESHOLD", 2)
        for _ in range(2):
            for config in wide:
                lines = self.rng.sample(range(config.lines), 2 * self.cfg.hw.slots + 8)
                for line in lines:
                    await self.contribute(config, self.rng.randrange(3), line)
                await self.drain()
                await registers.read("FALLBACK")
            for mask in (1, 2):
                await registers.write("FALLBACK", mask)
                await registers.read("FALLBACK")
            for region in range(2):
                await self.commit(region)

    async def limits(self) -> None:
        """Every class of the capacity limits and of the thresholds of DevLoad, with traffic."""
        registers, rng = self.env.registers, self.rng
        config = self.layout.region(Mode.G_TERNARY, 3, 5)
        await self.commit(2, config)
        windows = (0, 1, 2, rng.randint(8, 255), 256, rng.randint(257, 511))
        pairs = []
        for window in windows:
            length = min(window, 256)
            edges = (0, 1, length // 2, length - 1, length, length + 1, 511)
            pairs += [(window, misses) for misses in edges if misses >= 0]
        rng.shuffle(pairs)
        for window, misses in pairs:
            await registers.write("CAP_THRESHOLD", misses)
            await registers.write("CAP_WINDOW", window)
            await registers.write("CAP_THRESHOLD", misses)
            await self.some(config)
        # Few requests: those of 128 and 129 are far above, unless the upper bits do not count.
        levels = (0, 1, rng.randint(2, 127), 128, 129, rng.randint(130, 255))
        for name, level in itertools.product(("OPTIMAL", "MODERATE", "SEVERE"), levels):
            await registers.write(f"DEVLOAD_THRESHOLD.{name}", level)
            await self.some(config)
        await self.drain()
        await registers.write("FALLBACK", 7)

    async def loads(self) -> None:
        """The load of a busy device goes from every level to every other one."""
        config = self.layout.region(Mode.G_BINARY, 3, 5)
        await self.commit(2, config)
        writer = cocotb.start_soon(self.thresholds())
        while not writer.done():
            await self.read_region(config, self.rng.randrange(8), 0)
        await self.drain()

    async def thresholds(self) -> None:
        """One level at a time is reported, or none."""
        names = ("OPTIMAL", "MODERATE", "SEVERE")
        register = REG_MAP.expand()["DEVLOAD_THRESHOLD"]
        steps = "LOLMLSOMOSMSL"  # each level after each other one
        for step in steps * 2:
            values = {name: int(name.startswith(step)) for name in names}
            await self.env.registers.write("DEVLOAD_THRESHOLD", register.pack(**values))
            await self.env.clocks(30)
        await self.env.registers.write("DEVLOAD_THRESHOLD", 0)

    async def interrupts(self, enabled: bool) -> None:
        """DONE, FALLBACK, a refused access, a memory error and poison, masked and enabled."""
        registers, memory, model = self.env.registers, self.env.cfg.mem, self.env.scoreboard.model
        fields = REG_MAP.expand()["IRQ_STATUS"].fields
        await registers.write("IRQ_STATUS", sum(field.mask for field in fields))
        await registers.write("IRQ_ENABLE", enabled * sum(field.mask for field in fields))
        config = self.layout.region(Mode.G_BINARY, 0, 2)
        await self.commit(0, config)
        await self.complete(config)
        await self.read(self.cfg.hw.mem_lines * LINE_BYTES)
        await self.write(5 * LINE_BYTES, ZEROS, poison=True)
        for lines in (memory.read_error_lines, model.read_errors):
            lines.add(6)
        await self.read(6 * LINE_BYTES)
        await self.drain()
        for lines in (memory.read_error_lines, model.read_errors):
            lines.clear()
        await registers.read("IRQ_STATUS")
        await registers.write("IRQ_STATUS", sum(field.mask for field in fields))
        await registers.read("IRQ_STATUS")

    async def apart(self) -> None:
        """A worker's lines of two regions come in consecutive clocks, and count apart. CLOSE of a
        region that is done, and of one that is closed, is no event."""
        registers = self.env.registers
        pair = [self.layout.region(Mode.G_BINARY, 1, 16) for _ in range(2)]
        for region, config in enumerate(pair):
            await self.commit(region, config)
        for line, worker in itertools.product(range(2), range(16)):
            for config in pair:
                await self.contribute(config, worker, line)
        await self.drain()
        for config, selector in itertools.product(pair, VIEW_SELECTORS):
            await self.read_region(config, 0, selector)
        await self.drain()
        for _ in range(2):
            await registers.write("IRQ_STATUS", REG_MAP.expand()["IRQ_STATUS"].pack(DONE=1))
            await self.close(0)
            await registers.read("IRQ_STATUS")

    async def some(self, config: RegionConfig) -> None:
        """A few contributions and reads."""
        for _ in range(3):
            await self.contribute(config, self.rng.randrange(5), self.rng.randrange(8), limit=2)
            await self.read_region(config, self.rng.randrange(8), 0, limit=2)

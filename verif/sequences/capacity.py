# SPDX-License-Identifier: Apache-2.0
"""The capacity check: misses of each kind of contribution, and every answer under FALLBACK."""

from dataclasses import replace

from cocotbext.cxl.wire.messages import RwdOp
from models.commit_check import CommitCode
from models.line_packing import LINE_BYTES
from models.modes import Mode
from models.regions import VIEW_SELECTORS, RegionConfig
from models.register_map import REG_MAP
from verif.sequences.base import NfSequence

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

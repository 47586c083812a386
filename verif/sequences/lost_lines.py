# SPDX-License-Identifier: Apache-2.0
"""Lines that a memory error took, and to which every worker contributes all the same."""

from __future__ import annotations

from models.line_packing import Mode
from verif.sequences.memory_faults import RecordSequence


class LostLineSequence(RecordSequence):
    """Some records cannot be read; then all workers come, with evictions between them.

    The lines stay poisoned and are never counted complete; those beside them are.
    """

    workers: int = 3

    async def body(self) -> None:
        rng = self.rng
        config = self.make()
        await self.commit(self.region, config)
        await self.initialised()
        lines = rng.sample(range(config.lines), self.cfg.hw.slots + 4)
        await self.each(config, lines, 0)
        lost = lines[: len(lines) // 2]
        errors = self.env.cfg.mem.read_error_lines
        for line in lost:
            errors.add(self.record(config, line)[0])
        await self.each(config, lines, None)
        errors.clear()
        for worker in (1, 0, 2):
            await self.each(config, lines, worker)
        await self.each(config, lines, None)
        await self.env.registers.read(f"REGION[{self.region}].COMPLETE_LINES")


class BlameSequence(RecordSequence):
    """Write-backs of two regions are queued, those of one are refused: the other one is trusted."""

    bursts: int = 6
    untouched: int = 4
    """Lines of the one region in no slot when they are read at the end: lost for certain."""

    async def body(self) -> None:
        rng = self.rng
        guilty = rng.randrange(1, self.cfg.hw.regions)  # not the one that a wrong index gives
        other = rng.choice([one for one in range(self.cfg.hw.regions) if one != guilty])
        bad = self.layout.region(Mode.G_BINARY, 4, 6)
        good = self.layout.region(Mode.G_TERNARY, 4, 6)
        await self.commit(guilty, bad)
        await self.commit(other, good)
        await self.initialised()
        self.env.cfg.mem.latency = (20, 60)
        errors = self.env.cfg.mem.write_error_lines
        errors.update(self.record(bad, line)[0] for line in range(bad.lines))
        for worker in range(self.bursts):
            work = [(good, line) for line in range(good.lines)]
            work += [(bad, line) for line in range(self.untouched, bad.lines)]
            rng.shuffle(work)
            for config, line in work[: 6 * self.cfg.hw.slots]:
                await self.contribute(config, worker, line, limit=1)
            await self.drain()
        errors.clear()
        for line in range(good.lines):
            for selector in (0, 8):
                await self.read_region(good, line, selector, limit=1)
        for line in range(bad.lines):  # what was not written back must not come back as it was
            await self.read_region(bad, line, self.rng.choice((0, 8)), limit=1)
        await self.drain()

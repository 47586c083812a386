# SPDX-License-Identifier: Apache-2.0
"""Lines that a memory error took, and to which every worker contributes all the same."""

from __future__ import annotations

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

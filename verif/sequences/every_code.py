# SPDX-License-Identifier: Apache-2.0
"""Integer codes gone through: each mode and sign, each class of W, each view of a line."""

from __future__ import annotations

import itertools

from models.regions import RegionConfig
from verif.sequences.int_codes import INTS, SHAPES, IntSequence


class EveryIntSequence(IntSequence):
    """Every view of a line that all workers have contributed to, with codes of every shape among
    them; and of lines that nobody or some have, clean and poisoned. Needs all count planes."""

    async def body(self) -> None:
        rng = self.rng
        for mode, signed in itertools.product(INTS, (False, True)):
            classes = (1, rng.randint(2, 14), 15, 16, 17, rng.randint(18, 62), 63, 64)
            for workers in rng.sample(classes, len(classes)):
                config = self.layout.region(mode, 2, workers, signed=signed)
                await self.commit(0, config)
                await self.complete(config, 0)
                if workers == 16:  # it has every view
                    await self.incomplete(config)

    async def complete(self, config: RegionConfig, line: int) -> None:
        """A line with all of its workers."""
        for number, worker in enumerate(self.rng.sample(range(config.workers), config.workers)):
            data = self.codes(config, SHAPES[number % len(SHAPES)])
            await self.contribute(config, worker, line, data)
        await self.drain()
        await self.read_views(config, line)

    async def incomplete(self, config: RegionConfig) -> None:
        """Lines 1 and 2: of nobody, then of one worker; line 2 is poisoned from the start."""
        await self.contribute(config, 0, 2, poison=True)
        await self.drain()
        for _ in range(2):
            for line in (1, 2):
                await self.read_views(config, line)
                await self.contribute(config, 1, line, self.codes(config, "random"))
            await self.drain()

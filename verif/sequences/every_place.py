# SPDX-License-Identifier: Apache-2.0
"""Every place of two tables that a draw fills here and there: marks of evicted lines, tallies of
workers. A table that is too short, or whose rows share a place, answers for the wrong line."""

from __future__ import annotations

from models.line_packing import Mode
from models.regions import INFO_SELECTOR, RegionConfig
from verif.sequences.base import NfSequence


class EveryTallySequence(NfSequence):
    """Each worker of each region contributes, of a region more or less than of the next; half of
    the regions begin again, and every tally is compared at the end of the test."""

    async def body(self) -> None:
        rng, regions = self.rng, self.cfg.hw.regions
        work = []
        for region in rng.sample(range(regions), regions):
            config = self.layout.region(Mode.G_BINARY, 0, 64)
            await self.commit(region, config)
            work += [(config, worker) for worker in range(config.workers)]
        again = rng.sample(range(regions), regions // 2)
        for _ in range(2):
            for config, worker in rng.sample(work, len(work)):
                await self.contribute(config, worker, 0)
            await self.drain()
            for region in again:
                await self.commit(region)
            work = rng.sample(work, len(work) // 2)


class EveryMarkSequence(NfSequence):
    """A line of each row of marks, in each region, is evicted and fetched again: nobody's
    contribution is lost by a commit of another region, and none of an older epoch comes back."""

    rows: int = 128
    lines: int = 32
    """Lines of a row, in a region of as many lines as marks."""

    async def body(self) -> None:
        rng, regions = self.rng, self.cfg.hw.regions
        configs: list[RegionConfig] = []
        for region in range(regions):
            config = self.layout.region(Mode.G_BINARY, (self.rows * self.lines).bit_length() - 1, 3)
            await self.commit(region, config)
            configs.append(config)
        work = [
            (config, row * self.lines + rng.randrange(self.lines))
            for config in configs
            for row in range(self.rows)
        ]
        await self.initialised()
        await self.each(work, 0)
        for region in rng.sample(range(regions), regions // 2):
            await self.commit(region)
        await self.each(work, 1)
        for config, line in rng.sample(work, len(work)):
            await self.read_region(config, line, INFO_SELECTOR)
        await self.drain()
        for region in range(regions):
            await self.commit(region, self.layout.region(Mode.G_BINARY, 0, 1))

    async def each(self, work: list[tuple[RegionConfig, int]], worker: int) -> None:
        """A worker's contribution to each of these lines, in any order."""
        for config, line in self.rng.sample(work, len(work)):
            await self.contribute(config, worker, line)
        await self.drain()

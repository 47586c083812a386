# SPDX-License-Identifier: Apache-2.0
"""Random traffic until the link has carried a given number of flits, damaged or not."""

from __future__ import annotations

from models.regions import RegionConfig
from verif.sequences.base import RACE_LIMIT
from verif.sequences.line_data import byte_enables, random_line
from verif.sequences.mixed import MixedRegionsSequence


class LinkTrafficSequence(MixedRegionsSequence):
    """Regions and ordinary memory in bursts, until ``flits`` went each way.

    Contributions reveal repeated messages (DUPLICATE counts), reads lost or changed ones.
    """

    flits: int = 1000
    lines: int = 256
    plain: float = 0.5

    async def traffic(self, configs: list[RegionConfig]) -> None:
        rng, tracker = self.rng, self.env.cxl.monitor.tracker
        tracker.counters["RX_FLIT"] = tracker.counters["TX_FLIT"] = 0
        while min(self.passed()) < self.flits:
            for _ in range(rng.choice((1, 3, 40))):
                await self.one(configs)
            if rng.random() < 0.3:
                await self.drain()
                await self.env.clocks(rng.choice((1, 20, 80)))

    def passed(self) -> tuple[int, int]:
        """Flits on the pins, M2S and S2M."""
        counters = self.env.cxl.monitor.tracker.counters
        return counters["RX_FLIT"], counters["TX_FLIT"]

    async def one(self, configs: list[RegionConfig]) -> None:
        """A request to a random place."""
        rng = self.rng
        if rng.random() < self.plain:
            addr = rng.randrange(self.lines) << 6
            if rng.random() < 0.5:
                be = byte_enables(rng) if rng.random() < 0.3 else None
                await self.write(addr, random_line(rng), RACE_LIMIT, be=be)
            else:
                await self.read(addr, RACE_LIMIT)
            return
        config = rng.choice(configs)
        line = rng.randrange(config.lines)
        if rng.random() < 0.4:
            await self.read_region(config, line, limit=RACE_LIMIT)
        else:
            await self.random_write(config, line)

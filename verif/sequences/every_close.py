# SPDX-License-Identifier: Apache-2.0
"""Rounds that are closed, gone through: each late write and each read, on lines in each state."""

from __future__ import annotations

import itertools

from models.line_packing import Mode
from models.regions import INFO_SELECTOR, PLANE_SELECTOR, RAW_SELECTOR, RegionConfig, sum_selectors
from verif.sequences.parked_programs import ParkedBase
from verif.sequences.round_views import aggregating

UNTOUCHED, SOME, COMPLETE = range(3)
"""Lines, by the workers that they have when the round is closed."""


class EveryCloseSequence(ParkedBase):
    """Every mode, STRICT and not: what comes behind CLOSE changes nothing, so that a line serves
    for all of it. It comes to lines on chip, and to lines that have left. The region that is closed
    is the last of the device, while the first one is open."""

    async def body(self) -> None:
        await self.prepare(region=0)
        last = self.cfg.hw.regions - 1
        for mode, strict in itertools.product(aggregating(self.cfg.hw), (False, True)):
            config = self.layout.region(mode, 2, 2, strict=strict)
            await self.commit(last, config)
            for worker, line in ((0, SOME), (0, COMPLETE), (1, COMPLETE)):
                await self.contribute(config, worker, line)
            await self.drain()
            await self.close(last)
            await self.reads(config)
            for poison, gone in itertools.product((False, True), repeat=2):
                for worker, line in ((1, UNTOUCHED), (1, SOME), (0, SOME), (0, COMPLETE)):
                    if gone:
                        await self.leave()
                    await self.contribute(config, worker, line, poison=poison)
                    await self.drain()
            await self.reads(config)

    async def reads(self, config: RegionConfig) -> None:
        """Every line: its result, a part of it, and INFO."""
        fp32 = config.mode is Mode.FP32
        result = sum_selectors(config)[0] if config.mode.bits else 0
        for line in (UNTOUCHED, SOME, COMPLETE):
            for selector in (result, RAW_SELECTOR if fp32 else PLANE_SELECTOR, INFO_SELECTOR):
                await self.read_region(config, line, selector)
            await self.drain()

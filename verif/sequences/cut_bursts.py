# SPDX-License-Identifier: Apache-2.0
"""Operations in every stage of the engine, clock by clock, when a reset comes."""

from __future__ import annotations

from models.line_packing import Mode
from models.regions import RegionConfig
from verif.sequences.parked_programs import APART, ParkedBase

_BURST = 48
"""Operations of a burst: it lasts longer than the first answer needs to the host, and 8 clocks."""


class BurstSequence(ParkedBase):
    """`kind`: the operations that wait for one line, and leave when it comes."""

    kind: str = "vote"
    config: RegionConfig

    async def body(self) -> None:
        await self.prepare()
        mode = self.rng.choice((Mode.G_BINARY, Mode.G_TERNARY))
        self.config = self.layout.region(mode, 1, _BURST + 1)
        await self.commit(0, self.config)
        await self.initialised()
        await self.burst()
        await self.drain()

    async def burst(self) -> None:
        """Returns in the middle of it."""
        line = self.rng.randrange(self.config.lines)
        await self.away(self.config, line)
        self.env.cfg.mem.r_stall = 1.0
        sent = []
        for number in range(_BURST):
            message = self.message(self.config, self.kind, line, number)
            sent.append(await self.issue(message))
            await self.env.clocks(4)
        await self.env.clocks(APART)
        self.env.cfg.mem.r_stall = 0.0
        for _ in range(10 * APART):
            if any(one.response for one in sent):
                break
            await self.env.clocks(1)
        await self.env.clocks(self.rng.randrange(1, 9))
        left = sum(one.response is None for one in sent)
        assert _BURST // 2 < left < _BURST, "no stage holds an operation of the burst"

# SPDX-License-Identifier: Apache-2.0
"""Ordinary memory: full and partial writes, reads, poison, over a small set of lines."""

from __future__ import annotations

from cocotbext.cxl.wire.messages import M2SReq, ReqOp
from models.line_packing import Mode
from verif.sequences.base import RACE_LIMIT, NfSequence
from verif.sequences.line_data import byte_enables, random_line


class PlainMemorySequence(NfSequence):
    """`transactions` requests over `lines` lines spread over the memory and its edges."""

    transactions: int = 250
    lines: int = 24
    writes: float = 0.5
    partial: float = 0.35
    poison: float = 0.05
    others: float = 0.08
    race: int = RACE_LIMIT

    async def body(self) -> None:
        rng = self.rng
        top = self.layout.params.mem_lines - 1
        pool = [0, 1, top] + [rng.randrange(self.layout.plain_lines) for _ in range(self.lines)]
        for _ in range(self.cfg.count(self.transactions)):
            addr = rng.choice(pool) << 6
            kind = rng.random()
            if kind < self.others:
                opcode = rng.choice((ReqOp.MEM_INV, ReqOp.MEM_INV_NT, ReqOp.MEM_SPEC_RD))
                await self.issue(M2SReq(opcode, 0, addr, ldid=rng.randrange(16)), self.race)
            elif kind < self.others + self.writes:
                be = byte_enables(rng) if rng.random() < self.partial else None
                poison = rng.random() < self.poison
                await self.write(addr, random_line(rng), self.race, be=be, poison=poison)
            else:
                await self.read(addr | rng.choice((0, 32)), self.race)


class CompletionsMeetSequence(NfSequence):
    """Writes to memory beside contributions that hit: completions of both come in one clock, and
    that of memory has to wait."""

    transactions: int = 200

    async def body(self) -> None:
        rng = self.rng
        config = self.layout.region(Mode.G_BINARY, 1, 64)
        await self.commit(rng.randrange(self.cfg.hw.regions), config)
        for line in range(config.lines):
            await self.contribute(config, 0, line)
        await self.drain()
        workers = [(worker, line) for worker in range(1, 64) for line in range(config.lines)]
        rng.shuffle(workers)
        for number in range(self.cfg.count(self.transactions)):
            if rng.random() < 0.5:
                await self.contribute(config, *workers[number % len(workers)])
            else:
                await self.write(rng.randrange(64) << 6, random_line(rng), 2)
        await self.drain()

# SPDX-License-Identifier: Apache-2.0
"""Ordinary memory: full and partial writes, reads, poison, over a small set of lines."""

from __future__ import annotations

from cocotbext.cxl.wire.messages import M2SReq, ReqOp
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

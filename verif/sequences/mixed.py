# SPDX-License-Identifier: Apache-2.0
"""All modes at once, with ordinary memory between them; and workers interleaved at random."""

from __future__ import annotations

from cocotbext.cxl.wire.messages import M2SReq, ReqOp
from models.line_packing import Mode
from models.regions import RegionConfig
from verif.sequences.base import RACE_LIMIT, NfSequence
from verif.sequences.line_data import byte_enables, line_for, random_line


class MixedRegionsSequence(NfSequence):
    """Regions of every mode, random requests to any of them and to ordinary memory."""

    transactions: int = 400
    reads: float = 0.3
    race: int = 3  # few lines take many partial writes: their orders must stay countable

    def make_regions(self) -> list[RegionConfig]:
        """One region a mode at least; as many as the device has."""
        rng = self.rng
        modes = [Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32, Mode.IDENTITY]
        count = self.cfg.hw.regions
        chosen = rng.sample(modes, count) if count < 4 else modes * (count // 4)
        return [
            self.layout.region(
                mode,
                rng.randrange(4),
                rng.choice((1, 2, 5, 8, 16, 33, 64)),
                strict=rng.random() < 0.5,
                tie_minus=rng.random() < 0.5,
                threshold=rng.choice((1, 1, 2, 3, 7)),
            )
            for mode in chosen
        ]

    async def body(self) -> None:
        configs = self.make_regions()
        for region, config in enumerate(configs):
            await self.commit(region, config)
        await self.traffic(configs)

    async def traffic(self, configs: list[RegionConfig]) -> None:
        """`transactions` requests, each to a random place."""
        rng = self.rng
        for _ in range(self.cfg.count(self.transactions)):
            kind = rng.random()
            if kind < 0.1:
                addr = rng.randrange(16) << 6
                if rng.random() < 0.5:
                    await self.write(addr, random_line(rng), self.race)
                else:
                    await self.read(addr, self.race)
                continue
            config = rng.choice(configs)
            line = rng.randrange(config.lines)
            if rng.random() < self.reads:
                await self.read_region(config, line, limit=self.race)
            else:
                await self.random_write(config, line)

    async def random_write(self, config: RegionConfig, line: int) -> None:
        """A legal write of any kind: partial where it is honoured."""
        rng = self.rng
        if config.mode is Mode.IDENTITY:
            selector = rng.randrange(4)
        else:
            selector = rng.randrange(config.workers)
        be = byte_enables(rng) if not config.mode.low_bit and rng.random() < 0.2 else None
        data = line_for(config.mode, rng)
        await self.contribute(config, selector, line, data, self.race, be=be)


class InterleaveSequence(MixedRegionsSequence):
    """Workers arrive in any order, in bursts of their own, on regions that share the slots."""

    workers: int = 8
    lines_log2: int = 3
    reads: float = 0.1

    async def body(self) -> None:
        modes = [Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32][: self.cfg.hw.regions]
        configs = [self.layout.region(m, self.lines_log2, self.workers) for m in modes]
        for region, config in enumerate(configs):
            await self.commit(region, config)
        rng = self.rng
        # One queue of lines for each worker and region; a random worker sends a random burst.
        queues = {
            (number, worker): list(range(config.lines))
            for number, config in enumerate(configs)
            for worker in range(config.workers)
        }
        for lines in queues.values():
            if rng.random() < 0.5:
                rng.shuffle(lines)
        while queues:
            number, worker = rng.choice(list(queues))
            lines = queues[number, worker]
            for _ in range(min(len(lines), rng.randint(1, 4))):
                line = lines.pop(0)
                await self.contribute(configs[number], worker, line, limit=self.race)
                if rng.random() < self.reads:
                    await self.read_region(configs[number], line, limit=self.race)
            if not lines:
                del queues[number, worker]
        await self.drain()
        for config in configs:
            for line in range(config.lines):
                await self.read_region(config, line, 0)


# Ordinary memory: full and partial writes, reads, poison, over a small set of lines.


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

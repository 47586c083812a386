# SPDX-License-Identifier: Apache-2.0
"""Mixed traffic: regions of four modes, interleaved workers, and ordinary memory."""

from itertools import product

from cocotbext.cxl.wire.messages import M2SReq, ReqOp
from models.line_packing import LINE_BYTES
from models.modes import Mode
from models.regions import RegionConfig
from verif.sequences.base import RACE_LIMIT, NfSequence
from verif.sequences.line_data import byte_enables, line_for, random_line


class MixedRegionsSequence(NfSequence):
    """Random requests to regions of four modes (all but integer codes) and to ordinary memory."""

    transactions: int = 400
    reads: float = 0.3
    race: int = 3
    """Maximum number of requests in flight on a line. Few lines take many partial writes, so the
    scoreboard could not try all orders of more."""

    def make_regions(self) -> list[RegionConfig]:
        """Return a descriptor for each region of the device, with all four modes if possible."""
        modes = [Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32, Mode.IDENTITY]
        count = self.hw.regions
        chosen = self.sample(modes, count) if count < 4 else modes * (count // 4)
        return [
            self.layout.region(
                mode,
                self.randrange(4),
                self.choice((1, 2, 5, 8, 16, 33, 64)),
                strict=self.random() < 0.5,
                tie_minus=self.random() < 0.5,
                threshold=self.choice((1, 1, 2, 3, 7)),
            )
            for mode in chosen
        ]

    async def body(self) -> None:
        configs = self.make_regions()
        await self.commit_all(*configs)
        await self.traffic(configs)

    async def traffic(self, configs: list[RegionConfig]) -> None:
        """Send `transactions` (times NF_SCALE) requests to random regions and memory lines."""
        for _ in range(self.cfg.count(self.transactions)):
            if self.random() < 0.1:
                await self.either(self.randrange(16) * LINE_BYTES, self.race)
                continue
            config = self.choice(configs)
            line = self.randrange(config.lines)
            if self.random() < self.reads:
                await self.read_region(config, line, limit=self.race)
            else:
                await self.random_write(config, line)

    async def random_write(self, config: RegionConfig, line: int) -> None:
        """Issue a write to a line by a random worker; 20 % of FP32 and IDENTITY are partial."""
        selector = self.randrange(4 if config.mode is Mode.IDENTITY else config.workers)
        be = byte_enables(self.rng) if not config.mode.low_bit and self.random() < 0.2 else None
        data = line_for(config.mode, self.rng)
        await self.contribute(config, selector, line, data, self.race, be=be)


class InterleaveSequence(MixedRegionsSequence):
    """Contributions of 8 workers in random order, in bursts, on regions that share the slots."""

    async def body(self) -> None:
        modes = [Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32][: self.hw.regions]
        configs = await self.start_regions(*((mode, 3, 8) for mode in modes))
        # One queue of lines for each worker and region; a random worker sends a random burst.
        queues = {
            (number, worker): list(range(configs[number].lines))
            for number, worker in product(range(len(configs)), range(8))
        }
        for lines in queues.values():
            if self.random() < 0.5:
                self.rng.shuffle(lines)
        while queues:
            number, worker = self.choice(list(queues))
            lines = queues[number, worker]
            for _ in range(min(len(lines), self.randint(1, 4))):
                line = lines.pop(0)
                await self.contribute(configs[number], worker, line, limit=self.race)
                if self.random() < 0.1:
                    await self.read_region(configs[number], line, limit=self.race)
            if not lines:
                del queues[number, worker]
        await self.drain()
        for config in configs:
            await self.read_lines(config, wait=False)


class PlainMemorySequence(NfSequence):
    """Requests to ordinary memory: full, partial and poisoned writes, reads, MemInv and MemSpecRd.

    The options `writes`, `partial`, `poison` and `others` are probabilities. The `lines` addresses
    in use include the first and the last line of the memory.
    """

    transactions: int = 250
    lines: int = 24
    writes: float = 0.5
    partial: float = 0.35
    poison: float = 0.05
    others: float = 0.08
    race: int = RACE_LIMIT

    async def body(self) -> None:
        top = self.layout.params.mem_lines - 1
        pool = [0, 1, top] + [self.randrange(self.layout.plain_lines) for _ in range(self.lines)]
        for _ in range(self.cfg.count(self.transactions)):
            addr = self.choice(pool) * LINE_BYTES
            kind = self.random()
            if kind < self.others:
                opcode = self.choice((ReqOp.MEM_INV, ReqOp.MEM_INV_NT, ReqOp.MEM_SPEC_RD))
                await self.issue(M2SReq(opcode, 0, addr, ldid=self.randrange(16)), self.race)
            elif kind < self.others + self.writes:
                be = byte_enables(self.rng) if self.random() < self.partial else None
                poison = self.random() < self.poison
                await self.write(addr, random_line(self.rng), self.race, be=be, poison=poison)
            else:
                await self.read(addr | self.choice((0, 32)), self.race)


class CompletionsMeetSequence(NfSequence):
    """Completions of memory writes and of contributions to lines in slots, in the same cycle.

    The completion of the memory write has to wait.
    """

    async def body(self) -> None:
        config = await self.start_region(None, Mode.G_BINARY, 1, 64)
        await self.fill_lines(config, None, 0)
        workers = list(product(range(1, 64), range(config.lines)))
        self.rng.shuffle(workers)
        for number in range(self.cfg.count(200)):
            if self.random() < 0.5:
                await self.contribute(config, *workers[number % len(workers)])
            else:
                await self.write(self.randrange(64) * LINE_BYTES, random_line(self.rng), 2)
        await self.drain()

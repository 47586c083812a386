# SPDX-License-Identifier: Apache-2.0
"""Every place of tables that a draw fills here and there: marks of evicted lines, tallies of
workers, what waits for a slot. A table that is too short, or whose rows share a place, answers for
the wrong line."""

from __future__ import annotations

from models.line_packing import Mode
from models.regions import INFO_SELECTOR, VIEW_SELECTORS, RegionConfig
from verif.sequences.base import NfSequence
from verif.sequences.line_data import byte_enables


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
        small = self.layout.region(Mode.G_BINARY, 8, 3)
        await self.commit(0, small)
        await self.initialised()
        work = [(small, line) for line in range(0, small.lines, 2)]
        await self.each(work, 0)
        await self.unmarked(work)
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
        await self.unmarked(work)
        for region in rng.sample(range(regions), regions // 2):
            await self.commit(region)
        await self.each(work, 1)
        for config, line in rng.sample(work, len(work)):
            await self.read_region(config, line, INFO_SELECTOR)
        await self.drain()
        for region in range(regions):
            await self.commit(region, self.layout.region(Mode.G_BINARY, 0, 1))

    async def unmarked(self, work: list[tuple[RegionConfig, int]]) -> None:
        """Lines beside those that have left, which nobody has used, ask memory for nothing."""
        self.env.cfg.mem.r_stall = 1.0
        used = set(work)
        reads = [
            await self.read_region(config, line ^ 1, 0)
            for config, line in self.rng.sample(work, self.rows // 4)
            if (config, line ^ 1) not in used
        ]
        await self.env.clocks(300)
        at_once = [read.response is not None for read in reads]
        assert at_once, "no line without a mark was read"
        assert all(at_once), "a line without a mark is fetched"
        self.env.cfg.mem.r_stall = 0.0
        await self.drain()

    async def each(self, work: list[tuple[RegionConfig, int]], worker: int) -> None:
        """A worker's contribution to each of these lines, in any order."""
        for config, line in self.rng.sample(work, len(work)):
            await self.contribute(config, worker, line)
        await self.drain()


class EveryMissSequence(NfSequence):
    """FP32 operations of every kind wait for the record of their line in every slot: whole and
    partial stores, sums, lines of a worker. Memory answers to the stores before the records or
    behind them, and in the second epoch it refuses half of the stores."""

    passes: int = 12

    async def body(self) -> None:
        rng, mem, slots = self.rng, self.env.cfg.mem, self.cfg.hw.slots
        config = self.layout.region(Mode.FP32, slots.bit_length(), 4)
        lines = rng.sample(range(config.lines), slots + slots // 4)
        data = range(config.state_line, config.state_line + config.workers * config.lines)
        for refuses in (False, True):
            await self.commit(0, config)
            await self.initialised()
            for line in lines:
                await self.contribute(config, 0, line)
            await self.drain()
            refused = rng.sample(data, len(data) // 2) if refuses else []
            mem.write_error_lines.update(refused)
            self.env.scoreboard.model.write_errors.update(refused)
            for number in range(self.passes):
                mem.r_stall = 0.9 if refuses or number % 2 else 0.0
                for line in rng.sample(lines, len(lines)):
                    await self.one(config, line)
                await self.drain()
        mem.r_stall = 0.0
        mem.write_error_lines.clear()
        self.env.scoreboard.model.write_errors.clear()

    async def one(self, config: RegionConfig, line: int) -> None:
        """An operation of any kind."""
        kind = self.rng.random()
        if kind < 0.6:
            be = byte_enables(self.rng) if kind < 0.15 else None
            await self.contribute(config, self.rng.randrange(config.workers), line, be=be)
        else:
            await self.read_region(config, line, 0 if kind < 0.8 else None)


class EveryParkSequence(NfSequence):
    """As many operations wait for records as the device admits: a host with all its credits sends
    contributions and reads, of a few lines or of many, and memory answers when all have come."""

    rounds: int = 12
    admitted: int = 64
    """Of each kind, by default: as many answers as the device has places for."""

    async def body(self) -> None:
        rng, mem, slots = self.rng, self.env.cfg.mem, self.cfg.hw.slots
        config = self.layout.region(Mode.G_BINARY, slots.bit_length() + 1, 64)
        await self.commit(0, config)
        await self.initialised()
        for number in range(self.rounds):
            for line in range(config.lines // 2 * (number % 2), config.lines // (2 - number % 2)):
                await self.contribute(config, number, line)  # the others leave
            await self.drain()
            away = config.lines // 2 * (1 - number % 2)
            few = rng.sample(range(away, away + config.lines // 2), rng.choice((2, 6, 40)))
            written, read = few[::2], few[1::2]  # what races on a line commutes
            workers = rng.sample(range(config.workers), config.workers)
            mem.r_stall = 1.0
            work = [True, False] * self.admitted
            rng.shuffle(work)
            for write in work:
                if write:
                    await self.contribute(config, workers.pop(), rng.choice(written))
                else:
                    await self.read_region(config, rng.choice(read), INFO_SELECTOR)
            await self.env.clocks(600)
            mem.r_stall = 0.0
            await self.drain()


class EveryFigureSequence(NfSequence):
    """Each figure of STATUS, of every region, counts to 256: complete and poisoned lines, refused
    accesses, and late contributions behind CLOSE. The predictor compares what is read."""

    lines_log2: int = 8

    async def body(self) -> None:
        rng, regions = self.rng, self.cfg.hw.regions
        for region in rng.sample(range(regions), regions):
            config = self.layout.region(Mode.G_BINARY, self.lines_log2, 2, ld_mask=0x00FF)
            await self.commit(region, config)
            for worker in range(2):
                for line in rng.sample(range(config.lines), config.lines):
                    await self.contribute(config, worker, line, poison=not worker)
                await self.drain()
            for line in range(config.lines):
                await self.read(config.address(0, line), ldid=rng.randrange(8, 16))
            await self.figures(region, config)
            await self.commit(region)
            await self.close(region)
            for line in range(config.lines):
                await self.contribute(config, line % 2, line)
            await self.figures(region, config)
            await self.commit(region, self.layout.region(Mode.G_BINARY, 0, 1))

    async def figures(self, region: int, config: RegionConfig) -> None:
        """Reads the figures by both ways."""
        await self.drain()
        for name in ("STATUS", "COMPLETE_LINES"):
            await self.env.registers.read(f"REGION[{region}].{name}")
        for selector in VIEW_SELECTORS:
            await self.read_region(config, 0, selector)
        await self.drain()

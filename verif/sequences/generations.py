# SPDX-License-Identifier: Apache-2.0
"""Records of all earlier epochs stay in memory, and none of them may ever be taken for state.

The sequences need few slots: what they write is evicted within its own epoch.
"""

from __future__ import annotations

from dataclasses import replace

from models.line_packing import Mode
from models.regions import INFO_SELECTOR, RegionConfig
from verif.sequences.base import NfSequence


class OldEpochSequence(NfSequence):
    """Epoch after epoch leaves a record; each one reads lines that older ones have left.

    `ages`: how many commits ago. A comparison of b bits takes a record of 2^b commits ago for its
    own; a generation of b bits begins again after 2^b - 1.
    """

    mode: Mode = Mode.G_BINARY
    commits: int = 40
    ages: tuple[int, ...] = (1, 2, 3, 4, 7, 8, 15, 16, 31, 32)

    async def body(self) -> None:
        rng, slots = self.rng, self.cfg.hw.slots
        spare = slots + 1
        lines_log2 = min((self.commits + spare - 1).bit_length(), self.most_lines())
        config = self.layout.region(self.mode, lines_log2, 3)
        region = rng.randrange(self.cfg.hw.regions)
        fillers = range(config.lines - spare, config.lines)
        other = 8 if self.mode.low_bit else 64
        own = config.lines - spare  # line k % own is written in epoch k alone
        for number in range(self.commits):
            await self.commit(region, config if number == 0 else None)
            written = number % own
            await self.contribute(config, rng.randrange(3), written)
            for line in fillers:  # push it out of its slot, to memory
                await self.contribute(config, rng.randrange(3), line)
            await self.drain()
            for age in self.ages:
                if age < own and age <= number:
                    await self.read_region(config, (number - age) % own, rng.choice((0, other)))
            await self.read_region(config, written, rng.choice((0, other)))
            await self.read_region(config, written, INFO_SELECTOR)
            if rng.random() < 0.5 or self.mode is Mode.FP32:
                await self.drain()  # else the commit comes upon reads and evictions

    def most_lines(self) -> int:
        """log2 of the lines whose records fit into a quarter of the memory."""
        return max(3, self.cfg.hw.mem_lines_log2 - 4)


class CommitOverEvictionSequence(NfSequence):
    """A commit while write-backs are on their way: they are of the epoch before."""

    mode: Mode = Mode.G_BINARY
    commits: int = 12

    async def body(self) -> None:
        rng = self.rng
        config = self.layout.region(self.mode, 4, 3)
        region = rng.randrange(self.cfg.hw.regions)
        self.env.cfg.mem.latency = (40, 120)
        for number in range(self.commits):
            await self.commit(region, config if number == 0 else None)
            lines = rng.sample(range(config.lines), min(config.lines, self.cfg.hw.slots + 4))
            for line in lines:
                await self.read_region(config, line, 0)
            await self.drain()
            for line in lines:
                await self.contribute(config, rng.randrange(3), line)
            await self.drain()


class GivenUpAreaSequence(NfSequence):
    """A region becomes IDENTITY memory while its write-backs are on their way to the same lines."""

    rounds: int = 6

    async def body(self) -> None:
        rng = self.rng
        old = self.layout.region(Mode.G_BINARY, 6, 3)  # 64 records of 4 lines: 256
        spare = self.layout.region(Mode.IDENTITY, 0, 1)
        plain = replace(spare, state_base=old.state_base)
        region = rng.randrange(self.cfg.hw.regions)
        mem = self.env.cfg.mem
        fast = mem.latency
        for _ in range(self.rounds):
            await self.commit(region, old)
            await self.initialised()
            mem.latency = (20, 200)
            lines = rng.sample(range(old.lines), 2 * self.cfg.hw.slots)
            await self.env.registers.write_shadow(region, plain)
            for line in lines:
                await self.contribute(old, rng.randrange(3), line)
            await self.drain()
            await self.commit(region)
            places = [plain.address(4 * line + beat, 0) for line in lines[::-1] for beat in (0, 1)]
            for address in places:
                await self.write(address, rng.randbytes(64))
            await self.drain()
            mem.latency = fast
            await self.env.clocks(200)
            for address in places:
                await self.read(address)
            await self.drain()


class ManyRegionsSequence(NfSequence):
    """Regions with unlike numbers of commits share the slots: each record keeps its own epoch."""

    regions: int = 16
    rounds: int = 3

    async def body(self) -> None:
        rng, hw = self.rng, self.cfg.hw
        modes = [Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32, Mode.G_BINARY, Mode.G_TERNARY]
        count = min(hw.regions, self.regions)
        configs: dict[int, RegionConfig] = {}
        for region in range(count):
            config = self.layout.region(rng.choice(modes), rng.randrange(2), rng.randint(1, 9))
            configs[region] = config
            await self.commit(region, config)
        for _ in range(self.rounds):
            for region in rng.sample(range(count), count // 2):
                # A line of another region is on chip alone when this one drops its lines.
                other = configs[(region + count // 2) % count]
                worker, line = rng.randrange(other.workers), rng.randrange(other.lines)
                await self.contribute(other, worker, line)
                await self.drain()
                for _ in range(rng.randint(1, 3)):
                    await self.commit(region)
            work = [
                (config, worker, line)
                for config in configs.values()
                for worker in range(config.workers)
                for line in range(config.lines)
            ]
            rng.shuffle(work)
            for config, worker, line in work[: self.cfg.count(len(work) * 3 // 4)]:
                await self.contribute(config, worker, line, limit=4)
            # Some regions complete, one lacks a single contribution.
            for region in rng.sample(range(count), count // 4):
                config = configs[region]
                for worker in range(config.workers):
                    for line in range(config.lines):
                        await self.contribute(config, worker, line, limit=4)
            await self.drain()
            await self.env.registers.read_status()
            await self.env.registers.read("IRQ_STATUS")
            # In any order: what is read last is on chip when the next round commits.
            for config in rng.sample(list(configs.values()), count):
                for line in range(config.lines):
                    await self.read_region(config, line, 0)
            await self.drain()


class AlmostDoneSequence(NfSequence):
    """A region lacks one line while lines of another one become complete: DONE is not raised."""

    async def body(self) -> None:
        rng, registers = self.rng, self.env.registers
        almost, other = rng.sample(range(self.cfg.hw.regions), 2)
        modes = [Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32]
        first = self.layout.region(rng.choice(modes), rng.randint(0, 2), rng.randint(1, 4))
        second = self.layout.region(rng.choice(modes), 2, rng.randint(1, 4))
        await self.commit(almost, first)
        await self.commit(other, second)
        await self.complete(first, range(first.lines - 1))
        await self.complete(second, range(second.lines - 1))
        await registers.read("IRQ_STATUS")  # the predictor compares them
        await registers.read("DONE")
        await self.complete(first, range(first.lines - 1, first.lines))
        await registers.read("IRQ_STATUS")
        await registers.read("DONE")

    async def complete(self, config: RegionConfig, lines: range) -> None:
        """Every worker contributes to the lines."""
        for line in lines:
            for worker in range(config.workers):
                await self.contribute(config, worker, line)
        await self.drain()

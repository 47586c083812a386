# SPDX-License-Identifier: Apache-2.0
"""What a region keeps when a CLOSE or a commit comes that must change nothing."""

from __future__ import annotations

from dataclasses import replace

from models.line_packing import Mode
from models.regions import STATUS_SELECTOR, CommitCode, RegionConfig
from verif.sequences.base import NfSequence

ILLEGAL = b"\x55" * 64
PLUS = b"\xaa" * 64


class NoRoundSequence(NfSequence):
    """CLOSE of regions that have no round: of one never committed, and of an IDENTITY region.

    Both go on as if nothing had been written, and the next round of either is open.
    """

    async def body(self) -> None:
        rng, registers = self.rng, self.env.registers
        bare, plain = rng.sample(range(self.cfg.hw.regions), 2)
        memory = self.layout.region(Mode.IDENTITY, rng.randrange(3), rng.randint(1, 64))
        await self.commit(plain, memory)
        for region in rng.sample((bare, plain), 2):
            await self.close(region)
            for leaf in ("STATUS", "COMPLETE_LINES"):
                await registers.read(f"REGION[{region}].{leaf}")
            await registers.read("DONE")
            await registers.read("IRQ_STATUS")
        line = rng.randrange(memory.lines)
        selector = rng.randrange(256)
        await self.write(memory.address(selector, line), rng.randbytes(64), 1)
        await self.read(memory.address(selector, line), 1)
        await self.drain()
        for region in rng.sample((bare, plain), 2):
            votes = self.layout.region(Mode.G_BINARY, rng.randrange(3), rng.randint(1, 3))
            await self.commit(region, votes)
            for worker in range(votes.workers):
                await self.contribute(votes, worker, 0)
            await self.drain()
            await self.read_views(votes, 0)
            await registers.read_status()


class RefusedSequence(NfSequence):
    """Commits that are refused, of a region with every flag set, before and after its CLOSE.

    Its lines are in memory when the first of them comes, and in slots when others do.
    """

    async def body(self) -> None:
        rng, hw = self.rng, self.cfg.hw
        region = rng.randrange(hw.regions)
        workers = min(64, 2 * hw.cnt_max + 2) if hw.cnt_max < 64 else rng.randint(2, 5)
        config = self.layout.region(Mode.G_TERNARY, rng.randint(1, 2), workers)
        beside = (region + 1) % hw.regions
        crowd = self.layout.region(Mode.G_BINARY, (2 * hw.slots).bit_length(), 1)
        await self.commit(beside, crowd)
        await self.commit(region, config)
        whole = rng.randrange(config.lines)
        for worker in range(workers):  # more than a count holds, if there are so many
            data = ILLEGAL if worker == rng.randrange(workers) else PLUS
            await self.contribute(config, worker, whole, data)
        other = (whole + 1) % config.lines
        await self.contribute(config, 0, other, ILLEGAL)
        await self.contribute(config, 0, other, poison=True, limit=1)
        await self.read(config.address(255, 0))  # refused
        await self.crowd_out(crowd)
        for closed in (False, True):
            if closed:
                await self.close(region)
            for code, bad in rng.sample(self.faults(config), 3):
                await self.commit(region, bad, expect=code)
                await self.env.registers.read_status()
                await self.fetch(config.address(STATUS_SELECTOR, 0))
            await self.read_views(config, rng.choice((whole, other)))
            late = ILLEGAL if closed else None  # that is not counted
            await self.contribute(config, rng.randrange(1, workers), other, late)
            await self.drain()
            await self.read_views(config, other)
            await self.env.registers.read_status()
        await self.commit(region, config)
        await self.contribute(config, 0, whole)
        await self.drain()
        await self.read_views(config, whole)
        await self.env.registers.read_status()

    def faults(self, config: RegionConfig) -> list[tuple[CommitCode, RegionConfig]]:
        """Descriptors that are refused, by rules of different kinds."""
        beyond = self.layout.params.mem_lines << 6
        plain = replace(config, mode=Mode.IDENTITY)
        return [
            (CommitCode.WORKERS, replace(config, workers=0)),
            (CommitCode.THRESHOLD, replace(plain, threshold=0)),
            (CommitCode.THRESHOLD, replace(config, threshold=0)),
            (CommitCode.BASE_ALIGN, replace(config, base=config.base + 64)),
            (CommitCode.WINDOW_MEMORY, replace(config, base=0)),
            (CommitCode.STATE_MEMORY, replace(config, state_base=beyond)),
        ]


class InitialisedSequence(NfSequence):
    """A commit is refused while the records of its region are initialised: they are, to the end."""

    async def body(self) -> None:
        rng = self.rng
        region = rng.randrange(self.cfg.hw.regions)
        config = self.layout.region(rng.choice((Mode.G_BINARY, Mode.FP32)), rng.randint(7, 9), 3)
        await self.commit(region, config)
        plain = replace(config, mode=Mode.IDENTITY, threshold=0)
        await self.env.registers.write_shadow(region, plain)
        await self.commit(region, None, CommitCode.THRESHOLD)
        assert await self.env.registers.read("STATUS.INIT_BUSY"), "it ended too early for this"
        await self.initialised()

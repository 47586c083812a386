# SPDX-License-Identifier: Apache-2.0
"""New epochs under traffic, state of older epochs, and refused commits.

Records of all earlier epochs stay in memory, and none of them may ever be taken for state. Most of
these sequences need few slots, so that lines are evicted within their own epoch.
"""

from dataclasses import replace

import cocotb

from models.commit_check import CommitCode
from models.line_packing import LINE_BYTES
from models.modes import Mode
from models.regions import INFO_SELECTOR, STATUS_SELECTOR, RegionConfig
from verif.sequences.base import ANY, NfSequence
from verif.sequences.line_data import AGGREGATING, ILLEGAL, LOW_BIT


class EpochOtherSequence(NfSequence):
    """Commits of one region, twelve times, while another region aggregates undisturbed."""

    async def body(self) -> None:
        self.epoch = 0xFFFF_FFFC  # epoch numbers wrap: 0 follows 2^32 - 1
        steady, moving = await self.start_regions((Mode.G_BINARY, 3, 6), (Mode.G_TERNARY, 1, 3))
        traffic = cocotb.start_soon(self.aggregate(steady))
        for number in range(12):
            await self.contribute(moving, number % 3, number & 1)
            await self.env.host.drain_if(lambda msg: msg.addr >> 12 == moving.base >> 12)
            await self.commit(1)
            await self.read_region(moving, number & 1, 0)
        await traffic

    async def aggregate(self, config: RegionConfig) -> None:
        """Send all contributions to the region, then read all its results."""
        await self.fill_lines(config)
        await self.read_lines(config, wait=False)


class EpochSameSequence(NfSequence):
    """Commits of a region under its own traffic: each request is wholly before or after each."""

    mode: Mode = Mode.G_BINARY
    commits: int = 8

    async def body(self) -> None:
        config = await self.start_region(0, self.mode, 4, 4)
        self.stop = False
        traffic = cocotb.start_soon(self.traffic(config))
        for _ in range(self.commits):
            await self.cycles(self.randint(5, 60))
            await self.commit(0)
        self.stop = True
        await traffic
        await self.drain()
        await self.read_lines(config, wait=False)

    async def traffic(self, config: RegionConfig) -> None:
        """Send random contributions and reads until `stop`, at most two in flight on a line."""
        while not self.stop:
            line = self.randrange(config.lines)
            if self.random() < 0.15:
                await self.read_region(config, line, limit=2)
            else:
                await self.contribute(config, self.randrange(config.workers), line, limit=2)


class CommitOverReadsSequence(NfSequence):
    """A commit that moves the state area while reads of the region wait for slow memory.

    These reads return the sums and votes of the epoch before the commit, completely.
    """

    async def body(self) -> None:
        self.mem.latency = (60, 90)
        for mode in (Mode.FP32, Mode.G_BINARY, Mode.FP32):
            config = self.layout.region(mode, 4, self.randint(3, 6))
            other = self.layout.region(mode, 4, config.workers)
            region = self.any_region()
            await self.commit(region, config)
            lines = self.sample(range(config.lines), 8)
            await self.fill_lines(config, lines)
            await self.read_lines(config, lines, wait=False)
            await self.commit(region, replace(config, state_base=other.state_base))
            await self.read_lines(config, lines[:2])


class CommitOverWritesSequence(NfSequence):
    """A commit that moves the state area while contributions wait for records or for FP32 stores.

    The contributions count in the epoch before the commit. They evict lines of another region, so
    that the commit has no write-back to wait for.
    """

    async def body(self) -> None:
        for mode in (Mode.FP32, Mode.G_BINARY, Mode.G_TERNARY):
            self.mem.latency = (3, 20)
            config = self.layout.region(mode, 4, self.randint(3, 6))
            other = self.layout.region(mode, 4, config.workers)
            crowd = self.layout.region(Mode.G_BINARY, self.slots.bit_length(), 3)
            region, next_to = self.sample(range(self.hw.regions), 2)
            await self.commit_all(config, crowd, regions=(region, next_to))
            lines = self.sample(range(config.lines), 8)
            await self.fill_lines(config, lines, 0)
            await self.fill_lines(crowd, range(self.slots), 0)  # they take all slots
            self.mem.latency = (60, 90)
            for line in lines:
                await self.contribute(config, self.randrange(1, config.workers), line)
            await self.commit(region, replace(config, state_base=other.state_base))
            await self.fill_lines(config, lines[:4], 0)
            await self.read_lines(config, lines, self.read_selectors(config)[-2:])


class StaleStateSequence(NfSequence):
    """Three epochs of a region with more lines in use than slots, with a part of the lines in each.

    State of older epochs, in slots or in memory, must not appear in a new epoch.
    """

    async def body(self) -> None:
        config = self.layout.region(Mode.G_BINARY, max(1, (2 * self.slots - 1).bit_length()), 3)
        picked = self.sample(range(config.lines), min(config.lines, self.slots + self.slots // 4))
        for number in range(3):
            await self.commit(0, config if number == 0 else None)
            for line in picked:
                if self.random() < 0.7:
                    await self.contribute(config, self.randrange(3), line)
            await self.drain()
            await self.read_each((config, line, None) for line in picked[:: 1 + self.randrange(3)])


class StaleNeighbourSequence(NfSequence):
    """Neighbouring lines that share a mark: one evicted in this epoch, the other in the last one.

    A mark says that a record of this epoch exists. The region has more lines than marks, so the
    stale record of the other line is fetched, and must be recognised by its generation.
    """

    async def body(self) -> None:
        config = self.layout.region(self.choice(LOW_BIT), 13, 3)
        region = self.any_region()
        pairs = [2 * first for first in self.sample(range(config.lines // 2), 6)]
        await self.commit(region, config)
        await self.write_back(config, [line + side for line in pairs for side in (0, 1)])
        await self.commit(region)
        fresh = [line + self.randrange(2) for line in pairs]
        await self.write_back(config, fresh)
        # Stale planes that cannot be read must not make a line lost.
        planes = [self.bookkeeping(config, line ^ 1) + 1 for line in fresh[::2]]
        with self.failing(reads=planes):
            for line in fresh:
                await self.read_lines(config, (line ^ 1, line), 8, limit=1, wait=False)
            await self.drain()
        await self.commit(region, replace(config, lines_log2=0))  # ends the initialiser

    async def write_back(self, config: RegionConfig, lines: list[int]) -> None:
        """Contribute to each of the lines, and to enough other lines of it to evict them."""
        pairs = {line // 2 for line in lines}
        others = self.sample(range(config.lines), 2 * self.slots)
        evicting = [line for line in others if line // 2 not in pairs]
        await self.fill_lines(config, [*lines, *evicting], ANY)


class OldEpochSequence(NfSequence):
    """One record written per epoch, and reads of lines whose last record is 1 to 32 epochs old.

    A comparison of b bits of the generation would accept a record of 2^b commits ago; a generation
    counter of b bits starts again after 2^b - 1. `commits` is the number of epochs.
    """

    mode: Mode = Mode.G_BINARY
    commits: int = 40

    async def body(self) -> None:
        spare = self.slots + 1
        most = max(3, self.hw.mem_lines_log2 - 4)  # records in a quarter of the memory
        lines_log2 = min((self.commits + spare - 1).bit_length(), most)
        config = self.layout.region(self.mode, lines_log2, 3)
        region = self.any_region()
        own = config.lines - spare  # line k % own is written in epoch k alone
        selectors = (0, self.part_selector(config))
        for number in range(self.commits):
            await self.commit(region, config if number == 0 else None)
            written = number % own
            await self.contribute(config, self.randrange(3), written)
            await self.fill_lines(config, range(own, config.lines), ANY)  # evict it
            for age in (1, 2, 3, 4, 7, 8, 15, 16, 31, 32):
                if age < own and age <= number:
                    await self.read_region(config, (number - age) % own, self.choice(selectors))
            await self.read_region(config, written, self.choice(selectors))
            await self.read_region(config, written, INFO_SELECTOR)
            if self.random() < 0.5 or self.mode is Mode.FP32:
                await self.drain()  # else the next commit meets reads and evictions


class CommitOverEvictionSequence(NfSequence):
    """Commits while lines of the epoch before are being written back to their records."""

    mode: Mode = Mode.G_BINARY

    async def body(self) -> None:
        config = self.layout.region(self.mode, 4, 3)
        region = self.any_region()
        self.mem.latency = (40, 120)
        for number in range(12):
            await self.commit(region, config if number == 0 else None)
            lines = self.sample(range(config.lines), min(config.lines, self.slots + 4))
            await self.read_lines(config, lines)
            await self.fill_lines(config, lines, ANY)


class GivenUpAreaSequence(NfSequence):
    """Write-backs in flight to memory that a commit turns into an IDENTITY region (plain memory).

    Data that the host writes there afterwards must not be overwritten.
    """

    async def body(self) -> None:
        old = self.layout.region(Mode.G_BINARY, 6, 3)  # 64 records of 4 lines: 256
        plain = replace(self.layout.region(Mode.IDENTITY, 0, 1), state_base=old.state_base)
        region = self.any_region()
        for _ in range(6):
            await self.commit(region, old, ready=True)
            with self.memory(latency=(20, 200)):
                lines = self.sample(range(old.lines), 2 * self.slots)
                await self.registers.write_shadow(region, plain)
                await self.fill_lines(old, lines, ANY)
                await self.commit(region)
                beats = [4 * line + beat for line in lines[::-1] for beat in (0, 1)]
                places = [plain.address(beat, 0) for beat in beats]
                for address in places:
                    await self.write(address, self.randbytes(LINE_BYTES))
                await self.drain()
            await self.cycles(200)
            await self.read_addresses(places)


class ManyRegionsSequence(NfSequence):
    """Up to 16 regions with different numbers of commits that share the slots.

    Each record must keep the epoch of its region. Some regions become complete (DONE).
    """

    async def body(self) -> None:
        modes = [Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32, Mode.G_BINARY, Mode.G_TERNARY]
        count = min(self.hw.regions, 16)
        drawn = ((self.choice(modes), self.randrange(2), self.randint(1, 9)) for _ in range(count))
        configs = await self.start_regions(*drawn)
        for _ in range(3):
            for region in self.sample(range(count), count // 2):
                # Only a line of another region is on chip when this one drops its lines.
                other = configs[(region + count // 2) % count]
                worker, line = self.randrange(other.workers), self.randrange(other.lines)
                await self.fill_lines(other, line, worker)
                for _ in range(self.randint(1, 3)):
                    await self.commit(region)
            work = self.every_contribution(configs)
            self.rng.shuffle(work)
            for config, worker, line in work[: self.cfg.count(len(work) * 3 // 4)]:
                await self.contribute(config, worker, line, limit=4)
            # Some regions become complete, one lacks a single contribution.
            for region in self.sample(range(count), count // 4):
                await self.fill_lines(configs[region], limit=4, wait=False)
            await self.drain()
            await self.registers.read_status()
            await self.read_registers("IRQ_STATUS")
            # In random order: the last lines read are on chip when the next round commits.
            for config in self.sample(configs, count):
                await self.read_lines(config, wait=False)
            await self.drain()


class AlmostDoneSequence(NfSequence):
    """A region that lacks one line while lines of another region become complete: no DONE before.

    DONE and its interrupt are read before and after the last line becomes complete.
    """

    async def body(self) -> None:
        regions = self.sample(range(self.hw.regions), 2)
        first = self.layout.region(self.choice(AGGREGATING), self.randint(0, 2), self.randint(1, 4))
        second = self.layout.region(self.choice(AGGREGATING), 2, self.randint(1, 4))
        await self.commit_all(first, second, regions=regions)
        for config, lines in (
            (first, range(first.lines - 1)),
            (second, range(second.lines - 1)),
            (first, range(first.lines - 1, first.lines)),
        ):
            await self.fill_lines(config, lines)
            if config is second or lines.start:
                await self.read_registers("IRQ_STATUS", "DONE")


PLUS = b"\xaa" * LINE_BYTES


class NoRoundSequence(NfSequence):
    """Writes of CTRL.CLOSE of regions without an epoch to close: one uncommitted, one IDENTITY.

    They have no effect, and the next epoch of both regions is open.
    """

    async def body(self) -> None:
        bare, plain = self.sample(range(self.hw.regions), 2)
        log2, workers = self.randrange(3), self.randint(1, 64)
        memory = await self.start_region(plain, Mode.IDENTITY, log2, workers)
        for region in self.sample((bare, plain), 2):
            await self.close(region)
            await self.read_registers("STATUS", "COMPLETE_LINES", region=region)
            await self.read_registers("DONE", "IRQ_STATUS")
        address = memory.address(self.randrange(256), self.randrange(memory.lines))
        await self.write(address, self.randbytes(LINE_BYTES), 1)
        await self.read_addresses([address], 1)
        for region in self.sample((bare, plain), 2):
            log2, workers = self.randrange(3), self.randint(1, 3)
            votes = await self.start_region(region, Mode.G_BINARY, log2, workers)
            await self.fill_lines(votes, 0)
            await self.read_views(votes, 0)
            await self.registers.read_status()


class RefusedSequence(NfSequence):
    """Refused commits of a region that has every flag set, before and after its CLOSE.

    They change nothing: STATUS and all views are compared. The region's lines are in memory at the
    first refused commit, and in slots at later ones.
    """

    async def body(self) -> None:
        region = self.any_region()
        workers = min(64, 2 * self.hw.cnt_max + 2) if self.hw.cnt_max < 64 else self.randint(2, 5)
        config = self.layout.region(Mode.G_TERNARY, self.randint(1, 2), workers)
        crowd = self.layout.region(Mode.G_BINARY, (2 * self.slots).bit_length(), 1)
        await self.commit((region + 1) % self.hw.regions, crowd)
        await self.commit(region, config)
        whole = self.randrange(config.lines)
        for worker in range(workers):  # more than a count holds, if there are so many
            data = ILLEGAL if worker == self.randrange(workers) else PLUS
            await self.contribute(config, worker, whole, data)
        other = (whole + 1) % config.lines
        await self.contribute(config, 0, other, ILLEGAL)
        await self.contribute(config, 0, other, poison=True, limit=1)
        await self.read(config.address(255, 0))  # refused
        await self.crowd_out(crowd)
        for closed in (False, True):
            if closed:
                await self.close(region)
            for code, bad in self.sample(self.faults(config), 3):
                await self.commit(region, bad, expect=code)
                await self.registers.read_status()
                await self.fetch(config.address(STATUS_SELECTOR, 0))
            await self.read_views(config, self.choice((whole, other)))
            late = ILLEGAL if closed else None  # a late illegal line is not counted
            await self.fill_lines(config, other, self.randrange(1, workers), late)
            await self.read_views(config, other)
            await self.registers.read_status()
        await self.commit(region, config)
        await self.fill_lines(config, whole, 0)
        await self.read_views(config, whole)
        await self.registers.read_status()

    def faults(self, config: RegionConfig) -> list[tuple[CommitCode, RegionConfig]]:
        """Return descriptors that commits refuse by different rules, each with its commit code."""
        beyond = self.layout.params.mem_lines * LINE_BYTES
        plain = replace(config, mode=Mode.IDENTITY)
        return [
            (CommitCode.WORKERS, replace(config, workers=0)),
            (CommitCode.THRESHOLD, replace(plain, threshold=0)),
            (CommitCode.THRESHOLD, replace(config, threshold=0)),
            (CommitCode.BASE_ALIGN, replace(config, base=config.base + LINE_BYTES)),
            (CommitCode.WINDOW_MEMORY, replace(config, base=0)),
            (CommitCode.STATE_MEMORY, replace(config, state_base=beyond)),
        ]


class InitialisedSequence(NfSequence):
    """A refused commit during the initialisation of its region's records, which then completes."""

    async def body(self) -> None:
        region = self.any_region()
        mode = self.choice((Mode.G_BINARY, Mode.FP32))
        config = await self.start_region(region, mode, self.randint(7, 9), 3)
        plain = replace(config, mode=Mode.IDENTITY, threshold=0)
        await self.registers.write_shadow(region, plain)
        await self.commit(region, None, CommitCode.THRESHOLD)
        busy = await self.registers.read("STATUS.INIT_BUSY")
        assert busy, "the initialiser was idle before the refused commit"
        await self.initialised()

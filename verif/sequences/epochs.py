# SPDX-License-Identifier: Apache-2.0
"""New epochs while traffic runs: in other regions, and in the region that is committed."""

from __future__ import annotations

from dataclasses import replace

import cocotb

from models.line_packing import LINE_BYTES, Mode
from models.regions import (
    INFO_SELECTOR,
    STATUS_SELECTOR,
    CommitCode,
    RegionConfig,
    record_lines,
    records,
)
from verif.sequences.base import NfSequence


class EpochOtherSequence(NfSequence):
    """One region is committed again and again while another one aggregates."""

    commits: int = 12
    lines_log2: int = 3
    workers: int = 6

    async def body(self) -> None:
        steady = self.layout.region(Mode.G_BINARY, self.lines_log2, self.workers)
        moving = self.layout.region(Mode.G_TERNARY, 1, 3)
        self.epoch = 0xFFFF_FFFC  # numbers wrap, and say nothing: 0 follows 2^32 - 1
        await self.commit(0, steady)
        await self.commit(1, moving)
        traffic = cocotb.start_soon(self.aggregate(steady))
        for number in range(self.commits):
            await self.contribute(moving, number % 3, number & 1)
            await self.drain_region(moving)
            await self.commit(1)
            await self.read_region(moving, number & 1, 0)
        await traffic

    async def drain_region(self, config: RegionConfig) -> None:
        """Waits for the answers of one region only."""
        await self.env.host.drain_if(lambda msg: msg.addr >> 12 == config.base >> 12)

    async def aggregate(self, config: RegionConfig) -> None:
        """All contributions, then all votes."""
        for worker in range(config.workers):
            for line in range(config.lines):
                await self.contribute(config, worker, line)
        await self.drain()
        for line in range(config.lines):
            await self.read_region(config, line, 0)


class EpochSameSequence(NfSequence):
    """The region in use is committed under traffic: each request is wholly before or after."""

    mode: Mode = Mode.G_BINARY
    commits: int = 8
    lines_log2: int = 4
    workers: int = 4
    reads: float = 0.15

    async def body(self) -> None:
        config = self.layout.region(self.mode, self.lines_log2, self.workers)
        await self.commit(0, config)
        self.stop = False
        traffic = cocotb.start_soon(self.traffic(config))
        for _ in range(self.commits):
            await self.env.clocks(self.rng.randint(5, 60))
            await self.commit(0)
        self.stop = True
        await traffic
        await self.drain()
        for line in range(config.lines):
            await self.read_region(config, line, 0)

    async def traffic(self, config: RegionConfig) -> None:
        """Random contributions and reads until `stop`; at most two in flight on a line."""
        rng = self.rng
        while not self.stop:
            line = rng.randrange(config.lines)
            if rng.random() < self.reads:
                await self.read_region(config, line, limit=2)
            else:
                await self.contribute(config, rng.randrange(config.workers), line, limit=2)


class CommitOverReadsSequence(NfSequence):
    """A commit gives a region other memory while its sums and votes wait for slow memory: these
    are of the round before it, whole."""

    async def body(self) -> None:
        rng = self.rng
        self.env.cfg.mem.latency = (60, 90)
        for mode in (Mode.FP32, Mode.G_BINARY, Mode.FP32):
            config = self.layout.region(mode, 4, rng.randint(3, 6))
            other = self.layout.region(mode, 4, config.workers)
            region = rng.randrange(self.cfg.hw.regions)
            await self.commit(region, config)
            lines = rng.sample(range(config.lines), 8)
            for worker in range(config.workers):
                for line in lines:
                    await self.contribute(config, worker, line)
            await self.drain()
            for line in lines:
                await self.read_region(config, line, 0)
            await self.commit(region, replace(config, state_base=other.state_base))
            for line in lines[:2]:
                await self.read_region(config, line, 0)
            await self.drain()


class CommitOverWritesSequence(NfSequence):
    """A commit gives a region other memory while contributions wait for the records of their lines
    or for the lines that they store: they count in the round before it. What they throw out is of a
    region beside it, so the commit has no write-back to wait for."""

    async def body(self) -> None:
        rng = self.rng
        for mode in (Mode.FP32, Mode.G_BINARY, Mode.G_TERNARY):
            self.env.cfg.mem.latency = (3, 20)
            config = self.layout.region(mode, 4, rng.randint(3, 6))
            other = self.layout.region(mode, 4, config.workers)
            beside = self.layout.region(Mode.G_BINARY, self.cfg.hw.slots.bit_length(), 3)
            region, next_to = rng.sample(range(self.cfg.hw.regions), 2)
            await self.commit(region, config)
            await self.commit(next_to, beside)
            lines = rng.sample(range(config.lines), 8)
            for line in lines:
                await self.contribute(config, 0, line)
            await self.drain()
            for line in range(self.cfg.hw.slots):  # they take the slots: nothing of `region` leaves
                await self.contribute(beside, 0, line)
            await self.drain()
            self.env.cfg.mem.latency = (60, 90)
            for line in lines:
                await self.contribute(config, rng.randrange(1, config.workers), line)
            await self.commit(region, replace(config, state_base=other.state_base))
            for line in lines[:4]:
                await self.contribute(config, 0, line)
            await self.drain()
            for line in lines:
                for selector in self.read_selectors(config)[-2:]:
                    await self.read_region(config, line, selector)
            await self.drain()


class StaleStateSequence(NfSequence):
    """A new epoch must not use old state, which is left in slots and in memory."""

    mode: Mode = Mode.G_BINARY
    epochs: int = 3

    async def body(self) -> None:
        slots = self.cfg.hw.slots
        lines_log2 = max(1, (2 * slots - 1).bit_length())
        config = self.layout.region(self.mode, lines_log2, 3)
        picked = self.rng.sample(range(config.lines), min(config.lines, slots + slots // 4))
        for number in range(self.epochs):
            await self.commit(0, config if number == 0 else None)
            for line in picked:
                if self.rng.random() < 0.7:
                    await self.contribute(config, self.rng.randrange(3), line)
            await self.drain()
            for line in picked[:: 1 + self.rng.randrange(3)]:
                await self.read_region(config, line)
            await self.drain()


class StaleNeighbourSequence(NfSequence):
    """Lines of a region that is too large for a mark of each: one was written in this epoch, the
    one beside it in the epoch before, and its record is fetched now."""

    async def body(self) -> None:
        rng = self.rng
        config = self.layout.region(rng.choice((Mode.G_BINARY, Mode.G_TERNARY)), 13, 3)
        region = rng.randrange(self.cfg.hw.regions)
        pairs = [2 * first for first in rng.sample(range(config.lines // 2), 6)]
        await self.commit(region, config)
        await self.write_back(config, [line + side for line in pairs for side in (0, 1)])
        await self.commit(region)
        fresh = [line + rng.randrange(2) for line in pairs]
        await self.write_back(config, fresh)
        first, distance = records(config, self.cfg.hw.cnt_w)
        unreadable = self.env.cfg.mem.read_error_lines  # what is stale cannot be lost
        unreadable.update(first + (line ^ 1) * distance + 1 for line in fresh[::2])
        for line in fresh:
            await self.read_region(config, line ^ 1, 8, limit=1)
            await self.read_region(config, line, 8, limit=1)
        await self.drain()
        unreadable.clear()
        await self.commit(region, replace(config, lines_log2=0))  # ends the initialiser

    async def write_back(self, config: RegionConfig, lines: list[int]) -> None:
        """A contribution to each of the lines, and to as many others as there are slots."""
        pairs = {line // 2 for line in lines}
        others = self.rng.sample(range(config.lines), 2 * self.cfg.hw.slots)
        for line in (*lines, *(line for line in others if line // 2 not in pairs)):
            await self.contribute(config, self.rng.randrange(3), line)
        await self.drain()


# Records of all earlier epochs stay in memory, and none of them may ever be taken for state.
#
# The sequences need few slots: what they write is evicted within its own epoch.


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


# What a region keeps when a CLOSE or a commit comes that must change nothing.


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


# Exact forgeries: lines that would be a record of the coming epoch, if they were believed.
#
# The layout of a record is the device's own (hdl/README.md, State area): the bitmap of the
# workers in bits 63:0, poison, lost, saturated, the generation in bits 98:67, and KEPT in bit 99.
# A region's generation is the number of its commits. A host can place such a line in an area that
# is not a region's yet, and, as FP32 data, in one that is.


GENERATION_AT = 67


def forged(generation: int, bitmap: int, kept: bool = False) -> bytes:
    """A bookkeeping line: clean, these workers seen in this epoch, and perhaps with a kept sum."""
    flags = int(kept) << (GENERATION_AT + 32)
    return (flags | generation << GENERATION_AT | bitmap).to_bytes(LINE_BYTES, "little")


class ForgedSequence(NfSequence):
    """Base: places forgeries and reads what must be empty lines."""

    def bookkeeping(self, config: RegionConfig, line: int) -> int:
        """The line of memory that holds the bookkeeping of a line."""
        first, distance = records(config, self.cfg.hw.cnt_w)
        return first + line * distance

    def bitmap(self, config: RegionConfig) -> int:
        """Some or all workers."""
        every = (1 << config.workers) - 1
        return every if self.rng.random() < 0.5 else self.rng.getrandbits(64) & every | 1

    async def empty(self, config: RegionConfig, lines: list[int]) -> None:
        """Reads the lines, one request at a time on each; the model knows that they are empty.

        Then most of them are written, twice, and so push each other out: only beside a line that
        was written back is a record fetched.
        """
        await self.look(config, lines)
        left = max(1, len(lines) // 4)
        for _ in range(2):
            for line in lines[left:]:
                await self.contribute(config, self.rng.randrange(config.workers), line, limit=1)
        await self.look(config, lines)

    async def look(self, config: RegionConfig, lines: list[int]) -> None:
        """A read of each line."""
        other = 64 if config.mode is Mode.FP32 else 8
        for line in lines:
            await self.read_region(config, line, self.rng.choice((0, 0, other)), limit=1)
        await self.drain()


class ReshapeSequence(ForgedSequence):
    """A region changes one thing of its shape on its own area, which FP32 data has prepared.

    `change`: "workers", "lines", "mode", or "place" (an area that was ordinary memory).
    """

    change: str = "workers"

    async def body(self) -> None:
        first, second = self.shapes()
        region = self.rng.randrange(self.cfg.hw.regions)
        if self.change == "place":
            for line in range(second.lines):
                data = forged(2, self.bitmap(second))
                await self.write(self.bookkeeping(second, line) * LINE_BYTES, data)
            await self.drain()
        await self.commit(region, first)
        prepared = range(second.lines)
        if self.change != "place":
            for line in prepared:
                offset = self.bookkeeping(second, line) - first.state_line
                worker, index = divmod(offset, first.lines)
                assert worker < first.workers, "the forgery does not fit"
                await self.contribute(first, worker, index, forged(2, self.bitmap(second)))
        await self.drain()
        await self.initialised()
        await self.commit(region, second)
        lines = self.rng.sample(prepared, second.lines)
        await self.empty(second, lines)
        for line in lines:
            await self.contribute(second, self.rng.randrange(second.workers), line, limit=1)
        await self.empty(second, lines)

    def shapes(self) -> tuple[RegionConfig, RegionConfig]:
        """The descriptor before and after."""
        rng = self.rng
        lines_log2 = 4
        if self.change == "mode":
            workers = rng.randint(16, 64)
            low_bit = rng.choice((Mode.G_BINARY, Mode.G_TERNARY))
            second = self.layout.region(low_bit, lines_log2, workers)
            first = self.layout.region(Mode.FP32, lines_log2, workers)  # keeps the room behind
            first = replace(first, base=second.base, state_base=second.state_base)
            return first, second
        workers = rng.randint(4, 12)
        first = self.layout.region(Mode.FP32, lines_log2, workers)
        if self.change == "workers":
            return first, replace(first, workers=rng.randint(1, workers - 1))
        if self.change == "lines":
            return first, replace(first, lines_log2=rng.randint(1, lines_log2 - 1))
        second = self.layout.region(Mode.FP32, lines_log2, workers)
        return first, replace(second, base=first.base)


class RefusedTwiceSequence(ForgedSequence):
    """After a refused initialisation the next commit of the same shape initialises again."""

    async def body(self) -> None:
        rng = self.rng
        config = self.layout.region(rng.choice((Mode.G_BINARY, Mode.G_TERNARY)), 3, 5)
        region = rng.randrange(self.cfg.hw.regions)
        places = [self.bookkeeping(config, line) for line in range(config.lines)]
        for number, place in enumerate(places):
            await self.write(place * LINE_BYTES, forged(1 + number % 2, self.bitmap(config)))
        await self.drain()
        self.env.cfg.mem.write_error_lines.update(places)
        await self.commit(region, config)
        await self.initialised()
        self.env.cfg.mem.write_error_lines.clear()
        for line in range(config.lines):
            await self.read_region(config, line, 0, limit=1)
            await self.drain()
        await self.commit(region)
        await self.initialised()
        await self.empty(config, rng.sample(range(config.lines), config.lines))


class RefusedFrontSequence(ForgedSequence):
    """The first record is refused: a line that the initialiser has not reached yet is lost, too.

    `last`: in the last region that there is, else in any of them.
    """

    last: bool = False

    async def body(self) -> None:
        rng = self.rng
        config = self.layout.region(rng.choice((Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32)), 9, 3)
        regions = self.cfg.hw.regions
        region = regions - 1 if self.last else rng.randrange(regions)
        self.env.cfg.mem.write_error_lines.add(self.bookkeeping(config, 0))
        await self.commit(region, config)
        while not await self.env.registers.read("MEM_WRITE_ERROR"):
            pass
        ahead = rng.sample(range(config.lines // 2, config.lines), 2 * self.cfg.hw.slots)
        for line in ahead:
            if rng.random() < 0.5:
                await self.contribute(config, rng.randrange(3), line, limit=1)
            await self.read_region(config, line, 0, limit=1)
        await self.drain()


class MovedSequence(ForgedSequence):
    """A region moves while it is initialised: all of its new area is overwritten as well.

    A second region waits meanwhile, and becomes IDENTITY memory before its turn comes.
    """

    async def body(self) -> None:
        rng = self.rng
        mode = rng.choice((Mode.G_BINARY, Mode.FP32))
        here, there = (self.layout.region(mode, 9, 3) for _ in range(2))
        queued = self.layout.region(Mode.G_TERNARY, 6, 3)
        plain = replace(queued, mode=Mode.IDENTITY, lines_log2=0)
        for line in range(there.lines):
            data = forged(2, self.bitmap(there))
            self.env.mem.store.write(self.bookkeeping(there, line), int.from_bytes(data, "little"))
        first, second = rng.sample(range(self.cfg.hw.regions), 2)
        await self.commit(first, here)
        await self.commit(second, queued)
        await self.commit(first, replace(here, state_base=there.state_base))
        await self.commit(second, plain)
        kept = rng.sample(range(256), 12)
        for selector in kept:
            await self.write(plain.address(selector, 0), rng.randbytes(LINE_BYTES))
        await self.empty(here, rng.sample(range(64), 2 * self.cfg.hw.slots))
        await self.initialised()
        await self.empty(here, rng.sample(range(here.lines), 4 * self.cfg.hw.slots))
        for selector in kept:
            await self.read(plain.address(selector, 0))


class InitialiserSequence(ForgedSequence):
    """Every record of a large area is forged; its lines are read around the initialiser's front.

    A second region waits for the initialiser; its lines are as empty from the start.
    """

    lines_log2: int = 13
    reads: int = 150

    async def body(self) -> None:
        rng = self.rng
        config = self.layout.region(Mode.G_BINARY, self.lines_log2, 1)
        queued = self.layout.region(Mode.G_TERNARY, 3, 2)
        for one in (config, queued):
            for line in range(one.lines):
                data = forged(1, self.bitmap(one))
                place = self.bookkeeping(one, line)
                self.env.mem.store.write(place, int.from_bytes(data, "little"))
        first, second = sorted(rng.sample(range(self.cfg.hw.regions), 2))
        await self.commit(first, config)
        await self.commit(second, queued)
        await self.empty(queued, list(range(queued.lines)))
        await self.front(config)
        await self.initialised()
        ends = [config.lines - 1, 4096, 4095, *rng.sample(range(config.lines), 30)]
        await self.empty(config, [line for line in ends if line < config.lines])

    async def front(self, config: RegionConfig) -> None:
        """Reads and contributions just before and behind the line that is initialised."""
        rng = self.rng
        seen = self.env.mem.store.lines
        size = record_lines(config.workers, self.cfg.hw.cnt_w)
        place = 0
        for number in range(self.cfg.count(self.reads)):
            while place < config.lines - 1 and not seen[config.state_line + place * size]:
                place += 1
            line = min(max(place + rng.randint(-8, 24), 0), config.lines - 1)
            if rng.random() < 0.4:
                await self.contribute(config, 0, line, limit=1)
            await self.read_region(config, line, 0, limit=1)
            if number % 8 == 7:
                await self.env.clocks(rng.randint(1, 60))
        await self.drain()


class BesideMarkSequence(ForgedSequence):
    """The last line of a region is written back while the initialiser is far from it.

    Its neighbours share its mark, so that they are asked for; their records are forged, and still
    to be initialised. Then the initialiser comes to them, and memory answers it nothing: a record
    that was sent is not yet one that is there.
    """

    lines_log2: int = 13

    async def body(self) -> None:
        hw, mem = self.cfg.hw, self.env.cfg.mem
        config = self.layout.region(Mode.G_BINARY, self.lines_log2, 3)
        last = config.lines - 1
        forgeries = range(last - 8 * hw.slots, last + 1)
        for line in forgeries:
            data = forged(1, self.bitmap(config))
            self.env.mem.store.write(self.bookkeeping(config, line), int.from_bytes(data, "little"))
        await self.commit(self.rng.randrange(hw.regions), config)
        await self.contribute(config, 0, last)
        await self.drain()
        await self.look(config, list(forgeries[:-1]))
        busy = await self.env.registers.read("STATUS.INIT_BUSY")
        assert busy, "every record was initialised: nothing was tested"
        front = self.bookkeeping(config, self.rng.choice(forgeries[: -hw.slots]))
        while self.env.mem.store.read(front)[0]:
            await self.env.clocks(1)
        mem.b_stall = 1.0
        await self.env.clocks(60)
        for line in forgeries[:-1]:  # INFO alone tells a record without counts from none
            await self.read_region(config, line, INFO_SELECTOR, limit=1)
        await self.drain()
        mem.b_stall = 0.0
        await self.look(config, [last, *forgeries])

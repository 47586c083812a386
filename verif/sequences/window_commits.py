# SPDX-License-Identifier: Apache-2.0
"""Commits through the control window, by two hosts at once or cut by a reset; moving windows."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import partial

import cocotb

from cocotbext.cxl.wire.messages import M2SMessage, M2SRwD
from models.control_window import LINE_OF_BYTES, REGION_LINE
from models.line_packing import Mode
from models.regions import INFO_SELECTOR, CommitCode, RegionConfig
from verif.sequences.control_lines import MANAGER, ControlSequence

MODES = (Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32, Mode.IDENTITY)
HOSTS = (2, 5)
"""LD-IDs of the hosts."""


@dataclass
class Share:
    """What a host has: a region, which it alone changes."""

    ldid: int
    region: int
    config: RegionConfig
    epoch: int


class WindowCommitsSequence(ControlSequence):
    """Each host commits its region again and again under its own traffic.

    AXI4-Lite reads and writes the same registers, and commits: a region of its own, and at the same
    time as a host that host's region; or one of the two closes it meanwhile.
    """

    rounds: int = 2
    commits: int = 4

    async def body(self) -> None:
        rng, hw = self.rng, self.cfg.hw
        regions = rng.sample(range(hw.regions), min(3, hw.regions))
        hosts = HOSTS[: len(regions)]
        await self.open(1 << MANAGER, dict(zip(regions, hosts, strict=False)))
        self.r_stall = self.env.cfg.mem.r_stall
        self.third = regions[2] if len(regions) == 3 else None
        if self.third is not None:
            await self.commit(self.third, self.layout.region(Mode.G_BINARY, 0, 2))
        for _ in range(self.rounds):
            shares = [
                Share(ldid, region, self.draw(), rng.getrandbits(32))
                for ldid, region in zip(hosts, regions, strict=False)
            ]
            self.open_hosts = len(shares)
            tasks = [cocotb.start_soon(self.host(share)) for share in shares]
            tasks.append(cocotb.start_soon(self.management(shares)))
            for task in tasks:
                await task
            await self.drain()
            await self.everybody(shares)

    def draw(self) -> RegionConfig:
        """A small region: state areas of former rounds stay where they were."""
        rng = self.rng
        mode = rng.choice(MODES)
        self.layout.next_line = max(self.layout.next_line, self.cfg.hw.mem_lines // 2)
        workers = 1 if mode is Mode.IDENTITY else rng.choice((1, 2, 5))
        log2 = 0 if mode is Mode.IDENTITY else rng.randint(0, 2)
        try:
            return self.layout.region(mode, log2, workers, strict=rng.random() < 0.5)
        except ValueError:  # a small memory is used up: what was given out first is free again
            self.layout.next_line = self.cfg.hw.mem_lines // 2
            return self.layout.region(Mode.G_BINARY, 0, workers)

    # -- a host -------------------------------------------------------------------------------
    async def host(self, share: Share) -> None:
        """A commit of a new descriptor, then traffic with commits of new epochs in it."""
        rng = random.Random(self.rng.getrandbits(32))
        first = self.commit_words(share.region, share.config, share.epoch)
        await self.call(self.line_write(first, share.ldid, whole=False))
        for _ in range(self.commits):
            for _ in range(rng.randint(3, 16)):
                await self.traffic(rng, share)
            waits = [await self.issue(one) for one in self.commits_of(rng, share)]
            for _ in range(rng.randint(0, 6)):
                await self.traffic(rng, share)
            for one in waits:
                await one.wait()
            if rng.random() < 0.5:
                await self.issue(self.line_read(REGION_LINE + share.region, share.ldid))
            await self.env.host.drain_if(partial(self.inside, share.config))
            if rng.random() < 0.75:
                await self.race(rng, share)
        self.open_hosts -= 1

    async def race(self, rng: random.Random, share: Share) -> None:
        """The host and AXI4-Lite commit the region at once, each with an epoch of its own, or one
        commits it and the other closes it.

        Reads of INFO arrive all the while: those between the two find what the first has left.
        """
        name = f"REGION[{share.region}]."
        mine, other = rng.sample(range(1 << 32), 2)
        closer = None if share.config.mode is Mode.IDENTITY else rng.choice((None, "host", "AXI"))
        words = self.words({f"{name}CTRL": 1} if closer == "host" else {f"{name}EPOCH": mine})
        if closer != "host" and rng.random() < 0.6:
            strict, tie = rng.random() < 0.5, rng.random() < 0.5
            share.config = replace(share.config, strict=strict, tie_minus=tie)
            words = self.commit_words(share.region, share.config, mine)
        theirs = (f"{name}CTRL", 1) if closer == "AXI" else (f"{name}EPOCH", other)
        if rng.random() < 0.5:  # so that the first of the two is not done when the second comes
            cocotb.start_soon(self.slow_memory(rng.randint(60, 160)))
        beside = cocotb.start_soon(self.beside(*theirs, rng.randint(1, 80)))
        await self.env.clocks(rng.randint(1, 20))
        one = await self.issue(self.line_write(words, share.ldid))
        for _ in range(rng.randint(4, 12)):
            if share.config.mode is Mode.IDENTITY or rng.random() < 0.3:
                await self.traffic(rng, share)
            else:
                line = rng.randrange(share.config.lines)
                await self.read_region(share.config, line, INFO_SELECTOR, limit=3)
        await one.wait()
        await beside
        if closer is not None:
            await self.env.registers.read(f"{name}STATUS")  # it tells which was the last
        share.epoch = await self.env.registers.read(f"{name}EPOCH")
        assert share.epoch in {None: (mine, other), "host": (other,), "AXI": (mine,)}[closer]
        await self.env.host.drain_if(partial(self.inside, share.config))

    async def slow_memory(self, clocks: int) -> None:
        """Memory answers no read for a while: a commit waits for those before it."""
        mem = self.env.cfg.mem
        mem.r_stall = 1.0
        await self.env.clocks(clocks)
        mem.r_stall = self.r_stall

    async def beside(self, name: str, value: int, delay: int) -> None:
        """A commit by AXI4-Lite of what the shadow registers hold then, or a close."""
        await self.env.clocks(delay)
        await self.env.registers.write(name, value)

    @staticmethod
    def inside(config: RegionConfig, msg: M2SMessage) -> bool:
        """A request to the region."""
        return 0 <= msg.addr - config.base < config.window_lines * LINE_OF_BYTES

    def commits_of(self, rng: random.Random, share: Share) -> list[M2SRwD]:
        """One commit, or two that follow each other at once: of EPOCH, or of all registers."""
        out = []
        for _ in range(rng.choice((1, 1, 2))):
            share.epoch = rng.getrandbits(32)
            words = self.commit_words(share.region, share.config, share.epoch, rng.random() < 0.2)
            if rng.random() < 0.4:
                words = self.words({f"REGION[{share.region}].EPOCH": share.epoch})
            out.append(self.line_write(words, rng.choice((share.ldid, MANAGER))))
        return out

    async def traffic(self, rng: random.Random, share: Share) -> None:
        """A contribution or a read of the host's region, of memory, or of registers."""
        config, kind = share.config, rng.random()
        line = rng.randrange(config.lines)
        if kind < 0.55:
            await self.contribute(config, rng.randrange(config.workers), line, limit=2)
        elif kind < 0.75:
            await self.read_region(config, line, limit=2)
        elif kind < 0.9:
            addr = rng.randrange(min(64, self.layout.plain_lines)) * LINE_OF_BYTES
            if rng.random() < 0.5:
                await self.write(addr, rng.randbytes(LINE_OF_BYTES), 3)
            else:
                await self.read(addr, 3)
        else:
            await self.issue(self.line_read(rng.choice((0, 1, 4, REGION_LINE + share.region))))

    # -- AXI4-Lite ----------------------------------------------------------------------------
    async def management(self, shares: list[Share]) -> None:
        """The same registers by AXI4-Lite: reads, writes of what they hold, clears, commits."""
        rng, registers = random.Random(self.rng.getrandbits(32)), self.env.registers
        leaves = ("EPOCH", "STATUS", "COMPLETE_LINES", "BASE_LO", "WORKERS", "OWNER_LD", "CONFIG")
        while self.open_hosts:
            await self.env.clocks(rng.randint(1, 30))
            share, kind = rng.choice(shares), rng.random()
            if kind < 0.5:
                await registers.read(f"REGION[{share.region}].{rng.choice(leaves)}")
            elif kind < 0.6:
                await registers.read(rng.choice(("STATUS", "CONTRIBUTION", "DONE", "IRQ_STATUS")))
            elif kind < 0.75:
                name = rng.choice(("CTRL_LD_MASK", "IRQ_ENABLE", "CAP_WINDOW"))
                await registers.write(name, self.env.predictor.values[name])
            elif kind < 0.85:
                await registers.write("IRQ_STATUS", 0x3F)
            elif self.third is not None:
                await self.commit(self.third)

    # -- afterwards ---------------------------------------------------------------------------
    async def everybody(self, shares: list[Share]) -> None:
        """The last commit of each host is in force: every path says so."""
        for share in shares:
            name = f"REGION[{share.region}].EPOCH"
            assert await self.env.registers.read(name) == share.epoch
            await self.call(self.line_read(REGION_LINE + share.region))
            for leaf in ("STATUS", "COMPLETE_LINES", "BASE_LO", "CONFIG"):
                await self.env.registers.read(f"REGION[{share.region}].{leaf}")
            for line in range(share.config.lines):
                await self.read_region(share.config, line, 0 if share.config.workers else None)
        await self.drain()


class CutCommitSequence(ControlSequence):
    """A commit through the window, and (`begin`) one that has not ended when a reset comes: it
    waits for a sum, which memory does not give."""

    async def body(self) -> None:
        rng = self.rng
        self.region, self.line = rng.randrange(self.cfg.hw.regions), rng.randrange(4)
        self.config = self.layout.region(Mode.FP32, 2, rng.randint(2, 5))
        await self.open(1 << MANAGER, {self.region: HOSTS[0]})
        await self.call(self.commit_write())
        for worker in range(self.config.workers):
            await self.contribute(self.config, worker, self.line)
        await self.drain()
        await self.read_region(self.config, self.line, 0)

    def commit_write(self) -> M2SRwD:
        """All registers of the region, in one line."""
        words = self.commit_words(self.region, self.config, self.rng.getrandbits(32))
        return self.line_write(words, self.rng.choice((HOSTS[0], MANAGER)))

    async def begin(self) -> None:
        """Returns while the commit waits."""
        self.env.cfg.mem.r_stall = 1.0
        await self.read_region(self.config, self.line, 0)
        await self.env.clocks(40)
        commit = await self.issue(self.commit_write())
        await self.env.clocks(self.rng.randint(80, 160))
        assert commit.response is None, "the commit has not waited"


class WaitingCommitSequence(CutCommitSequence):
    """AXI4-Lite commits a region of which the window's commit waits for a sum: it comes behind that
    one, and neither is lost."""

    async def body(self) -> None:
        await super().body()
        name = f"REGION[{self.region}].EPOCH"
        for _ in range(3):
            await self.begin()
            epoch = self.rng.getrandbits(32)
            behind = cocotb.start_soon(self.env.registers.write(name, epoch))
            await self.env.clocks(self.rng.randint(1, 60))
            self.env.cfg.mem.r_stall = 0.0
            await behind
            await self.drain()
            assert await self.env.registers.read(name) == epoch, "it was not the last"
            for worker in range(self.config.workers):
                await self.contribute(self.config, worker, self.line)
            await self.drain()


class MovedWindowSequence(ControlSequence):
    """The window moves while it is read and written; writers come and go."""

    async def body(self) -> None:
        rng = self.rng
        region = rng.randrange(self.cfg.hw.regions)
        await self.open(1 << MANAGER, {region: HOSTS[0]})
        places = [self.window.base, *(self.layout.control_window() for _ in range(2))]
        home, near, far = rng.sample(places, 3)
        for number, place in enumerate((near, near, 0, 0, home, far)):  # 0: it is nowhere
            self.stop = False
            task = cocotb.start_soon(self.traffic(places, region))
            await self.env.clocks(rng.randint(5, 60))
            if number % 3 == 2:
                await self.env.registers.write("CTRL_LD_MASK", rng.choice((0, 1 << MANAGER)))
            elif number % 3 == 1:
                valid = rng.getrandbits(1) << 8
                await self.env.registers.write(f"REGION[{region}].OWNER_LD", valid | HOSTS[0])
            assert await self.move(place) is CommitCode.OK
            await self.env.clocks(rng.randint(5, 40))
            self.stop = True
            await task
            await self.drain()
            await self.env.registers.write("ERR_INFO", 1)  # nobody knows which was refused first

    async def traffic(self, places: list[int], region: int) -> None:
        """Reads, and writes of what registers hold, wherever the window may be."""
        rng = random.Random(self.rng.getrandbits(32))
        held = self.words({f"REGION[{region}].WORKERS": 0, f"REGION[{region}].LINES_LOG2": 0})
        while not self.stop:
            kind, offset = rng.random(), (REGION_LINE + region) * LINE_OF_BYTES
            addr = rng.choice(places) + offset
            if kind < 0.5:
                await self.read(addr)
            elif kind < 0.7:
                message = self.line_write(held, rng.choice((HOSTS[0], MANAGER)))
                await self.issue(replace(message, addr=addr))
            else:
                await self.write(rng.randrange(8) * LINE_OF_BYTES, rng.randbytes(64), 2)
            await self.env.clocks(rng.randint(1, 6))

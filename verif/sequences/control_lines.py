# SPDX-License-Identifier: Apache-2.0
"""Registers through the control window: what may be written by whom, and what must be refused."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import cocotb

from cocotbext.cxl.wire.messages import BE_ALL, M2SMessage, M2SReq, M2SRwD, ReqOp, RwdOp
from models.control_window import (
    CONTROL_LINES,
    LINE_OF_BYTES,
    REGION_LINE,
    ControlWindow,
    pack_line,
)
from models.line_packing import Mode
from models.nf_regs import REG_MAP
from models.regions import INFO_SELECTOR, Cause, CommitCode, RegionConfig
from models.register_map import WORD_BYTES
from verif.sequences.base import NfSequence

MANAGER = 9
"""The LD-ID of CTRL_LD_MASK."""
DEVICE_LINES = (0, 1, 4, 5)


class ControlSequence(NfSequence):
    """Base of the sequences that use the control window."""

    window = ControlWindow()

    # -- AXI4-Lite ----------------------------------------------------------------------------
    async def open(self, mask: int, owners: dict[int, int]) -> None:
        """Places the window; `mask` and `owners` (LD-ID by region) may write through it."""
        registers, hw = self.env.registers, self.cfg.hw
        every = tuple(owners.get(region) for region in range(hw.regions))
        await registers.write("CTRL_LD_MASK", mask)
        for region, ldid in owners.items():
            await registers.write(f"REGION[{region}].OWNER_LD", 1 << 8 | ldid)
        self.window = ControlWindow(0, mask, every)
        assert await self.move(self.layout.control_window()) is CommitCode.OK

    async def move(self, place: int) -> CommitCode:
        """Writes CTRL_WINDOW; returns the code, after a look at where the window is."""
        registers = self.env.registers
        await registers.write("CTRL_WINDOW_HI", place >> 32)
        await registers.write("CTRL_WINDOW_LO", place & 0xFFFF_FFFF)
        code = CommitCode(await registers.read("CTRL_WINDOW_LO.CODE"))
        if code is CommitCode.OK:
            self.window = replace(self.window, base=place)
        return code

    # -- messages -----------------------------------------------------------------------------
    def line_write(
        self, words: dict[int, int], ldid: int, whole: bool = False, poison: bool = False
    ) -> M2SRwD:
        """A write of words by their byte addresses; `whole`: a MemWr, with noise elsewhere."""
        data, be = pack_line(words)
        addr = self.window.address(next(iter(words)))
        if whole:
            noise = self.rng.randbytes(LINE_OF_BYTES)
            data = bytes(d if be >> i & 1 else n for i, (d, n) in enumerate(zip(data, noise)))
            return M2SRwD(RwdOp.MEM_WR, 0, addr, ldid=ldid, data=data, poison=poison)
        return M2SRwD(RwdOp.MEM_WR_PTL, 0, addr, ldid=ldid, data=data, be=be, poison=poison)

    def line_read(self, line: int, ldid: int | None = None) -> M2SReq:
        """A read of a line of the window."""
        return self.read_msg(self.window.base + line * LINE_OF_BYTES, ldid)

    def words(self, values: dict[str, int]) -> dict[int, int]:
        """Words by address, from values by the name of their register."""
        by_name = self.env.predictor.by_name
        return {by_name[name].address: value for name, value in values.items()}

    def commit_words(
        self, region: int, config: RegionConfig, epoch: int, close: bool = False
    ) -> dict[int, int]:
        """All registers of a region that a commit has."""
        values = {**config.register_values(), "EPOCH": epoch, "CTRL": int(close)}
        return self.words({f"REGION[{region}].{leaf}": word for leaf, word in values.items()})


class ControlLinesSequence(ControlSequence):
    """Every rule of the window, one after the other; the scoreboard compares each register."""

    async def body(self) -> None:
        rng, hw = self.rng, self.cfg.hw
        region = rng.randrange(hw.regions)
        self.region, self.owner = region, rng.randrange(8)
        config = self.layout.region(Mode.G_BINARY, 1, 3)
        await self.fetch(self.layout.control_window())  # there is no window yet
        await self.open(1 << MANAGER, {region: self.owner})
        await self.snapshots()
        await self.writes()
        await self.commits(config)
        await self.refusals()
        await self.harmless()
        await self.answers_together()
        await self.snapshots()
        await self.places(config)

    async def snapshots(self) -> None:
        """Every line of the window, by anybody."""
        for line in range(CONTROL_LINES):
            await self.issue(self.line_read(line))
        for line in (0, REGION_LINE + self.region, CONTROL_LINES - 1):
            for ldid in (MANAGER, self.owner, (self.owner + 1) % 8):
                await self.issue(self.line_read(line, ldid))
        await self.drain()

    async def writes(self) -> None:
        """Words and lines of the device's registers, by the manager."""
        rng = self.rng
        for name in ("IRQ_ENABLE", "CAP_WINDOW", "CAP_THRESHOLD", "DEVLOAD_THRESHOLD"):
            value = rng.getrandbits(6)
            await self.call(self.line_write(self.words({name: value}), MANAGER))
            await self.issue(self.line_read(self.env.predictor.by_name[name].address // 64))
            await self.env.registers.read(name)
            await self.drain()
        for line in DEVICE_LINES:
            words = self.words({"CTRL": rng.choice((0, 2))} if line == 0 else {})
            words = words or {line * LINE_OF_BYTES: rng.getrandbits(7)}
            await self.call(self.line_write(words, MANAGER, whole=True))
            await self.call(self.line_read(line))
        await self.call(self.line_write({0: 0}, MANAGER))
        nothing = self.line_write({0: 0}, MANAGER)
        await self.call(replace(nothing, be=0))
        await self.env.registers.write("IRQ_ENABLE", 0)
        await self.env.registers.read_all()

    async def commits(self, config: RegionConfig) -> None:
        """Commits: of a whole line, of EPOCH alone, refused ones, with CLOSE, and CLOSE alone."""
        region, owner, epoch = self.region, self.owner, self.rng.getrandbits(32)
        other = self.layout.region(Mode.FP32, 0, 2)
        whole = self.commit_words(region, config, epoch)
        epoch_at = self.words({f"REGION[{region}].EPOCH": 0})
        control_at = self.words({f"REGION[{region}].CTRL": 1})
        bad = self.commit_words(region, replace(other, workers=0), epoch + 7)
        again = self.line_write(self.commit_words(region, config, 3), MANAGER, whole=True)
        steps = (
            (self.line_write(whole, owner, whole=True), config),
            (self.line_write(dict.fromkeys(epoch_at, epoch ^ 1), MANAGER), config),
            (self.line_write(bad, owner), config),
            (self.line_write(self.commit_words(region, other, epoch, close=True), owner), other),
            (replace(again, opcode=RwdOp.MEM_WR_PTL, be=BE_ALL), config),
            (self.line_write(control_at, owner), config),
            (self.line_write(dict.fromkeys(epoch_at, epoch), owner), config),
        )
        for message, now in steps:
            for worker in range(2):
                if self.env.scoreboard.configs[region] == now:
                    await self.contribute(now, worker, 0)
            await self.drain()
            await self.call(message)
            await self.call(self.line_read(REGION_LINE + region))
            for leaf in ("STATUS", "EPOCH", "COMPLETE_LINES"):
                await self.env.registers.read(f"REGION[{region}].{leaf}")
            await self.read_region(now, 0, 0)
            await self.drain()

    # -- what must change nothing -------------------------------------------------------------
    def refused(self) -> Iterator[tuple[M2SMessage, Cause]]:
        """Requests that are refused, with their cause."""
        region, owner, rng = self.region, self.owner, self.rng
        mine = self.words({f"REGION[{region}].WORKERS": 7, f"REGION[{region}].EPOCH": 1})
        device = self.words({"IRQ_ENABLE": 0x3F, "CTRL": 1})
        stranger = (owner + 1) % 8
        yield self.line_write(mine, stranger), Cause.CONTROL
        yield self.line_write(mine, stranger, whole=True), Cause.CONTROL
        yield self.line_write(device, owner), Cause.CONTROL
        yield self.line_write(mine, owner, poison=True), Cause.CONTROL
        yield self.line_write(device, MANAGER, whole=True, poison=True), Cause.CONTROL
        if self.cfg.hw.regions > 1:
            beside = (region + 1) % self.cfg.hw.regions
            theirs = self.words({f"REGION[{beside}].WORKERS": 7})
            yield self.line_write(theirs, owner), Cause.CONTROL
            yield self.line_write(theirs, 0), Cause.CONTROL
        hole = {(REGION_LINE + self.cfg.hw.regions) % CONTROL_LINES * LINE_OF_BYTES: 1}
        yield self.line_write(hole, owner), Cause.CONTROL
        for be in (1, 0x7 << 8, 0xE << 60, BE_ALL ^ 1 << rng.randrange(64), 0x3FC):
            yield replace(self.line_write(mine, owner), be=be), Cause.PARTIAL
        both = replace(self.line_write(mine, stranger, poison=True), be=0x18)
        yield both, Cause.PARTIAL
        addr = self.window.base + rng.randrange(CONTROL_LINES) * LINE_OF_BYTES
        yield M2SReq(ReqOp.MEM_RD_FWD, 0, addr, ldid=MANAGER), Cause.UNSUPPORTED
        yield M2SReq(ReqOp.MEM_WR_FWD, 0, addr, ldid=MANAGER), Cause.UNSUPPORTED

    async def refusals(self) -> None:
        """Each is captured with its cause, and changes nothing."""
        registers = self.env.registers
        for message, cause in self.refused():
            await registers.write("ERR_INFO", 1)
            await self.call(message)
            assert await registers.read("ERR_INFO.CAUSE") == cause
            for name in ("ERR_ADDR_LO", "ERR_ADDR_HI", "ERR_TAG", "IRQ_ENABLE"):
                await registers.read(name)
            await registers.read(f"REGION[{self.region}].WORKERS")
            await registers.read(f"REGION[{self.region}].EPOCH")

    async def harmless(self) -> None:
        """Requests that are answered and do nothing, and writes of what keeps still."""
        base = self.window.base
        for opcode in (ReqOp.MEM_INV, ReqOp.MEM_INV_NT):
            await self.call(M2SReq(opcode, 0, base, ldid=3))
        await self.issue(M2SReq(ReqOp.MEM_SPEC_RD, 0, base, ldid=3))
        for name in ("CTRL_WINDOW_LO", "CTRL_WINDOW_HI", "CTRL_LD_MASK"):
            await self.call(self.line_write(self.words({name: 0x5000}), MANAGER))
        owner = self.words({f"REGION[{self.region}].OWNER_LD": 0x105})
        await self.call(self.line_write(owner, self.owner))
        await self.call(self.line_write({WORD_BYTES * 0x60: 0xFFFF_FFFF}, MANAGER))
        await self.env.registers.read_all()

    async def answers_together(self) -> None:
        """The window answers in the clocks in which requests that go nowhere are answered, too.

        Admission stops until ordinary memory has answered, so that all are admitted in a row. A
        write that enables no byte is answered in the clock behind it, a read in the one after that.
        """
        mem, base = self.env.cfg.mem, self.window.base
        stall, mem.r_stall = mem.r_stall, 1.0
        await self.read(0)
        await self.env.clocks(40)
        moves = cocotb.start_soon(self.move(base))
        await self.env.clocks(40)
        nothing = replace(self.line_write({0: 0}, MANAGER), be=0)
        for _ in range(3):
            await self.issue(nothing)
            await self.issue(M2SReq(ReqOp.MEM_INV, 0, base, ldid=3))
        for _ in range(2):
            await self.issue(self.line_read(0))
            for _ in range(3):
                await self.issue(M2SReq(ReqOp.MEM_RD_FWD, 0, base, ldid=MANAGER))
        await self.env.clocks(40)
        mem.r_stall = stall
        assert await moves is CommitCode.OK
        await self.drain()

    # -- places -------------------------------------------------------------------------------
    async def places(self, config: RegionConfig) -> None:
        """Places that are refused, a region that would cover the window, and no window at all."""
        stays, memory = self.window.base, self.cfg.hw.mem_lines * 64
        for place, code in (
            (stays + 64, CommitCode.BASE_ALIGN),
            (stays + 32 * 64, CommitCode.BASE_ALIGN),
            (memory - 4096, CommitCode.WINDOW_MEMORY if memory > 4096 else CommitCode.OK),
            (64, CommitCode.BASE_ALIGN),
            (config.base, CommitCode.WINDOW_OVERLAP),
            (config.base + (config.window_lines - 64) * 64, CommitCode.WINDOW_OVERLAP),
        ):
            assert await self.move(place) is code, f"{place:#x}"
            assert self.window.base == stays
            await self.call(self.line_read(0))
            await self.fetch(place & ~63)
        over = replace(config, base=stays - stays % (config.window_lines * 64))
        await self.call(self.line_write(self.commit_words(self.region, over, 5), self.owner))
        await self.env.registers.read(f"REGION[{self.region}].STATUS")
        assert await self.env.registers.read(f"REGION[{self.region}].STATUS.CODE") == (
            CommitCode.WINDOW_OVERLAP
        )
        await self.env.registers.write_shadow(self.region, config)
        rounds = self.layout.region(Mode.G_BINARY, 0, 1)
        await self.commit(1 % self.cfg.hw.regions, rounds)  # a move ends no round
        await self.contribute(rounds, 0, 0)
        await self.drain()
        for place in (memory, memory, self.layout.control_window(), 0):
            assert await self.move(place) is CommitCode.OK
            await self.fetch(stays)
            await self.fetch(place)


class EveryOwnerSequence(ControlSequence):
    """An owner for each region of the device: it commits and reads back, anybody else may not."""

    async def body(self) -> None:
        rng, hw = self.rng, self.cfg.hw
        for flip in (0, 15):  # each bit of an owner both ways
            owners = {region: (3 * region + 1) % 16 ^ flip for region in range(hw.regions)}
            await self.open(0, owners)
            for region in rng.sample(range(hw.regions), hw.regions):
                config = self.layout.region(Mode.G_BINARY, 0, 2)
                words = self.commit_words(region, config, rng.getrandbits(32))
                stranger = owners[region] ^ 1 << rng.randrange(4)
                await self.call(self.line_write(words, stranger))
                await self.call(self.line_write(words, owners[region]))
                await self.contribute(config, 0, 0)
                await self.call(self.line_read(REGION_LINE + region, owners[region]))
                await self.env.registers.read(f"REGION[{region}].STATUS")
            for region in owners:
                await self.env.registers.write(f"REGION[{region}].OWNER_LD", 0)
                words = self.words({f"REGION[{region}].WORKERS": 7})
                await self.call(self.line_write(words, owners[region]))
                await self.env.registers.read(f"REGION[{region}].WORKERS")


class HostsSequence(ControlSequence):
    """Every LD-ID in CTRL_LD_MASK, and as an owner: whom neither names changes nothing."""

    async def body(self) -> None:
        rng, registers = self.rng, self.env.registers
        mask = rng.getrandbits(16)
        for managers in rng.sample((mask, mask ^ 0xFFFF), 2):  # so that each is named once
            for ldid in rng.sample(range(16), 16):
                region, owner = rng.randrange(self.cfg.hw.regions), rng.choice((ldid, ldid ^ 8))
                await self.open(managers, {region: owner})
                threshold, shadow = rng.getrandbits(8), rng.getrandbits(8)
                before = await registers.read("CAP_THRESHOLD")
                name = f"REGION[{region}].THRESHOLD"
                await self.call(self.line_write(self.words({"CAP_THRESHOLD": threshold}), ldid))
                await self.call(self.line_write(self.words({name: shadow}), ldid))
                known = bool(managers >> ldid & 1)
                after = await registers.read("CAP_THRESHOLD")
                assert after == (threshold if known else before), f"LD-ID {ldid} of {managers:#x}"
                found = await registers.read(name)
                assert found == shadow or not (known or owner == ldid), f"owner {owner}: {ldid}"
                await registers.write("ERR_INFO", 1)


# Commits through the control window, by two hosts at once or cut by a reset; moving windows.


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


# State that stays until somebody changes it, set as far as it can be: a reset has to end it.


REGS = REG_MAP.expand()
ILLEGAL = b"\x55" * 64


class HeldStateSequence(ControlSequence):
    """First a look at where things were before the reset; then all of them are set anew."""

    places: ClassVar[list[int]] = []
    """Where the control window and the regions of the case before were."""

    async def body(self) -> None:
        rng, hw, registers = self.rng, self.cfg.hw, self.env.registers
        for place in self.places:
            await self.fetch(place)
            await self.write(place, rng.randbytes(64))
        await self.drain()
        await registers.write("ERR_INFO", 1)  # the next one is captured
        owners = {region: rng.randrange(16) for region in range(hw.regions)}
        await self.open(rng.randint(1, 0xFFFF), owners)
        for name in ("IRQ_ENABLE", "DEVLOAD_THRESHOLD"):
            await registers.write(name, REGS[name].fields[0].mask)
        await registers.write("CAP_THRESHOLD", 0)
        await registers.write("CAP_WINDOW", rng.randint(1, 256))
        self.configs: list[RegionConfig] = []
        for region in range(hw.regions):
            mode = Mode.G_TERNARY if region == 0 else rng.choice((Mode.G_BINARY, Mode.G_TERNARY))
            self.configs.append(self.layout.region(mode, rng.randint(1, 2), 2))
            await self.commit(region, self.configs[-1])
        await self.stir()
        type(self).places = [self.window.base, *(config.base for config in self.configs)]

    async def stir(self) -> None:
        """Sets what events set: counters, flags and captures."""
        for region, config in enumerate(self.configs):
            await self.fill(region, config)
        await self.fetch(self.configs[0].address(255, 0))  # refused, and captured

    async def fill(self, region: int, config: RegionConfig) -> None:
        """A line is complete, another has an illegal code where that is one; many rounds end."""
        for worker in range(config.workers):
            await self.contribute(config, worker, 0)
        await self.contribute(config, 0, 1, ILLEGAL, poison=False)
        await self.contribute(config, 1, 1, poison=True)
        await self.drain()
        if region == 0 or self.rng.random() < 0.5:
            await self.close(region)


class ClearsSequence(HeldStateSequence):
    """Each command that ends something, one after the other: it ends nothing else.

    The scoreboard compares every register behind each of them. They come in both orders, with all
    set anew between them: of any two, each is once the first.
    """

    async def body(self) -> None:
        type(self).places = []  # it begins with no case before it
        await super().body()
        clears = list(self.clears())
        order = self.rng.sample(clears, len(clears))
        await self.write_each(order)
        for region in range(self.cfg.hw.regions):
            await self.commit(region)
        await self.stir()
        await self.write_each(order[::-1])

    async def write_each(self, order: list[tuple[str, int]]) -> None:
        """All registers are read behind each write."""
        for name, value in order:
            await self.env.registers.write(name, value)
            await self.env.registers.read_all()

    def clears(self) -> Iterator[tuple[str, int]]:
        """A register, and what is written to it."""
        yield "CTRL", REGS["CTRL"].pack(CLEAR_COUNTERS=1)
        yield "ERR_INFO", 1
        yield "LINK_ERR_INFO", 1
        yield "RAS_ERROR", 1
        for field in REGS["IRQ_STATUS"].fields:
            if field.name in ("DONE", "FALLBACK", "ACCESS_ERROR", "POISON"):
                yield "IRQ_STATUS", field.mask
        for region in self.rng.sample(range(self.cfg.hw.regions), 2):
            yield "FALLBACK", 1 << region
            yield f"REGION[{region}].EPOCH", self.rng.getrandbits(32)

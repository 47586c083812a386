# SPDX-License-Identifier: Apache-2.0
"""Registers through the control window: what may be written by whom, and what must be refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

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
from models.regions import Cause, CommitCode, RegionConfig
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

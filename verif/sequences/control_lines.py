# SPDX-License-Identifier: Apache-2.0
"""Registers through the control window: permissions, commits, refusals, moves of the window."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import ClassVar

import cocotb

from cocotbext.cxl.wire.messages import BE_ALL, M2SMessage, M2SReq, M2SRwD, ReqOp, RwdOp
from models.access_decode import Cause
from models.commit_check import CommitCode
from models.control_window import (
    CONTROL_LINES,
    LINE_OF_BYTES,
    REGION_LINE,
    ControlWindow,
    pack_line,
)
from models.modes import Mode
from models.regions import INFO_SELECTOR, RegionConfig
from models.register_map import REG_MAP
from models.register_types import WORD_BYTES
from verif.sequences.base import NfSequence
from verif.sequences.line_data import ILLEGAL

MANAGER = 9
"""LD-ID that CTRL_LD_MASK admits in most of these sequences: it may write all registers."""
DEVICE_LINES = (0, 1, 4, 5)


class ControlSequence(NfSequence):
    """Base of the sequences that access registers by CXL, through lines of the control window.

    `window` is the expected state: base address, CTRL_LD_MASK and the owners of the regions.
    """

    window = ControlWindow()

    # -- AXI4-Lite ----------------------------------------------------------------------------
    async def open(self, mask: int, owners: dict[int, int]) -> None:
        """Set the permissions of the control window by AXI4-Lite, then place the window.

        Args:
            mask: CTRL_LD_MASK, the LD-IDs that may write all registers.
            owners: LD-ID of the owner of each region that has one, for OWNER_LD; an owner may write
                the registers of its region.
        """
        every = tuple(owners.get(region) for region in range(self.hw.regions))
        await self.registers.write("CTRL_LD_MASK", mask)
        for region, ldid in owners.items():
            await self.registers.write(f"REGION[{region}].OWNER_LD", 1 << 8 | ldid)
        self.window = ControlWindow(0, mask, every)
        await self.move_to(self.layout.control_window())

    async def move(self, place: int) -> CommitCode:
        """Write CTRL_WINDOW by AXI4-Lite and return the code that the device reports for the move.

        Args:
            place: byte address of the window; 0 disables it.
        """
        await self.write_window(place)
        code = CommitCode(await self.registers.read("CTRL_WINDOW_LO.CODE"))
        if code is CommitCode.OK:
            self.window = replace(self.window, base=place)
        return code

    async def move_to(self, place: int, expect: CommitCode = CommitCode.OK) -> None:
        """Move the control window to a byte address and check the code that the device reports."""
        code = await self.move(place)
        assert code is expect, f"move to {place:#x} gave {code.name}, not {expect.name}"

    # -- messages -----------------------------------------------------------------------------
    def line_write(
        self, words: dict[int, int], ldid: int, whole: bool = False, poison: bool = False
    ) -> M2SRwD:
        """Return a write of register words of one line of the control window.

        Args:
            words: values by byte address of the register, all in one line.
            ldid: LD-ID of the host.
            whole: build a MemWr with random data in the other bytes instead of a MemWrPtl.
            poison: mark the data as poisoned.
        """
        data, be = pack_line(words)
        addr = self.window.address(next(iter(words)))
        if whole:
            noise = self.randbytes(LINE_OF_BYTES)
            data = bytes(d if be >> i & 1 else n for i, (d, n) in enumerate(zip(data, noise)))
            return M2SRwD(RwdOp.MEM_WR, 0, addr, ldid=ldid, data=data, poison=poison)
        return M2SRwD(RwdOp.MEM_WR_PTL, 0, addr, ldid=ldid, data=data, be=be, poison=poison)

    async def set_words(self, ldid: int, **values: int) -> None:
        """Write registers NAME=value of one line through the control window; await the response."""
        await self.call(self.line_write(self.words(values), ldid))

    def line_read(self, line: int, ldid: int | None = None) -> M2SReq:
        """Return a read of line number `line` of the control window; LD-ID None draws one."""
        return self.read_msg(self.window.base + line * LINE_OF_BYTES, ldid)

    def words(self, values: dict[str, int]) -> dict[int, int]:
        """Return register values by byte address, from values by register name."""
        by_name = self.env.predictor.by_name
        return {by_name[name].address: value for name, value in values.items()}

    def region_words(self, region: int, **values: int) -> dict[int, int]:
        """Return register values by byte address, from values by name in a region, as EPOCH."""
        return self.words({f"REGION[{region}].{leaf}": value for leaf, value in values.items()})

    def commit_words(
        self, region: int, config: RegionConfig, epoch: int, close: bool = False
    ) -> dict[int, int]:
        """Return values, by byte address, of all registers of a region, with EPOCH, which commits.

        With `close` the words also write 1 to CTRL.CLOSE.
        """
        return self.region_words(region, **config.register_values(), EPOCH=epoch, CTRL=int(close))


class ControlLinesSequence(ControlSequence):
    """Directed accesses for the rules of the control window: writes, commits, refusals, moves.

    The scoreboard compares the content of each line that is read.
    """

    async def body(self) -> None:
        self.region, self.owner = self.any_region(), self.randrange(8)
        config = self.layout.region(Mode.G_BINARY, 1, 3)
        await self.fetch(self.layout.control_window())  # the window is still disabled
        await self.open(1 << MANAGER, {self.region: self.owner})
        await self.snapshots()
        await self.writes()
        await self.commits(config)
        await self.refusals()
        await self.harmless()
        await self.answers_together()
        await self.snapshots()
        await self.places(config)

    async def snapshots(self) -> None:
        """Read every line of the window with random LD-IDs, and some lines with chosen ones."""
        for line in range(CONTROL_LINES):
            await self.issue(self.line_read(line))
        lines = (0, REGION_LINE + self.region, CONTROL_LINES - 1)
        for line, ldid in product(lines, (MANAGER, self.owner, (self.owner + 1) % 8)):
            await self.issue(self.line_read(line, ldid))
        await self.drain()

    async def writes(self) -> None:
        """Write words and whole lines of device registers as LD-ID `MANAGER`, and read them."""
        for name in ("IRQ_ENABLE", "CAP_WINDOW", "CAP_THRESHOLD", "DEVLOAD_THRESHOLD"):
            await self.set_words(MANAGER, **{name: self.getrandbits(6)})
            await self.issue(self.line_read(self.env.predictor.by_name[name].address // 64))
            await self.read_registers(name)
            await self.drain()
        for line in DEVICE_LINES:
            words = self.words({"CTRL": self.choice((0, 2))} if line == 0 else {})
            words = words or {line * LINE_OF_BYTES: self.getrandbits(7)}
            await self.call(self.line_write(words, MANAGER, whole=True))
            await self.call(self.line_read(line))
        nothing = self.line_write({0: 0}, MANAGER)
        await self.call(nothing)
        await self.call(replace(nothing, be=0))
        await self.registers.write("IRQ_ENABLE", 0)
        await self.registers.read_all()

    async def commits(self, config: RegionConfig) -> None:
        """Commit a region through the control window in seven ways, with reads after each.

        A whole line; EPOCH alone; an illegal descriptor; all registers with CLOSE; all byte enables
        of a MemWrPtl; CLOSE alone; EPOCH after CLOSE. `config` is the descriptor to commit.
        """
        region, owner, epoch = self.region, self.owner, self.getrandbits(32)
        other = self.layout.region(Mode.FP32, 0, 2)
        bad = self.commit_words(region, replace(other, workers=0), epoch + 7)
        again = self.line_write(self.commit_words(region, config, 3), MANAGER, whole=True)
        whole = self.commit_words(region, config, epoch)
        steps = (
            (self.line_write(whole, owner, whole=True), config),
            (self.line_write(self.region_words(region, EPOCH=epoch ^ 1), MANAGER), config),
            (self.line_write(bad, owner), config),
            (self.line_write(self.commit_words(region, other, epoch, close=True), owner), other),
            (replace(again, opcode=RwdOp.MEM_WR_PTL, be=BE_ALL), config),
            (self.line_write(self.region_words(region, CTRL=1), owner), config),
            (self.line_write(self.region_words(region, EPOCH=epoch), owner), config),
        )
        for message, now in steps:
            if self.env.scoreboard.configs[region] == now:
                await self.fill_lines(now, 0, range(2))
            await self.call(message)
            await self.call(self.line_read(REGION_LINE + region))
            await self.read_registers("STATUS", "EPOCH", "COMPLETE_LINES", region=region)
            await self.read_lines(now, 0)

    # -- requests without effect --------------------------------------------------------------
    def refused(self) -> Iterator[tuple[M2SMessage, Cause]]:
        """Yield requests to the control window that must be refused, each with its cause."""
        region, owner = self.region, self.owner
        mine = self.region_words(region, WORKERS=7, EPOCH=1)
        device = self.words({"IRQ_ENABLE": 0x3F, "CTRL": 1})
        stranger = (owner + 1) % 8
        yield self.line_write(mine, stranger), Cause.CONTROL
        yield self.line_write(mine, stranger, whole=True), Cause.CONTROL
        yield self.line_write(device, owner), Cause.CONTROL
        yield self.line_write(mine, owner, poison=True), Cause.CONTROL
        yield self.line_write(device, MANAGER, whole=True, poison=True), Cause.CONTROL
        if self.hw.regions > 1:
            theirs = self.region_words((region + 1) % self.hw.regions, WORKERS=7)
            yield self.line_write(theirs, owner), Cause.CONTROL
            yield self.line_write(theirs, 0), Cause.CONTROL
        hole = {(REGION_LINE + self.hw.regions) % CONTROL_LINES * LINE_OF_BYTES: 1}
        yield self.line_write(hole, owner), Cause.CONTROL
        for be in (1, 0x7 << 8, 0xE << 60, BE_ALL ^ 1 << self.randrange(64), 0x3FC):
            yield replace(self.line_write(mine, owner), be=be), Cause.PARTIAL
        both = replace(self.line_write(mine, stranger, poison=True), be=0x18)
        yield both, Cause.PARTIAL
        addr = self.window.base + self.randrange(CONTROL_LINES) * LINE_OF_BYTES
        yield M2SReq(ReqOp.MEM_RD_FWD, 0, addr, ldid=MANAGER), Cause.UNSUPPORTED
        yield M2SReq(ReqOp.MEM_WR_FWD, 0, addr, ldid=MANAGER), Cause.UNSUPPORTED

    async def refusals(self) -> None:
        """Check that each request of `refused` is captured in ERR_INFO and changes no register."""
        for message, cause in self.refused():
            await self.registers.write("ERR_INFO", 1)
            await self.call(message)
            found = await self.registers.read("ERR_INFO.CAUSE")
            assert found == cause, f"{message} refused with cause {found}, expected {cause.name}"
            await self.read_registers("ERR_ADDR_LO", "ERR_ADDR_HI", "ERR_TAG", "IRQ_ENABLE")
            await self.read_registers("WORKERS", "EPOCH", region=self.region)

    async def harmless(self) -> None:
        """Send requests that are answered without effect, and writes of read-only registers."""
        base = self.window.base
        for opcode in (ReqOp.MEM_INV, ReqOp.MEM_INV_NT):
            await self.call(M2SReq(opcode, 0, base, ldid=3))
        await self.issue(M2SReq(ReqOp.MEM_SPEC_RD, 0, base, ldid=3))
        for name in ("CTRL_WINDOW_LO", "CTRL_WINDOW_HI", "CTRL_LD_MASK"):
            await self.set_words(MANAGER, **{name: 0x5000})
        owner = self.region_words(self.region, OWNER_LD=0x105)
        await self.call(self.line_write(owner, self.owner))
        await self.call(self.line_write({WORD_BYTES * 0x60: 0xFFFF_FFFF}, MANAGER))
        await self.registers.read_all()

    async def answers_together(self) -> None:
        """Let the control window respond in the same cycles as requests that reach no unit.

        Admission stops until ordinary memory has answered, so that all are admitted in a row. A
        write that enables no byte is answered one cycle after its admission, a read after two
        cycles.
        """
        base = self.window.base
        with self.memory(r_stall=1.0):
            await self.read(0)
            await self.cycles(40)
            moves = cocotb.start_soon(self.move_to(base))
            await self.cycles(40)
            nothing = replace(self.line_write({0: 0}, MANAGER), be=0)
            for _ in range(3):
                await self.issue(nothing)
                await self.issue(M2SReq(ReqOp.MEM_INV, 0, base, ldid=3))
            for _ in range(2):
                await self.issue(self.line_read(0))
                for _ in range(3):
                    await self.issue(M2SReq(ReqOp.MEM_RD_FWD, 0, base, ldid=MANAGER))
            await self.cycles(40)
        await moves
        await self.drain()

    # -- places -------------------------------------------------------------------------------
    async def places(self, config: RegionConfig) -> None:
        """Move the control window to refused and legal places; commit a region that overlaps it.

        The last move, to 0, disables the window. `config` is the descriptor of `self.region`.
        """
        stays, memory = self.window.base, self.hw.mem_lines * LINE_OF_BYTES
        window = config.window_lines * LINE_OF_BYTES
        for place, code in (
            (stays + 64, CommitCode.BASE_ALIGN),
            (stays + 32 * 64, CommitCode.BASE_ALIGN),
            (memory - 4096, CommitCode.WINDOW_MEMORY if memory > 4096 else CommitCode.OK),
            (64, CommitCode.BASE_ALIGN),
            (config.base, CommitCode.WINDOW_OVERLAP),
            (config.base + window - 4096, CommitCode.WINDOW_OVERLAP),
        ):
            await self.move_to(place, code)
            assert self.window.base == stays, f"the window moved to {self.window.base:#x}"
            await self.call(self.line_read(0))
            await self.fetch(place & ~63)
        over = replace(config, base=stays - stays % window)
        await self.call(self.line_write(self.commit_words(self.region, over, 5), self.owner))
        await self.read_registers("STATUS", region=self.region)
        found = await self.registers.read(f"REGION[{self.region}].STATUS.CODE")
        assert found == CommitCode.WINDOW_OVERLAP, f"a region over the window gave code {found}"
        await self.registers.write_shadow(self.region, config)
        rounds = await self.start_region(1 % self.hw.regions, Mode.G_BINARY, 0, 1)
        await self.fill_lines(rounds, 0, 0)  # a move ends no round
        for place in (memory, memory, self.layout.control_window(), 0):
            await self.move_to(place)
            await self.fetch(stays)
            await self.fetch(place)


class EveryOwnerSequence(ControlSequence):
    """Commits of each region through the control window by its owner (OWNER_LD), with reads.

    Writes of another LD-ID, or of the owner after OWNER_LD is cleared, are refused.
    """

    async def body(self) -> None:
        regions = self.hw.regions
        for flip in (0, 15):  # each bit of an owner both ways
            owners = {region: (3 * region + 1) % 16 ^ flip for region in range(regions)}
            await self.open(0, owners)
            for region in self.shuffled(range(regions)):
                config = self.layout.region(Mode.G_BINARY, 0, 2)
                words = self.commit_words(region, config, self.getrandbits(32))
                await self.call(self.line_write(words, owners[region] ^ 1 << self.randrange(4)))
                await self.call(self.line_write(words, owners[region]))
                await self.contribute(config, 0, 0)
                await self.call(self.line_read(REGION_LINE + region, owners[region]))
                await self.read_registers("STATUS", region=region)
            for region, owner in owners.items():
                await self.registers.write(f"REGION[{region}].OWNER_LD", 0)
                await self.call(self.line_write(self.region_words(region, WORKERS=7), owner))
                await self.read_registers("WORKERS", region=region)


class HostsSequence(ControlSequence):
    """Writes through the control window as each LD-ID: in CTRL_LD_MASK, as owner, or neither.

    Without permission a write has no effect.
    """

    async def body(self) -> None:
        mask = self.getrandbits(16)
        # Each LD-ID is in one of the masks.
        for managers, ldid in self.shuffled([*product((mask, mask ^ 0xFFFF), range(16))]):
            region, owner = self.any_region(), self.choice((ldid, ldid ^ 8))
            await self.open(managers, {region: owner})
            threshold, shadow = self.getrandbits(8), self.getrandbits(8)
            before = await self.registers.read("CAP_THRESHOLD")
            name = f"REGION[{region}].THRESHOLD"
            await self.set_words(ldid, CAP_THRESHOLD=threshold)
            await self.set_words(ldid, **{name: shadow})
            known = bool(managers >> ldid & 1)
            after = await self.registers.read("CAP_THRESHOLD")
            assert after == (threshold if known else before), f"LD-ID {ldid} of {managers:#x}"
            found = await self.registers.read(name)
            assert found == shadow or not (known or owner == ldid), f"owner {owner}: {ldid}"
            await self.registers.write("ERR_INFO", 1)


MODES = (Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32, Mode.IDENTITY)
HOSTS = (2, 5)
"""LD-IDs of the hosts, each of which owns a region."""


@dataclass
class Share:
    """Region that is owned and committed by one host, with its last descriptor and epoch."""

    ldid: int
    region: int
    config: RegionConfig
    epoch: int


class WindowCommitsSequence(ControlSequence):
    """Two hosts that commit their own regions through the control window while they send traffic.

    AXI4-Lite reads and writes the same registers and commits a third region. It also commits or
    closes the region of a host at the same time as that host.
    """

    rounds: int = 2

    async def body(self) -> None:
        regions = self.sample(range(self.hw.regions), min(3, self.hw.regions))
        hosts = HOSTS[: len(regions)]
        await self.open(1 << MANAGER, dict(zip(regions, hosts, strict=False)))
        self.r_stall = self.mem.r_stall
        self.third = regions[2] if len(regions) == 3 else None
        if self.third is not None:
            await self.start_region(self.third, Mode.G_BINARY, 0, 2)
        for _ in range(self.rounds):
            shares = [
                Share(ldid, region, self.draw(), self.getrandbits(32))
                for ldid, region in zip(hosts, regions, strict=False)
            ]
            self.open_hosts = len(shares)
            work = [*(self.host(share) for share in shares), self.management(shares)]
            for task in [cocotb.start_soon(one) for one in work]:
                await task
            await self.drain()
            await self.check_commits(shares)

    def draw(self) -> RegionConfig:
        """Place a small region of a random mode; reuse state areas only when memory is used up."""
        mode = self.choice(MODES)
        half = self.hw.mem_lines // 2
        self.layout.next_line = max(self.layout.next_line, half)
        workers = 1 if mode is Mode.IDENTITY else self.choice((1, 2, 5))
        log2 = 0 if mode is Mode.IDENTITY else self.randint(0, 2)
        try:
            return self.layout.region(mode, log2, workers, strict=self.random() < 0.5)
        except ValueError:  # a small memory is used up: start again with the oldest areas
            self.layout.next_line = half
            return self.layout.region(Mode.G_BINARY, 0, workers)

    # -- a host -------------------------------------------------------------------------------
    async def host(self, share: Share) -> None:
        """Act as a host: commit the descriptor of `share`, then send traffic and new commits."""
        rng = random.Random(self.getrandbits(32))
        first = self.commit_words(share.region, share.config, share.epoch)
        await self.call(self.line_write(first, share.ldid))
        for _ in range(4):
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
        """Write EPOCH or CLOSE of a region by control window and AXI4-Lite at the same time.

        Both commit, with different values of EPOCH, or one of them closes. Reads of INFO arrive
        meanwhile: those between the two writes find the state after the first one.
        """
        name = f"REGION[{share.region}]."
        mine, other = rng.sample(range(1 << 32), 2)
        plain = share.config.mode is Mode.IDENTITY
        closer = None if plain else rng.choice((None, "host", "AXI"))
        words = self.words({f"{name}CTRL": 1} if closer == "host" else {f"{name}EPOCH": mine})
        if closer != "host" and rng.random() < 0.6:
            strict, tie = rng.random() < 0.5, rng.random() < 0.5
            share.config = replace(share.config, strict=strict, tie_minus=tie)
            words = self.commit_words(share.region, share.config, mine)
        theirs = (f"{name}CTRL", 1) if closer == "AXI" else (f"{name}EPOCH", other)
        if rng.random() < 0.5:  # so that the first one is in progress when the second one arrives
            cocotb.start_soon(self.slow_memory(rng.randint(60, 160)))
        axi = cocotb.start_soon(self.delayed_write(*theirs, rng.randint(1, 80)))
        await self.cycles(rng.randint(1, 20))
        one = await self.issue(self.line_write(words, share.ldid))
        for _ in range(rng.randint(4, 12)):
            if plain or rng.random() < 0.3:
                await self.traffic(rng, share)
            else:
                line = rng.randrange(share.config.lines)
                await self.read_region(share.config, line, INFO_SELECTOR, limit=3)
        await one.wait()
        await axi
        if closer is not None:
            await self.registers.read(f"{name}STATUS")  # shows which one was the last
        share.epoch = await self.registers.read(f"{name}EPOCH")
        wanted = {None: (mine, other), "host": (other,), "AXI": (mine,)}[closer]
        assert share.epoch in wanted, f"{name}EPOCH is {share.epoch:#x}, expected one of {wanted}"
        await self.env.host.drain_if(partial(self.inside, share.config))

    async def slow_memory(self, cycles: int) -> None:
        """Stall the read channel of memory for `cycles`, so that a commit waits for reads."""
        self.mem.r_stall = 1.0
        await self.cycles(cycles)
        self.mem.r_stall = self.r_stall

    async def delayed_write(self, name: str, value: int, delay: int) -> None:
        """Write a register by AXI4-Lite after `delay` cycles."""
        await self.cycles(delay)
        await self.registers.write(name, value)

    @staticmethod
    def inside(config: RegionConfig, msg: M2SMessage) -> bool:
        """Return True if a request is to the window of the region."""
        return 0 <= msg.addr - config.base < config.window_lines * LINE_OF_BYTES

    def commits_of(self, rng: random.Random, share: Share) -> list[M2SRwD]:
        """Return one or two consecutive commits of a host's region through the control window.

        Each writes EPOCH alone, or all registers of the region and in some cases CLOSE.
        """
        out = []
        for _ in range(rng.choice((1, 1, 2))):
            share.epoch = rng.getrandbits(32)
            words = self.commit_words(share.region, share.config, share.epoch, rng.random() < 0.2)
            if rng.random() < 0.4:
                words = self.region_words(share.region, EPOCH=share.epoch)
            out.append(self.line_write(words, rng.choice((share.ldid, MANAGER))))
        return out

    async def traffic(self, rng: random.Random, share: Share) -> None:
        """Issue an access to the host's region or ordinary memory, or read the control window."""
        config, kind = share.config, rng.random()
        line = rng.randrange(config.lines)
        if kind < 0.55:
            await self.contribute(config, rng.randrange(config.workers), line, limit=2)
        elif kind < 0.75:
            await self.read_region(config, line, limit=2)
        elif kind < 0.9:
            line = rng.randrange(min(64, self.layout.plain_lines))
            await self.ordinary(rng.random() >= 0.5, line, 3)
        else:
            await self.issue(self.line_read(rng.choice((0, 1, 4, REGION_LINE + share.region))))

    # -- AXI4-Lite ----------------------------------------------------------------------------
    async def management(self, shares: list[Share]) -> None:
        """Act as software on AXI4-Lite until all hosts have ended.

        Read registers of the hosts' regions and of the device, rewrite registers with their values,
        clear IRQ_STATUS, and commit the third region.
        """
        rng = random.Random(self.getrandbits(32))
        leaves = ("EPOCH", "STATUS", "COMPLETE_LINES", "BASE_LO", "WORKERS", "OWNER_LD", "CONFIG")
        while self.open_hosts:
            await self.cycles(rng.randint(1, 30))
            share, kind = rng.choice(shares), rng.random()
            if kind < 0.5:
                await self.registers.read(f"REGION[{share.region}].{rng.choice(leaves)}")
            elif kind < 0.6:
                await self.read_registers(
                    rng.choice(("STATUS", "CONTRIBUTION", "DONE", "IRQ_STATUS"))
                )
            elif kind < 0.75:
                name = rng.choice(("CTRL_LD_MASK", "IRQ_ENABLE", "CAP_WINDOW"))
                await self.registers.write(name, self.env.predictor.values[name])
            elif kind < 0.85:
                await self.registers.write("IRQ_STATUS", 0x3F)
            elif self.third is not None:
                await self.commit(self.third)

    async def check_commits(self, shares: list[Share]) -> None:
        """Check by registers, control window and data that each host's last commit is in force."""
        for share in shares:
            found = await self.registers.read(f"REGION[{share.region}].EPOCH")
            assert found == share.epoch, f"region {share.region}: {found:#x}, not {share.epoch:#x}"
            await self.call(self.line_read(REGION_LINE + share.region))
            leaves = ("STATUS", "COMPLETE_LINES", "BASE_LO", "CONFIG")
            await self.read_registers(*leaves, region=share.region)
            for line in range(share.config.lines):
                await self.read_region(share.config, line, 0 if share.config.workers else None)
        await self.drain()


class CutCommitSequence(ControlSequence):
    """A commit through the control window that is still waiting when a reset arrives.

    `body` commits an FP32 region through the window; the test then calls `begin`, whose commit
    waits for an FP32 sum that memory does not return, and resets the device.
    """

    async def body(self) -> None:
        self.region, self.line = self.any_region(), self.randrange(4)
        self.config = self.layout.region(Mode.FP32, 2, self.randint(2, 5))
        await self.open(1 << MANAGER, {self.region: HOSTS[0]})
        await self.call(self.commit_write())
        await self.fill_lines(self.config, self.line)
        await self.read_region(self.config, self.line, 0)

    def commit_write(self) -> M2SRwD:
        """Return a write of all registers of the region, a commit, by its owner or `MANAGER`."""
        words = self.commit_words(self.region, self.config, self.getrandbits(32))
        return self.line_write(words, self.choice((HOSTS[0], MANAGER)))

    async def begin(self) -> None:
        """Send a read of a sum and a commit that waits for it; leave memory reads stalled.

        Raises:
            AssertionError: The commit was answered.
        """
        self.mem.r_stall = 1.0
        await self.read_region(self.config, self.line, 0)
        await self.cycles(40)
        commit = await self.issue(self.commit_write())
        await self.cycles(self.randint(80, 160))
        assert commit.response is None, "the commit did not wait for the sum"


class WaitingCommitSequence(CutCommitSequence):
    """A commit by AXI4-Lite while one of the same region by the control window waits for a sum.

    The AXI4-Lite commit is executed after the other one, and neither is lost.
    """

    async def body(self) -> None:
        await super().body()
        name = f"REGION[{self.region}].EPOCH"
        for _ in range(3):
            await self.begin()
            epoch = self.getrandbits(32)
            second = cocotb.start_soon(self.registers.write(name, epoch))
            await self.cycles(self.randint(1, 60))
            self.mem.r_stall = 0.0
            await second
            await self.drain()
            found = await self.registers.read(name)
            assert found == epoch, f"{name} is {found:#x}, not {epoch:#x} of the last commit"
            await self.fill_lines(self.config, self.line)


class MovedWindowSequence(ControlSequence):
    """Moves of the control window while hosts read and write it, with changing permissions."""

    async def body(self) -> None:
        region = self.any_region()
        await self.open(1 << MANAGER, {region: HOSTS[0]})
        places = [self.window.base, *(self.layout.control_window() for _ in range(2))]
        home, near, far = self.sample(places, 3)
        for number, place in enumerate((near, near, 0, 0, home, far)):  # 0 disables the window
            self.stop = False
            task = cocotb.start_soon(self.traffic(places, region))
            await self.cycles(self.randint(5, 60))
            if number % 3 == 2:
                await self.registers.write("CTRL_LD_MASK", self.choice((0, 1 << MANAGER)))
            elif number % 3 == 1:
                valid = self.getrandbits(1) << 8
                await self.registers.write(f"REGION[{region}].OWNER_LD", valid | HOSTS[0])
            await self.move_to(place)
            await self.cycles(self.randint(5, 40))
            self.stop = True
            await task
            await self.drain()
            await self.set_registers(ERR_INFO=1)  # which request was refused first is unknown

    async def traffic(self, places: list[int], region: int) -> None:
        """Read lines and write zeros to registers at all places of the window until `stop`.

        Some accesses write ordinary memory instead.
        """
        rng = random.Random(self.getrandbits(32))
        held = self.region_words(region, WORKERS=0, LINES_LOG2=0)
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
            await self.cycles(rng.randint(1, 6))


REGS = REG_MAP.expand()


class HeldStateSequence(ControlSequence):
    """Registers, flags and captures set to values that differ from those after reset.

    A test runs it before each of several resets. It first accesses the places that the control
    window and the regions had before the last reset, then sets everything anew.
    """

    places: ClassVar[list[int]] = []
    """Byte addresses of the control window and of the regions before the last reset."""

    async def body(self) -> None:
        for place in self.places:
            await self.fetch(place)
            await self.write(place, self.randbytes(LINE_OF_BYTES))
        await self.drain()
        await self.registers.write("ERR_INFO", 1)  # the next refusal is captured
        owners = {region: self.randrange(16) for region in range(self.hw.regions)}
        await self.open(self.randint(1, 0xFFFF), owners)
        for name in ("IRQ_ENABLE", "DEVLOAD_THRESHOLD"):
            await self.registers.write(name, REGS[name].fields[0].mask)
        await self.set_registers(CAP_THRESHOLD=0, CAP_WINDOW=self.randint(1, 256))
        self.configs: list[RegionConfig] = []
        for region in range(self.hw.regions):
            mode = Mode.G_TERNARY if region == 0 else self.choice((Mode.G_BINARY, Mode.G_TERNARY))
            self.configs.append(await self.start_region(region, mode, self.randint(1, 2), 2))
        await self.stir()
        type(self).places = [self.window.base, *(config.base for config in self.configs)]

    async def stir(self) -> None:
        """Cause events that set counters, flags and captures.

        In each region one line becomes complete, and another one gets an illegal code (G_TERNARY)
        and poison; about half of the epochs are closed. The last read is refused, and captured.
        """
        for region, config in enumerate(self.configs):
            await self.fill_lines(config, 0, wait=False)
            await self.contribute(config, 0, 1, ILLEGAL, poison=False)
            await self.fill_lines(config, 1, 1, poison=True)
            if region == 0 or self.random() < 0.5:
                await self.close(region)
        await self.fetch(self.configs[0].address(255, 0))  # refused, and captured


class ClearsSequence(HeldStateSequence):
    """Writes of every register that clears something, in turn: each clears nothing else.

    The scoreboard compares every register after each write. The writes run in a random order and in
    the reverse order, with all state set anew between: of any two, each comes first once.
    """

    async def body(self) -> None:
        type(self).places = []  # there is no case before it
        await super().body()
        order = self.shuffled(list(self.clears()))
        await self.write_each(order)
        for region in range(self.hw.regions):
            await self.commit(region)
        await self.stir()
        await self.write_each(order[::-1])

    async def write_each(self, order: list[tuple[str, int]]) -> None:
        """Write registers and read all registers after each write."""
        for name, value in order:
            await self.registers.write(name, value)
            await self.registers.read_all()

    def clears(self) -> Iterator[tuple[str, int]]:
        """Yield (register, value) of each write that clears something, with two commits."""
        yield "CTRL", REGS["CTRL"].pack(CLEAR_COUNTERS=1)
        for name in ("ERR_INFO", "LINK_ERR_INFO", "RAS_ERROR"):
            yield name, 1
        for field in REGS["IRQ_STATUS"].fields:
            if field.name in ("DONE", "FALLBACK", "ACCESS_ERROR", "POISON"):
                yield "IRQ_STATUS", field.mask
        for region in self.sample(range(self.hw.regions), 2):
            yield "FALLBACK", 1 << region
            yield f"REGION[{region}].EPOCH", self.getrandbits(32)

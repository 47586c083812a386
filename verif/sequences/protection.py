# SPDX-License-Identifier: Apache-2.0
"""Refused accesses with every cause, among legal ones that they must not disturb."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from cocotbext.cxl.wire.messages import BE_ALL, M2SMessage, M2SReq, M2SRwD, ReqOp, RwdOp
from models.line_packing import FIRST_EDITION, LINE_BYTES, Mode
from models.regions import (
    INFO_SELECTOR,
    SELECTOR_BITS,
    STATUS_SELECTOR,
    VIEW_SELECTORS,
    Access,
    Cause,
    RegionConfig,
    state_lines,
)
from verif.sequences.base import RACE_LIMIT, NfSequence
from verif.sequences.line_data import byte_enables, line_for, random_line

_ANSWERED = (ReqOp.MEM_RD, ReqOp.MEM_RD_DATA, ReqOp.MEM_INV, ReqOp.MEM_INV_NT, ReqOp.MEM_SPEC_RD)
_NOT_SUPPORTED = tuple(code for code in range(16) if code not in _ANSWERED)
_NOT_WRITES = tuple(code for code in range(16) if code not in tuple(RwdOp))


class ProtectionSequence(NfSequence):
    """Regions with LD_MASK and BIND; about half of the requests break a rule."""

    transactions: int = 200

    async def body(self) -> None:
        rng = self.rng
        modes = [Mode.G_BINARY, Mode.FP32, Mode.IDENTITY, Mode.G_TERNARY, Mode.FP32]
        self.configs: list[RegionConfig] = []
        count = min(len(modes), self.cfg.hw.regions)
        for number, region in enumerate(rng.sample(range(self.cfg.hw.regions), count)):
            mask = rng.getrandbits(16) | 1 << rng.randrange(16)
            bound = {"bind": True, "bind_shift": rng.randrange(3)}
            options = {"ld_mask": mask} if number % 2 == 0 else bound
            workers = rng.choice((1, 5, 16, 17, 63, 64, rng.randint(1, 64)))
            config = self.layout.region(modes[number], rng.randrange(3), workers, **options)
            self.configs.append(config)
            await self.commit(region, config)
        for _ in range(self.cfg.count(self.transactions)):
            await self.issue(self.one(), RACE_LIMIT)
        for config in self.configs:
            for message in self.at_the_edges(config):
                await self.issue(message, RACE_LIMIT)
        await self.drain()
        await self.answers_together()
        await self.capture()

    async def answers_together(self) -> None:
        """Plain reads among sums and votes, so that some are answered in one clock."""
        for config in self.configs:
            ldid = self.ldid_for(config, 0)
            for _ in range(24):
                line = self.rng.randrange(config.lines)
                await self.issue(M2SReq(ReqOp.MEM_RD, 0, config.address(0, line), ldid=ldid))
                for _ in range(self.rng.randrange(1, 5)):
                    await self.read(self.rng.randrange(8) << 6)
        await self.drain()

    def at_the_edges(self, config: RegionConfig) -> Iterator[M2SMessage]:
        """Each rule of a region just kept and just broken: W - 1 and W, bound and not, no bytes."""
        rng = self.rng
        ldids = [ldid for ldid in range(16) if config.ld_mask >> ldid & 1]
        w = config.workers
        for selector in sorted({0, w - 1, w, 63 + w, 64 + w}):
            addr = config.address(selector, rng.randrange(config.lines))
            for ldid in (config.owner(selector) & 15, rng.choice(ldids)):
                data = line_for(config.mode, rng)
                yield M2SReq(ReqOp.MEM_RD, 0, addr, ldid=ldid)
                yield M2SRwD(RwdOp.MEM_WR, 0, addr, ldid=ldid, data=data)
                for be in (0, byte_enables(rng)):
                    yield M2SRwD(RwdOp.MEM_WR_PTL, 0, addr, ldid=ldid, data=data, be=be)

    def one(self) -> M2SMessage:
        """A request of any kind to a place of any kind, by any LD-ID."""
        rng = self.rng
        config = rng.choice(self.configs)
        kind = rng.random()
        if kind < 0.55:
            addr = config.address(self.selector(config), rng.randrange(config.lines))
        elif kind < 0.70:  # a state area as ordinary memory, its edges included
            size = state_lines(config, self.cfg.hw.cnt_w)
            offset = rng.choice((-1, 0, size - 1, size, rng.randrange(size)))
            addr = config.state_base + (offset << 6)
        elif kind < 0.80:  # beyond the memory
            beyond = rng.choice((0, rng.getrandbits(30), rng.getrandbits(45), 1 << 45))
            addr = (self.layout.params.mem_lines + beyond << 6) % (1 << 52)
        else:
            addr = rng.randrange(8) << 6
        # By the low bits of the selector, too: it may be bound to this LD-ID, or to its alias.
        selector = addr >> 6 + config.lines_log2
        ldid = rng.choice((rng.randrange(16), config.owner(selector) & 15))
        if rng.random() < 0.5:
            opcode = ReqOp.MEM_RD if rng.random() < 0.6 else rng.choice(_NOT_SUPPORTED)
            return M2SReq(opcode, 0, addr, ldid=ldid)
        data = line_for(config.mode, rng)
        poison = rng.random() < 0.05
        kind = rng.random()
        if kind < 0.6:
            return M2SRwD(RwdOp.MEM_WR, 0, addr, ldid=ldid, data=data, poison=poison)
        if kind < 0.9:
            be = byte_enables(rng)
            return M2SRwD(RwdOp.MEM_WR_PTL, 0, addr, ldid=ldid, data=data, be=be, poison=poison)
        return M2SRwD(rng.choice(_NOT_WRITES), 0, addr, ldid=ldid, data=data)

    def selector(self, config: RegionConfig) -> int:
        """A selector: the edges of what each mode allows, their aliases 128 higher, or any."""
        w = config.workers
        edges = (0, 1, w - 1, w, 7, 8, 15, 16, 63, 64, 63 + w, 64 + w, 127, 255)
        selector = self.rng.choice((*edges, self.rng.randrange(256)))
        return selector ^ 128 if self.rng.random() < 0.1 else selector

    async def capture(self) -> None:
        """ERR_* hold the first refused access until re-armed."""
        registers = self.env.registers
        for _ in range(3):
            await registers.write("ERR_INFO.VALID", 1)
            assert not await registers.read("ERR_INFO.VALID"), "ERR_INFO.VALID was not cleared"
            message = self.refused()
            pending = await self.issue(message)
            await self.drain()
            await self.issue(self.refused())
            await self.drain()
            await registers.read("ERR_INFO")  # the register predictor compares it
            addr = await registers.read("ERR_ADDR_LO") | await registers.read("ERR_ADDR_HI") << 32
            tag = await registers.read("ERR_TAG")
            want = message.addr & ~63
            assert addr & ~63 == want, f"ERR_ADDR is {addr:#x}, expected {want:#x}"
            sent = pending.message.tag
            assert tag == sent, f"ERR_TAG is {tag:#x}, expected {sent:#x}"

    def refused(self) -> M2SMessage:
        """A request that is refused for certain."""
        while True:
            message = self.one()
            access: Access = self.env.scoreboard.model.decode(message)
            if int(access.cause):
                return message


class CombinedCausesSequence(NfSequence):
    """Every set of rules that one request can break, each the first since ERR_INFO was armed.

    The set is told from the request alone; which of its rules is the cause is the model's word.
    """

    draws: int = 600

    async def body(self) -> None:
        rng = self.rng
        modes = [rng.choice((Mode.G_BINARY, Mode.G_TERNARY)), Mode.FP32, Mode.IDENTITY]
        kinds: dict[tuple[object, ...], M2SMessage] = {}
        for region, mode in enumerate(modes[: self.cfg.hw.regions]):
            mask = rng.randint(1, 0xFFFE)
            shift = rng.randrange(3)
            workers = rng.randint(2, 14)
            config = self.layout.region(mode, 1, workers, ld_mask=mask, bind=True, bind_shift=shift)
            await self.commit(region, config)
            for _ in range(self.draws):
                place, ldid = self.place(config), rng.randrange(16)
                message = self.request(place[0](ldid), ldid)
                kinds.setdefault((mode, *self.broken(config, message, place[1])), message)
        messages = list(kinds.values())
        rng.shuffle(messages)
        for message in messages:
            await self.env.registers.write("ERR_INFO.VALID", 1)
            await self.issue(message)
            await self.drain()
            await self.env.registers.read("ERR_INFO")  # the register predictor compares it

    def place(self, config: RegionConfig) -> tuple[Callable[[int], int], str]:
        """An address, which may depend on the LD-ID, and what is there."""
        rng = self.rng
        kind = rng.random()
        if kind < 0.8:
            near = rng.choice((0, config.workers, rng.randrange(256)))
            own = rng.random() < 0.4
            return lambda ldid: config.address(ldid if own else near, 0), "window"
        if kind < 0.9:
            size = state_lines(config, self.cfg.hw.cnt_w)
            addr = config.state_base + (rng.randrange(size) << 6)
            return lambda _ldid: addr, "state area"
        addr = self.layout.params.mem_lines + rng.getrandbits(20) << 6
        return lambda _ldid: addr, "nothing"

    def request(self, addr: int, ldid: int) -> M2SMessage:
        """A read, a write, a request that changes nothing or one that is not supported."""
        rng = self.rng
        if rng.random() < 0.4:
            known = (ReqOp.MEM_RD, ReqOp.MEM_RD_DATA, ReqOp.MEM_INV, ReqOp.MEM_INV_NT)
            opcode = rng.choice((*known, rng.choice(_NOT_SUPPORTED)))
            return M2SReq(opcode, 0, addr, ldid=ldid)
        rare = rng.choice(_NOT_WRITES)
        opcode = rng.choice((RwdOp.MEM_WR, RwdOp.MEM_WR_PTL, RwdOp.MEM_WR_PTL, rare))
        return M2SRwD(opcode, 0, addr, ldid=ldid, data=random_line(rng), be=rng.getrandbits(64))

    def broken(self, config: RegionConfig, message: M2SMessage, place: str) -> tuple[object, ...]:
        """What tells a request from another one: where it goes and each rule that it breaks."""
        write = isinstance(message, M2SRwD)
        if place != "window":
            return place, write, int(message.opcode)
        selector = message.addr >> 6 + config.lines_log2 & 255
        workers = config.mode is not Mode.IDENTITY and write
        readable = (*self.read_selectors(config), *VIEW_SELECTORS)
        legal = selector < config.workers if workers else selector in readable
        return (
            write,
            int(message.opcode),
            config.ld_mask >> message.ldid & 1,
            legal,
            config.owner(selector) == message.ldid,
        )


class BindShiftSequence(NfSequence):
    """Every BIND_SHIFT in each kind of region: writes by the LD-ID that owns the selector, by the
    one that would own it without the shift, and by another one; then everything is read."""

    workers: int = 64
    """As many as 16 LD-IDs own with the largest shift."""

    async def body(self) -> None:
        rng = self.rng
        modes = (Mode.IDENTITY, rng.choice((Mode.G_BINARY, Mode.G_TERNARY)), Mode.FP32)
        for shift, mode in itertools.product(range(3), modes):
            bound = {"bind": True, "bind_shift": shift}
            config = self.layout.region(mode, 0, self.workers, **bound)
            await self.commit(rng.randrange(self.cfg.hw.regions), config)
            # Ends of what the first and the last LD-ID own, and what only the shift tells apart.
            owned = 16 << shift
            edges = {0, 1, 2, 3, 4, 7, 8, 15, owned - 1, owned % 64, rng.randrange(owned)}
            selectors = rng.sample(sorted(edges), len(edges))
            for selector in selectors:
                for ldid in {config.owner(selector) & 15, selector & 15, rng.randrange(16)}:
                    await self.contribute(config, selector, 0, limit=RACE_LIMIT, ldid=ldid)
            await self.drain()
            for selector in {0, *selectors} if mode is Mode.IDENTITY else {0, INFO_SELECTOR}:
                await self.read(config.address(selector, 0))
            await self.drain()


class NeighbourSequence(NfSequence):
    """Refused writes all around a line that must keep its value."""

    async def body(self) -> None:
        config = self.layout.region(Mode.IDENTITY, 1, 1, ld_mask=0x0002)
        await self.commit(0, config)
        rng = self.rng
        inside = config.address(3, 1)
        backing = config.state_base + ((3 << 1 | 1) << 6)
        value = random_line(rng)
        await self.write(inside, value, ldid=1)
        await self.drain()
        for ldid in range(16):
            if ldid != 1:
                await self.write(inside, random_line(rng), ldid=ldid)
                await self.read(inside, ldid=ldid)
            await self.write(backing, random_line(rng), ldid=ldid)
            await self.read(backing, ldid=ldid)
        await self.drain()
        assert (await self.fetch(inside, ldid=1)).data == value


# Every access that a region knows, by hosts that it admits and by hosts that it does not.


MODES = (Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32, Mode.G_INT4, Mode.G_INT8, Mode.IDENTITY)


class StrangersSequence(NfSequence):
    """LD_MASK is drawn. What a stranger asks for is refused, whatever the selector tells.

    The scoreboard compares each answer; the cause of each refusal is compared here.
    """

    async def body(self) -> None:
        rng = self.rng
        region = rng.randrange(self.cfg.hw.regions)
        for mode in rng.sample(MODES, len(MODES)):
            mask = rng.randint(1, 0xFFFE)
            config = self.layout.region(mode, rng.randrange(2), 3, ld_mask=mask)
            await self.commit(region, config)
            for worker in range(config.workers):
                await self.contribute(config, worker, 0)
            await self.drain()
            await self.each(config)

    async def each(self, config: RegionConfig) -> None:
        """Every kind of read, and a write, by one host of each sort, in any order.

        Poison in a write that is refused is not received.
        """
        rng, registers = self.rng, self.env.registers
        hosts = [[k for k in range(16) if config.ld_mask >> k & 1 == known] for known in (0, 1)]
        selectors = self.read_selectors(config)
        if config.mode is Mode.IDENTITY:
            selectors = [0, STATUS_SELECTOR, *rng.sample(selectors, 4)]
        else:
            selectors += VIEW_SELECTORS
        for selector in rng.sample(selectors, len(selectors)):
            for known in rng.sample((0, 1), 2):
                await registers.write("ERR_INFO", 1)
                await self.fetch(config.address(selector, 0), ldid=rng.choice(hosts[known]))
                await self.check(not known)
        for known in rng.sample((0, 1), 2):
            await registers.write("ERR_INFO", 1)
            worker = rng.randrange(config.workers)
            host, poison = rng.choice(hosts[known]), not known or rng.random() < 0.5
            await self.contribute(config, worker, 0, ldid=host, poison=poison)
            await self.drain()
            await self.check(not known)

    async def check(self, refused: bool) -> None:
        """The access was refused because of its LD-ID, or was not refused."""
        info = await self.env.registers.read("ERR_INFO.VALID")
        assert info == refused, f"ERR_INFO.VALID is {info}"
        if refused:
            assert await self.env.registers.read("ERR_INFO.CAUSE") == Cause.LD_MASK


# Every selector where its meaning changes, by every opcode, mode and kind of logical device.


READS = (ReqOp.MEM_RD, ReqOp.MEM_RD_DATA)
WRITES = (RwdOp.MEM_WR, RwdOp.MEM_WR_PTL)
NO_DATA = (ReqOp.MEM_INV, ReqOp.MEM_INV_NT, ReqOp.MEM_RD_FWD, ReqOp.MEM_WR_FWD, 15)
BOUND = 3
"""A worker who has an LD-ID of its own in a region with BIND."""
REPEATS = 3


class EveryAccessSequence(NfSequence):
    """Opcodes x selectors x modes; LD-IDs that may, that may not, and that are bound elsewhere."""

    async def body(self) -> None:
        rng = self.rng
        for region, mode in enumerate(FIRST_EDITION):
            workers = rng.randint(20, 60)
            config = self.layout.region(mode, 1, workers, ld_mask=0xFFF0)
            await self.commit(region, config)
            await self.selectors(config)
            bound = self.layout.region(mode, 0, 16, ld_mask=0x00FF, bind=True)
            await self.commit(region + len(FIRST_EDITION), bound)
            for _ in range(REPEATS):
                await self.devices(bound)
            await self.other_opcodes(config)
            await self.edges(config)
            await self.missed(bound)
        await self.drain()

    async def selectors(self, config: RegionConfig) -> None:
        """Each opcode at each selector."""
        w = config.workers
        edges = {0, w - 1, w, 7, 8, 15, 16, 63, 64, 63 + w, 64 + w, 255, 200}
        work: list[tuple[int, ReqOp | RwdOp]] = [
            (selector, opcode) for selector in edges for opcode in (*READS, *WRITES)
        ]
        self.rng.shuffle(work)
        for selector, opcode in work:
            line = self.rng.randrange(config.lines)
            await self.issue(self.message(opcode, config.address(selector, line), config.mode), 1)
        await self.drain()

    async def devices(self, config: RegionConfig) -> None:
        """Each opcode from a device that may, one that may not, one that is bound to another."""
        for opcode in (*READS, *WRITES):
            address = config.address(BOUND if opcode in WRITES else 0, 0)
            for ldid in (BOUND, 12, BOUND + 1):
                await self.issue(self.message(opcode, address, config.mode, ldid), 1)
        await self.drain()

    async def other_opcodes(self, config: RegionConfig) -> None:
        """Opcodes that touch no data: in memory, window and state area, and beyond the memory."""
        beyond = self.cfg.hw.mem_lines * LINE_BYTES + 64 * self.rng.randrange(64)
        for address in (0, config.base, config.state_base, beyond):
            for opcode in NO_DATA:
                await self.issue(M2SReq(opcode, 0, address, ldid=5), 1)
            data = line_for(config.mode, self.rng)
            await self.issue(M2SRwD(9, 0, address, ldid=5, data=data), 1)
        await self.drain()

    async def edges(self, config: RegionConfig) -> None:
        """The first and the last line of the state area as ordinary memory, and those beside it."""
        first = config.state_line
        behind = first + state_lines(config, self.cfg.hw.cnt_w)
        for line in (first - 1, first, behind - 1, behind):
            await self.write(line * LINE_BYTES, line_for(config.mode, self.rng), 1)
            await self.read(line * LINE_BYTES, 1)
        await self.drain()

    async def missed(self, config: RegionConfig) -> None:
        """Addresses that miss the window in a single bit."""
        shift = LINE_BYTES.bit_length() - 1 + config.lines_log2 + SELECTOR_BITS
        for bit in range(shift, 52):
            await self.read(config.address(8, 0) ^ 1 << bit, 1)
        await self.drain()

    def message(self, opcode: int, address: int, mode: Mode, ldid: int = 7) -> M2SMessage:
        """A request by its opcode."""
        if opcode in READS and isinstance(opcode, ReqOp):
            return M2SReq(opcode, 0, address, ldid=ldid)
        data = line_for(mode, self.rng)
        be = BE_ALL if opcode == RwdOp.MEM_WR else self.rng.getrandbits(64)
        return M2SRwD(opcode, 0, address, ldid=ldid, data=data, be=be)

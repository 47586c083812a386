# SPDX-License-Identifier: Apache-2.0
"""Refused accesses with every cause, mixed with legal accesses that they must not disturb."""

from collections.abc import Iterator
from itertools import product
from typing import Any

from cocotbext.cxl.wire.messages import BE_ALL, M2SMessage, M2SReq, M2SRwD, ReqOp, RwdOp
from models import regions
from models.access_decode import Cause
from models.commit_check import most_workers
from models.control_window import CONTROL_LINES
from models.line_packing import LINE_BYTES
from models.modes import FIRST_EDITION, Mode
from verif.sequences.base import RACE_LIMIT, NfSequence
from verif.sequences.line_data import byte_enables, line_for, random_line

_ANSWERED = (ReqOp.MEM_RD, ReqOp.MEM_RD_DATA, ReqOp.MEM_INV, ReqOp.MEM_INV_NT, ReqOp.MEM_SPEC_RD)
_NOT_SUPPORTED = tuple(code for code in range(16) if code not in _ANSWERED)
_NOT_WRITES = tuple(code for code in range(16) if code not in tuple(RwdOp))


class ProtectionSequence(NfSequence):
    """Random requests to regions with LD_MASK or BIND, of which about half break a rule.

    The scoreboard checks that refused requests have no effect, and ERR_* their cause.
    """

    async def body(self) -> None:
        modes = [Mode.G_BINARY, Mode.FP32, Mode.IDENTITY, Mode.G_TERNARY, Mode.FP32]
        self.configs: list[regions.RegionConfig] = []
        count = min(len(modes), self.hw.regions)
        for number, region in enumerate(self.sample(range(self.hw.regions), count)):
            mask = self.getrandbits(16) | 1 << self.randrange(16)
            bound = {"bind": True, "bind_shift": self.randrange(3)}
            options: dict[str, Any] = {"ld_mask": mask} if number % 2 == 0 else bound
            workers = self.choice((1, 5, 16, 17, 63, 64, self.randint(1, 64)))
            lines_log2 = self.randrange(3)
            config = await self.start_region(region, modes[number], lines_log2, workers, **options)
            self.configs.append(config)
        for _ in range(self.cfg.count(200)):
            await self.issue(self.one(), RACE_LIMIT)
        for config in self.configs:
            for message in self.at_the_edges(config):
                await self.issue(message, RACE_LIMIT)
        await self.drain()
        await self.answers_together()
        await self.capture()

    async def answers_together(self) -> None:
        """Mix plain reads with sums and votes: some responses are ready in the same cycle."""
        for config in self.configs:
            ldid = self.ldid_for(config, 0)
            for _ in range(24):
                line = self.randrange(config.lines)
                await self.issue(M2SReq(ReqOp.MEM_RD, 0, config.address(0, line), ldid=ldid))
                for _ in range(self.randrange(1, 5)):
                    await self.read(self.randrange(8) * LINE_BYTES)
        await self.drain()

    def at_the_edges(self, config: regions.RegionConfig) -> Iterator[M2SMessage]:
        """Yield requests that just keep or break a rule: workers W - 1 and W, owner, no bytes."""
        ldids = [ldid for ldid in range(16) if config.ld_mask >> ldid & 1]
        w = config.workers
        for selector in sorted({0, w - 1, w, 63 + w, 64 + w}):
            addr = config.address(selector, self.randrange(config.lines))
            for ldid in (config.owner(selector) & 15, self.choice(ldids)):
                data = line_for(config.mode, self.rng)
                yield M2SReq(ReqOp.MEM_RD, 0, addr, ldid=ldid)
                yield M2SRwD(RwdOp.MEM_WR, 0, addr, ldid=ldid, data=data)
                for be in (0, byte_enables(self.rng)):
                    yield M2SRwD(RwdOp.MEM_WR_PTL, 0, addr, ldid=ldid, data=data, be=be)

    def one(self) -> M2SMessage:
        """Return a random request, with any LD-ID, to an address that `place` draws."""
        config = self.choice(self.configs)
        addr = self.place(config)
        # Often the owner by the low bits of the selector, or an alias of it.
        selector = addr >> 6 + config.lines_log2
        ldid = self.choice((self.randrange(16), config.owner(selector) & 15))
        if self.random() < 0.5:
            opcode = ReqOp.MEM_RD if self.random() < 0.6 else self.choice(_NOT_SUPPORTED)
            return M2SReq(opcode, 0, addr, ldid=ldid)
        data = line_for(config.mode, self.rng)
        poison = self.random() < 0.05
        kind = self.random()
        if kind < 0.6:
            return M2SRwD(RwdOp.MEM_WR, 0, addr, ldid=ldid, data=data, poison=poison)
        if kind < 0.9:
            be = byte_enables(self.rng)
            return M2SRwD(RwdOp.MEM_WR_PTL, 0, addr, ldid=ldid, data=data, be=be, poison=poison)
        return M2SRwD(self.choice(_NOT_WRITES), 0, addr, ldid=ldid, data=data)

    def place(self, config: regions.RegionConfig) -> int:
        """Draw a byte address in the region, at its state area, beyond the memory, or in memory."""
        kind = self.random()
        if kind < 0.55:
            return config.address(self.selector(config), self.randrange(config.lines))
        if kind < 0.70:  # a state area as ordinary memory, its edges included
            size = regions.state_lines(config, self.hw.cnt_w)
            offset = self.choice((-1, 0, size - 1, size, self.randrange(size)))
            return config.state_base + offset * LINE_BYTES
        if kind < 0.80:
            beyond = self.choice((0, self.getrandbits(30), self.getrandbits(45), 1 << 45))
            return (self.layout.params.mem_lines + beyond << 6) % (1 << 52)
        return self.randrange(8) * LINE_BYTES

    def selector(self, config: regions.RegionConfig) -> int:
        """Draw a selector: an edge of a mode's ranges, one with bit 7 inverted, or any."""
        w = config.workers
        edges = (0, 1, w - 1, w, 7, 8, 15, 16, 63, 64, 63 + w, 64 + w, 127, 255)
        selector = self.choice((*edges, self.randrange(256)))
        return selector ^ 128 if self.random() < 0.1 else selector

    async def capture(self) -> None:
        """Check that the ERR_* registers hold the first refused access until they are re-armed."""
        for _ in range(3):
            await self.registers.write("ERR_INFO.VALID", 1)
            assert not await self.registers.read("ERR_INFO.VALID"), "ERR_INFO.VALID was not cleared"
            message = self.refused()
            pending = await self.issue(message)
            await self.drain()
            await self.issue(self.refused())
            await self.drain()
            await self.read_registers("ERR_INFO")  # the register predictor compares it
            addr = await self.registers.read("ERR_ADDR_LO")
            addr |= await self.registers.read("ERR_ADDR_HI") << 32
            tag = await self.registers.read("ERR_TAG")
            want = message.addr & ~63
            assert addr & ~63 == want, f"ERR_ADDR is {addr:#x}, expected {want:#x}"
            sent = pending.message.tag
            assert tag == sent, f"ERR_TAG is {tag:#x}, expected {sent:#x}"

    def refused(self) -> M2SMessage:
        """Return a random request that the model refuses."""
        while True:
            message = self.one()
            if int(self.env.scoreboard.model.decode(message).cause):
                return message


class CombinedCausesSequence(NfSequence):
    """Requests that break each possible set of rules, each alone after ERR_INFO was armed.

    The set is computed from the request alone; the model decides which of its rules is the cause,
    and the register predictor compares ERR_INFO. No LD-ID may write in the control window. The
    regions are one of FP32, one of IDENTITY and one of another mode.
    """

    async def body(self) -> None:
        self.control = self.layout.control_window()
        await self.write_window(self.control)
        low_bit = [one for one in self.own_modes if one.low_bit]
        modes = (self.choice(low_bit), Mode.FP32, Mode.IDENTITY)
        kinds: dict[tuple[object, ...], M2SMessage] = {}
        for region, mode in zip(self.sample(range(self.hw.regions), 3), modes, strict=True):
            mask, shift = self.randint(1, 0xFFFE), self.randrange(3)
            workers = self.randint(2, most_workers(mode, self.hw))
            bound: dict[str, Any] = {"ld_mask": mask, "bind": True, "bind_shift": shift}
            config = await self.start_region(region, mode, 1, workers, **bound)
            for _ in range(600):
                selector, addr, place = self.place(config)
                ldid = self.randrange(16)
                if place == "window":
                    addr = config.address(ldid if selector is None else selector, 0)
                message = self.request(addr, ldid)
                kinds.setdefault((mode, *self.broken(config, message, place)), message)
        messages = list(kinds.values())
        self.rng.shuffle(messages)
        for message in messages:
            await self.registers.write("ERR_INFO.VALID", 1)
            await self.issue(message)
            await self.drain()
            await self.read_registers("ERR_INFO")  # the register predictor compares it

    def place(self, config: regions.RegionConfig) -> tuple[int | None, int, str]:
        """Draw a place for a request.

        Returns:
            The selector inside the window (None: the LD-ID of the request), the address of another
            place, and the kind of place: "window", "state area", "control" or "nothing".
        """
        kind = self.random()
        if kind < 0.8:
            near = self.choice((0, config.workers, self.randrange(256)))
            return None if self.random() < 0.4 else near, 0, "window"
        if kind < 0.84:
            return 0, self.control + self.randrange(CONTROL_LINES) * LINE_BYTES, "control"
        if kind < 0.92:
            size = regions.state_lines(config, self.hw.cnt_w)
            return 0, config.state_base + self.randrange(size) * LINE_BYTES, "state area"
        return 0, self.layout.params.mem_lines + self.getrandbits(20) << 6, "nothing"

    def request(self, addr: int, ldid: int) -> M2SMessage:
        """Return a random read, write, request without effect (MemInv) or unsupported one."""
        if self.random() < 0.4:
            known = (ReqOp.MEM_RD, ReqOp.MEM_RD_DATA, ReqOp.MEM_INV, ReqOp.MEM_INV_NT)
            opcode = self.choice((*known, self.choice(_NOT_SUPPORTED)))
            return M2SReq(opcode, 0, addr, ldid=ldid)
        rare = self.choice(_NOT_WRITES)
        opcode = self.choice((RwdOp.MEM_WR, RwdOp.MEM_WR_PTL, RwdOp.MEM_WR_PTL, rare))
        be = self.choice((BE_ALL, self.getrandbits(64)))  # whole words, and parts of words
        poison, data = self.random() < 0.3, random_line(self.rng)
        return M2SRwD(opcode, 0, addr, ldid=ldid, data=data, be=be, poison=poison)

    def broken(
        self, config: regions.RegionConfig, message: M2SMessage, place: str
    ) -> tuple[object, ...]:
        """Return a key of the rules that a request breaks: write, opcode, state of each rule.

        Outside the window: the kind of place, write, opcode, whole words, and poison.
        """
        write = isinstance(message, M2SRwD)
        if place != "window":
            data = (message.be == BE_ALL, message.poison) if isinstance(message, M2SRwD) else ()
            return place, write, int(message.opcode), *data
        selector = message.addr >> 6 + config.lines_log2 & 255
        workers = config.mode is not Mode.IDENTITY and write
        readable = (*self.read_selectors(config), *regions.VIEW_SELECTORS)
        legal = selector < config.workers if workers else selector in readable
        admitted = config.ld_mask >> message.ldid & 1
        return write, int(message.opcode), admitted, legal, config.owner(selector) == message.ldid


class BindShiftSequence(NfSequence):
    """Writes to regions with BIND and each BIND_SHIFT, in each kind of region.

    They come from the LD-ID that owns the selector, from the one that would own it without the
    shift, and from another one; then everything is read.
    """

    async def body(self) -> None:
        modes = (Mode.IDENTITY, self.choice((Mode.G_BINARY, Mode.G_TERNARY)), Mode.FP32)
        for shift, mode in product(range(3), modes):
            config = await self.start_region(None, mode, 0, 64, bind=True, bind_shift=shift)
            # Ends of the ranges of the first and the last LD-ID, and selectors that depend on the
            # shift.
            owned = 16 << shift
            edges = {0, 1, 2, 3, 4, 7, 8, 15, owned - 1, owned % 64, self.randrange(owned)}
            selectors = self.sample(sorted(edges), len(edges))
            for selector in selectors:
                for ldid in {config.owner(selector) & 15, selector & 15, self.randrange(16)}:
                    await self.contribute(config, selector, 0, limit=RACE_LIMIT, ldid=ldid)
            await self.drain()
            chosen = {0, *selectors} if mode is Mode.IDENTITY else {0, regions.INFO_SELECTOR}
            await self.read_addresses(config.address(selector, 0) for selector in chosen)


class NeighbourSequence(NfSequence):
    """Refused writes to a line of an IDENTITY region and to its memory line: it keeps its value."""

    async def body(self) -> None:
        config = await self.start_region(0, Mode.IDENTITY, 1, 1, ld_mask=0x0002)
        inside = config.address(3, 1)
        backing = config.state_base + (3 << 1 | 1) * LINE_BYTES
        value = random_line(self.rng)
        await self.write(inside, value, ldid=1)
        await self.drain()
        for ldid, addr in product(range(16), (inside, backing)):
            if ldid != 1 or addr == backing:
                await self.write(addr, random_line(self.rng), ldid=ldid)
                await self.read(addr, ldid=ldid)
        await self.drain()
        found = (await self.fetch(inside, ldid=1)).data
        assert found == value, f"line {inside:#x} changed from {value.hex()} to {found.hex()}"


MODES = (Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32, Mode.G_INT4, Mode.G_INT8, Mode.IDENTITY)


class StrangersSequence(NfSequence):
    """Every kind of access to a region, from LD-IDs that LD_MASK admits and from others.

    LD_MASK is drawn. The scoreboard checks the responses, this sequence the cause of each refusal.
    """

    async def body(self) -> None:
        region = self.any_region()
        for mode in self.shuffled(MODES):
            mask = self.randint(1, 0xFFFE)
            config = await self.start_region(region, mode, self.randrange(2), 3, ld_mask=mask)
            await self.fill_lines(config, 0)
            await self.each(config)

    async def each(self, config: regions.RegionConfig) -> None:
        """Send reads of each selector and a write, as an admitted and as a refused LD-ID.

        Poison in a refused write is not counted as received.
        """
        hosts = [[k for k in range(16) if config.ld_mask >> k & 1 == known] for known in (0, 1)]
        selectors = self.read_selectors(config)
        if config.mode is Mode.IDENTITY:
            selectors = [0, regions.STATUS_SELECTOR, *self.sample(selectors, 4)]
        else:
            selectors += regions.VIEW_SELECTORS
        for selector, known in self.shuffled([*product(selectors, (0, 1))]):
            await self.registers.write("ERR_INFO", 1)
            await self.fetch(config.address(selector, 0), ldid=self.choice(hosts[known]))
            await self.check(not known)
        for known in self.sample((0, 1), 2):
            await self.registers.write("ERR_INFO", 1)
            worker = self.randrange(config.workers)
            host, poison = self.choice(hosts[known]), not known or self.random() < 0.5
            await self.fill_lines(config, 0, worker, ldid=host, poison=poison)
            await self.check(not known)

    async def check(self, refused: bool) -> None:
        """Check by ERR_INFO that the access was refused with cause LD_MASK, or was not refused."""
        info = await self.registers.read("ERR_INFO.VALID")
        assert info == refused, f"ERR_INFO.VALID is {info}, expected {int(refused)}"
        if refused:
            cause = await self.registers.read("ERR_INFO.CAUSE")
            assert cause == Cause.LD_MASK, f"ERR_INFO.CAUSE is {cause}, expected LD_MASK"


READS = (ReqOp.MEM_RD, ReqOp.MEM_RD_DATA)
WRITES = (RwdOp.MEM_WR, RwdOp.MEM_WR_PTL)
NO_DATA = (ReqOp.MEM_INV, ReqOp.MEM_INV_NT, ReqOp.MEM_RD_FWD, ReqOp.MEM_WR_FWD, 15)
BOUND = 3
"""Worker that an LD-ID owns in a region with BIND."""
REPEATS = 3


class EveryAccessSequence(NfSequence):
    """Accesses to edge selectors with each opcode, mode and LD-ID: owner, other or refused."""

    async def body(self) -> None:
        for region, mode in enumerate(FIRST_EDITION):
            workers = self.randint(20, 60)
            config = await self.start_region(region, mode, 1, workers, ld_mask=0xFFF0)
            await self.selectors(config)
            last = region + len(FIRST_EDITION)
            bound = await self.start_region(last, mode, 0, 16, ld_mask=0x00FF, bind=True)
            for _ in range(REPEATS):
                await self.devices(bound)
            await self.other_opcodes(config)
            await self.edges(config)
            await self.missed(bound)
        await self.drain()

    async def selectors(self, config: regions.RegionConfig) -> None:
        """Send reads and writes of each opcode to each selector at which the meaning changes."""
        w = config.workers
        edges = {0, w - 1, w, 7, 8, 15, 16, 63, 64, 63 + w, 64 + w, 255, 200}
        work = list(product(edges, (*READS, *WRITES)))
        self.rng.shuffle(work)
        for selector, opcode in work:
            line = self.randrange(config.lines)
            await self.issue(self.message(opcode, config.address(selector, line), config.mode), 1)
        await self.drain()

    async def devices(self, config: regions.RegionConfig) -> None:
        """Send each opcode as the owner, as a refused LD-ID and as the LD-ID of another worker."""
        for opcode in (*READS, *WRITES):
            address = config.address(BOUND if opcode in WRITES else 0, 0)
            for ldid in (BOUND, 12, BOUND + 1):
                await self.issue(self.message(opcode, address, config.mode, ldid), 1)
        await self.drain()

    async def other_opcodes(self, config: regions.RegionConfig) -> None:
        """Send opcodes without data, and a reserved one, to memory, window, state area, beyond."""
        beyond = self.hw.mem_lines * LINE_BYTES + LINE_BYTES * self.randrange(64)
        for address in (0, config.base, config.state_base, beyond):
            for opcode in NO_DATA:
                await self.issue(M2SReq(opcode, 0, address, ldid=5), 1)
            data = line_for(config.mode, self.rng)
            await self.issue(M2SRwD(9, 0, address, ldid=5, data=data), 1)
        await self.drain()

    async def edges(self, config: regions.RegionConfig) -> None:
        """Write and read the lines at both ends of the state area by their memory addresses."""
        first = config.state_line
        end = first + regions.state_lines(config, self.hw.cnt_w)
        for line in (first - 1, first, end - 1, end):
            await self.write(line * LINE_BYTES, line_for(config.mode, self.rng), 1)
            await self.read(line * LINE_BYTES, 1)
        await self.drain()

    async def missed(self, config: regions.RegionConfig) -> None:
        """Read addresses that differ from one in the window in a single bit above it."""
        shift = LINE_BYTES.bit_length() - 1 + config.lines_log2 + regions.SELECTOR_BITS
        address = config.address(8, 0)
        await self.read_addresses((address ^ 1 << bit for bit in range(shift, 52)), limit=1)

    def message(self, opcode: int, address: int, mode: Mode, ldid: int = 7) -> M2SMessage:
        """Return a request with this opcode: a read, or a write of data for `mode`."""
        if opcode in READS and isinstance(opcode, ReqOp):
            return M2SReq(opcode, 0, address, ldid=ldid)
        data = line_for(mode, self.rng)
        be = BE_ALL if opcode == RwdOp.MEM_WR else self.getrandbits(64)
        return M2SRwD(opcode, 0, address, ldid=ldid, data=data, be=be)

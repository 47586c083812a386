# SPDX-License-Identifier: Apache-2.0
"""Every selector where its meaning changes, by every opcode, mode and kind of logical device."""

from __future__ import annotations

from cocotbext.cxl.wire.messages import BE_ALL, M2SMessage, M2SReq, M2SRwD, ReqOp, RwdOp
from models.line_packing import FIRST_EDITION, LINE_BYTES, Mode
from models.regions import SELECTOR_BITS, RegionConfig, state_lines
from verif.sequences.base import NfSequence
from verif.sequences.line_data import line_for

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

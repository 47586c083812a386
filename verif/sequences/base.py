# SPDX-License-Identifier: Apache-2.0
"""Base of all virtual sequences: the environment, and methods for traffic and commits."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from pyuvm import uvm_sequence

from cocotbext.cxl.wire.messages import (
    BE_ALL,
    S2MDRS,
    M2SMessage,
    M2SReq,
    M2SRwD,
    ReqOp,
    RwdOp,
    S2MMessage,
)
from models.line_packing import Mode
from models.regions import (
    INFO_SELECTOR,
    PLANE_COUNT,
    PLANE_SELECTOR,
    CommitCode,
    RegionConfig,
    sum_selectors,
)
from verif.env.region_layout import RegionLayout
from verif.sequences.line_data import line_for

if TYPE_CHECKING:
    from verif.env.env import NfEnv

RACE_LIMIT = 5
"""Most racing requests on one line: the scoreboard tries all of their orders."""


class NfSequence(uvm_sequence):
    """A virtual sequence: traffic through `env.host`, registers through `env.registers`.

    A scenario that is written in its test calls these methods of the base alone.
    """

    def __init__(self, env: NfEnv, **options: Any) -> None:
        super().__init__(type(self).__name__)
        self.env = env
        self.cfg = env.cfg
        self.rng: random.Random = env.rng
        self.layout: RegionLayout = env.layout
        self.epoch = self.rng.getrandbits(32)
        for name, value in options.items():
            if not hasattr(type(self), name):
                raise AttributeError(f"{type(self).__name__} has no option {name}")
            setattr(self, name, value)

    async def run(self) -> None:
        """Runs the sequence (it needs no sequencer of its own) and waits for its last answer."""
        await self.start()
        await self.env.host.drain()

    # -- registers ----------------------------------------------------------------------------
    async def commit(
        self, region: int, config: RegionConfig | None = None, expect: CommitCode = CommitCode.OK
    ) -> None:
        """Starts a new epoch; AssertionError if the device gives another code than `expect`."""
        self.epoch = (self.epoch + self.rng.choice((0, 1, 1, 2))) & 0xFFFF_FFFF
        code = await self.env.registers.commit(region, config, self.epoch)
        assert code == expect, f"commit of region {region} gave {code.name}, not {expect.name}"

    async def initialised(self) -> None:
        """Waits until the initialiser has nothing more to do."""
        while await self.env.registers.read("STATUS.INIT_BUSY"):
            pass

    async def close(self, region: int) -> None:
        """Ends the round of a region."""
        await self.env.registers.write(f"REGION[{region}].CTRL", 1)

    # -- traffic ------------------------------------------------------------------------------
    async def issue(self, msg: M2SMessage, limit: int | None = None) -> Any:
        """Hands a request to the driver; returns its `Transaction`, without waiting for its end."""
        return await self.env.host.issue(msg, limit)

    async def call(self, msg: M2SMessage) -> S2MMessage:
        """Sends a request and waits for its answer."""
        response = await self.env.host.call(msg)
        assert response is not None, "no answer is owed to this request"
        return response

    def write_msg(
        self,
        addr: int,
        data: bytes,
        ldid: int | None = None,
        poison: bool = False,
        be: int | None = None,
    ) -> M2SRwD:
        """A MemWr, or with `be` a MemWrPtl. The LD-ID is random unless given."""
        opcode = RwdOp.MEM_WR if be is None else RwdOp.MEM_WR_PTL
        enables = BE_ALL if be is None else be
        who = self.rng.randrange(16) if ldid is None else ldid
        return M2SRwD(opcode, 0, addr, ldid=who, data=data, be=enables, poison=poison)

    def read_msg(self, addr: int, ldid: int | None = None) -> M2SReq:
        """A MemRd or a MemRdData."""
        opcode = ReqOp.MEM_RD if self.rng.random() < 0.8 else ReqOp.MEM_RD_DATA
        who = self.rng.randrange(16) if ldid is None else ldid
        return M2SReq(opcode, 0, addr, ldid=who)

    async def write(self, addr: int, data: bytes, limit: int | None = None, **fields: Any) -> Any:
        """Issues a write."""
        return await self.issue(self.write_msg(addr, data, **fields), limit)

    async def read(self, addr: int, limit: int | None = None, **fields: Any) -> Any:
        """Issues a read."""
        return await self.issue(self.read_msg(addr, **fields), limit)

    async def fetch(self, addr: int, **fields: Any) -> S2MDRS:
        """Reads a line and waits for it."""
        response = await self.call(self.read_msg(addr, **fields))
        assert isinstance(response, S2MDRS), f"read of {addr:#x} answered by {response}"
        return response

    async def drain(self) -> None:
        """Waits until every request is answered."""
        await self.env.host.drain()

    # -- aggregation --------------------------------------------------------------------------
    def ldid_for(self, config: RegionConfig, worker: int) -> int:
        """An LD-ID that the region admits for this worker."""
        if config.bind:
            return config.owner(worker)
        return self.rng.choice([k for k in range(16) if config.ld_mask >> k & 1])

    async def contribute(
        self,
        config: RegionConfig,
        worker: int,
        line: int,
        data: bytes | None = None,
        limit: int | None = None,
        **fields: Any,
    ) -> Any:
        """Issues a contribution of a worker to a line (`data`: a random legal line by default)."""
        if data is None:
            data = line_for(config.mode, self.rng)
        fields.setdefault("ldid", self.ldid_for(config, worker))
        return await self.write(config.address(worker, line), data, limit, **fields)

    def read_selectors(self, config: RegionConfig) -> list[int]:
        """Selectors that may be read in a mode, at any line."""
        if config.mode is Mode.IDENTITY:
            return list(range(256))
        if config.mode is Mode.FP32:
            return [0, INFO_SELECTOR, *range(64, 64 + config.workers)]
        planes = [INFO_SELECTOR, *range(PLANE_SELECTOR, PLANE_SELECTOR + PLANE_COUNT)]
        return [*planes, *sum_selectors(config)] if config.mode.bits else [0, *planes]

    async def read_region(
        self, config: RegionConfig, line: int, selector: int | None = None, limit: int | None = None
    ) -> Any:
        """Reads a random (or given) legal selector of a line."""
        if selector is None:
            selector = self.rng.choice(self.read_selectors(config))
        ldid = self.ldid_for(config, 0)
        return await self.read(config.address(selector, line), limit, ldid=ldid)

    async def read_views(self, config: RegionConfig, line: int) -> None:
        """Reads every legal selector of a line, in any order."""
        chosen = self.read_selectors(config)
        for selector in self.rng.sample(chosen, len(chosen)):
            await self.read_region(config, line, selector)
        await self.drain()

    async def crowd_out(self, crowd: RegionConfig) -> None:
        """Lines of the region `crowd` take every slot, so those of others are evicted."""
        await self.drain()
        for line in range(min(crowd.lines, 2 * self.cfg.hw.slots)):
            await self.read_region(crowd, line, 0)
        await self.drain()

# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests that drive ``DeviceModel``."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cocotbext.cxl.wire.messages import BE_ALL, S2MDRS, S2MNDR, M2SReq, M2SRwD, ReqOp, RwdOp
from models.commit_check import CommitCode
from models.device import DeviceModel
from models.modes import Mode
from models.parameters import DeviceParams
from models.regions import RegionConfig

PARAMS = DeviceParams(mem_lines_log2=12)
MEMORY_LINES = 4096


def config(mode: Mode = Mode.G_BINARY, **change: Any) -> RegionConfig:
    """Return a legal region of 4 lines and 3 workers with the given changes."""
    base = RegionConfig(
        base=MEMORY_LINES * 64, state_base=64 * 64, lines_log2=2, workers=3, mode=mode
    )
    return replace(base, **change)


class DeviceFixture:
    """Device model with one committed region; each call sends a message and checks its response."""

    def __init__(
        self, config: RegionConfig, params: DeviceParams = PARAMS, region: int = 2
    ) -> None:
        """Commit ``config`` in ``region``."""
        self.model = DeviceModel(params)
        self.config = config
        self.region = region
        self._tag = 0
        assert self.model.commit(region, config, 1) == CommitCode.OK

    def recommit(self, **change: Any) -> CommitCode:
        """Commit the region again with changes, which starts an epoch; return the result code."""
        self.config = replace(self.config, **change)
        return self.model.commit(self.region, self.config, 1)

    def tag(self) -> int:
        """Return a new 16-bit tag for a message."""
        self._tag = (self._tag + 1) & 0xFFFF
        return self._tag

    def write(
        self,
        worker: int,
        line: int,
        data: bytes,
        poison: bool = False,
        be: int | None = None,
        ldid: int = 0,
    ) -> None:
        """Write a contribution of a worker to a line, and check that Cmp is the response.

        ``be``: byte enables, which make it a MemWrPtl.
        """
        self.write_at(self.config.address(worker, line), data, poison, be, ldid)

    def write_at(
        self, addr: int, data: bytes, poison: bool = False, be: int | None = None, ldid: int = 0
    ) -> None:
        """Write 64 bytes to a byte address, and check that Cmp is the response."""
        opcode = RwdOp.MEM_WR if be is None else RwdOp.MEM_WR_PTL
        enables = BE_ALL if be is None else be
        msg = M2SRwD(opcode, self.tag(), addr, ldid, data=data, be=enables, poison=poison)
        assert self.model.step(msg) == S2MNDR(0, msg.tag, ldid)

    def read(self, selector: int, line: int, ldid: int = 0) -> tuple[bytes, bool]:
        """Read line ``line`` of the region with a selector; return (data, Poison)."""
        return self.read_at(self.config.address(selector, line), ldid)

    def read_at(self, addr: int, ldid: int = 0) -> tuple[bytes, bool]:
        """Read a byte address; return (data, Poison)."""
        msg = M2SReq(ReqOp.MEM_RD, self.tag(), addr, ldid)
        response = self.model.step(msg)
        assert isinstance(response, S2MDRS)
        assert (response.tag, response.ldid) == (msg.tag, ldid)
        return response.data, response.poison

    def count(self, name: str) -> int:
        """Return the model's counter of this name."""
        return self.model.counters[name]

    def counted(self, **counters: int) -> None:
        """Check that these counters have these values, and that all others are 0."""
        assert {name: n for name, n in self.model.counters.items() if n} == counters


def lines(seed: int, count: int) -> list[bytes]:
    """Return ``count`` random lines of 64 bytes, drawn from ``seed``."""
    rnd = random.Random(seed)
    return [rnd.randbytes(64) for _ in range(count)]


def counts(bench: DeviceFixture, line: int, planes: Sequence[int] = range(8)) -> list[int]:
    """Read the count planes of a line and return its 512 counters."""
    words = [int.from_bytes(bench.read(8 + p, line)[0], "little") for p in planes]
    return [sum((w >> b & 1) << p for p, w in zip(planes, words, strict=True)) for b in range(512)]

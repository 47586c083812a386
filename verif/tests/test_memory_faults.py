# SPDX-License-Identifier: Apache-2.0
"""Errors of the device memory, and what it held before."""

from __future__ import annotations

from typing import Any

import cocotb

from models.formats import Mode
from verif.env.base import PROFILES, NfBaseTest, run_uvm
from verif.env.config import EnvConfig
from verif.mem.config import Background
from verif.sequences.pressure import (
    GarbageSequence,
    MemoryErrorSequence,
    RecordErrorSequence,
)


class MemoryErrorTest(NfBaseTest):
    """SLVERR on ordinary lines and FP32 data."""

    async def scenario(self) -> None:
        await MemoryErrorSequence(self.env).run()


class RecordErrorTest(NfBaseTest):
    """SLVERR when a state record is fetched."""

    async def scenario(self) -> None:
        await RecordErrorSequence(self.env).run()


class GarbageTest(NfBaseTest):
    """Garbage and forged records; the memory's own background is all ones."""

    def configure(self, cfg: EnvConfig) -> None:
        cfg.mem.background = Background.ONES

    async def scenario(self) -> None:
        for mode in (Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32):
            await GarbageSequence(self.env, mode=mode).run()


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def memory_errors(_dut: Any, profile: str) -> None:
    """AXI errors give poison and counters, never a hang."""
    await run_uvm(MemoryErrorTest, profile)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def record_errors(_dut: Any, profile: str) -> None:
    """A lost state record poisons its line for the epoch."""
    await run_uvm(RecordErrorTest, profile)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def garbage_memory(_dut: Any, profile: str) -> None:
    """What memory held before is never taken for state."""
    await run_uvm(GarbageTest, profile)

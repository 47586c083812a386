# SPDX-License-Identifier: Apache-2.0
"""Errors and poison of the device memory, and its content before a commit."""

from __future__ import annotations

from typing import Any

import cocotb

from models.line_packing import Mode
from verif.env.base_test import PROFILES, NfBaseTest, run_uvm
from verif.env.config import EnvConfig
from verif.mem.memory_config import Background
from verif.sequences.eviction import GarbageSequence
from verif.sequences.memory_faults import (
    MemoryErrorSequence,
    RandomErrorSequence,
    RecordErrorSequence,
    RefusedAgainSequence,
    RefusedInitialisationSequence,
    RefusedMeanwhileSequence,
    RefusedWriteBackSequence,
    WaitingBeatsSequence,
)

LOW_BIT = (Mode.G_BINARY, Mode.G_TERNARY)


class MemoryErrorTest(NfBaseTest):
    """Errors and poison on ordinary lines, IDENTITY and FP32 data."""

    shows = "test_memory_faults::memory_errors"

    async def scenario(self) -> None:
        await MemoryErrorSequence(self.env).run()


class RecordErrorTest(NfBaseTest):
    """Errors and poison when a state record is fetched."""

    async def scenario(self) -> None:
        for region, mode in enumerate((self.env.rng.choice(LOW_BIT), Mode.FP32)):
            await RecordErrorSequence(self.env, mode=mode, region=region).run()


class RefusedWriteBackTest(NfBaseTest):
    """Errors when an evicted line is written back."""

    async def scenario(self) -> None:
        for mode in (self.env.rng.choice(LOW_BIT), Mode.FP32):
            await RefusedWriteBackSequence(self.env, mode=mode).run()


class RefusedMeanwhileTest(NfBaseTest):
    """Errors when an evicted line is written back, while records are asked for."""

    async def scenario(self) -> None:
        for mode in (self.env.rng.choice(LOW_BIT), Mode.FP32):
            await RefusedMeanwhileSequence(self.env, mode=mode).run()


class RefusedInitialisationTest(NfBaseTest):
    """Errors when the records of a new state area are overwritten."""

    async def scenario(self) -> None:
        await RefusedInitialisationSequence(self.env).run()


class RandomErrorTest(NfBaseTest):
    """Errors at random moments on every path."""

    async def scenario(self) -> None:
        await RandomErrorSequence(self.env).run()


class GarbageTest(NfBaseTest):
    """Garbage and forged records; the memory's own background is all ones."""

    def configure(self, cfg: EnvConfig) -> None:
        cfg.mem.background = Background.ONES

    async def scenario(self) -> None:
        for mode in (*LOW_BIT, Mode.FP32):
            await GarbageSequence(self.env, mode=mode).run()


class WaitingBeatsTest(NfBaseTest):
    """Errors and poison in beats that are not taken at once."""

    async def scenario(self) -> None:
        await WaitingBeatsSequence(self.env).run()


class RefusedAgainTest(NfBaseTest):
    """A worker's second store is refused."""

    async def scenario(self) -> None:
        await RefusedAgainSequence(self.env).run()


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def memory_errors(_dut: Any, profile: str) -> None:
    """AXI errors and poison give poison and counters, never a hang."""
    await run_uvm(MemoryErrorTest, profile)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def record_errors(_dut: Any, profile: str) -> None:
    """A lost state record poisons its line for the epoch."""
    await run_uvm(RecordErrorTest, profile)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def refused_write_backs(_dut: Any, profile: str) -> None:
    """A line whose write-back is refused is lost, and no line of the region is wrong."""
    await run_uvm(RefusedWriteBackTest, profile)


@cocotb.test()
async def refused_meanwhile(_dut: Any) -> None:
    """A read that waits for the memory port while its region's records become doubtful."""
    await run_uvm(RefusedMeanwhileTest)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def refused_initialisation(_dut: Any, profile: str) -> None:
    """A record that could not be initialised is not taken for state."""
    await run_uvm(RefusedInitialisationTest, profile)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def errors_at_random(_dut: Any, profile: str) -> None:
    """SLVERR and DECERR by rate, reads and writes, on all paths among mixed traffic."""
    await run_uvm(RandomErrorTest, profile)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def garbage_memory(_dut: Any, profile: str) -> None:
    """What memory held before is never taken for state."""
    await run_uvm(GarbageTest, profile)


@cocotb.test()
async def waiting_beats(_dut: Any) -> None:
    """A beat with an error or poison is counted once, however long it waits."""
    await run_uvm(WaitingBeatsTest)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def refused_again(_dut: Any, profile: str) -> None:
    """A refused store takes no worker out of a line."""
    await run_uvm(RefusedAgainTest, profile)

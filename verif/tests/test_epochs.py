# SPDX-License-Identifier: Apache-2.0
"""New epochs while traffic runs, and state that an old epoch leaves behind."""

from __future__ import annotations

from typing import Any

import cocotb

from models.line_packing import Mode
from verif.env.base_test import PROFILES, NfBaseTest, run_uvm
from verif.sequences.epochs import (
    CommitOverReadsSequence,
    CommitOverWritesSequence,
    EpochOtherSequence,
    EpochSameSequence,
    StaleNeighbourSequence,
    StaleStateSequence,
)


class EpochOtherTest(NfBaseTest):
    """Commits of one region, traffic in another."""

    async def scenario(self) -> None:
        await EpochOtherSequence(self.env).run()


class EpochSameTest(NfBaseTest):
    """Commits of the region that receives traffic, in each aggregating mode."""

    async def scenario(self) -> None:
        for mode in (Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32):
            await EpochSameSequence(self.env, mode=mode, commits=4).run()


class CommitOverReadsTest(NfBaseTest):
    """Commits that give a region other memory."""

    async def scenario(self) -> None:
        await CommitOverReadsSequence(self.env).run()


class CommitOverWritesTest(NfBaseTest):
    """Commits while contributions wait."""

    async def scenario(self) -> None:
        await CommitOverWritesSequence(self.env).run()


class StaleNeighbourTest(NfBaseTest):
    """Old records beside new ones."""

    async def scenario(self) -> None:
        await StaleNeighbourSequence(self.env).run()


class StaleStateTest(NfBaseTest):
    """State of old epochs in slots and in memory."""

    async def scenario(self) -> None:
        await StaleStateSequence(self.env).run()


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def epoch_other_region(_dut: Any, profile: str) -> None:
    """A commit does not disturb other regions."""
    await run_uvm(EpochOtherTest, profile)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def epoch_same_region(_dut: Any, profile: str) -> None:
    """Each request is wholly before or wholly after a commit."""
    await run_uvm(EpochSameTest, profile)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def stale_state(_dut: Any, profile: str) -> None:
    """A new epoch never uses state of an older one."""
    await run_uvm(StaleStateTest, profile)


@cocotb.test()
async def stale_neighbour(_dut: Any) -> None:
    """A record that was fetched for its neighbour's sake, and is of an older epoch, is no state."""
    await run_uvm(StaleNeighbourTest)


@cocotb.test()
async def commit_over_reads(_dut: Any) -> None:
    """A commit waits for what was read before it."""
    await run_uvm(CommitOverReadsTest)


@cocotb.test()
async def commit_over_writes(_dut: Any) -> None:
    """A commit waits for what was contributed before it."""
    await run_uvm(CommitOverWritesTest)

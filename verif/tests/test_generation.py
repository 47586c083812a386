# SPDX-License-Identifier: Apache-2.0
"""Old epochs in memory: hundreds of records, and generations that begin again."""

from __future__ import annotations

from typing import Any

import cocotb

from models.line_packing import Mode
from verif.env.base_test import NfBaseTest, run_uvm
from verif.sequences.epochs import (
    AlmostDoneSequence,
    CommitOverEvictionSequence,
    GivenUpAreaSequence,
    ManyRegionsSequence,
    OldEpochSequence,
)


class OldEpochTest(NfBaseTest):
    """40 epochs, each of which reads what older ones have left."""

    async def scenario(self) -> None:
        await OldEpochSequence(self.env).run()


class OldFp32EpochTest(NfBaseTest):
    """The same with bookkeeping lines of FP32 data."""

    async def scenario(self) -> None:
        await OldEpochSequence(self.env, mode=Mode.FP32, commits=20).run()


class CommitOverEvictionTest(NfBaseTest):
    """Commits while records are written back."""

    async def scenario(self) -> None:
        for mode in (Mode.G_BINARY, Mode.FP32):
            await CommitOverEvictionSequence(self.env, mode=mode).run()


class GivenUpAreaTest(NfBaseTest):
    """A region that becomes plain memory, with write-backs under way."""

    async def scenario(self) -> None:
        await GivenUpAreaSequence(self.env).run()


class ManyRegionsTest(NfBaseTest):
    """Every region of the device, each with its own number of commits."""

    async def scenario(self) -> None:
        await ManyRegionsSequence(self.env).run()


class AlmostDoneTest(NfBaseTest):
    """Completion of two regions, one of which lacks a line."""

    async def scenario(self) -> None:
        await AlmostDoneSequence(self.env).run()


@cocotb.test()
async def old_epochs(_dut: Any) -> None:
    """A record of an earlier epoch is never state, however many commits ago it was."""
    await run_uvm(OldEpochTest)


@cocotb.test()
async def old_fp32_epochs(_dut: Any) -> None:
    """Nor is a bookkeeping line."""
    await run_uvm(OldFp32EpochTest)


@cocotb.test()
async def commit_over_evictions(_dut: Any) -> None:
    """A write-back under way belongs to the epoch before the commit."""
    await run_uvm(CommitOverEvictionTest)


@cocotb.test()
async def area_given_up(_dut: Any) -> None:
    """A write-back never overwrites what the area holds after the commit."""
    await run_uvm(GivenUpAreaTest)


@cocotb.test()
async def many_regions(_dut: Any) -> None:
    """Status, completion and records of each region are its own."""
    await run_uvm(ManyRegionsTest)


@cocotb.test()
async def almost_done(_dut: Any) -> None:
    """DONE comes with the last line of its own region."""
    await run_uvm(AlmostDoneTest)

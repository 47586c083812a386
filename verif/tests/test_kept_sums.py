# SPDX-License-Identifier: Apache-2.0
"""FP32 sums that are kept in the state area."""

from __future__ import annotations

from typing import Any, ClassVar

import cocotb

from verif.env.base_test import PROFILES, NfBaseTest, run_uvm
from verif.env.env import Sink
from verif.sequences.kept_sums import (
    CommitSequence,
    KeptFaultSequence,
    KeptSequence,
    MixedKeptSequence,
    RefusedStoreSequence,
    ReshapedSequence,
    ServedSequence,
    StoreMissSequence,
)


class KeptTest(NfBaseTest):
    """Runs a sequence that hears of every beat on the memory port."""

    sequence: ClassVar[type[KeptSequence]]

    def connect_phase(self) -> None:
        self.work = self.sequence(self.env)
        self.env.mem.monitor.ap.connect(Sink("beats", self, self.work.beat))

    async def scenario(self) -> None:
        await self.work.run()


class ServedTest(KeptTest):
    """Which sums read the lines of workers."""

    sequence = ServedSequence


class StoreMissTest(KeptTest):
    """Stores to lines that are not in a slot."""

    sequence = StoreMissSequence


class MixedKeptTest(KeptTest):
    """Everything at once."""

    sequence = MixedKeptSequence


class KeptFaultTest(KeptTest):
    """Errors and poison."""

    sequence = KeptFaultSequence


class RefusedStoreTest(KeptTest):
    """Stores that memory refuses."""

    sequence = RefusedStoreSequence


class CommitTest(KeptTest):
    """Commits behind a sum that comes back."""

    sequence = CommitSequence


class ReshapedTest(KeptTest):
    """A region that begins to keep sums."""

    sequence = ReshapedSequence


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def served(_dut: Any, profile: str) -> None:
    """A sum is gathered once, and again after a store or in a new epoch."""
    await run_uvm(ServedTest, profile)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def mixed(_dut: Any, profile: str) -> None:
    """Stores and reads race for lines whose sums are kept, evicted and fetched."""
    await run_uvm(MixedKeptTest, profile)


@cocotb.test()
async def faults(_dut: Any) -> None:
    """A kept sum that memory cannot give back costs time, never a wrong answer."""
    await run_uvm(KeptFaultTest)


@cocotb.test()
async def refused_stores(_dut: Any) -> None:
    """A first store that memory refuses poisons its line, whichever answer comes first."""
    await run_uvm(RefusedStoreTest)


@cocotb.test()
async def commits(_dut: Any) -> None:
    """A commit finds nothing under way, not even a sum on its way back to its slot."""
    await run_uvm(CommitTest)


@cocotb.test()
async def reshaped(_dut: Any) -> None:
    """What lay behind an area before it grew is never taken for state."""
    await run_uvm(ReshapedTest)


@cocotb.test()
async def store_misses(_dut: Any) -> None:
    """A store to a line that has left its slot ends the sum that is kept in memory."""
    await run_uvm(StoreMissTest)

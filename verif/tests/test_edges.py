# SPDX-License-Identifier: Apache-2.0
"""Descriptors and accesses at the edges of memory, windows and state areas."""

from __future__ import annotations

from typing import Any

import cocotb

from verif.env.base_test import NfBaseTest, run_uvm
from verif.sequences.descriptors import EdgeSequence, HighIndexSequence, SelectorSequence


class EdgeTest(NfBaseTest):
    """Commits near edges; accesses around what was committed."""

    async def scenario(self) -> None:
        await EdgeSequence(self.env).run()


class CommitEdgeTest(NfBaseTest):
    """The commits alone, more of them."""

    async def scenario(self) -> None:
        await EdgeSequence(self.env, attempts=200, accesses=False).run()


class SelectorTest(NfBaseTest):
    """All 256 selectors of each mode."""

    async def scenario(self) -> None:
        await SelectorSequence(self.env).run()


class HighIndexTest(NfBaseTest):
    """Regions of up to 131,072 lines."""

    async def scenario(self) -> None:
        await HighIndexSequence(self.env).run()


@cocotb.test()
async def edges(_dut: Any) -> None:
    """What touches is taken, what overlaps by a line is refused; each address bit counts."""
    await run_uvm(EdgeTest)


@cocotb.test()
async def selectors(_dut: Any) -> None:
    """A selector is what its mode says, or refused; none aliases with another."""
    await run_uvm(SelectorTest)


@cocotb.test()
async def high_indices(_dut: Any) -> None:
    """Every bit of a line's index counts, in the tag of a slot and in each address."""
    await run_uvm(HighIndexTest)


@cocotb.test()
async def commit_edges(_dut: Any) -> None:
    """Hundreds of descriptors near edges: each gets the code of the first rule that it breaks."""
    await run_uvm(CommitEdgeTest)

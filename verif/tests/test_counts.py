# SPDX-License-Identifier: Apache-2.0
"""Votes, planes and flags of lines whose counts were drawn at their corners."""

from __future__ import annotations

from typing import Any

import cocotb

from models.line_packing import Mode
from verif.env.base_test import NfBaseTest, run_uvm
from verif.sequences.aggregate import (
    CountSequence,
    EmptyLineSequence,
    IllegalLineSequence,
    ThresholdSequence,
)


class BinaryCountTest(NfBaseTest):
    """G_BINARY, W up to 64, evicted between workers where slots are few."""

    async def scenario(self) -> None:
        await CountSequence(self.env, mode=Mode.G_BINARY).run()


class TernaryCountTest(NfBaseTest):
    """G_TERNARY, nets around the threshold."""

    async def scenario(self) -> None:
        await CountSequence(self.env, mode=Mode.G_TERNARY).run()


class ThresholdTest(NfBaseTest):
    """T from 1 to 255."""

    async def scenario(self) -> None:
        await ThresholdSequence(self.env).run()


class IllegalLineTest(NfBaseTest):
    """Up to 256 illegal codes in a line."""

    async def scenario(self) -> None:
        await IllegalLineSequence(self.env).run()


class EmptyLineTest(NfBaseTest):
    """Lines with no or few contributions."""

    async def scenario(self) -> None:
        await EmptyLineSequence(self.env).run()


@cocotb.test()
async def binary_counts(_dut: Any) -> None:
    """Counts of 0, 1, W/2, W - 1, W and around each carry."""
    await run_uvm(BinaryCountTest)


@cocotb.test()
async def ternary_counts(_dut: Any) -> None:
    """Nets of T - 1, T, T + 1 and their negatives."""
    await run_uvm(TernaryCountTest)


@cocotb.test()
async def thresholds(_dut: Any) -> None:
    """A threshold above W lets nothing pass, whatever its bits are."""
    await run_uvm(ThresholdTest)


@cocotb.test()
async def illegal_lines(_dut: Any) -> None:
    """All codes of a line illegal: counted, flagged in the region that it was sent to alone."""
    await run_uvm(IllegalLineTest)


@cocotb.test()
async def empty_lines(_dut: Any) -> None:
    """A line without contributions reads as zeros."""
    await run_uvm(EmptyLineTest)

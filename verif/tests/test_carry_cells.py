# SPDX-License-Identifier: Apache-2.0
"""Counts, votes and sums by the carry cells of ECP5 (`ECP5` = 1), in every plane of a count.

Verilator alone: of 64 workers to each line Icarus takes minutes, cell by cell; it runs `test_modes`
on the same build."""

from __future__ import annotations

from typing import Any

import cocotb

from models.line_packing import Mode
from verif.env.base_test import NfBaseTest, run_uvm
from verif.sequences.aggregate import CountSequence, ThresholdSequence
from verif.sequences.int_codes import IntCodesSequence, Tern5CodesSequence
from verif.tests.test_saturation import SaturationTest


class CellCountsTest(NfBaseTest):
    """Both modes, W up to 64, evicted between workers."""

    async def scenario(self) -> None:
        for mode in (Mode.G_BINARY, Mode.G_TERNARY):
            await CountSequence(self.env, mode=mode).run()


class CellSaturationTest(SaturationTest):
    """That of the portable cells; seven planes hold every count of 64 workers."""

    async def scenario(self) -> None:
        await super().scenario()
        saturated = bool(self.env.coverage.engine.line_flags.bins["SATURATED"])
        top = (1 << self.cfg.hw.cnt_w) - 1
        assert saturated == (top < 64), f"counts up to {top}: saturated {saturated}"


class CellThresholdsTest(NfBaseTest):
    """T from 1 to 255."""

    async def scenario(self) -> None:
        await ThresholdSequence(self.env).run()


class CellCodesTest(NfBaseTest):
    """Integer codes count every bit of a line."""

    async def scenario(self) -> None:
        await IntCodesSequence(self.env, crowded=True).run()


class CellTern5Test(NfBaseTest):
    """Votes of five digits a byte, whose counts have no plane to spare."""

    async def scenario(self) -> None:
        await Tern5CodesSequence(self.env).run()


@cocotb.test()
async def counts(_dut: Any) -> None:
    """Counts around each carry; nets of T - 1, T, T + 1 and their negatives."""
    await run_uvm(CellCountsTest)


@cocotb.test()
async def saturation(_dut: Any) -> None:
    """Four planes stop at 15 and set the region's flag; seven count 64 workers."""
    await run_uvm(CellSaturationTest)


@cocotb.test()
async def thresholds(_dut: Any) -> None:
    """A threshold above W lets nothing pass, whatever its bits are."""
    await run_uvm(CellThresholdsTest)


@cocotb.test()
async def codes(_dut: Any) -> None:
    """Sums of any subset of workers in any order, by planes, SUM16 and SUM8."""
    await run_uvm(CellCodesTest)


@cocotb.test()
async def tern5(_dut: Any) -> None:
    """Votes of any subset of workers in any order, in a device with G_TERN5."""
    await run_uvm(CellTern5Test)

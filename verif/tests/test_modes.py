# SPDX-License-Identifier: Apache-2.0
"""Each aggregating mode alone: all workers, all lines, every kind of read."""

from __future__ import annotations

from typing import Any

import cocotb

from models.line_packing import Mode
from verif.env.base_test import PROFILES, NfBaseTest, run_uvm
from verif.sequences.aggregate import AggregateSequence


class BinaryTest(NfBaseTest):
    """G_BINARY with even and odd W, both ties, and the edges of W."""

    async def scenario(self) -> None:
        for region, (workers, tie_minus) in enumerate(((4, False), (4, True))):
            await AggregateSequence(
                self.env, workers=workers, tie_minus=tie_minus, region=region
            ).run()
        for workers, lines_log2 in ((1, 3), (64, 0)):
            await AggregateSequence(
                self.env, workers=workers, lines_log2=lines_log2, epochs=1
            ).run()


class TernaryTest(NfBaseTest):
    """G_TERNARY with several thresholds, and the edges of W."""

    async def scenario(self) -> None:
        for region, (workers, threshold) in enumerate(((5, 1), (6, 2))):
            await AggregateSequence(
                self.env, mode=Mode.G_TERNARY, workers=workers, threshold=threshold, region=region
            ).run()
        for workers, lines_log2, threshold in ((1, 3, 1), (64, 0, 9)):
            await AggregateSequence(
                self.env,
                mode=Mode.G_TERNARY,
                workers=workers,
                lines_log2=lines_log2,
                threshold=threshold,
                epochs=1,
            ).run()


class Fp32Test(NfBaseTest):
    """FP32 with corner values, partial writes, raw reads, and the edges of W."""

    async def scenario(self) -> None:
        await AggregateSequence(self.env, mode=Mode.FP32, workers=5, partial=0.2).run()
        for workers, lines_log2 in ((1, 2), (64, 0)):
            await AggregateSequence(
                self.env, mode=Mode.FP32, workers=workers, lines_log2=lines_log2, epochs=1
            ).run()


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def g_binary(_dut: Any, profile: str) -> None:
    """Majority votes, ties, count planes."""
    await run_uvm(BinaryTest, profile)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def g_ternary(_dut: Any, profile: str) -> None:
    """Thresholded votes, plus and minus planes."""
    await run_uvm(TernaryTest, profile)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def fp32(_dut: Any, profile: str) -> None:
    """Ordered sums, bit for bit; raw reads."""
    await run_uvm(Fp32Test, profile)

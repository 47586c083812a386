# SPDX-License-Identifier: Apache-2.0
"""FP32 sums of operands drawn for each other, lone lines, raw lines."""

from __future__ import annotations

from typing import Any

import cocotb

from verif.env.base_test import NfBaseTest, run_uvm
from verif.sequences.kept_sums import LoneLineSequence, PairSequence


class PairTest(NfBaseTest):
    """1,024 pairs of operands, some with a third."""

    async def scenario(self) -> None:
        await PairSequence(self.env).run()


class LoneLineTest(NfBaseTest):
    """Sums of one line and of none."""

    async def scenario(self) -> None:
        await LoneLineSequence(self.env).run()


@cocotb.test()
async def pairs(_dut: Any) -> None:
    """Ties, cancellations, carries, overflows, subnormals: bit for bit."""
    await run_uvm(PairTest)


@cocotb.test()
async def lone_lines(_dut: Any) -> None:
    """A sum of one line is that line with canonical NaNs; a raw line is byte for byte."""
    await run_uvm(LoneLineTest)

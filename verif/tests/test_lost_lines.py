# SPDX-License-Identifier: Apache-2.0
"""Lines whose record could not be read."""

from __future__ import annotations

from typing import Any

import cocotb

from models.line_packing import Mode
from verif.env.base_test import NfBaseTest, run_uvm
from verif.sequences.memory_faults import BlameSequence, LostLineSequence


class LostLineTest(NfBaseTest):
    """A low-bit region, and one of FP32 data, whose index was drawn."""

    async def scenario(self) -> None:
        rng = self.env.rng
        for mode in (rng.choice((Mode.G_BINARY, Mode.G_TERNARY)), Mode.FP32):
            region = rng.randrange(self.cfg.hw.regions)
            await LostLineSequence(self.env, mode=mode, region=region).run()


class BlameTest(NfBaseTest):
    """Refused write-backs of one region among good ones of another."""

    async def scenario(self) -> None:
        await BlameSequence(self.env).run()


@cocotb.test()
async def lost_lines(_dut: Any) -> None:
    """All workers of a lost line have come, and it is poisoned and not complete."""
    await run_uvm(LostLineTest)


@cocotb.test()
async def blame(_dut: Any) -> None:
    """A refused write-back costs the region that it belongs to, and no other."""
    await run_uvm(BlameTest)

# SPDX-License-Identifier: Apache-2.0
"""Counters that saturate: with CNT_W below what W needs (not in the default parameter set)."""

from __future__ import annotations

from typing import Any

import cocotb

from models.line_packing import Mode
from verif.env.base_test import PROFILES, NfBaseTest, run_uvm
from verif.sequences.aggregate import AggregateSequence


class SaturationTest(NfBaseTest):
    """W around and above the largest count; the flag is sticky until the next commit."""

    shows = "test_saturation::saturation"

    async def scenario(self) -> None:
        top = (1 << self.cfg.hw.cnt_w) - 1
        for mode in (Mode.G_BINARY, Mode.G_TERNARY):
            for workers in sorted({min(64, top), min(64, top + 1), 64}):
                await AggregateSequence(
                    self.env, mode=mode, workers=workers, lines_log2=0, epochs=2, early=0.1
                ).run()
                await self.env.registers.read_status()
        if top < 64:
            assert self.env.coverage.engine.line_flags.bins["SATURATED"], "nothing saturated"


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def saturation(_dut: Any, profile: str) -> None:
    """Counters stop at their maximum, the vote uses them, and the region's flag is set."""
    await run_uvm(SaturationTest, profile)

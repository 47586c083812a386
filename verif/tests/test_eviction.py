# SPDX-License-Identifier: Apache-2.0
"""Evictions: more lines in use than slots."""

from __future__ import annotations

from typing import Any

import cocotb

from models.line_packing import Mode
from verif.env.base_test import PROFILES, NfBaseTest, run_uvm
from verif.sequences.eviction import EvictionSequence


class EvictionTest(NfBaseTest):
    """Low-bit lines, workers in the outer loop."""

    async def scenario(self) -> None:
        await EvictionSequence(self.env).run()


class EvictionShuffleTest(NfBaseTest):
    """Random order, more reads, and FP32 lines too."""

    async def scenario(self) -> None:
        await EvictionSequence(
            self.env, shuffle=True, reads=0.3, modes=(Mode.G_BINARY, Mode.FP32)
        ).run()


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def eviction(_dut: Any, profile: str) -> None:
    """A line that is evicted between its workers loses nothing."""
    await run_uvm(EvictionTest, profile)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def eviction_shuffled(_dut: Any, profile: str) -> None:
    """Evictions in random order, reads between."""
    await run_uvm(EvictionShuffleTest, profile)

# SPDX-License-Identifier: Apache-2.0
"""All modes at once; workers interleaved at random."""

from __future__ import annotations

from typing import Any

import cocotb

from verif.env.base_test import PROFILES, NfBaseTest, run_uvm
from verif.sequences.mixed import InterleaveSequence, MixedRegionsSequence


class MixedTest(NfBaseTest):
    """Random requests to regions of all modes and to memory."""

    async def scenario(self) -> None:
        await MixedRegionsSequence(self.env).run()


class InterleaveTest(NfBaseTest):
    """Workers in bursts, in any order, on shared slots."""

    async def scenario(self) -> None:
        await InterleaveSequence(self.env).run()


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def mixed_regions(_dut: Any, profile: str) -> None:
    """Regions of every mode and plain memory together."""
    await run_uvm(MixedTest, profile)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def interleaved_workers(_dut: Any, profile: str) -> None:
    """The result does not depend on the order of arrival."""
    await run_uvm(InterleaveTest, profile)

# SPDX-License-Identifier: Apache-2.0
"""The capacity check counts every contribution that is presented to the engine."""

from __future__ import annotations

from typing import Any

import cocotb

from verif.env.base_test import PROFILES, NfBaseTest, run_uvm
from verif.sequences.events import CapacityKindsSequence, FallbackAnswersSequence


class CapacityKindsTest(NfBaseTest):
    """Poisoned and late ones beside clean ones."""

    async def scenario(self) -> None:
        await CapacityKindsSequence(self.env).run()


class FallbackAnswersTest(NfBaseTest):
    """A region in FALLBACK, committed anew in other modes."""

    async def scenario(self) -> None:
        await FallbackAnswersSequence(self.env).run()


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def kinds(_dut: Any, profile: str) -> None:
    """FALLBACK by contributions that change nothing, and its interrupt a second time."""
    await run_uvm(CapacityKindsTest, profile)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def answers(_dut: Any, profile: str) -> None:
    """DevLoad of every kind of answer of a region in FALLBACK."""
    await run_uvm(FallbackAnswersTest, profile)

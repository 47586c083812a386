# SPDX-License-Identifier: Apache-2.0
"""Commits while the records of a newly claimed state area are still being initialised."""

from __future__ import annotations

from typing import Any

import cocotb

from verif.env.base_test import PROFILES, NfBaseTest, run_uvm
from verif.sequences.record_init import CommitDuringInitSequence, ReshapeDuringInitSequence


class CommitDuringInitTest(NfBaseTest):
    """Regression: a commit paused the initialiser that an eviction was waiting for."""

    async def scenario(self) -> None:
        await CommitDuringInitSequence(self.env).run()


class ReshapeDuringInitTest(NfBaseTest):
    """Regression: the initialiser overwrote memory that had become an IDENTITY region."""

    async def scenario(self) -> None:
        await ReshapeDuringInitSequence(self.env).run()


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def commit_during_init(_dut: Any, profile: str) -> None:
    """A commit elsewhere while evictions wait for the initialiser."""
    await run_uvm(CommitDuringInitTest, profile)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def reshape_during_init(_dut: Any, profile: str) -> None:
    """A region becomes IDENTITY before its records are all initialised."""
    await run_uvm(ReshapeDuringInitTest, profile)

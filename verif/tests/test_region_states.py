# SPDX-License-Identifier: Apache-2.0
"""A CLOSE without a round, and a commit that is refused, change nothing."""

from __future__ import annotations

from typing import Any

import cocotb

from verif.env.base_test import PROFILES, NfBaseTest, run_uvm
from verif.sequences.epochs import InitialisedSequence, NoRoundSequence, RefusedSequence


class NoRoundTest(NfBaseTest):
    """There is nothing to close."""

    async def scenario(self) -> None:
        await NoRoundSequence(self.env).run()


class RefusedTest(NfBaseTest):
    """A region with every flag set."""

    async def scenario(self) -> None:
        await RefusedSequence(self.env).run()


class InitialisedTest(NfBaseTest):
    """An area that is being claimed."""

    async def scenario(self) -> None:
        await InitialisedSequence(self.env).run()


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def no_round(_dut: Any, profile: str) -> None:
    """CLOSE of a region that was never committed, and of an IDENTITY region."""
    await run_uvm(NoRoundTest, profile)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def refused(_dut: Any, profile: str) -> None:
    """Flags, counts and the end of a round stay over commits that are refused."""
    await run_uvm(RefusedTest, profile)


@cocotb.test()
async def initialised(_dut: Any) -> None:
    """The initialiser goes on over a commit that is refused."""
    await run_uvm(InitialisedTest)

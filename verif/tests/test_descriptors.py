# SPDX-License-Identifier: Apache-2.0
"""Descriptors that a commit must refuse."""

from __future__ import annotations

from typing import Any

import cocotb

from verif.env.base_test import PROFILES, NfBaseTest, run_uvm
from verif.sequences.descriptors import DescriptorErrorSequence


class DescriptorErrorTest(NfBaseTest):
    """Every code; the region stays as it was."""

    shows = "test_descriptors::descriptor_errors"

    async def scenario(self) -> None:
        await DescriptorErrorSequence(self.env).run()


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def descriptor_errors(_dut: Any, profile: str) -> None:
    """Each commit code, in order of priority."""
    await run_uvm(DescriptorErrorTest, profile)

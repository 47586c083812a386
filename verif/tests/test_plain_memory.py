# SPDX-License-Identifier: Apache-2.0
"""Ordinary memory and IDENTITY regions."""

from __future__ import annotations

from typing import Any

import cocotb

from verif.env.base_test import PROFILES, NfBaseTest, run_uvm
from verif.sequences.aggregate import IdentitySequence
from verif.sequences.mixed import PlainMemorySequence


class PlainMemoryTest(NfBaseTest):
    """Full and partial writes, reads, poison and invalidations."""

    async def scenario(self) -> None:
        await PlainMemorySequence(self.env).run()


class PartialWriteTest(NfBaseTest):
    """Partial writes alone, on few lines."""

    async def scenario(self) -> None:
        await PlainMemorySequence(self.env, lines=3, partial=1.0, others=0.0).run()


class IdentityTest(NfBaseTest):
    """An IDENTITY region with all selectors."""

    async def scenario(self) -> None:
        await IdentitySequence(self.env).run()


class IdentityBindTest(NfBaseTest):
    """The same with BIND."""

    async def scenario(self) -> None:
        await IdentitySequence(self.env, bind=True).run()


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def plain_memory(_dut: Any, profile: str) -> None:
    """Ordinary memory: writes, reads, poison, invalidations."""
    await run_uvm(PlainMemoryTest, profile)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def partial_writes(_dut: Any, profile: str) -> None:
    """MemWrPtl with every kind of byte enables."""
    await run_uvm(PartialWriteTest, profile)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def identity_region(_dut: Any, profile: str) -> None:
    """An IDENTITY region is plain memory, whatever the epoch."""
    await run_uvm(IdentityTest, profile)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def identity_bind(_dut: Any, profile: str) -> None:
    """BIND holds in an IDENTITY region too."""
    await run_uvm(IdentityBindTest, profile)

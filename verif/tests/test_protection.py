# SPDX-License-Identifier: Apache-2.0
"""Accesses that must be refused."""

from __future__ import annotations

from typing import Any

import cocotb

from verif.env.base_test import PROFILES, NfBaseTest, run_uvm
from verif.sequences.protection import (
    BindShiftSequence,
    CombinedCausesSequence,
    NeighbourSequence,
    ProtectionSequence,
    StrangersSequence,
)


class ProtectionTest(NfBaseTest):
    """Every cause of refusal; error capture."""

    shows = "test_protection::protection"

    async def scenario(self) -> None:
        await ProtectionSequence(self.env).run()


class CombinedCausesTest(NfBaseTest):
    """Requests that break several rules at once."""

    async def scenario(self) -> None:
        await CombinedCausesSequence(self.env).run()


class BindShiftTest(NfBaseTest):
    """Owners of workers with every BIND_SHIFT."""

    async def scenario(self) -> None:
        await BindShiftSequence(self.env).run()


class NeighbourTest(NfBaseTest):
    """A protected line keeps its value among refused writes."""

    async def scenario(self) -> None:
        await NeighbourSequence(self.env).run()


class StrangersTest(NfBaseTest):
    """Hosts that a region does not know."""

    async def scenario(self) -> None:
        await StrangersSequence(self.env).run()


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def protection(_dut: Any, profile: str) -> None:
    """Causes, counters and capture of refused accesses."""
    await run_uvm(ProtectionTest, profile)


@cocotb.test()
async def combined_causes(_dut: Any) -> None:
    """Of all rules that a request breaks, the first is its cause."""
    await run_uvm(CombinedCausesTest)


@cocotb.test()
async def bind_shifts(_dut: Any) -> None:
    """A worker belongs to the LD-ID that BIND_SHIFT gives it, and to no other."""
    await run_uvm(BindShiftTest)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def neighbours(_dut: Any, profile: str) -> None:
    """No other host's data can be seen or changed."""
    await run_uvm(NeighbourTest, profile)


@cocotb.test()
async def strangers(_dut: Any) -> None:
    """No selector tells anything to an LD-ID that LD_MASK does not name."""
    await run_uvm(StrangersTest)

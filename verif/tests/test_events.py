# SPDX-License-Identifier: Apache-2.0
"""Duplicates, poison, illegal codes, early and strict reads."""

from __future__ import annotations

from typing import Any

import cocotb

from verif.env.base_test import PROFILES, NfBaseTest, run_uvm
from verif.sequences.events import (
    DuplicateSequence,
    EarlyReadSequence,
    IllegalCodeSequence,
    PoisonSequence,
)


class DuplicateTest(NfBaseTest):
    """Every second contribution is sent twice, with other data the second time."""

    async def scenario(self) -> None:
        await DuplicateSequence(self.env).run()


class PoisonTest(NfBaseTest):
    """Poisoned contributions and clean resends."""

    shows = "test_events::poison"

    async def scenario(self) -> None:
        await PoisonSequence(self.env).run()


class IllegalCodeTest(NfBaseTest):
    """01 codes count as 0, and are counted and flagged."""

    async def scenario(self) -> None:
        await IllegalCodeSequence(self.env).run()


class EarlyReadTest(NfBaseTest):
    """Reads of incomplete lines, counted."""

    shows = "test_events::early_reads"

    async def scenario(self) -> None:
        await EarlyReadSequence(self.env).run()


class StrictReadTest(NfBaseTest):
    """The same with STRICT: they are poisoned."""

    async def scenario(self) -> None:
        await EarlyReadSequence(self.env, strict=True).run()


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def duplicates(_dut: Any, profile: str) -> None:
    """A second contribution changes nothing in the low-bit modes."""
    await run_uvm(DuplicateTest, profile)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def poison(_dut: Any, profile: str) -> None:
    """Poisoned data is not added; the line stays poisoned for the epoch."""
    await run_uvm(PoisonTest, profile)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def illegal_codes(_dut: Any, profile: str) -> None:
    """Illegal ternary codes."""
    await run_uvm(IllegalCodeTest, profile)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def early_reads(_dut: Any, profile: str) -> None:
    """Early reads return what has arrived."""
    await run_uvm(EarlyReadTest, profile)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def strict_reads(_dut: Any, profile: str) -> None:
    """Early reads are poisoned in a STRICT region."""
    await run_uvm(StrictReadTest, profile)

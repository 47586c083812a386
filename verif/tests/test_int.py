# SPDX-License-Identifier: Apache-2.0
"""G_INT4 and G_INT8: exact sums by every view, refusals, and the votes as an independent check."""

from __future__ import annotations

from typing import Any

import cocotb

from verif.env.base_test import NfBaseTest, run_negative, run_uvm
from verif.env.config import EnvConfig
from verif.sequences.events import CodesEventSequence
from verif.sequences.int_codes import (
    IntCodesSequence,
    IntRefusalSequence,
    NeighbourSumsSequence,
    SameAsVotesSequence,
)
from verif.tests.faulty_parts import misreading


class IntCodesTest(NfBaseTest):
    """Drawn codes; lines are evicted where slots are few."""

    async def scenario(self) -> None:
        await IntCodesSequence(self.env, crowded=self.cfg.hw.slots <= 8).run()


class SameAsVotesTest(NfBaseTest):
    """The same codes through a G_BINARY region."""

    async def scenario(self) -> None:
        await SameAsVotesSequence(self.env).run()


class NeighbourSumsTest(NfBaseTest):
    """Sums of other codes in neighbouring clocks."""

    async def scenario(self) -> None:
        await NeighbourSumsSequence(self.env).run()


class IntRefusalTest(NfBaseTest):
    """What integer regions refuse."""

    async def scenario(self) -> None:
        await IntRefusalSequence(self.env).run()


class OtherSign(NfBaseTest):
    """Negative twin: the predictor takes every region for one of unsigned codes."""

    def configure(self, cfg: EnvConfig) -> None:
        super().configure(cfg)
        cfg.parts.predictor = misreading({"signed": False})

    async def scenario(self) -> None:
        await SameAsVotesSequence(self.env, rounds=3, signs=(True,)).run()


class CodesEventsTest(NfBaseTest):
    """What votes and FP32 sums meet, too."""

    async def scenario(self) -> None:
        for strict in self.env.rng.sample((False, True), 2):
            await CodesEventSequence(self.env, strict=strict).run()


@cocotb.test()
async def codes(_dut: Any) -> None:
    """Sums of any subset of workers in any order, by planes, SUM16 and SUM8."""
    await run_uvm(IntCodesTest)


@cocotb.test()
async def same_as_votes(_dut: Any) -> None:
    """Planes of a G_BINARY region give the sums that the device shows."""
    await run_uvm(SameAsVotesTest)


@cocotb.test()
async def neighbours(_dut: Any) -> None:
    """Sums of every code and sign, read one clock behind the other."""
    await run_uvm(NeighbourSumsTest)


@cocotb.test()
async def refusals(_dut: Any) -> None:
    """Selector 0, views that a mode or W has not, reserved modes, too many workers."""
    await run_uvm(IntRefusalTest)


@cocotb.test()
async def other_sign(_dut: Any) -> None:
    """A bench that takes two's complement codes for unsigned ones is told so."""
    await run_negative(OtherSign, "MISMATCH")


@cocotb.test()
async def events(_dut: Any) -> None:
    """Poison, duplicates, early and strict reads of integer codes, by every view."""
    await run_uvm(CodesEventsTest)

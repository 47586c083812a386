# SPDX-License-Identifier: Apache-2.0
"""Bits that flip in the RAMs of the device: never wrong, sometimes lost."""

from __future__ import annotations

from typing import Any, ClassVar

import cocotb

from cocotbext.cxl.config import CxlConfig
from models.line_packing import Mode
from verif.env.base_test import NfBaseTest, run_uvm
from verif.env.config import EnvConfig
from verif.scoreboard.lenient import LenientScoreboard
from verif.scoreboard.ram_faults import NONE, PARITY, SECDED
from verif.sequences.ram_flips import (
    DamagedMarksSequence,
    FlipTrafficSequence,
    ForwardedSequence,
    HeldDataSequence,
    KeptOverDamageSequence,
    LastMarksSequence,
    LossAtOnceSequence,
    LostKeptSequence,
    LostSlotSequence,
    MendedSequence,
)


class FlipTrafficTest(NfBaseTest):
    """Flips at any moment; without a check the same campaign must show wrong answers."""

    double = False
    least: ClassVar = {NONE: 120, PARITY: 40, SECDED: 40}
    """Flips of which one is read, as good as surely; without a check, and shows."""

    def configure(self, cfg: EnvConfig) -> None:
        cfg.parts.scoreboard = LenientScoreboard
        cfg.check_counters = False  # a poisoned contribution is not one
        cfg.mem.latency = (5, 30)

        def shape(link: CxlConfig) -> None:
            link.link.grant_data = 4  # so that answers wait

        cfg.shape_link = shape

    async def scenario(self) -> None:
        # The default protection has the most; without one the first wrong answers say it all.
        share = 0.1 if self.double else {NONE: 0.05, PARITY: 1.0, SECDED: 0.25}[self.cfg.hw.ecc]
        flips = max(self.least[self.cfg.hw.ecc], self.cfg.count(round(60 * share)))
        self.run = FlipTrafficSequence(self.env, double=self.double, flips=flips)
        await self.run.run()

    async def finish(self) -> None:
        run, board = self.run, self.env.scoreboard
        assert isinstance(board, LenientScoreboard)
        await self.env.host.drain()
        flips = sum(run.flipped.values())
        self.figure("flips", flips)
        self.figure("counted", run.total[0])
        self.figure("corrected", run.total[1])
        self.figure("never_read", flips - sum(run.total))
        self.figure("wrong", board.wrong)
        assert run.total[0] <= flips, "more errors than flips"
        if self.cfg.hw.ecc == NONE:
            assert board.wrong, "no wrong answer, although nothing is checked"
        else:
            assert sum(run.total), "no flipped bit was ever read: nothing was tested"


def few_credits(config: CxlConfig) -> None:
    """A host that takes an answer now and then, so that the others wait."""
    config.link.grant_data = 2
    config.link.return_delay = (150, 200)


class HeldDataTest(NfBaseTest):
    """Flips in data that waits."""

    def configure(self, cfg: EnvConfig) -> None:
        cfg.parts.scoreboard = LenientScoreboard
        cfg.check_counters = False
        if self.settings["ram"] == "ANSWERS":
            cfg.shape_link = few_credits

    async def scenario(self) -> None:
        await HeldDataSequence(self.env, ram=self.settings["ram"]).run()

    async def finish(self) -> None:
        await self.env.host.drain()


class DoubleFlipTest(FlipTrafficTest):
    """Two bits of a word at a time."""

    double = True


class LostSlotTest(NfBaseTest):
    """Lost lines of every mode, told to the scoreboard, which then compares everything. Each run
    has slots that were never used."""

    async def scenario(self) -> None:
        mode = Mode.FP32
        if self.settings["lines"] == "counts":
            mode = self.env.rng.choice((Mode.G_BINARY, Mode.G_TERNARY, Mode.G_INT4))
        rams = ("BOOK",) if mode is Mode.FP32 else ("BOOK", "PLANES")
        await LostSlotSequence(self.env, mode=mode, rams=rams).run()


class LossAtOnceTest(NfBaseTest):
    """Reads in consecutive clocks of a line that the first of them finds lost."""

    async def scenario(self) -> None:
        await LossAtOnceSequence(self.env).run()


class MendedTest(NfBaseTest):
    """Two single flips of a word, with a read between them."""

    shows = "test_ram_flips::mended"

    async def scenario(self) -> None:
        await MendedSequence(self.env).run()


class ForwardedTest(NfBaseTest):
    """Reads in a row of a line whose slot is damaged meanwhile."""

    async def scenario(self) -> None:
        await ForwardedSequence(self.env).run()


class KeptOverDamageTest(NfBaseTest):
    """Sums that come back to a slot that is damaged meanwhile."""

    async def scenario(self) -> None:
        await KeptOverDamageSequence(self.env).run()


class LostKeptTest(NfBaseTest):
    """Damaged slots with sums that are evicted."""

    async def scenario(self) -> None:
        await LostKeptSequence(self.env).run()


class DamagedMarksTest(NfBaseTest):
    """Marks of evicted lines flip; nothing may be lost, so that everything is compared."""

    async def scenario(self) -> None:
        await DamagedMarksSequence(self.env).run()
        # As many as reach every plane, which a row that was mended must still tell.
        await DamagedMarksSequence(self.env, workers=16, rounds=1).run()


class LastMarksTest(NfBaseTest):
    """Only a region with as many lines as marks, and several rows of them, has such a row."""

    shows = "test_ram_flips::last_marks"

    async def scenario(self) -> None:
        await LastMarksSequence(self.env).run()


@cocotb.test()
async def flips(_dut: Any) -> None:
    """Single flips in every RAM at any moment: no wrong answer, and none that is not counted."""
    await run_uvm(FlipTrafficTest)


@cocotb.test()
@cocotb.parametrize(
    ram=["EVICT", "PARKED", "DEFERRED", "STORES", "ANSWERS", "WRITES", "PLANES", "MARKS"]
)
async def held_data(_dut: Any, ram: str) -> None:
    """Data that waits in a RAM is damaged there: it is poisoned, and everything else is right."""
    await run_uvm(HeldDataTest, ram=ram)


@cocotb.test()
async def double_flips(_dut: Any) -> None:
    """Two bits of a word: reported, where the code tells two from none."""
    await run_uvm(DoubleFlipTest)


@cocotb.test()
@cocotb.parametrize(lines=["counts", "fp32"])
async def lost_slots(_dut: Any, lines: str) -> None:
    """The line of a damaged slot is lost, counted once, and never complete; the others are."""
    await run_uvm(LostSlotTest, lines=lines)


@cocotb.test()
async def lost_at_once(_dut: Any) -> None:
    """Whoever comes while a loss is written sees the line lost, and nothing of what it was."""
    await run_uvm(LossAtOnceTest)


@cocotb.test()
async def mended(_dut: Any) -> None:
    """A corrected word is mended in its RAM."""
    await run_uvm(MendedTest)


@cocotb.test()
async def forwarded(_dut: Any) -> None:
    """What the operation before hands on is right, whatever flips in the slot meanwhile."""
    await run_uvm(ForwardedTest)


@cocotb.test()
async def kept_over_damage(_dut: Any) -> None:
    """A sum to keep finds its line lost; nothing of the damaged state is handed on."""
    await run_uvm(KeptOverDamageTest)


@cocotb.test()
async def lost_kept(_dut: Any) -> None:
    """A line that is lost on its way out takes no sum along."""
    await run_uvm(LostKeptTest)


@cocotb.test()
async def damaged_marks(_dut: Any) -> None:
    """What may be in memory is not known: it is fetched, counted once, and nothing is lost."""
    await run_uvm(DamagedMarksTest)


@cocotb.test()
async def last_marks(_dut: Any) -> None:
    """The last row of marks of a region, beside another region of fewer workers."""
    await run_uvm(LastMarksTest)

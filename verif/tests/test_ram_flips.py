# SPDX-License-Identifier: Apache-2.0
"""Bits that flip in the RAMs of the device: never wrong, sometimes lost."""

from __future__ import annotations

from typing import ClassVar

import cocotb

from models.line_packing import Mode
from verif.env.base_test import NfBaseTest
from verif.env.config import EnvConfig
from verif.scoreboard.lenient import LenientScoreboard
from verif.scoreboard.ram_faults import NONE, PARITY, SECDED
from verif.sequences import ram_flips
from verif.tests.decorator import host_link, nf_test


class FlipTrafficTest(NfBaseTest):
    """Flips at any moment; without a check the same campaign must show wrong answers."""

    double = False
    least: ClassVar = {NONE: 120, PARITY: 40, SECDED: 40}
    """Flips of which one is read, as good as surely; without a check, and shows."""

    def configure(self, cfg: EnvConfig) -> None:
        cfg.parts.scoreboard = LenientScoreboard
        cfg.check_counters = False  # a poisoned contribution is not one
        cfg.mem.latency = (5, 30)
        host_link(grant_data=4)(cfg)  # so that answers wait

    async def scenario(self) -> None:
        # The default protection has the most; without one the first wrong answers say it all.
        share = 0.1 if self.double else {NONE: 0.05, PARITY: 1.0, SECDED: 0.25}[self.cfg.hw.ecc]
        flips = max(self.least[self.cfg.hw.ecc], self.cfg.count(round(60 * share)))
        self.run = ram_flips.FlipTrafficSequence(self.env, double=self.double, flips=flips)
        await self.run.run()

    async def finish(self) -> None:
        run, board = self.run, self.env.scoreboard
        assert isinstance(board, LenientScoreboard)
        await self.env.host.drain()
        flips = run.flipped
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


class HeldDataTest(NfBaseTest):
    """Flips in data that waits."""

    def configure(self, cfg: EnvConfig) -> None:
        cfg.parts.scoreboard = LenientScoreboard
        cfg.check_counters = False
        if self.settings["ram"] == "ANSWERS":
            # The host returns credits for answers rarely, so that other answers wait.
            host_link(grant_data=2, return_delay=(150, 200))(cfg)

    async def scenario(self) -> None:
        await ram_flips.HeldDataSequence(self.env, ram=self.settings["ram"]).run()

    async def finish(self) -> None:
        await self.env.host.drain()


class DoubleFlipTest(FlipTrafficTest):
    """Two bits of a word at a time."""

    double = True


@nf_test(FlipTrafficTest)
def flips() -> None:
    """Single flips in every RAM at any moment: no wrong answer, and none that is not counted."""


@cocotb.parametrize(
    ram=["EVICT", "PARKED", "DEFERRED", "STORES", "ANSWERS", "WRITES", "PLANES", "MARKS"]
)
@nf_test(HeldDataTest)
def held_data() -> None:
    """Data that waits in a RAM is damaged there: it is poisoned, and everything else is right."""


@nf_test(DoubleFlipTest)
def double_flips() -> None:
    """Two bits of a word: reported, where the code tells two from none."""


@cocotb.parametrize(lines=["counts", "fp32"])
@nf_test()
async def lost_slots(test: NfBaseTest) -> None:
    """The line of a damaged slot is lost, counted once, and never complete; the others are."""
    mode = Mode.FP32
    if test.settings["lines"] == "counts":
        mode = test.env.rng.choice((Mode.G_BINARY, Mode.G_TERNARY, Mode.G_INT4))
    rams = ("BOOK",) if mode is Mode.FP32 else ("BOOK", "PLANES")
    await ram_flips.LostSlotSequence(test.env, mode=mode, rams=rams).run()


@nf_test(ram_flips.LossAtOnceSequence)
def lost_at_once() -> None:
    """Whoever comes while a loss is written sees the line lost, and nothing of what it was."""


@nf_test(ram_flips.MendedSequence, shows="test_ram_flips::mended")
def mended() -> None:
    """A corrected word is mended in its RAM."""


@nf_test(ram_flips.ForwardedSequence)
def forwarded() -> None:
    """Forwarded state is right, whatever flips in the slot meanwhile."""


@nf_test(ram_flips.KeptOverDamageSequence)
def kept_over_damage() -> None:
    """A sum to keep finds its line lost; nothing of the damaged state is handed on."""


@nf_test(ram_flips.LostKeptSequence)
def lost_kept() -> None:
    """A line that is lost on its way out takes no sum along."""


@nf_test()
async def damaged_marks(test: NfBaseTest) -> None:
    """Damaged marks: the records are fetched, counted once, and nothing is lost."""
    await ram_flips.DamagedMarksSequence(test.env).run()
    # As many as reach every plane, which a row that was mended must still tell.
    await ram_flips.DamagedMarksSequence(test.env, workers=16, rounds=1).run()


@nf_test(ram_flips.LastMarksSequence, shows="test_ram_flips::last_marks")
def last_marks() -> None:
    """The last row of marks of a region, with another region of fewer workers."""

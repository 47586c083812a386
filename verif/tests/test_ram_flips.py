# SPDX-License-Identifier: Apache-2.0
"""Bit flips in the RAMs of the device: data may be lost or poisoned, but is never wrong."""

from typing import ClassVar

import cocotb

from models.modes import Mode
from verif.env.base_test import NfBaseTest
from verif.env.config import EnvConfig
from verif.scoreboard.lenient import LenientScoreboard
from verif.scoreboard.ram_faults import NONE, PARITY, SECDED
from verif.sequences import ram_flips
from verif.tests.decorator import host_link, nf_test


class FlipTrafficTest(NfBaseTest):
    """Test of flips at any moment under traffic; without protection (ECC 0) errors must show."""

    double = False
    least: ClassVar = {NONE: 120, PARITY: 40, SECDED: 40}
    """Minimum number of flips, by ECC, so that one is almost surely read (ECC 0: and shows)."""

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
    """Test of flips in data that waits in the RAM of the setting `ram`."""

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
    """Test of flips of two bits of a word at a time, under traffic."""

    double = True


@nf_test(FlipTrafficTest)
def flips() -> None:
    """Check single flips in every RAM at any moment: no wrong response, each poison counted."""


@cocotb.parametrize(
    ram=["EVICT", "PARKED", "DEFERRED", "STORES", "ANSWERS", "WRITES", "PLANES", "MARKS"]
)
@nf_test(HeldDataTest)
def held_data() -> None:
    """Check that data damaged while it waits in a RAM is poisoned, and all else is right."""


@nf_test(DoubleFlipTest)
def double_flips() -> None:
    """Check that two flipped bits of a word are reported if the code can detect them."""


@cocotb.parametrize(lines=["counts", "fp32"])
@nf_test()
async def lost_slots(test: NfBaseTest) -> None:
    """Check that the line of a damaged slot is lost (poisoned), counted once and never complete."""
    mode = Mode.FP32
    if test.settings["lines"] == "counts":
        modes = (Mode.G_BINARY, Mode.G_TERNARY, Mode.G_INT4)
        mode = Mode.G_TERN5 if test.cfg.hw.tern5 else test.env.rng.choice(modes)
    rams = ("BOOK",) if mode is Mode.FP32 else ("BOOK", "PLANES")
    await ram_flips.LostSlotSequence(test.env, mode=mode, rams=rams).run()


@cocotb.parametrize(repeated=[False, True])
@nf_test()
async def found_at_once(test: NfBaseTest) -> None:
    """Check operations in the clocks in which a damaged slot is lost or, by SECDED, corrected."""
    repeated = bool(test.settings["repeated"])
    await ram_flips.DamageAtOnceSequence(test.env, repeated=repeated).run()


@nf_test(ram_flips.MendedSequence, shows="test_ram_flips::mended")
def mended() -> None:
    """Check that a word that SECDED has corrected is written back to its RAM."""


@nf_test(ram_flips.ForwardedSequence)
def forwarded() -> None:
    """Check that forwarded state is right, whatever bits flip in the slot meanwhile."""


@cocotb.parametrize(kept=[False, True])
@nf_test()
async def behind_another(test: NfBaseTest) -> None:
    """Check that damaged planes are found right after an operation that does not need them."""
    kept = bool(test.settings["kept"])
    await ram_flips.BehindAnotherSequence(test.env, kept=kept).run()


@nf_test(ram_flips.KeptOverDamageSequence)
def kept_over_damage() -> None:
    """Check that an FP32 sum that returns to be kept (KEEP_SUM) finds its damaged line lost."""


@nf_test(ram_flips.LostKeptSequence)
def lost_kept() -> None:
    """Check that a damaged line, found by its eviction, loses its kept sum (KEEP_SUM) as well."""


@nf_test()
async def damaged_marks(test: NfBaseTest) -> None:
    """Check that damaged marks cause fetches, are counted once, and lose nothing."""
    await ram_flips.DamagedMarksSequence(test.env).run()
    # As many as reach every plane, which a row that was mended must still tell.
    await ram_flips.DamagedMarksSequence(test.env, workers=16, rounds=1).run()


def lenient(cfg: EnvConfig) -> None:
    """Accept poisoned answers; they are counted."""
    cfg.parts.scoreboard = LenientScoreboard
    cfg.check_counters = False


@cocotb.parametrize(probed=[False, True])
@nf_test(configure=lenient)
async def fresh_marks(test: NfBaseTest) -> None:
    """Check that a region whose marks are damaged during its initialisation counts as lost."""
    await ram_flips.FreshMarksSequence(test.env, probed=bool(test.settings["probed"])).run()


@nf_test(ram_flips.LastMarksSequence, shows="test_ram_flips::last_marks")
def last_marks() -> None:
    """Check the repair of a region's last row of marks next to a region of fewer workers."""


@nf_test(ram_flips.DamagedMarksSequence)
async def mended_at_commit(run: ram_flips.DamagedMarksSequence) -> None:
    """Check commits around the clock in which a damaged row of another region's marks is mended."""
    marked, other = (run.layout.region(Mode.G_BINARY, log2, 3) for log2 in (3, 0))
    for delay in range(14):
        await run.commit_all(other, marked, ready=True)
        await run.fill_lines(marked, None, 0)
        await run.read_lines(marked, range(run.slots), alone=True)  # the slots are clean
        await run.inject("MARKS", run.row(1), 4 * 7 + 1)
        read = cocotb.start_soon(run.read_region(marked, 7, 0))  # finds the row
        await run.cycles(delay)
        await run.commit(0)
        await read
        await run.drain()
        await run.counted()

# SPDX-License-Identifier: Apache-2.0
"""Resets in the middle of traffic, which clear all state.

Each case ends in traffic without a check; the next case of the run begins with a reset.
"""

from collections.abc import Sequence

import cocotb

from models.modes import Mode
from verif.env.base_test import NfBaseTest
from verif.sequences.control_lines import CutCommitSequence, HeldStateSequence
from verif.sequences.mixed import MixedRegionsSequence
from verif.sequences.pipeline_programs import BurstSequence
from verif.tests.decorator import ALL, nf_test


class ResetTest(NfBaseTest):
    """Test of a short run with all checks, then of traffic that the next test's reset cuts off."""

    cut_after = (150, 700)
    """Range of the number of clocks of the traffic at the end."""

    reset_clocks = 1  # more of them would empty a pipeline that has no reset
    said: Sequence[str] = ()

    async def scenario(self) -> None:
        await self.env.registers.read_all()  # reset values
        await MixedRegionsSequence(self.env, transactions=60).run()

    async def finish(self) -> None:
        await super().finish()
        self.said = self.env.errors()
        self.env.scoreboard.on_error = lambda _text: None  # its books are closed
        await self.cut_off()

    async def cut_off(self) -> None:
        """Start traffic and a commit that waits, which the next reset cuts off."""
        cocotb.start_soon(self.traffic())
        await self.env.clocks(self.env.rng.randint(*self.cut_after))
        mem = self.env.cfg.mem
        mem.b_stall = mem.r_stall = 1.0  # so that the commit waits, and the reset meets it
        if self.env.rng.random() < 0.5:  # and lines to be written back, which have not begun
            mem.aw_stall = mem.w_stall = 1.0
        cocotb.start_soon(self.env.registers.commit(0, None, 0))
        await self.env.clocks(self.env.rng.randint(30, 90))
        mem.aw_stall = mem.w_stall = mem.b_stall = mem.r_stall = 0.0

    def errors(self) -> Sequence[str]:
        return self.said

    async def traffic(self) -> None:
        """Run traffic in all modes while records are initialised."""
        run = MixedRegionsSequence(self.env, transactions=10_000)
        configs = run.make_regions()
        configs[0] = run.layout.region(Mode.G_BINARY, 8, 3)
        for region, config in enumerate(configs):
            await self.env.registers.commit(region, config, run.epoch)
        await run.traffic(configs)


class ResetInBurstTest(ResetTest):
    """Test whose reset arrives while every stage of the engine has an operation."""

    async def scenario(self) -> None:
        self.burst = BurstSequence(self.env, kind=self.settings["kind"])
        await self.burst.run()

    async def cut_off(self) -> None:
        await self.burst.burst()


class ResetInCommitTest(ResetTest):
    """Test whose reset arrives while a commit of the control window waits."""

    async def scenario(self) -> None:
        await self.env.registers.read_all()
        self.commits = CutCommitSequence(self.env)
        await self.commits.run()

    async def cut_off(self) -> None:
        await self.commits.begin()


@nf_test(ResetTest, profiles=ALL)
def reset_in_traffic() -> None:
    """Check that a reset in traffic leaves nothing that later traffic sees."""


@cocotb.parametrize(kind=["vote", "contribute", "plane"])
@nf_test(ResetInBurstTest)
def reset_in_burst() -> None:
    """Check that no operation in a stage of the engine is executed or answered after a reset.

    The next case notices that, so the last kind is cut off without a check.
    """


@nf_test(ResetInCommitTest, profiles=ALL)
def reset_in_commit() -> None:
    """Check that a reset drops a pending commit of the control window, unanswered."""


@nf_test(profiles=ALL, reset_clocks=1)
async def held_state(test: NfBaseTest) -> None:
    """Check that registers, flags, captures, control window and owners have their reset values."""
    await test.env.registers.read_all()
    await HeldStateSequence(test.env).run()

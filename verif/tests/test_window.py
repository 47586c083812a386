# SPDX-License-Identifier: Apache-2.0
"""The control window: registers as lines (second edition, section 9)."""

from __future__ import annotations

from typing import Any

import cocotb

from models.control_window import ControlWindow
from models.register_map import Register
from verif.env.base_test import PROFILES, NfBaseTest, run_negative, run_uvm
from verif.env.config import EnvConfig, Parts
from verif.scoreboard.operations import Op
from verif.scoreboard.register_predictor import RegisterPredictor, RegisterWrite
from verif.sequences.control_lines import (
    ControlLinesSequence,
    EveryOwnerSequence,
    HostsSequence,
    MovedWindowSequence,
    WaitingCommitSequence,
    WindowCommitsSequence,
)

ROUNDS = 100
"""Rounds of the long test, each drawn anew: ten seeds of the nightly suite play 1,000 of them."""


class LinesTest(NfBaseTest):
    """Every rule of the window."""

    shows = "test_window::lines"

    async def scenario(self) -> None:
        await ControlLinesSequence(self.env).run()


class HostsTest(NfBaseTest):
    """Every LD-ID."""

    async def scenario(self) -> None:
        await HostsSequence(self.env).run()


class OwnersTest(NfBaseTest):
    """An owner of each region."""

    async def scenario(self) -> None:
        await EveryOwnerSequence(self.env).run()


class WaitingCommitTest(NfBaseTest):
    """A commit behind one that waits."""

    async def scenario(self) -> None:
        await WaitingCommitSequence(self.env).run()


class CommitsTest(NfBaseTest):
    """Two hosts at once."""

    rounds = 2

    async def scenario(self) -> None:
        await WindowCommitsSequence(self.env, rounds=self.cfg.count(self.rounds)).run()


class ManyCommitsTest(CommitsTest):
    """Many rounds."""

    rounds = ROUNDS


class MovesTest(NfBaseTest):
    """The window moves under traffic."""

    async def scenario(self) -> None:
        await MovedWindowSequence(self.env).run()


class DeafToWindow(RegisterPredictor):
    """Does not see what the control window writes, but for what the interrupt pin tells."""

    def _window_words(self, op: Op) -> list[tuple[Register, int]]:
        return [one for one in super()._window_words(op) if one[0].name == "IRQ_ENABLE"]


class OpenWindow(ControlWindow):
    """Everybody may write."""

    def may_write(self, ldid: int, line: int) -> bool:
        return True


class OpenPredictor(RegisterPredictor):
    """Believes that everybody may write through the window."""

    def _move_begins(self, write: RegisterWrite) -> None:
        control = self.scoreboard.model.control
        self.scoreboard.model.control = OpenWindow(control.base, control.ld_mask, control.owners)
        super()._move_begins(write)


class DeafTest(LinesTest):
    """The bench does not see what the window writes."""

    predictor: type[RegisterPredictor] = DeafToWindow

    def configure(self, cfg: EnvConfig) -> None:
        cfg.parts = Parts(predictor=self.predictor)


class OpenTest(DeafTest):
    """The bench believes that everybody may write."""

    predictor = OpenPredictor


TWINS = [(DeafTest, "REGISTER "), (OpenTest, "ERR_INFO.VALID is 1")]


@cocotb.test()
@cocotb.parametrize(twin=[cocotb.Param(value=twin, name=twin[0].__name__) for twin in TWINS])
async def negative(_dut: Any, twin: tuple[type[NfBaseTest], str]) -> None:
    """A fault in the bench is caught by the checker of in-band writes."""
    test, expected = twin
    await run_negative(test, expected)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def lines(_dut: Any, profile: str) -> None:
    """Snapshots, writes by whom they are allowed, commits, refusals with their cause, places."""
    await run_uvm(LinesTest, profile)


@cocotb.test()
async def owners(_dut: Any) -> None:
    """Each region of the device has an owner of its own, who alone may write its registers."""
    await run_uvm(OwnersTest)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def commits(_dut: Any, profile: str) -> None:
    """Commits of two hosts at once in a full pipeline, beside AXI4-Lite on the same registers."""
    await run_uvm(CommitsTest, profile)


@cocotb.test()
async def commit_behind_commit(_dut: Any) -> None:
    """A commit by AXI4-Lite waits for the window's of the same region, and is done behind it."""
    await run_uvm(WaitingCommitTest)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def many_commits(_dut: Any, profile: str) -> None:
    """The same, a hundred rounds."""
    await run_uvm(ManyCommitsTest, profile)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def moves(_dut: Any, profile: str) -> None:
    """The window moves, and writers come and go, while requests are in flight."""
    await run_uvm(MovesTest, profile)


@cocotb.test()
async def hosts(_dut: Any) -> None:
    """Every LD-ID with and without its bit of CTRL_LD_MASK, as an owner and as none."""
    await run_uvm(HostsTest)

# SPDX-License-Identifier: Apache-2.0
"""The control window: registers as lines (second edition, section 9)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cocotb

from models.control_window import ControlWindow
from models.register_map import Register
from verif.env.base_test import NfBaseTest, run_negative
from verif.scoreboard.operations import Op
from verif.scoreboard.register_predictor import RegisterPredictor, RegisterWrite
from verif.sequences import control_lines
from verif.tests.decorator import ALL, faulty, nf_test, pyuvm_class

ROUNDS = 100
"""Rounds of the long test, each drawn anew: ten seeds of the nightly suite play 1,000 of them."""


async def play_commits(test: NfBaseTest, rounds: int) -> None:
    """Commit as two hosts at once, a scaled number of rounds."""
    await control_lines.WindowCommitsSequence(test.env, rounds=test.cfg.count(rounds)).run()


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

    def _move(self, write: RegisterWrite) -> Iterator[None]:
        control = self.scoreboard.model.control
        self.scoreboard.model.control = OpenWindow(control.base, control.ld_mask, control.owners)
        return super()._move(write)


TWINS = {
    "DeafTest": (DeafToWindow, "REGISTER "),
    "OpenTest": (OpenPredictor, "ERR_INFO.VALID is 1"),
}


@cocotb.test()
@cocotb.parametrize(twin=[cocotb.Param(value=name, name=name) for name in TWINS])
async def negative(_dut: Any, twin: str) -> None:
    """A fault in the bench is caught by the checker of in-band writes."""
    predictor, expected = TWINS[twin]
    broken = faulty(predictor=predictor)
    test = pyuvm_class(
        twin, control_lines.ControlLinesSequence, shows="test_window::lines", configure=broken
    )
    await run_negative(test, expected)


@nf_test(control_lines.ControlLinesSequence, profiles=ALL, shows="test_window::lines")
def lines() -> None:
    """Snapshots, writes by whom they are allowed, commits, refusals with their cause, places."""


@nf_test(control_lines.EveryOwnerSequence)
def owners() -> None:
    """Each region of the device has a different owner, who alone may write its registers."""


@nf_test(profiles=ALL)
async def commits(test: NfBaseTest) -> None:
    """Two hosts commit at once in a full pipeline, while AXI4-Lite accesses the same registers."""
    await play_commits(test, 2)


@nf_test(control_lines.WaitingCommitSequence)
def commit_behind_commit() -> None:
    """A commit by AXI4-Lite waits for the window's commit of the same region."""


@nf_test(profiles=ALL)
async def many_commits(test: NfBaseTest) -> None:
    """The same, a hundred rounds."""
    await play_commits(test, ROUNDS)


@nf_test(control_lines.MovedWindowSequence, profiles=ALL)
def moves() -> None:
    """The window moves, and writers come and go, while requests are in flight."""


@nf_test(control_lines.HostsSequence)
def hosts() -> None:
    """Every LD-ID with and without its bit of CTRL_LD_MASK, as an owner and as none."""

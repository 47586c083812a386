# SPDX-License-Identifier: Apache-2.0
"""Control window: registers as lines of memory (second edition, section 9)."""

from collections.abc import Iterator
from typing import Any

import cocotb

from models.control_window import ControlWindow
from models.register_types import Register
from verif.env.base_test import NfBaseTest, run_negative
from verif.scoreboard.operations import Op
from verif.scoreboard.register_predictor import RegisterPredictor, RegisterWrite
from verif.sequences import control_lines
from verif.tests.decorator import ALL, faulty, nf_test, pyuvm_class

ROUNDS = 100
"""Number of passes of the long test, each drawn anew: ten seeds of the nightly suite make 1,000."""


async def play_commits(test: NfBaseTest, rounds: int) -> None:
    """Let two hosts commit at the same time, in `rounds` passes (scaled by NF_SCALE)."""
    await control_lines.WindowCommitsSequence(test.env, rounds=test.cfg.count(rounds)).run()


class DeafToWindow(RegisterPredictor):
    """Register predictor that does not see writes of the control window, except to IRQ_ENABLE."""

    def _window_words(self, op: Op) -> list[tuple[Register, int]]:
        return [one for one in super()._window_words(op) if one[0].name == "IRQ_ENABLE"]


class OpenWindow(ControlWindow):
    """Model of a control window through which every LD-ID may write."""

    def may_write(self, ldid: int, line: int) -> bool:
        return True


class OpenPredictor(RegisterPredictor):
    """Register predictor that expects every LD-ID to be allowed to write through the window."""

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
    """Check that faults of the predictor are reported by the checks of the control window."""
    predictor, expected = TWINS[twin]
    broken = faulty(predictor=predictor)
    test = pyuvm_class(
        twin, control_lines.ControlLinesSequence, shows="test_window::lines", configure=broken
    )
    await run_negative(test, expected)


@nf_test(control_lines.ControlLinesSequence, profiles=ALL, shows="test_window::lines")
def lines() -> None:
    """Check the rules of the control window: reads, permitted writes, commits, refusals, moves."""


@nf_test(control_lines.EveryOwnerSequence)
def owners() -> None:
    """Check that only the owner (OWNER_LD) of each region may write its registers."""


@nf_test(profiles=ALL)
async def commits(test: NfBaseTest) -> None:
    """Check commits of two hosts at the same time, with AXI4-Lite on the same registers."""
    await play_commits(test, 2)


@nf_test(control_lines.WaitingCommitSequence)
def commit_behind_commit() -> None:
    """Check that a commit by AXI4-Lite waits for the control window's commit of the same region."""


@nf_test(profiles=ALL)
async def many_commits(test: NfBaseTest) -> None:
    """Check commits of two hosts and of AXI4-Lite at once, in a hundred passes (scaled)."""
    await play_commits(test, ROUNDS)


@nf_test(control_lines.MovedWindowSequence, profiles=ALL)
def moves() -> None:
    """Check moves of the control window and changes of permissions under requests in flight."""


@nf_test(control_lines.HostsSequence)
def hosts() -> None:
    """Check writes as every LD-ID: with and without its bit in CTRL_LD_MASK, as owner or not."""

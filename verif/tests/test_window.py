# SPDX-License-Identifier: Apache-2.0
"""The control window: registers as lines (second edition, section 9)."""

from __future__ import annotations

from typing import Any

import cocotb

from verif.env.base_test import PROFILES, NfBaseTest, run_uvm
from verif.sequences.control_lines import ControlLinesSequence
from verif.sequences.window_commits import MovedWindowSequence, WindowCommitsSequence

ROUNDS = 100
"""Rounds of the long test, each drawn anew: ten seeds of the nightly suite play 1,000 of them."""


class LinesTest(NfBaseTest):
    """Every rule of the window."""

    async def scenario(self) -> None:
        await ControlLinesSequence(self.env).run()


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


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def lines(_dut: Any, profile: str) -> None:
    """Snapshots, writes by whom they are allowed, commits, refusals with their cause, places."""
    await run_uvm(LinesTest, profile)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def commits(_dut: Any, profile: str) -> None:
    """Commits of two hosts at once in a full pipeline, beside AXI4-Lite on the same registers."""
    await run_uvm(CommitsTest, profile)


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

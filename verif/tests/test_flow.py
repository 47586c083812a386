# SPDX-License-Identifier: Apache-2.0
"""Admission: no kind of request starves or blocks the other."""

from __future__ import annotations

from typing import Any

import cocotb

from cocotbext.cxl.config import CxlConfig
from verif.env.base_test import NfBaseTest, run_uvm
from verif.env.config import EnvConfig
from verif.sequences.mixed import CompletionsMeetSequence
from verif.sequences.pressure import FlowSequence, HeldSequence, StandstillSequence


class FlowTest(NfBaseTest):
    """Floods of reads and of writes."""

    async def scenario(self) -> None:
        for reads_flood in (True, False):
            await FlowSequence(self.env, reads_flood=reads_flood).run()


class HeldDataTest(NfBaseTest):
    """One credit for data, given back after hundreds of clocks."""

    data = True

    def configure(self, cfg: EnvConfig) -> None:
        def shape(link: CxlConfig) -> None:
            link.link.grant_plain = 1 if not self.data else 64
            link.link.grant_data = 1 if self.data else 64
            link.link.return_delay = (600, 700)

        cfg.shape_link = shape

    async def scenario(self) -> None:
        await HeldSequence(self.env, data=self.data).run()


class HeldCompletionsTest(HeldDataTest):
    """One credit for completions, given back as late."""

    data = False


class CompletionsMeetTest(NfBaseTest):
    """Completions of memory and of the engine."""

    async def scenario(self) -> None:
        await CompletionsMeetSequence(self.env).run()


class StandstillTest(NfBaseTest):
    """Memory stands still, one channel after the other."""

    async def scenario(self) -> None:
        await StandstillSequence(self.env).run()


@cocotb.test()
async def standstill(_dut: Any) -> None:
    """Every queue towards memory takes what it has room for, and others go on meanwhile."""
    await run_uvm(StandstillTest)


@cocotb.test()
async def flow(_dut: Any) -> None:
    """A single request passes a flood of the other kind."""
    await run_uvm(FlowTest)


@cocotb.test()
async def held_data(_dut: Any) -> None:
    """A write is completed while every place for data is taken."""
    await run_uvm(HeldDataTest)


@cocotb.test()
async def held_completions(_dut: Any) -> None:
    """A read is answered while every place for completions is taken."""
    await run_uvm(HeldCompletionsTest)


@cocotb.test()
async def completions_meet(_dut: Any) -> None:
    """A completion of memory that comes with one of the engine waits a clock, and is not lost."""
    await run_uvm(CompletionsMeetTest)

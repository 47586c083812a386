# SPDX-License-Identifier: Apache-2.0
"""Exact forgeries of records, placed where a host can place them."""

from __future__ import annotations

from typing import Any

import cocotb

from verif.env.base_test import NfBaseTest, run_uvm
from verif.env.config import EnvConfig
from verif.sequences.epochs import (
    BesideMarkSequence,
    InitialiserSequence,
    MovedSequence,
    RefusedFrontSequence,
    RefusedTwiceSequence,
    ReshapeSequence,
)


class ReshapeTest(NfBaseTest):
    """A region changes its shape on an area that it has prepared as FP32 data."""

    async def scenario(self) -> None:
        for change in ("workers", "lines", "mode", "place"):
            await ReshapeSequence(self.env, change=change).run()


class RefusedTwiceTest(NfBaseTest):
    """A refused initialisation, and a second commit."""

    async def scenario(self) -> None:
        await RefusedTwiceSequence(self.env).run()


class RefusedFrontTest(NfBaseTest):
    """A refused write of the initialiser, which goes on."""

    async def scenario(self) -> None:
        await RefusedFrontSequence(self.env, last=self.settings["last"]).run()


class MovedTest(NfBaseTest):
    """A region in work moves, and one that waits needs no records any more."""

    async def scenario(self) -> None:
        await MovedSequence(self.env).run()


class InitialiserTest(NfBaseTest):
    """Reads around the front of the initialiser."""

    async def scenario(self) -> None:
        await InitialiserSequence(self.env).run()


class BesideMarkTest(NfBaseTest):
    """Neighbours of a line that has left the chip before the initialiser has come to it."""

    async def scenario(self) -> None:
        await BesideMarkSequence(self.env).run()


class SlowInitialiserTest(NfBaseTest):
    """The same while memory answers writes late and in another order."""

    def configure(self, cfg: EnvConfig) -> None:
        cfg.mem.latency = (2, 60)
        cfg.mem.reorder = True

    async def scenario(self) -> None:
        await InitialiserSequence(self.env, lines_log2=9).run()


@cocotb.test()
async def reshape(_dut: Any) -> None:
    """What an area held under another shape is never state."""
    await run_uvm(ReshapeTest)


@cocotb.test()
async def refused_twice(_dut: Any) -> None:
    """An area that could not be initialised is initialised by the next commit."""
    await run_uvm(RefusedTwiceTest)


@cocotb.test()
@cocotb.parametrize(last=[False, True])
async def refused_front(_dut: Any, last: bool) -> None:
    """After a refused initialisation no line is taken for empty, in the last region neither."""
    await run_uvm(RefusedFrontTest, last=last)


@cocotb.test()
async def moved(_dut: Any) -> None:
    """A commit during the initialisation of its own region, and of one that waits."""
    await run_uvm(MovedTest)


@cocotb.test()
async def initialiser(_dut: Any) -> None:
    """A line is empty before, while and after its record is initialised."""
    await run_uvm(InitialiserTest)


@cocotb.test()
async def beside_mark(_dut: Any) -> None:
    """A line is empty until its record is initialised, though its neighbour has one to come."""
    await run_uvm(BesideMarkTest)


@cocotb.test()
async def slow_initialiser(_dut: Any) -> None:
    """A record counts as initialised when memory has answered."""
    await run_uvm(SlowInitialiserTest)

# SPDX-License-Identifier: Apache-2.0
"""Evictions: more lines in use than slots."""

from __future__ import annotations

from typing import Any

import cocotb

from models.line_packing import Mode
from verif.env.base_test import PROFILES, NfBaseTest, run_uvm
from verif.env.env import Sink
from verif.sequences.eviction import (
    AgainAtOnceSequence,
    AllInFlightSequence,
    EvictionSequence,
    FetchedPlanesSequence,
    NeighbourRoundsSequence,
    PinnedSlotSequence,
)


class EvictionTest(NfBaseTest):
    """Low-bit lines, workers in the outer loop."""

    shows = "test_eviction::eviction"

    async def scenario(self) -> None:
        await EvictionSequence(self.env).run()


class EvictionShuffleTest(NfBaseTest):
    """Random order, more reads, and FP32 lines too."""

    async def scenario(self) -> None:
        await EvictionSequence(
            self.env, shuffle=True, reads=0.3, modes=(Mode.G_BINARY, Mode.FP32)
        ).run()


class AllInFlightTest(NfBaseTest):
    """The eviction buffer as full as it gets."""

    async def scenario(self) -> None:
        await AllInFlightSequence(self.env).run()


class AgainAtOnceTest(NfBaseTest):
    """Lines that are wanted again while they leave."""

    async def scenario(self) -> None:
        await AgainAtOnceSequence(self.env).run()


class PinnedSlotTest(NfBaseTest):
    """A miss beside a sum that takes its time."""

    async def scenario(self) -> None:
        await PinnedSlotSequence(self.env).run()


class NeighbourRoundsTest(NfBaseTest):
    """Regions of several rows of marks, committed in turn."""

    async def scenario(self) -> None:
        await NeighbourRoundsSequence(self.env).run()


class FetchedPlanesTest(NfBaseTest):
    """Lines of few and of many contributions, out and in again."""

    async def scenario(self) -> None:
        sequence = FetchedPlanesSequence(self.env)
        self.env.mem.monitor.ap.connect(Sink("beats", self, sequence.beat))
        await sequence.run()


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def eviction(_dut: Any, profile: str) -> None:
    """A line that is evicted between its workers loses nothing."""
    await run_uvm(EvictionTest, profile)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def eviction_shuffled(_dut: Any, profile: str) -> None:
    """Evictions in random order, reads between."""
    await run_uvm(EvictionShuffleTest, profile)


@cocotb.test()
async def again_at_once(_dut: Any) -> None:
    """A line that a miss throws out is wanted in each clock behind that miss."""
    await run_uvm(AgainAtOnceTest)


@cocotb.test()
async def pinned_slot(_dut: Any) -> None:
    """A miss does not wait for the oldest slot, while that is pinned."""
    await run_uvm(PinnedSlotTest)


@cocotb.test()
async def rounds_of_neighbours(_dut: Any) -> None:
    """A new round of a region leaves the evicted lines of the others what they are."""
    await run_uvm(NeighbourRoundsTest)


@cocotb.test()
async def fetched_planes(_dut: Any) -> None:
    """A fetch moves the bookkeeping and the planes that mean something, no other ones."""
    await run_uvm(FetchedPlanesTest)


@cocotb.test()
async def all_in_flight(_dut: Any) -> None:
    """A line that is wanted while memory has not answered to its eviction, at every place."""
    await run_uvm(AllInFlightTest)

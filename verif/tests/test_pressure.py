# SPDX-License-Identifier: Apache-2.0
"""Full queues of the engine while memory is slow."""

from __future__ import annotations

from typing import Any

import cocotb

from verif.env.base_test import NfBaseTest, run_uvm
from verif.sequences.pressure import (
    EverySlotSequence,
    EvictedSumSequence,
    HammerSequence,
    MissSequence,
    ParkedSequence,
    PoisonedStoreSequence,
    ReadOnlySequence,
    StoreBurstSequence,
    StoreSequence,
)


class ParkedTest(NfBaseTest):
    """More operations on a missing line than can wait."""

    async def scenario(self) -> None:
        await ParkedSequence(self.env).run()


class MissTest(NfBaseTest):
    """Every access evicts."""

    async def scenario(self) -> None:
        await MissSequence(self.env).run()


class EverySlotTest(NfBaseTest):
    """FP32 lines in every slot."""

    async def scenario(self) -> None:
        await EverySlotSequence(self.env).run()


class ReadOnlyTest(NfBaseTest):
    """Lines that are only read."""

    async def scenario(self) -> None:
        await ReadOnlySequence(self.env).run()


class StoreTest(NfBaseTest):
    """FP32 stores and sums of more lines than slots."""

    async def scenario(self) -> None:
        await StoreSequence(self.env).run()


class StoreBurstTest(NfBaseTest):
    """Dozens of FP32 stores of one line."""

    async def scenario(self) -> None:
        await StoreBurstSequence(self.env).run()


class HammerTest(NfBaseTest):
    """FP32 operations that never leave a slot alone."""

    async def scenario(self) -> None:
        await HammerSequence(self.env).run()


class PoisonedStoreTest(NfBaseTest):
    """Poisoned FP32 stores and evictions."""

    async def scenario(self) -> None:
        await PoisonedStoreSequence(self.env).run()


class EvictedSumTest(NfBaseTest):
    """Slots are wanted while a sum is read."""

    async def scenario(self) -> None:
        await EvictedSumSequence(self.env).run()


@cocotb.test()
async def parked(_dut: Any) -> None:
    """Operations wait for their line, none is lost, none overtakes."""
    await run_uvm(ParkedTest)


@cocotb.test()
async def misses(_dut: Any) -> None:
    """A burst of misses, each with a dirty victim."""
    await run_uvm(MissTest)


@cocotb.test()
async def every_slot(_dut: Any) -> None:
    """Stores and sums, kept ones too, find their line in whatever slot it is."""
    await run_uvm(EverySlotTest)


@cocotb.test()
async def read_only(_dut: Any) -> None:
    """A line that did not change is not written back."""
    await run_uvm(ReadOnlyTest)


@cocotb.test()
async def stores(_dut: Any) -> None:
    """A slot stays while stores or sums of its line are under way."""
    await run_uvm(StoreTest)


@cocotb.test()
async def store_burst(_dut: Any) -> None:
    """Counters of stores under way hold as many as there can be."""
    await run_uvm(StoreBurstTest)


@cocotb.test()
async def hammer(_dut: Any) -> None:
    """A miss gets a slot, however busy others keep all of them."""
    await run_uvm(HammerTest)


@cocotb.test()
async def poisoned_stores(_dut: Any) -> None:
    """The poison of a line survives its eviction."""
    await run_uvm(PoisonedStoreTest)


@cocotb.test()
async def evicted_sum(_dut: Any) -> None:
    """A sum is atomic, also when other lines want its slot."""
    await run_uvm(EvictedSumTest)

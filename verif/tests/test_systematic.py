# SPDX-License-Identifier: Apache-2.0
"""What a draw meets by luck alone, gone through one by one: states, distances, numbers, counts."""

from __future__ import annotations

from typing import Any

import cocotb

from verif.env.base_test import NfBaseTest, run_uvm
from verif.sequences.aggregate import (
    EveryChangeSequence,
    EveryCountSequence,
    EveryPairSequence,
    EveryRegionSequence,
    EveryWorkersSequence,
    LargeRegionSequence,
)
from verif.sequences.base import NfSequence
from verif.sequences.descriptors import EveryBitSequence
from verif.sequences.eviction import (
    EveryFigureSequence,
    EveryMarkSequence,
    EveryMissSequence,
    EveryParkSequence,
    EveryTallySequence,
    EvictionBufferSequence,
)
from verif.sequences.int_codes import EveryIntSequence
from verif.sequences.pipeline_programs import (
    BadBeatSequence,
    HeldBackSequence,
    LookupSequence,
    OwnMarkSequence,
    PipelineDuplicateSequence,
    PipelineSequence,
    ReadStateSequence,
    StoredStateSequence,
    WriteStateSequence,
)
from verif.sequences.pressure import (
    BetweenBeatsSequence,
    BusyCommitSequence,
    FullExitSequence,
    FullFillSequence,
    HeldChannelSequence,
    LatencySequence,
)
from verif.sequences.protection import EveryAccessSequence
from verif.sequences.round_views import EveryCloseSequence, EveryStatusSequence


async def _run(sequence: type[NfSequence]) -> None:
    class Test(NfBaseTest):
        """One sequence."""

        async def scenario(self) -> None:
            await sequence(self.env).run()

    await run_uvm(type(f"Systematic.{sequence.__name__}", (Test,), {}))


@cocotb.test()
async def pipeline(_dut: Any) -> None:
    """Every distance of two operations on a line, every set of stages that hold it."""
    await _run(PipelineSequence)


@cocotb.test()
async def held_back(_dut: Any) -> None:
    """Operations in the clock in which another one of their line leaves the waiting queue."""
    await _run(HeldBackSequence)


@cocotb.test()
async def lookups(_dut: Any) -> None:
    """A read and a write by every way to a line, in each mode, for each class of W."""
    await _run(LookupSequence)


@cocotb.test()
async def full_exits(_dut: Any) -> None:
    """More parked stores and sums than their queues hold."""
    await _run(FullExitSequence)


@cocotb.test()
async def full_fills(_dut: Any) -> None:
    """More missing lines than the queue of fills holds."""
    await _run(FullFillSequence)


@cocotb.test()
async def evictions(_dut: Any) -> None:
    """Every level of the eviction buffer; slots that may not be taken."""
    await _run(EvictionBufferSequence)


@cocotb.test()
async def between_beats(_dut: Any) -> None:
    """Data of others between the beats of a record."""
    await _run(BetweenBeatsSequence)


@cocotb.test()
async def latencies(_dut: Any) -> None:
    """Every path to memory, with every class of latency."""
    await _run(LatencySequence)


@cocotb.test()
async def descriptor_bits(_dut: Any) -> None:
    """Every bit of a descriptor both ways, in every region."""
    await _run(EveryBitSequence)


@cocotb.test()
async def large_regions(_dut: Any) -> None:
    """Regions so large that the upper bits of an index count."""
    await _run(LargeRegionSequence)


@cocotb.test()
async def read_states(_dut: Any) -> None:
    """Reads of clean, poisoned and lost lines, early and complete, on chip and fetched."""
    await _run(ReadStateSequence)


@cocotb.test()
async def own_marks(_dut: Any) -> None:
    """Lines that come back by a mark of their own: clean, poisoned, lost, with workers or none."""
    await _run(OwnMarkSequence)


@cocotb.test()
async def write_states(_dut: Any) -> None:
    """Writes to clean, poisoned and lost lines, new and seen, good and poisoned."""
    await _run(WriteStateSequence)


@cocotb.test()
async def duplicates(_dut: Any) -> None:
    """Duplicates of every kind, and every number of illegal codes."""
    await _run(PipelineDuplicateSequence)


@cocotb.test()
async def stored_states(_dut: Any) -> None:
    """Memory answers to FP32 stores in consecutive clocks, good ones and refused."""
    await _run(StoredStateSequence)


@cocotb.test()
async def bad_beats(_dut: Any) -> None:
    """An error of each kind in each beat of a record, in each mode."""
    await _run(BadBeatSequence)


@cocotb.test()
async def workers(_dut: Any) -> None:
    """Every W from 1 to 64 in every mode."""
    await _run(EveryWorkersSequence)


@cocotb.test()
async def regions(_dut: Any) -> None:
    """Everything that a region has of its own, in every region."""
    await _run(EveryRegionSequence)


@cocotb.test()
async def changes(_dut: Any) -> None:
    """Every change that a commit can make, in every mode."""
    await _run(EveryChangeSequence)


@cocotb.test()
async def accesses(_dut: Any) -> None:
    """Every opcode at every selector where its meaning changes."""
    await _run(EveryAccessSequence)


@cocotb.test()
async def counts(_dut: Any) -> None:
    """Every count beside the majority and the threshold, every content of a plane."""
    await _run(EveryCountSequence)


@cocotb.test()
async def pairs(_dut: Any) -> None:
    """FP32 sums of every class with every class."""
    await _run(EveryPairSequence)


@cocotb.test()
async def closed(_dut: Any) -> None:
    """Every late write and every read of a round that is closed, in each mode."""
    await _run(EveryCloseSequence)


@cocotb.test()
async def codes(_dut: Any) -> None:
    """Every view of integer codes, for every class of W, with every shape of codes."""
    await _run(EveryIntSequence)


@cocotb.test()
async def status(_dut: Any) -> None:
    """DONE and FALLBACK through their lives; every class of their limits."""
    await _run(EveryStatusSequence)


@cocotb.test()
async def held_channels(_dut: Any) -> None:
    """Beats of the memory port that wait long for READY, of each client."""
    await _run(HeldChannelSequence)


@cocotb.test()
async def busy_commits(_dut: Any) -> None:
    """Commits of each mode while others have requests in memory."""
    await _run(BusyCommitSequence)


@cocotb.test()
async def tallies(_dut: Any) -> None:
    """The tally of every worker of every region."""
    await _run(EveryTallySequence)


@cocotb.test()
async def marks(_dut: Any) -> None:
    """Every row of marks of evicted lines, of every region."""
    await _run(EveryMarkSequence)


@cocotb.test()
async def misses(_dut: Any) -> None:
    """FP32 operations of every kind that wait for a record, in every slot."""
    await _run(EveryMissSequence)


@cocotb.test()
async def parked(_dut: Any) -> None:
    """As many operations as the device admits wait for records."""
    await _run(EveryParkSequence)


@cocotb.test()
async def figures(_dut: Any) -> None:
    """Every figure of STATUS of every region, up to 256."""
    await _run(EveryFigureSequence)

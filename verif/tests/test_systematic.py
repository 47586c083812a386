# SPDX-License-Identifier: Apache-2.0
"""Exhaustive sweeps of states, distances and numbers that random stimulus rarely reaches."""

from verif.sequences import (
    aggregate,
    code_regions,
    descriptors,
    eviction,
    pipeline_programs,
    pressure,
    protection,
    round_views,
)
from verif.tests.decorator import nf_test


@nf_test(pipeline_programs.PipelineSequence)
def pipeline() -> None:
    """Check operations on one line at every distance in the engine, in many sequences of kinds."""


@nf_test(pipeline_programs.HeldBackSequence)
def held_back() -> None:
    """Check operations in the cycle of another one of their line: issue, fill or store response."""


@nf_test(pipeline_programs.LookupSequence)
def lookups() -> None:
    """Check reads and writes that find their line in each way, in each mode and class of W."""


@nf_test(pressure.FullExitSequence)
def full_exits() -> None:
    """Check parked stores and sums beyond the capacity of their queues to memory."""


@nf_test(pressure.FullFillSequence)
def full_fills() -> None:
    """Check more missing lines than the queue of fills holds."""


@nf_test(eviction.EvictionBufferSequence)
def evictions() -> None:
    """Check every fill level of the eviction buffer, and slots that must not be evicted."""


@nf_test(pressure.BetweenBeatsSequence)
def between_beats() -> None:
    """Check data of other reads between the beats of a record's burst."""


@nf_test(pressure.LatencySequence)
def latencies() -> None:
    """Check every path to memory at latencies of 1, 8, 30 and 80 cycles."""


@nf_test(descriptors.EveryBitSequence)
def descriptor_bits() -> None:
    """Check that every bit of a descriptor can be set and cleared, in every region."""


@nf_test(aggregate.LargeRegionSequence)
def large_regions() -> None:
    """Check regions so large that the upper bits of a line index are used."""


@nf_test(pipeline_programs.ReadStateSequence)
def read_states() -> None:
    """Check reads of clean, poisoned and lost lines, early and complete, in slots and fetched."""


@nf_test(pipeline_programs.OwnMarkSequence)
def own_marks() -> None:
    """Check that clean, poisoned and lost lines are fetched by their own mark, with any workers."""


@nf_test(pipeline_programs.WriteStateSequence)
def write_states() -> None:
    """Check writes of new and seen workers, clean or poisoned, to clean, poisoned, lost lines."""


@nf_test(pipeline_programs.PipelineDuplicateSequence)
def duplicates() -> None:
    """Check duplicates of every kind, and lines with 1, some and 256 illegal codes."""


@nf_test(pipeline_programs.StoredStateSequence)
def stored_states() -> None:
    """Check memory responses to FP32 stores in consecutive clocks, OKAY and errors."""


@nf_test(pipeline_programs.BadBeatSequence)
def bad_beats() -> None:
    """Check an error of each kind, and poison, in each beat of a record, in each mode."""


@nf_test(aggregate.EveryWorkersSequence)
def workers() -> None:
    """Check every W from 1 to 64 in G_BINARY, G_TERNARY and FP32."""


@nf_test(aggregate.EveryRegionSequence)
def regions() -> None:
    """Check everything that the device has once per region, in every region."""


@nf_test(aggregate.EveryChangeSequence)
def changes() -> None:
    """Check commits that change each field of a descriptor, in every mode."""


@nf_test(protection.EveryAccessSequence)
def accesses() -> None:
    """Check every opcode at every selector where its meaning changes."""


@nf_test(aggregate.EveryCountSequence)
def counts() -> None:
    """Check every number of votes next to majority and threshold, and patterns of planes."""


@nf_test(aggregate.EveryPairSequence)
def pairs() -> None:
    """Check FP32 sums of each class of operand with each other class."""


@nf_test(round_views.EveryCloseSequence)
def closed() -> None:
    """Check late writes and all reads of a region after CLOSE, in each mode."""


@nf_test(code_regions.EveryIntSequence)
def codes() -> None:
    """Check reads of integer codes by every selector, for each class of W and code shape."""


@nf_test(round_views.EveryStatusSequence)
def status() -> None:
    """Check DONE, FALLBACK and interrupts from event to clear, and every class of their limits."""


@nf_test(pressure.HeldChannelSequence)
def held_channels() -> None:
    """Check transfers of each client on the memory port that wait long for READY."""


@nf_test(pressure.BusyCommitSequence)
def busy_commits() -> None:
    """Check commits of each mode while operations of other regions wait for memory."""


@nf_test(round_views.EveryTallySequence)
def tallies() -> None:
    """Check the count of contributed lines of every worker of every region."""


@nf_test(eviction.EveryMarkSequence)
def marks() -> None:
    """Check eviction and fetch of a line in every row of the mark table, in every region."""


@nf_test(eviction.EveryMissSequence)
def misses() -> None:
    """Check FP32 operations of every kind that wait for a record, in every slot."""


@nf_test(eviction.EveryParkSequence)
def parked() -> None:
    """Check the engine with as many operations as the device admits, all waiting for records."""


@nf_test(round_views.EveryFigureSequence)
def figures() -> None:
    """Check every counter in STATUS of every region, up to 256."""

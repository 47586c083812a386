# SPDX-License-Identifier: Apache-2.0
"""Exhaustive sweeps of states, distances and numbers that random stimulus rarely reaches."""

from __future__ import annotations

from verif.sequences import (
    aggregate,
    descriptors,
    eviction,
    int_codes,
    pipeline_programs,
    pressure,
    protection,
    round_views,
)
from verif.tests.decorator import nf_test


@nf_test(pipeline_programs.PipelineSequence)
def pipeline() -> None:
    """Every distance of two operations on a line, every set of stages that hold it."""


@nf_test(pipeline_programs.HeldBackSequence)
def held_back() -> None:
    """Operations in the clock in which another one of their line leaves the waiting queue."""


@nf_test(pipeline_programs.LookupSequence)
def lookups() -> None:
    """A read and a write by every way to a line, in each mode, for each class of W."""


@nf_test(pressure.FullExitSequence)
def full_exits() -> None:
    """More parked stores and sums than their queues hold."""


@nf_test(pressure.FullFillSequence)
def full_fills() -> None:
    """More missing lines than the queue of fills holds."""


@nf_test(eviction.EvictionBufferSequence)
def evictions() -> None:
    """Every level of the eviction buffer; slots that may not be taken."""


@nf_test(pressure.BetweenBeatsSequence)
def between_beats() -> None:
    """Data of others between the beats of a record."""


@nf_test(pressure.LatencySequence)
def latencies() -> None:
    """Every path to memory, with every class of latency."""


@nf_test(descriptors.EveryBitSequence)
def descriptor_bits() -> None:
    """Every bit of a descriptor both ways, in every region."""


@nf_test(aggregate.LargeRegionSequence)
def large_regions() -> None:
    """Regions so large that the upper bits of an index count."""


@nf_test(pipeline_programs.ReadStateSequence)
def read_states() -> None:
    """Reads of clean, poisoned and lost lines, early and complete, on chip and fetched."""


@nf_test(pipeline_programs.OwnMarkSequence)
def own_marks() -> None:
    """Lines that are fetched by their own mark: clean, poisoned, lost, with workers or none."""


@nf_test(pipeline_programs.WriteStateSequence)
def write_states() -> None:
    """Writes to clean, poisoned and lost lines, new and seen, good and poisoned."""


@nf_test(pipeline_programs.PipelineDuplicateSequence)
def duplicates() -> None:
    """Duplicates of every kind, and every number of illegal codes."""


@nf_test(pipeline_programs.StoredStateSequence)
def stored_states() -> None:
    """Memory answers to FP32 stores in consecutive clocks, good ones and refused."""


@nf_test(pipeline_programs.BadBeatSequence)
def bad_beats() -> None:
    """An error of each kind in each beat of a record, in each mode."""


@nf_test(aggregate.EveryWorkersSequence)
def workers() -> None:
    """Every W from 1 to 64 in every mode."""


@nf_test(aggregate.EveryRegionSequence)
def regions() -> None:
    """All state of a region, in every region."""


@nf_test(aggregate.EveryChangeSequence)
def changes() -> None:
    """Every change that a commit can make, in every mode."""


@nf_test(protection.EveryAccessSequence)
def accesses() -> None:
    """Every opcode at every selector where its meaning changes."""


@nf_test(aggregate.EveryCountSequence)
def counts() -> None:
    """Every count next to the majority and the threshold, every content of a plane."""


@nf_test(aggregate.EveryPairSequence)
def pairs() -> None:
    """FP32 sums of every class with every class."""


@nf_test(round_views.EveryCloseSequence)
def closed() -> None:
    """Every late write and every read of a round that is closed, in each mode."""


@nf_test(int_codes.EveryIntSequence)
def codes() -> None:
    """Every view of integer codes, for every class of W, with every shape of codes."""


@nf_test(round_views.EveryStatusSequence)
def status() -> None:
    """DONE and FALLBACK through their lives; every class of their limits."""


@nf_test(pressure.HeldChannelSequence)
def held_channels() -> None:
    """Beats of the memory port that wait long for READY, of each client."""


@nf_test(pressure.BusyCommitSequence)
def busy_commits() -> None:
    """Commits of each mode while others have requests in memory."""


@nf_test(eviction.EveryTallySequence)
def tallies() -> None:
    """The tally of every worker of every region."""


@nf_test(eviction.EveryMarkSequence)
def marks() -> None:
    """Every row of marks of evicted lines, of every region."""


@nf_test(eviction.EveryMissSequence)
def misses() -> None:
    """FP32 operations of every kind that wait for a record, in every slot."""


@nf_test(eviction.EveryParkSequence)
def parked() -> None:
    """The most operations that the device admits wait for records."""


@nf_test(eviction.EveryFigureSequence)
def figures() -> None:
    """Every figure of STATUS of every region, up to 256."""

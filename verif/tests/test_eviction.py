# SPDX-License-Identifier: Apache-2.0
"""Evictions of lines from engine slots: more lines in use than slots."""

from models.modes import Mode
from verif.env.base_test import NfBaseTest
from verif.env.env import Sink
from verif.sequences.eviction import (
    AgainAtOnceSequence,
    AllInFlightSequence,
    EvictionSequence,
    FetchedPlanesSequence,
    NeighbourRoundsSequence,
    PinnedSlotSequence,
)
from verif.tests.decorator import ALL, nf_test


@nf_test(EvictionSequence, profiles=ALL, shows="test_eviction::eviction")
def eviction() -> None:
    """Check that a line that is evicted between its workers loses no contribution."""


@nf_test(EvictionSequence, profiles=ALL, shuffle=True, reads=0.3, modes=(Mode.G_BINARY, Mode.FP32))
def eviction_shuffled() -> None:
    """Check that lines evicted in random order, with reads between, lose no contribution."""


@nf_test(AgainAtOnceSequence)
def again_at_once() -> None:
    """Check accesses to a line in each of the clocks after the miss that evicts it."""


@nf_test(PinnedSlotSequence)
def pinned_slot() -> None:
    """Check that a miss does not wait for the oldest slot while an FP32 sum pins it."""


@nf_test(NeighbourRoundsSequence)
def rounds_of_neighbours() -> None:
    """Check that a new epoch of a region keeps the evicted lines of other regions."""


@nf_test()
async def fetched_planes(test: NfBaseTest) -> None:
    """Check that a fetch reads the bookkeeping and only planes that contributions can reach."""
    sequence = FetchedPlanesSequence(test.env)
    test.env.mem.monitor.ap.connect(Sink("beats", test, sequence.beat))
    await sequence.run()


@nf_test(AllInFlightSequence)
def all_in_flight() -> None:
    """Check accesses to lines that are being written back, with all evictions in flight."""

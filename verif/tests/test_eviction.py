# SPDX-License-Identifier: Apache-2.0
"""Evictions: more lines in use than slots."""

from __future__ import annotations

from models.line_packing import Mode
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
    """A line that is evicted between its workers loses nothing."""


@nf_test(EvictionSequence, profiles=ALL, shuffle=True, reads=0.3, modes=(Mode.G_BINARY, Mode.FP32))
def eviction_shuffled() -> None:
    """Evictions in random order, reads between."""


@nf_test(AgainAtOnceSequence)
def again_at_once() -> None:
    """A line that a miss evicts is accessed in each of the clocks that follow the miss."""


@nf_test(PinnedSlotSequence)
def pinned_slot() -> None:
    """A miss does not wait for the oldest slot, while that is pinned."""


@nf_test(NeighbourRoundsSequence)
def rounds_of_neighbours() -> None:
    """A new round of a region leaves the evicted lines of the others what they are."""


@nf_test()
async def fetched_planes(test: NfBaseTest) -> None:
    """A fetch moves the bookkeeping and the planes that mean something, no other ones."""
    sequence = FetchedPlanesSequence(test.env)
    test.env.mem.monitor.ap.connect(Sink("beats", test, sequence.beat))
    await sequence.run()


@nf_test(AllInFlightSequence)
def all_in_flight() -> None:
    """A line that is wanted while memory has not answered to its eviction, at every place."""

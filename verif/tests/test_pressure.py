# SPDX-License-Identifier: Apache-2.0
"""Full queues of the engine while memory is slow."""

from __future__ import annotations

from verif.sequences import pressure
from verif.tests.decorator import nf_test


@nf_test(pressure.ParkedSequence)
def parked() -> None:
    """Operations wait for their line, none is lost, none overtakes."""


@nf_test(pressure.MissSequence)
def misses() -> None:
    """A burst of misses, each with a dirty victim."""


@nf_test(pressure.EverySlotSequence)
def every_slot() -> None:
    """Stores and sums, kept ones too, find their line in whatever slot it is."""


@nf_test(pressure.ReadOnlySequence)
def read_only() -> None:
    """A line that did not change is not written back."""


@nf_test(pressure.StoreSequence)
def stores() -> None:
    """A slot stays while stores or sums of its line are under way."""


@nf_test(pressure.StoreBurstSequence)
def store_burst() -> None:
    """Counters of stores under way hold as many as there can be."""


@nf_test(pressure.HammerSequence)
def hammer() -> None:
    """A miss gets a slot, however busy others keep all of them."""


@nf_test(pressure.PoisonedStoreSequence)
def poisoned_stores() -> None:
    """The poison of a line survives its eviction."""


@nf_test(pressure.EvictedSumSequence)
def evicted_sum() -> None:
    """A sum is atomic, also when other lines want its slot."""

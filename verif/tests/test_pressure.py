# SPDX-License-Identifier: Apache-2.0
"""Full queues of the engine while memory is slow."""

from verif.sequences import pressure
from verif.tests.decorator import nf_test


@nf_test(pressure.ParkedSequence)
def parked() -> None:
    """Check that operations that wait for a record are neither lost nor reordered on their line."""


@nf_test(pressure.MissSequence)
def misses() -> None:
    """Check a burst of misses, each of which evicts a dirty line."""


@nf_test(pressure.EverySlotSequence)
def every_slot() -> None:
    """Check FP32 stores and sums, also sums kept by KEEP_SUM, in every slot."""


@nf_test(pressure.ReadOnlySequence)
def read_only() -> None:
    """Check that a line that was only read is not written back."""


@nf_test(pressure.StoreSequence)
def stores() -> None:
    """Check that a line keeps its slot while FP32 stores or sums of it are in progress."""


@nf_test(pressure.StoreBurstSequence)
def store_burst() -> None:
    """Check that the counter of FP32 stores in progress of a line does not overflow."""


@nf_test(pressure.HammerSequence)
def hammer() -> None:
    """Check that a miss gets a slot though FP32 traffic keeps all slots busy."""


@nf_test(pressure.PoisonedStoreSequence)
def poisoned_stores() -> None:
    """Check that the poison mark of a line survives its eviction."""


@nf_test(pressure.EvictedSumSequence)
def evicted_sum() -> None:
    """Check that an FP32 sum is atomic, also when other lines compete for its slot."""

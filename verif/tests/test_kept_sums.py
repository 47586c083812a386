# SPDX-License-Identifier: Apache-2.0
"""FP32 sums that the device keeps in the state area (KEEP_SUM)."""

from typing import ClassVar

from verif.env.base_test import NfBaseTest
from verif.env.env import Sink
from verif.sequences import kept_sums
from verif.tests.decorator import ALL, nf_test


class KeptTest(NfBaseTest):
    """Test that runs a `KeptSequence` and passes every beat on the memory port to it."""

    sequence: ClassVar[type[kept_sums.KeptSequence]]

    def connect_phase(self) -> None:
        self.work = self.sequence(self.env)
        self.env.mem.monitor.ap.connect(Sink("beats", self, self.work.beat))

    async def scenario(self) -> None:
        await self.work.run()


@nf_test(KeptTest, sequence=kept_sums.ServedSequence, profiles=ALL)
def served() -> None:
    """Check that with KEEP_SUM a sum is gathered once, and again after a store or commit."""


@nf_test(KeptTest, sequence=kept_sums.MixedKeptSequence, profiles=ALL)
def mixed() -> None:
    """Check racing stores and reads of sums that are kept (KEEP_SUM), evicted and fetched."""


@nf_test(KeptTest, sequence=kept_sums.KeptFaultSequence)
def faults() -> None:
    """Check that a kept sum (KEEP_SUM) that memory cannot return is gathered again."""


@nf_test(KeptTest, sequence=kept_sums.SharedMarkSequence)
def shared_marks() -> None:
    """Check that no sum kept (KEEP_SUM) before a commit is served, though a mark is shared."""


@nf_test(KeptTest, sequence=kept_sums.RefusedStoreSequence)
def refused_stores() -> None:
    """Check that a first store that memory refuses poisons its line, before or after its record."""


@nf_test(KeptTest, sequence=kept_sums.CommitSequence)
def commits() -> None:
    """Check that a commit waits for an FP32 sum that returns to its slot to be kept (KEEP_SUM)."""


@nf_test(KeptTest, sequence=kept_sums.ReshapedSequence)
def reshaped() -> None:
    """Check that memory that a state area covers after it has grown is never taken for state."""


@nf_test(KeptTest, sequence=kept_sums.StoreMissSequence)
def store_misses() -> None:
    """Check that a store to a line without a slot ends its sum kept in memory (KEEP_SUM)."""

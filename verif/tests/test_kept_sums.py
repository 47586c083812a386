# SPDX-License-Identifier: Apache-2.0
"""FP32 sums that are kept in the state area."""

from __future__ import annotations

from typing import ClassVar

from verif.env.base_test import NfBaseTest
from verif.env.env import Sink
from verif.sequences import kept_sums
from verif.tests.decorator import ALL, nf_test


class KeptTest(NfBaseTest):
    """Runs a sequence that hears of every beat on the memory port."""

    sequence: ClassVar[type[kept_sums.KeptSequence]]

    def connect_phase(self) -> None:
        self.work = self.sequence(self.env)
        self.env.mem.monitor.ap.connect(Sink("beats", self, self.work.beat))

    async def scenario(self) -> None:
        await self.work.run()


@nf_test(KeptTest, sequence=kept_sums.ServedSequence, profiles=ALL)
def served() -> None:
    """A sum is gathered once, and again after a store or in a new epoch."""


@nf_test(KeptTest, sequence=kept_sums.MixedKeptSequence, profiles=ALL)
def mixed() -> None:
    """Stores and reads race for lines whose sums are kept, evicted and fetched."""


@nf_test(KeptTest, sequence=kept_sums.KeptFaultSequence)
def faults() -> None:
    """A kept sum that memory cannot give back costs time, never a wrong answer."""


@nf_test(KeptTest, sequence=kept_sums.RefusedStoreSequence)
def refused_stores() -> None:
    """A first store that memory refuses poisons its line, whichever answer comes first."""


@nf_test(KeptTest, sequence=kept_sums.CommitSequence)
def commits() -> None:
    """A commit finds nothing under way, not even a sum on its way back to its slot."""


@nf_test(KeptTest, sequence=kept_sums.ReshapedSequence)
def reshaped() -> None:
    """Memory that an area covers after it has grown is never taken for state."""


@nf_test(KeptTest, sequence=kept_sums.StoreMissSequence)
def store_misses() -> None:
    """A store to a line that has left its slot ends the sum that is kept in memory."""

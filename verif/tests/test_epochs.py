# SPDX-License-Identifier: Apache-2.0
"""New epochs while traffic runs, and the state that an old epoch leaves in memory."""

from __future__ import annotations

from models.line_packing import Mode
from verif.env.base_test import NfBaseTest
from verif.sequences import epochs
from verif.tests.decorator import ALL, nf_test


@nf_test(epochs.EpochOtherSequence, profiles=ALL)
def epoch_other_region() -> None:
    """A commit does not disturb other regions."""


@nf_test(profiles=ALL)
async def epoch_same_region(test: NfBaseTest) -> None:
    """Each request is wholly before or wholly after a commit."""
    for mode in (Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32):
        await epochs.EpochSameSequence(test.env, mode=mode, commits=4).run()


@nf_test(epochs.StaleStateSequence, profiles=ALL)
def stale_state() -> None:
    """A new epoch never uses state of an older one."""


@nf_test(epochs.StaleNeighbourSequence)
def stale_neighbour() -> None:
    """A record that was fetched for its neighbour's sake, and is of an older epoch, is no state."""


@nf_test(epochs.CommitOverReadsSequence)
def commit_over_reads() -> None:
    """A commit waits for what was read before it."""


@nf_test(epochs.CommitOverWritesSequence)
def commit_over_writes() -> None:
    """A commit waits for what was contributed before it."""

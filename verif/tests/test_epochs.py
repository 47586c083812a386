# SPDX-License-Identifier: Apache-2.0
"""New epochs while traffic runs, and the state that an old epoch leaves in memory."""

from models.modes import Mode
from verif.env.base_test import NfBaseTest
from verif.sequences import epochs
from verif.tests.decorator import ALL, nf_test


@nf_test(epochs.EpochOtherSequence, profiles=ALL)
def epoch_other_region() -> None:
    """Check that commits of one region do not disturb the aggregation of another one."""


@nf_test(profiles=ALL)
async def epoch_same_region(test: NfBaseTest) -> None:
    """Check that each request is wholly before or wholly after a commit of its region."""
    for mode in (Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32):
        await epochs.EpochSameSequence(test.env, mode=mode, commits=4).run()


@nf_test(epochs.StaleStateSequence, profiles=ALL)
def stale_state() -> None:
    """Check that a new epoch never uses state of an older one, from a slot or memory."""


@nf_test(epochs.StaleNeighbourSequence)
def stale_neighbour() -> None:
    """Check that a record older than the commit, fetched for a shared mark, is not used."""


@nf_test(epochs.CommitOverReadsSequence)
def commit_over_reads() -> None:
    """Check that a commit waits for the reads before it, which return the old epoch."""


@nf_test(epochs.CommitOverWritesSequence)
def commit_over_writes() -> None:
    """Check that a commit waits for the contributions before it, which count in the old epoch."""

# SPDX-License-Identifier: Apache-2.0
"""State of old epochs in memory: hundreds of records, and generation numbers that start again."""

from models.modes import Mode
from verif.env.base_test import NfBaseTest
from verif.sequences import epochs
from verif.tests.decorator import nf_test


@nf_test(epochs.OldEpochSequence)
def old_epochs() -> None:
    """Check that a record of an earlier epoch is never used, however many commits ago it is."""


@nf_test(epochs.OldEpochSequence, mode=Mode.FP32, commits=20)
def old_fp32_epochs() -> None:
    """Check that an FP32 bookkeeping line of an earlier epoch is never taken for state."""


@nf_test()
async def commit_over_evictions(test: NfBaseTest) -> None:
    """Check that a write-back in flight during a commit belongs to the epoch before."""
    for mode in (Mode.G_BINARY, Mode.FP32):
        await epochs.CommitOverEvictionSequence(test.env, mode=mode).run()


@nf_test(epochs.GivenUpAreaSequence)
def area_given_up() -> None:
    """Check that a write-back never overwrites data that the host stores after a commit."""


@nf_test(epochs.ManyRegionsSequence)
def many_regions() -> None:
    """Check that status, completion and records of up to 16 regions stay separate."""


@nf_test(epochs.AlmostDoneSequence)
def almost_done() -> None:
    """Check that DONE is set by the last line of the region, not by lines of another region."""

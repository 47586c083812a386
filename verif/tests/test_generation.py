# SPDX-License-Identifier: Apache-2.0
"""Old epochs in memory: hundreds of records, and generations that begin again."""

from __future__ import annotations

from models.line_packing import Mode
from verif.env.base_test import NfBaseTest
from verif.sequences import epochs
from verif.tests.decorator import nf_test


@nf_test(epochs.OldEpochSequence)
def old_epochs() -> None:
    """A record of an earlier epoch is never state, however many commits ago it was."""


@nf_test(epochs.OldEpochSequence, mode=Mode.FP32, commits=20)
def old_fp32_epochs() -> None:
    """Nor is a bookkeeping line."""


@nf_test()
async def commit_over_evictions(test: NfBaseTest) -> None:
    """A write-back under way belongs to the epoch before the commit."""
    for mode in (Mode.G_BINARY, Mode.FP32):
        await epochs.CommitOverEvictionSequence(test.env, mode=mode).run()


@nf_test(epochs.GivenUpAreaSequence)
def area_given_up() -> None:
    """A write-back never overwrites what the area holds after the commit."""


@nf_test(epochs.ManyRegionsSequence)
def many_regions() -> None:
    """Status, completion and records of each region are its own."""


@nf_test(epochs.AlmostDoneSequence)
def almost_done() -> None:
    """DONE is set by the last line of its region alone."""

# SPDX-License-Identifier: Apache-2.0
"""Admission of requests: neither reads nor writes starve or block the other."""

from verif.env.base_test import NfBaseTest
from verif.sequences.mixed import CompletionsMeetSequence
from verif.sequences.pressure import FlowSequence, HeldSequence, StandstillSequence
from verif.tests.decorator import host_link, nf_test

LATE = (600, 700)
"""Number of clocks until the host returns a credit."""


@nf_test(StandstillSequence)
def standstill() -> None:
    """Check that each queue towards memory fills to its last place while others continue."""


@nf_test()
async def flow(test: NfBaseTest) -> None:
    """Check that a single read passes a flood of writes, and a single write a flood of reads."""
    for reads_flood in (True, False):
        await FlowSequence(test.env, reads_flood=reads_flood).run()


@nf_test(
    HeldSequence, configure=host_link(grant_plain=64, grant_data=1, return_delay=LATE), data=True
)
def held_data() -> None:
    """Check that a write is completed while every place for read data is taken."""


@nf_test(
    HeldSequence, configure=host_link(grant_plain=1, grant_data=64, return_delay=LATE), data=False
)
def held_completions() -> None:
    """Check that a read is answered while every place for completions is taken."""


@nf_test(CompletionsMeetSequence)
def completions_meet() -> None:
    """Check that a memory completion in the clock of one of the engine waits and is not lost."""

# SPDX-License-Identifier: Apache-2.0
"""Admission: no kind of request starves or blocks the other."""

from __future__ import annotations

from verif.env.base_test import NfBaseTest
from verif.sequences.mixed import CompletionsMeetSequence
from verif.sequences.pressure import FlowSequence, HeldSequence, StandstillSequence
from verif.tests.decorator import host_link, nf_test

LATE = (600, 700)
"""Clocks until the host returns a credit."""


@nf_test(StandstillSequence)
def standstill() -> None:
    """Every queue towards memory takes what it has room for, and others go on meanwhile."""


@nf_test()
async def flow(test: NfBaseTest) -> None:
    """A single request passes a flood of the other kind."""
    for reads_flood in (True, False):
        await FlowSequence(test.env, reads_flood=reads_flood).run()


@nf_test(
    HeldSequence, configure=host_link(grant_plain=64, grant_data=1, return_delay=LATE), data=True
)
def held_data() -> None:
    """A write is completed while every place for data is taken."""


@nf_test(
    HeldSequence, configure=host_link(grant_plain=1, grant_data=64, return_delay=LATE), data=False
)
def held_completions() -> None:
    """A read is answered while every place for completions is taken."""


@nf_test(CompletionsMeetSequence)
def completions_meet() -> None:
    """A completion of memory that comes with one of the engine waits a clock, and is not lost."""

# SPDX-License-Identifier: Apache-2.0
"""G_INT4 and G_INT8: exact sums by every view, refusals, and the votes as an independent check."""

from __future__ import annotations

from verif.env.base_test import NfBaseTest
from verif.sequences import int_codes
from verif.sequences.rare_events import CodesEventSequence
from verif.tests.decorator import faulty, nf_test
from verif.tests.faulty_parts import misreading


@nf_test()
async def codes(test: NfBaseTest) -> None:
    """Sums of any subset of workers in any order, by planes, SUM16 and SUM8."""
    await int_codes.IntCodesSequence(test.env, crowded=test.cfg.hw.slots <= 8).run()


@nf_test(int_codes.SameAsVotesSequence)
def same_as_votes() -> None:
    """Planes of a G_BINARY region give the sums that the device shows."""


@nf_test(int_codes.NeighbourSumsSequence)
def neighbours() -> None:
    """Sums of every code and sign, read in consecutive clocks."""


@nf_test(int_codes.IntRefusalSequence)
def refusals() -> None:
    """Selector 0, views that a mode or W has not, reserved modes, too many workers."""


@nf_test(
    int_codes.SameAsVotesSequence,
    fails="MISMATCH",
    configure=faulty(predictor=misreading(signed=False)),
    rounds=3,
    signs=(True,),
)
def other_sign() -> None:
    """A bench that takes two's complement codes for unsigned ones fails."""


@nf_test()
async def events(test: NfBaseTest) -> None:
    """Poison, duplicates, early and strict reads of integer codes, by every view."""
    for strict in test.env.rng.sample((False, True), 2):
        await CodesEventSequence(test.env, strict=strict).run()

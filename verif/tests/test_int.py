# SPDX-License-Identifier: Apache-2.0
"""G_INT4 and G_INT8: exact sums by every view, refusals, and votes as an independent check."""

from verif.env.base_test import NfBaseTest
from verif.sequences import code_regions
from verif.sequences.rare_events import CodesEventSequence
from verif.tests.decorator import faulty, nf_test
from verif.tests.faulty_parts import misreading


@nf_test()
async def codes(test: NfBaseTest) -> None:
    """Check sums of integer codes of subsets of workers in any order: planes, SUM16 and SUM8."""
    await code_regions.IntCodesSequence(test.env, crowded=test.cfg.hw.slots <= 8).run()


@nf_test(code_regions.SameAsVotesSequence)
def same_as_votes() -> None:
    """Check that planes of a G_BINARY region with the same lines give the sums of the device."""


@nf_test(code_regions.NeighbourSumsSequence)
def neighbours() -> None:
    """Check sums of G_INT4 and G_INT8, signed and unsigned, read in consecutive clocks."""


@nf_test(code_regions.IntRefusalSequence)
def refusals() -> None:
    """Check refusals: selector 0, sums that the mode lacks, reserved modes, too many workers."""


@nf_test(
    code_regions.SameAsVotesSequence,
    fails="MISMATCH",
    configure=faulty(predictor=misreading(signed=False)),
    rounds=3,
    signs=(True,),
)
def other_sign() -> None:
    """Negative twin: a predictor that takes signed codes for unsigned must end in a MISMATCH."""


@nf_test()
async def events(test: NfBaseTest) -> None:
    """Check poison, duplicates, early and strict reads of integer codes, by every selector."""
    for strict in test.env.rng.sample((False, True), 2):
        await CodesEventSequence(test.env, strict=strict).run()

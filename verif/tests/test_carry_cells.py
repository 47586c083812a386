# SPDX-License-Identifier: Apache-2.0
"""Counts, votes and sums in the carry cells of ECP5 (`ECP5` = 1), in every plane of a count.

Verilator only: with 64 workers on each line Icarus takes minutes, cell by cell; it runs
`test_modes` on the same build.
"""

from models.modes import Mode
from verif.env.base_test import NfBaseTest
from verif.sequences.aggregate import CountSequence, ThresholdSequence
from verif.sequences.code_regions import IntCodesSequence, Tern5CodesSequence
from verif.tests.decorator import nf_test
from verif.tests.test_saturation import saturate


@nf_test()
async def counts(test: NfBaseTest) -> None:
    """Check votes at counts around each carry, and at nets of T - 1, T, T + 1, and negative."""
    for mode in (Mode.G_BINARY, Mode.G_TERNARY):
        await CountSequence(test.env, mode=mode).run()


@nf_test()
async def saturation(test: NfBaseTest) -> None:
    """Check that four planes stop at 15 and set the saturation flag; seven count 64 workers."""
    await saturate(test)
    saturated = bool(test.env.coverage.model.points["line events"].bins["SATURATED"])
    top = (1 << test.cfg.hw.cnt_w) - 1
    assert saturated == (top < 64), f"counts up to {top}: saturated {saturated}"


@nf_test(ThresholdSequence)
def thresholds() -> None:
    """Check that with THRESHOLD above W no G_TERNARY element gets a vote other than 0."""


@nf_test(IntCodesSequence, crowded=True)
def codes() -> None:
    """Check sums of integer codes of subsets of workers in any order: planes, SUM16 and SUM8."""


@nf_test(Tern5CodesSequence)
def tern5() -> None:
    """Check votes of G_TERN5 of subsets of workers in any order."""

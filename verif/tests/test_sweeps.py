# SPDX-License-Identifier: Apache-2.0
"""Sweeps with drawn values over regions, selectors, generations and planes, in one build."""

from verif.sequences import sweeps
from verif.tests.decorator import nf_test


@nf_test(sweeps.RegionPairSequence)
def region_pairs() -> None:
    """Check that no event of a region shows in another one whose number differs in one bit."""


@nf_test(sweeps.RegionPairSequence, records=True)
def region_records() -> None:
    """Check that records and initialisers of regions whose numbers differ in one bit are apart."""


@nf_test(sweeps.SelectorMaskSequence)
def selector_masks() -> None:
    """Check each selector of each mode at lines of every index bit, in the largest regions too."""


@nf_test(sweeps.CommitOrderSequence)
def commit_order() -> None:
    """Check that of each two rules that a descriptor breaks a commit reports the first."""


@nf_test(sweeps.GenerationWrapSequence)
def generation_wrap() -> None:
    """Check in every mode that a record of the last epoch of the same generation is never used."""


@nf_test(sweeps.Tern5PressureSequence)
def tern5_pressure() -> None:
    """Check G_TERN5 lines that are fetched after each number of contributions, under misses."""


@nf_test(sweeps.StateEdgeSequence)
def state_edges() -> None:
    """Check state areas of each mode and record size that just fit, and those that just do not."""

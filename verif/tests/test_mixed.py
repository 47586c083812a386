# SPDX-License-Identifier: Apache-2.0
"""Mixed traffic: regions of four modes at once, and workers interleaved at random."""

from verif.sequences.mixed import InterleaveSequence, MixedRegionsSequence
from verif.tests.decorator import ALL, nf_test


@nf_test(MixedRegionsSequence, profiles=ALL)
def mixed_regions() -> None:
    """Check random traffic to regions of four modes and to ordinary memory."""


@nf_test(InterleaveSequence, profiles=ALL)
def interleaved_workers() -> None:
    """Check that results do not depend on the order in which workers contribute."""

# SPDX-License-Identifier: Apache-2.0
"""All modes at once; workers interleaved at random."""

from __future__ import annotations

from verif.sequences.mixed import InterleaveSequence, MixedRegionsSequence
from verif.tests.decorator import ALL, nf_test


@nf_test(MixedRegionsSequence, profiles=ALL)
def mixed_regions() -> None:
    """Regions of every mode and plain memory together."""


@nf_test(InterleaveSequence, profiles=ALL)
def interleaved_workers() -> None:
    """The result does not depend on the order of arrival."""

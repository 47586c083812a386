# SPDX-License-Identifier: Apache-2.0
"""Capacity check: it counts every contribution that is presented to the engine."""

from verif.sequences.capacity import CapacityKindsSequence, FallbackAnswersSequence
from verif.tests.decorator import ALL, nf_test


@nf_test(CapacityKindsSequence, profiles=ALL)
def kinds() -> None:
    """Check that clean, poisoned and late contributions that miss raise FALLBACK."""


@nf_test(FallbackAnswersSequence, profiles=ALL)
def answers() -> None:
    """Check the DevLoad of every kind of response of a region in FALLBACK."""

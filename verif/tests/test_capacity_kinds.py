# SPDX-License-Identifier: Apache-2.0
"""The capacity check counts every contribution that is presented to the engine."""

from __future__ import annotations

from verif.sequences.rare_events import CapacityKindsSequence, FallbackAnswersSequence
from verif.tests.decorator import ALL, nf_test


@nf_test(CapacityKindsSequence, profiles=ALL)
def kinds() -> None:
    """FALLBACK by contributions that change nothing, and its interrupt a second time."""


@nf_test(FallbackAnswersSequence, profiles=ALL)
def answers() -> None:
    """DevLoad of every kind of answer of a region in FALLBACK."""

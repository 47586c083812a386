# SPDX-License-Identifier: Apache-2.0
"""Accesses that the device must refuse: causes, LD_MASK, BIND, and what they must not change."""

from verif.sequences.protection import (
    BindShiftSequence,
    CombinedCausesSequence,
    NeighbourSequence,
    ProtectionSequence,
    StrangersSequence,
)
from verif.tests.decorator import ALL, nf_test


@nf_test(ProtectionSequence, profiles=ALL, shows="test_protection::protection")
def protection() -> None:
    """Check cause, counter and capture of refused accesses among legal ones."""


@nf_test(CombinedCausesSequence)
def combined_causes() -> None:
    """Check that the cause of a refused access is the first rule that it breaks."""


@nf_test(BindShiftSequence)
def bind_shifts() -> None:
    """Check that with BIND a worker is written only by the LD-ID that BIND_SHIFT gives it."""


@nf_test(NeighbourSequence, profiles=ALL)
def neighbours() -> None:
    """Check that no LD-ID sees or changes the data of a region that does not admit it."""


@nf_test(StrangersSequence)
def strangers() -> None:
    """Check that every selector is refused to an LD-ID that LD_MASK does not admit."""

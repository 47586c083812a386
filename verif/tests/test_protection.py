# SPDX-License-Identifier: Apache-2.0
"""Accesses that must be refused."""

from __future__ import annotations

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
    """Causes, counters and capture of refused accesses."""


@nf_test(CombinedCausesSequence)
def combined_causes() -> None:
    """The first rule that a request breaks is its cause."""


@nf_test(BindShiftSequence)
def bind_shifts() -> None:
    """A worker belongs to the LD-ID that BIND_SHIFT gives it, and to no other."""


@nf_test(NeighbourSequence, profiles=ALL)
def neighbours() -> None:
    """No other host's data can be seen or changed."""


@nf_test(StrangersSequence)
def strangers() -> None:
    """No selector tells anything to an LD-ID that LD_MASK does not name."""

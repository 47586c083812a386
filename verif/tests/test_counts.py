# SPDX-License-Identifier: Apache-2.0
"""Votes, planes and flags of lines whose numbers of votes were drawn at their corners."""

from models.modes import Mode
from verif.sequences import aggregate
from verif.tests.decorator import nf_test


@nf_test(aggregate.CountSequence, mode=Mode.G_BINARY)
def binary_counts() -> None:
    """Check G_BINARY votes and planes at counts of 0, 1, W/2, W - 1, W and around each carry."""


@nf_test(aggregate.CountSequence, mode=Mode.G_TERNARY)
def ternary_counts() -> None:
    """Check G_TERNARY votes and planes at net votes of T - 1, T, T + 1 and their negatives."""


@nf_test(aggregate.ThresholdSequence)
def thresholds() -> None:
    """Check that with THRESHOLD above W no G_TERNARY element gets a vote other than 0."""


@nf_test(aggregate.IllegalLineSequence)
def illegal_lines() -> None:
    """Check that up to a line of illegal codes are counted and flagged in their region only."""


@nf_test(aggregate.EmptyLineSequence)
def empty_lines() -> None:
    """Check that the result of a line without contributions reads as zeros, whatever TIE is."""

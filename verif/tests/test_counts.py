# SPDX-License-Identifier: Apache-2.0
"""Votes, planes and flags of lines whose counts were drawn at their corners."""

from __future__ import annotations

from models.line_packing import Mode
from verif.sequences import aggregate
from verif.tests.decorator import nf_test


@nf_test(aggregate.CountSequence, mode=Mode.G_BINARY)
def binary_counts() -> None:
    """Counts of 0, 1, W/2, W - 1, W and around each carry."""


@nf_test(aggregate.CountSequence, mode=Mode.G_TERNARY)
def ternary_counts() -> None:
    """Nets of T - 1, T, T + 1 and their negatives."""


@nf_test(aggregate.ThresholdSequence)
def thresholds() -> None:
    """A threshold above W lets nothing pass, whatever its bits are."""


@nf_test(aggregate.IllegalLineSequence)
def illegal_lines() -> None:
    """All codes of a line illegal: counted, flagged in the region that it was sent to alone."""


@nf_test(aggregate.EmptyLineSequence)
def empty_lines() -> None:
    """A line without contributions reads as zeros."""

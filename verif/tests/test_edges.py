# SPDX-License-Identifier: Apache-2.0
"""Descriptors and accesses at the edges of memory, windows and state areas."""

from __future__ import annotations

from verif.sequences.descriptors import EdgeSequence, HighIndexSequence, SelectorSequence
from verif.tests.decorator import nf_test


@nf_test(EdgeSequence)
def edges() -> None:
    """Areas that touch are accepted, an overlap of one line is refused; each address bit counts."""


@nf_test(SelectorSequence)
def selectors() -> None:
    """A selector is what its mode says, or refused; none aliases with another."""


@nf_test(HighIndexSequence)
def high_indices() -> None:
    """Every bit of a line's index counts, in the tag of a slot and in each address."""


@nf_test(EdgeSequence, attempts=200, accesses=False)
def commit_edges() -> None:
    """Hundreds of descriptors near edges: each gets the code of the first rule that it breaks."""

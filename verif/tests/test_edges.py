# SPDX-License-Identifier: Apache-2.0
"""Descriptors and accesses at the edges of memory, of windows and of state areas."""

from verif.sequences.descriptors import EdgeSequence, HighIndexSequence, SelectorSequence
from verif.tests.decorator import nf_test


@nf_test(EdgeSequence)
def edges() -> None:
    """Check that areas that touch are accepted, and an overlap of one line is refused."""


@nf_test(SelectorSequence)
def selectors() -> None:
    """Check that each of 256 selectors has the meaning of its mode or is refused."""


@nf_test(HighIndexSequence)
def high_indices() -> None:
    """Check that every bit of a line's index counts, in the tag of a slot and in each address."""


@nf_test(EdgeSequence, attempts=140, accesses=False)
def commit_edges() -> None:
    """Check many descriptors near edges: each gets the code of the first rule that it breaks."""

# SPDX-License-Identifier: Apache-2.0
"""A CLOSE without a round, and a commit that is refused, change nothing."""

from __future__ import annotations

from verif.sequences.epochs import InitialisedSequence, NoRoundSequence, RefusedSequence
from verif.tests.decorator import ALL, nf_test


@nf_test(NoRoundSequence, profiles=ALL)
def no_round() -> None:
    """CLOSE of a region that was never committed, and of an IDENTITY region."""


@nf_test(RefusedSequence, profiles=ALL)
def refused() -> None:
    """Flags, counts and the end of a round stay over commits that are refused."""


@nf_test(InitialisedSequence)
def initialised() -> None:
    """The initialiser goes on over a commit that is refused."""

# SPDX-License-Identifier: Apache-2.0
"""CLOSE of a region without an epoch to close, and refused commits: both change nothing."""

from verif.sequences.epochs import InitialisedSequence, NoRoundSequence, RefusedSequence
from verif.tests.decorator import ALL, nf_test


@nf_test(NoRoundSequence, profiles=ALL)
def no_round() -> None:
    """Check that CLOSE of an uncommitted region and of an IDENTITY region has no effect."""


@nf_test(RefusedSequence, profiles=ALL)
def refused() -> None:
    """Check that flags, counts and CLOSED of a region survive refused commits."""


@nf_test(InitialisedSequence)
def initialised() -> None:
    """Check that the initialiser of a region continues after a refused commit of it."""

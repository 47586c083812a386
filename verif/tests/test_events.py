# SPDX-License-Identifier: Apache-2.0
"""Duplicates, poison, illegal codes, early and strict reads."""

from __future__ import annotations

from verif.sequences import rare_events
from verif.tests.decorator import ALL, nf_test


@nf_test(rare_events.DuplicateSequence, profiles=ALL)
def duplicates() -> None:
    """A second contribution changes nothing in the low-bit modes."""


@nf_test(rare_events.PoisonSequence, profiles=ALL, shows="test_events::poison")
def poison() -> None:
    """Poisoned data is not added; the line stays poisoned for the epoch."""


@nf_test(rare_events.IllegalCodeSequence, profiles=ALL)
def illegal_codes() -> None:
    """Illegal ternary codes."""


@nf_test(rare_events.EarlyReadSequence, profiles=ALL, shows="test_events::early_reads")
def early_reads() -> None:
    """Early reads return what has arrived."""


@nf_test(rare_events.EarlyReadSequence, profiles=ALL, strict=True)
def strict_reads() -> None:
    """Early reads are poisoned in a STRICT region."""

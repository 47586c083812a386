# SPDX-License-Identifier: Apache-2.0
"""Rare events of an aggregation: duplicates, poison, illegal codes, early and strict reads."""

from verif.sequences import rare_events
from verif.tests.decorator import ALL, nf_test


@nf_test(rare_events.DuplicateSequence, profiles=ALL)
def duplicates() -> None:
    """Check that a duplicate changes nothing in low-bit modes, and stores its data in FP32."""


@nf_test(rare_events.PoisonSequence, profiles=ALL, shows="test_events::poison")
def poison() -> None:
    """Check that poisoned data is not added, and poisons its line until the next commit."""


@nf_test(rare_events.IllegalCodeSequence, profiles=ALL)
def illegal_codes() -> None:
    """Check that illegal ternary codes are counted and give no vote."""


@nf_test(rare_events.EarlyReadSequence, profiles=ALL, shows="test_events::early_reads")
def early_reads() -> None:
    """Check that early reads return the aggregate of the contributions so far."""


@nf_test(rare_events.EarlyReadSequence, profiles=ALL, strict=True)
def strict_reads() -> None:
    """Check that early reads are poisoned in a STRICT region."""

# SPDX-License-Identifier: Apache-2.0
"""Sets of slots: a line has the slots of its set alone."""

from verif.sequences import sets
from verif.tests.decorator import nf_test


@nf_test(sets.OneSetSequence)
def one_set() -> None:
    """Check lines of one set that is full, or pinned, while other slots are free."""

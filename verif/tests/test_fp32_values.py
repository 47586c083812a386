# SPDX-License-Identifier: Apache-2.0
"""FP32 sums of operands drawn for each other, lone lines, raw lines."""

from __future__ import annotations

from verif.sequences.kept_sums import LoneLineSequence, PairSequence
from verif.tests.decorator import nf_test


@nf_test(PairSequence)
def pairs() -> None:
    """Ties, cancellations, carries, overflows, subnormals: bit for bit."""


@nf_test(LoneLineSequence)
def lone_lines() -> None:
    """A sum of one line is that line with canonical NaNs; a raw line is byte for byte."""

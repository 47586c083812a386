# SPDX-License-Identifier: Apache-2.0
"""FP32 sums of operand pairs that stress the adder, sums of few workers, and raw reads."""

from verif.sequences.fp32_operands import LoneLineSequence, PairSequence
from verif.tests.decorator import nf_test


@nf_test(PairSequence)
def pairs() -> None:
    """Check FP32 sums with ties, cancellations, carries, overflows and subnormals, bit for bit."""


@nf_test(LoneLineSequence)
def lone_lines() -> None:
    """Check one worker's sum (its line, NaNs made canonical) and its own line (byte-exact)."""

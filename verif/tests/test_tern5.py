# SPDX-License-Identifier: Apache-2.0
"""G_TERN5 (five ternary votes a byte), in a device that has the mode."""

from verif.sequences import code_regions
from verif.tests.decorator import faulty, nf_test
from verif.tests.faulty_parts import misreading


@nf_test(code_regions.EveryByteSequence)
def every_byte() -> None:
    """Check each of the 256 byte values, legal or not: decoded, counted, voted on, encoded."""


@nf_test(code_regions.EveryNetSequence)
def every_net() -> None:
    """Check every net vote of up to 64 workers, at thresholds below, at and above it."""


@nf_test(code_regions.Tern5CodesSequence)
def codes() -> None:
    """Check votes of subsets of workers in any order, with evictions and commits of other modes."""


@nf_test(code_regions.Tern5RefusalSequence)
def refusals() -> None:
    """Check refusals: wrong selectors, partial writes, reserved modes, too many workers."""


@nf_test(
    code_regions.EveryByteSequence,
    fails="MISMATCH",
    configure=faulty(predictor=misreading(threshold=2)),
)
def other_threshold() -> None:
    """Negative twin: a predictor with another threshold must end in a MISMATCH."""

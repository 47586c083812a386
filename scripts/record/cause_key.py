# SPDX-License-Identifier: Apache-2.0
"""Identity of failure causes: by their keys, or by their texts without values."""

from __future__ import annotations

import re

from scripts.common.records import FailureKind, RunRecord

# A cause names its seed, times and values; failures that differ only in these are equal.
SEED = re.compile(r"\bseed \d+(?:, profile \w+)?(?:: |; )?")
# A byte of letters alone (ee) is a value after such words; elsewhere it may be a word.
_VALUE = re.compile(
    r"\b\d+(?:\.\d+)?\b|\b(?:0x[0-9a-fA-F_]+|(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{2,})\b|\d+"
    r"|(?<=\bgot )[a-f]{2}\b|(?<=\bexpected )[a-f]{2}\b|(?<=: )[a-f]{2}(?=, expected\b)"
)
_RUN = re.compile(r"\bN(?:(?:, |\.\.)N)+\b")


def normalised(cause: str) -> str:
    """Return a cause without values that differ between runs: no seed, N for each value or row of
    values.

    Decimal and hexadecimal values are treated alike: eight digits may be either.
    """
    return _RUN.sub("N", _VALUE.sub("N", SEED.sub("", cause)))


def key_of(record: RunRecord) -> tuple[FailureKind | None, str]:
    """Return a key that is equal for red runs of the same cause; records of older versions have
    no stored key."""
    return record.kind, record.cause_key or normalised(record.cause)

# SPDX-License-Identifier: Apache-2.0
"""When two failures have the same cause: by their keys, or by their texts without the values."""

from __future__ import annotations

import re

from scripts.records import FailureKind, RunRecord

# A cause names its seed, times and values; failures are the same in spite of them.
SEED = re.compile(r"\bseed \d+(?:, profile \w+)?(?:: |; )?")
_VALUE = re.compile(r"\b(?:0x[0-9a-fA-F_]+|(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{8,})\b|\d+(?:\.\d+)?")
_RUN = re.compile(r"\bN(?:(?:, |\.\.)N)+\b")


def normalised(cause: str) -> str:
    """A cause without what differs from run to run: no seed, N for each value or row of values.

    Decimal and hexadecimal values are not told apart: eight digits may be either.
    """
    return _RUN.sub("N", _VALUE.sub("N", SEED.sub("", cause)))


def key_of(record: RunRecord) -> tuple[FailureKind | None, str]:
    """Equal for red runs of the same cause; records of older versions have no key of their own."""
    return record.kind, record.cause_key or normalised(record.cause)

# SPDX-License-Identifier: Apache-2.0
"""Keys of failure causes, to tell whether two runs failed for one cause.

A key comes from the checker, or is the text of the cause without values.
"""

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
    """Return the text of a cause without the values that differ between runs.

    The seed is removed; each number, or row of numbers, becomes N. Decimal and hexadecimal values
    are treated alike: eight digits may be either.
    """
    return _RUN.sub("N", _VALUE.sub("N", SEED.sub("", cause)))


def key_of(record: RunRecord) -> tuple[FailureKind | None, str]:
    """Return a key that is equal for failed runs of one cause: the kind, and the checker's key.

    Without a key of a checker (also in old records) the second part is the normalised text.
    """
    return record.kind, record.cause_key or normalised(record.cause)

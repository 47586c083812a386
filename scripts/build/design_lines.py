# SPDX-License-Identifier: Apache-2.0
"""Which lines of an RTL source are no part of the design."""

from __future__ import annotations

from collections.abc import Iterable


def no_design(lines: Iterable[str]) -> frozenset[int]:
    """Numbers, from 1, of lines that no hardware comes of: texts for waves (`NF_WAVE_NAME`), and
    what assertions alone look at (between `ifdef NF_CHECKED and its `endif)."""
    out, nested = set(), 0
    for number, text in enumerate(lines, 1):
        word = text.split(maxsplit=1)[0] if text.strip() else ""
        if nested or text.startswith("`ifdef NF_CHECKED"):
            nested += word.startswith(("`ifdef", "`ifndef")) - (word == "`endif")
        if nested or "`NF_WAVE_NAME(" in text:
            out.add(number)
    return frozenset(out)

# SPDX-License-Identifier: Apache-2.0
"""Printable text: foreign text as one harmless line of limited length.

Text from outside (files, names, environment, command line) may contain escape sequences that move
the cursor, line breaks that forge a line of output, or a megabyte of anything.
"""

from __future__ import annotations

MAX_WORD = 200
"""Greatest length of a foreign text within a line: a name, a note, a cause."""


def one_line(value: object, limit: int = MAX_WORD) -> str:
    r"""Return ``value`` as printable text of at most ``limit`` characters, for one line of output.

    Characters that are not printable become escapes (``\n``, ``\x1b``, ``\u202e``); a longer text
    ends in "...".
    """
    try:
        text = value if isinstance(value, str) else str(value)
    except (ValueError, RecursionError):  # a number of 5,000 digits, deep nesting
        text = f"({type(value).__name__} that cannot be shown)"
    if len(text) <= limit and text.isprintable():
        return text
    shown = "".join(c if c.isprintable() else _escape(c) for c in text[: limit + 1])
    if len(text) <= limit and len(shown) <= limit:
        return shown
    return shown[: max(limit - 3, 0)] + "..."


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")

# SPDX-License-Identifier: Apache-2.0
"""Extensions of argparse: options between positional arguments, and types of numbers."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

_SHIELD = "\0"
"""Mark of a word after "--" during parsing; no word of a command line can begin with it."""


def intermixed(parser: argparse.ArgumentParser) -> None:
    """Accept options before, between and after the positional arguments of a parser and its
    subparsers.

    Without this, an optional positional argument is taken as missing at the first option, such as
    SCRIPT in `check PROFILE --workers 2 -- SCRIPT`. See `ArgumentParser.parse_intermixed_args`; it
    refuses a parser with REMAINDER, which is left unchanged.
    """
    below = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    for action in below:
        for one in action.choices.values():
            intermixed(one)
    if below or any(one.nargs == argparse.REMAINDER for one in parser._actions):
        return
    plain = parser.parse_known_args

    def mixed(args: Sequence[str] | None = None, namespace: Any = None) -> Any:
        words = list(sys.argv[1:] if args is None else args)
        # argparse parses twice and forgets "--" in between: options of a script would be ours.
        after = words.index("--") if "--" in words else len(words)
        words[after + 1 :] = [_SHIELD * word.startswith("-") + word for word in words[after + 1 :]]
        parser.parse_known_args = plain  # type: ignore[method-assign]  # it is called twice
        try:
            found, rest = parser.parse_known_intermixed_args(words, namespace)
        finally:
            parser.parse_known_args = mixed  # type: ignore[assignment,method-assign]
        for name, value in vars(found).items():
            setattr(found, name, _unshielded(value))
        return found, _unshielded(rest)

    parser.parse_known_args = mixed  # type: ignore[assignment,method-assign]


def _unshielded(value: Any) -> Any:
    """Return a parsed value, or a list of them, without the mark of words after "--"."""
    if isinstance(value, list):
        return [_unshielded(one) for one in value]
    shielded = isinstance(value, str) and value.startswith(_SHIELD)
    return value.removeprefix(_SHIELD) if shielded else value  # an enum of strings stays one


def whole(least: int, most: int) -> Callable[[str], int]:
    """Return an argparse type that reads a whole number from ``least`` to ``most``."""

    def read(word: str) -> int:
        if not (word.isascii() and word.isdecimal() and least <= int(word[:19]) <= most):
            what = f"{word!r} is not a whole number from {least} to {most}"
            raise argparse.ArgumentTypeError(what)
        return int(word)

    return read


def real(word: str) -> float:
    """Return the number in an argument, finite and at least 0; for use as an argparse type."""
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"{word!r} is not a number of at least 0")
    return value

# SPDX-License-Identifier: Apache-2.0
"""Extensions of argparse: options between positional arguments, and types of numbers."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from typing import Any


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
        parser.parse_known_args = plain  # type: ignore[method-assign]  # it is called twice
        try:
            return parser.parse_known_intermixed_args(args, namespace)
        finally:
            parser.parse_known_args = mixed  # type: ignore[assignment,method-assign]

    parser.parse_known_args = mixed  # type: ignore[assignment,method-assign]


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

# SPDX-License-Identifier: Apache-2.0
"""Options between the words of a verb, which argparse takes outside of subparsers alone."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from typing import Any


def intermixed(parser: argparse.ArgumentParser) -> None:
    """Let options stand before, between and after the words of a parser, or of all its subparsers.

    Without this, a word that may be left out is taken to be left out at the first option, as SCRIPT
    of `check PROFILE --workers 2 -- SCRIPT`. See `ArgumentParser.parse_intermixed_args`; a parser
    with REMAINDER, which it refuses, stays as it is.
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
    """Return an argparse type for a whole number from ``least`` to ``most``."""

    def read(word: str) -> int:
        if not (word.isascii() and word.isdecimal() and least <= int(word[:19]) <= most):
            what = f"{word!r} is not a whole number from {least} to {most}"
            raise argparse.ArgumentTypeError(what)
        return int(word)

    return read


def real(word: str) -> float:
    """Read a finite number that is not negative, as an argparse type."""
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"{word!r} is not a number of at least 0")
    return value

# SPDX-License-Identifier: Apache-2.0
"""Argument types and options for argparse that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

from scripts.common import process
from scripts.common.records import Dut


class Command(NamedTuple):
    """A verb of `nf` (`nf run`, `nf cov`): its options, its function and the examples of its help.

    Attributes:
        add_arguments: Adds the options of the verb to a parser.
        run: Runs the verb with the parsed options and returns the exit code of `nf`.
        examples: Text after the options in `--help`; "" for none.
    """

    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    examples: str = ""


TIMEOUT_HELP = "processor time that a run may use; ten times as much wall-clock time"


def up_to(last: int, what: str = "", first: int = 1) -> Callable[[str], int]:
    """Return an argparse type that accepts decimal integers from ``first`` to ``last``.

    Args:
        last: Largest value.
        what: Phrase that completes the error "'TEXT' is not ..."; "" for the two limits.
        first: Smallest value.
    """

    def number(text: str) -> int:
        if not text.isdecimal() or len(text) > 10 or not first <= int(text) <= last:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not {what or f'a number from {first} to {last}'}"
            )
        return int(text)

    return number


positive = up_to((1 << 31) - 1)
"""31 bits, as simulators and the history take no more."""


def seconds(text: str) -> float:
    """Convert an argument to a float above 0 and below 1e7 (argparse type).

    It serves limits in seconds and factors such as `--scale`.
    """
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e7:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


REPEATED: dict[str, Any] = {"action": "append", "default": []}
"""Keywords of an option that may be repeated."""
SEVERAL: dict[str, Any] = {"nargs": "+", "action": "extend", "default": []}
"""Keywords of an option that takes several values, and may be repeated."""
DUTS = (Dut.RTL, Dut.MYHDL)
DUT_HELP = "the RTL as it is, or with the MyHDL twins in the place of their modules"


def add_flags(parser: argparse._ActionsContainer, **texts: str) -> None:
    """Add options without a value: `dry_run="text"` adds `--dry-run` with this help text."""
    for name, text in texts.items():
        parser.add_argument(f"--{name.replace('_', '-')}", action="store_true", help=text)


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add the option `--jobs N` (`-j`): number of parallel runs, by default the available cores."""
    parser.add_argument(
        *("--jobs", "-j"),
        type=positive,
        default=process.cores(),
        metavar="N",
        help="runs at once (all cores)",
    )


def given(
    args: argparse.Namespace, add_arguments: Callable[[argparse.ArgumentParser], None]
) -> set[str]:
    """Return the names of the options in ``args`` whose values differ from their defaults.

    Args:
        args: Parsed command line.
        add_arguments: Adds the options in question to a parser; gives the defaults.
    """
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    usual = vars(parser.parse_args([]))
    return {name for name, value in usual.items() if getattr(args, name) != value}

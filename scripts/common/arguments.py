# SPDX-License-Identifier: Apache-2.0
"""Argument types and options for argparse that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NamedTuple

from scripts.common import process
from scripts.common.records import Dut


class Command(NamedTuple):
    """A verb of `nf`: its options, the function that runs it, and examples shown by its help."""

    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    examples: str = ""


TIMEOUT_HELP = "processor time that a run may use; ten times as much wall-clock time"


def up_to(last: int, what: str = "", first: int = 1) -> Callable[[str], int]:
    """Return an argparse type for integers from ``first`` to ``last``; ``what`` names them in
    the error."""

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
    """Convert an argument to a number above 0, of seconds or a factor (argparse type)."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e7:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


DUTS = (Dut.RTL, Dut.MYHDL)
DUT_HELP = "the RTL as it is, or with the MyHDL twins in the place of their modules"


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add the option `--jobs N`: parallel runs, by default one for each core."""
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
    """Return the names of options that differ from their defaults; ``add_arguments`` defines
    them."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    usual = vars(parser.parse_args([]))
    return {name for name, value in usual.items() if getattr(args, name) != value}

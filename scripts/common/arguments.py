# SPDX-License-Identifier: Apache-2.0
"""Types of command-line arguments, for argparse: a wrong value is one line that says what fits."""

from __future__ import annotations

import argparse


def positive(text: str) -> int:
    """argparse type: an integer above 0; 31 bits, as simulators and the history take no more."""
    if not text.isdecimal() or not 1 <= int(text) < 1 << 31:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {(1 << 31) - 1}")
    return int(text)


def seconds(text: str) -> float:
    """argparse type: a number above 0, of seconds or a factor."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e7:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value

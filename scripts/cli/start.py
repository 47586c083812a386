# SPDX-License-Identifier: Apache-2.0
"""What `nf` makes sure of before any verb: streams to print to, a folder for temporary files, and
that it tests the checkout which the user means."""

from __future__ import annotations

import argparse
import io
import os
import sys
from pathlib import Path

from scripts.common.arguments import seconds
from scripts.common.errors import NfError
from scripts.common.paths import ROOT
from scripts.common.plain_names import named, temporary_problem

_MARKS = ("scripts/cli/main.py", "scripts/nf.sh")  # what a checkout of this project has


def streams() -> None:
    """Put /dev/null where the caller closed a standard stream: a file that is opened later must
    not become standard output. A letter that the terminal's encoding lacks is escaped."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def check() -> None:
    """Raises NfError when `nf` would test another tree than the user means, or could not work."""
    meant = checkout(Path.cwd()) or checkout(Path(sys.prefix))
    if meant is not None and not meant.samefile(ROOT):
        raise NfError(
            f"this nf belongs to {named(ROOT)}, and you mean {named(meant)}: "
            f"`make setup` there, then {named(meant) / '.venv/bin/nf'}."
        )
    if os.environ.get("NF_CHECKERS_OFF"):
        raise NfError(
            "NF_CHECKERS_OFF switches checkers off, and green would say nothing: unset it. "
            "`nf mutate --without` sets it for its own runs."
        )
    if sys.flags.optimize:
        raise NfError("PYTHONOPTIMIZE (python -O) removes assertions: unset it.")
    _check_scale(os.environ.get("NF_SCALE", "1"))
    problem = temporary_problem()
    if problem is not None:
        raise NfError(problem)


def _check_scale(text: str) -> None:
    """A factor of -1 would leave one transaction of a sequence, and that would be green."""
    try:
        seconds(text)
    except argparse.ArgumentTypeError as error:
        raise NfError(f"NF_SCALE: {error}: unset it, or give a factor.") from None


def checkout(folder: Path) -> Path | None:
    """The checkout of this project that a folder lies in, or None."""
    for place in (folder, *folder.parents):
        if all((place / name).is_file() for name in _MARKS):
            return place
    return None

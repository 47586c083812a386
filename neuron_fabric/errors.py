# SPDX-License-Identifier: Apache-2.0
"""Errors of what users give: where it is wrong, what is wrong, what to do, in one line."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self, TextIO

# Text from outside (files, names, environment, command line) as it may be shown on a terminal.
#
# A name in a file can hold escape sequences that move the cursor, line breaks that forge a line
# of output, or a megabyte of anything. Whatever the project prints therefore goes through `say`,
# which prints one line a text, and every error that a user sees is a `LineError`. ruff refuses
# `print`.

MAX_WORD = 200
"""Characters of one foreign text inside a line: a name, a note, a cause."""
MAX_LINE = 4000
"""Characters of a line: commands to paste are long, and anything longer is no message."""


def one_line(value: object, limit: int = MAX_WORD) -> str:
    """``value`` as text without a line break, at most ``limit`` characters long. What a terminal
    would not print as it is becomes an escape: ``\\n``, ``\\x1b``, ``\\u202e``.
    """
    try:
        text = value if isinstance(value, str) else str(value)
    except (ValueError, RecursionError):  # a number of 5,000 digits, nested too deeply
        text = f"({type(value).__name__} that cannot be shown)"
    if len(text) <= limit and text.isprintable():
        return text
    shown = "".join(c if c.isprintable() else _escape(c) for c in text[: limit + 1])
    if len(text) <= limit and len(shown) <= limit:
        return shown
    return shown[: max(limit - 3, 0)] + "..."


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def say(*lines: object, file: TextIO | None = None, flush: bool = False) -> None:
    """Print each of ``lines`` as one line, made printable and cut at `MAX_LINE` characters;
    ``file`` is standard output when it is None.
    """
    for line in lines:
        text = one_line(line.expandtabs() if isinstance(line, str) else line, MAX_LINE)
        print(text, file=file or sys.stdout, flush=flush)


def warn(text: str) -> None:
    """Print a line on standard error. A full disk or a closed pipe loses the line: a training ends
    by neither."""
    with suppress(OSError, ValueError):
        say(text, file=sys.stderr, flush=True)


@contextmanager
def telling(what: str, after_s: float = 2.0) -> Iterator[None]:
    """Say ``what`` on standard error when the block takes longer than that."""
    timer = threading.Timer(after_s, say, [f"{what} ..."], {"file": sys.stderr, "flush": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class LineError(Exception):
    """An error that a user can act on; `str()` is the one line to show, always printable."""

    def __init__(self, message: object) -> None:
        """``message``: line breaks and control characters in it are escaped, and it is cut."""
        super().__init__(one_line(message, MAX_LINE))


def settle_output() -> None:
    """Write what is left for standard output; where that cannot be (a closed pipe, a full disk)
    drop it, or Python would tell of it once more at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


class InputError(LineError):
    """Bad input, in one line: where it is wrong, what is wrong, what to do."""

    def __init__(self, where: object, what: object, todo: object) -> None:
        """Three texts; line breaks and control characters in them are escaped, each is cut."""
        self.where = one_line(where)
        self.what = one_line(what)
        self.todo = one_line(todo)
        super().__init__(f"{self.where}: {self.what}; {self.todo}")

    def __reduce__(self) -> tuple[type[Self], tuple[str, str, str]]:
        """Pickle the three texts: ranks exchange errors."""
        return type(self), (self.where, self.what, self.todo)


class CaptureError(InputError):
    """A bad capture, route or plan."""


class ProfileError(InputError):
    """A bad operating profile, or one that does not fit the training."""


class AttachError(InputError):
    """A training that no profile can be attached to, or wrong use of what `attach` gave."""


class MonitorError(InputError):
    """What ends a run on all its ranks, or makes a log useless."""

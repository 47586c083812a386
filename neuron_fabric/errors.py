# SPDX-License-Identifier: Apache-2.0
"""Errors of user input in one line each: where, what is wrong, what to do; and printing of
foreign text."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self, TextIO

from neuron_fabric.printable import one_line

# All output uses `say`, which prints one printable line a text, and every error that a user sees is
# a `LineError`. ruff forbids `print`.

MAX_LINE = 4000
"""Greatest length of a line: commands to paste are long."""


def say(*lines: object, file: TextIO | None = None, flush: bool = False) -> None:
    """Print each of ``lines`` as one printable line of at most `MAX_LINE` characters.

    ``file`` is standard output by default.
    """
    for line in lines:
        text = one_line(line.expandtabs() if isinstance(line, str) else line, MAX_LINE)
        print(text, file=file or sys.stdout, flush=flush)


def warn(text: str) -> None:
    """Print one line on standard error, and ignore errors of the output.

    A full disk or a closed pipe must not end a training.
    """
    with suppress(OSError, ValueError):
        say(text, file=sys.stderr, flush=True)


@contextmanager
def telling(what: str, after_s: float = 2.0) -> Iterator[None]:
    """Print ``what`` on standard error if the block takes longer than ``after_s`` seconds."""
    timer = threading.Timer(after_s, say, [f"{what} ..."], {"file": sys.stderr, "flush": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class LineError(Exception):
    """Error that a user can act on; `str()` is one printable line."""

    def __init__(self, message: object) -> None:
        """Escape line breaks and control characters in ``message``, and limit its length."""
        super().__init__(one_line(message, MAX_LINE))


def settle_output() -> None:
    """Flush standard output, or discard the rest if that is impossible (closed pipe, full disk).

    Otherwise Python would report the error again at its end.
    """
    try:
        sys.stdout.flush()
    except OSError:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


class InputError(LineError):
    """Error in user input; its line names the place, the fault and the remedy."""

    def __init__(self, where: object, what: object, todo: object) -> None:
        """Escape line breaks and control characters in the three texts, and limit their length."""
        self.where = one_line(where)
        self.what = one_line(what)
        self.todo = one_line(todo)
        super().__init__(f"{self.where}: {self.what}; {self.todo}")

    def __reduce__(self) -> tuple[type[Self], tuple[str, str, str]]:
        """Pickle the three texts, since ranks exchange errors."""
        return type(self), (self.where, self.what, self.todo)


class CaptureError(InputError):
    """A capture is wrong or cannot be made, or a route or plan for one is wrong."""


class ProfileError(InputError):
    """An operating profile is wrong, or does not fit the training."""


class AttachError(InputError):
    """A training that `attach` does not support, or wrong use of the session that it returns."""


class MonitorError(InputError):
    """The ranks of a training must stop, or a monitor log cannot be used."""

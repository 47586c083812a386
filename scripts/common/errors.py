# SPDX-License-Identifier: Apache-2.0
"""Errors that a user can act on: one clear line, never a traceback."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterable
from typing import NoReturn

from neuron_fabric.errors import LineError, say
from neuron_fabric.printable import one_line


class NfError(LineError):
    """An error that the user can mend; `str()` is the line that `nf` shows before exit code 2."""


class BuildError(LineError):
    """A simulator could not compile the design; `str()` is the first error line of its log."""


class OptionError(NfError):
    """Options of a command line that do not fit; one line: the option, the reason, the remedy."""

    def __init__(self, option: str, what: str, todo: str) -> None:
        super().__init__(f"{one_line(option)}: {one_line(what)}; {one_line(todo)}")


def why_of(error: Exception) -> str:
    """Return the text of an error; of a fault of the disk without the name of the file."""
    return str(error.strerror if isinstance(error, OSError) else error)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean X?" with the known word closest to a misspelt one, or ""."""
    close = difflib.get_close_matches(word, known, 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def run_main(name: str, main: Callable[[], int | None]) -> NoReturn:
    """Run the main function of a command and end this process with its exit code.

    An error that the user can mend, or one of the system, is a line on stderr and exit code 2.

    Args:
        name: Name of the command, for that line.
        main: The function; None is exit code 0.
    """
    try:
        sys.exit(main())
    except (NfError, OSError) as error:
        say(f"{name}: {error}", file=sys.stderr)
        sys.exit(2)

# SPDX-License-Identifier: Apache-2.0
"""Detection of programs, libraries and Python packages, and their versions.

The simulators have separate files (`scripts/build/verilator.py`, `icarus.py`).
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.common import plain_names, process, tool_environment
from scripts.common.errors import NfError


@dataclass(frozen=True)
class Finding:
    """One program, library or package as `nf doctor` shows it.

    Attributes:
        name: Name of the tool.
        need: "required", "advised" or "optional".
        version: Version as text.
        found: Its path or place; None if it is missing.
        remedy: Command or hint to install it.
    """

    name: str
    need: str
    version: str
    found: str | None
    remedy: str


@functools.cache  # a run asks for it when it looks for its build
def package_version(name: str) -> str | None:
    """Return the version of an installed Python distribution, or None."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def in_venv(name: str) -> str | None:
    """Return the path of a program next to this Python, or else on PATH; None if there is none."""
    local = Path(sys.executable).parent / name
    return str(local) if local.is_file() else shutil.which(name)


def named_by(variable: str, program: str) -> Path | None:
    """Return the file of the program that a variable of the user names; None where it is unset.

    Links are followed: a program looks for its other parts next to its own file. One that stands
    for a folder with another name (`plain_names`) is kept.

    Raises:
        NfError: The variable names no program, or not by its whole path.
    """
    value = os.environ.get(variable)
    if not value:
        return None
    real = Path(os.path.realpath(value))
    path = real if plain_names.is_plain(real) else Path(value)
    if not os.path.isabs(value):
        wrong = "is no path from / on"
    elif not (os.path.isfile(path) and os.access(path, os.X_OK)):
        wrong = "is no program"
    elif not plain_names.is_plain(path):
        wrong = f"is {path}, whose name make and g++ do not take"
    else:
        return path
    raise NfError(f"{variable}={value} {wrong}: give the path of `{program}`, or unset it.")


def first_line(command: list[str], more: Mapping[str, str] | None = None) -> str:
    """Return the first line that a command prints; "" if it cannot be run or prints nothing.

    ``more`` are variables in addition to the environment of every tool.
    """
    try:
        done = process.captured(command, cwd=".", env=tool_environment.tools(more), timeout_s=120.0)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    text = (done.stdout + done.stderr).strip()
    return text.splitlines()[0].strip() if text else ""


def version_number(line: str) -> str:
    """Return the first word with a digit and a dot in a line, else its first 28 characters."""
    for word in line.replace("(", " ").replace(")", " ").split():
        if "." in word and any(c.isdigit() for c in word):
            return word
    return line[:28]


@functools.cache
def libpython() -> str | None:
    """Return the path of the shared library of Python that the simulator embeds, or None.

    LIBPYTHON_LOC overrides the search.
    """
    given = os.environ.get("LIBPYTHON_LOC")
    if given:
        return given
    import find_libpython

    found = find_libpython.find_libpython()
    return str(found) if found else None


@functools.cache
def gxx_version() -> str:
    """Return the first line of `g++ --version`, "" if there is no g++."""
    return first_line(["g++", "--version"])

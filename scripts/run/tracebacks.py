# SPDX-License-Identifier: Apache-2.0
"""Reads tracebacks: which line of the bench raised, and what ended Python.

Places are `file:line`, the file relative to `root` (of the design and its bench) where it lies
inside, so that they are the same on every machine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from scripts.common.paths import ROOT, shown

_FRAME = re.compile(r'^[\s|]*File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
# Where pdb stood: a trace of its end does not always hold the line with the breakpoint.
_PDB = re.compile(r"^> (?P<file>.+)\((?P<line>\d+)\)\S*\(\)", re.MULTILINE)
# Python's own library, installed packages, and what has no file.
_FOREIGN = re.compile(r"^<|/(?:site|dist)-packages/|/lib(?:64)?/python3[^/]*/")
_CHAINED = re.compile(r"^.*(?:another exception occurred|cause of the following exception):$", re.M)
_END = re.compile(
    r"^\s*(?P<text>[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|BdbQuit|SystemExit)(?:: .*)?)$"
)
_BEGIN = "Traceback (most recent call last):"


def place(trace: str, root: Path = ROOT) -> str:
    """The innermost frame of the bench in the last exception; "" without one."""
    for part in reversed(_CHAINED.split(trace)):
        own = [f for f in _FRAME.finditer(part) if not _FOREIGN.search(f["file"])]
        if own:
            return _shown(own[-1], root)
    return ""


def place_of_debugger(lines: Sequence[str], root: Path = ROOT) -> str:
    """Where pdb last waited for a command; "" when it never did."""
    found = list(_PDB.finditer("\n".join(lines)))
    return _shown(found[-1], root) if found else ""


def _shown(found: re.Match[str], root: Path) -> str:
    path = Path(found["file"])
    inside = path.is_relative_to(root)
    return f"{path.relative_to(root) if inside else shown(path)}:{found['line']}"


def last_exception(lines: Sequence[str], root: Path = ROOT) -> tuple[str, str]:
    """The last exception in a log, and its place; two empty texts without one."""
    for number in range(len(lines) - 1, -1, -1):
        found = _END.match(lines[number])
        if found:
            begins = [i for i in range(number) if lines[i].strip() == _BEGIN]
            first = begins[-1] if begins else number
            return found["text"], place("\n".join(lines[first:number]), root)
    return "", ""

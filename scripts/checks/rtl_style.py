# SPDX-License-Identifier: Apache-2.0
"""Style of the SystemVerilog that no reader of it tells: see "The subset" in hdl/README.md.

There is no formatter: verible breaks apart what is written as a table (hdl/README.md says how).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

COLUMNS = 100
FOLDERS = ("hdl", "verif", "cocotbext")

# A narrow literal with a name is a code, and codes are members of an enum.
_CODE = re.compile(r"^\s*localparam logic \[[0-7]:0\] (\w+)\s*=\s*\d+'[bdh]")


def violations(root: Path) -> list[str]:
    """Lines of the SystemVerilog below `root` that break a rule of style, one line each."""
    found: list[str] = []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.sv*")):
            text = path.read_text(encoding="utf-8")
            where = path.relative_to(root).as_posix()
            found += [f"{where}:{number}: {what}" for number, what in faults(text)]
    return found


def faults(text: str) -> Iterator[tuple[int, str]]:
    """The faults in a source: (line, what is wrong)."""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS:
            yield number, f"{len(line)} columns, {COLUMNS} at most"
        if "\t" in line or line != line.rstrip():
            yield number, "a tab or a blank at the end of the line"
        if code := _CODE.match(line):
            yield number, f"the code {code[1]} belongs into an enum"
    if lines[-1]:
        yield len(lines), "no newline at the end"

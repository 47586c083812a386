# SPDX-License-Identifier: Apache-2.0
"""Files of more than 400 lines: two concepts in one file. Tables and generated files may be longer.

`LONGER` lists those that must be, each with its reason.
"""

from __future__ import annotations

from pathlib import Path

from scripts.checks import tree

MOST = 400
SUFFIXES = (".py", ".sv", ".svh", ".cpp", ".h", ".sh", ".md")
LONGER: dict[str, str] = {}


def violations(root: Path, longer: dict[str, str] = LONGER) -> list[str]:
    """Files that are too long, and reasons that are no longer needed, one line each."""
    out: list[str] = []
    for path in tree.files(root, *SUFFIXES):
        name = path.relative_to(root).as_posix()
        lines = path.read_text(encoding="utf-8").splitlines()
        if any("generated from" in line.lower() for line in lines[:5]):
            continue
        if len(lines) > MOST and name not in longer:
            out.append(f"{name}: {len(lines)} lines, more than {MOST}: split it by concept")
        elif len(lines) <= MOST and name in longer:
            out.append(f"{name}: {len(lines)} lines: take it out of file_length.LONGER")
    return out

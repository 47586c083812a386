# SPDX-License-Identifier: Apache-2.0
"""Rules for every source file: its length, its licence line, a name that no other module has."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from scripts.checks import tree

MOST = 400
SUFFIXES = (".py", ".sv", ".svh", ".cpp", ".h", ".sh")
LICENCE = "SPDX-License-Identifier: Apache-2.0"
MANY = frozenset({"__init__", "conftest"})


def too_long(root: Path) -> list[str]:
    """Files of more than 400 lines: two concepts in one file. Tables and generated files may be
    longer."""
    out: list[str] = []
    for path in tree.files(root, *SUFFIXES, ".md"):
        lines = path.read_text(encoding="utf-8").splitlines()
        generated = any("generated from" in line.lower() for line in lines[:5])
        if len(lines) > MOST and not generated:
            name = path.relative_to(root).as_posix()
            out.append(f"{name}: {len(lines)} lines, more than {MOST}: split it by concept")
    return out


def without_licence(root: Path) -> list[str]:
    """Sources whose head does not name the licence."""
    return [
        f"{path.relative_to(root)}: no line '{LICENCE}' at the top"
        for path in tree.files(root, *SUFFIXES)
        if LICENCE not in path.read_text(errors="replace", encoding="utf-8")[:400]
    ]


def same_names(root: Path) -> list[str]:
    """Modules of one package tree that share a name: one guess must find a file."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in tree.files(root, ".py"):
        name = path.relative_to(root)
        if path.stem not in MANY:
            found[name.parts[0], path.stem].append(name.as_posix())
    return [
        f"{', '.join(paths)}: {len(paths)} modules named {stem} in {folder}/: rename all but one"
        for (folder, stem), paths in found.items()
        if len(paths) > 1
    ]

# SPDX-License-Identifier: Apache-2.0
"""Rules for every source file: a licence line and a unique module name."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from scripts.checks import tree

SUFFIXES = (".py", ".sv", ".svh", ".cpp", ".h", ".sh")
LICENCE = "SPDX-License-Identifier: Apache-2.0"
MANY = frozenset({"__init__", "conftest"})


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

# SPDX-License-Identifier: Apache-2.0
"""Rules for every source file: a licence line, and class names that are unique in a top folder."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from scripts.checks import tree

SUFFIXES = (".py", ".sv", ".svh", ".cpp", ".h", ".sh")
LICENCE = "SPDX-License-Identifier: Apache-2.0"


def without_licence(root: Path) -> list[str]:
    """Return sources whose head does not name the licence."""
    return [
        f"{path.relative_to(root)}: no line '{LICENCE}' at the top"
        for path in tree.files(root, *SUFFIXES)
        if LICENCE not in path.read_text(errors="replace", encoding="utf-8")[:400]
    ]


def same_class_names(root: Path) -> list[str]:
    """Return public classes of sources that share their name within a top folder.

    A reader who searches a class must find one definition.
    """
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for path in tree.files(root, ".py"):
        name = path.relative_to(root)
        if tree.is_test(path) or "tests" in name.parts or len(name.parts) == 1:
            continue
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[name.parts[0], node.name].add(name.as_posix())
    return [
        f"{', '.join(sorted(paths))}: {len(paths)} public classes named {name}: rename all but one"
        for (_, name), paths in found.items()
        if len(paths) > 1
    ]

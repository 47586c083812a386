# SPDX-License-Identifier: Apache-2.0
"""Rules for every source file: a licence line, and class names that are unique in a top folder."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path

from scripts.checks import tree

SUFFIXES = (".py", ".sv", ".svh", ".cpp", ".h", ".sh")
LICENCE = "SPDX-License-Identifier: Apache-2.0"
# Names that are still shared, by top folder.
KNOWN: dict[str, tuple[str, ...]] = {}


def without_licence(root: Path) -> list[str]:
    """Return sources whose head does not name the licence."""
    return [
        f"{path.relative_to(root)}: no line '{LICENCE}' at the top"
        for path in tree.files(root, *SUFFIXES)
        if LICENCE not in path.read_text(errors="replace", encoding="utf-8")[:400]
    ]


def same_class_names(root: Path, known: Mapping[str, Collection[str]] = KNOWN) -> list[str]:
    """Return public classes of sources that share their name within a top folder.

    A reader who searches a class must find one definition. Names of ``known`` are not reported, but
    one that has become unique is, so that the list only shrinks.
    """
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in tree.files(root, ".py"):
        name = path.relative_to(root)
        if tree.is_test(path) or "tests" in name.parts or len(name.parts) == 1:
            continue
        classes = {
            node.name
            for node in ast.walk(ast.parse(path.read_bytes()))
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        }
        for one in classes:
            found[name.parts[0], one].append(name.as_posix())
    many = {key: paths for key, paths in found.items() if len(paths) > 1}
    out = [
        f"{', '.join(paths)}: {len(paths)} public classes named {name}: rename all but one"
        for (folder, name), paths in many.items()
        if name not in known.get(folder, ())
    ]
    return out + [
        f"scripts/checks/file_rules.py: {name} is unique in {folder}/: take it out of KNOWN"
        for folder, names in known.items()
        for name in names
        if (folder, name) not in many
    ]

# SPDX-License-Identifier: Apache-2.0
"""Modules of one package tree that share a name: one guess must find a file.

`__init__.py` may be many. `REMAINING` holds names that still double; it only shrinks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from pathlib import Path

from scripts.checks import tree

MANY = frozenset({"__init__"})
REMAINING = frozenset({"conftest"})


def violations(root: Path, remaining: Collection[str] = REMAINING) -> list[str]:
    """Names that several modules of a tree have, one line each."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in tree.files(root, ".py"):
        name = path.relative_to(root)
        if path.stem not in MANY and path.stem not in remaining:
            found[name.parts[0], path.stem].append(name.as_posix())
    return [
        f"{', '.join(paths)}: {len(paths)} modules named {stem} in {folder}/: rename all but one"
        for (folder, stem), paths in found.items()
        if len(paths) > 1
    ]

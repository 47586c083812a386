# SPDX-License-Identifier: Apache-2.0
"""The files of the project that checks read: its folders, without what is built or hidden."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("cocotbext", "neuron_fabric", "models", "verif", "scripts", "examples")
FOLDERS = (*PACKAGES, "hdl", "docs", "ci")

_TICKED = re.compile(r"(?<!`)(`{1,2})([^`\n]+)\1(?!`)")


def files(root: Path, *suffixes: str) -> list[Path]:
    """Every file of the project's folders and its root, sorted; of these suffixes if given."""
    found = list(root.iterdir())
    for folder in FOLDERS:
        found += (root / folder).rglob("*") if (root / folder).is_dir() else ()
    found = [path for path in found if path.is_file() and "__pycache__" not in path.parts]
    return sorted(path for path in found if not suffixes or path.suffix in suffixes)


def ticked(text: str) -> Iterator[tuple[int, str]]:
    """Each piece of text in back-ticks, with its line number."""
    for found in _TICKED.finditer(text):
        yield line_of(text, found.start()), found[2]


def line_of(text: str, place: int) -> int:
    """The line number, from 1, of a place in a text."""
    return text.count("\n", 0, place) + 1


def is_test(path: Path) -> bool:
    """Whether a file is a test, whose texts may name what does not exist."""
    return path.name.startswith("test_") or path.name == "conftest.py"

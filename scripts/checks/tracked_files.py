# SPDX-License-Identifier: Apache-2.0
"""Tracked files of the project's folders, which the checks read, and the cocotb tests in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from scripts.common import git
from scripts.plan.discover import TestCase, discover

PACKAGES = ("cocotbext", "neuron_fabric", "models", "verif", "scripts", "examples")
FOLDERS = (*PACKAGES, "hdl", "docs", "ci")

_TICKED = re.compile(r"(?<!`)(`{1,2})([^`\n]+)\1(?!`)")


def files(root: Path, *suffixes: str) -> list[Path]:
    """Return the tracked files in the project's folders and its root, sorted.

    With suffixes (".py") only files that have one of them.
    """
    found = (path for path in git.files(root) if _ours(path.relative_to(root).parts))
    return sorted(path for path in found if not suffixes or path.suffix in suffixes)


def cocotb_tests(root: Path) -> list[TestCase]:
    """Return the cocotb tests in files that git tracks: a draft need not be in the testplan yet."""
    tracked = {path.stem for path in files(root, ".py")}
    return [test for test in discover() if test.module.rpartition(".")[2] in tracked]


def _ours(parts: tuple[str, ...]) -> bool:
    """Tell if a path lies in a folder of the project, or in the root itself."""
    return len(parts) == 1 or parts[0] in FOLDERS


def ticked(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line number, text) of each piece in back-ticks."""
    for found in _TICKED.finditer(text):
        yield line_of(text, found.start()), found[2]


def line_of(text: str, place: int) -> int:
    """Return the line number, from 1, of an offset in a text."""
    return text.count("\n", 0, place) + 1


def is_test(path: Path) -> bool:
    """Return whether a file is a test or a conftest, whose texts may name missing files."""
    return path.name.startswith("test_") or path.name == "conftest.py"

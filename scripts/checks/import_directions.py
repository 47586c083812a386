# SPDX-License-Identifier: Apache-2.0
"""The direction of imports: examples -> scripts -> verif -> models -> cocotbext.cxl and
neuron_fabric; these two are packages of their own and import nothing else of the project."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from scripts.checks import tree

_PACKAGES = ("cocotbext", "neuron_fabric")
# What code below a folder may import of the project. The longest matching prefix decides.
ALLOWED: dict[str, tuple[str, ...]] = {
    "cocotbext/cxl": ("cocotbext",),
    "cocotbext/cxl/wire": ("cocotbext.cxl.wire",),
    "cocotbext/cxl/link": ("cocotbext.cxl.wire", "cocotbext.cxl.link"),
    "neuron_fabric": ("neuron_fabric",),
    "models": ("models", *_PACKAGES),
    "verif": ("verif", "models", *_PACKAGES),
    "scripts": ("scripts", "verif", "models", *_PACKAGES),
    "examples": ("examples", "scripts", "verif", "models", *_PACKAGES),
}
PROJECT = ("cocotbext", *(name for name in ALLOWED if "/" not in name))
LICENCE = "SPDX-License-Identifier: Apache-2.0"


def violations(root: Path) -> list[str]:
    """Imports against the direction, one line each."""
    out: list[str] = []
    for path in (path for path in tree.files(root, ".py") if path.parent != root):
        name = path.relative_to(root).as_posix()
        allowed = _allowed(name)
        for line, module in _imports(path):
            if module.split(".")[0] in PROJECT and not _within(module, allowed):
                out.append(f"{name}:{line}: imports {module}, may import {', '.join(allowed)} only")
    return out


def _allowed(name: str) -> tuple[str, ...]:
    if name.startswith(("verif/", "neuron_fabric/", "cocotbext/")) and name.rpartition("/")[
        2
    ].startswith(("test_", "conftest.")):
        return PROJECT  # a pytest of the bench may start a simulator, one of the writer may read
    prefixes = [p for p in ALLOWED if name == p or name.startswith(p + "/")]
    return ALLOWED[max(prefixes, key=len)]


def _within(module: str, allowed: tuple[str, ...]) -> bool:
    return any(module == name or module.startswith(name + ".") for name in allowed)


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    except SyntaxError:
        return  # ruff tells
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            if node.module in PROJECT:  # `from models import lines` means models.lines
                for alias in node.names:
                    yield node.lineno, f"{node.module}.{alias.name}"
            else:
                yield node.lineno, node.module


def missing_licence(root: Path) -> list[str]:
    """Sources whose head does not name the licence."""
    files = tree.files(root, ".py", ".sv", ".svh", ".cpp", ".h", ".sh")
    return [
        f"{path.relative_to(root)}: no line '{LICENCE}' at the top"
        for path in files
        if LICENCE not in path.read_text(errors="replace", encoding="utf-8")[:400]
    ]

# SPDX-License-Identifier: Apache-2.0
"""The direction of imports: examples -> scripts -> verif -> models -> cocotbext.cxl and
neuron_fabric; these two are packages of their own and import nothing else of the project. Within
`scripts` a room imports rooms below it only (`ROOMS`). No modules import each other in a circle.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from scripts.checks import tree

_PACKAGES = ("cocotbext", "neuron_fabric")
# Rooms of the testbench: each imports itself and the ones before it.
_VERIF = (
    *("verif.parameters", "verif.axi", "verif.regs", "verif.mem", "verif.scoreboard"),
    *("verif.coverage", "verif.env", "verif.sequences", "verif.tests"),
)
# What code below a folder may import of the project. The longest matching prefix decides.
ALLOWED: dict[str, tuple[str, ...]] = {
    "cocotbext/cxl": ("cocotbext",),
    "cocotbext/cxl/wire": ("cocotbext.cxl.wire",),
    "cocotbext/cxl/link": ("cocotbext.cxl.wire", "cocotbext.cxl.link"),
    "neuron_fabric": ("neuron_fabric",),
    "models": ("models", *_PACKAGES),
    "verif": ("verif", "models", *_PACKAGES),
    **{
        room.replace(".", "/"): (*_VERIF[: n + 1], "models", *_PACKAGES)
        for n, room in enumerate(_VERIF)
    },
    "scripts": ("scripts", "verif", "models", *_PACKAGES),
    "examples": ("examples", "scripts", "verif", "models", *_PACKAGES),
}
# The rooms of scripts/, the highest first. Benchmarks drive verbs; `nf bench` loads them by name.
ROOMS = (
    *("benchmarks", "cli", "fuzz", "checks"),
    *("farm", "run", "report", "plan", "build", "record", "common"),
)
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
            elif not tree.is_test(path) and _runs_up(name, module):
                out.append(
                    f"{name}:{line}: imports {module}, of a room above it (import_directions.ROOMS)"
                )
    return out


def _runs_up(name: str, module: str) -> bool:
    here, there = name.split("/"), module.split(".")
    if here[0] != "scripts" or there[0] != "scripts":
        return False
    if here[1] not in ROOMS or len(there) < 2 or there[1] not in ROOMS:
        return False
    return ROOMS.index(there[1]) < ROOMS.index(here[1])


def circles(root: Path) -> list[str]:
    """Modules that import each other, directly or by way of others, a line a circle. Imports inside
    functions count; what only type checkers import (`if TYPE_CHECKING`) does not."""
    files = [path for path in tree.files(root, ".py") if path.parent != root]
    modules = {_module(path.relative_to(root)): path for path in files if not tree.is_test(path)}
    graph = {name: _targets(path, modules) - {name} for name, path in modules.items()}
    out: list[str] = []
    while graph:
        # What imports nothing more, or is imported by nothing more, is in no circle.
        imported = {target for targets in graph.values() for target in targets}
        loose = {name for name, targets in graph.items() if not targets or name not in imported}
        if not loose:
            circle = _circle(graph)
            out.append(f"circle of imports: {' -> '.join([*circle, circle[0]])}")
            loose = set(circle)
        graph = {name: targets - loose for name, targets in graph.items() if name not in loose}
    return out


def _circle(graph: dict[str, set[str]]) -> list[str]:
    """One circle of a graph in which every module imports another."""
    way: list[str] = []
    name = min(graph)
    while name not in way:
        way.append(name)
        name = min(graph[name])
    return way[way.index(name) :]


def _module(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _targets(path: Path, modules: dict[str, Path]) -> set[str]:
    """Modules of the project that a file names in its imports."""
    found: set[str] = set()
    todo: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while todo:
        node = todo.pop()
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            todo += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & modules.keys()
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inner & modules.keys()
            if node.module in modules and not inner <= modules.keys():
                found.add(node.module)  # some of the names are of the module itself
    return found


def _allowed(name: str) -> tuple[str, ...]:
    base = name.rpartition("/")[2]
    if name.startswith("verif/") and base.startswith(("test_", "conftest.")):
        return PROJECT  # a pytest of the testbench may start a simulator
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

# SPDX-License-Identifier: Apache-2.0
"""The direction of imports: examples -> scripts -> verif -> models -> cocotbext.cxl and
neuron_fabric; these two are packages of their own and import nothing else of the project. Within
`scripts` and the testbench a room imports rooms below it only. No modules import each other in a
circle.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from scripts.checks import tree

_MODELS = ("models", "cocotbext", "neuron_fabric")
_VERIF = ("verif", *_MODELS)
_SCRIPTS = ("scripts", *_VERIF)
PROJECT = ("examples", *_SCRIPTS)


def _rooms(folder: str, rooms: str, *below: str) -> dict[str, tuple[str, ...]]:
    """Each room of a folder imports itself, the rooms before it, and what is below the folder."""
    names = [f"{folder}.{room}" for room in rooms.split()]
    return {name.replace(".", "/"): (*names[: n + 1], *below) for n, name in enumerate(names)}


# What code below a folder may import of the project. The longest matching prefix decides.
ALLOWED: dict[str, tuple[str, ...]] = {
    "cocotbext/cxl": ("cocotbext",),
    **_rooms("cocotbext.cxl", "wire link"),
    "neuron_fabric": ("neuron_fabric",),
    "models": _MODELS,
    "verif": _VERIF,
    **_rooms(
        "verif",
        "parameters axi regs mem scoreboard coverage env sequences scenario formal tests",
        *_MODELS,
    ),
    "scripts": _SCRIPTS,
    # Benchmarks and figures drive verbs; the verb table loads them by name.
    **_rooms(
        "scripts",
        "common record build plan coverage report run prove farm mutation closing "
        "checks fuzz cli benchmarks figures",
        *_VERIF,
    ),
    "examples": PROJECT,
}
# Tests of these may import more: a pytest of the testbench may start a simulator.
TESTS = {"scripts": _SCRIPTS, "verif": PROJECT}


def violations(root: Path) -> list[str]:
    """Imports against the direction, one line each."""
    out: list[str] = []
    files = _sources(root)
    for path in files.values():
        name = path.relative_to(root).as_posix()
        allowed = _allowed(name)
        for line, module in sorted(_imports(path, files, typing=True)):
            if module.split(".")[0] in PROJECT and not _below(module, allowed, "."):
                out.append(f"{name}:{line}: imports {module}, may import {', '.join(allowed)} only")
    return out


def _sources(root: Path) -> dict[str, Path]:
    """Every source by the name of its module."""
    files = [path for path in tree.files(root, ".py") if path.parent != root]
    names = [".".join(path.relative_to(root).with_suffix("").parts) for path in files]
    return {name.removesuffix(".__init__"): path for name, path in zip(names, files, strict=True)}


def _allowed(name: str) -> tuple[str, ...]:
    folder = name.partition("/")[0]
    if folder in TESTS and tree.is_test(Path(name)):
        return TESTS[folder]
    return ALLOWED[max((prefix for prefix in ALLOWED if _below(name, [prefix], "/")), key=len)]


def _below(name: str, above: Collection[str], mark: str) -> bool:
    return any(name == one or name.startswith(one + mark) for one in above)


def _imports(path: Path, modules: Collection[str], typing: bool) -> Iterator[tuple[int, str]]:
    """Line and module of each import of a file, also inside functions; ``typing``: and of what
    only type checkers import (`if TYPE_CHECKING`)."""
    try:
        todo: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    except SyntaxError:
        return  # ruff tells
    while todo:
        node = todo.pop()
        if typing or not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            todo += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for (
                alias
            ) in node.names:  # `from models import aggregated_line` means models.aggregated_line
                inner = f"{node.module}.{alias.name}"
                is_module = inner in modules or node.module in PROJECT
                yield node.lineno, inner if is_module else node.module


def circles(root: Path) -> list[str]:
    """Modules that import each other, directly or by way of others, a line a circle. Imports inside
    functions count; what only type checkers import does not."""
    modules = {name: path for name, path in _sources(root).items() if not tree.is_test(path)}
    graph = {
        name: {module for _, module in _imports(path, modules, typing=False)} - {name}
        for name, path in modules.items()
    }
    out: list[str] = []
    while True:
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            circle = error.args[1][:0:-1]
            at = circle.index(min(circle))
            out.append(f"circle of imports: {' -> '.join(circle[at:] + circle[: at + 1])}")
            graph = {name: graph[name] - set(circle) for name in graph.keys() - set(circle)}
        else:
            return out

# SPDX-License-Identifier: Apache-2.0
"""Unseeded sources of randomness in the testbench: with one, a red run could not be repeated.

A run seeds the global generators of Python, numpy and torch for each cocotb test. Anything else
needs an explicit seed that comes from neither the clock nor the process. Tests of pytest have no
seed at all, so there the global generators are refused, too; hypothesis, which keeps its own
examples, is for these alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from scripts.checks import tree

FOLDERS = ("verif", "models", "cocotbext")
# By no means repeatable.
_REFUSED = (
    *("secrets", "random.SystemRandom", "os.urandom", "os.getrandom"),
    *("uuid.uuid1", "uuid.uuid4", "torch.seed", "torch.random.seed"),
)
# Repeatable with a seed as the first argument.
_GENERATORS = frozenset(
    {
        *("random.Random", "random.seed"),
        *(f"numpy.random.{name}" for name in ("default_rng", "seed", "RandomState")),
        *(f"numpy.random.{name}" for name in ("SeedSequence", "PCG64", "PCG64DXSM")),
        *(f"numpy.random.{name}" for name in ("MT19937", "Philox", "SFC64")),
        *("torch.manual_seed", "torch.random.manual_seed"),
    }
)
_GLOBAL = ("random.", "numpy.random.", "torch.rand", "torch.normal", "torch.bernoulli")
_TYPES = frozenset({"random.Random", "numpy.random.Generator", "numpy.random.BitGenerator"})
# A seed that is another one each time.
_MOMENTARY = (
    *("time", "datetime", "os.getpid", "os.getppid", "os.times", "builtins.id", "uuid"),
    *("threading", "_thread"),
)
# Calls that take a generator's type and make none.
_ASK_TYPE = frozenset({"isinstance", "issubclass", "cast"})


def violations(root: Path, files: Iterable[Path]) -> list[str]:
    """Each unseeded source in the folders of the testbench, one line each."""
    out: list[str] = []
    for path in files:
        name = path.relative_to(root)
        if name.parts[0] in FOLDERS:
            by_pytest = tree.is_test(path) and name.parts[:2] != ("verif", "tests")
            source = path.read_text(encoding="utf-8")
            out += [f"{name.as_posix()}:{n}: {why}" for n, why in found(source, by_pytest)]
    return out


def found(source: str, by_pytest: bool = False) -> list[tuple[int, str]]:
    """Line and description of each unseeded source. `by_pytest`: no run seeds the globals."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except SyntaxError:
        return []  # ruff tells
    return sorted(set(_Names(nodes).faults(by_pytest)))


class _Names:
    """Resolver of the names in a module, through aliases of imports and assignments."""

    def __init__(self, nodes: list[ast.AST]) -> None:
        self.nodes = nodes
        self.means = {"id": "builtins.id", "__import__": "importlib.import_module"}
        self.momentary: set[str] = set()
        for node in nodes:
            if isinstance(node, ast.Import):
                for one in node.names:
                    top = one.name.partition(".")[0]
                    self.means[one.asname or top] = one.name if one.asname else top
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for one in node.names:
                    self.means[one.asname or one.name] = f"{node.module}.{one.name}"
        for node in nodes:
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    self._assigned(target, node.value)

    def _assigned(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            if meaning := self.meaning(value):
                self.means.setdefault(target.id, meaning)
            if self.is_momentary(value):
                self.momentary.add(target.id)

    def meaning(self, node: ast.AST | None) -> str:
        """The full name of what an expression refers to; "" where that is not plain."""
        if isinstance(node, ast.Name):
            return self.means.get(node.id, "")
        if isinstance(node, ast.Attribute):
            inner, name = self.meaning(node.value), node.attr
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[-1], ast.Constant):
            inner, name = "", str(node.args[-1].value)
            if isinstance(node.func, ast.Name) and node.func.id == "getattr":
                inner = self.meaning(node.args[0])
            elif self.meaning(node.func) == "importlib.import_module":
                return name
        else:
            return ""
        return f"{inner}.{name}" if inner else ""

    def is_momentary(self, node: ast.AST) -> bool:
        """Tell if a value depends on the clock, the process or an address."""
        return any(
            (isinstance(one, ast.Name) and one.id in self.momentary)
            or _below(self.meaning(one), _MOMENTARY)
            for one in ast.walk(node)
        )

    def faults(self, by_pytest: bool) -> Iterator[tuple[int, str]]:
        """See `found`."""
        called = {id(node.func) for node in self.nodes if isinstance(node, ast.Call)}
        for node in self.nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield from self._imported(node, by_pytest)
            elif isinstance(node, ast.Call) and (faults := [*self._called(node)]):
                yield from ((node.lineno, fault) for fault in faults)
            elif isinstance(node, ast.Name | ast.Attribute | ast.Call):
                name = self.meaning(node)
                if _below(name, _REFUSED):
                    yield node.lineno, f"{name} cannot be seeded; draw from a generator with a seed"
                elif by_pytest and id(node) in called and _is_global(name):
                    yield node.lineno, f"{name} has no seed in pytest; use random.Random(SEED)"

    def _imported(
        self, node: ast.Import | ast.ImportFrom, by_pytest: bool
    ) -> Iterator[tuple[int, str]]:
        module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        for one in node.names:
            name = f"{module}.{one.name}" if module else one.name
            if _below(name, _REFUSED):
                yield node.lineno, f"{name} cannot be seeded; draw from a generator with a seed"
            if _below(name, ("hypothesis",)) and not by_pytest:
                yield node.lineno, "hypothesis draws by itself; use it in tests of pytest alone"
            if one.name == "*" and _below(module, ("random", "numpy.random", *_REFUSED)):
                yield node.lineno, f"from {module} import *: name what is imported"

    def _called(self, call: ast.Call) -> Iterator[str]:
        """Return the fault of a call that makes or seeds a generator, or passes its class on."""
        name = self.meaning(call.func)
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
        if name in _GENERATORS or (method == "seed" and not _below(name, _REFUSED)):
            if fault := self._unseeded(call):
                yield f"{name or ast.unparse(call.func)} {fault}"
        elif method not in _ASK_TYPE and not (method == "partial" and call.args[1:]):
            values = [*call.args, *(word.value for word in call.keywords)]
            for made in {self.meaning(value) for value in values} & _GENERATORS:
                yield f"{made} is handed on to be called without a seed; give it one"

    def _unseeded(self, call: ast.Call) -> str:
        """Return the fault of the seed of a generator, or ""."""
        seeds = [*call.args[:1], *(word.value for word in call.keywords)]
        if not seeds or (isinstance(seeds[0], ast.Constant) and seeds[0].value is None):
            return "without a seed draws other values in each run; give it one"
        if any(self.is_momentary(seed) for seed in seeds):
            return "has a seed that is another one each time; derive it from the seed of the run"
        return ""


def _is_global(name: str) -> bool:
    return name.startswith(_GLOBAL) and name not in _GENERATORS | _TYPES


def _below(name: str, tops: Iterable[str]) -> bool:
    return any(name == top or name.startswith(f"{top}.") for top in tops)

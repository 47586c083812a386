# SPDX-License-Identifier: Apache-2.0
"""Check for unseeded random numbers in the testbench: a failed run could not be repeated.

A run seeds the global generators of Python, numpy and torch for each cocotb test. Anything else
needs an explicit seed that comes from neither the clock nor the process. Tests of pytest have no
seed at all, so there the global generators are refused, too; hypothesis, which keeps its own
examples, is for these alone. Names are resolved through imports and plain assignments.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from scripts.checks import tracked_files

FOLDERS = ("verif", "models", "cocotbext")
# By no means repeatable.
_REFUSED = (
    *("secrets", "random.SystemRandom", "os.urandom", "os.getrandom"),
    *("uuid.uuid1", "uuid.uuid4", "torch.seed", "torch.random.seed"),
)
# Repeatable with a seed as the first argument.
_GENERATORS = frozenset(
    {"random.Random", "random.seed", "torch.manual_seed", "torch.random.manual_seed"}
    | {
        f"numpy.random.{name}"
        for name in ("default_rng", "seed", "RandomState", "SeedSequence", "PCG64", "PCG64DXSM")
        + ("MT19937", "Philox", "SFC64")
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
    """Return an error line for each unseeded random source in the folders of the testbench."""
    out: list[str] = []
    for path in files:
        name = path.relative_to(root)
        if name.parts[0] in FOLDERS:
            by_pytest = tracked_files.is_test(path) and name.parts[:2] != ("verif", "tests")
            source = path.read_text(encoding="utf-8")
            out += [f"{name.as_posix()}:{n}: {why}" for n, why in found(source, by_pytest)]
    return out


def found(source: str, by_pytest: bool = False) -> list[tuple[int, str]]:
    """Return (line number, description) of each unseeded random source in Python source.

    With `by_pytest` the global generators count as unseeded, since no run seeds them.
    """
    nodes = list(ast.walk(ast.parse(source)))
    names = _Names(nodes)
    faults = {
        (getattr(one, "lineno", 0), why) for one in nodes for why in names.faults(one, by_pytest)
    }
    return sorted(faults)


class _Names:
    """Resolver of the names in a module, through aliases of imports and assignments."""

    def __init__(self, nodes: list[ast.AST]) -> None:
        self.means = {"id": "builtins.id"}
        self.momentary: set[str] = set()
        for node in nodes:
            if isinstance(node, ast.Import):
                for one in node.names:
                    top = one.name.partition(".")[0]
                    self.means[one.asname or top] = one.name if one.asname else top
            elif isinstance(node, ast.ImportFrom) and not node.level:
                for one in node.names:
                    self.means[one.asname or one.name] = f"{node.module}.{one.name}"
        for node in nodes:
            if isinstance(node, ast.Assign):
                for target in (one.id for one in node.targets if isinstance(one, ast.Name)):
                    self.means.setdefault(target, self.meaning(node.value))
                    self.momentary |= {target} if self.is_momentary(node.value) else set()

    def meaning(self, node: ast.AST | None) -> str:
        """Return the full dotted name that an expression refers to; "" if that is not evident."""
        if isinstance(node, ast.Name):
            return self.means.get(node.id, "")
        inner = self.meaning(node.value) if isinstance(node, ast.Attribute) else ""
        return f"{inner}.{node.attr}" if isinstance(node, ast.Attribute) and inner else ""

    def is_momentary(self, node: ast.AST) -> bool:
        """Return whether a value depends on the clock, the process or an address."""
        return any(
            (isinstance(one, ast.Name) and one.id in self.momentary)
            or _below(self.meaning(one), _MOMENTARY)
            for one in ast.walk(node)
        )

    def faults(self, node: Any, by_pytest: bool) -> Iterator[str]:
        """Yield the faults of one node: an import, a name or a call."""
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            for name in (module + one.name for one in node.names):
                if _below(name, _REFUSED):
                    yield f"{name} cannot be seeded; draw from a generator with a seed"
                if _below(name, ("hypothesis",)) and not by_pytest:
                    yield "hypothesis draws without our seed; use it in tests of pytest alone"
                if name in ("random.*", "numpy.random.*"):
                    yield f"from {module[:-1]} import *: list the names"
        elif _below(name := self.meaning(node), _REFUSED):
            yield f"{name} cannot be seeded; draw from a generator with a seed"
        elif isinstance(node, ast.Call):
            yield from self._called(node, by_pytest)

    def _called(self, call: ast.Call, by_pytest: bool) -> Iterator[str]:
        """Yield the fault of a call that makes or seeds a generator, or passes on its class."""
        name, function = self.meaning(call.func), ast.unparse(call.func)
        method = function.rpartition(".")[2]
        if name in _GENERATORS or (method == "seed" and not _below(name, _REFUSED)):
            seeds = [*call.args[:1], *(word.value for word in call.keywords)]
            if not seeds or ast.unparse(seeds[0]) == "None":
                yield f"{function} without a seed draws other values in each run; give it one"
            elif any(self.is_momentary(seed) for seed in seeds):
                yield f"{function} has a seed that is another one each time; derive it from the run"
        elif by_pytest and name.startswith(_GLOBAL) and name not in _TYPES:
            yield f"{name} has no seed in pytest; use random.Random(SEED)"
        elif method not in _ASK_TYPE and not (method == "partial" and call.args[1:]):
            values = [*call.args, *(word.value for word in call.keywords)]
            for made in {self.meaning(value) for value in values} & _GENERATORS:
                yield f"{made} is handed on to be called without a seed; give it one"


def _below(name: str, tops: Iterable[str]) -> bool:
    """Tell if a dotted name is one of the tops, or lies in one of them."""
    return any(name == top or name.startswith(f"{top}.") for top in tops)

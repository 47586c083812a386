# SPDX-License-Identifier: Apache-2.0
"""Finds the cocotb tests by reading the source: no import, no simulator, nothing executed."""

from __future__ import annotations

import ast
import fnmatch
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from neuron_fabric.data import read_text
from scripts.common.errors import NfError
from scripts.common.paths import TESTS, shown

PACKAGE = "verif.tests"
_TESTS = ("cocotb.test", "pyuvm.test", "test")  # decorators
_VALUES = re.compile(r"[\w.-]+=[\w.-]+(/[\w.-]+=[\w.-]+)*")


@dataclass(frozen=True)
class TestCase:
    """A test function or pyuvm test class; `id` is `test_module::name`. ``parameters``: what it has
    several values of."""

    __test__ = False  # not a pytest class

    module: str
    name: str
    line: int
    summary: str
    skip: bool = False
    parameters: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return f"{self.module.rpartition('.')[2]}::{self.name}"


def discover(folder: Path = TESTS, package: str = PACKAGE) -> list[TestCase]:
    """Every test of every `test_*.py` in `folder`, in file and line order."""
    found: list[TestCase] = []
    for path in sorted(folder.glob("test_*.py")):
        try:
            tree = ast.parse(read_text(path), filename=str(path))
        except SyntaxError as error:
            raise NfError(f"{shown(path)}:{error.lineno}: {error.msg}.") from error
        except OSError as error:
            raise NfError(f"cannot read {shown(path)}: {error.strerror}.") from error
        except (ValueError, RecursionError, MemoryError) as error:  # a NUL; nested too deeply
            raise NfError(f"{shown(path)}: not Python ({error}).") from error
        module = f"{package}.{path.stem}" if package else path.stem
        found += _tests_of(module, tree)
    return found


def _tests_of(module: str, tree: ast.Module) -> list[TestCase]:
    out: list[TestCase] = []
    for node in tree.body:
        if not isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef | ast.ClassDef):
            continue
        marks = {
            ast.unparse(mark.func if isinstance(mark, ast.Call) else mark): mark
            for mark in reversed(node.decorator_list)  # of two alike the first counts
        }
        test = next((mark for name, mark in marks.items() if name in _TESTS), None)
        if test is None:
            continue
        options = _keywords(test)
        doc = (ast.get_docstring(node) or "").strip()
        out.append(
            TestCase(
                module=module,
                name=str(options.get("name") or node.name),
                line=node.lineno,
                summary=doc.splitlines()[0] if doc else "",
                skip=bool(options.get("skip", False)),
                parameters=tuple(
                    parameter
                    for name, mark in marks.items()
                    if name.endswith("parametrize")
                    for parameter in _parameters(mark)
                ),
            )
        )
    return out


def _parameters(mark: ast.expr) -> list[str]:
    """Names of what `@cocotb.parametrize(NAME=VALUES)` varies; "" where they are not to be read."""
    words = mark.keywords if isinstance(mark, ast.Call) else ()
    return [word.arg or "" for word in words] or [""]


def _keywords(node: ast.expr) -> dict[str, object]:
    if not isinstance(node, ast.Call):
        return {}
    return {
        word.arg: word.value.value
        for word in node.keywords
        if word.arg and isinstance(word.value, ast.Constant)
    }


def select(tests: Sequence[TestCase], globs: Iterable[str]) -> list[TestCase]:
    """Tests that match any glob, in order. A glob without `::` also matches a module name.

    A test marked skip is taken only when it is named exactly. A glob that matches nothing is an
    NfError: a typing mistake must never be a green run.
    """
    chosen: dict[str, TestCase] = {}
    for glob in globs:
        base, _, values = glob.partition("/")  # test/value=1 names one parameter set of a test
        hits = [t for t in tests if _matches(t, base) and (not t.skip or t.id == base)]
        if values and not _VALUES.fullmatch(values):
            raise NfError(f"{glob!r}: write {base}/NAME=VALUE, or {base} for all of its values.")
        if values:
            hits = [replace(t, name=f"{t.name}/{values}") for t in hits if t.parameters]
        if not hits:
            raise NfError(f"no test matches {glob!r} (`nf list` shows them all).")
        chosen.update({t.id: t for t in hits})
    order = {test.id: number for number, test in enumerate(tests)}
    return sorted(chosen.values(), key=lambda t: order[t.id.partition("/")[0]])


def _matches(test: TestCase, glob: str) -> bool:
    if "::" in glob:
        return fnmatch.fnmatchcase(test.id, glob)
    module = test.module.rpartition(".")[2]
    return any(fnmatch.fnmatchcase(text, glob) for text in (module, test.name, test.id))

# SPDX-License-Identifier: Apache-2.0
"""Discovery of the cocotb tests: a separate process imports their modules and asks cocotb.

Every kind of test (an alias of a decorator, a loop, a helper in another module) is found as cocotb
finds it, without a simulator. The answer is cached until a file of the project changes. A module
that cannot be imported, and a test that cocotb would not register, is an error.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from neuron_fabric.data import DataError, parse_json
from scripts.common import data, process, tool_environment, tool_versions
from scripts.common.errors import NfError, did_you_mean
from scripts.common.paths import BUILD, ROOT, TESTS
from scripts.plan import registration

PACKAGE = "verif.tests"
_KEPT = BUILD / "tests.json"
_READ = ("cocotbext", "hdl", "models", "neuron_fabric", "scripts", "verif")
_LIMIT_S = 300.0
_NAME = re.compile(r"(?!-)[^\s/:*?\[\]]+")


@dataclass(frozen=True)
class TestCase:
    """A cocotb test function or pyuvm test class; `id` is `test_module::name`.

    Attributes:
        module: Dotted name of its module.
        name: Name of the function or class; `name/n=1` for a selection of its cases.
        summary: First line of its docstring.
        skip: Whether it is marked to be skipped.
        parameters: Names of its parameters (`cocotb.parametrize`).
        cases: Names that cocotb registers for it, one for each set of parameter values.
        line: Line of its first decorator in the file of the module.
    """

    __test__ = False  # not a pytest class

    module: str
    name: str
    summary: str
    skip: bool = False
    parameters: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    line: int = 1

    @property
    def id(self) -> str:
        return f"{self.module.rpartition('.')[2]}::{self.name}"

    @property
    def place(self) -> tuple[str, int]:
        """Return file and line, for a reader of reports."""
        return f"{self.module.replace('.', '/')}.py", self.line


@dataclass(frozen=True)
class _Answer:
    """Tests found in the modules of the project, with the stamp of its files at that time."""

    stamp: str
    tests: tuple[TestCase, ...]


_last: list[_Answer] = []  # of this process


def discover(folder: Path = TESTS, package: str = PACKAGE) -> list[TestCase]:
    """Return every test of every `test_*.py` in `folder`, by file and in the order of cocotb.

    Args:
        folder: Folder of the test modules; the answer is cached only for the default.
        package: Name of the Python package that `folder` is.

    Raises:
        NfError: A module cannot be imported, two tests have one name, or cocotb would leave a test
            out; one line.
    """
    if folder != TESTS:
        return list(_ask(folder, package))
    stamp = _stamp()
    kept = _read(stamp)
    if kept is None:
        kept = _Answer(stamp, _ask(folder, package))
        with contextlib.suppress(OSError):  # a build folder that is read only: asked again
            data.keep(_KEPT, kept)
    _last[:] = [kept]
    return list(kept.tests)


def registered(module: str, root: Path) -> tuple[str, ...] | None:
    """Return the names of all cases that cocotb registers for a module, as last discovered.

    Args:
        module: Dotted name of a test module.
        root: Root of the project of the module.

    Returns:
        The names, or None for a module outside `verif.tests` of this checkout, and while the
        modules cannot be imported.
    """
    if root != ROOT or not module.startswith(f"{PACKAGE}."):
        return None
    with contextlib.suppress(NfError):  # the run itself says it
        tests = last()
        return tuple(case for test in tests if test.module == module for case in test.cases)
    return None


def last() -> list[TestCase]:
    """Return the tests as last discovered in this process; discover them if none were.

    Raises:
        NfError: As `discover`.
    """
    return list(_last[0].tests) if _last else discover()


def _stamp() -> str:
    """Return a hash of path, time and size of all files that an import may read, and of versions.

    The versions are those of Python, cocotb and pyuvm.
    """
    facts: list[object] = [sys.version, *map(tool_versions.package_version, ("cocotb", "pyuvm"))]
    for folder in _READ:
        for place, folders, names in os.walk(ROOT / folder):
            folders[:] = sorted(set(folders) - {"__pycache__"})
            for name in sorted(names):
                with contextlib.suppress(OSError):
                    found = os.stat(os.path.join(place, name))
                    facts.append((place, name, found.st_mtime_ns, found.st_size))
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def _read(stamp: str) -> _Answer | None:
    """Return the cached answer if it has this stamp (no file has changed), else None."""
    if _last and _last[0].stamp == stamp:
        return _last[0]
    kept = data.kept(_KEPT, _Answer)
    return kept if kept and kept.stamp == stamp else None


def _ask(folder: Path, package: str) -> tuple[TestCase, ...]:
    """Import the modules in a new process and return their tests; NfError for the first fault."""
    modules, lost = _imported(folder, package)
    for fault in _faults(modules, lost):
        raise NfError(fault)
    return tuple(
        TestCase(
            module["module"],
            **{**test, "parameters": (*test["parameters"],), "cases": (*test["cases"],)},
        )
        for module in modules
        for test in module["tests"]
    )


def _imported(folder: Path, package: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Run `registration.py` and parse its output.

    Returns:
        One dictionary for each module (path, tests, error), and a line for each lost test, which
        cocotb would not register.

    Raises:
        NfError: An import has ended Python.
    """
    env = {k: v for k, v in tool_environment.tools().items() if not k.startswith("NF_")}
    words = [sys.executable, registration.__file__, str(folder.absolute()), package]
    try:
        done = process.captured(words, env={**env, "PYTHONHASHSEED": "0"}, timeout_s=_LIMIT_S)
        text, how = done.stdout, f"exit code {done.returncode}"
    except subprocess.TimeoutExpired:
        text, how = "", f"not over after {_LIMIT_S:.0f} s"
    lines: list[dict[str, Any]] = []
    with contextlib.suppress(DataError):  # a line was cut
        lines += map(parse_json, text.splitlines())
    if not lines or "lost" not in lines[-1]:
        where = lines[-1].get("reading", "verif") if lines else "cocotb"
        raise NfError(f"{where}: its import ends Python ({how}); no test can be listed.")
    return [line for line in lines if "module" in line], lines[-1]["lost"]


def _faults(modules: Sequence[dict[str, Any]], lost: Sequence[str]) -> Iterator[str]:
    """Yield an error line for each unreadable module, lost test, and invalid or ambiguous name."""
    for module in modules:
        path = module["path"]
        if module["error"]:
            yield f"{module['error']}."
        for test in module["tests"]:
            if not _NAME.fullmatch(test["name"]):
                yield f"{path}: test {test['name']!r}: a name has no space and none of / : * ? [ ]."
            if not test["cases"]:
                yield f"{path}: test {test['name']!r} never runs: a parameter has no values."
        names = Counter(name for test in module["tests"] for name in test["cases"])
        for name, count in names.items():
            if count > 1:
                yield f"{path}: cocotb registers {count} tests named {name!r}; rename them."
    for line in lost:
        yield (
            f"{line}: it must be held under a name at the end of a test_*.py module "
            "(a condition is written as @cocotb.skipif)."
        )


def select(tests: Sequence[TestCase], globs: Iterable[str]) -> list[TestCase]:
    """Return the tests that match any of the globs, in the order of ``tests``.

    A glob matches `test_module::name`; one without `::` also the name of a module or test alone.
    `name/n=1` selects the cases of a test whose parameter values begin so. A test marked skip is
    selected only by its exact id.

    Raises:
        NfError: A glob matches nothing: a typing mistake must never count as passed.
    """
    chosen: dict[str, TestCase] = {}
    for glob in globs:
        base, _, values = glob.partition("/")  # test/value=1 names one parameter set of a test
        hits = [t for t in tests if _matches(t, base) and (not t.skip or t.id == base)]
        if values:
            known = [case.partition("/")[2] for test in hits for case in test.cases]
            hits = [with_values for t in hits if (with_values := _narrowed(t, values)).cases]
            if any(known) and not hits:
                shown_values = ", ".join(list(dict.fromkeys(known))[:5])
                raise NfError(f"{glob!r}: {base} has no such values; it has: {shown_values}.")
        if not hits:
            hint = did_you_mean(base, [t.id for t in tests])
            raise NfError(f"no test matches {glob!r}{hint} (`nf list` shows them all).")
        chosen.update({t.id: t for t in hits})
    order = {test.id: number for number, test in enumerate(tests)}
    return sorted(chosen.values(), key=lambda t: order[t.id.partition("/")[0]])


def _narrowed(test: TestCase, values: str) -> TestCase:
    """Return the test with only those cases whose parameter values begin with ``values`` (n=1)."""
    name = f"{test.name}/{values}"
    cases = tuple(case for case in test.cases if f"{case}/".startswith(f"{name}/"))
    return replace(test, name=name, cases=cases)


def _matches(test: TestCase, glob: str) -> bool:
    if "::" in glob:
        return fnmatch.fnmatchcase(test.id, glob)
    module = test.module.rpartition(".")[2]
    return any(fnmatch.fnmatchcase(text, glob) for text in (module, test.name, test.id))

# SPDX-License-Identifier: Apache-2.0
"""Script that imports a folder of test modules and prints the tests that cocotb would register.

Run as `python registration.py FOLDER PACKAGE`, in a separate process: an import executes code,
may print, fail or end Python. It prints one JSON object a line: `{"reading": FILE}` before a file
is imported, `{"module", "tests", "error"}` after it, at last `{"lost": TESTS}`. The last line is
missing if an import has ended Python. It imports nothing of the project itself, because FOLDER may
belong to another checkout than this file. `discover.py` starts it and reads its lines.
"""

from __future__ import annotations

import ast
import json
import os
import pkgutil
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cocotb
import pyuvm  # type: ignore[import-untyped]
from cocotb.regression import Test, TestGenerator

_DECORATORS = (cocotb.test, cocotb.parametrize, cocotb.skipif, cocotb.xfail, pyuvm.test)
_OF_PROJECT = ("nf_test", "link_test", "link_up_test", "block_test")
"""Names of decorators in verif/tests that register a test with cocotb."""
_NAMES = {decorator.__name__ for decorator in _DECORATORS} | {*_OF_PROJECT}

Place = tuple[str, int]


def log_generators(start: str) -> list[tuple[TestGenerator, list[Place]]]:
    """Patch cocotb's TestGenerator so that every object made later is added to the returned list.

    cocotb registers only those that a module holds under a name after its import.

    Args:
        start: Prefix of the paths of the project's files.

    Returns:
        The list; each entry is a generator, and the (file, line) of the project's frames on the
        stack when it was made, innermost first.
    """
    log: list[tuple[TestGenerator, list[Place]]] = []
    original = TestGenerator.__init__

    def init(made: TestGenerator, *args: Any, **words: Any) -> None:
        original(made, *args, **words)
        frame, places = sys._getframe(1), []
        while frame is not None:
            if frame.f_code.co_filename.startswith(start):
                places.append((frame.f_code.co_filename, frame.f_lineno))
            frame = frame.f_back  # type: ignore[assignment]
        log.append((made, places))

    TestGenerator.__init__ = init  # type: ignore[method-assign,assignment]
    return log


def registered(
    module: Any, log: list[tuple[TestGenerator, list[Place]]]
) -> Iterator[dict[str, Any]]:
    """Yield a dictionary for each test of a module, in the order in which cocotb registers them.

    Its `line` is that of the decorator in the module; 1 for a test made in another file.
    """
    lines = {
        id(made): next((line for file, line in places if file == module.__file__), 1)
        for made, places in log
    }
    for value in vars(module).values():
        line = lines.get(id(value), 1)
        if isinstance(value, Test):
            yield _test(value, [value], [], line)
        elif isinstance(value, TestGenerator):
            names: list[str] = []
            for name, _ in value.options:
                names += [name] if isinstance(name, str) else name
            yield _test(value, list(value.generate_tests()), names, line)


def _test(
    test: Test | TestGenerator, cases: list[Test], parameters: list[str], line: int
) -> dict[str, Any]:
    doc = (test.doc or "").strip()
    return {
        "name": test.name,
        "summary": doc.splitlines()[0] if doc else "",
        "skip": bool(test.skip),
        "parameters": parameters,
        "cases": [case.name for case in cases],
        "line": line,
    }


def lost(
    log: list[tuple[TestGenerator, list[Place]]], modules: dict[Path, Any], tests: list[Any]
) -> Iterator[str]:
    """Yield an error line for each decorated test that cocotb would silently not run.

    These are generators that no test module holds under a name, and decorators that the import did
    not execute.

    Args:
        log: List from `log_generators`.
        modules: Imported modules by path; None for one that failed.
        tests: Those that are test modules.
    """
    held = {id(value) for module in tests for value in vars(module).values()}
    reached = {place for _, places in log for place in places}
    files = {str(path) for path in modules}
    for made, places in log:
        own = getattr(sys.modules.get(made.module), "__file__", None)
        here = [place for place in places if place[0] == own] or places[:1]
        if here and here[0][0] in files and id(made) not in held:
            yield f"{here[0][0]}:{here[0][1]}: cocotb never registers the test {made.name!r}"
    for path, module in modules.items():
        for node in ast.walk(ast.parse(path.read_bytes())):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            marks = node.decorator_list
            lines = {(str(path), mark.lineno) for mark in marks}
            if any(_is_cocotb(mark, module) for mark in marks) and not lines & reached:
                yield f"{path}:{marks[0].lineno}: cocotb never registers the test {node.name!r}"


def _is_cocotb(mark: ast.expr, module: Any) -> bool:
    """Return whether a decorator registers a test with cocotb, under any name it has here."""
    node = mark.func if isinstance(mark, ast.Call) else mark
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return False
    if not hasattr(module, node.id):  # imported inside a function
        return ([node.id, *names])[-1] in _NAMES
    value = getattr(module, node.id)
    for name in names:
        value = getattr(value, name, None)
    known = any(value is decorator for decorator in _DECORATORS)
    return known or getattr(value, "__name__", "") in _OF_PROJECT


def _why(error: BaseException, path: Path, start: str) -> str:
    """Return an error line "FILE:LINE: KIND: TEXT" for a failed import.

    The place is the innermost frame of the traceback whose file is in the project (below `start`).
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: {error.msg}"
    text = f"{type(error).__name__}: {error}".split("\n")[0]
    trace = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in trace if frame.filename.startswith(start)]
    place = f"{own[-1].filename}:{own[-1].lineno}" if own else str(path)
    return f"{place}: cannot be imported without a simulator: {text}"


def main(folder: Path, package: str) -> None:
    """Import all modules of a folder and print the lines described at the top of this module."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    root = folder.parents[package.count(".")] if package else folder
    start = f"{root}{os.sep}"
    sys.path[0] = str(root)
    log = log_generators(start)
    modules: dict[Path, Any] = {}
    tests: list[Any] = []

    def say(**fields: Any) -> None:
        print(json.dumps(fields), file=out, flush=True)

    for path in sorted(folder.rglob("*.py")):
        shown = os.path.relpath(path, root)
        say(reading=shown)
        inner = ".".join(path.relative_to(folder).with_suffix("").parts)
        name = ".".join(filter(None, (package, inner.removesuffix("__init__").rstrip("."))))
        is_test = path.parent == folder and path.name.startswith("test_")
        found: list[dict[str, Any]] = []
        error = ""
        modules[path] = None
        try:
            module = modules[path] = pkgutil.resolve_name(f"{name}:")
            if is_test:
                tests.append(module)
                found = list(registered(module, log))
        except BaseException as raised:  # sys.exit, too
            # A module that no test imports may need what is not there: its text is looked at.
            if is_test or isinstance(raised, SyntaxError):
                error = _why(raised, path, start).replace(start, "")
                del modules[path]
        say(module=name, path=shown, tests=found, error=error)
    gone = [line.replace(start, "") for line in lost(log, modules, tests)]
    say(lost=gone)
    out.close()
    os._exit(0)  # whatever threads an import has started


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

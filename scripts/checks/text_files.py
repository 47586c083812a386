# SPDX-License-Identifier: Apache-2.0
"""Text that is read or written without an encoding: with LC_ALL=POSIX it would be another text.

ruff has a rule of its own (PLW1514), which sees neither `Path` methods nor subprocesses.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

_NO_TEXT = frozenset({"os", "tarfile", "gzip", "zipfile"})  # whose `open` gives bytes


def violations(root: Path, files: Iterable[Path]) -> list[str]:
    """Calls that leave the encoding to the locale, one line each."""
    out: list[str] = []
    for path in files:
        for node in calls(path.read_text(encoding="utf-8")):
            where = f"{path.relative_to(root).as_posix()}:{node.lineno}"
            out.append(f'{where}: text without `encoding="utf-8"`')
    return out


def calls(source: str) -> list[ast.Call]:
    """The calls in a source that leave the encoding to the locale."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except SyntaxError:
        return []  # ruff tells
    # `x.open()` without a word may open anything; after `with` it is a file.
    files = {id(node.context_expr) for node in nodes if isinstance(node, ast.withitem)}
    found = [node for node in nodes if isinstance(node, ast.Call)]
    return [node for node in found if _lacks(node) and (node.args or _named(node, files))]


def _named(call: ast.Call, files: set[int]) -> bool:
    method = isinstance(call.func, ast.Attribute) and call.func.attr == "open"
    return bool(call.keywords) or not method or id(call) in files


def _lacks(call: ast.Call) -> bool:
    given = {word.arg: word.value for word in call.keywords}
    if "encoding" in given or None in given:
        return False
    if any(_is(given.get(name), True) for name in ("text", "universal_newlines")):
        return True
    name, of = getattr(call.func, "id", ""), None
    if isinstance(call.func, ast.Attribute):
        name, of = call.func.attr, getattr(call.func.value, "id", "")
    if name in ("read_text", "write_text"):
        return len(call.args) <= (name == "write_text") and of is not None and of != "output"
    if name in ("open", "fdopen"):
        first = 0 if of is not None and name == "open" else 1
        mode = given.get("mode", call.args[first] if len(call.args) > first else ast.Constant("r"))
        if not isinstance(mode, ast.Constant) or not isinstance(mode.value, str):
            return False
        return set(mode.value) <= set("rwaxt+") and not (name == "open" and of in _NO_TEXT)
    return False


def _is(node: ast.expr | None, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value

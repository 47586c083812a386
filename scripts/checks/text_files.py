# SPDX-License-Identifier: Apache-2.0
"""Text that is read or written without an encoding: with LC_ALL=POSIX it would be another text.

ruff has a similar rule (PLW1514), which sees neither `Path` methods nor subprocesses.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

_NO_TEXT = frozenset({"os", "tarfile", "gzip", "zipfile"})  # whose `open` gives bytes
_TEXT_MODES = {"text", "universal_newlines"}


def violations(root: Path, files: Iterable[Path]) -> list[str]:
    """Calls that leave the encoding to the locale, one line each."""
    return [
        f'{path.relative_to(root).as_posix()}:{node.lineno}: text without `encoding="utf-8"`'
        for path in files
        for node in calls(path.read_text(encoding="utf-8"))
    ]


def calls(source: str) -> list[ast.Call]:
    """The calls in a source that leave the encoding to the locale."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except SyntaxError:
        return []  # ruff tells
    # `x.open()` without a word may open anything; after `with` it is a file.
    files = {id(node.context_expr) for node in nodes if isinstance(node, ast.withitem)}
    return [
        node for node in nodes if isinstance(node, ast.Call) and _lacks(node, id(node) in files)
    ]


def _lacks(call: ast.Call, is_file: bool) -> bool:
    given = {word.arg: word.value for word in call.keywords}
    if "encoding" in given or None in given:
        return False
    if any(ast.unparse(given[name]) == "True" for name in given.keys() & _TEXT_MODES):
        return True
    of, _, name = ast.unparse(call.func).rpartition(".")
    if name in ("read_text", "write_text"):
        return len(call.args) <= (name == "write_text") and bool(of) and of != "output"
    if name == "fdopen" or (name == "open" and of not in _NO_TEXT):
        is_method = bool(of) and name == "open"
        if is_method and not (call.args or call.keywords or is_file):
            return False
        mode = given.get("mode", next(iter(call.args[not is_method :]), ast.Constant("r")))
        value = mode.value if isinstance(mode, ast.Constant) else None
        return isinstance(value, str) and set(value) <= set("rwaxt+")
    return False

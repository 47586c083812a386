# SPDX-License-Identifier: Apache-2.0
"""Text that is read or written without an encoding: with LC_ALL=POSIX it would be another text.

ruff has a similar rule (PLW1514), which sees neither all `Path` methods nor subprocesses.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

_NO_TEXT = frozenset({"os", "tarfile", "gzip", "zipfile"})  # whose `open` gives bytes


def violations(root: Path, files: Iterable[Path]) -> list[str]:
    """Calls that leave the encoding to the locale, one line each."""
    return [
        f'{path.relative_to(root).as_posix()}:{line}: text without `encoding="utf-8"`'
        for path in files
        for line in lines(path.read_text(encoding="utf-8"))
    ]


def lines(source: str) -> list[int]:
    """Return the lines of a source with calls that leave the encoding to the locale."""
    nodes = list(ast.walk(ast.parse(source)))
    # `x.open()` without a word may open anything; after `with` it is a file.
    files = {id(node.context_expr) for node in nodes if isinstance(node, ast.withitem)}
    calls = (node for node in nodes if isinstance(node, ast.Call))
    return [call.lineno for call in calls if _lacks(call, id(call) in files)]


def _lacks(call: ast.Call, is_file: bool) -> bool:
    given = {word.arg: ast.unparse(word.value) for word in call.keywords}
    if "encoding" in given or None in given:
        return False
    if "True" in (given.get("text"), given.get("universal_newlines")):
        return True
    of, _, name = ast.unparse(call.func).rpartition(".")
    if name in ("read_text", "write_text"):
        return len(call.args) <= (name == "write_text") and of not in ("", "output")
    method = name == "open" and bool(of)  # its first argument is the mode, not the file
    if name not in ("open", "fdopen") or (method and of in _NO_TEXT):
        return False
    if method and not (call.args or given or is_file):
        return False
    words = [ast.unparse(word) for word in call.args[not method :]]
    mode = given.get("mode", words[0] if words else "'r'")
    return mode.strip("'rwaxt+") == ""

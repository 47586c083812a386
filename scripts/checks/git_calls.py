# SPDX-License-Identifier: Apache-2.0
"""Calls of git outside `scripts/common/git.py`, which alone keeps git in this checkout."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from scripts.common import git

PLACE = "scripts/common/git.py"
LIBRARIES = frozenset({"git", "pygit2", "dulwich"})
_WORD = re.compile("|".join(rf"\b{name}\b" for name in sorted(LIBRARIES)))
_PROGRAM = re.compile(r"(?:\S*/)?git")
_LINE = re.compile(r"(?:env |exec |\S*/)*git\s+\S.*", re.DOTALL)
_STARTS = frozenset({"run", "Popen", "call", "check_call", "check_output", "system", "popen"})
_STARTS |= {"getoutput", "getstatusoutput", "split", "which", "create_subprocess_shell"}
_STARTS |= {"create_subprocess_exec", "execlp", "execvp", "spawnlp", "spawnvp"}
_SHELL = re.compile(r"(?:^|[;&|(`@]|\b(?:then|do|else|exec|env|if|while|!)\s)\s*git\s+[a-z-]", re.M)
_COMMENT = re.compile(r"(?:^|(?<=\s))#.*")


def violations(root: Path) -> list[str]:
    """Calls of git in Python and in shell scripts, one line each."""
    out: list[str] = []
    for path in git.files(root):
        name = path.relative_to(root).as_posix()
        if name != PLACE and (lines := _lines_of(path)):
            out += [f"{name}:{line}: runs git: use scripts.common.git" for line in lines]
    return sorted(out)


def _lines_of(path: Path) -> list[int]:
    shell = path.suffix in (".sh", ".yml", ".yaml") or path.name in ("Makefile", "run")
    if not shell and path.suffix != ".py":
        return []
    text = path.read_text(encoding="utf-8")
    if shell:
        return [n for n, line in enumerate(text.split("\n"), 1) if shell_call(line)]
    if not _WORD.search(text):
        return []
    return sorted({node.lineno for node in python_calls(text)})


def shell_call(line: str) -> bool:
    """Tell if a line of a shell script, recipe or pipeline runs git."""
    line = _COMMENT.sub("", line).strip().removeprefix("- ").removeprefix("run: ")
    return bool(_SHELL.search(line))


def python_calls(source: str) -> Iterator[ast.expr | ast.stmt]:
    """The places of a source that run git or import a library for it."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except SyntaxError:
        return  # ruff tells
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (node for one in node.names if one.name.partition(".")[0] in LIBRARIES)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from [node] * ((node.module or "").partition(".")[0] in LIBRARIES)
        elif isinstance(node, ast.List | ast.Tuple):
            yield from (one for one in node.elts if _text(one, _PROGRAM))
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            if name in _STARTS:
                yield from (one for one in node.args if _text(one, _PROGRAM) or _begins(one))


def _text(node: ast.expr, form: re.Pattern[str]) -> bool:
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and bool(form.fullmatch(node.value))
    )


def _begins(node: ast.expr) -> bool:
    """Tell if a text, with values in it or not, is a command line of git."""
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    return _text(node, _LINE)

# SPDX-License-Identifier: Apache-2.0
"""Rules for source files: licence, class names, text encoding, git, documented variables."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from scripts.checks import tracked_files
from scripts.common import git

SUFFIXES = (".py", ".sv", ".svh", ".cpp", ".h", ".sh")
_NO_TEXT = frozenset({"os", "tarfile", "gzip", "zipfile"})  # whose `open` gives bytes
LICENCE = "SPDX-License-Identifier: Apache-2.0"
_GIT = ("scripts/common/git.py", "scripts/common/test_git.py", "ci/bare-debian.sh")
"""The one place, its test, which holds examples of forbidden calls, and a script without Python."""
_STARTS = (
    r"\b(?:run|Popen|call|check_call|check_output|p?open|system|getoutput|getstatusoutput|split"
    r"|which|create_subprocess_\w+|exec[lv]p|spawn[lv]p)\("
)
# The program as a word of a list, a tuple or a call, a command line that begins with it, a library.
_GIT_IN_PYTHON = re.compile(
    rf"(?:{_STARTS}|(?<!\w)\(|(?<![\w\])}}])\[|,)\s*[\"'](?:[^\"'\s]*/)?git[\"']"
    rf"|{_STARTS}\s*f?[\"'](?:env |exec |[^\"'\s]*/)*git\s"
    r"|^\s*(?:import|from) (?:git|pygit2|dulwich)\b",
    re.MULTILINE,
)
_GIT_IN_SHELL = re.compile(
    r"(?:^(?:\s*- )?(?:\s*run: )?|[;&|(`@]|\b(?:then|do|else|exec|env|if|while|!)\s)\s*git\s"
    r"+[a-z-]",
    re.MULTILINE,
)
_SHELL_COMMENT = re.compile(r"(?:^|(?<=\s))#.*", re.MULTILINE)
VARIABLES = Path("docs", "environment.md")
_READERS = (".py", ".sh", ".cpp", ".h", ".yml")
# A variable in Python and C++ is a whole string or the head of `NAME=value`; in a shell script
# it follows a dollar sign or precedes an equals sign.
_CODE = re.compile(
    r"""["'](NF_[A-Z0-9_]+)(?=["'=])|\$\{?(NF_[A-Z0-9_]+)|^\s*(NF_[A-Z0-9_]+)=""", re.M
)
_ROW = re.compile(r"^\| `(NF_[A-Z0-9_]+)` \|", re.MULTILINE)


def without_licence(root: Path) -> list[str]:
    """Return an error line for each source without the licence in its first 400 characters."""
    return [
        f"{path.relative_to(root)}: no line '{LICENCE}' at the top"
        for path in tracked_files.files(root, *SUFFIXES)
        if LICENCE not in path.read_text(errors="replace", encoding="utf-8")[:400]
    ]


def same_class_names(root: Path) -> list[str]:
    """Return an error line for each name of several public classes in one top-level folder.

    A reader who searches a class must find one definition. Tests are left out.
    """
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for path in tracked_files.files(root, ".py"):
        name = path.relative_to(root)
        if tracked_files.is_test(path) or "tests" in name.parts or len(name.parts) == 1:
            continue
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[name.parts[0], node.name].add(name.as_posix())
    return [
        f"{', '.join(sorted(paths))}: {len(paths)} public classes named {name}: rename all but one"
        for (_, name), paths in found.items()
        if len(paths) > 1
    ]


def without_encoding(root: Path, files: Iterable[Path]) -> list[str]:
    """Return an error line for each call that leaves the encoding of a text to the locale.

    With LC_ALL=POSIX a text that is read or written without an encoding would be another text. ruff
    has a similar rule (PLW1514), which sees neither all `Path` methods nor subprocesses.
    """
    return [
        f'{path.relative_to(root).as_posix()}:{line}: text without `encoding="utf-8"`'
        for path in files
        for line in lines_without_encoding(path.read_text(encoding="utf-8"))
    ]


def lines_without_encoding(source: str) -> list[int]:
    """Return the line numbers of calls that leave the encoding of a text to the locale."""
    nodes = list(ast.walk(ast.parse(source)))
    # `x.open()` without a word may open anything; after `with` it is a file.
    files = {id(node.context_expr) for node in nodes if isinstance(node, ast.withitem)}
    calls = (node for node in nodes if isinstance(node, ast.Call))
    return [call.lineno for call in calls if _lacks(call, id(call) in files)]


def _lacks(call: ast.Call, is_file: bool) -> bool:
    """Tell if a call opens text without an encoding.

    A mode with `b`, a method `open` of an object that is no file, and `**words` are no such
    call: the rule reports only what it can read off the source."""
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


def git_elsewhere(root: Path) -> list[str]:
    """Return an error line for each call of git in code other than `scripts/common/git.py`."""
    out: list[str] = []
    for path in git.files(root):
        name = path.relative_to(root).as_posix()
        shell = path.suffix in (".sh", ".yml", ".yaml") or path.name in ("Makefile", "run")
        if name in _GIT or not (shell or path.suffix == ".py"):
            continue
        text = path.read_text(encoding="utf-8")
        if "git" not in text:
            continue
        text = _SHELL_COMMENT.sub("", text) if shell else text
        found = (_GIT_IN_SHELL if shell else _GIT_IN_PYTHON).finditer(text)
        lines = {tracked_files.line_of(text, one.end() - 1) for one in found}
        out += [f"{name}:{line}: runs git: use scripts.common.git" for line in lines]
    return sorted(out)


def undocumented_variables(root: Path) -> list[str]:
    """Return an error line for each variable without a row and each row without a variable."""
    used: dict[str, str] = {}
    for path in tracked_files.files(root, *_READERS):
        if not tracked_files.is_test(path):
            for found in _CODE.finditer(path.read_text(encoding="utf-8")):
                name = next(filter(None, found.groups()))
                used.setdefault(name, path.relative_to(root).as_posix())
    table = root / VARIABLES
    listed = set(_ROW.findall(table.read_text(encoding="utf-8"))) if table.is_file() else set()
    out = [
        f"{where}: {name} is not in {VARIABLES.as_posix()}: add a row"
        for name, where in used.items()
        if name not in listed
    ]
    gone = sorted(listed - used.keys())
    return out + [f"{VARIABLES.as_posix()}: nothing reads {name}: drop its row" for name in gone]

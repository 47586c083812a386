# SPDX-License-Identifier: Apache-2.0
"""Calls of git outside `scripts/common/git.py`, which alone keeps git in this checkout."""

from __future__ import annotations

import re
from pathlib import Path

from scripts.checks import tree
from scripts.common import git

PLACES = ("scripts/common/git.py", "scripts/common/test_git.py")
"""The one place, and its test, which holds examples of forbidden calls."""
_STARTS = (
    r"\b(?:run|Popen|call|check_call|check_output|p?open|system|getoutput|getstatusoutput|split"
    r"|which|create_subprocess_\w+|exec[lv]p|spawn[lv]p)\("
)
# The program as a word of a list, a tuple or a call, a command line that begins with it, a library.
_PYTHON = re.compile(
    rf"(?:{_STARTS}|(?<!\w)\(|(?<![\w\])}}])\[|,)\s*[\"'](?:[^\"'\s]*/)?git[\"']"
    rf"|{_STARTS}\s*f?[\"'](?:env |exec |[^\"'\s]*/)*git\s"
    r"|^\s*(?:import|from) (?:git|pygit2|dulwich)\b",
    re.MULTILINE,
)
_SHELL = re.compile(
    r"(?:^(?:\s*- )?(?:\s*run: )?|[;&|(`@]|\b(?:then|do|else|exec|env|if|while|!)\s)\s*git\s"
    r"+[a-z-]",
    re.MULTILINE,
)
_COMMENT = re.compile(r"(?:^|(?<=\s))#.*", re.MULTILINE)


def violations(root: Path) -> list[str]:
    """Calls of git in Python and in shell scripts, one line each."""
    out: list[str] = []
    for path in git.files(root):
        name = path.relative_to(root).as_posix()
        shell = path.suffix in (".sh", ".yml", ".yaml") or path.name in ("Makefile", "run")
        if name in PLACES or not (shell or path.suffix == ".py"):
            continue
        text = path.read_text(encoding="utf-8")
        if "git" not in text:
            continue
        text = _COMMENT.sub("", text) if shell else text
        found = (_SHELL if shell else _PYTHON).finditer(text)
        lines = {tree.line_of(text, one.end() - 1) for one in found}
        out += [f"{name}:{line}: runs git: use scripts.common.git" for line in lines]
    return sorted(out)

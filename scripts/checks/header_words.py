# SPDX-License-Identifier: Apache-2.0
"""Words of an RTL header that name nothing: a port that was renamed, a module that is gone.

The head comment of a `.sv` or `.svh` file states its handshake. Each identifier in back-ticks there
must occur in the file's own code, or be a module, a package or a type of `hdl/`.
"""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

from scripts.checks import tree

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_WORD = re.compile(r"\*?[A-Za-z_][\w$]*\*?")
_GLOBAL = re.compile(r"\b(?:module|package|function automatic \S+|`define)\s+(\w+)")


def violations(root: Path) -> list[str]:
    """Words that name nothing, one line each."""
    sources = {path: path.read_text(encoding="utf-8") for path in tree.files(root, ".sv", ".svh")}
    everywhere = {word for text in sources.values() for word in _GLOBAL.findall(text)}
    everywhere |= {path.name for path in sources} | {path.stem for path in sources}
    out: list[str] = []
    for path, text in sources.items():
        code = set(_WORD.findall(_COMMENT.sub(" ", text))) | everywhere
        for line, words in tree.ticked(_head(text)):
            for word in _WORD.findall(words) if " -m " not in words else ():
                if not _names(word, code):
                    where = f"{path.relative_to(root).as_posix()}:{line}"
                    out.append(f"{where}: the header names `{word}`, the code does not: mend it")
    return out


def _head(text: str) -> str:
    """The lines up to the first that is code."""
    lines = text.splitlines()
    code = (n for n, line in enumerate(lines) if line.strip() and not line.startswith("//"))
    return "\n".join(lines[: next(code, len(lines))])


def _names(word: str, code: set[str]) -> bool:
    return word in code or ("*" in word and any(fnmatch.fnmatchcase(c, word) for c in code))

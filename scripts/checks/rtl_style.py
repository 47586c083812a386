# SPDX-License-Identifier: Apache-2.0
"""Style rules of the SystemVerilog that neither simulators nor linters report.

See "The subset" in hdl/README.md. There is no formatter: verible breaks the lines
of a table (hdl/README.md says how).
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from pathlib import Path

from scripts.checks import tracked_files

COLUMNS = 100

# A narrow literal with a name is a code, and codes are members of an enum.
_CODE = re.compile(r"^\s*localparam logic \[[0-7]:0\] (\w+)\s*=\s*\d+'[bdh]")
# Icarus takes it for one bit, and fills the others with 0.
_ONES = re.compile(r"\.(\w+)\s*\('1\)")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
# An assignment that calls a function waits for the arguments alone: an event-driven simulator does
# not see a change of anything else that the function reads.
_FUNCTION = re.compile(
    r"\bfunction automatic [^;(]*?(\w+)\s*\(([^;]*)\);(.*?)\bendfunction", re.DOTALL
)
_DECLARED = re.compile(r"\b(?:logic|int|\w+_[te])\b([^;=]*)[;=]")
_READ = re.compile(r"(?<![.'\w$])([a-z]\w*)(?!\s*[(\w])(?<!_[te])")
_KEYWORDS = frozenset(
    ("begin", "case", "casez", "default", "else", "end", "endcase", "for", "if", "int", "logic")
    + ("priority", "return", "signed", "unique", "unsigned")
)
_WORD = re.compile(r"\*?[A-Za-z_][\w$]*\*?")
_GLOBAL = re.compile(r"\b(?:module|package|function automatic \S+|`define)\s+(\w+)")


def violations(root: Path) -> list[str]:
    """Return an error line for each breach of style in the SystemVerilog below `root`."""
    found: list[str] = []
    for path in tracked_files.files(root, ".sv", ".svh"):
        where = path.relative_to(root).as_posix()
        found += [f"{where}:{n}: {what}" for n, what in faults(path.read_text(encoding="utf-8"))]
    return found


def faults(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line number, fault) for each breach of style in SystemVerilog source."""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS:
            yield number, f"{len(line)} columns, {COLUMNS} at most"
        if "\t" in line or line != line.rstrip():
            yield number, "a tab or a blank at the end of the line"
        if code := _CODE.match(line):
            yield number, f"the code {code[1]} belongs into an enum"
        for port in _ONES.findall(line):
            yield number, f"'1 at port {port} is one bit under Icarus: write {{WIDTH{{1'b1}}}}"
    if lines[-1]:
        yield len(lines), "no newline at the end"
    yield from _reads_beside_arguments(text)


def _reads_beside_arguments(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line number, fault) for functions that read more than arguments and constants."""
    code = _COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), text)
    for function in _FUNCTION.finditer(code):
        name, arguments, body = function.groups()
        known = {name, *_KEYWORDS, *_WORD.findall(arguments)}
        for declared in _DECLARED.findall(body):
            known.update(_WORD.findall(declared))
        for word in sorted(set(_READ.findall(body)) - known):
            line = code.count("\n", 0, function.start()) + 1
            yield line, f"function {name} reads {word}, which is no argument of it"


def header_words(root: Path) -> list[str]:
    """Return an error line for each identifier in an RTL header that does not exist.

    The head comment of a file states its handshake; a port may have been renamed since. Each
    identifier in back-ticks there must occur in the file's own code, or be a module, a package or a
    type of `hdl/`.
    """
    sources = {
        path: path.read_text(encoding="utf-8") for path in tracked_files.files(root, ".sv", ".svh")
    }
    everywhere = {word for text in sources.values() for word in _GLOBAL.findall(text)}
    everywhere |= {path.name for path in sources} | {path.stem for path in sources}
    out: list[str] = []
    for path, text in sources.items():
        code = set(_WORD.findall(_COMMENT.sub(" ", text))) | everywhere
        for line, words in tracked_files.ticked(_head(text)):
            for word in _WORD.findall(words) if " -m " not in words else ():
                if not _names(word, code):
                    where = f"{path.relative_to(root).as_posix()}:{line}"
                    out.append(f"{where}: the header names `{word}`, the code does not: mend it")
    return out


def _head(text: str) -> str:
    """Return the text before the first line of code."""
    lines = text.splitlines()
    code = (n for n, line in enumerate(lines) if line.strip() and not line.startswith("//"))
    return "\n".join(lines[: next(code, len(lines))])


def _names(word: str, code: set[str]) -> bool:
    """Tell if the code contains a word of a header; `*` in it stands for any letters."""
    return word in code or ("*" in word and any(fnmatch.fnmatchcase(c, word) for c in code))

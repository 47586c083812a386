# SPDX-License-Identifier: Apache-2.0
"""Check for names of missing files and modules in documents, comments, docstrings and messages.

It reads links of Markdown, paths that begin with a folder of the project, file names and modules in
back-ticks, and the module after `python -m`. A name in back-ticks counts from the root, from the
document's folder, or as the end of a path. Tests name missing files on purpose: left out.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from pathlib import Path

from scripts.checks import tracked_files

SUFFIXES = (".md", ".py", ".sv", ".svh", ".cpp", ".h", ".yaml", ".yml", ".sh", ".rdl", ".toml")
_PACKAGES, _FOLDERS = "|".join(tracked_files.PACKAGES), "|".join(tracked_files.FOLDERS)
_LINK = re.compile(r"\]\(([^)#\s]*)(#[^)]*)?\)")
_HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
_FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(rf"python3? -m ((?:{_PACKAGES})(?:\.\w+)+)")
_MODULE = re.compile(rf"(?:{_PACKAGES})(?:\.\w+)+")
_PATH = re.compile(rf"(?<![\w/.<-])(?:{_FOLDERS})/[\w.*/-]+(?![\w<{{])")
_FILE = re.compile(r"[\w*-][\w.*/-]*\.(?:py|svh?|md|cpp|h|ya?ml|sh|rdl|f|vlt|toml|svg|lock|xsd)")
# A user has it, or a build makes it.
_MADE = frozenset(
    {"train.py", "verif/tests/test_mine.py", "nf_pins.h", "nf_pins.sv", "nf_types.h", "cxl_wire.h"}
)


def violations(root: Path) -> list[str]:
    """Return an error line for each name of a file, path or module that does not exist."""
    files = [path for path in tracked_files.files(root) if not tracked_files.is_test(path)]
    known = _known(root)
    out: set[tuple[str, int, str]] = set()
    for path in (path for path in files if path.suffix in SUFFIXES):
        text = path.read_text(encoding="utf-8")
        name = path.relative_to(root).as_posix()
        for place, module in _modules(text):
            if not _is_module(root, module):
                out.add((name, place, module))
        for place, word in _paths(path, text):
            if word not in _MADE and not _is_path(path.parent, root, word, known):
                out.add((name, place, word))
    return [
        f"{name}:{line}: there is no `{word}`: mend the name" for name, line, word in sorted(out)
    ]


def _known(root: Path) -> list[str]:
    """Return the paths, from the root, of all tracked files and their folders."""
    files = [path.relative_to(root) for path in tracked_files.files(root)]
    return sorted({p.as_posix() for file in files for p in (file, *file.parents)})


def _modules(text: str) -> Iterator[tuple[int, str]]:
    """Yield modules that a text names, in commands and in back-ticks, with their lines."""
    for found in _COMMAND.finditer(text):
        yield tracked_files.line_of(text, found.start()), found[1]
    yield from (
        (line, word) for line, word in tracked_files.ticked(text) if _MODULE.fullmatch(word)
    )


def _paths(document: Path, text: str) -> Iterator[tuple[int, str]]:
    """Yield paths and broken links of a text, with their lines; code blocks contain no links."""
    for found in _PATH.finditer(text):
        yield tracked_files.line_of(text, found.start()), found[0].rstrip("./")
    if document.suffix == ".md":
        text = _FENCE.sub(lambda found: "\n" * found[0].count("\n"), text)
        for found in _LINK.finditer(text):
            name, anchor = found.groups("")
            file = document.parent / name if name else document
            known = "://" in name or (file.exists() and not anchor)
            if not known and not (file.is_file() and anchor[1:] in _anchors(file)):
                yield tracked_files.line_of(text, found.start()), name + anchor
    yield from ((line, word) for line, word in tracked_files.ticked(text) if _FILE.fullmatch(word))


def _anchors(document: Path) -> set[str]:
    """Return the anchors of the headings of a Markdown document, as GitHub makes them."""
    headings = _HEADING.findall(document.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w -]", "", text).strip().lower().replace(" ", "-") for text in headings}


def _is_module(root: Path, name: str) -> bool:
    """Return whether a dotted name is a module, or a name in a module; nothing is imported."""
    *packages, last = name.split(".")
    parent = root.joinpath(*packages)
    if (parent / last).is_dir() or (parent / f"{last}.py").is_file():
        return True
    source = parent.with_suffix(".py") if not parent.is_dir() else parent / "__init__.py"
    return source.is_file() and bool(re.search(rf"\b{last}\b", source.read_text(encoding="utf-8")))


def _is_path(folder: Path, root: Path, name: str, known: list[str]) -> bool:
    """Tell if a path exists: from the folder of the document, from the root, or as a pattern."""
    if (folder / name).exists() or (root / name).exists():
        return True
    return any(
        fnmatch.fnmatchcase(path, name) or fnmatch.fnmatchcase(path, f"*/{name}") for path in known
    )

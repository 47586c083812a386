# SPDX-License-Identifier: Apache-2.0
"""Files that a run depends on: its Python module with all project imports, and its HDL sources.

They are read from the source text; nothing is imported or executed. A data file (YAML, JSON, a C
file, ..) counts for every module in the same folder.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from scripts.build.sources import collect
from scripts.common import git
from scripts.common.errors import NfError
from scripts.common.paths import ROOT
from scripts.common.records import BuildSpec, RunSpec

_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]+(\([^)]*\)|.*)|import[ \t]+(.*))", re.MULTILINE
)
_NAME = re.compile(r"[A-Za-z_][\w.]*")
_NO_DATA = (".py", ".pyc", ".md", ".sv", ".svh", ".f")


class Dependencies:
    """Cache of the dependencies of runs; make a new object after files have changed."""

    def __init__(self) -> None:
        for answer in (self._bench, self._sources, self._module, self._imported):
            setattr(self, answer.__name__, functools.cache(answer))  # as long as this object lives

    def files(self, spec: RunSpec) -> frozenset[Path]:
        """Return the absolute paths of all project files that could change the result of a run."""
        return self._module(spec.build.root, spec.module) | self._sources(spec.build)[1]

    def fingerprint(self, spec: RunSpec) -> str:
        """Return a hash of what determines the result of a run: 16 hex digits.

        It covers the content of `files`, the build and the variables, not the seed.
        """
        bench = self._bench(spec.build.root, spec.module)
        told = repr((bench, self._sources(spec.build)[0], spec.env))
        return hashlib.sha256(told.encode()).hexdigest()[:16]

    def bench(self, spec: RunSpec) -> str:
        """Return a hash of the Python files of a run: the test module with all that it imports."""
        return self._bench(spec.build.root, spec.module)

    def _bench(self, root: Path, module: str) -> str:
        digest = hashlib.sha256()
        for path in sorted(self._module(root, module)):
            digest.update(f"\0{path.relative_to(root)}\0".encode())
            with contextlib.suppress(OSError):  # it went away this moment
                digest.update(path.read_bytes())
        return digest.hexdigest()

    def _sources(self, build: BuildSpec) -> tuple[str, frozenset[Path]]:
        try:
            sources = collect(build)
        except (NfError, OSError):  # the run itself will say it
            return "", frozenset()
        paths = {build.root / name for name in (*sources.texts, build.filelist)}
        return sources.key, frozenset(paths)

    def _module(self, root: Path, module: str) -> frozenset[Path]:
        seen: set[Path] = set()
        todo = list(_paths(root, module))
        while todo:
            path = todo.pop()
            if path not in seen:
                seen.add(path)
                todo += self._imported(root, path)
        neighbours = (
            path for folder in {path.parent for path in seen} - {root} for path in folder.iterdir()
        )
        data = {path for path in neighbours if path.is_file() and path.suffix not in _NO_DATA}
        return frozenset(seen | data)

    def _imported(self, root: Path, path: Path) -> tuple[Path, ...]:
        return tuple(file for name in _imports(path, root) for file in _paths(root, name))


def _imports(path: Path, root: Path) -> Iterable[str]:
    """Return the dotted names that a file imports, also inside functions.

    `from a import b` gives both `a` and `a.b`, since b may be a module. Lines are matched by a
    regular expression, ten times faster than parsing. A line of a string that looks like an import
    adds one dependency too many at worst.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return []  # the run itself will say it
    package = path.parent.relative_to(root).parts
    found: dict[str, None] = {}
    for source, names, modules in _IMPORT.findall(text):
        if modules:
            found.update(dict.fromkeys(_NAME.findall(modules)))
            continue
        level = len(source) - len(source.lstrip("."))
        above = package[: len(package) - level + 1] if level else ()
        base = ".".join([*above, *([source[level:]] if source[level:] else [])])
        found[base] = None
        found.update(dict.fromkeys(f"{base}.{name}" for name in _NAME.findall(names)))
    return found


def _paths(root: Path, module: str) -> list[Path]:
    """Return the files below `root` that an import of `module` executes; [] for other packages."""
    parts = module.split(".")
    packages = [root.joinpath(*parts[:n], "__init__.py") for n in range(1, len(parts) + 1)]
    here = [*packages, root.joinpath(*parts).with_suffix(".py")]
    return [path for path in here if path.is_file()]


def changed_since(reference: str) -> frozenset[Path]:
    """Return the files that differ from a git revision, also untracked ones that are not ignored.

    Raises:
        NfError: git does not know the revision.
    """
    if reference.startswith("-"):
        raise NfError(f"--changed {reference!r}: a revision does not begin with a dash.")
    names = git.text("diff", "--name-only", "-z", "--end-of-options", reference, "--").split("\0")
    names += git.text("ls-files", "--others", "--exclude-standard", "-z").split("\0")
    return frozenset(ROOT / name for name in names if name)

# SPDX-License-Identifier: Apache-2.0
"""Packs what another machine needs for a run: the sources of a project, and a finished build.

A bundle is named by its content, so that it is sent once, whatever number of runs needs it.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import subprocess
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

# What only the compilers need; the rest of a build directory is the model.
_INTERMEDIATE = frozenset(
    {".a", ".cc", ".cpp", ".d", ".dat", ".gch", ".h", ".hpp", ".mk", ".o", ".ok", ".tree", ".xml"}
)
_NO_SOURCES = frozenset({".git", ".venv", "__pycache__", "build", "runs", "sim"})


@dataclass(frozen=True)
class Bundle:
    """A folder as compressed tar; `digest` is over its names, contents and modes."""

    digest: str
    data: bytes


def pack(folder: Path, files: Iterable[Path]) -> Bundle:
    """Pack files of a folder. The same content gives the same bundle, byte for byte."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for path in sorted(files):
            content = path.read_bytes()
            entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
            entry.size, entry.mode = len(content), 0o755 if os.access(path, os.X_OK) else 0o644
            tar.addfile(entry, io.BytesIO(content))
    text = raw.getvalue()
    return Bundle(
        hashlib.sha256(text).hexdigest()[:16], gzip.compress(text, compresslevel=1, mtime=0)
    )


def of_sources(root: Path) -> Bundle:
    """The checkout as it lies there, with files that are not committed, without what is ignored."""
    return pack(root, _tracked(root) if (root / ".git").exists() else _found(root))


def _tracked(root: Path) -> list[Path]:
    done = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        check=True,
    )
    return [path for name in done.stdout.split("\0") if name and (path := root / name).is_file()]


def _found(root: Path) -> list[Path]:
    out: list[Path] = []
    for place, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in _NO_SOURCES]
        out += [Path(place, name) for name in names if not name.endswith(".pyc")]
    return out


def of_build(directory: Path) -> Bundle:
    """A finished build without what the compilers left of their work."""
    files = [p for p in directory.rglob("*") if p.is_file() and p.suffix not in _INTERMEDIATE]
    return pack(directory, files)


def unpack(data: bytes, folder: Path) -> None:
    """Write a bundle's files below `folder`, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as tar:
        # Python 3.11.2 (Debian 12) has no filters yet; bundles hold plain files only.
        tar.extraction_filter = getattr(tarfile, "data_filter", None)  # type: ignore[assignment]
        tar.extractall(folder)

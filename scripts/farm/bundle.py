# SPDX-License-Identifier: Apache-2.0
"""Packs what another machine needs for a run: the sources of a project, and a finished build.

A bundle is named by its content, so that it is sent once, whatever number of runs needs it. This
module travels to the workers as it is, so it imports nothing of the project.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import tarfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

# What only the compilers need; the rest of a build directory is the model.
_INTERMEDIATE = frozenset(
    {".a", ".cc", ".cpp", ".d", ".dat", ".gch", ".h", ".hpp", ".mk", ".o", ".ok", ".tree", ".xml"}
)
_NO_SOURCES = frozenset({".git", ".venv", "__pycache__", "build", "runs", "sim"})


class BundleError(ValueError):
    """A bundle that is not written, because of what is in it; one line."""


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
    from scripts.common import git  # a worker has no such module, and packs no sources

    names = git.text("ls-files", "-z", "--cached", "--others", "--exclude-standard", root=root)
    return [path for name in names.split("\0") if name and (path := root / name).is_file()]


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


def of_results(folder: Path) -> bytes:
    """What a run has left, as compressed tar: its plain files. A link says nothing elsewhere."""
    files = [p for p in folder.rglob("*") if p.is_file() and not p.is_symlink()]
    return pack(folder, files).data


def unpack(data: bytes, folder: Path) -> None:
    """Write a bundle's files below `folder`, which is made and must be empty.

    BundleError for a bundle with anything but plain files and folders, or with a name that leads
    out of the folder: nothing of it is written. Python's own filters came with 3.11.4 only.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as tar:
            entries = tar.getmembers()
            for entry in entries:
                _check(entry)
            for entry in entries:
                _write(tar, entry, folder)
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BundleError(f"a bundle is damaged: {error}") from error


def _check(entry: tarfile.TarInfo) -> None:
    if not (entry.isreg() or entry.isdir()):
        raise BundleError(f"a bundle holds {entry.name[:200]!r}, which is no file")
    name = PurePosixPath(entry.name)
    if name.is_absolute() or ".." in name.parts or "\0" in entry.name:
        raise BundleError(f"a bundle holds {entry.name[:200]!r}, which leads out of its folder")


def _write(tar: tarfile.TarFile, entry: tarfile.TarInfo, folder: Path) -> None:
    path = folder / entry.name
    if entry.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    content = tar.extractfile(entry)
    assert content is not None  # it is a plain file
    # Nothing that lies there already is written through: two names of a bundle may be the same.
    path.unlink(missing_ok=True)
    with path.open("xb") as out:
        shutil.copyfileobj(content, out)
    path.chmod(0o755 if entry.mode & 0o100 else 0o644)

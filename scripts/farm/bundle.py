# SPDX-License-Identifier: Apache-2.0
"""Bundles (zip files) for cluster workers: sources of a project, a finished build, or run results.

A bundle is named by its content, so it is sent once for any number of runs. This module is pickled
by value for the workers, so it imports nothing of the project at the top.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import struct
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath

# Suffixes of intermediate files of the compilers; other files of a build are the model.
_INTERMEDIATE = frozenset(
    {".a", ".cc", ".cpp", ".d", ".dat", ".gch", ".h", ".hpp", ".mk", ".o", ".ok", ".tree", ".xml"}
)
# Untracked files are packed if they have one of these suffixes and are in one of these folders.
_FOLDERS = frozenset({"cocotbext", "hdl", "models", "neuron_fabric", "scripts", "verif"})
_CODE = {
    *(".c", ".cc", ".cpp", ".f", ".h", ".hpp", ".py"),
    *(".rdl", ".smt2", ".sv", ".svh", ".v", ".vh", ".vlt", ".ys"),
}
_SOURCES = _CODE | {".j2", ".json", ".toml", ".yaml", ".yml"}
_KEY_WORD = (
    "token|key|secret|pass(w|phrase)|credential|private|kubeconfig|service.?account|id_[a-z]*sa"
)
_KEY_LIKE = re.compile(rf"{_KEY_WORD}|id_ed25519|(?<![a-z])auth(?![a-z])", re.IGNORECASE)
_KEY_CODE = re.compile(r"(api_?)?(token|key|secret|password|credential)s?|id_\w+", re.IGNORECASE)
# Exceptions of zipfile for damaged archives.
_DAMAGE = (zipfile.BadZipFile, zlib.error, struct.error, ValueError, RuntimeError, EOFError)


class BundleError(ValueError):
    """A bundle cannot be unpacked; one line."""


@dataclass(frozen=True)
class Bundle:
    """Files of a folder as a zip file; `digest` is a hash of names, contents and modes."""

    digest: str
    data: bytes


def pack(folder: Path, files: Iterable[Path]) -> Bundle:
    """Pack files of a folder; equal content gives equal bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for path in sorted(files):
            # The date is of 1980, whenever the file was written.
            entry = zipfile.ZipInfo(path.relative_to(folder).as_posix())
            entry.external_attr = (0o755 if os.access(path, os.X_OK) else 0o644) << 16
            archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED, compresslevel=1)
    data = out.getvalue()
    return Bundle(hashlib.sha256(data).hexdigest()[:16], data)


def of_sources(root: Path) -> Bundle:
    """Pack the tracked files of a checkout and its untracked source files; print the latter.

    Without git only source files are packed. Links to files that are not packed are left out.
    """
    from scripts.common import git  # a worker has none of these modules, and packs no sources

    if (root / ".git").exists():
        listed = git.text("ls-files", "-z", "--others", "--exclude-standard", root=root).split("\0")
        others = [root / name for name in listed if name]
        more = _plain(root, (path for path in others if _is_source(path.relative_to(root))))
        _tell(root, more, len(others) - len(more))
        return pack(root, _plain(root, {*git.files(root), *more}))
    anywhere = not (root / "scripts").is_dir()  # a design outside this project
    names = (path.relative_to(root) for path in git.files(root))
    return pack(root, _plain(root, (root / name for name in names if _is_source(name, anywhere))))


def _is_source(path: PurePath, anywhere: bool = False) -> bool:
    """Return whether a file that git does not track is a source to be packed.

    It must have the suffix of a source, lie in a folder of sources (or ``anywhere``), and not be
    named like a key; code such as `cause_key.py` is refused only if its whole name is that of a
    key.
    """
    if any(part.startswith(".") for part in path.parts) or path.suffix not in _SOURCES:
        return False
    if not (anywhere or path.parts[0] in _FOLDERS) or any(map(_KEY_LIKE.search, path.parts[:-1])):
        return False
    is_code = path.suffix in _CODE
    return not (_KEY_CODE.fullmatch(path.stem) if is_code else _KEY_LIKE.search(path.name))


def _plain(root: Path, files: Iterable[Path]) -> list[Path]:
    """Return those of the files that are plain files, or links to one of them."""
    real = {path: path.resolve() for path in files if path.is_file()}
    base = root.resolve()
    known = {place for path, place in real.items() if place == base / path.relative_to(root)}
    return [path for path, place in real.items() if place in known]


def _tell(root: Path, more: list[Path], left: int) -> None:
    from neuron_fabric.errors import say

    names = ", ".join(sorted(path.relative_to(root).as_posix() for path in more))
    stay = f"{left} untracked files stay here (git add what a run needs)" if left else ""
    line = f"{len(more)} untracked source files go to the cluster workers, too" if more else ""
    if more or left:
        parts = "; ".join(filter(None, (line, stay)))
        say(f"nf: {parts}{': ' * bool(more)}{names}", file=sys.stderr)


def of_build(directory: Path) -> Bundle:
    """Pack a finished build without intermediate files of the compilers."""
    files = [p for p in directory.rglob("*") if p.is_file() and p.suffix not in _INTERMEDIATE]
    return pack(directory, _plain(directory, files))


def of_results(folder: Path) -> bytes:
    """Pack the plain files of a run folder and return the zip's bytes; links are left out."""
    files = [p for p in folder.rglob("*") if p.is_file() and not p.is_symlink()]
    return pack(folder, files).data


def unpack(data: bytes, folder: Path) -> None:
    """Unpack a bundle into ``folder``, which must be empty or missing: all files, or none.

    zipfile makes a plain file of every link, and takes each name as one below the folder. Bundles
    need no further defence: whoever can send one, can run code on the workers.

    Raises:
        BundleError: The bundle is damaged, or the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (
            zipfile.ZipFile(io.BytesIO(data)) as archive,
            tempfile.TemporaryDirectory(dir=folder.parent, prefix=".nf-") as temporary,
        ):
            new = Path(temporary, "new")
            new.mkdir()
            for entry in archive.infolist():
                path = Path(archive.extract(entry, new))  # the CRC is right
                path.chmod(0o755 if entry.is_dir() or entry.external_attr >> 16 & 0o100 else 0o644)
            new.rename(folder)
    except OSError as error:
        raise BundleError(f"a bundle cannot be unpacked to {folder}: {error.strerror}") from error
    except _DAMAGE as error:
        text = " ".join(str(error).split())[:200]
        raise BundleError(f"a bundle is damaged: {text}") from error

# SPDX-License-Identifier: Apache-2.0
"""Bundles for workers: the sources of a project, a finished build, or the results of a run.

A bundle is named by its content, so it is sent once for any number of runs. This module is pickled
by value for the workers, so it imports nothing of the project at the top.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath

# Suffixes of intermediate files of the compilers; other files of a build are the model.
_INTERMEDIATE = frozenset(
    {".a", ".cc", ".cpp", ".d", ".dat", ".gch", ".h", ".hpp", ".mk", ".o", ".ok", ".tree", ".xml"}
)
# Untracked files are packed if they have one of these suffixes and are in one of these folders.
_FOLDERS = frozenset({"cocotbext", "hdl", "models", "neuron_fabric", "scripts", "verif"})
_CODE = {
    *(".c", ".cc", ".cpp", ".f", ".h", ".hpp", ".py"),
    *(".rdl", ".sv", ".svh", ".v", ".vh", ".vlt"),
}
_SOURCES = _CODE | {".j2", ".json", ".toml", ".yaml", ".yml"}
_KEY_WORD = (
    "token|key|secret|pass(w|phrase)|credential|private|kubeconfig|service.?account|id_[a-z]*sa"
)
_KEY_LIKE = re.compile(rf"{_KEY_WORD}|id_ed25519|(?<![a-z])auth(?![a-z])", re.IGNORECASE)
_KEY_CODE = re.compile(r"(api_?)?(token|key|secret|password|credential)s?|id_\w+", re.IGNORECASE)
# Limits of a bundle: a damaged or hostile one must not fill memory or disk.
MAX_FILES = 20_000
MAX_FILE_BYTES = 1 << 30
MAX_BYTES = 2 << 30  # of the whole, uncompressed
_END = bytes(2 * tarfile.BLOCKSIZE)


class BundleError(ValueError):
    """A bundle that cannot be packed or unpacked; one line."""


@dataclass(frozen=True)
class Bundle:
    """Folder as compressed tar; `digest` is over names, contents and modes."""

    digest: str
    data: bytes


def pack(folder: Path, files: Iterable[Path]) -> Bundle:
    """Pack files of a folder; equal content gives equal bytes. Raise BundleError above the
    limits."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for number, path in enumerate(sorted(files), 1):
            name, size = path.relative_to(folder).as_posix(), path.stat().st_size
            _check_limits(name, size, number, raw.tell() + size)
            content = path.read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755 if os.access(path, os.X_OK) else 0o644
            tar.addfile(entry, io.BytesIO(content))
    text = raw.getvalue()
    return Bundle(
        hashlib.sha256(text).hexdigest()[:16], gzip.compress(text, compresslevel=1, mtime=0)
    )


def _check_limits(name: str, size: int, files: int, total: int) -> None:
    if not 0 <= size <= MAX_FILE_BYTES:
        raise BundleError(f"{name[:200]!r} has {size:,} bytes; a bundle takes {MAX_FILE_BYTES:,}")
    if files > MAX_FILES:
        raise BundleError(f"a bundle takes {MAX_FILES:,} files")
    if total > MAX_BYTES:
        raise BundleError(f"a bundle takes {MAX_BYTES:,} bytes")


def of_sources(root: Path) -> Bundle:
    """Pack the tracked files of a checkout and its untracked source files; print the latter.

    Without git only source files are packed. Links to files that are not packed are left out.
    """
    from scripts.common import git  # a worker has none of these modules, and packs no sources

    if (root / ".git").exists():
        listed = git.text("ls-files", "-z", "--others", "--exclude-standard", root=root).split("\0")
        others = [root / name for name in listed if name]
        more = _plain(root, (path for path in others if _is_source(path.relative_to(root), True)))
        _tell(root, more, len(others) - len(more))
        return pack(root, _plain(root, {*git.files(root), *more}))
    anywhere = not (root / "scripts").is_dir()  # a design outside this project
    names = (path.relative_to(root) for path in git.files(root))
    files = (root / name for name in names if _is_source(name, False, anywhere))
    return pack(root, _plain(root, files))


def _is_source(path: PurePath, in_git: bool, anywhere: bool = False) -> bool:
    """Return whether an untracked file is a source by folder and name, and not named like a key.

    Without git nothing distinguishes files of the project (`cause_key.py`) from others, so code is
    packed unless its whole name is that of a key, also from the top folder.
    """
    code = path.suffix in _CODE
    if any(part.startswith(".") for part in path.parts) or path.suffix not in _SOURCES:
        return False
    on_top = code and not in_git and len(path.parts) == 1
    if not (path.parts[0] in _FOLDERS or on_top or anywhere):
        return False
    if any(map(_KEY_LIKE.search, path.parts[:-1])):
        return False
    lenient = code and not in_git
    return not (_KEY_CODE.fullmatch(path.stem) if lenient else _KEY_LIKE.search(path.name))


def _plain(root: Path, files: Iterable[Path]) -> list[Path]:
    """Return the plain files, and the links to one of them."""
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
    """Pack the plain files of a run folder; links are left out."""
    files = [p for p in folder.rglob("*") if p.is_file() and not p.is_symlink()]
    return pack(folder, files).data


def unpack(data: bytes, folder: Path) -> None:
    """Unpack a bundle into ``folder``, which must be empty or missing: all files, or none.

    Raises:
        BundleError: for a bundle that is damaged or too large, contains other than plain files and
            folders or names outside the folder, and for a folder that cannot be written. (Python's
            own filters need 3.11.4.)
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        entries = _entries(data)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".nf-") as temporary:
            new = Path(temporary, "new")
            new.mkdir()
            for entry, content in entries:
                _write(entry, content, new)
            new.rename(folder)
    except OSError as error:
        raise BundleError(f"a bundle cannot be unpacked to {folder}: {error.strerror}") from error


def _entries(data: bytes) -> list[tuple[tarfile.TarInfo, memoryview]]:
    """Return the checked entries of a bundle."""
    found: list[tuple[tarfile.TarInfo, memoryview]] = []
    try:
        text = _inflated(data)
        with tarfile.open(fileobj=io.BytesIO(text), mode="r:") as tar:
            for entry in tar:
                _check_limits(entry.name, entry.size, len(found) + 1, len(text))
                _check(entry)
                found.append((entry, memoryview(text)[entry.offset_data :][: entry.size]))
    except BundleError:
        raise
    # Exceptions of tarfile for damaged headers.
    except (
        tarfile.TarError,
        zlib.error,
        OSError,
        ValueError,
        ArithmeticError,
        RecursionError,
    ) as e:
        raise BundleError(f"a bundle is damaged: {' '.join(str(e).split())[:200]}") from e
    return found


def _inflated(data: bytes) -> bytes:
    stream = zlib.decompressobj(16 + zlib.MAX_WBITS)  # gzip
    text = stream.decompress(data, MAX_BYTES + 1)
    if len(text) > MAX_BYTES:
        raise BundleError(f"a bundle takes {MAX_BYTES:,} bytes")
    if not stream.eof or stream.unused_data or not text.endswith(_END):
        raise BundleError("a bundle is damaged: it is cut short, or has more after its end")
    return text


def _check(entry: tarfile.TarInfo) -> None:
    if not (entry.isreg() or entry.isdir()) or entry.issparse():
        raise BundleError(f"a bundle holds {entry.name[:200]!r}, which is no file")
    name = PurePosixPath(entry.name)
    if name.is_absolute() or ".." in name.parts or "\0" in entry.name:
        raise BundleError(f"a bundle holds {entry.name[:200]!r}, which leads out of its folder")


def _write(entry: tarfile.TarInfo, content: memoryview, folder: Path) -> None:
    path = folder / entry.name
    if entry.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # A bundle may contain a name twice: the last entry is used.
    path.unlink(missing_ok=True)
    with path.open("xb") as out:
        out.write(content)
    path.chmod(0o755 if entry.mode & 0o100 else 0o644)

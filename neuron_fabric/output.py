# SPDX-License-Identifier: Apache-2.0
"""Files that a user asked for: checked before any work, written beside their name, whole or not
at all, and never through a link or into anything but a regular file."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from neuron_fabric.errors import CaptureError

NAME_BYTES = 255 - 64
"""Longest name: the rest is for what is put behind it (`.step-000003`, a journal's name, ..)."""


def check_output(path: Path, option: str) -> None:
    """CaptureError, before anything is done, when ``path`` could not be written.

    ``option`` is where the user gave it (`--out`).
    """
    other = f"choose another {option}"
    try:
        if len(os.fsencode(path.name)) > NAME_BYTES:
            length = len(os.fsencode(path.name))
            raise CaptureError(path, f"its name has {length} bytes, {NAME_BYTES} at most", other)
        if not path.parent.is_dir():
            raise CaptureError(path, "its folder does not exist", f"make it, or {other}")
        what = in_the_way(path)
        if what:
            raise CaptureError(path, what, f"give {option} the name of a file")
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        what = f"its folder cannot be written ({error.strerror})"
        raise CaptureError(path, what, other) from None
    except ValueError:  # a byte 0 in the name
        raise CaptureError(path, "is no name of a file", other) from None


def in_the_way(path: Path) -> str:
    """What stands at ``path`` and must not be replaced: everything but a regular file."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return ""
    if stat.S_ISREG(mode):
        return ""
    if stat.S_ISLNK(mode):
        return f"is a link to {os.readlink(path)}"
    return "is a folder" if stat.S_ISDIR(mode) else "is no regular file"


def create(path: Path) -> int:
    """A new, empty file, open for reading and writing: its descriptor. OSError.

    What an earlier process has left there is removed first; a link is removed, not followed.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with naming(path):
        path.unlink(missing_ok=True)
        return os.open(path, flags, 0o666)


def write_all(file: int, data: bytes | memoryview, offset: int) -> None:
    """All of it: the system may take less at a time (2 GiB on Linux). OSError."""
    rest = memoryview(data)
    while rest:
        done = os.pwrite(file, rest, offset)
        rest, offset = rest[done:], offset + done


class NewFile:
    """New file under a temporary name in the same folder; `close` renames it to ``path``.

    The file appears whole or not at all. As a context manager it is closed at the end, and removed
    on an exception. OSError if the file cannot be created.

    Args:
        path: Final name.
        temporary: Name until `close`; by default a hidden name with the process id.
        durable: Whether the file survives a crash of the machine once `close` has returned.
    """

    def __init__(self, path: Path, temporary: Path | None = None, *, durable: bool = False) -> None:
        self.path = path
        self._temporary = temporary or path.with_name(f".{path.name}.{os.getpid()}")
        self._durable = durable
        self._file = os.fdopen(create(self._temporary), "wb", buffering=0)

    def put(self, data: bytes | memoryview, offset: int = 0) -> None:
        """All of ``data`` from byte ``offset`` on. OSError."""
        with naming(self.path):
            write_all(self._file.fileno(), data, offset)

    def close(self) -> None:
        """The file appears. OSError, and nothing is replaced, where its name has come to be
        something else than a file."""
        try:
            with naming(self.path):
                if self._durable:
                    os.fsync(self._file.fileno())
                self._file.close()
            if what := in_the_way(self.path):
                raise FileExistsError(17, what, str(self.path))
            os.replace(self._temporary, self.path)
        except BaseException:
            self.abort()
            raise
        if self._durable:
            sync_folder(self.path.parent)

    def abort(self) -> None:
        """Give up; nothing is left on a disk that still answers."""
        for undo in (self._file.close, self._temporary.unlink):
            with contextlib.suppress(OSError):
                undo()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


def write_text(path: Path, text: str) -> None:
    """A text file (UTF-8), whole or not at all. The old one stays when anything fails (OSError)."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Write a file whole or not at all; on OSError the old content stays."""
    with NewFile(path, durable=durable) as file:
        file.put(data)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a crash of the machine."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors of the system name ``path``: a full disk does not say which by itself."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise

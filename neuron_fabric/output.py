# SPDX-License-Identifier: Apache-2.0
"""Output files of the user: checked before any work, and written whole or not at all.

A file is written under a temporary name in the same folder and then renamed. Links are never
followed, and only regular files are replaced.
"""

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
"""Greatest length of a name in bytes: suffixes such as `.step-000003` must fit."""


def check_output(path: Path, option: str) -> None:
    """Check, before any work, that ``path`` can be written.

    Args:
        path: Name of the output file.
        option: Option of the command line with that name, for the message.

    Raises:
        CaptureError: It cannot be written.
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
    except ValueError:  # a NUL in the name
        raise CaptureError(path, "is no name of a file", other) from None


def in_the_way(path: Path) -> str:
    """Return why ``path`` must not be replaced; "" for a regular file or a missing one."""
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
    """Create an empty file for reading and writing, and return its descriptor. Raises OSError.

    An existing file of that name is removed first; a link is removed, not followed.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with naming(path):
        path.unlink(missing_ok=True)
        return os.open(path, flags, 0o666)


def write_all(file: int, data: bytes | memoryview, offset: int) -> None:
    """Write all of ``data`` at byte ``offset`` of a descriptor. Raises OSError.

    Several system calls are used if necessary: one writes at most 2 GiB on Linux.
    """
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
        """Write ``data`` at byte ``offset`` of the temporary file. Raises OSError."""
        with naming(self.path):
            write_all(self._file.fileno(), data, offset)

    def close(self) -> None:
        """Rename the temporary file to its final name; it is removed if that fails.

        Raises:
            OSError: The disk is full, or the name belongs to something else than a file by now;
                nothing is replaced.
        """
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
        """Remove the temporary file, if the disk still answers."""
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
    """Write a UTF-8 text file whole or not at all; on OSError the old content stays."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Write a file whole or not at all; on OSError the old content stays."""
    with NewFile(path, durable=durable) as file:
        file.put(data)


def sync_folder(folder: Path) -> None:
    """Flush a folder to disk, so that its names survive a crash of the machine."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the name ``path`` to an OSError in the block that names no file, such as a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise

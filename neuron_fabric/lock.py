# SPDX-License-Identifier: Apache-2.0
"""Locks between processes that the death of a holder releases.

A lock is a `flock` on a file that exists while somebody holds the lock; it contains the process id
and the program of the holder. The `flock` counts, not the file, so that a file left by a killed
process blocks nobody.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from neuron_fabric.errors import say
from neuron_fabric.printable import one_line

_POLL_SECONDS = 0.05
_PROGRAM = 120  # shown characters of its name
# Errors of a file system without locks (some NFS mounts, FUSE).
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)
NO_LOCKS = "this file system has no locks; let one command at a time write here"
_told: set[int] = set()


class Busy(Exception):
    """Lock held by another process; the message names the holder."""


class Lock:
    """Lock on a file or folder, by a file `.NAME.lock` in the same folder; also a context manager.

    Args:
        target: The file or folder.
        shared: Whether several holders may share the lock; an exclusive holder excludes all others.
    """

    def __init__(self, target: Path, *, shared: bool = False) -> None:
        self.path = target.with_name(f".{target.name}.lock")
        self._operation = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        self._file: int | None = None

    @property
    def held(self) -> bool:
        """Return whether this object holds the lock."""
        return self._file is not None

    def acquire(self, *, wait: Callable[[], None] | None = None) -> Lock:
        """Acquire the lock and return this object.

        On a file system without locks, warn once and continue without the lock.

        Args:
            wait: Called repeatedly until the lock is free; it may raise. By default Busy is raised.

        Raises:
            Busy: Another process holds the lock.
            OSError: The folder cannot be written.
        """
        while not self._try():
            if wait is None:
                raise Busy(self.holder())
            wait()
            time.sleep(_POLL_SECONDS)
        return self

    def _try(self) -> bool:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        while True:
            file = os.open(self.path, flags, 0o666)
            try:
                fcntl.flock(file, self._operation | fcntl.LOCK_NB)
            except OSError as error:
                os.close(file)
                if isinstance(error, BlockingIOError):
                    return False
                if error.errno not in _NO_LOCKS:
                    raise
                _tell(self.path)
                return True
            if self._named(file):
                break
            os.close(file)  # removed meanwhile by its last holder: nobody would see this lock
        with contextlib.suppress(OSError):  # full disk: the lock is held all the same
            os.ftruncate(file, 0)
            os.pwrite(file, _self().encode(errors="replace"), 0)
        self._file = file
        return True

    def _named(self, file: int) -> bool:
        try:
            return os.path.samestat(os.fstat(file), os.stat(self.path, follow_symlinks=False))
        except FileNotFoundError:
            return False

    def holder(self) -> str:
        """Return a text with the holder as far as it is known: ``in use by `nf` (process 12)``."""
        with contextlib.suppress(OSError, ValueError):
            number, program = self.path.read_text(encoding="utf-8", errors="replace").split("\t", 1)
            os.kill(int(number), 0)  # the named one of several holders may have ended
            return f"in use by `{one_line(program, _PROGRAM)}` (process {int(number)})"
        return "in use by another process, here or on another machine"

    def release(self) -> None:
        """Release the lock, if this object holds it."""
        file, self._file = self._file, None
        if file is None:
            return
        # An exclusive holder removes the file while it holds the lock; waiting processes look for
        # the name again. The last of several shared holders is unknown, so they leave the file.
        if self._operation == fcntl.LOCK_EX and self._named(file):
            with contextlib.suppress(OSError):
                self.path.unlink()
        os.close(file)

    def __enter__(self) -> Lock:
        return self if self.held else self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def _self() -> str:
    """Return process id and program name of this process, for the lock file.

    Arguments are left out: they may contain secrets, and others may read the folder.
    """
    return f"{os.getpid()}\t{Path(sys.argv[0] or 'python').name}"


def _tell(path: Path) -> None:
    device = os.stat(path.parent).st_dev
    if device not in _told:
        _told.add(device)
        say(f"{path.parent}: {NO_LOCKS}", file=sys.stderr)

# SPDX-License-Identifier: Apache-2.0
"""Locks between processes, which the death of a holder gives back: no file that is left behind
can block anybody.

A lock is `flock` on a file that exists while somebody holds it, with one line in it: the process id
and the program of the holder. The lock counts, never the file: a file that a killed process has
left is taken over.
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

from neuron_fabric.errors import one_line, say

_POLL_SECONDS = 0.05
_PROGRAM = 120  # characters of its name that are shown
# What a file system without locks answers (some NFS mounts, FUSE).
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)
NO_LOCKS = "this file system has no locks; let one command at a time write here"
_told: set[int] = set()


class Busy(Exception):
    """Somebody else holds the lock; one line that says who."""


class Lock:
    """A lock on a file or folder: `.NAME.lock` beside it. Use it as a context manager, or keep it.

    ``shared``: any number of holders at once, but none beside an exclusive one.
    """

    def __init__(self, target: Path, *, shared: bool = False) -> None:
        self.path = target.with_name(f".{target.name}.lock")
        self._operation = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        self._file: int | None = None

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._file is not None

    def acquire(self, *, wait: Callable[[], None] | None = None) -> Lock:
        """Take the lock. Busy when another process has it; with ``wait``, which is called again
        and again and may raise, not before that process has let it go. OSError when the folder
        cannot be written to.

        A file system that has no locks is told of once, on stderr, and nothing is locked there.
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
            os.close(file)  # its last holder has removed the file meanwhile: nobody else sees it
        with contextlib.suppress(OSError):  # a full disk: held all the same
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
        """Who holds it, as far as is known: ``in use by `nf` (process 12)``."""
        with contextlib.suppress(OSError, ValueError):
            number, program = self.path.read_text(encoding="utf-8", errors="replace").split("\t", 1)
            os.kill(int(number), 0)  # of several holders, the one that is named may have ended
            return f"in use by `{one_line(program, _PROGRAM)}` (process {int(number)})"
        return "in use by another process, here or on another machine"

    def release(self) -> None:
        """Give it back."""
        file, self._file = self._file, None
        if file is None:
            return
        # An exclusive holder removes the file while it still has the lock; who waits looks for the
        # name again. Of shared holders nobody knows which is the last.
        if self._operation == fcntl.LOCK_EX and self._named(file):
            with contextlib.suppress(OSError):
                self.path.unlink()
        os.close(file)

    def __enter__(self) -> Lock:
        return self if self.held else self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def _self() -> str:
    """No arguments: a folder that others can read may hold the lock, and they may hold secrets."""
    return f"{os.getpid()}\t{Path(sys.argv[0] or 'python').name}"


def _tell(path: Path) -> None:
    device = os.stat(path.parent).st_dev
    if device not in _told:
        _told.add(device)
        say(f"{path.parent}: {NO_LOCKS}", file=sys.stderr)

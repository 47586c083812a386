# SPDX-License-Identifier: Apache-2.0
"""Locks on folders, so that `nf` commands running at the same time in one tree share none.

Each command holds a shared lock on the build folder as long as it lives, so that `nf clean` removes
nothing from it, and exclusive locks on the folders that it empties and fills; another command gets
a different folder. The end of a process, also by a signal, releases everything.
"""

from __future__ import annotations

import atexit
import threading
from contextlib import suppress
from pathlib import Path

from neuron_fabric.lock import Busy, Lock
from scripts.common import paths, process
from scripts.common.errors import NfError
from scripts.common.paths import shown

_MOST = 100  # commands at once
_lock = threading.Lock()
_held: dict[Path, Lock] = {}
_folders: dict[Path, Path] = {}


@atexit.register
def release() -> None:
    """Release all locks of this process at exit, so that no lock file is left."""
    with _lock:
        while _held:
            _held.popitem()[1].release()
        _folders.clear()


def tree() -> None:
    """Hold a shared lock on the build folder until this process ends; wait while `nf clean` runs.

    Raises:
        NfError: The build folder cannot be written.
    """
    with _lock:
        if paths.BUILD in _held:
            return
        try:
            paths.BUILD.mkdir(parents=True, exist_ok=True)
            lock = Lock(paths.BUILD / "tree", shared=True)
            _held[paths.BUILD] = lock.acquire(wait=process.check_stopping)
        except OSError as error:
            raise NfError(f"cannot write to {shown(paths.BUILD)}: {error.strerror}.") from error


def writable(path: Path) -> None:
    """Hold the lock of `tree`, and raise NfError if no file can be made in a folder."""
    tree()
    paths.writable(path)


def folder(path: Path) -> Path:
    """Lock the first of `path`, `path.2`, `path.3`, .. that no other process has locked; return it.

    The lock is held until this process ends; a second call with the same `path` returns the same
    folder. The folder is not created, and it may exist and hold files of earlier commands.

    Raises:
        NfError: It cannot be written, or 99 commands have folders of this name.
    """
    tree()
    with _lock:
        for number in range(1, _MOST) if path not in _folders else ():
            own = path if number == 1 else path.with_name(f"{path.name}.{number}")
            with suppress(Busy):
                take(own)
                _folders[path] = own
                break
        if path in _folders:
            return _folders[path]
    raise NfError(f"{shown(path)} is {Lock(path).holder()}, and so are {_MOST - 2} more.")


def take(path: Path) -> None:
    """Lock exactly `path` until this process ends.

    Raises:
        Busy: Another process has locked it.
        NfError: The folder that contains it cannot be written.
    """
    if path in _held:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _held[path] = Lock(path).acquire()
    except OSError as error:
        raise NfError(f"cannot write to {shown(path.parent)}: {error.strerror}.") from error


def alone() -> Lock:
    """Return an exclusive lock on the build folder, for `nf clean`.

    Raises:
        NfError: Another command is running in this tree.
    """
    try:
        return Lock(paths.BUILD / "tree").acquire()
    except Busy as busy:
        raise NfError(f"{shown(paths.BUILD)} is {busy}: clean it when that has ended.") from None

# SPDX-License-Identifier: Apache-2.0
"""Folders in which no other user can put or replace anything: for code that is loaded, and sockets.

A path is as safe as its weakest part: who may write to a folder may rename what is in it, so every
parent counts. A sticky folder (`/tmp`) lets others add names but not take away those of this user.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

NAME = "neuron-fabric"
_UNMAPPED = 65534
"""The owner that the kernel shows for a user that this user namespace does not have."""


def who_else(path: Path, trusted: int | None = None) -> str:
    """Return why another user can change what is in the folder ``path``; "" where none can.

    Args:
        path: links in it are followed; of what does not exist, or cannot be reached, its parents
            are judged.
        trusted: one more user who may own it, besides this one and root.
    """
    with suppress(OSError, RuntimeError):  # a loop of links
        path = path.resolve()
    owners = {os.getuid(), 0, os.getuid() if trusted is None else trusted}
    for folder in (path, *path.parents):
        try:
            about = folder.stat()
        except OSError:
            continue
        if about.st_uid not in owners and not (folder != path and _unmapped_root(about.st_uid)):
            return f"{_it(folder, path)} belongs to user {about.st_uid}"
        others = about.st_mode & stat.S_IWOTH or (
            about.st_mode & stat.S_IWGRP and not _own_group(about.st_gid)
        )
        if others and (folder == path or not about.st_mode & stat.S_ISVTX):
            return f"others may write to {_it(folder, path)}"
    return ""


def make_private(folder: Path) -> Path:
    """Make ``folder`` with mode 0700, unless it is there, and return its real path.

    Raises:
        PermissionError: another user can change it; OSError: it cannot be made.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if why := who_else(folder):
        raise PermissionError(f"{folder}: {why}")
    return folder.resolve()


def private_temporary() -> Path:
    """Make a folder that only this user can enter, the same for all processes of this user that
    have the same folder for temporary files, and return it. OSError."""
    folder = Path(tempfile.gettempdir(), f"{NAME}-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid() or about.st_mode & 0o077:
        what = "is not a folder that only this user can enter; remove it, or set TMPDIR"
        raise PermissionError(f"{folder} {what}")
    return make_private(folder)


def _it(folder: Path, path: Path) -> str:
    return "it" if folder == path else f"{folder}"


def _own_group(gid: int) -> bool:
    """Whether the group has this user alone, as distributions make one for every user."""
    try:
        me, group = pwd.getpwuid(os.getuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    own = gid == me.pw_gid != 0 and group.gr_name == me.pw_name
    return own and not set(group.gr_mem) - {me.pw_name}


def _unmapped_root(uid: int) -> bool:
    """Whether this may be root outside of a user namespace."""
    try:
        words = Path("/proc/self/uid_map").read_text(encoding="ascii").split()
    except OSError:
        return False
    return uid == _UNMAPPED and words[:3] != ["0", "0", "4294967295"]

# SPDX-License-Identifier: Apache-2.0
"""Private folders, in which no other user can add or replace a file: for loaded code and sockets.

A path is as safe as its weakest part: a user who may write to a folder may rename its entries, so
every parent is checked. A sticky folder (`/tmp`) lets other users add names, but not remove those
of this user.
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
"""Owner that the kernel shows for a user outside this user namespace."""


def who_else(path: Path, trusted: int | None = None) -> str:
    """Return why another user can change the content of a folder, as text; "" if none can.

    Args:
        path: The folder; links are followed. If it is missing, its parents are checked.
        trusted: Another accepted owner, with this user and root.
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
    """Create ``folder`` with mode 0700, if it is missing; return its real path.

    Raises:
        PermissionError: Another user can change it.
        OSError: It cannot be created.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if why := who_else(folder):
        raise PermissionError(f"{folder}: {why}")
    return folder.resolve()


def private_temporary() -> Path:
    """Create this user's private folder below the folder for temporary files, and return it.

    Only this user can enter it; all processes of the user get the same one. Raises OSError.
    """
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
    """Return whether this user is the only member of a group, as distributions create for users."""
    try:
        me, group = pwd.getpwuid(os.getuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    own = gid == me.pw_gid != 0 and group.gr_name == me.pw_name
    return own and not set(group.gr_mem) - {me.pw_name}


def _unmapped_root(uid: int) -> bool:
    """Return whether the owner ``uid`` may be the real root, seen from inside a user namespace."""
    try:
        words = Path("/proc/self/uid_map").read_text(encoding="ascii").split()
    except OSError:
        return False
    return uid == _UNMAPPED and words[:3] != ["0", "0", "4294967295"]

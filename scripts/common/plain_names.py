# SPDX-License-Identifier: Apache-2.0
"""Links with plain names to folders whose names tools do not accept.

make, g++ and the simulators split or expand a path that has a space, `#`, `$` or `:` in it. A
folder with such a name is therefore given to them by a link whose name is plain: a hash of the
folder's path, in a folder that only this user can write. The module imports only the standard
library: `scripts/setup.sh` runs it before there is a .venv (`python -I
scripts/common/plain_names.py` prints the plain name of this checkout).
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PLAIN = re.compile(r"[A-Za-z0-9_./@-]*")
_OF_TOOLS = ("TMPDIR", "TMP", "TEMP")  # where g++ looks for a folder for its temporary files
_links: dict[Path, Path] = {}  # what each link stands for, to show a user the folder's own name


class PlaceError(Exception):
    """A folder has no plain name, and no place for a link to it can be used; one line."""


def plain(folder: Path) -> Path:
    """Return ``folder``, or a link to it if its name has characters that tools do not accept.

    A folder that needs a link is created if it does not exist.

    Raises:
        PlaceError: No link can be made in /tmp, /var/tmp or ~/.cache.
    """
    if is_plain(folder):
        return folder
    with suppress(OSError):  # whoever writes there says what is wrong with it
        folder.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    tried: list[str] = []
    for home in _homes():
        try:
            _own(home)
            link = home / name
            _point(link, folder)
        except OSError as error:
            tried.append(f"{home} ({error.strerror})")
        else:
            _links[link] = folder
            return link
    raise PlaceError(f"{folder}: tools need a link with a plain name, and none fits: {tried}.")


def is_plain(path: Path) -> bool:
    """Return whether tools accept the name of a path."""
    return _PLAIN.fullmatch(str(path)) is not None


def named(path: Path) -> Path:
    """Return a path with the links of `plain` replaced by the folder names that the user knows."""
    for link, folder in _links.items():
        if path.is_relative_to(link):
            return folder / path.relative_to(link)
    return path


def temporary_problem() -> str | None:
    """Return the fault of TMPDIR, TMP or TEMP in one line; None if each is unset or writable."""
    for name in _OF_TOOLS:
        value = os.environ.get(name)
        if value and not (Path(value).is_dir() and os.access(value, os.W_OK | os.X_OK)):
            return (
                f"{name}={value} is not a folder that can be written to: unset it, or set another"
            )
    return None


def _homes() -> Iterator[Path]:
    user = f"neuron-fabric-{os.getuid()}"
    yield Path("/tmp", user)
    yield Path("/var/tmp", user)
    home = Path(os.path.expanduser("~"), ".cache", user)
    if home.is_absolute() and _PLAIN.fullmatch(str(home)):
        yield home


def _own(home: Path) -> None:
    """Make the folder of links, mode 0700; raise OSError if another user could write there."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = home.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError(0, "another user can write there")


def _point(link: Path, folder: Path) -> None:
    if link.is_symlink() and Path(os.readlink(link)) == folder:
        return
    new = link.with_name(f"{link.name}.{os.getpid()}")
    new.symlink_to(folder)
    new.replace(link)


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{plain(Path(__file__).resolve().parents[2])}\n")
    except PlaceError as error:
        sys.exit(f"setup: {error}")

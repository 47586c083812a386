# SPDX-License-Identifier: Apache-2.0
"""`nf clean`: remove builds that were not used lately, or everything that was generated.

examples:
  nf clean --days 2                          remove builds not used for two days
  nf clean --all                             remove everything below build/
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import time
from pathlib import Path

from neuron_fabric.errors import say
from scripts.build.build_cache import STAMP, is_build
from scripts.common import folder_locks
from scripts.common.arguments import add_flags, positive
from scripts.common.errors import NfError
from scripts.common.paths import BUILD, ROOT, SIM_BUILDS, shown


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_flags(parser, all="remove the whole build folder")
    parser.add_argument("--days", type=positive, default=7, help="keep builds used since (7)")


def run(args: argparse.Namespace) -> int:
    if args.all and ROOT / "build" != BUILD:
        raise NfError(f"NF_BUILD is set: remove {BUILD} yourself.")
    if args.all and BUILD.is_symlink():
        raise NfError(f"build/ is a link: remove what is in {BUILD.resolve()} yourself.")
    if not BUILD.is_dir():
        say("nothing to remove")
        return 0
    try:
        with folder_locks.alone() as lock:
            return _all(lock.path) if args.all else _old(args.days)
    except OSError as error:
        raise NfError(f"cannot clean {shown(BUILD)}: {error.strerror}.") from error


def _all(lock: Path) -> int:
    for path in BUILD.iterdir():
        if path != lock:
            _remove(path)
    # The lock goes last; a command that has begun meanwhile may have written something new.
    lock.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        BUILD.rmdir()
    say("removed build/")
    return 0


def _old(days: int) -> int:
    limit = time.time() - days * 86400
    removed = 0
    for folder in SIM_BUILDS.iterdir() if SIM_BUILDS.is_dir() else ():
        stamp = folder / STAMP
        if is_build(folder) and (not stamp.is_file() or stamp.stat().st_mtime < limit):
            _remove(folder)
            removed += 1
    say(f"removed {removed} builds")
    return 0


def _remove(path: Path) -> None:
    """Remove a file, a link or a whole folder; NfError if that fails."""
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    except OSError as error:
        where = error.filename or path
        raise NfError(f"cannot remove {where}: {error.strerror}.") from error

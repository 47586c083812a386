# SPDX-License-Identifier: Apache-2.0
"""`nf clean`: removes builds that were not used lately, or everything that was generated."""

from __future__ import annotations

import argparse
import shutil
import time

from nf_capture.text import say
from scripts.build import STAMP
from scripts.errors import NfError
from scripts.paths import BUILD, ROOT, SIM_BUILDS
from scripts.verbs.run import positive

EXAMPLES = """examples:
  nf clean --days 2                          builds that were not used for two days
  nf clean --all                             everything below build/
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="remove the whole build folder")
    parser.add_argument("--days", type=positive, default=7, help="keep builds used since (7)")


def run(args: argparse.Namespace) -> int:
    if args.all:
        if BUILD != ROOT / "build":
            raise NfError(f"NF_BUILD is set: remove {BUILD} yourself.")
        shutil.rmtree(BUILD, ignore_errors=True)
        say("removed build/")
        return 0
    limit = time.time() - args.days * 86400
    removed = 0
    for folder in SIM_BUILDS.glob("*-*") if SIM_BUILDS.is_dir() else ():
        stamp = folder / STAMP
        if folder.is_dir() and (not stamp.is_file() or stamp.stat().st_mtime < limit):
            shutil.rmtree(folder, ignore_errors=True)
            removed += 1
    say(f"removed {removed} builds")
    return 0

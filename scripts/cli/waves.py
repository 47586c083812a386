# SPDX-License-Identifier: Apache-2.0
"""`nf waves`: open the waves of a failed run in a viewer, with a view of what failed.

The view shows messages as text, the link, the request, its region and slot, and memory, with the
cursor at the failure. Without a display it is written, and the files are named.

examples:
  nf waves                                   open the newest failure that has waves
  nf waves 812                               open run 812 of `nf history`
  nf waves test_modes.fp32-icarus-default-s7 --viewer gtkwave
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess

from neuron_fabric.errors import say
from scripts.common.arguments import add_flags
from scripts.common.errors import NfError
from scripts.common.paths import ROOT, shown
from scripts.common.records import RunRecord
from scripts.history.database import History
from scripts.waves.view import of_run

VIEWERS = ("surfer", "gtkwave")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = "number of a run (`nf history GLOB`), or its id (the newest failure with waves)"
    parser.add_argument("id", nargs="?", metavar="ID", help=what)
    parser.add_argument("--viewer", choices=VIEWERS, help="the viewer (the first one installed)")
    add_flags(parser, no_open="write the view only")


def run(args: argparse.Namespace) -> int:
    record = _record(args.id)
    if record.waves is None:
        raise NfError(f"{record.id} has no waves; `nf rerun {record.id} --waves` writes them.")
    waves = ROOT / record.waves
    if not waves.is_file():
        raise NfError(f"{record.waves} is gone; `nf rerun {record.id} --waves` writes it again.")
    try:
        view = of_run(record, waves)
        gtkwave, surfer = view.write()
    except (OSError, ValueError) as error:
        raise NfError(f"{error}.") from error
    say(f"waves: {shown(waves)}", f"view:  {shown(gtkwave)}, {shown(surfer)}")
    at = "the end" if view.failed_ns is None else f"{view.failed_ns:g} ns"
    say(f"cursor at {at}: {record.cause}")
    commands = {
        "surfer": ["surfer", "--command-file", str(surfer), str(waves)],
        "gtkwave": ["gtkwave", "--dark", str(waves), str(gtkwave)],
    }
    here = [name for name in VIEWERS if args.viewer in (None, name) and shutil.which(name)]
    command = commands[here[0] if here else args.viewer or "gtkwave"]
    has_display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if args.no_open or not has_display or not here:
        why = "" if args.no_open else "no display" if not has_display else "no viewer is installed"
        say(f"open it with: {shlex.join(command)}{f'  ({why})' if why else ''}")
        return 2 if args.viewer and not here and not args.no_open else 0
    return subprocess.run(command, check=False).returncode


def _record(name: str | None) -> RunRecord:
    with History(write=False) as history:
        if name is not None:
            return history.find(name).record
        for _, found in history.red():
            if found.record.waves:
                return found.record
    raise NfError("no run that failed has waves; `nf run` writes them for each failure.")

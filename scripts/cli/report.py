# SPDX-License-Identifier: Apache-2.0
"""`nf report`: writes the report of any recorded command again, also of one that was killed.

examples:
  nf report                                  report the last command
  nf report 12                               report command 12 of `nf history`
  nf report --runs build/runs                report run folders, without the history
  nf report flits build/runs/RUN/link.trace  print a link trace, slot by slot
"""

from __future__ import annotations

import argparse
from pathlib import Path

from neuron_fabric.errors import say
from scripts.cli.completion import with_completer
from scripts.common import folder_locks, paths
from scripts.common.arguments import positive
from scripts.common.errors import NfError
from scripts.common.paths import shown
from scripts.history.database import History
from scripts.report import recorded, write_report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    number = parser.add_argument("number", nargs="?", type=positive, metavar="N", help="command N")
    with_completer(number, lambda: ["flits"])
    parser.add_argument("--runs", type=Path, metavar="FOLDER", help="report run folders")


def run(args: argparse.Namespace) -> int:
    if args.runs and args.number:
        raise NfError("give the number of a command, or --runs, not both.")
    folder_locks.tree()
    if args.runs:
        records = [*recorded.of_folder(args.runs).values()]
        seconds = sum(record.seconds for record in records)
        title = f"runs in {shown(args.runs)}"
        write_report.write_all(records, title, paths.REPORT, seconds=seconds)
        say(write_report.where(paths.REPORT))
        say(*write_report.summary(records, seconds, len(records)))
        return 0
    with History(write=False) as history:
        found = recorded.command(history, args.number)
        same = history.invocations(-1, found.title)
        before = [one.facts for one in reversed(same) if one.id < found.id and one.facts]
        records = [run.record for run in reversed(history.runs(invocation=found.id))]
    what = recorded.invocation(found, records)
    write_report.write_all(records, what, paths.REPORT, history=recorded.points(before))
    say(write_report.where(paths.REPORT))
    say(*write_report.summary(records, what.seconds, what.expected))
    return 0

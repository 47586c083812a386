# SPDX-License-Identifier: Apache-2.0
"""`nf report`: write the report of any recorded command again, also of one that was killed."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from neuron_fabric.errors import say
from scripts import report
from scripts.cli.completion import with_completer
from scripts.common import data, paths, run_folders
from scripts.common.arguments import positive
from scripts.common.errors import NfError
from scripts.common.paths import shown
from scripts.common.records import RunRecord
from scripts.record.database import History, RecordedCommand
from scripts.report import recorded

EXAMPLES = """examples:
  nf report                                  report the last command
  nf report 12                               report command 12 of `nf history`
  nf report --runs build/runs                report run folders, without the history
  nf report flits build/runs/RUN/link.trace  print a link trace, slot by slot
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    number = parser.add_argument("number", nargs="?", type=positive, metavar="N", help="command N")
    with_completer(number, lambda: ["flits"])
    parser.add_argument("--runs", type=Path, metavar="FOLDER", help="report run folders")


def run(args: argparse.Namespace) -> int:
    if args.runs and args.number:
        raise NfError("give the number of a command, or --runs, not both.")
    run_folders.tree()
    if args.runs:
        records = _of_folder(args.runs)
        seconds = sum(record.seconds for record in records)
        title = f"runs in {shown(args.runs)}"
        report.write_all(records, title, paths.REPORT, seconds=seconds)
        say(report.where(paths.REPORT))
        say(*report.summary(records, seconds, len(records)).splitlines())
        return 0
    found, records, before = _of_history(args.number)
    what = recorded.invocation(found, records)
    report.write_all(records, what, paths.REPORT, history=recorded.points(before))
    say(report.where(paths.REPORT))
    say(*report.summary(records, what.seconds, what.expected).splitlines())
    return 0


def _of_history(
    number: int | None,
) -> tuple[RecordedCommand, list[RunRecord], list[dict[str, Any]]]:
    """A command (None: the last), its records, and the facts of those before it."""
    with History(write=False) as history:
        found = next((one for one in history.invocations(-1) if number in (None, one.id)), None)
        if found is None:
            what = f"command {number}" if number else "command yet"
            raise NfError(f"the history holds no {what} (`nf history`).")
        same = history.invocations(-1, found.title)
        before = [one.facts for one in reversed(same) if one.id < found.id and one.facts]
        runs = history.runs(invocation=found.id)
    return found, [run.record for run in reversed(runs)], before


def _of_folder(folder: Path) -> list[RunRecord]:
    records = [data.load_json(path, RunRecord) for path in sorted(folder.glob("*/record.json"))]
    if not records:
        raise NfError(f"{shown(folder)} holds no run (FOLDER/*/record.json).")
    return records

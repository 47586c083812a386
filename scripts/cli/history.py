# SPDX-License-Identifier: Apache-2.0
"""`nf history`: print recorded commands, runs and durations.

examples:
  nf history                                 print the last commands with their results
  nf history 'test_modes*' --sim icarus      print runs of these tests, newest last
  nf history --result failed --last 5        print the last five failed runs with causes
  nf history 'test_mixed*' --trend           print durations of these tests, run by run
"""

from __future__ import annotations

import argparse
import statistics
import time
from functools import partial

from neuron_fabric.errors import say
from scripts.build import registry
from scripts.cli.completion import with_completer
from scripts.cli.options import tests
from scripts.common.arguments import add_flags, positive
from scripts.common.errors import NfError
from scripts.common.terminal import TextTable, clock
from scripts.history.database import History, Run
from scripts.run.schedule import line_of

SHOWN = 20
_TREND = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `nf history`."""
    add = parser.add_argument
    with_completer(add("globs", nargs="*", metavar="GLOB", help="runs of these tests"), tests)
    add("--sim", choices=registry.names(), help="runs on this simulator")
    add("--result", choices=("passed", "failed", "flaky"), help="runs with this result")
    add("--of", type=positive, metavar="N", help="runs of command N")
    add_flags(parser, trend="print durations instead of runs")
    add("--last", type=positive, metavar="N", help=f"lines to show ({SHOWN})")


def run(args: argparse.Namespace) -> int:
    """Print commands, or the runs or durations that the options select.

    Raises:
        NfError: the options exclude each other, or nothing matches.
    """
    if args.trend and (args.result or args.of):
        raise NfError("--trend shows every passed run; leave out --result and --of.")
    with History(write=False) as history:
        if args.trend or not (args.globs or args.sim or args.result or args.of):
            table = _trend(history, args) if args.trend else _commands(history, args.last or SHOWN)
            found, show = bool(table.rows), table.show
        else:
            lines = _runs(history, args)
            found, show = bool(lines), partial(say, *lines)
    if not found:
        raise NfError("no recorded run or command matches.")
    show()
    return 0


def _commands(history: History, last: int) -> TextTable:
    """Return a table of the last commands, newest last, with the runs that are missing."""
    rows = []
    for one in reversed(history.invocations(last)):
        missing = one.expected - one.passed - one.failed - one.flaky
        took = clock(one.finished - one.started) if one.finished else "killed"
        notes = f"  ({missing} of {one.expected} runs missing)" if missing else ""
        counts = one.passed, one.failed, one.flaky
        rows.append((one.id, _when(one.started), *counts, took, f"{one.command}{notes}"))
    return TextTable(
        "{:>5}  {:16} {:>6} {:>6} {:>5} {:>8}  {}",
        rows,
        ("N", "started", "passed", "failed", "flaky", "took", "command"),
    )


def _runs(history: History, args: argparse.Namespace) -> list[str]:
    """Return the last runs that the options select, newest last; with `--of` all of that
    command."""
    found = history.runs(
        globs=args.globs,
        sim=args.sim,
        result=args.result,
        invocation=args.of,
        limit=args.last or (-1 if args.of else SHOWN),
    )
    return [line for one in reversed(found) for line in _run(one)]


def _run(one: Run) -> list[str]:
    """Return the lines of a run: its result, and of a red one the cause and the rerun command."""
    lines = [f"{one.id:6}  {_when(one.finished)}  {line_of(one.record)}"]
    if one.result != "passed":
        lines.append(f"{'':26}{one.record.kind or one.result}: {one.record.cause}")
        lines.append(f"{'':26}again: .venv/bin/nf rerun {one.id}")
    return lines


def _trend(history: History, args: argparse.Namespace) -> TextTable:
    """Return a table of durations in seconds by test, simulator and build, slowest median first.

    Only passed runs count: a failure ends early.
    """
    series = history.series(globs=args.globs, sim=args.sim)
    # Test, simulator and build; the longest first, as these are worth looking at.
    ordered = sorted(series.items(), key=lambda item: -statistics.median(item[1]))
    rows = []
    for (test, sim, build), seconds in ordered[: args.last or SHOWN]:
        name = f"{test} {sim}" + ("" if build == "default" else f" {build}")
        before = " ".join(f"{value:.1f}" for value in seconds[-_TREND - 1 : -1])
        rows.append((name, len(seconds), statistics.median(seconds), seconds[-1], before))
    return TextTable(
        "{:52} {:>5} {:>6.1f} s {:>6.1f} s  {}",
        rows,
        ("test", "runs", "median", "last", "before it, newest last"),
    )


def _when(moment: float) -> str:
    """Convert seconds since 1970 to local date and time."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))

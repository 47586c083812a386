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

from neuron_fabric.errors import say
from neuron_fabric.progress_bar import clock
from scripts.build import registry
from scripts.cli.completion import tests, with_completer
from scripts.common.arguments import positive
from scripts.common.errors import NfError
from scripts.farm.schedule import line_of
from scripts.record.database import History, Run

SHOWN = 20
_TREND = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `nf history`."""
    with_completer(
        parser.add_argument("globs", nargs="*", metavar="GLOB", help="runs of these tests"), tests
    )
    parser.add_argument("--sim", choices=registry.names(), help="runs on this simulator")
    parser.add_argument(
        "--result", choices=("passed", "failed", "flaky"), help="runs with this result"
    )
    parser.add_argument("--of", type=positive, metavar="N", help="runs of command N")
    parser.add_argument("--trend", action="store_true", help="print durations instead of runs")
    parser.add_argument("--last", type=positive, metavar="N", help=f"lines to show ({SHOWN})")


def run(args: argparse.Namespace) -> int:
    """Print commands, or the runs or durations that the options select.

    Raises:
        NfError: the options exclude each other, or nothing matches.
    """
    if args.trend and (args.result or args.of):
        raise NfError("--trend shows every passed run; leave out --result and --of.")
    with History(write=False) as history:
        if args.trend:
            lines = _trend(history, args)
        elif args.globs or args.sim or args.result or args.of:
            lines = _runs(history, args)
        else:
            lines = _commands(history, args.last or SHOWN)
    if not lines:
        raise NfError("no recorded run or command matches.")
    say(*lines)
    return 0


def _commands(history: History, last: int) -> list[str]:
    """Return a table of the last commands, newest last, with the runs that are missing."""
    found = history.invocations(last)
    lines = [
        f"{'N':>5}  {'started':16} {'passed':>6} {'failed':>6} {'flaky':>5} {'took':>8}  command"
    ]
    for one in reversed(found):
        missing = one.expected - one.passed - one.failed - one.flaky
        took = clock(one.finished - one.started) if one.finished else "killed"
        notes = f"  ({missing} of {one.expected} runs missing)" if missing else ""
        lines.append(
            f"{one.id:5}  {_when(one.started)} {one.passed:6} {one.failed:6} {one.flaky:5} "
            f"{took:>8}  {one.command}{notes}"
        )
    return lines if found else []


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


def _trend(history: History, args: argparse.Namespace) -> list[str]:
    """Return a table of durations in seconds by test, simulator and build, slowest median first.
    Only passed runs count: a failure ends early."""
    series = history.series(globs=args.globs, sim=args.sim)
    # Test, simulator and build; the longest first, as these are worth looking at.
    ordered = sorted(series.items(), key=lambda item: -statistics.median(item[1]))
    lines = [f"{'test':52} {'runs':>5} {'median':>8} {'last':>8}  before it, newest last"]
    for (test, sim, build), seconds in ordered[: args.last or SHOWN]:
        name = f"{test} {sim}" + ("" if build == "default" else f" {build}")
        before = " ".join(f"{value:.1f}" for value in seconds[-_TREND - 1 : -1])
        median = statistics.median(seconds)
        lines.append(f"{name:52} {len(seconds):5} {median:6.1f} s {seconds[-1]:6.1f} s  {before}")
    return lines if series else []


def _when(moment: float) -> str:
    """Convert seconds since 1970 to local date and time."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))

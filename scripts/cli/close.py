# SPDX-License-Identifier: Apache-2.0
"""`nf close`: coverage closure by choosing tests, seeds and constraint weights toward open bins.

It stops when nothing improves, and draws the number of closed bins against cycles, for its choices
and for plain random seeds.

examples:
  nf close                                   scenarios and the tests that bins name, all bins
  nf close --test 'test_scenario::*' --point 'fp32*' --runs 40
  nf close --after all.cov                   what these runs left open
"""

from __future__ import annotations

import argparse
import fnmatch
import random
import threading
import time
from collections.abc import Sequence

from neuron_fabric import output
from neuron_fabric.errors import say
from scripts.build import registry
from scripts.cli import cov
from scripts.closing import curve
from scripts.closing.loop import BinGoal, Closing, ClosingLimits, Policy
from scripts.common import folder_locks, paths
from scripts.common.arguments import REPEATED, add_jobs, positive, seconds
from scripts.common.errors import NfError
from scripts.common.paths import BUILD, shown
from scripts.common.records import RunRecord, RunSpec
from scripts.coverage import functional_coverage
from scripts.coverage.merged import SUFFIX, write
from scripts.plan import testplan
from scripts.plan.discover import discover
from scripts.run import simulate
from scripts.run.schedule import run_all
from verif.scenario.weights import KNOBS, USES, hints

RUNS = BUILD / "close"
PAGE, MERGED = "close.html", f"close{SUFFIX}"
SCENARIOS = "test_scenario::*"  # tests that draw by the knobs
_SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `nf close`."""
    add = parser.add_argument
    what = f"tests to choose from (those that bins name, and {SCENARIOS})"
    add("--test", **REPEATED, metavar="GLOB", help=what)
    add("--point", **REPEATED, metavar="GLOB", help="cover points to close (all)")
    what = "begin with this coverage: a file, run numbers, a folder"
    add("--after", **REPEATED, metavar="INPUT", help=what)
    add("--runs", type=positive, default=ClosingLimits.runs, help="runs at most")
    what = "limit of the whole command, builds included"
    add("--minutes", type=seconds, default=ClosingLimits.minutes, help=what)
    what = "plain random seeds may spend X times the cycles to come as far; 0: none"
    add("--plain", type=times, default=ClosingLimits.plain, metavar="X", help=what)
    add("--seed", type=positive, default=1, help="of the choices and of the runs")
    add_jobs(parser)


def times(text: str) -> float:
    """Convert an argument to 0.0 or a factor above 0 (argparse type)."""
    return 0.0 if text == "0" else seconds(text)


def run(args: argparse.Namespace) -> int:
    """Close bins within the limits of runs and minutes; return the exit code.

    One generator, seeded by `--seed`, draws everything that is random: equal commands choose
    alike."""
    start = time.monotonic()
    folder_locks.writable(RUNS)
    goals = _goals(args)
    specs = _specs(args, [SCENARIOS, *dict.fromkeys(goal.test for goal in goals)])
    knobs = {name: weights_of(name) if fnmatch.fnmatch(name, SCENARIOS) else {} for name in specs}
    rng = random.Random(args.seed)
    folder = folder_locks.folder(RUNS)
    before = cov.collect(args.after).functional() if args.after else None
    end = start + 60 * args.minutes

    def execute(some: Sequence[RunSpec]) -> list[RunRecord]:
        """Run some specs at once; when the minutes are over, end those under way and return the
        finished ones. Ctrl-C raises KeyboardInterrupt."""
        stop, late = threading.Event(), threading.Event()

        def tick() -> None:
            """Stop the runs once the minutes are over."""
            if time.monotonic() > end:
                late.set()
                stop.set()

        records = run_all(
            *(some, args.jobs, lambda _: None, lambda spec: simulate.run(spec, folder)),
            on_tick=tick,
            interrupted=stop,
        )
        if len(records) < len(some):
            if not late.is_set():
                raise KeyboardInterrupt
            say(f"nf close: {args.minutes:g} minutes are over; what was under way is ended")
        return records

    closing = Closing(
        goals,
        lambda progress: Policy(progress, knobs, hints, rng),
        specs,
        execute,
        ClosingLimits(args.runs, args.minutes, plain=args.plain, jobs=args.jobs, seed=args.seed),
        before,
        lambda text: say(text, flush=True),
        end,
    )
    code = 0
    try:
        closing.run()
    except KeyboardInterrupt:
        code = 130
    return max(code, _told(closing, time.monotonic() - start))


def _specs(args: argparse.Namespace, meant: Sequence[str]) -> dict[str, RunSpec]:
    """Return a run of each test to choose from, by test id.

    Args:
        args: Command line; `args.test` are globs of tests.
        meant: Globs to use if the command line has none.

    Raises:
        NfError: No test of the testplan matches.
    """
    plan, globs = testplan.read(), args.test or meant
    sim = registry.choose(registry.ALL)[0][0]
    out = {}
    for test in discover():
        entry = plan.entries.get(test.id)
        wanted = any(fnmatch.fnmatch(test.id, glob) for glob in globs)
        if entry is None or not wanted or sim not in entry.sims:
            continue
        out[test.id] = RunSpec(
            testplan.build_spec(plan, entry.builds[0], sim),
            test.module,
            (test.name,),
            timeout_s=entry.timeout,
            env=testplan.scale_environment(1.0),
            build_name=entry.builds[0],
            direct=True,  # weights are part of the environment: no two runs share a server
        )
    if not out:
        raise NfError(f"no test of the plan matches {' '.join(globs)} on {sim} (`nf list`).")
    return out


def weights_of(test: str) -> dict[str, dict[str, float]]:
    """Return the default weights of a scenario test: weight by choice, by knob.

    Weights that the test sets itself replace the general defaults.
    """
    use = USES.get(test.rpartition("::")[2], {})
    return {name: {**knob.weights, **use.get(name, {})} for name, knob in KNOBS.items()}


def _goals(args: argparse.Namespace) -> list[BinGoal]:
    """Return the coverage bins to close: those of the chosen points that are not waived."""
    waived = {(waiver.point, waiver.bin) for waiver in functional_coverage.read_waivers()}
    out = [
        BinGoal((point.name, name), point.at_least, point.test)
        for point in functional_coverage.planned().points.values()
        if any(fnmatch.fnmatch(point.name, glob) for glob in args.point or ["*"])
        for name in point.bins
        if (point.name, name) not in waived
    ]
    if not out:
        raise NfError(f"no cover point matches {' '.join(args.point)}.")
    return out


def _told(closing: Closing, took: float) -> int:
    """Print and write the results of coverage closure: totals, ratio, open bins, page, merged file.

    Returns:
        Exit code: 1 if a run failed, or if no run measured coverage; else 0.
    """
    close, plain = closing.close, closing.plain
    lines = [close, *([plain] if plain.points else [])]
    said = [
        f"{line.name}: {line.bins} of {len(close.progress.goals)} bins in {line.cycles:,} cycles, "
        f"{len(line.points)} runs"
        for line in lines
    ]
    if plain.points:
        said.append(
            f"plain random seeds: a test drawn of the same {len(closing.specs)}, with its own "
            f"weights, usual length and a new seed; closure: as many bins as nf close closed"
        )
        said.append(curve.comparison(close, plain))
    left = [
        functional_coverage.Bin(*goal.bin, "", int(hits), test=goal.test, at_least=goal.at_least)
        for goal, hits, is_open in zip(
            close.progress.goals, close.progress.hits, close.progress.open, strict=True
        )
        if is_open
    ]
    for one in left[:_SHOWN]:
        say(f"open: {one.point} / {one.name}: {one.hits} of {one.at_least} hits; {one.test}")
    if len(left) > _SHOWN:
        say(f"open: {len(left) - _SHOWN} more (in the page)")
    red = [record for arm in (close, plain) for record in arm.red]
    for record in red:
        say(f"FAIL {record.name} seed {record.seed}: {record.kind}: {record.cause}", record.rerun)
    paths.REPORT.mkdir(parents=True, exist_ok=True)
    page = paths.REPORT / PAGE
    output.write_text(page, curve.page(lines, said, len(close.progress.goals), left))
    merged, path = close.merger.result(), paths.BUILD / "coverage" / MERGED
    write(merged, path)
    say(*(f"nf close: {sentence}" for sentence in said))
    say(f"curve: {shown(page)}; coverage: {shown(path)}; {took:.0f} s")
    if left and not merged.runs:
        say("nf close: no green run measured any coverage, so nothing could be closed.")
        return 1
    return 1 if red else 0

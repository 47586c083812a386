# SPDX-License-Identifier: Apache-2.0
"""`nf run`: plan runs, execute them on simulators, record and report the results.

examples:
  nf run --suite smoke --jobs 2              run the smoke suite on every simulator
  nf run 'test_link*' --sim icarus --seeds 3 run a module with three seeds under Icarus
  nf run test_modes::fp32 --seed 7 --waves   run one test with one seed and waves
  nf run --failed                            run the failed tests again with their seeds
  nf run --changed                           run what changed since it passed
  nf run 'test_mixed*' --until-fail 50       try at most 50 new seeds until a run fails
  nf run 'test_modes*' --watch               rerun what a saved file affects
  nf run test_modes::fp32 --pdb              debug one run with pdb in this terminal
  nf run --suite all --cluster tcp://farm:8786   use the workers of a Dask scheduler
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from neuron_fabric.data import DataError, read_text
from neuron_fabric.errors import say
from scripts.build import registry
from scripts.cli.completion import with_completer
from scripts.cli.options import add_filters, tests
from scripts.common import folder_locks, paths, process, secret_values, tool_environment
from scripts.common.arguments import (
    DUT_HELP,
    DUTS,
    REPEATED,
    TIMEOUT_HELP,
    add_flags,
    positive,
    seconds,
)
from scripts.common.errors import NfError, why_of
from scripts.common.git import revision
from scripts.common.records import RunRecord, RunSpec
from scripts.farm import cluster
from scripts.history.database import Recorder
from scripts.plan import run_order, selection, testplan
from scripts.plan.depends import Dependencies
from scripts.plan.run_order import Memory, Reason
from scripts.report import known_failures, metrics, recorded, write_report
from scripts.run import debug_terminal, run_folders, simulate
from scripts.run.rerun_failed import RepeatingRunner
from scripts.run.schedule import RunProgress, line_of, show
from verif.scenario import weights as knobs
from verif.scenario.scenario_data import parse as parse_scenario

UNTIL_FAIL = 100
VERBOSITIES = ("trace", "debug", "info", "warning", "error")
POLL_S = 0.3
_GONE = (0, 0)
Stamps = dict[Path, tuple[int, int]]
Plan = Callable[[], list[RunSpec]]


def seed(text: str) -> int | str:
    """Convert an argument to a positive integer, or keep the word `repeat` (argparse type)."""
    try:
        return text if text == selection.REPEAT else positive(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}, nor 'repeat'") from error


def weights(text: str) -> str:
    """Parse the weights of scenario tests, JSON text or the name of a file (argparse type).

    Returns:
        Compact JSON text.
    """
    try:
        found = knobs.parse(text if text.lstrip().startswith("{") else read_text(text))
    except (OSError, DataError) as error:
        raise argparse.ArgumentTypeError(f"{text[:60]}: {why_of(error)}") from error
    return json.dumps(found, separators=(",", ":"))


def scenario(text: str) -> str:
    """Parse a scenario file and return the path of a copy that no run deletes (argparse type)."""
    try:
        parse_scenario(read_text(text))
        return str(run_folders.store(Path(text)))
    except (OSError, DataError) as error:
        raise argparse.ArgumentTypeError(f"{text}: {why_of(error)}") from error


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("selection")
    add = what.add_argument
    globs = add("globs", nargs="*", metavar="GLOB", help="test_module::test, * and ? allowed")
    suite = add("--suite", metavar="S", help="a suite (`nf list --suites`)")
    add("--sim", choices=registry.choices(), default=registry.ALL, help=registry.HELP)
    add("--dut", choices=DUTS, help=DUT_HELP)
    text = "named parameter set or pattern (with globs: the default build)"
    build = add("--build", **REPEATED, metavar="B", help=text)
    add_filters(what)
    with_completer(globs, tests)
    with_completer(suite, lambda: testplan.read().suites)
    with_completer(build, lambda: testplan.read().builds)
    text = "run what changed since it passed, or since a git revision"
    add("--changed", nargs="?", const=selection.GREEN, metavar="REV", help=text)
    many = what.add_mutually_exclusive_group()
    add_flags(many, failed="run what failed last time")
    add = many.add_argument
    add("--seeds", type=positive, metavar="N", help="run with seeds 1..N")
    add("--seed", type=seed, metavar="S", help="one seed; `repeat`: the last one")
    text = f"try new seeds until a run fails, at most N ({UNTIL_FAIL})"
    number: dict[str, Any] = {"nargs": "?", "const": UNTIL_FAIL, "type": positive}
    add("--until-fail", **number, metavar="N", help=text)
    text = "draw seeds from B; suites with several seeds use the UTC date, 20261231"
    what.add_argument("--seed-base", type=positive, metavar="B", help=text)
    how = parser.add_argument_group("execution")
    add = how.add_argument
    add("--jobs", "-j", type=positive, metavar="N", help="runs at once (all cores)")
    add("--cluster", metavar="WHERE", help=cluster.HELP)
    add_flags(how, fail_fast="stop at the first failure", watch="rerun what a saved file affects")
    add("--timeout", type=seconds, metavar="S", help=TIMEOUT_HELP)
    add("--scale", type=seconds, help="multiply the traffic of every test")
    add("--weights", type=weights, metavar="W", help="weights of scenario tests: JSON or a file")
    text = "play this scenario in scenario tests"
    add("--scenario", type=scenario, metavar="FILE", help=text)
    add_flags(
        how,
        group="use one process for each module",
        pdb="run the first planned test in this terminal; pdb opens at breakpoint() and failures",
        once="run each test on its first build alone, blocks on a simulator that compiles quickly",
        no_rerun="do not rerun failed tests to get waves",
        dry_run="print the planned runs in order",
    )
    more = parser.add_argument_group("results")
    text = f"least level of log messages: {', '.join(VERBOSITIES)} (info)"
    level: dict[str, Any] = {"choices": VERBOSITIES, "type": str.lower}
    more.add_argument("--verbosity", **level, metavar="LEVEL", help=text)
    add_flags(more, waves="write waves (slower build and run)")
    text = "print functional coverage with holes; collect code coverage too (Verilator)"
    cov = ("--cov", "--coverage")
    more.add_argument(*cov, dest="coverage", action="store_true", help=text)
    add_flags(more, link_trace="record every flit for `nf report flits`")


def run(args: argparse.Namespace) -> int:
    excluded = [("watch", "until_fail"), ("watch", "dry_run")]
    excluded += [("pdb", other) for other in ("watch", "until_fail", "cluster", "jobs")]
    for one, two in excluded:
        if getattr(args, one) and getattr(args, two):
            raise NfError(f"--{one} excludes --{two.replace('_', '-')}; leave one out.")
    if args.pdb and not args.dry_run:
        debug_terminal.check()
    try:
        specs = selection.plan_runs(args)
    except selection.NothingToDo as nothing:
        if not args.watch:
            say(f"nf run: nothing to do: {nothing}")
            if not args.dry_run:  # a job that publishes the report must not show that of before
                write_report.write_all([], "nf run: nothing to do", expected=0)
            return 0
        specs = []
    if args.dry_run:
        return _dry_run(specs)
    if args.pdb:
        return debug(specs)
    words = [*([args.suite] if args.suite else []), *args.globs, *args.stage, *args.feature]
    words += [f"--build {name}" for name in args.build] if args.suite else []
    title = " ".join(["nf run:", *(words or ["what failed" if args.failed else "what changed"])])
    with cluster.if_named(args.cluster, args.jobs) as farm:

        def go(some: list[RunSpec]) -> int:
            return execute(
                *(some, args.jobs, title, args.fail_fast, args.coverage),
                rerun=not args.no_rerun,
                farm=farm,
            )

        if args.until_fail:
            return _until_fail(specs, args.until_fail, go)
        return watch(lambda: _plan_again(args), go) if args.watch else go(specs)


def _plan_again(args: argparse.Namespace) -> list[RunSpec]:
    try:
        return selection.plan_runs(args)
    except selection.NothingToDo:
        return []


def _dry_run(specs: list[RunSpec]) -> int:
    memory, prints = Memory.read_if_any(), run_order.fingerprints(specs)
    for spec in run_order.arrange(specs, memory, prints, run_order.missing_builds(specs)):
        why, took = run_order.reason(spec, memory, prints[spec.id]), memory.seconds(spec)
        notes = [] if why is Reason.KNOWN else [why.name.lower()]
        notes += [] if took is None else [f"about {took:.1f} s"]
        line = f"{spec.name} {spec.build.sim} {spec.build_name} seed {spec.seed}"
        say(f"{line}  ({', '.join(notes)})")
    say(f"{len(specs)} runs")
    return 0


def debug(specs: list[RunSpec]) -> int:
    """Run the first run in this terminal with pdb, record nothing, and return the exit code."""
    first = specs[0]
    if len(specs) > 1:
        where = f"{first.name} {first.build.sim} {first.build_name} seed {first.seed}"
        say(f"nf run: --pdb debugs the first of {len(specs)} runs: {where}", flush=True)
    folder_locks.writable(paths.RUNS)
    spec = replace(first, env=(*first.env, *debug_terminal.ENVIRONMENT), direct=True)
    record = simulate.run(spec, launch=debug_terminal.run_logged)
    show(record)
    return 0 if record.passed else 1


def _until_fail(specs: list[RunSpec], limit: int, go: Callable[[list[RunSpec]], int]) -> int:
    """Run the runs with one new seed after another until a run fails; return the last exit code."""
    code = 0
    largest = Memory.read_if_any().largest_seed
    for number, some in enumerate(selection.rounds(specs, limit, largest), 1):
        say(f"nf run: round {number} of at most {limit}, seed {some[0].seed}", flush=True)
        code = go(some)
        if code:
            break
    return code


def execute(
    specs: Sequence[RunSpec],
    jobs: int | None,
    title: str,
    fail_fast: bool = False,
    coverage: bool = False,
    *,
    rerun: bool = True,
    farm: cluster.Farm | None = None,
) -> int:
    """Execute runs in parallel, record each result and write the report.

    Args:
        specs: The runs.
        jobs: Simulations at once; None uses all cores.
        title: Name of the command in history and report.
        fail_fast: Stop at the first failure.
        coverage: Print functional coverage with its holes.
        rerun: Run each failure again with waves.
        farm: Cluster that executes the runs in place of this machine.

    Returns:
        0 if every run finished and passed or failed as known, and no known failure has expired or
        passed; 130 on Ctrl-C, else 1.

    Raises:
        NfError: The list of known failures is not valid; one line.
    """
    listed, today = known_failures.read(), datetime.now(UTC).date()
    start = time.monotonic()
    folder_locks.writable(paths.RUNS)
    at_once = farm.slots if farm else jobs or process.cores()
    memory, prints = Memory.read_if_any(), run_order.fingerprints(specs)
    expected = {spec.id: took for spec in specs if (took := memory.seconds(spec)) is not None}
    say(*tool_environment.kept_out(), file=sys.stderr)
    command = secret_values.command()
    runner = farm.run if farm else simulate.run
    if farm:
        farm.resume()
    recorder = Recorder(title, specs, command, revision(), prints)
    missing = run_order.missing_builds(specs)
    todo = run_order.arrange(specs, memory, prints, missing)
    interrupted = threading.Event()

    def came(record: RunRecord) -> None:
        recorder.add(record)
        show(record)

    progress = RunProgress(todo, at_once, came, expected, {} if farm else missing)
    repeating = RepeatingRunner(runner).run if rerun else runner
    records = progress.run(
        lambda spec: known_failures.marked(repeating(spec), listed, today),
        fail_fast=fail_fast,
        interrupted=interrupted,
        end=farm.end if farm else process.kill_all,
    )
    seconds = time.monotonic() - start
    for record in records if len(records) > 1 else []:
        if not record.passed:
            say(line_of(record))
    say(*metrics.lines(records))
    say(*recorded.write_and_close(recorder, records, title, seconds, len(specs), coverage))
    done = len(records) == len(specs)
    faults = known_failures.problems(listed, records, today) if done else []
    say(*faults, file=sys.stderr)
    say(*write_report.summary(records, seconds, len(specs)))
    if interrupted.is_set():
        return 130
    return 0 if done and not faults and not any(record.red for record in records) else 1


def stamps(specs: Iterable[RunSpec]) -> Stamps:
    """Return (modification time, size) of all files that can change the runs.

    These are the files that a run depends on, the testplan and all test modules.
    """
    finder = Dependencies()
    files = {path for spec in specs for path in finder.files(spec)}
    files |= {*paths.TESTPLAN.glob("*.yaml"), *paths.TESTS.glob("test_*.py")}
    return _stamped(files)


def _stamped(files: Iterable[Path]) -> Stamps:
    out: Stamps = {}
    for path in files:
        try:
            facts = path.stat()
        except OSError:  # deleted, or being replaced by an editor
            out[path] = _GONE
        else:
            out[path] = (facts.st_mtime_ns, facts.st_size)
    return out


def changed(before: Stamps) -> frozenset[Path]:
    """Return the files whose time or size differs from `before`, and new tests and testplans."""
    now = _stamped({*before, *paths.TESTPLAN.glob("*.yaml"), *paths.TESTS.glob("test_*.py")})
    return frozenset(
        path for path in before.keys() | now.keys() if before.get(path) != now.get(path)
    )


def affected(plan: Plan, old: Iterable[RunSpec], files: frozenset[Path]) -> list[RunSpec]:
    """Return the runs of the present plan that are new or depend on one of the changed files.

    Args:
        plan: Returns the runs of the present files.
        old: Runs planned before.
        files: Changed files.
    """
    finder, known = Dependencies(), set(old)
    return [spec for spec in plan() if spec not in known or files & finder.files(spec)]


def watch(
    plan: Plan, run: Callable[[list[RunSpec]], int], *, rounds: int = -1, poll_s: float = POLL_S
) -> int:
    """Run the plan, then rerun what each saved file affects, until Ctrl-C (exit code 130).

    A mistake in a file that is being edited (a syntax error, a bad testplan) is printed, and the
    next save tries again. Files are polled: some hundred take a millisecond, on every file system.
    Files that are saved during a run or while the plan is made are kept for the next round.

    Args:
        plan: Returns the runs of the present files.
        run: Executes runs and returns an exit code.
        rounds: Number of executions; -1 for no limit.
        poll_s: Seconds between two polls.
    """
    specs = plan()
    before = stamps(specs)
    code = run(specs)
    missed: frozenset[Path] = frozenset()
    while code != 130 and rounds != 1:
        say("nf: watching; a saved file starts what it affects, Ctrl-C ends", flush=True)
        files = _wait(before, poll_s) | missed
        now = _stamped(before)
        try:
            todo = affected(plan, specs, files)
            specs = plan()
        except NfError as error:
            say(f"nf: {error}", flush=True)
            before, missed = {**_stamped(files), **now}, files
            continue
        before, missed = {**stamps(specs), **now}, frozenset()
        if todo:
            code = run(todo)
        rounds -= 1
    return code


def _wait(before: Stamps, poll_s: float) -> frozenset[Path]:
    """Wait until files change and then stay unchanged for one poll, and return them.

    Editors save in several steps.
    """
    last: frozenset[Path] = frozenset()
    while True:
        now = changed(before)
        if now and now == last:
            return now
        last = now
        time.sleep(poll_s)

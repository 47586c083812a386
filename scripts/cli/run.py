# SPDX-License-Identifier: Apache-2.0
"""`nf run`: builds the design and runs tests on one or both simulators."""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from neuron_fabric.data import DataError, read_text
from neuron_fabric.errors import say
from scripts import report
from scripts.build import registry
from scripts.cli import watch
from scripts.cli.completion import add_filters, tests, with_completer
from scripts.common import paths, process, run_folders, secret_values, tool_environment
from scripts.common.arguments import DUT_HELP, DUTS, TIMEOUT_HELP, positive, seconds
from scripts.common.errors import NfError
from scripts.common.records import RunRecord, RunSpec
from scripts.farm import cluster
from scripts.farm.schedule import RunProgress, line_of, run_all
from scripts.plan import order, selection, testplan
from scripts.plan.order import Memory, Reason
from scripts.record.database import Recorder
from scripts.report import recorded, run_figures
from scripts.report.invocation import revision
from scripts.run import evidence, simulate
from scripts.run.triage import Triage
from verif.scenario import weights as knobs
from verif.scenario.scenario_data import parse as parse_scenario

UNTIL_FAIL = 100
EXAMPLES = """examples:
  nf run --suite smoke --jobs 2              the smoke suite on every simulator there is
  nf run --suite nightly 'test_modes*' --stage V1   a part of a suite
  nf run --suite nightly --seed-base 20261231       the seeds of that night again
  nf run 'test_link*' --sim icarus --seeds 3 three seeds of a module under Icarus
  nf run test_modes::fp32 --seed 7 --waves   one test, one seed, with waves
  nf run test_scenario::mixed --weights '{"mode": {"FP32": 9}}'   other weights of its choices
  nf run 'test_modes*' --dut myhdl           with the MyHDL twins in the controller
  nf run --failed                            what was red in its last run, same seeds
  nf run --changed                           what changed since it was green
  nf run --changed main                      what differs from the branch main
  nf run 'test_mixed*' --seed repeat         the seeds of the last time
  nf run 'test_mixed*' --until-fail 50       new seeds until one is red, 50 at most
  nf run 'test_modes*' --watch               again whatever a saved file affects
  nf run --suite all --cluster tcp://farm:8786   on the workers of a Dask scheduler
  nf run --suite all --cluster slurm -j 20   on 20 jobs of a batch system
"""


def seed(text: str) -> int | str:
    """argparse type: a seed, or `repeat`."""
    try:
        return text if text == selection.REPEAT else positive(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}, nor 'repeat'") from error


def weights(text: str) -> str:
    """argparse type: weights of scenarios as JSON text, or a file of it; gives compact JSON."""
    try:
        found = knobs.parse(text if text.lstrip().startswith("{") else read_text(text))
    except (OSError, DataError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise argparse.ArgumentTypeError(f"{text[:60]}: {why}") from error
    return json.dumps(found, separators=(",", ":"))


def scenario(text: str) -> str:
    """argparse type: a file that holds a scenario; gives the path of a copy that no run deletes."""
    try:
        parse_scenario(read_text(text))
        return str(evidence.store(Path(text)))
    except (OSError, DataError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise argparse.ArgumentTypeError(f"{text}: {why}") from error


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what to run")
    globs = what.add_argument(
        "globs", nargs="*", metavar="GLOB", help="test_module::test, * and ? allowed"
    )
    suite = what.add_argument("--suite", metavar="S", help="a suite (`nf list --suites`)")
    what.add_argument("--sim", choices=registry.choices(), default=registry.ALL, help=registry.HELP)
    what.add_argument("--dut", choices=DUTS, help=DUT_HELP)
    build = what.add_argument(
        "--build",
        action="append",
        default=[],
        metavar="B",
        help="named parameter set or pattern (with globs: the default build)",
    )
    add_filters(what)
    with_completer(globs, tests)
    with_completer(suite, lambda: testplan.read().suites)
    with_completer(build, lambda: testplan.read().builds)
    what.add_argument(
        "--changed",
        nargs="?",
        const=selection.GREEN,
        metavar="REV",
        help="only what changed since it was green, or since a git revision",
    )
    many = what.add_mutually_exclusive_group()
    many.add_argument("--failed", action="store_true", help="only what was red in its last run")
    many.add_argument("--seeds", type=positive, metavar="N", help="run with seeds 1..N")
    many.add_argument("--seed", type=seed, metavar="S", help="this seed alone; `repeat`: as before")
    many.add_argument(
        "--until-fail",
        nargs="?",
        const=UNTIL_FAIL,
        type=positive,
        metavar="N",
        help=f"new seeds until a run is red, N at most ({UNTIL_FAIL})",
    )
    what.add_argument(
        "--seed-base",
        type=positive,
        metavar="B",
        help="draw the seeds from B; suites with several seeds use the UTC date, 20261231",
    )
    how = parser.add_argument_group("how to run it")
    how.add_argument("--jobs", "-j", type=positive, metavar="N", help="runs at once (all cores)")
    how.add_argument("--cluster", metavar="WHERE", help=cluster.HELP)
    how.add_argument("--fail-fast", action="store_true", help="stop at the first failure")
    how.add_argument("--watch", action="store_true", help="then rerun what a saved file affects")
    how.add_argument("--timeout", type=seconds, metavar="S", help=TIMEOUT_HELP)
    how.add_argument("--scale", type=seconds, help="multiply the traffic of every test")
    how.add_argument(
        "--weights", type=weights, metavar="W", help="weights of scenario tests: JSON, or a file"
    )
    how.add_argument(
        "--scenario", type=scenario, metavar="FILE", help="scenario tests play this scenario"
    )
    how.add_argument("--group", action="store_true", help="one process for a module's tests")
    how.add_argument(
        "--no-rerun", action="store_true", help="do not run a failure again to get its waves"
    )
    how.add_argument("--dry-run", action="store_true", help="show what would run, in its order")
    more = parser.add_argument_group("what to keep of it")
    more.add_argument("--waves", action="store_true", help="write waves (slower build and run)")
    more.add_argument(
        "--cov",
        "--coverage",
        dest="coverage",
        action="store_true",
        help="show functional coverage with its holes; collect code coverage too (Verilator)",
    )
    more.add_argument("--link-trace", action="store_true", help="record every flit for `nf flits`")


def run(args: argparse.Namespace) -> int:
    for one, two in (("watch", "until_fail"), ("watch", "dry_run")):
        if getattr(args, one) and getattr(args, two):
            raise NfError(f"--{one} and --{two.replace('_', '-')} do not go together.")
    try:
        specs = selection.plan_runs(args)
    except selection.NothingToDo as nothing:
        if not args.watch:
            say(f"nf run: nothing to do: {nothing}")
            return 0
        specs = []
    if args.dry_run:
        return _dry_run(specs)
    words = [*([args.suite] if args.suite else []), *args.globs, *args.stage, *args.feature]
    words += [f"--build {name}" for name in args.build] if args.suite else []
    title = " ".join(["nf run:", *(words or ["what failed" if args.failed else "what changed"])])
    with ExitStack() as stack:
        farm = (
            None
            if args.cluster is None
            else stack.enter_context(cluster.connect(args.cluster, args.jobs))
        )

        def go(some: list[RunSpec]) -> int:
            return execute(
                *(some, args.jobs, title, args.fail_fast, args.coverage),
                rerun=not args.no_rerun,
                farm=farm,
            )

        if args.until_fail:
            return _until_fail(specs, args.until_fail, go)
        return watch.watch(lambda: _plan_again(args), go) if args.watch else go(specs)


def _plan_again(args: argparse.Namespace) -> list[RunSpec]:
    try:
        return selection.plan_runs(args)
    except selection.NothingToDo:
        return []


def _dry_run(specs: list[RunSpec]) -> int:
    memory, prints = Memory.read_if_any(), order.fingerprints(specs)
    for spec in order.arrange(specs, memory, prints):
        why, took = order.reason(spec, memory, prints[spec.id]), memory.seconds(spec)
        notes = [] if why is Reason.KNOWN else [why.name.lower()]
        notes += [] if took is None else [f"about {took:.1f} s"]
        line = f"{spec.name} {spec.build.sim} {spec.build_name} seed {spec.seed}"
        say(f"{line}  ({', '.join(notes)})")
    say(f"{len(specs)} runs")
    return 0


def _until_fail(specs: list[RunSpec], limit: int, go: Callable[[list[RunSpec]], int]) -> int:
    """New seeds, round by round, until something is red."""
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
    """Run, show, record, report; exit code 0 only when every run finished green, 130 on Ctrl-C."""
    start = time.monotonic()
    run_folders.tree()
    paths.writable(paths.RUNS)
    at_once = farm.slots if farm else jobs or process.cores()
    memory, prints = Memory.read_if_any(), order.fingerprints(specs)
    expected = {spec.id: took for spec in specs if (took := memory.seconds(spec)) is not None}
    say(*tool_environment.kept_out(), file=sys.stderr)
    command = secret_values.command()
    runner = farm.run if farm else simulate.run
    if farm:
        farm.resume()
    recorder = Recorder(title, specs, command, revision(), prints)
    progress = RunProgress(
        len(specs), seconds=expected, jobs=at_once, builds=order.to_build(specs, memory)
    )
    interrupted = threading.Event()

    def came(record: RunRecord) -> None:
        recorder.add(record)
        progress.finished(record)

    records = run_all(
        order.arrange(specs, memory, prints),
        at_once,
        came,
        fail_fast=fail_fast,
        on_tick=progress.tick,
        interrupted=interrupted,
        runner=Triage(first=runner).run if rerun else runner,
        end=farm.end if farm else process.kill_all,
    )
    progress.close()
    seconds = time.monotonic() - start
    red = [record for record in records if not record.passed]
    for record in red if len(records) > 1 else []:
        say(line_of(record))
    say(*run_figures.lines(records))
    say(*recorded.write_report(recorder, records, title, seconds, len(specs), coverage))
    say(*report.summary(records, seconds, len(specs)).splitlines())
    if interrupted.is_set():
        return 130
    return 0 if len(records) == len(specs) and not red else 1

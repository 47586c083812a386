# SPDX-License-Identifier: Apache-2.0
"""`nf run`: builds the design and runs tests on one or both simulators."""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import replace

from scripts import fault_report, figures, report, simulate, testplan, toolchain
from scripts.discover import TestCase, discover, select
from scripts.errors import NfError
from scripts.records import RunSpec, Sim
from scripts.schedule import Progress, line_of, run_all
from scripts.triage import Triage


def positive(text: str) -> int:
    """argparse type: an integer above 0."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def seconds(text: str) -> float:
    """argparse type: a number above 0, of seconds or a factor."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e7:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "globs", nargs="*", metavar="GLOB", help="test_module::test, * and ? allowed"
    )
    parser.add_argument("--suite", help="a suite of the testplan (smoke, all)")
    parser.add_argument("--sim", choices=("verilator", "icarus", "both"), default="both")
    parser.add_argument("--build", action="append", default=[], help="named parameter set")
    parser.add_argument("--jobs", "-j", type=positive, default=os.cpu_count() or 1)
    many = parser.add_mutually_exclusive_group()
    many.add_argument("--seeds", type=positive, help="run with seeds 1..N")
    many.add_argument("--seed", type=positive, help="run with this seed alone")
    parser.add_argument("--scale", type=seconds, help="multiply the traffic of every test")
    parser.add_argument("--timeout", type=seconds, help="wall-clock seconds for one run")
    parser.add_argument("--waves", action="store_true", help="write waves (slower build and run)")
    parser.add_argument(
        "--cov",
        "--coverage",
        dest="coverage",
        action="store_true",
        help="show functional coverage with its holes; collect code coverage too (Verilator)",
    )
    parser.add_argument(
        "--link-trace", action="store_true", help="record every flit, for `nf flits`"
    )
    parser.add_argument("--group", action="store_true", help="one process for a module's tests")
    parser.add_argument(
        "--no-rerun", action="store_true", help="do not run a failure again to get its waves"
    )
    parser.add_argument("--fail-fast", action="store_true", help="stop at the first failure")
    parser.add_argument("--dry-run", action="store_true", help="show what would run")


def run(args: argparse.Namespace) -> int:
    specs = plan_runs(args)
    if args.dry_run:
        for spec in specs:
            print(f"{spec.name} {spec.build.sim} {spec.build_name} seed {spec.seed}")
        print(f"{len(specs)} runs")
        return 0
    title = f"nf run: {args.suite or ' '.join(args.globs)}"
    return execute(specs, args.jobs, title, args.fail_fast, args.coverage, rerun=not args.no_rerun)


def plan_runs(args: argparse.Namespace) -> list[RunSpec]:
    """The runs that the arguments ask for."""
    if bool(args.globs) == bool(args.suite):
        raise NfError("name tests or a suite: `nf run GLOB..` or `nf run --suite smoke`.")
    plan = testplan.read()
    tests: list[TestCase] = discover()
    group, number = args.group, 1
    scale: tuple[tuple[Sim, float], ...] = ()
    if args.suite:
        suite = plan.suite(args.suite)
        tests = testplan.of_suite(plan, suite, tests)
        group, number, scale = group or suite.group, suite.seeds, suite.scale
    else:
        tests = select(tests, args.globs)
    seeds = (args.seed,) if args.seed else tuple(range(1, (args.seeds or number) + 1))
    if args.scale:
        scale = tuple((sim, args.scale) for sim in Sim)
    sims, missing = toolchain.choose(args.sim)
    if missing:
        print(missing)
    options = testplan.Options(
        tuple(sims), seeds, tuple(args.build), args.timeout, args.waves, args.coverage, group, scale
    )
    specs = testplan.expand(plan, tests, options)
    if not specs:
        raise NfError("no run is left: the testplan allows none of these tests on that simulator.")
    if args.link_trace:  # link.trace beside the run's log
        specs = [replace(spec, env=(*spec.env, ("NF_LINK_TRACE", "1"))) for spec in specs]
    return specs


def execute(
    specs: list[RunSpec],
    jobs: int,
    title: str,
    fail_fast: bool = False,
    coverage: bool = False,
    rerun: bool = True,
) -> int:
    """Run, show, report; exit code 0 only when every run finished green."""
    start = time.monotonic()
    progress = Progress(len(specs))
    runner = Triage().run if rerun else simulate.run
    records = run_all(specs, jobs, progress.finished, runner, fail_fast)
    progress.close()
    seconds = time.monotonic() - start
    found = report.write_all(records, title, seconds=seconds, expected=len(specs))
    red = [record for record in records if not record.passed]
    for record in red if len(records) > 1 else []:
        print(line_of(record))
    for line in figures.lines(records) + fault_report.lines(records):
        print(line)
    for line in report.coverage_lines(found) if coverage else []:
        print(line)
    print(report.where())
    print(report.summary(records, seconds, len(specs)))
    return 0 if len(records) == len(specs) and not red else 1

# SPDX-License-Identifier: Apache-2.0
"""`nf measure bench runner`: measures the overhead of the test runner over the simulations.

All figures are ratios or times of one session.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from neuron_fabric.errors import say
from scripts.benchmarks.goals import SpeedGoal, judge
from scripts.build import build_cache, registry
from scripts.common.errors import NfError
from scripts.common.paths import BUILD, ROOT
from scripts.common.records import BuildSpec, RunRecord, RunSpec
from scripts.plan import testplan
from scripts.plan.discover import discover, select
from scripts.report import write_report
from scripts.run import fork_client, simulate
from scripts.run.schedule import run_all

HELP = "cost of the runner: two jobs against one, rebuild, overhead, many short tests"
FOLDER = BUILD / "bench"
QUICK = ("test_regs::*",)
EMPTY = 200
PROJECT = {
    "empty.sv": "module empty (input wire clk); endmodule\n",
    "empty.f": "empty.sv\n",
    "empty_bench.py": "import cocotb\n\n\n@cocotb.test()\nasync def empty(dut):\n    pass\n",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add, text = parser.add_argument, "these tests instead of a suite (a few short ones)"
    add("--suite", default="smoke", help="what the jobs are compared on (smoke)")
    add("--quick", nargs="?", const=" ".join(QUICK), metavar="GLOBS", help=text)
    add("--sim", choices=registry.choices(), default=registry.ALL, help=registry.HELP)


def run(args: argparse.Namespace) -> int:
    """Measure, and print the table of goals; return 1 when a goal is missed, else 0."""
    sims, missing = registry.choose(args.sim)
    if missing:
        say(missing)
    rows = [*_jobs(_specs(args, sims)), *(_rebuild(sim) for sim in sims)]
    rows += [_empty(sim) for sim in sims]
    return judge(rows)


def _specs(args: argparse.Namespace, sims: list[str]) -> list[RunSpec]:
    plan, tests = testplan.read(), discover()
    options = testplan.Options(tuple(sims), (1,))
    if args.quick:
        tests = select(tests, args.quick.split())
    else:
        suite = plan.suite(args.suite)
        tests = testplan.of_suite(plan, suite, tests)
        seeds = tuple(range(1, suite.seeds + 1))
        options = replace(options, seeds=seeds, group=suite.group, scale=suite.scale)
    specs = testplan.expand(plan, tests, options)
    if not specs:
        raise NfError("nothing to measure: the testplan allows none of these tests.")
    return specs


def _jobs(specs: list[RunSpec]) -> list[SpeedGoal]:
    """Measure two jobs against one, and one job against the bare simulator processes."""
    say(f"building for {len(specs)} runs")
    for spec in {spec.build: spec for spec in specs}.values():
        build_cache.build(spec.build)
    _wall(specs[:2], 1)  # what is only done once: byte code, the file cache
    one, records = _wall(specs, 1)
    two, _ = _wall(specs, 2)
    _, direct = _wall([replace(spec, direct=True) for spec in specs], 1)
    bare = sum(record.sim_seconds for record in direct)
    inside = sum(record.sim_seconds for record in records)
    say(f"{len(specs)} runs: {one:.1f} s with --jobs 1, {two:.1f} s with --jobs 2")
    say(f"their simulators: {bare:.1f} s started one by one, {inside:.1f} s forked")
    return [
        SpeedGoal("--jobs 2 / --jobs 1", two / one, 0.60),
        SpeedGoal("--jobs 1 above bare simulations", 100 * (one / bare - 1), 10.0, " %"),
    ]


def _wall(specs: Sequence[RunSpec], jobs: int) -> tuple[float, list[RunRecord]]:
    """Run specs; return the wall-clock seconds and the records.

    It starts without fork servers and includes the report. NfError is raised if a run fails.
    """
    fork_client.close_all()
    start = time.monotonic()
    records = run_all(specs, jobs, lambda record: None, _run)
    write_report.write_all(records, "nf measure bench runner", FOLDER / "report")
    fork_client.close_all()
    seconds = time.monotonic() - start
    for record in records:
        if not record.passed:
            raise NfError(f"{record.name} {record.sim} is red: {record.cause} ({record.log}).")
    return seconds, records


def _run(spec: RunSpec) -> RunRecord:
    """Execute a run in a folder of measurements, so that it does not look like a result."""
    return simulate.run(spec, runs=FOLDER / "runs")


def _rebuild(sim: str) -> SpeedGoal:
    """Measure the seconds to find out, in a new process, that nothing has to be compiled."""
    code = (
        "from scripts.build import build_cache; from scripts.plan import testplan; "
        f"build_cache.build(testplan.build_spec(testplan.read(), 'default', '{sim}'))"
    )
    command = [sys.executable, "-c", code]
    seconds = [_timed(lambda: subprocess.run(command, cwd=ROOT, check=True)) for _ in range(4)]
    return SpeedGoal(f"unchanged rebuild, {sim}", statistics.median(seconds[1:]), 1.0, " s")


def _timed(action: Callable[[], object]) -> float:
    start = time.monotonic()
    action()
    return time.monotonic() - start


def _empty(sim: str) -> SpeedGoal:
    """Measure the overhead of the runner for many short tests, as a ratio of wall-clock times.

    The ratio is the time to run 200 empty tests, divided by the time to run a single one (median of
    three). Both are measured with two jobs, after the build.

    Args:
        sim: Simulator.

    Returns:
        The ratio, with 6 as its upper limit.
    """
    folder = FOLDER / "empty"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in PROJECT.items():
        (folder / name).write_text(text, encoding="utf-8")
    spec = RunSpec(BuildSpec(sim, "empty", "empty.f", root=folder, opt="-O1"), "empty_bench")
    build_cache.build(spec.build)
    many = [replace(spec, build_name=f"copy{number}") for number in range(EMPTY)]
    one = statistics.median([_wall([spec], 2)[0] for _ in range(4)][1:])
    all_of_them = _wall(many, 2)[0]
    say(f"empty tests, {sim}: one {one:.2f} s, {EMPTY} {all_of_them:.2f} s")
    return SpeedGoal(f"{EMPTY} empty tests / one, {sim}", all_of_them / one, 6.0)

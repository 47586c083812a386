# SPDX-License-Identifier: Apache-2.0
"""`nf mutate --sample N`, `--all` or `--from FILE`: mutants of the RTL, many in one build."""

from __future__ import annotations

import argparse
import fnmatch
import math
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from neuron_fabric.errors import say
from neuron_fabric.printable import one_line
from scripts.build import registry
from scripts.build.filelist import FileList, read_filelist
from scripts.common import folder_locks, process, secret_values
from scripts.common.arguments import REPEATED, add_flags, positive, seconds, up_to
from scripts.common.errors import NfError
from scripts.common.paths import BUILD, ROOT, RUNS, shown
from scripts.common.records import FILELIST, SOLVER, TOP, RunRecord, RunSpec
from scripts.common.terminal import Bars
from scripts.farm import cluster
from scripts.mutation import equivalence, find_mutants, mutant_outcome
from scripts.mutation.mutant_outcome import ALIVE, RESULTS, MutantOutcome, Store
from scripts.mutation.run_mutants import UNKNOWN_S, Candidate, MutantRuns
from scripts.mutation.source_mutant import SourceMutant, sample
from scripts.plan import listed_mutants, testplan
from scripts.plan.discover import TestCase, discover, select
from scripts.plan.run_order import Memory
from scripts.prove import proof, proving
from scripts.prove.proof import Broken
from scripts.report import mutation
from scripts.run import fork_client, simulate
from verif.scoreboard.checkers_off import CHECKERS

# Builds whose tests run on no other build, and one for each size of a queue that a mutant may get
# wrong. A controller with 1,000 mutants takes two minutes to build, a block less than one.
_BUILDS = (
    *("default", "small", "edge_crowded", "edge_tiny", "probe", "retry", "secded", "tern5"),
    *("link", "link_retry", "link_shallow", "link_odd", "link_lrsm"),
    *("regs", "regs_small", "counter", "counter_wide"),
    *("gather", "gather_shallow", "ram", "ram_data", "ram_none", "ram_secded"),
)
# A survivor runs every test that reaches it, about 300 s: 50 survivors would take hours. Tests that
# are listed to catch mutants of its module run in any case.
_EFFORT_S = 60.0
_WAVES = 5  # mutants whose waves are made: a build, then two runs each
_RUNS = BUILD / "mutants"
LATER = ":"  # in the name of a build of the second suite


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for mutants that are made from the source."""
    made = parser.add_argument_group("mutants made from the source")
    add = made.add_argument
    add("--sample", type=positive, metavar="N", help="N of them, drawn by --seed")
    add_flags(made, all="all of them")
    add("--id", **REPEATED, metavar="GLOB", help="some by name")
    add("--tests", **REPEATED, metavar="GLOB", help="these tests")
    add("--build", **REPEATED, help=f"on these builds alone (default: {' '.join(_BUILDS)})")
    what = "sequence:GLOB leaves out tests, checker:NAME switches a checker off"
    add("--without", metavar="WHAT", help=what)
    add_flags(made, no_probe="skip the probe run that finds which tests reach each mutant")
    what = "processor seconds of tests for a mutant, likely kills first "
    what += f"({_EFFORT_S:g}; with --from no limit)"
    add("--effort", type=seconds, metavar="S", help=what)
    add_flags(made, no_prove="try no proof of equivalence")
    add_flags(made, waves=f"waves of {_WAVES} that live, with and without them")
    what = "red below this score, not by any survivor"
    add("--floor", type=up_to(100), metavar="PERCENT", help=what)
    add_flags(made, again="forget what earlier commands found")
    add("--cluster", metavar="WHERE", help=cluster.HELP)


def wanted(args: argparse.Namespace) -> bool:
    """Return whether the command line selects mutants made from the source."""
    return bool(args.sample or args.all or args.id)


def run(args: argparse.Namespace) -> int:
    """List the chosen mutants, or run tests on them here or on a cluster; report their score.

    Returns:
        0 if no mutant lives and no waiver is needless, or if the score reaches `--floor`; 1 if not;
        130 after an interruption.
    """
    start = time.monotonic()
    files = read_filelist(ROOT, FILELIST)
    tests = [] if args.list else candidates(args)  # options are checked before the slow part
    everything, sources = find_mutants.find(ROOT, TOP, files, find_mutants.shapes())
    mutants = chosen(everything, args)
    if args.list:
        return show(mutants, sources)
    outcomes: list[MutantOutcome] = []
    with cluster.if_named(args.cluster, args.jobs) as farm:
        runs, whole = chase(
            *(dict(enumerate(mutants, 1)), sources, tests, files, args, farm),
            outcomes.append,
            waived=mutant_outcome.read_waivers(),
        )
        if whole is None:
            return 130
        return _report(outcomes, runs, args, whole, time.monotonic() - start)


def show(mutants: Sequence[SourceMutant], sources: Mapping[str, str]) -> int:
    """Print each mutant with its changed lines; return 0."""
    for mutant in mutants:
        say(f"{mutant.id:40} {mutant.file}:{mutant.line}")
        lines = mutant.diff(sources[mutant.file]).splitlines()
        say(*(f"    {line}" for line in lines if line[:1] in "+-"))
    say(f"{len(mutants)} mutants")
    return 0


def chosen(everything: Sequence[SourceMutant], args: argparse.Namespace) -> list[SourceMutant]:
    """Return the mutants that match `--id`, and with `--sample` a random sample of these.

    Raises:
        NfError: There is none.
    """
    found = [m for m in everything if any(fnmatch.fnmatch(m.id, g) for g in args.id or ["*"])]
    if not found:
        raise NfError("no mutant fits (`nf mutate --list --all` shows all).")
    return sample(found, args.sample, args.seed or 1) if args.sample else found


def candidates(args: argparse.Namespace, suites: Sequence[str] = ()) -> list[Candidate]:
    """Return a run, with seed 1, of every selected test on each selected build planned for it.

    The simulator is one that can link C++. Each comes with the modules in its design and its
    expected duration. `--tests`, `--build` and `--without` select.

    Args:
        args: Parsed options.
        suites: Suites whose runs they are, the first ones to run first; () for all tests.

    Raises:
        NfError: An option is wrong, or no test is left.
    """
    what, _, name = (args.without or "").partition(":")
    if args.without and (what not in ("sequence", "checker") or not name):
        raise NfError(f"--without {args.without!r}: write sequence:GLOB or checker:NAME.")
    if what == "checker" and name not in CHECKERS:
        raise NfError(
            f"--without {args.without!r}: no such checker; there are {', '.join(CHECKERS)}."
        )
    plan = testplan.read()
    tests = select(discover(), args.tests or ["*"])
    if what == "sequence":
        gone = {test.id for test in select(tests, [name])}
        tests = [test for test in tests if test.id not in gone]
    fit = [one for one in registry.simulators() if one.links_c]
    sim = next((one.name for one in fit if one.available()), "")
    if not sim:
        raise NfError(f"mutants in one build need {fit[0].name}, which is not installed.")
    builds = tuple(args.build or (() if suites else _BUILDS))
    options = testplan.Options(sims=(sim,), seeds=[1], builds=builds)
    planned = {t.id: plan.entries[t.id].builds for t in tests if t.id in plan.entries}
    specs = [
        spec
        for spec in testplan.expand(plan, tests, options)
        if spec.build_name in planned.get(spec.name, ("default",))
    ]
    if suites:
        specs = _of_suites(plan, tests, suites, builds, sim)
    if not specs:
        raise NfError("no test is left to run (--tests, --build, --without).")
    if what == "checker":
        specs = [replace(s, env=(*s.env, ("NF_CHECKERS_OFF", name))) for s in specs]
    inside = {
        name: find_mutants.modules(
            ROOT, build.top, read_filelist(ROOT, build.filelist), build.parameters
        )
        for name, build in {spec.build_name: spec.build for spec in specs}.items()
    }
    memory = Memory.read_if_any()
    return [
        Candidate(
            spec,
            inside[spec.build_name],
            memory.seconds(spec) or UNKNOWN_S,
            rank=int(LATER in spec.build_name),
        )
        for spec in specs
    ]


def _of_suites(
    plan: testplan.Plan,
    tests: Sequence[TestCase],
    suites: Sequence[str],
    builds: tuple[str, ...],
    sim: str,
) -> list[RunSpec]:
    """Return the runs of suites, all on one simulator and with seed 1.

    A run that its suite plans on another simulator has the amount of traffic of that one. The build
    of a run of the second suite is called SUITE:BUILD.
    """
    out: list[RunSpec] = []
    known: set[object] = set()
    for number, suite in enumerate(map(plan.suite, suites)):
        sims = tuple(sorted(registry.names(), key=lambda one: one != sim))
        options = replace(testplan.Options(sims, [1], builds).of_suite(suite), group=False)
        found: dict[object, RunSpec] = {}
        for spec in testplan.expand(plan, testplan.of_suite(plan, suite, tests), options):
            found.setdefault((spec.name, spec.build_name), spec)
        for place, spec in found.items():
            if (place, spec.env) not in known:
                known.add((place, spec.env))
                build = testplan.build_spec(plan, spec.build_name, sim)
                label = f"{suite.name}{LATER}" * bool(number) + spec.build_name
                out.append(replace(spec, build=build, build_name=label))
    return out


def _proved(spec: RunSpec, folder: Path) -> RunRecord:
    """Try a proof on edited sources, and return its record."""
    (one,) = (one for one in proof.read() if one.spec.name == spec.name)
    mutant = Broken(one.id, edits=spec.build.edits[len(one.edits) :])
    return proving.run(proof.broken(one, mutant), folder, spec.build_name)


def chase(
    mutants: Mapping[int, SourceMutant],
    sources: dict[str, str],
    tests: Sequence[Candidate],
    files: FileList,
    args: argparse.Namespace,
    farm: cluster.Farm | None,
    judged: Callable[[MutantOutcome], None],
    **more: Any,
) -> tuple[MutantRuns, bool | None]:
    """Run the probe, then the mutants, as the options say; print a line for each as it is judged.

    Args:
        mutants: mutants by number.
        sources: text of each source file by its path from the root.
        tests: runs that may kill them.
        files: file list of the design.
        args: parsed options.
        farm: cluster that executes the runs; None: this machine.
        judged: called with each outcome.
        more: further fields of `MutantRuns`.

    Returns:
        The runs, and whether all ended; None if the probe was interrupted.
    """
    folder_locks.writable(_RUNS)
    folder = folder_locks.folder(RUNS if farm else _RUNS)

    def runner(spec: RunSpec) -> RunRecord:
        """Execute a run, or a proof."""
        if spec.build.sim != SOLVER:
            return farm.run(spec) if farm else simulate.run(spec, folder)
        return _proved(spec, folder)

    start, listed = time.monotonic(), listed_mutants.read()
    options: dict[str, Any] = {
        "meant": listed_mutants.catches(listed),
        "watchers": listed_mutants.watchers(listed, sources),
        "without": args.without or "",
        "again": args.again,
        "effort": args.effort or _EFFORT_S,
        "deadline": start + args.within if args.within else math.inf,
    }
    runs = MutantRuns(mutants, sources, tests, runner, Store(), folder, **{**options, **more})
    if not args.no_prove:
        runs.prove = equivalence.prover(files, sources)
    jobs, end = (farm.slots, farm.end) if farm else (args.jobs, process.kill_all)
    bars, outcomes = Bars(), list[MutantOutcome]()

    def came(outcome: MutantOutcome) -> None:
        """Print an outcome above the progress bar."""
        outcomes.append(outcome)
        how = f"{outcome.test} {outcome.build} {outcome.kind}: {outcome.cause}"
        how = one_line(how, 110) if outcome.test else f"{len(outcome.tests)} tests ran over it"
        say(f"{outcome.state:10} {outcome.id:36} {outcome.file}:{outcome.line} {how}", flush=True)
        alive = sum(one.state in ALIVE for one in outcomes)
        bars.draw(f"{alive} alive", mutants=(len(outcomes), len(runs.mutants)))
        judged(outcome)

    if not args.no_probe and any(runs.known(m) is None for m in runs.mutants.values()):
        number = sum(not one.proves for one in runs.candidates)
        say(f"nf mutate: {number} tests without a mutant", flush=True)
        if not runs.probe(jobs, end):
            return runs, None
        say(f"nf mutate: they are green ({time.monotonic() - start:.0f} s)", flush=True)
    with bars:
        return runs, runs.run(jobs, came, end)


def _report(
    outcomes: list[MutantOutcome],
    mutant_runs: MutantRuns,
    args: argparse.Namespace,
    whole: bool,
    took: float,
) -> int:
    """Print survivors, score and cost, store the score for the report, and return the exit code.

    Args:
        outcomes: judged mutants.
        mutant_runs: runs, with the faults of the bench and the mutants that had no time.
        args: parsed options.
        whole: False after an interruption.
        took: wall-clock seconds of the command.
    """
    for outcome in outcomes:
        if outcome.state in ALIVE:
            say(f"{outcome.state} {outcome.id} {outcome.file}:{outcome.line}")
            say(*(f"  {line}" for line in outcome.diff.splitlines()))
            names = ", ".join(outcome.tests) or "no test sees a difference there"
            say(f"  {outcome.note}: {one_line(names, 600)}")
    command = secret_values.command()
    when = datetime.now().astimezone().isoformat(timespec="seconds")
    found = mutant_outcome.summary(outcomes, command, when, took)
    if args.waves:
        some = tuple(replace(one, waves=mutant_runs.waves(one.id)) for one in found.alive[:_WAVES])
        found = replace(found, alive=some + found.alive[_WAVES:])
        say(*(f"waves of {one.id}: {' '.join(one.waves) or 'none'}" for one in some))
    if outcomes:  # else the last score stays
        mutation.write(found)
    for title, rows in (("module", found.modules), ("operator", found.operators)):
        say(f"by {title}:", *(f"  {one.name:24} {one}" for one in rows))
    kinds = ", ".join(f"{count} {kind}" for kind, count in found.kinds)
    worked, runs = mutant_outcome.cost(outcomes)
    fork_client.close_all()  # their processor time is known when they have ended
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    say(f"kills by: {kinds or 'none'}")
    say(f"{runs} runs took {worked:.0f} s, all {used.ru_utime + used.ru_stime:.0f} s of processor")
    say(*mutant_runs.broken)
    if mutant_runs.open:
        names = one_line(", ".join(mutant_runs.open), 600)
        say(f"no time for {len(mutant_runs.open)} mutants (--within): {names}")
    needless = mutant_outcome.needless_waivers(mutant_runs.waived, outcomes)
    say(*needless)
    without = f" without {args.without}" if args.without else ""
    say(f"nf mutate{without}: {found.overall} ({took:.0f} s; {shown(RESULTS)})")
    if not whole:
        return 130
    alive = bool(found.overall.alive)
    if args.floor is not None:
        alive = found.overall.percent < args.floor
    if not outcomes or (args.floor is not None and not found.overall.judged):
        say("nf mutate: no mutant was judged, so there is no score to pass.")
        return 1
    return 1 if mutant_runs.broken or needless or alive else 0

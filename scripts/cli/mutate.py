# SPDX-License-Identifier: Apache-2.0
"""`nf mutate`: breaks a copy of the RTL, of the package `neuron_fabric` or of the checkers.

Each listed mutant must fail by the checker, or by the pytest cases, that its entry names.

examples:
  nf mutate --list                           the breakages and why each matters
  nf mutate 'link*' --jobs 2                 some of them
  nf mutate --part package                   those of neuron_fabric: cases of pytest judge them
  nf mutate --seed 7 --within 60             as many as a minute holds, in an order drawn by a seed
  nf mutate --sample 1000 --seed 1           made from the source, a uniform sample
  nf mutate --id 'nf_link_*'                 all those of some modules
  nf mutate --list --id '*.reset.*'          those of an operator
  nf mutate --id nf_fill.logical.a3217b45 --effort 1000    one again, against all tests
  nf mutate --sample 100 --without checker:scoreboard   what a checker is worth
  nf mutate --part checkers --sample 60 --seed 7        made from the checkers: their tests judge
  nf mutate --from held-out.yaml             a list outside the tree, against all tests of smoke
  nf mutate --from held-out.yaml --suite nightly --prove --rows rows.jsonl
"""

from __future__ import annotations

import argparse
import fnmatch
import threading
import time
from collections.abc import Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from random import Random
from typing import TypeVar

from neuron_fabric.errors import say
from scripts.build import registry
from scripts.cli import mutate_from, mutate_source
from scripts.cli.completion import with_completer
from scripts.common import folder_locks
from scripts.common.arguments import add_flags, add_jobs, given, positive, seconds
from scripts.common.errors import NfError
from scripts.common.paths import BUILD
from scripts.common.records import RunRecord, RunSpec
from scripts.mutation import checker_mutants, package_run
from scripts.plan import listed_mutants, package_mutants, testplan
from scripts.plan.listed_mutants import Mutant
from scripts.plan.package_mutants import PackageMutant
from scripts.run import simulate
from scripts.run.schedule import RunProgress

RUNS = BUILD / "mutants"
PARTS = ("rtl", "package", "checkers")
FLOOR = 95.0
_T = TypeVar("_T", Mutant, PackageMutant)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    globs = add("globs", nargs="*", default=["*"], metavar="GLOB", help="mutant names")
    with_completer(globs, lambda: (mutant.id for mutant in _listed()))
    add("--part", choices=PARTS, help="those of this part alone")
    add("--sim", choices=registry.names(), help="instead of the listed one")
    add_jobs(parser)
    add("--seed", type=positive, help="run them in an order drawn by this seed")
    what = "start no mutant after so many seconds, and none whose simulator compiles slowly"
    add("--within", type=seconds, metavar="S", help=what)
    add_flags(parser, list="show the mutants and stop")
    mutate_source.add_arguments(parser)
    mutate_from.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    if args.part == "checkers":
        return _of_checkers(args)
    if mutate_from.wanted(args):
        return mutate_from.run(args)
    if mutate_source.wanted(args):
        if args.globs != ["*"] or args.sim or args.part:
            what = "--sim" if args.sim else "--part" if args.part else " ".join(args.globs)
            raise NfError(f"{what}: of the listed mutants; those from the source: --id GLOB.")
        return mutate_source.run(args)
    unused = given(args, mutate_source.add_arguments)
    if unused:
        option = min(unused).replace("_", "-")
        raise NfError(
            f"--{option}: of mutants made from the source; add --sample N, --id or --all."
        )
    found = [m for m in _listed() if any(fnmatch.fnmatch(m.id, g) for g in args.globs)]
    rtl = [m for m in found if isinstance(m, Mutant) and args.part != "package"]
    if args.within is not None and not args.sim:  # one slow build alone may take longer
        rtl = [m for m in rtl if not registry.get(m.sim).compiles_slowly] or rtl
    package = _of_package(found, args)
    if not rtl and not package:
        raise NfError(f"no mutant matches {' '.join(args.globs)!r} (`nf mutate --list`).")
    if args.list:
        shown: list[Mutant | PackageMutant] = [*rtl, *package]
        for one in shown:
            note = f" (survives: {one.survives})" if one.survives else ""
            say(f"{one.id:32} {one.edits[0].file:32} {one.why}{note}")
        return 0
    rtl, package = _to_run(rtl, args.seed), _to_run(package, args.seed)
    if not rtl and not package:
        raise NfError("no test is meant to catch these mutants (`nf mutate --list` says why).")
    codes = [_run(_available(rtl, args.sim), args.jobs, args.within)] if rtl else []
    if package:
        codes.append(package_run.run(package, args.jobs, args.within))
    return max(codes)


def _of_package(
    found: Sequence[Mutant | PackageMutant], args: argparse.Namespace
) -> list[PackageMutant]:
    """Return those of the package that are wanted; with --sim, which is not for them, none.

    Raises:
        NfError: --sim is given, and one of them is asked for.
    """
    package = [m for m in found if isinstance(m, PackageMutant) and args.part != "rtl"]
    if not (args.sim and package):
        return package
    if args.part == "package" or args.globs != ["*"]:
        what = f"{package[0].id} is of the package, which runs on no simulator"
        raise NfError(f"--sim: {what}; add --part rtl, or leave --sim out.")
    return []


def _of_checkers(args: argparse.Namespace) -> int:
    """List the mutants made from the sources of the checkers, or run their cases on them."""
    used = given(args, add_arguments) - {"part", "sample", "all", "id", "seed", "floor", "list"}
    used -= {"jobs"}
    if used or not mutate_source.wanted(args):
        why = f"--{min(used).replace('_', '-')} is no option" if used else "how many is missing"
        raise NfError(f"--part checkers: {why}; add --sample N, --id GLOB or --all.")
    texts = checker_mutants.sources()
    chosen = mutate_source.chosen(checker_mutants.find(texts), args)
    if args.list:
        return mutate_source.show(chosen, texts)
    floor = FLOOR if args.floor is None else args.floor
    return checker_mutants.run(chosen, texts, args.jobs, floor)


def _listed() -> list[Mutant | PackageMutant]:
    return [*listed_mutants.read(), *package_mutants.read()]


def _to_run(chosen: Sequence[_T], seed: int | None) -> list[_T]:
    """Return the mutants that tests must catch, in their order or in one drawn by `seed`."""
    some = [one for one in chosen if not one.survives]
    if seed is not None:
        Random(seed).shuffle(some)
    return some


def _available(chosen: list[Mutant], wanted: str | None) -> list[Mutant]:
    """Return the mutants with `wanted` as simulator, or without it each with an installed one."""
    if wanted:
        registry.choose(wanted)
        return [replace(mutant, sim=wanted) for mutant in chosen]
    here, note = registry.choose(registry.ALL)
    if note:
        say(note)
    return [m if m.sim in here else replace(m, sim=here[0]) for m in chosen]


def _run(chosen: list[Mutant], jobs: int, within: float | None = None) -> int:
    """Run the tests of listed RTL mutants and print which catch them.

    Args:
        chosen: Mutants.
        jobs: Parallel runs.
        within: Seconds after which no further run starts; None for no limit.

    Returns:
        Exit code: 0 if all runs that started caught their mutant, else 1.
    """
    start = time.monotonic()
    folder_locks.writable(RUNS)
    plan = testplan.read()
    owner: dict[str, Mutant] = {}
    specs: list[RunSpec] = []
    for mutant in chosen:
        for spec in listed_mutants.runs_of(mutant, plan):
            owner[spec.id] = mutant
            specs.append(spec)
    missed: list[tuple[Mutant, RunRecord]] = []

    def show(record: RunRecord) -> None:
        mutant = owner[record.id]
        good = listed_mutants.caught(mutant, record)
        if not good:
            missed.append((mutant, record))
        word = "caught" if good else "MISSED"
        how = f"{record.kind}: {record.cause}" if record.kind else "passed"
        say(f"{word} {mutant.id:30} {record.name:44} {how[:110]}", flush=True)

    late: list[RunSpec] = []

    def one(spec: RunSpec) -> RunRecord:
        if within and time.monotonic() - start > within:
            late.append(spec)
            raise CancelledError
        # Runs of mutants go to a separate folder, so that they do not look like results.
        return simulate.run(spec, folder_locks.folder(RUNS))

    stop = threading.Event()
    records = RunProgress(specs, jobs, show, what="mutants").run(one, interrupted=stop)
    for mutant, record in missed:
        say(f"missed {mutant.id}: {mutant.why}")
        say(f"  {record.name} {record.sim}: {record.kind or 'passed'} {record.cause}")
        say(f"  log: {record.log}", f"  again: {record.rerun}")
    done, asked = len(records) - len(missed), len(specs) - len(late)
    tried = len({owner[record.id].id for record in records})
    say(
        f"nf mutate: {done} of {asked} runs caught their mutant "
        f"({tried} of {len(chosen)} mutants, {time.monotonic() - start:.1f} s)"
    )
    if stop.is_set():
        raise KeyboardInterrupt  # before the mutants of the package
    return 0 if 0 < done == asked else 1

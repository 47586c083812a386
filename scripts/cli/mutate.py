# SPDX-License-Identifier: Apache-2.0
"""`nf mutate`: breaks a copy of the RTL in every listed way; each must end red by its checker."""

from __future__ import annotations

import argparse
import fnmatch
import os
import time
from dataclasses import replace

from neuron_fabric.text import say
from scripts.build import registry
from scripts.cli.completion import with_completer
from scripts.common import claims, paths
from scripts.common.arguments import positive
from scripts.common.errors import NfError
from scripts.common.paths import BUILD
from scripts.common.records import RunRecord, RunSpec
from scripts.farm.schedule import run_all
from scripts.plan import mutants, testplan
from scripts.plan.mutants import Mutant
from scripts.run import simulate

RUNS = BUILD / "mutants"

EXAMPLES = """examples:
  nf mutate --list                           the breakages and why each matters
  nf mutate 'link*' --jobs 2                 some of them
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    with_completer(
        parser.add_argument("globs", nargs="*", default=["*"], metavar="GLOB", help="mutant names"),
        lambda: (mutant.id for mutant in mutants.read()),
    )
    parser.add_argument("--sim", choices=registry.names(), help="instead of the listed one")
    parser.add_argument("--jobs", "-j", type=positive, default=os.cpu_count() or 1)
    parser.add_argument("--list", action="store_true", help="show the mutants and stop")


def run(args: argparse.Namespace) -> int:
    chosen = [m for m in mutants.read() if any(fnmatch.fnmatch(m.id, g) for g in args.globs)]
    if not chosen:
        raise NfError(f"no mutant matches {' '.join(args.globs)!r} (`nf mutate --list`).")
    if args.list:
        for mutant in chosen:
            say(f"{mutant.id:32} {mutant.edits[0].file:32} {mutant.why}")
        return 0
    return _run(_available(chosen, args.sim), args.jobs)


def _available(chosen: list[Mutant], wanted: str | None) -> list[Mutant]:
    """Mutants with the simulator they run on; another takes over for one that is missing."""
    if wanted:
        registry.choose(wanted)
        return [replace(mutant, sim=wanted) for mutant in chosen]
    here, note = registry.choose(registry.ALL)
    if note:
        say(note)
    return [m if m.sim in here else replace(m, sim=here[0]) for m in chosen]


def _run(chosen: list[Mutant], jobs: int) -> int:
    start = time.monotonic()
    claims.tree()
    paths.writable(RUNS)
    plan = testplan.read()
    owner: dict[str, Mutant] = {}
    specs: list[RunSpec] = []
    for mutant in chosen:
        for spec in mutants.runs_of(mutant, plan):
            owner[spec.id] = mutant
            specs.append(spec)
    missed: list[tuple[Mutant, RunRecord]] = []

    def show(record: RunRecord) -> None:
        mutant = owner[record.id]
        good = mutants.caught(mutant, record)
        if not good:
            missed.append((mutant, record))
        word = "caught" if good else "MISSED"
        how = f"{record.kind}: {record.cause}" if record.kind else "passed"
        say(f"{word} {mutant.id:30} {record.name:44} {how[:110]}", flush=True)

    # Runs of mutants have a folder of their own: they must not look like results.
    records = run_all(specs, jobs, show, lambda spec: simulate.run(spec, claims.folder(RUNS)))
    for mutant, record in missed:
        say(f"missed {mutant.id}: {mutant.why}")
        say(f"  {record.name} {record.sim}: {record.kind or 'passed'} {record.cause}")
        say(f"  log: {record.log}")
    done = len(records) - len(missed)
    say(
        f"nf mutate: {done} of {len(specs)} runs caught their mutant "
        f"({len(chosen)} mutants, {time.monotonic() - start:.1f} s)"
    )
    return 0 if done == len(specs) else 1

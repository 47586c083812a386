# SPDX-License-Identifier: Apache-2.0
"""`nf fuzz`: generated cases of bad input, faults and hostile use; each must end as it may."""

from __future__ import annotations

import argparse
import shlex
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random

from neuron_fabric.errors import say
from scripts.common import paths, process
from scripts.common.arguments import positive
from scripts.fuzz import interleave, table
from scripts.fuzz.attempt import Outcome, attempt
from scripts.fuzz.table import Case

EXAMPLES = """examples:
  nf fuzz                                    every case, some 20 minutes on two cores
  nf fuzz --seed 7                           others of the same groups
  nf fuzz 'manifest-*' --cases 20            20 cases of some groups
  nf fuzz --interleave 100                   commands at once in one tree, half an hour
  nf fuzz --journals 500                     damaged and mixed journals, shards, captures
  nf fuzz --list                             the groups, and what each is for
"""
FOLDER = paths.BUILD / "fuzz"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("globs", nargs="*", metavar="GLOB", help="groups, or one case as it is printed")
    add("--seed", type=positive, default=1, help="what is drawn, and when signals come (1)")
    add("--cases", type=positive, metavar="N", help="N cases at most, drawn from all")
    add("--jobs", "-j", type=positive, default=process.cores(), help="cases at once")
    add("--interleave", type=positive, metavar="N", help="instead: N times commands at once")
    add("--journals", type=positive, metavar="N", help="instead: N mixtures of damaged journals")
    add("--list", action="store_true", help="show the groups and stop")


def run(args: argparse.Namespace) -> int:
    groups = table.read()
    if args.list:
        for group in groups:
            number = len(table.cases_of(group, args.seed))
            say(f"{group.name:24} {group.kind:10} {number:4}  {group.reason}")
        return 0
    if args.interleave:
        return interleave.campaign(args.interleave, args.seed, FOLDER / "interleave")
    if args.journals:
        from scripts.fuzz import journals  # the tests of replay, whose device model it takes

        return journals.campaign(args.journals, args.seed)
    cases = table.choose(groups, args.globs, args.seed)
    if args.cases and args.cases < len(cases):
        cases = Random(args.seed).sample(cases, args.cases)
    paths.writable(FOLDER)
    return _run(cases, args.seed, args.jobs)


def _run(cases: list[Case], seed: int, jobs: int) -> int:
    start = time.monotonic()
    one = partial(attempt, seed=seed, builds=FOLDER / "build", keep=FOLDER / "failed")
    red: list[Outcome] = []
    count: Counter[str] = Counter()
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        for outcome in pool.map(one, cases):
            say(outcome.line, flush=True)
            skipped = outcome.code is None and not outcome.problems
            count["skipped" if skipped else "failed" if outcome.problems else "passed"] += 1
            red += [outcome] if outcome.problems else []
    for outcome in red:
        say(outcome.line)
        say(f"  again: .venv/bin/nf fuzz --seed {seed} {shlex.quote(outcome.case.id)}")
    if red:
        say(f"folders of the failed cases: {paths.shown(FOLDER / 'failed')}")
    say(
        f"nf fuzz: {count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped, "
        f"{time.monotonic() - start:.1f} s"
    )
    return 1 if red or not count["passed"] else 0

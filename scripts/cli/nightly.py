# SPDX-License-Identifier: Apache-2.0
"""`nf nightly`: what takes too long for every change. `make nightly` is this."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import suppress

from neuron_fabric.errors import say
from scripts.build import registry
from scripts.cli import steps
from scripts.common.arguments import add_jobs, positive
from scripts.common.errors import NfError
from scripts.plan.selection import date_base
from scripts.record.database import History

SUITES = ("nightly", "nightly-link")
GOALS = "coverage goals"
EXAMPLES = """examples:
  nf nightly                                 all of it, with the date as the seed
  nf nightly --only fuzz --seed 20261122     the parts that begin with a word, as on that day
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", action="append", default=[], help="run only this part")
    parser.add_argument(
        "--sim", choices=registry.choices(), default=registry.ALL, help=registry.HELP
    )
    add_jobs(parser)
    parser.add_argument("--seed", type=positive, help="of all that is drawn (the UTC date)")


def run(args: argparse.Namespace) -> int:
    start = time.monotonic()
    seed = str(args.seed or date_base())
    todo = parts(args.sim, str(args.jobs), seed)
    names = [n for n in todo if not args.only or n in args.only or n.split()[0] in args.only]
    if not names:
        raise NfError(f"no part {' '.join(args.only)!r}; there are: {', '.join(todo)}.")
    say(f"nf nightly: {len(names)} parts, seed {seed}", flush=True)
    done = []
    for name in names:  # each, whatever came of those before
        words = todo[name]
        if name == GOALS:
            words = [*words, *covered()]
        done.append(steps.run(name, words))
    return steps.close(done, time.monotonic() - start)


def covered() -> list[str]:
    """Numbers of the latest commands that ran the suites; none: the last command."""
    with suppress(NfError), History(write=False) as history:
        found = [history.invocations(1, f"nf run: {suite}") for suite in SUITES]
        return [str(one.id) for some in found for one in some]
    return []


def parts(sim: str, jobs: str, seed: str) -> dict[str, list[str]]:
    """Command of each part by name. What is drawn is drawn by ``seed``."""
    at_once, night = ("--jobs", jobs), ("--seed-base", seed)
    return {
        "pytest": [sys.executable, "-m", "pytest", "-m", "nightly", "-n", jobs],
        "wheels": [sys.executable, "-m", "scripts.checks.wheels", "--all"],
        "suite": steps.nf("run", "--suite", SUITES[0], "--sim", sim, "--cov", *at_once, *night),
        "suite link": steps.nf("run", "--suite", SUITES[1], "--sim", "verilator", *at_once),
        "suite rams": steps.nf(
            *("run", "--suite", "nightly-rams", "--sim", "verilator"), *at_once, *night
        ),
        "suite twins": steps.nf("run", "--suite", "nightly-twins", "--sim", sim, *at_once),
        GOALS: steps.nf("cov", "goals"),
        "close": steps.nf("close", "--seed", seed, *at_once),
        "prove": steps.nf("prove", *at_once),
        "prove mutants": steps.nf("prove", "--mutants", *at_once),
        "mutate": steps.nf("mutate", *at_once),
        "mutate source": steps.nf(
            *("mutate", "--sample", "1000", "--seed", seed, "--floor", "97"), *at_once
        ),
        "figures": steps.nf("figures", "all"),
        "cluster": steps.nf("cluster-check", "--nodes", "4", "--rate", "1gbit"),
        "scale": steps.nf("scale", "gpt-1.3b", "--replay", "--memory-latency", "3", *at_once),
        "fuzz": steps.nf("fuzz", "--seed", seed, *at_once),
        "fuzz interleave": steps.nf("fuzz", "--interleave", "100", "--seed", seed),
        "fuzz journals": steps.nf("fuzz", "--journals", "500", "--seed", seed),
    }

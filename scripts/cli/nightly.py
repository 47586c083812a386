# SPDX-License-Identifier: Apache-2.0
"""`nf nightly`: run the checks that take long, each as a step.

examples:
  nf nightly                                 run all of it, with the date as the seed
  nf nightly --only fuzz --seed 20261122     repeat parts by their first word, as on that day
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import suppress

from neuron_fabric.errors import say
from scripts.checks.simulator_versions import VERSIONS
from scripts.cli import steps
from scripts.cli.options import add_parts, chosen
from scripts.common.errors import NfError
from scripts.common.paths import PYTEST_REPORT
from scripts.history.database import History
from scripts.plan.selection import date_base

SUITES = ("nightly", "nightly-link")
GOALS = "coverage goals"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_parts(parser, parts("", "", ""), "seed of everything that is drawn (the UTC date)")


def run(args: argparse.Namespace) -> int:
    """Run every part of the nightly checks, also after one has failed; return 1 if one failed."""
    start = time.monotonic()
    seed = str(args.seed or date_base())
    todo = parts(args.sim, str(args.jobs), seed)
    names = chosen(list(todo), args.only)
    say(f"nf nightly: {len(names)} parts, seed {seed}", flush=True)
    done = []
    for name in names:
        words = [*todo[name], *covered()] if name == GOALS else todo[name]
        done.append(steps.run(name, words))
    return steps.close(done, time.monotonic() - start)


def covered() -> list[str]:
    """Return the history numbers of the last commands that ran the nightly suites, or []."""
    with suppress(NfError), History(write=False) as history:
        found = [history.invocations(1, f"nf run: {suite}") for suite in SUITES]
        return [str(one.id) for some in found for one in some]
    return []


def parts(sim: str, jobs: str, seed: str) -> dict[str, list[str]]:
    """Return the command of each part by name; all random choices are drawn from ``seed``."""
    at_once, night = ("--jobs", jobs), ("--seed-base", seed)
    other = (sys.executable, "-m", "scripts.checks.simulator_versions")
    rtl = ("--sim", "verilator", *at_once)
    return {
        "pytest": [
            *(sys.executable, "-m", "pytest", "-m", "nightly", "-n", jobs),
            f"--junitxml={PYTEST_REPORT}",
        ],
        "wheels": [sys.executable, "-m", "scripts.checks.wheels", "--all"],
        "audit": [sys.executable, "-m", "scripts.checks.audit"],
        "lint": steps.nf("lint"),
        "regress": steps.nf("regress", "--full", "--sim", sim, *at_once),
        "suite": steps.nf("run", "--suite", SUITES[0], "--sim", sim, "--cov", *at_once, *night),
        "suite link": steps.nf("run", "--suite", SUITES[1], *rtl),
        "suite rams": steps.nf("run", "--suite", "nightly-rams", *rtl, *night),
        "suite twins": steps.nf("run", "--suite", "nightly-twins", "--sim", sim, *at_once),
        "suite collectives": steps.nf("run", "--suite", "nightly-collectives", *rtl, *night),
        "suite litmus": steps.nf("run", "--suite", "nightly-litmus", *rtl, *night),
        "collectives check": steps.nf("collectives", "check", "all"),
        "collectives mutants": steps.nf(
            *("collectives", "check", "--mutants", "300", "--seed", seed)
        ),
        "collectives litmus": steps.nf("collectives", "litmus"),
        "collectives faults": steps.nf(
            *("collectives", "faults", "--seeds", "200", "--first", seed)
        ),
        "collectives digests": steps.nf(
            *("collectives", "run", "all", "--hosts", "3", "--digest", "--sim", sim)
        ),
        GOALS: steps.nf("cov", "goals"),
        "close": steps.nf("close", "--seed", seed, *at_once),
        "prove": steps.nf("prove", *at_once),
        "prove mutants": steps.nf("prove", "--mutants", *at_once),
        "mutate": steps.nf("mutate", *at_once),
        "mutate source": steps.nf(
            *("mutate", "--sample", "1000", "--seed", seed, "--floor", "97"), *at_once
        ),
        "mutate checkers": steps.nf(
            *("mutate", "--part", "checkers", "--sample", "300", "--seed", seed), *at_once
        ),
        **{f"versions {version}": [*other, version, *at_once] for version in VERSIONS},
        "docs": ["make", "docs"],
        "figures": steps.nf("measure", "figures", "all"),
        "nodes": steps.nf("train", "nodes", "--nodes", "4", "--rate", "1gbit"),
        "hooks": steps.nf("measure", "hooks", "train", "gpt"),
        "scale": steps.nf(
            *("train", "scale", "gpt-1.3b", "--replay", "--memory-latency", "3"), *at_once
        ),
        "fuzz": steps.nf("fuzz", "--seed", seed, *at_once),
        "fuzz interleave": steps.nf("fuzz", "--interleave", "100", "--seed", seed),
        "fuzz journals": steps.nf("fuzz", "--journals", "500", "--seed", seed),
    }

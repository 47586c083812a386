# SPDX-License-Identifier: Apache-2.0
"""`nf test`: every check of the project, what fails soonest first. `make test` is this."""

from __future__ import annotations

import argparse
import datetime
import sys
import time

from neuron_fabric.errors import say
from scripts.build import registry
from scripts.cli import steps
from scripts.cli.regress import CAPTURE, short_replays
from scripts.common import git
from scripts.common.arguments import add_jobs, positive
from scripts.common.errors import NfError
from scripts.common.paths import ROOT

EXAMPLES = """examples:
  nf test                                    everything that CI runs
  nf test --only lint                        one stage of it
  nf test --only mutate --seed 7             another sample of the mutants
"""
TESTED_AS_WHEEL = ("cocotbext",)
"""Packages whose tests all run as a wheel; some of neuron_fabric need torch, which is not there."""
MUTATE_S = 12
"""Seconds in which runs of listed mutants begin: a sample. `make nightly` runs all of them, and
1000 of those made from the source, whose one build alone takes longer than this."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", action="append", default=[], help="run only this stage")
    parser.add_argument(
        "--sim", choices=registry.choices(), default=registry.ALL, help=registry.HELP
    )
    add_jobs(parser)
    parser.add_argument(
        "--seed", type=positive, help="of the sample of mutants (drawn from the commit)"
    )


def run(args: argparse.Namespace) -> int:
    start = time.monotonic()
    seed = args.seed or drawn_seed()
    jobs = str(args.jobs)
    drawn = ("--seed", str(seed), "--within", str(MUTATE_S), "--jobs", jobs)
    # A core each: they run side by side.
    narrow = {
        "check": steps.nf("check"),
        "lint": steps.nf("lint"),
        "prove": steps.nf("prove", "--quick", "--jobs", "1"),
        "wheels": [sys.executable, "-m", "scripts.checks.wheels"],
        **dict(short_replays(CAPTURE, args.sim)),
    }
    # Every core there is: one after the other. Many a test of pytest waits for time to pass or for
    # processes to come up: one more runs meanwhile.
    wide = {
        "pytest": [
            # It replays little: compiling the bulk transport hard would take longer than it saves.
            *("env", "NF_BULK_QUICK=1", sys.executable, "-m", "pytest"),
            *("-n", str(args.jobs + 1), "--dist", "worksteal"),
            "--durations=20",
        ],
        "smoke": steps.nf("run", "--suite", "smoke", "--sim", args.sim, "--jobs", jobs),
        "mutate": steps.nf("mutate", *drawn),
    }
    names = ["doctor", *narrow, *wide]
    wanted = {n for n in names if not args.only or n in args.only or n.split()[0] in args.only}
    if not wanted:
        raise NfError(f"no stage {' '.join(args.only)!r}; there are: {', '.join(names)}.")
    done: list[steps.Step] = []
    if "wheels" in wanted:  # it runs them where they are installed
        wide["pytest"] += [f"--ignore={folder}" for folder in TESTED_AS_WHEEL]
    if "doctor" in wanted:
        done.append(steps.run("doctor", steps.nf("doctor"), show=steps.Show.IF_RED))
    done += steps.run_beside({n: words for n, words in narrow.items() if n in wanted}, args.jobs)
    done += [steps.run(name, words) for name, words in wide.items() if name in wanted]
    if "mutate" in wanted:
        say(f"the sample of mutants again: .venv/bin/nf test --only mutate --seed {seed}")
    return steps.close(done, time.monotonic() - start)


def drawn_seed() -> int:
    """Return the seed of the sample: the commit's, the same one each time; outside of git the
    date's. Raise NfError if git does not tell the commit, rather than draw one sample for ever."""
    if not (ROOT / ".git").exists():
        return datetime.date.today().toordinal()
    try:
        commit = git.text("describe", "--always", "--abbrev=12", "--exclude=*", root=ROOT)
    except git.GitError as error:
        raise NfError(f"no commit to draw the sample of mutants by ({error}): --seed N.") from error
    return seed_of(commit)


def seed_of(commit: str) -> int:
    """Return a number for a commit, from 1."""
    return int(commit[:7], 16) or 1

# SPDX-License-Identifier: Apache-2.0
"""`nf test`: run the checks of a change, each as a step, and print a table of them.

examples:
  nf test                                    run everything that CI runs
  nf test --only lint                        run one part
  nf test --only mutate --seed 7             run another sample of the mutants
"""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from collections.abc import Iterator

from neuron_fabric.errors import say
from scripts.build import registry
from scripts.cli import steps
from scripts.cli.options import add_parts, chosen
from scripts.common import git
from scripts.common.errors import NfError
from scripts.common.paths import CAPTURE, PYTEST_REPORT, REPLAYED, ROOT, shown

TESTED_AS_WHEEL = ("cocotbext/cxl",)
"""Packages whose tests all run as a wheel; some of neuron_fabric need torch, which is not there.
pytest ignores no folder of `testpaths` itself, but those below."""
LAST_STEP = "60"
"""Last captured step of `CAPTURE`."""
MUTATE_S = 12
"""Seconds in which runs of listed mutants start: a sample. `nf nightly` runs all of them, and 1000
mutants made from the source, whose one build alone takes longer than this."""
STEPS = ("doctor", "check", "lint", "prove", "wheels", "replay", "pytest", "smoke", "mutate")
"""Steps of `nf test` in order, each by the first word of its name."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_parts(parser, STEPS, "seed of the sample of mutants (from the commit)")


def run(args: argparse.Namespace) -> int:
    """Run the steps of `nf test`, first those that need one core each; return 1 if one failed."""
    start = time.monotonic()
    seed = args.seed or drawn_seed()
    jobs = str(args.jobs)
    drawn = ("--seed", str(seed), "--within", str(MUTATE_S), "--jobs", jobs)
    # These use one core each and run in parallel.
    narrow = {
        "check": steps.nf("check"),
        "lint": steps.nf("lint", "--quick"),
        "prove": steps.nf("prove", "--quick", "--jobs", "1"),
        "wheels": [sys.executable, "-m", "scripts.checks.wheels"],
        **dict(_short_replays(args.sim)),
    }
    # These use all cores and run one after the other. Many tests of pytest wait for time or for
    # processes, so that one more than there are cores runs meanwhile.
    wide = {
        "pytest": [
            # Little is replayed: optimising the bulk transport would take longer than it saves.
            *("env", "NF_BULK_QUICK=1", sys.executable, "-m", "pytest"),
            *("-n", str(args.jobs + 1), "--dist", "worksteal"),
            *("--durations=20", f"--junitxml={PYTEST_REPORT}"),
        ],
        "smoke": steps.nf("run", "--suite", "smoke", "--once", "--sim", args.sim, "--jobs", jobs),
        "mutate": steps.nf("mutate", *drawn),
    }
    wanted = chosen(["doctor", *narrow, *wide], args.only)
    done: list[steps.Step] = []
    if "wheels" in wanted:  # that step runs them from the installed wheel
        wide["pytest"] += [f"--ignore={folder}" for folder in TESTED_AS_WHEEL]
    if "doctor" in wanted:
        done.append(steps.run("doctor", steps.nf("doctor")))
    done += steps.run_beside({n: words for n, words in narrow.items() if n in wanted}, args.jobs)
    done += [steps.run(name, words) for name, words in wide.items() if name in wanted]
    if "mutate" in wanted:
        say(f"the sample of mutants again: .venv/bin/nf test --only mutate --seed {seed}")
    return steps.close(done, time.monotonic() - start)


def _short_replays(sim: str) -> Iterator[tuple[str, list[str]]]:
    """Yield (name, command) of the replay steps of `nf test`: the default route, each simulator.

    The first replays all steps, each other one the last step alone."""
    REPLAYED.mkdir(parents=True, exist_ok=True)
    steps_of: tuple[str, ...] = ()
    for one in registry.choose(sim)[0]:
        out = REPLAYED / f"test-{one}.safetensors"
        words = ("replay", shown(CAPTURE), "--sim", str(one), "--out", shown(out), *steps_of)
        steps_of = ("--steps", LAST_STEP)
        yield f"replay {one}", steps.nf(*words)


def drawn_seed() -> int:
    """Return the seed for the sample of mutants: from the commit, without git from the date.

    Raises:
        NfError: git does not report the commit; a fixed seed would always draw one sample.
    """
    if not (ROOT / ".git").exists():
        return datetime.date.today().toordinal()
    try:
        commit = git.text("describe", "--always", "--abbrev=12", "--exclude=*", root=ROOT)
    except git.GitError as error:
        raise NfError(f"no commit to draw the sample of mutants by ({error}): --seed N.") from error
    return seed_of(commit)


def seed_of(commit: str) -> int:
    """Return a seed, at least 1, for the hash of a commit."""
    return int(commit[:7], 16) or 1

# SPDX-License-Identifier: Apache-2.0
"""`nf test`: every check of the project, what fails soonest first. `make test` is this."""

from __future__ import annotations

import argparse
import os
import sys
import time

from scripts.build import registry
from scripts.cli import steps
from scripts.cli.regress import CAPTURE, short_replays
from scripts.common.errors import NfError

EXAMPLES = """examples:
  nf test                                    everything that CI runs
  nf test --only lint                        one stage of it
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", action="append", default=[], help="run only this stage")
    parser.add_argument("--sim", choices=registry.choices(), default=registry.ALL)


def run(args: argparse.Namespace) -> int:
    start = time.monotonic()
    jobs = str(os.cpu_count() or 1)
    todo = {
        "doctor": steps.nf("doctor"),
        "check": steps.nf("check"),
        "lint": steps.nf("lint"),
        "pytest": [sys.executable, "-m", "pytest"],
        "wheels": [sys.executable, "-m", "scripts.checks.wheels"],
        "smoke": steps.nf("run", "--suite", "smoke", "--sim", args.sim, "--jobs", jobs),
        "mutate": steps.nf("mutate", "--jobs", jobs),
    }
    todo.update(short_replays(CAPTURE, args.sim))
    wanted: list[str] = [
        n for n in todo if not args.only or n in args.only or n.split()[0] in args.only
    ]
    if not wanted:
        raise NfError(f"no stage {' '.join(args.only)!r}; there are: {', '.join(todo)}.")
    show = {"doctor": steps.Show.IF_RED}
    done = [steps.run(name, todo[name], show=show.get(name, steps.Show.NOW)) for name in wanted]
    return steps.close(done, time.monotonic() - start)

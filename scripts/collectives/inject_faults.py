# SPDX-License-Identifier: Apache-2.0
"""`nf collectives faults`: breaks hosts of modelled pools, and judges outputs, reports and zombies.

Each seed draws a pool, its collectives, the order of all messages, and the moment of a fault. The
command fails if a rank gets a wrong output, if nobody reports a fault, if the remaining ranks
cannot go on, or if a device takes a write of a host that was shut out.

examples:
  nf collectives faults --seeds 200          all faults in turn, 200 runs
  nf collectives faults --only paused        one of them
  nf collectives faults --first 41 --seeds 1  the run of one seed again
"""

from __future__ import annotations

import argparse

from models.pool_faults import FAULTS, Finding, inject
from neuron_fabric.errors import say
from scripts.common.arguments import up_to
from scripts.common.errors import OptionError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `nf collectives faults`."""
    add = parser.add_argument
    add("--seeds", type=up_to(1_000_000, first=1), default=200, metavar="N", help="runs (200)")
    add("--first", type=up_to(2**32 - 1), default=0, metavar="S", help="seed of the first run (0)")
    add("--only", default="", metavar="TEXT", help="faults whose names hold it, as paused")


def run(args: argparse.Namespace) -> int:
    """Inject faults in turn; return 1 if a promise was broken."""
    names = [name for name in FAULTS if args.only in name]
    if not names:
        raise OptionError(
            "--only", f"no fault has {args.only!r} in its name", f"use one of {', '.join(FAULTS)}"
        )
    found = [
        inject(names[seed % len(names)], seed)
        for seed in range(args.first, args.first + args.seeds)
    ]
    say(f"  {'fault':34} runs  reported  zombie writes  counted  wrong outputs")
    for name in names:
        say(_row(name, [one for one in found if one.fault == name]))
    broken = [one for one in found if one.problem]
    for one in broken:
        say(f"seed {one.seed}, {one.fault}: {one.problem}")
    say(f"{len(found)} runs, {len(broken)} broke a promise; all ended")
    return int(bool(broken))


def _row(name: str, found: list[Finding]) -> str:
    reported = sum(bool(one.reported) for one in found)
    writes, counted = sum(one.writes for one in found), sum(one.counted for one in found)
    wrong = sum(one.wrong for one in found)
    return f"  {name:34} {len(found):4}  {reported:8}  {writes:13}  {counted:7}  {wrong:13}"

# SPDX-License-Identifier: Apache-2.0
"""`nf measure bench collectives`: compares the pool of processes with gloo on one machine.

Both backends run in the same processes, in turn, so that other load slows both alike: the ratio
counts, not the times. On a loaded machine the times are those of the scheduler; the processor time
of all ranks is printed too. Every rank checks every output.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from statistics import geometric_mean, median
from typing import Any

from neuron_fabric.errors import say
from scripts.benchmarks.goals import SpeedGoal, judge
from scripts.common import folder_locks
from scripts.common.arguments import positive
from scripts.ranks import node_network
from scripts.ranks.launch import need_torch, rank_run

HELP = "collectives of the pool of processes, against gloo"
RANKS = "scripts.ranks.collective_ranks"
WORLDS = (2, 4)
SIZES = tuple(1 << bits for bits in (12, 16, 20, 24, 26))
_QUICK = SIZES[:3]
Found = Mapping[int, Mapping[str, Any]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--runs", type=positive, default=9, metavar="N", help="of each backend (9)")
    add("--quick", action="store_true", help="4 KiB to 1 MiB only, not up to 64 MiB")


def run(args: argparse.Namespace) -> int:
    """Measure, and print all cells and the table of goals.

    Returns:
        Exit code: 1 when a goal is missed, else 0.

    Raises:
        NfError: torch is missing, or a rank has failed.
    """
    need_torch("bench collectives")
    folder_locks.tree()
    say(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before")
    words = [str(args.runs), *map(str, _QUICK if args.quick else SIZES)]
    found = {world: rank_run(node_network.plain(world), RANKS, words) for world in WORLDS}
    say(*shown(found))
    return judge(goals(found))


def ratio(cell: Mapping[str, Any]) -> float:
    """Return how many times as long gloo takes as the pool."""
    return _ratio(cell["seconds"])


def _ratio(times: Mapping[str, Sequence[float]]) -> float:
    return median(times["gloo"]) / median(times["pool"])


def shown(found: Found) -> list[str]:
    """Return a line for each world, collective and size: medians in microseconds, and the ratio."""
    lines = ["ranks collective       bytes   gloo, us   pool, us  gloo / pool  CPU time"]
    for world, cells in found.items():
        for name, cell in cells.items():
            collective, size = name.split()
            gloo, pool = (1e6 * median(cell["seconds"][one]) for one in ("gloo", "pool"))
            lines.append(
                f"{world:5} {collective:14} {size:>8} {gloo:10.0f} {pool:10.0f} {ratio(cell):12.2f}"
                f" {_ratio(cell['cpu']):9.2f}"
            )
    return lines


def goals(found: Found) -> list[SpeedGoal]:
    """Return the goals: speed in all cells together and in each, correct outputs, equal bits."""
    cells = [cell for world in found.values() for cell in world.values()]
    ratios = [ratio(cell) for cell in cells]
    exact = [cell["exact"] for cell in cells]
    return [
        SpeedGoal("gloo / pool, geometric mean", geometric_mean(ratios), 1.5, least=True),
        SpeedGoal("gloo / pool, slowest cell", min(ratios), 0.9, least=True),
        SpeedGoal("wrong outputs of all ranks", sum(cell["wrong"] for cell in cells), 0),
        SpeedGoal(
            "cells with the bits in rank order",
            100 * sum(exact) / len(exact),
            100,
            " %",
            least=True,
        ),
    ]

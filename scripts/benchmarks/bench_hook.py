# SPDX-License-Identifier: Apache-2.0
"""`nf measure bench hook`: compares steps with the runtime's DDP hook with plain DDP.

Real gloo workers, all ways in turn, medians; on loopback and, with root rights, over links of a
limited rate. The time of backward itself is measured without communication, and subtracted from a
bucket's time.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from neuron_fabric.errors import say
from scripts.benchmarks.goals import SpeedGoal, judge
from scripts.common import folder_locks
from scripts.common.arguments import positive
from scripts.ranks import node_network
from scripts.ranks.launch import need_torch, rank_run

HELP = "a step and a bucket of the runtime's hook, against plain DDP"
RANKS = "scripts.ranks.hook_ranks"
WORKERS = 4
RATE = "1gbit"
_HEAP = {"MALLOC_MMAP_THRESHOLD_": "131072"}  # what is freed goes back, or no peak is comparable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--runs", type=positive, default=9, metavar="N", help="of each way (9)")
    add(
        "--rate", type=node_network.rate_of, default=RATE, metavar="RATE", help=f"a link's ({RATE})"
    )


def run(args: argparse.Namespace) -> int:
    """Measure, and print medians and the table of goals.

    Returns:
        Exit code: 1 when a goal is missed, else 0.

    Raises:
        NfError: torch is missing.
    """
    need_torch("bench hook")
    folder_locks.tree()
    cores, load = os.cpu_count() or 1, os.getloadavg()[0]
    say(f"{WORKERS} gloo workers on {cores} cores, load {load:.1f} before")
    nodes = node_network.plain(WORKERS)
    here = {
        **rank_run(nodes, RANKS, ["0"], _HEAP),
        **rank_run(nodes, RANKS, [str(args.runs)]),
    }
    say(*shown("loopback", here))
    goals, there = at_home(here), None
    if why := node_network.why_not():
        say(f"{args.rate}: left out ({why})")
    else:
        with node_network.namespaces(WORKERS, args.rate) as nodes:
            there = rank_run(nodes, RANKS, [str(args.runs)])
        say(*shown(args.rate, there))
        goals += by_links(args.rate, there)
    goals += hidden("loopback" if there is None else args.rate, there or here)
    return judge(goals)


def shown(network: str, found: Mapping[str, Any]) -> list[str]:
    """Return lines with all medians in milliseconds, as found by `hook_ranks`."""
    return [
        f"{network:9} {what:7}"
        + "".join(f"{name} {1e3 * median(took):8.1f} ms  " for name, took in found[what].items())
        for what in ("bucket", "step", "fine", "long")
    ]


def _less(ways: Mapping[str, Sequence[float]], name: str) -> float:
    """Return the seconds that communication adds to backward by one way, at least 0."""
    return max(median(ways[name]) - median(ways["alone"]), 0.0)


def at_home(found: Mapping[str, Any]) -> list[SpeedGoal]:
    """Return the goals on loopback: cost of FP32 with the hook, gain of votes, and memory."""
    step, memory = found["step"], found["memory"]
    more = max(memory["low"] - memory["plain"], 0) / found["gradients"]
    return [
        SpeedGoal("step, all FP32 / plain", median(step["fp32"]) / median(step["plain"]), 1.03),
        SpeedGoal("bucket, votes / plain", _of_bucket(found), 0.5),
        SpeedGoal("memory / gradients", more, 0.15),
    ]


def by_links(rate: str, found: Mapping[str, Any]) -> list[SpeedGoal]:
    """Return the goals on links of a rate that limits a step: bucket and step with votes."""
    whole = _ratio(median(found["step"]["low"]), median(found["step"]["plain"]))
    return [
        SpeedGoal(f"bucket, votes / plain, {rate}", _of_bucket(found), 0.12),
        SpeedGoal(f"step of the MLP, votes / plain, {rate}", whole, 0.35),
    ]


def hidden(network: str, found: Mapping[str, Any]) -> list[SpeedGoal]:
    """Return the goal for the share of communication that a long backward hides.

    Backward takes four times as long as the communication, with buckets of one layer: the last one
    of twelve is there when backward ends.
    """
    all_of_it, left = _less(found["fine"], "low"), _less(found["long"], "low")
    share = 1 - _ratio(left, all_of_it)
    return [
        SpeedGoal(f"hidden, buckets of a layer, backward 4 x, {network}", share, 0.70, least=True)
    ]


def _of_bucket(found: Mapping[str, Any]) -> float:
    """Return the communication time of a bucket with votes, as a share of plain DDP's."""
    return _ratio(_less(found["bucket"], "low"), _less(found["bucket"], "plain"))


def _ratio(a: float, b: float) -> float:
    return a / b if b > 0 else 1.0

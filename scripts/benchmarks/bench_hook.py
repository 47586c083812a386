# SPDX-License-Identifier: Apache-2.0
"""`nf measure bench hook`: what the runtime's hook costs and brings in a step, against plain DDP.

Real gloo workers, all ways in turn, medians; by loopback, and where there is root by links of a
rate. What backward itself takes is measured without communication, and left out of a bucket's time.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from neuron_fabric.errors import say
from scripts.benchmarks.goals import SpeedGoal, judge
from scripts.common import run_folders
from scripts.common.arguments import positive
from scripts.common.errors import NfError
from scripts.run import node_network
from scripts.run.workers import rank_run

HELP = "a step and a bucket of the runtime's hook, against plain DDP"
RANKS = "scripts.benchmarks.hook_ranks"
LEFT = "hook.json"
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
    """Measure, print the table; 1 when a goal is missed. NfError when it cannot be tried."""
    if importlib.util.find_spec("torch") is None:
        raise NfError("bench hook: torch is not installed (requirements-torch.txt).")
    run_folders.tree()
    cores, load = os.cpu_count() or 1, os.getloadavg()[0]
    say(f"{WORKERS} gloo workers on {cores} cores, load {load:.1f} before")
    nodes = node_network.plain(WORKERS)
    here = {
        **rank_run(nodes, RANKS, ["0"], LEFT, _HEAP),
        **rank_run(nodes, RANKS, [str(args.runs)], LEFT),
    }
    say(*shown("loopback", here))
    goals, there = at_home(here), None
    if why := node_network.why_not():
        say(f"{args.rate}: left out ({why})")
    else:
        with node_network.namespaces(WORKERS, args.rate) as nodes:
            there = rank_run(nodes, RANKS, [str(args.runs)], LEFT)
        say(*shown(args.rate, there))
        goals += by_links(args.rate, there)
    goals += hidden("loopback" if there is None else args.rate, there or here)
    return judge(goals)


def shown(network: str, found: Mapping[str, Any]) -> list[str]:
    """All medians, in milliseconds."""
    return [
        f"{network:9} {what:7}"
        + "".join(f"{name} {1e3 * median(took):8.1f} ms  " for name, took in found[what].items())
        for what in ("bucket", "step", "fine", "long")
    ]


def _less(ways: Mapping[str, Sequence[float]], name: str) -> float:
    """Return the time that communication adds to backward, at least 0."""
    return max(median(ways[name]) - median(ways["alone"]), 0.0)


def at_home(found: Mapping[str, Any]) -> list[SpeedGoal]:
    """Return goals on loopback: loss of FP32, gain of votes, and memory."""
    step, bucket, memory = found["step"], found["bucket"], found["memory"]
    more = max(memory["low"] - memory["plain"], 0) / found["gradients"]
    return [
        SpeedGoal("step, all FP32 / plain", median(step["fp32"]) / median(step["plain"]), 1.03),
        SpeedGoal(
            "bucket, votes / plain", _ratio(_less(bucket, "low"), _less(bucket, "plain")), 0.5
        ),
        SpeedGoal("memory / gradients", more, 0.15),
    ]


def by_links(rate: str, found: Mapping[str, Any]) -> list[SpeedGoal]:
    """Return goals on a network that limits a step."""
    step, bucket = found["step"], found["bucket"]
    whole = _ratio(median(step["low"]), median(step["plain"]))
    return [
        SpeedGoal(
            f"bucket, votes / plain, {rate}",
            _ratio(_less(bucket, "low"), _less(bucket, "plain")),
            0.12,
        ),
        SpeedGoal(f"step of the MLP, votes / plain, {rate}", whole, 0.35),
    ]


def hidden(network: str, found: Mapping[str, Any]) -> list[SpeedGoal]:
    """The share of communication that a backward of four times its length hides, in buckets of a
    layer: the last one of twelve is there when backward ends."""
    all_of_it, left = _less(found["fine"], "low"), _less(found["long"], "low")
    share = 1 - _ratio(left, all_of_it)
    return [
        SpeedGoal(f"hidden, buckets of a layer, backward 4 x, {network}", share, 0.70, least=True)
    ]


def _ratio(a: float, b: float) -> float:
    return a / b if b > 0 else 1.0

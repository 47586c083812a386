# SPDX-License-Identifier: Apache-2.0
"""`nf measure bench coverage`: what sampling functional coverage adds to the time of a test.

Measured inside the test (`sampling_cost.py`), as the share of its own time: two runs, one with and
one without, differ by more than that on a busy machine. The counters inside the design
(`verif/coverage/*_cover.sv`) are in both parts; reading them is sampling.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import replace

from neuron_fabric.errors import say
from scripts.benchmarks.goals import Goal, judge
from scripts.build import build_cache
from scripts.common.arguments import positive
from scripts.common.errors import NfError
from scripts.common.paths import BUILD
from scripts.plan import testplan
from scripts.plan.discover import discover, select
from scripts.run import simulate

HELP = "what sampling functional coverage adds to a test"
TEST = "test_mixed::interleaved_workers"
INSIDE = "scripts.benchmarks.sampling_cost"  # the module that the simulator runs
FIGURE = "sampling_percent"  # and leaves, of each profile
GOAL = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runs", type=positive, default=5, metavar="N", help="runs, of which the median counts (5)"
    )


def run(args: argparse.Namespace) -> int:
    """Measure, print the table; 1 when the goal is missed."""
    plan = testplan.read()
    options = testplan.Options(("verilator",), (1,))
    found = testplan.expand(plan, select(discover(), [TEST]), options)
    spec = replace(found[0], module=INSIDE)
    build_cache.build(spec.build)
    shares: dict[str, list[float]] = {}
    for _ in range(args.runs):
        record = simulate.run(spec, runs=BUILD / "bench" / "runs")
        if not record.passed:
            raise NfError(f"{record.name} is red: {record.cause} ({record.log}).")
        for name, value in record.metrics.items():
            if name.startswith(FIGURE) and isinstance(value, float):
                shares.setdefault(name, []).append(value)
    for name, values in shares.items():
        say(f"{name}: {' '.join(f'{value:.1f}' for value in values)} %")
    middle = statistics.median(value for values in shares.values() for value in values)
    return judge([Goal("sampling / the rest of the test", middle, GOAL, " %")])

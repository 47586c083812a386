# SPDX-License-Identifier: Apache-2.0
"""`nf capacity clocks`: what the capacity model says of the device's clocks, against the RTL's.

The coefficients are measured first, then buckets that are drawn: route, workers, lines. Compared
are the contributions, worker by worker in step, which is what the table of `nf capacity table`
shows; votes travel the other way, and are not in it.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from models.line_packing import Mode
from neuron_fabric.codec.routes import Route, elements_of_line
from neuron_fabric.runtime.capacity import Coefficients, Traffic, low_seconds
from neuron_fabric.text import say
from scripts.benchmarks.miss_loads import Bench
from scripts.build import registry
from scripts.cli import replay as nf_replay
from scripts.cli.replay_options import add_memory, memory_of
from scripts.common.arguments import positive, up_to
from scripts.common.paths import BUILD

HELP = "clocks of random buckets in the RTL, against the model's"
WITHIN = 0.10
MOST_WORKERS, LEAST, MOST = 16, 128, 2048
"""Workers from 2 on, and lines a worker."""


@dataclass(frozen=True)
class Bucket:
    """What was drawn, and the clocks of its contributions."""

    route: Route
    workers: int
    lines: int
    model: float
    rtl: int

    @property
    def off(self) -> float:
        """Of the model, as a share of the RTL's clocks."""
        return self.model / self.rtl - 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--sim", choices=registry.names(), default=registry.names()[0], help="simulator")
    add("--buckets", type=up_to(10_000), default=30, metavar="N", help="that are drawn (30)")
    add("--seed", type=positive, default=1, metavar="N", help="of the buckets (1)")
    add_memory(parser, "48")


def run(args: argparse.Namespace, files: Path = BUILD / "bench" / "misses") -> int:
    """Measure and print; 1 when the model is off by more than `WITHIN` for a bucket."""
    memory = memory_of(args, args.memory_latency)
    model = nf_replay.Simulators(files=files, command="nf capacity").bulk(args.sim, {})
    with tempfile.TemporaryDirectory(prefix="nf-bench-") as folder:

        def bench(lines: int) -> Bench:
            return Bench(model, Path(folder), memory, lines)

        usual = bench(1024)
        rates = {
            Traffic.HITS: usual.hits(write=True),
            Traffic.STREAM: usual.stream(),
            Traffic.APART: usual.stream(tile=usual.lines),
        }
        miss = usual.misses(Mode.G_BINARY, 8)
        known = Coefficients(flit_s=1.0, lines_in=rates, miss=miss)
        say(
            f"{memory}: {rates[Traffic.STREAM]:.4f} lines a clock in step, {miss:.2f} clocks a miss"
        )
        say(f"{'route':10}{'W':>4}{'lines':>7}{'model':>10}{'RTL':>10}{'off':>8}")
        found = []
        for route, workers, lines in drawn(args.buckets, args.seed):
            clocks = bench(lines).contributions(Mode[route], workers)
            one = Bucket(route, workers, lines, modelled(known, route, workers, lines), clocks)
            found.append(one)
            say(f"{route:10}{workers:4}{lines:7}{one.model:10,.0f}{clocks:10,}{one.off:8.1%}")
    worst = max(found, key=lambda one: abs(one.off))
    say(f"{len(found)} buckets, {abs(worst.off):.1%} off at most (goal {WITHIN:.0%})")
    return int(abs(worst.off) > WITHIN)


def drawn(count: int, seed: int) -> Iterator[tuple[Route, int, int]]:
    """Buckets, small ones as often as large ones."""
    draw = random.Random(seed)
    for _ in range(count):
        lines = round(LEAST * (MOST / LEAST) ** draw.random())
        yield draw.choice((Route.G_BINARY, Route.G_TERNARY)), draw.randint(2, MOST_WORKERS), lines


def modelled(known: Coefficients, route: Route, workers: int, lines: int) -> float:
    """Clocks by the model: each line comes from memory once."""
    elements = lines * elements_of_line(route)
    return low_seconds(known, route, elements, workers, misses=lines, readers=0).device

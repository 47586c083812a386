# SPDX-License-Identifier: Apache-2.0
"""`nf measure capacity clocks`: compares clocks of random buckets in the RTL with the model.

Every route is driven by contributions alone, with its results, with everything that can be read of
a line (count planes, all views of sums), and worker after worker, so that each access misses the
on-chip slots. The coefficients are those of a substrate file; no bucket of this command was used to
fit them.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from models.modes import Mode
from models.parameters import DeviceParams
from models.regions import RegionConfig
from neuron_fabric.capacity.cost_model import (
    MOST_WORKERS,
    Coefficients,
    Device,
    Traffic,
    low_seconds,
    most_lines,
    result_lines,
)
from neuron_fabric.capacity.substrate import read_substrate, shipped
from neuron_fabric.codec.routes import Route, elements_of_line
from neuron_fabric.errors import say
from scripts.benchmarks.bulk_loads import BulkLoads, benches
from scripts.build import registry
from scripts.common.arguments import positive, up_to
from verif.mem.memory_timing import MAX_LATENCY, MemoryTiming
from verif.replay.plan import selectors

HELP = "clocks of random buckets in the RTL, compared with the capacity model"
WITHIN = 0.10
LATENCIES = (3, 100, 300)
LEAST, MOST = 128, 2048
"""Lines a worker on a device, and fewer where a bucket would take more than `CLOCKS`."""
CLOCKS = 300_000
SLOW, SLOW_WORKERS = 200, 5
"""FP32 sums at a memory latency from SLOW on are modelled from so many workers on: the sums of
fewer wait for their own stores, and take up to 1.8 times as long."""
PARTLY = Device.slots * 3 // 2
"""Workers apart are modelled from more lines than these on, or if all lines are in slots: between,
the lines of some sets stay in their slots, and a bucket takes down to 0.3 of the modelled time."""


class BucketLoad(StrEnum):
    """Kind of traffic of a bucket: what is read, and in which order workers write."""

    CONTRIBUTIONS = "contributions"
    RESULTS = "with results"
    VIEWS = "with all views"
    APART = "workers apart"


@dataclass(frozen=True)
class RandomBucket:
    """A bucket of random size, and the memory latency in clocks at which it is driven.

    `lines` is per worker; `devices` share them by tile.
    """

    route: Route
    load: BucketLoad
    workers: int
    lines: int
    latency: int
    devices: int = 1

    @property
    def share(self) -> int:
        """Lines per worker of the device that has most of them."""
        return most_lines(self.lines, self.devices)

    @property
    def read(self) -> tuple[int, ...]:
        """Selectors that each worker reads of each line; () for none."""
        if self.load in (BucketLoad.CONTRIBUTIONS, BucketLoad.APART):
            return ()
        config = RegionConfig(0, 0, 0, self.workers, Mode[self.route])
        every = selectors(Mode[self.route], config, DeviceParams())
        if self.load == BucketLoad.VIEWS:
            return every
        count = result_lines(self.route, self.workers)
        return every[-count:] if self.route.codes else every[:count]

    def modelled(self, known: Coefficients) -> float:
        """Return the clocks that the capacity model predicts for the bucket."""
        low = low_seconds(
            replace(known, flit_s=1.0, memory_latency=self.latency, devices=self.devices),
            self.route,
            self.lines * elements_of_line(self.route),
            self.workers,
            traffic=Traffic.APART if self.load == BucketLoad.APART else Traffic.STREAM,
            readers=self.workers if self.read else 0,
            planes=max(len(self.read) - result_lines(self.route, self.workers), 0),
        )
        return low.device

    def driven(self, bench: BulkLoads) -> int:
        """Drive the share of the slowest device in the RTL and return the clocks that it takes.

        Devices have nothing in common: each has its link, so their clocks do not depend on others.
        """
        mode = Mode[self.route]
        if self.load == BucketLoad.APART:
            return bench.bucket(mode, self.workers, (), tile=self.share)
        return bench.bucket(mode, self.workers, self.read)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--sim", choices=registry.names(), default=registry.names()[0], help="simulator")
    add("--buckets", type=up_to(10_000), default=36, metavar="N", help="buckets to draw (36)")
    add("--seed", type=positive, default=1, metavar="N", help="seed of the buckets (1)")
    add("--substrate", type=Path, metavar="FILE", help="measured coefficients")
    text = f"clocks from a request to its answer ({' '.join(map(str, LATENCIES))})"
    how: dict[str, Any] = {"type": up_to(MAX_LATENCY), "nargs": "+", "default": list(LATENCIES)}
    what = "devices that share the lines of a bucket (1)"
    add("--devices", type=up_to(64), nargs="+", default=[1], metavar="D", help=what)
    add("--memory-latency", **how, metavar="N", help=text)


def run(args: argparse.Namespace) -> int:
    """Drive all buckets and print the comparison.

    Returns:
        Exit code: 1 when the model is off by more than `WITHIN` (10 %) for a bucket, else 0.
    """
    substrate = read_substrate(args.substrate) if args.substrate else shipped()
    known = substrate.coefficients
    say(f"{substrate.name} ({substrate.measured})")
    say(
        f"{'route':10}{'':16}{'W':>4}{'D':>3}{'lines':>7}{'latency':>9}{'model':>10}{'RTL':>10}{'off':>8}"
    )
    found = []
    with benches(args.sim) as bench:
        every = drawn(args.buckets, args.seed, args.memory_latency, known)
        pairs = ((one, count) for one in every for count in args.devices)
        for one in (replace(one, lines=one.lines * n, devices=n) for one, n in pairs):
            clocks = one.driven(bench(MemoryTiming(one.latency), one.share))
            expected = one.modelled(known)
            found.append(abs(expected / clocks - 1))
            say(
                f"{one.route:10}{one.load:16}{one.workers:4}{one.devices:3}{one.lines:7}"
                f"{one.latency:9}"
                f"{expected:10,.0f}{clocks:10,}{expected / clocks - 1:8.1%}"
            )
    say(f"{len(found)} buckets, {max(found):.1%} off at most (goal {WITHIN:.0%})")
    return int(max(found) > WITHIN)


def drawn(
    count: int, seed: int, latencies: list[int] | tuple[int, ...], known: Coefficients
) -> Iterator[RandomBucket]:
    """Yield `count` random buckets: every load of every route in turn, sizes log-uniform.

    Args:
        count: Number of buckets.
        seed: Seed of the choices.
        latencies: Memory latencies to choose from.
        known: Coefficients, which limit buckets to about `CLOCKS` clocks.
    """
    draw = random.Random(seed)
    kinds = [
        (route, load)
        for route in Route
        for load in BucketLoad
        if route != Route.FP32 or load in (BucketLoad.CONTRIBUTIONS, BucketLoad.RESULTS)
    ]
    draw.shuffle(kinds)
    for n in range(count):
        route, load = kinds[n % len(kinds)]
        latency = draw.choice(latencies)
        sums = route == Route.FP32 and load == BucketLoad.RESULTS
        least = SLOW_WORKERS if sums and latency >= SLOW else 2
        workers = round(least * (MOST_WORKERS / least) ** draw.random())
        lines = round(LEAST * (MOST / LEAST) ** draw.random())
        one = RandomBucket(route, load, workers, lines, latency)
        most = CLOCKS * lines // max(round(one.modelled(known)), 1)
        lines = max(min(lines, most), LEAST // 2)
        if load == BucketLoad.APART and Device.slots < lines <= PARTLY:
            lines = Device.slots
        yield replace(one, lines=lines)

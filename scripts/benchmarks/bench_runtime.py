# SPDX-License-Identifier: Apache-2.0
"""`nf measure bench runtime`: measures packing, votes and decoding of one bucket, on one core.

Each figure is a ratio to `numpy.copyto` of the same float32 array, taken in turn in the same run:
1.0 is as fast as memory is copied. Processor time, of which the median counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from timeit import timeit

import numpy as np

from neuron_fabric import codec
from neuron_fabric.codec import Route, numpy_engine
from neuron_fabric.codec.draws import Key
from neuron_fabric.codec.engine import chosen, using
from neuron_fabric.errors import say
from scripts.benchmarks.goals import SpeedGoal, in_turn, judge
from scripts.common.arguments import positive

HELP = "packing, votes and decoding of gradients, against a copy of memory"
BUCKET = 25 << 18
"""Elements of a bucket of 25 MiB, as DDP makes them."""
WORKERS = 8
LINES = BUCKET // 512
MILLION = 1e6
_seconds = partial(timeit, timer=time.process_time, number=1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runs", type=positive, default=9, metavar="N", help="runs, of which the median counts (9)"
    )


def run(args: argparse.Namespace) -> int:
    """Measure, and print the table of goals; return 1 when a goal is missed, else 0."""
    choice = chosen()
    say(f"loops: {choice.why}")
    native = choice.engine is not numpy_engine
    if not native:
        say("figures of the native loops are left out")
    return judge([*(_native(args.runs) if native else ()), *_numpy(args.runs)])


def _native(runs: int) -> list[SpeedGoal]:
    x, y = _bucket()
    binary, ternary = (codec.pack(x, route).lines for route in (Route.G_BINARY, Route.G_TERNARY))
    u, key = codec.units(codec.maxima(x), Route.G_INT8), Key(1, 2, 3, "p")
    codes = codec.pack_codes(x, Route.G_INT8, u).lines
    sums = codec.add_codes(codes[None], Route.G_INT8)
    ways: dict[str, tuple[float, Callable[[], object]]] = {
        "pack G_BINARY, finite": (0.7, lambda: _pack(x, Route.G_BINARY, binary, False)),
        "pack G_BINARY, scale": (0.45, lambda: _pack(x, Route.G_BINARY, binary, True)),
        "pack G_TERNARY, scale": (0.35, lambda: _pack(x, Route.G_TERNARY, ternary, True)),
        "unpack G_BINARY": (0.65, lambda: codec.unpack(binary, Route.G_BINARY, x.size, out=y)),
        "unpack G_TERNARY": (0.65, lambda: codec.unpack(ternary, Route.G_TERNARY, x.size, out=y)),
        "pack G_INT8, drawn": (0.06, lambda: codec.pack_codes(x, Route.G_INT8, u, key)),
        "unpack G_INT8": (0.3, lambda: codec.unpack_sums(sums, Route.G_INT8, u, 1, 1, y)),
    }
    goals = [_ratio(name, work, x, runs, least) for name, (least, work) in ways.items()]
    sent = np.random.default_rng(2).integers(0, 256, (WORKERS, LINES, codec.LINE), np.uint8)
    votes = {"": lambda: _seconds(lambda: codec.count(sent, Route.G_BINARY, planes=False))}
    [seconds] = in_turn(votes, runs).values()
    rate = LINES / median(seconds) / MILLION
    goals.append(SpeedGoal(f"votes G_BINARY, W {WORKERS}", rate, 40.0, " M lines/s", least=True))
    return goals


def _numpy(runs: int) -> list[SpeedGoal]:
    x, _ = _bucket()
    lines = codec.pack(x, Route.G_BINARY).lines
    with using(numpy_engine):
        work = lambda: _pack(x, Route.G_BINARY, lines, False)  # noqa: E731
        return [_ratio("pack G_BINARY, finite, numpy", work, x, runs, 0.35)]


def _bucket() -> tuple[codec.F32, codec.F32]:
    x = np.random.default_rng(1).standard_normal(BUCKET, dtype=np.float32)
    return x, np.empty_like(x)


def _pack(x: codec.F32, route: Route, lines: codec.U8, scale: bool) -> None:
    codec.pack(x, route, scale=scale, out=lines)


def _ratio(
    name: str, work: Callable[[], object], x: codec.F32, runs: int, least: float
) -> SpeedGoal:
    """Measure the speed of ``work`` as a multiple of a copy of ``x``; `least` is the goal."""
    copy = np.empty_like(x)
    ways = {"copy": lambda: _seconds(lambda: np.copyto(copy, x)), "work": lambda: _seconds(work)}
    took = {way: median(seconds) for way, seconds in in_turn(ways, runs).items()}
    return SpeedGoal(name, took["copy"] / took["work"], least, least=True)

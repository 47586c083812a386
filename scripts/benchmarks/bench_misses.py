# SPDX-License-Identifier: Apache-2.0
"""`nf measure bench misses`: measures clocks of accesses that hit and miss the on-chip slots.

Figures are by latency of device memory; others tell how the misses of one host slow down another
(spec: controller-2 §2).

Traffic is driven through the whole controller at the packing limit of the link, with full credits,
by the C++ host of bulk replay. Everything is counted in clocks: the same command gives the same
figures. Answers and lines are checked elsewhere; here each access must be answered without poison.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from models.modes import Mode
from neuron_fabric.errors import say
from scripts.benchmarks.bulk_loads import BulkLoads, add_device, benches
from scripts.benchmarks.goals import SpeedGoal, judge
from scripts.common.errors import OptionError
from scripts.common.memory_options import add_memory, memory_of
from verif.mem.memory_timing import LATENCIES

HELP = "clocks of hits and misses by the latency of memory, and what a host's misses cost others"
Figure = Callable[[BulkLoads], float]
GB, GT, FP = Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32

ROWS: dict[str, Figure] = {
    "hits: contributions, lines a clock": lambda b: b.hits(write=True),
    "hits: votes, lines a clock": lambda b: b.hits(write=False),
    "stream W 8: contributions, lines a clock": lambda b: b.stream(),
    "stream W 8, tiles of one line: lines a clock": lambda b: b.stream(tile=1),
    "stream W 8, tiles of 128: clocks a contribution": lambda b: 1 / b.stream(tile=128),
    "stream W 8, 512 lines in a drawn order: clocks a contribution": lambda b: b.scattered(),
    "worker-major W 8: lines a clock": lambda b: b.stream(tile=b.lines),
    "read once W 8: clocks a line": lambda b: b.read_once(),
    "plain writes: clocks a line": lambda b: b.plain(write=True),
    "plain reads: clocks a line": lambda b: b.plain(write=False),
    "misses, first of an epoch, G_BINARY W 8: clocks a line": lambda b: b.misses(GB, 8, first=True),
    "misses, G_BINARY W 8: clocks a line": lambda b: b.misses(GB, 8),
    "misses, G_TERNARY W 8: clocks a line": lambda b: b.misses(GT, 8),
    "misses, FP32 W 8: clocks a line": lambda b: b.misses(FP, 8),
    "misses, G_BINARY W 64: clocks a line": lambda b: b.misses(GB, 64),
    "one at a time: IDENTITY write, clocks": lambda b: b.alone(Mode.IDENTITY, 8),
    "one at a time: first of an epoch, G_BINARY W 8": lambda b: b.alone(GB, 8, first=True),
    "one at a time: miss, G_BINARY W 8": lambda b: b.alone(GB, 8),
    "one at a time: miss, G_BINARY W 64": lambda b: b.alone(GB, 64),
    "one at a time: first FP32 store of a line": lambda b: b.alone(FP, 8, first=True),
    "one at a time: first FP32 store of a worker": lambda b: b.alone(FP, 8),
    "plain read alone: clocks": lambda b: b.plain_read("nothing"),
    "plain read beside an initialiser: clocks": lambda b: b.plain_read("initialiser"),
    "plain read beside contributions that miss: clocks": lambda b: b.plain_read("contributions"),
    "plain read beside votes that miss: clocks": lambda b: b.plain_read("votes"),
    "plain reads beside an initialiser: clocks a line": lambda b: b.plain_rate("initialiser"),
    "plain reads beside contributions: clocks a line": lambda b: b.plain_rate("contributions"),
    "plain reads beside votes: clocks a line": lambda b: b.plain_rate("votes"),
}
"""Measurements by printed name."""

# What a row must reach at a memory latency: (row, latency, at least or at most, value).
TARGETS: tuple[tuple[str, int, bool, float], ...] = (
    ("hits: contributions, lines a clock", 300, True, 0.79),
    ("stream W 8: contributions, lines a clock", 48, True, 0.65),
    ("stream W 8, tiles of one line: lines a clock", 48, True, 0.65),
    ("read once W 8: clocks a line", 48, False, 7.0),
    ("misses, G_BINARY W 8: clocks a line", 300, False, 8.0),
    ("misses, G_TERNARY W 8: clocks a line", 300, False, 8.0),
    ("misses, G_BINARY W 64: clocks a line", 300, False, 11.0),
    ("stream W 8, tiles of 128: clocks a contribution", 300, False, 1.3),
    ("stream W 8, 512 lines in a drawn order: clocks a contribution", 300, False, 2.5),
    ("worker-major W 8: lines a clock", 48, True, 0.25),
    ("one at a time: miss, G_BINARY W 8", 300, False, 311.0 + 5),
    ("one at a time: miss, G_BINARY W 64", 300, False, 311.0 + 5),
    ("one at a time: first FP32 store of a line", 300, False, 330.0),
    ("plain read beside an initialiser: clocks", 300, False, 3 * 310),
    ("plain read beside contributions that miss: clocks", 300, False, 3 * 310),
    ("plain read beside votes that miss: clocks", 300, False, 3 * 310),
    ("plain reads beside contributions: clocks a line", 300, False, 2 * 4.81),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_device(parser, 2048)
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose name has it")
    add_memory(parser, " ".join(map(str, LATENCIES)), nargs="+")


def run(args: argparse.Namespace) -> int:
    """Measure and print all rows; return 1 when a target is missed, else 0."""
    rows = {name: figure for name, figure in ROWS.items() if args.only in name}
    if not rows:
        what, todo = "no row's name has that", f"rows are like {next(iter(ROWS))!r}"
        raise OptionError(f"--only {args.only!r}", what, todo)
    measured: dict[tuple[str, int], float] = {}
    width = max(map(len, rows))
    memories = [memory_of(args, latency) for latency in args.memory_latency]
    say(f"{args.lines} lines a worker; {'; '.join(map(str, memories))}")
    say(f"{'':{width}} " + "".join(f"{memory.latency:>10}" for memory in memories), flush=True)
    with benches(args.sim) as bench:
        for name, figure in rows.items():
            for memory in memories:
                measured[name, memory.latency] = figure(bench(memory, args.lines))
            values = [measured[name, memory.latency] for memory in memories]
            say(f"{name:{width}} " + "".join(f"{value:10.3f}" for value in values), flush=True)
    usual = args.memory_beat == 1 and not args.memory_stall and args.lines == 2048
    goals = [
        SpeedGoal(f"{name} at {latency}", measured[name, latency], value, least=least)
        for name, latency, least, value in TARGETS
        if (name, latency) in measured and usual
    ]
    return judge(goals) if goals else 0

# SPDX-License-Identifier: Apache-2.0
"""`nf collectives check`: checks schedules for races, wait cycles, wrong outputs and uneven load.

examples:
  nf collectives check                       all shipped schedules, 2 to 16 ranks, 1 to 8 devices
  nf collectives check all_reduce            one of them
  nf collectives check mine.json             a schedule that `nf collectives show --json` printed
  nf collectives check --mutants 300         faults in shipped schedules that the checks must find
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

from neuron_fabric.codec import Route
from neuron_fabric.collectives import schedule_file
from neuron_fabric.collectives.checker import Load, ScheduleError, check
from neuron_fabric.collectives.schedule import Adder, Collective, Schedule
from neuron_fabric.collectives.shipped import SUMS, shipped, views_of
from neuron_fabric.errors import say
from scripts.collectives.schedule_mutants import drawn_mutants
from scripts.common.arguments import up_to
from scripts.common.errors import NfError

RANKS = (2, 3, 4, 8, 16)
DEVICES = (1, 2, 3, 6, 8)
SIZES = {"1 element": 4, "1 line": 64, "1 MiB + 3 B": (1 << 20) + 3}
"""Bytes of the larger buffer of a rank."""
MIN_REFUSED = 0.99
_LINE = 64
_PARTS = (Collective.ALL_GATHER, Collective.GATHER, Collective.REDUCE_SCATTER, Collective.SCATTER)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `nf collectives check`."""
    add = parser.add_argument
    add("what", nargs="?", default="all", metavar="WHAT", help="all, a collective, or a JSON file")
    add("--mutants", type=up_to(100_000, first=1), metavar="N", help="check N mutants instead")
    add("--seed", type=up_to(2**32 - 1), default=1, metavar="S", help="seed of the mutants (1)")


def run(args: argparse.Namespace) -> int:
    """Check schedules or mutants; return 1 if too many mutants pass the checks."""
    if args.mutants:
        return _mutants(args.mutants, args.seed)
    if args.what == "all" or args.what in list(Collective):
        _shipped([one for one in Collective if args.what in ("all", one)])
    elif args.what.endswith(".json") or Path(args.what).exists():
        _file(Path(args.what))
    else:
        names = ", ".join(Collective)
        raise NfError(f"{args.what!r} is no collective or JSON file; use all, {names}")
    return 0


def _file(path: Path) -> None:
    """Check the schedule of a JSON file, which an error names."""
    schedule = schedule_file.read(path)
    try:
        load = check(schedule)
    except ScheduleError as error:
        raise ScheduleError(f"{path}: {error.where}", error.what, error.todo) from None
    say(f"{path}: {schedule.collective}, {_figures([load])}, no fault found")


def _shipped(collectives: list[Collective]) -> None:
    start, checked = time.process_time(), 0
    for collective in collectives:
        for adder in Adder if collective in SUMS else (None,):
            loads = [check(one) for one in shapes(collective, adder)]
            checked += len(loads)
            name = f"{collective} {adder or ''}".strip()
            say(f"  {name:22} {len(loads):4} schedules, {_figures(loads)}")
    seconds = time.process_time() - start
    say(f"{checked} schedules, no fault found ({seconds:.1f} s of processor time)")


def shapes(collective: Collective, adder: Adder | None) -> Iterator[Schedule]:
    """Yield the shipped schedules of a collective over `RANKS`, `DEVICES`, `SIZES` and routes.

    Sizes and routes with the same operations give one schedule.
    """
    for ranks in RANKS:
        parts = ranks if collective in _PARTS else 1
        sizes = {-(-size // (_LINE * parts)) for size in SIZES.values()}
        for lines in sorted(sizes) if collective is not Collective.BARRIER else [0]:
            routes = {_operations(route, ranks, adder): route for route in Route}
            for route in routes.values() if adder else [None]:
                for devices in DEVICES:
                    yield shipped(collective, ranks, devices, lines, adder=adder, route=route)


def _operations(route: Route, ranks: int, adder: Adder | None) -> tuple[int, bool]:
    """Return what of a route the operations depend on: the views, and who reads an FP32 sum first.

    Votes have one view here.
    """
    views = 1 if route.votes else len(views_of(route, ranks))
    return views, adder is Adder.DEVICE and route is Route.FP32


def _figures(loads: list[Load]) -> str:
    ops = sum(load.ops for load in loads)
    worst = max((load.uneven for load in loads if load.uneven is not None), default=None)
    text = f"; busiest device at most {worst:.3f} x the mean" if worst is not None else ""
    return f"{ops:,} operations{text}"


def _mutants(count: int, seed: int) -> int:
    passed = [one for one in drawn_mutants(count, seed) if not one.refusal]
    for one in passed:
        say(f"passed the checks: {one.name}: {one.harmless}")
    refused = count - len(passed)
    say(f"{refused} of {count} mutants refused ({refused / count:.1%}), seed {seed}")
    return int(refused < MIN_REFUSED * count)

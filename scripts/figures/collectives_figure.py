# SPDX-License-Identifier: Apache-2.0
"""`nf measure figures collectives`: clocks of collectives over a pool of devices, on the RTL.

Shipped schedules run in bulk over numbers of ranks and devices and memory latencies, and every
output is compared with the oracle. The bound of a cell is computed from its schedule; rates of
links between hosts are computed from the measured rate of one link.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from neuron_fabric.capacity.substrate import shipped as shipped_substrate
from neuron_fabric.codec.routes import Route, elements_of_line
from neuron_fabric.collectives.schedule import (
    Adder,
    Collective,
    Contribute,
    Read,
    Result,
    Schedule,
    Write,
)
from neuron_fabric.collectives.shipped import TILE
from neuron_fabric.errors import telling
from scripts.benchmarks.goals import SpeedGoal
from scripts.collectives.executor_runs import CollectiveKind, kinds_of, run_checked
from scripts.common.arguments import up_to
from scripts.common.errors import OptionError
from scripts.figures.result_file import Cell, Column, Line, Measured, Plot, Table, set_up
from scripts.figures.timing_figure import simulator
from scripts.run.replay_simulators import Simulators
from verif.mem.memory_timing import MAX_LATENCY, MemoryTiming
from verif.replay.bulk.bulk_schedule import PoolRun

HELP = "clocks of collectives over ranks and devices, with bounds and link rates"
RANKS, DEVICES, LATENCIES = (2, 4, 8, 16), (1, 2, 4, 8), (48, 300)
MOST_RANKS, MOST_DEVICES, MOST_LINES = 16, 16, 4096
LINES = 256
"""Lines of a vector, times the number of devices."""
FOLLOWED_RANKS, FOLLOWED_DEVICES = 8, (1, 2)
_A_CLOCK = 1.05
"""Clocks of an operation on a device whose slots hit: 2.1 for a contribution and a read."""
_SLOTS_A_FLIT = 4
_IN_PARTS = (
    Collective.ALL_GATHER,
    Collective.GATHER,
    Collective.REDUCE_SCATTER,
    Collective.SCATTER,
)


KINDS = tuple(
    kind
    for collective in Collective
    for kind in kinds_of(collective)
    # Passive sums of votes move the lines of FP32, and those of G_INT4 the lines of G_INT8.
    if kind.adder is not Adder.PASSIVE or kind.route in (Route.FP32, Route.G_INT8)
)
VOTES = CollectiveKind(Collective.ALL_REDUCE, Adder.DEVICE, Route.G_BINARY)
SUM = CollectiveKind(Collective.ALL_REDUCE, Adder.DEVICE, Route.FP32)
PASSIVE = CollectiveKind(Collective.ALL_REDUCE, Adder.PASSIVE, Route.FP32)
BARRIER = CollectiveKind(Collective.BARRIER)


@dataclass(frozen=True)
class PoolPlace:
    """Kind of collective, ranks, devices, memory latency in clocks, and lines a device."""

    kind: CollectiveKind
    ranks: int
    devices: int
    latency: int
    vector: int = LINES

    @property
    def schedule(self) -> Schedule:
        """Shipped schedule of a vector of so many lines a device; parts are rounded up."""
        parts = self.ranks if self.kind.collective in _IN_PARTS else 1
        return self.kind.schedule(self.ranks, self.devices, -(-self.vector * self.devices // parts))

    @property
    def lines(self) -> int:
        """Lines of the whole vector, which is the size of nccl-tests; 1 for a barrier."""
        parts = self.ranks if self.kind.collective in _IN_PARTS else 1
        return max(1, self.schedule.lines * parts)

    @property
    def bytes_a_line(self) -> int:
        """Bytes of FP32 gradient in a line of codes; of others, the bytes of a line."""
        return 4 * elements_of_line(self.kind.route or Route.FP32)

    def key(self) -> str:
        """Return the name of the clocks in the baseline."""
        unit = "clocks" if self.kind == BARRIER else "clocks a line"
        devices = f"{self.devices} device{'s' * (self.devices > 1)}"
        return f"{self.kind.name}, {self.ranks} ranks, {devices} at {self.latency}: {unit}"


def bound(plan: Schedule) -> float:
    """Return the least clocks of a schedule: one access in 1.05 clocks on each device.

    A store of an FP32 contribution takes the engine two.
    """
    total = 0
    for op in (op for own in plan.streams for one in own for op in one.ops):
        if isinstance(op, Write | Read | Result | Contribute):
            twice = isinstance(op, Contribute) and plan.route is Route.FP32
            total += op.count * (1 + twice)
    return _A_CLOCK * total / plan.devices


def by_host_links(place: PoolPlace) -> float | None:
    """Return GB/s of the same collective over the links of the hosts, computed; None for a barrier.

    A link carries the measured lines a clock of a device's link. Rings for FP32; votes and codes
    are sharded over the hosts, which add them. A rooted collective is bound by the root's link.
    """
    known, ranks, collective = shipped_substrate().coefficients, place.ranks, place.kind.collective
    if place.kind == BARRIER:
        return None
    rate = known.lines_in / known.flit_s * place.bytes_a_line / 1e9
    most = (ranks - 1) / ranks
    views = len(place.schedule.views) or 1
    moved = {
        Collective.ALL_REDUCE: most * (1 + views),
        Collective.BROADCAST: 1.0,
        Collective.REDUCE: 1.0,
    }
    return rate / moved.get(collective, most)


@dataclass(frozen=True)
class TimedCollective:
    """A run at a place, with its derived figures."""

    place: PoolPlace
    run: PoolRun

    @property
    def each(self) -> float:
        """Clocks a line of the vector; of a barrier, all clocks."""
        return self.run.clocks / self.place.lines

    def rate(self) -> float:
        """Return the algorithm bandwidth in GB/s, at the flit time of the substrate."""
        seconds = self.run.clocks * shipped_substrate().coefficients.flit_s
        return self.place.lines * self.place.bytes_a_line / seconds / 1e9

    def row(self) -> tuple[Cell, ...]:
        """Return the row of the table."""
        place, run = self.place, self.run
        most = run.clocks * place.devices
        adds = place.kind.adder is Adder.DEVICE
        factor = (place.ranks - 1) / place.ranks
        bus = {Collective.BROADCAST: 1.0, Collective.REDUCE: 1.0, Collective.ALL_REDUCE: 2 * factor}
        barrier, rate = place.kind == BARRIER, self.rate()
        return (
            *(place.kind.name, place.ranks, place.devices, self.each),
            None if barrier else bound(place.schedule) / place.lines,
            100 * run.slots / _SLOTS_A_FLIT / most,
            100 * run.operations / most if adds else None,
            100 * run.memory / most,
            None if barrier else rate,
            None if barrier else rate * bus.get(place.kind.collective, factor),
            by_host_links(place),
        )


COLUMNS = (
    *(Column("collective"), Column("ranks"), Column("devices"), Column("clocks a line")),
    *(Column("bound"), Column("link %", 0), Column("engine %", 0), Column("memory port %", 0)),
    *(Column("algbw GB/s"), Column("busbw GB/s"), Column("hosts' links GB/s (computed)")),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    for name, values, most in (
        ("ranks", RANKS, MOST_RANKS),
        ("devices", DEVICES, MOST_DEVICES),
        ("latency", LATENCIES, MAX_LATENCY),
    ):
        text = f"{name} ({' '.join(map(str, values))})"
        add(f"--{name}", type=up_to(most), nargs="+", default=list(values), metavar="N", help=text)
    text = f"lines of a vector for each device; the baseline has {LINES}"
    add("--lines", type=up_to(MOST_LINES), default=LINES, metavar="N", help=text)
    add("--only", default="", metavar="TEXT", help="collectives whose name has it, as device FP32")


def run(args: argparse.Namespace) -> Measured:
    """Run every selected schedule, and return tables, plots and followed figures.

    Raises:
        OptionError: No collective has the name.
        NfError: An output is wrong.
    """
    kinds = [kind for kind in KINDS if args.only in kind.name]
    if not kinds:
        raise OptionError(f"--only {args.only!r}", "no collective's name has that", "see --help")
    model = Simulators(command="nf measure").bulk(simulator(), {})
    found = {}
    for latency, kind in product(args.latency, kinds):
        with telling(f"nf measure figures: {kind.name}, memory latency {latency}"):
            for ranks, devices in product(args.ranks, args.devices):
                place = PoolPlace(kind, ranks, devices, latency, args.lines)
                memory = MemoryTiming(latency)
                found[place] = TimedCollective(place, run_checked(place.schedule, 1, model, memory))
    tables = [
        Table(
            f"Memory latency {latency}: clocks a line, shares and rates",
            COLUMNS,
            tuple(one.row() for place, one in found.items() if place.latency == latency),
        )
        for latency in args.latency
    ]
    goals = [
        (one.name, one.value, one.goal, "met" if one.good else "MISSED") for one in _goals(found)
    ]
    if goals:
        title = f"Goals, {FOLLOWED_RANKS} ranks"
        tables.insert(0, Table.of(title, ("figure", "value", "goal", ""), goals))
    known = shipped_substrate().coefficients
    return Measured(
        set_up=set_up(
            "collectives",
            lines=args.lines,
            tile=TILE,
            kept=PoolPlace(SUM, FOLLOWED_RANKS, 1, LATENCIES[0]).schedule.tile,
            flit_ns=f"{known.flit_s * 1e9:g}",
            link=f"{known.lines_in * 64 / known.flit_s / 1e9:.1f}",
            votes=_break_even(VOTES),
            sums=_break_even(SUM),
        ),
        tables=tuple(tables),
        plots=tuple(_plots(found, args.latency)),
        left_out=(
            "passive sums of votes, which move the lines of FP32, and of G_INT4, those of G_INT8",
            "commits of bells, and the signal DONE: they are made between collectives",
            "order between devices within a phase: a device does not wait for another one",
        ),
        followed={
            place.key(): round(one.each, 3)
            for place, one in found.items()
            if place.ranks == FOLLOWED_RANKS and place.devices in FOLLOWED_DEVICES
            if place.vector == LINES and place.latency in LATENCIES
        },
    )


def _break_even(kind: CollectiveKind) -> str:
    """Return the devices a rank at which the bound of a pool equals the hosts' links, 8 ranks."""
    place, known = PoolPlace(kind, 8, 1, 48), shipped_substrate().coefficients
    rate = place.lines * place.bytes_a_line / (bound(place.schedule) * known.flit_s) / 1e9
    return f"{(by_host_links(place) or 0.0) / rate / place.ranks:.1f}"


def _goals(found: Mapping[PoolPlace, TimedCollective]) -> Iterator[SpeedGoal]:
    """Yield the goals whose figures were measured."""
    least: dict[tuple[CollectiveKind, int], float] = {(SUM, 48): 28.0, (SUM, 300): 44.0}
    for place, one in found.items():
        if place.ranks != FOLLOWED_RANKS:
            continue
        if place.kind == BARRIER:
            yield SpeedGoal(place.key(), one.each, 45.0)
        elif place.kind.collective is Collective.ALL_REDUCE and place.kind.adder is Adder.DEVICE:
            if place.kind == VOTES and place.devices in FOLLOWED_DEVICES:
                yield SpeedGoal(place.key(), one.each, 2.4 * place.ranks / place.devices)
            if place.devices == 1 and (place.kind, place.latency) in least:
                yield SpeedGoal(place.key(), one.each, least[place.kind, place.latency])
            alone = found.get(replace(place, devices=1))
            if alone is not None and place.devices == 2:
                name = f"{place.kind.name} at {place.latency}: 1 device / 2 devices"
                yield SpeedGoal(name, alone.each / one.each, 1.9, least=True)


def _plots(found: Mapping[PoolPlace, TimedCollective], latencies: Sequence[int]) -> Iterator[Plot]:
    """Yield plots of all_reduce over devices and over ranks, with the bounds."""
    for latency, over in product(latencies, ("devices", "ranks")):
        lines = []
        for kind in (VOTES, SUM, PASSIVE):
            shown = [
                one
                for place, one in found.items()
                if (place.kind, place.latency) == (kind, latency)
                and (place.ranks == FOLLOWED_RANKS if over == "devices" else place.devices == 1)
            ]
            points = tuple((float(getattr(one.place, over)), one.each) for one in shown)
            bounds = tuple(
                (float(getattr(one.place, over)), bound(one.place.schedule) / one.place.lines)
                for one in shown
            )
            if points:
                lines += [Line(kind.name, points), Line(f"{kind.name}, bound", bounds, True)]
        if lines:
            where = f"{FOLLOWED_RANKS} ranks" if over == "devices" else "one device"
            title = f"all_reduce, {where}, memory latency {latency}: clocks a line"
            yield Plot(title, over, "clocks a line", tuple(lines))

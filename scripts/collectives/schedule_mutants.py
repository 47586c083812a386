# SPDX-License-Identifier: Apache-2.0
"""Mutants of schedules: one operation dropped, changed or moved past a signal, wait or ready.

Every mutant asks for less order or for other lines. Changes that only ask for more order, such as a
wait that comes earlier, are left out: they are slower schedules, not wrong ones.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from neuron_fabric.codec import Route
from neuron_fabric.collectives import schedule as sched
from neuron_fabric.collectives.checker import ScheduleError, check, text_of
from neuron_fabric.collectives.schedule import Adder, Collective, Schedule
from neuron_fabric.collectives.shipped import SUMS, shipped_any

_ORDER = (sched.Signal, sched.Wait, sched.Ready, sched.Close, sched.Commit)


@dataclass(frozen=True)
class ScheduleMutant:
    """A shipped schedule with one fault.

    Attributes:
        name: Schedule, place and fault.
        schedule: The schedule with the fault.
        moves_data: Whether the fault is in an operation that moves data.
    """

    name: str
    schedule: Schedule
    moves_data: bool

    @property
    def refusal(self) -> str:
        """Check the schedule; return the error, or "" if the checker finds no fault."""
        try:
            check(self.schedule)
        except ScheduleError as error:
            return str(error)
        return ""

    @property
    def harmless(self) -> str:
        """Return why the schedule is right in spite of the fault, if the checker finds none.

        The checker orders all conflicting accesses and derives every line of out.
        """
        if self.moves_data:
            return "every line of out has its value; the fault concerns lines that nobody reads"
        return "other signals and waits order all operations that touch the same lines"


def drawn_mutants(count: int, seed: int) -> Iterator[ScheduleMutant]:
    """Yield ``count`` mutants of shipped schedules of drawn shapes."""
    draw = random.Random(seed)
    for _ in range(count):
        original = _drawn_schedule(draw)
        rank = draw.randrange(original.ranks)
        number = draw.randrange(len(original.streams[rank]))
        at = draw.randrange(len(original.streams[rank][number].ops))
        yield draw.choice(list(_mutants_at(original, rank, number, at)))


def _mutants_at(original: Schedule, rank: int, number: int, at: int) -> Iterator[ScheduleMutant]:
    """Yield the mutants of one operation of a stream."""
    stream = original.streams[rank][number]
    words = [original.collective, original.adder, original.route]
    shape = " ".join(str(word) for word in words if word)
    shape += f", {original.ranks} ranks, {original.devices} devices, {original.lines} lines"
    for fault, ops in faults(stream.ops, at, original):
        name = f"{shape}: rank {rank} {stream.name} {at}: {fault}"
        moves = not (isinstance(stream.ops[at], _ORDER) or fault.startswith("swap"))
        yield ScheduleMutant(name, original.with_ops(rank, stream.name, ops), moves)


def _drawn_schedule(draw: random.Random) -> Schedule:
    collective = draw.choice(list(Collective))
    ranks, devices, lines = draw.choice([2, 3, 4]), draw.choice([1, 2, 3]), draw.choice([1, 9, 300])
    how: dict[str, Any] = {"granule": draw.choice([4, 64]), "tile": draw.choice([2, 16])}
    if collective in SUMS:
        how |= {"adder": draw.choice(list(Adder)), "route": draw.choice(list(Route))}
    return shipped_any(collective, ranks, devices, lines, **how)


def faults(
    ops: tuple[sched.Op, ...], at: int, schedule: Schedule
) -> Iterator[tuple[str, tuple[sched.Op, ...]]]:
    """Yield the faults of operation ``at`` of a stream: a text and the stream's new operations."""
    op = ops[at]
    yield f"drop ({text_of(op)})", (*ops[:at], *ops[at + 1 :])
    for changed in _changed(op, schedule):
        yield f"({text_of(op)}) becomes ({text_of(changed)})", (*ops[:at], changed, *ops[at + 1 :])
    if at + 1 < len(ops) and _weaker(op, ops[at + 1]):
        yield (
            f"swap ({text_of(op)}) and ({text_of(ops[at + 1])})",
            (*ops[:at], ops[at + 1], op, *ops[at + 2 :]),
        )


def _weaker(first: sched.Op, second: sched.Op) -> bool:
    """Return whether a swap lets an operation leave its wait or its signal's release."""
    if isinstance(second, sched.Signal):
        return not isinstance(first, _ORDER)
    opens = isinstance(first, sched.Wait | sched.Ready | sched.Close)
    return opens and (
        isinstance(second, sched.Close | sched.Commit) or not isinstance(second, _ORDER)
    )


def _changed(op: sched.Op, schedule: Schedule) -> Iterator[sched.Op]:
    """Yield the operation with one field changed."""
    change: Any = replace  # fields by name
    if isinstance(op, sched.Wait):
        yield from _weaker_waits(op)
    elif isinstance(op, sched.Signal):
        yield replace(op, number=op.number + 1)
    elif isinstance(op, sched.Add) and op.sources[0] != op.sources[-1]:
        yield replace(op, sources=(op.sources[-1], *op.sources[1:-1], op.sources[0]))
    for name, value in vars(op).items():
        if name == "device" and schedule.devices > 1:
            yield change(op, device=(value + 1) % schedule.devices)
        elif name == "line":
            yield change(op, line=value + 1)
        elif isinstance(value, sched.Place):
            yield change(op, **{name: replace(value, line=value.line + 1)})
        if name in ("line", "count"):
            yield change(op, **{name: value - 1})


def _weaker_waits(op: sched.Wait) -> Iterator[sched.Wait]:
    if op.number > 1:
        yield replace(op, number=op.number - 1)
    if len(op.ranks) > 1:
        yield replace(op, ranks=op.ranks[1:])
    if op.back:
        yield replace(op, back=0)

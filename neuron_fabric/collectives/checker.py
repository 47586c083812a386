# SPDX-License-Identifier: Apache-2.0
"""Checker of schedules: finds races, wait cycles, wrong outputs and uneven load before any run.

The checker runs a schedule once, in an order that its waits allow, and computes two things:

- What each line holds: a line of a rank's "in", or the sum of that line over all ranks. At the end
  "out" must hold what the collective defines.
- A vector clock for each stream. Entry t of the clock of an operation counts the operations of
  stream t that end before it begins in every run. `Signal` publishes the clock, `Wait` joins it.

Two operations on one line, one of which writes, are a race unless the clock of one of them counts
the other. A schedule without races gives the same output in every order, so the one run stands for
all of them (Lamport 1978; Flanagan and Freund, FastTrack, 2009).

Collectives e and e + 1 work on different places, and e + 2 begins after `DONE` of e of all ranks.
Only the regions of a device that adds connect them: collective e commits the region that e - 1 has
used, for e + 1. So the clocks also count which ranks are known to have ended e - 1, before `Close`
and `Commit`, and which regions are known to be committed for e, before `Contribute`.
"""

from __future__ import annotations

from array import array
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from neuron_fabric.collectives import schedule as sched
from neuron_fabric.collectives.schedule import DONE, STREAMS, Adder, Collective, Schedule
from neuron_fabric.collectives.shipped import ROOTED, SUMS, views_of
from neuron_fabric.errors import InputError

Lines = NDArray[np.int64]

EVEN_FROM = 64
"""Granules or tiles a device from which the load of the devices must be even."""
MAX_LOAD = 1.05
"""Greatest load of a device over the mean."""
MAX_LINES = 1 << 26
"""Most lines of all buffers and devices in a run."""
_READ, _WRITE, _CONTRIBUTE = range(3)
_EMPTY, _MIXED = 0, -(2**62)


class ScheduleError(InputError):
    """A schedule is wrong: an operation that does not exist, a race, a cycle, a wrong output."""


@dataclass(frozen=True)
class Load:
    """Traffic of a schedule.

    Attributes:
        ops: Number of operations of all ranks.
        written: Lines written and contributed to each device, int64[devices].
        read: Lines read from each device, int64[devices].
        uneven: Greater of both maxima over the means; None below `EVEN_FROM`.
    """

    ops: int
    written: Lines
    read: Lines
    uneven: float | None


@dataclass
class _Thread:
    """A stream of a rank in the run: the next operation, and the row of its clock."""

    number: int
    rank: int
    name: str
    ops: tuple[sched.Op, ...]
    at: int = 0
    row: int = 0
    last_signal: int = DONE


def text_of(op: sched.Op) -> str:
    """Return an operation in one line, as `write device=1 line=64 count=2 source=in:0`."""
    words = [f"{f.name}={_word(getattr(op, f.name))}" for f in fields(op)]
    return " ".join([type(op).__name__.lower(), *words])


def _word(value: Any) -> str:
    if isinstance(value, sched.Place):
        return f"{value.buffer}:{value.line}"
    return ",".join(_word(one) for one in value) if isinstance(value, tuple) else str(value)


def check(schedule: Schedule) -> Load:
    """Check a schedule.

    Args:
        schedule: The schedule.

    Returns:
        Its traffic.

    Raises:
        ScheduleError: The schedule breaks a rule; the error names the operations.
    """
    run = _Run(schedule)
    run.run()
    run.check_commits()
    run.check_races()
    run.check_run_ahead()
    run.check_outputs()
    run.check_barrier()
    return Load(run.ops, run.load[0], run.load[1], run.check_load())


class _Run:
    """One run of a schedule: contents of all lines, vector clocks, and accesses."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self._check_header()
        ranks, devices = schedule.ranks, schedule.devices
        self.threads = [
            _Thread(number, rank, stream.name, stream.ops)
            for number, (rank, stream) in enumerate(
                (rank, stream) for rank in range(ranks) for stream in schedule.streams[rank]
            )
        ]
        self.region = self._region_lines()
        self.ops = sum(len(thread.ops) for thread in self.threads)
        self.symbols = max(schedule.size(rank, sched.Buffer.IN) for rank in range(ranks)) + 1
        # All lines have one axis: regions, plain memory, then out, scratch and in of each rank.
        self.plain_at = devices * self.region
        self.out_at = self.plain_at + devices * schedule.room
        self.held = np.zeros((devices, schedule.room), np.int64)
        self.given = np.zeros((devices, self.region, ranks), np.int64)
        self.local: dict[tuple[int, sched.Buffer], Lines] = {}
        self.base: dict[tuple[int, sched.Buffer], int] = {}
        at = self.out_at
        for buffer in (sched.Buffer.OUT, sched.Buffer.SCRATCH, sched.Buffer.IN):
            for rank in range(ranks):
                size = schedule.size(rank, buffer)
                self.local[rank, buffer] = np.zeros(size, np.int64)
                self.base[rank, buffer] = at
                at += size
            if buffer is sched.Buffer.OUT:
                self.scratch_at = at
        for rank in range(ranks):
            lines = self.local[rank, sched.Buffer.IN]
            lines[:] = 1 + rank * self.symbols + np.arange(len(lines))
        self.ended = len(self.threads)
        self.committed = self.ended + ranks
        self.clocks: list[Lines] = [np.zeros(self.committed + devices, np.int64)]
        self.signals: dict[tuple[int, int], Lines] = {}
        self.sums: dict[tuple[int, int, int], Lines] = {}
        self.accesses = array("q")
        self.leader_ops: dict[tuple[type[sched.Op], int], tuple[int, int, int]] = {}
        self.load = np.zeros((2, devices), np.int64)

    def _region_lines(self) -> int:
        return max(
            (
                op.line + op.count
                for streams in self.schedule.streams
                for stream in streams
                for op in stream.ops
                if isinstance(op, sched.Contribute | sched.Result)
            ),
            default=0,
        )

    def fail(self, what: str, todo: str) -> NoReturn:
        """Raise the error for this schedule."""
        one = self.schedule
        raise ScheduleError(
            f"{one.collective} of {one.ranks} ranks and {one.devices} devices", what, todo
        )

    def name(self, number: int, at: int) -> str:
        """Return the name of operation ``at`` of a stream, for errors."""
        thread = self.threads[number]
        return f"rank {thread.rank} {thread.name} {at} ({text_of(thread.ops[at])})"

    def _check_header(self) -> None:
        """Check the header, and that the run fits into memory."""
        one = self.schedule
        positive = {"ranks": one.ranks, "devices": one.devices, "granule": one.granule}
        for name, value in {**positive, "tile": one.tile}.items():
            if value < 1:
                self.fail(f"{name} is {value}", "set it to at least 1")
        if min(one.lines, one.room, one.scratch) < 0 or len(one.streams) != one.ranks:
            self.fail("negative sizes, or streams of other ranks", "give streams for each rank")
        if (one.root is None) is (one.collective in ROOTED) or not 0 <= (one.root or 0) < one.ranks:
            self.fail(f"its root is {one.root}", "name a rank, or null for collectives without")
        sums = one.collective in SUMS
        if sums is (one.adder is None) or sums is (one.route is None):
            self.fail("adder or route do not fit", "give both for sums, null for the others")
        known = views_of(one.route, one.ranks) if one.route else ()
        if not set(one.views) <= set(known) or sums is not bool(one.views):
            self.fail(f"its views are {','.join(one.views) or 'none'}", f"use {','.join(known)}")
        for streams in one.streams:
            names = [stream.name for stream in streams]
            if len({*names} & {*STREAMS}) < len(names):
                self.fail(f"streams {','.join(names)}", f"use each of {','.join(STREAMS)} once")
        lines = max(one.ranks * max(1, len(one.views)) * one.lines, one.scratch) * one.ranks
        if lines + one.devices * (one.room + self._region_lines() * one.ranks) > MAX_LINES:
            self.fail(f"more than {MAX_LINES:,} lines in all", "check it with fewer lines")

    # -- one run ----------------------------------------------------------------------------------

    def run(self) -> None:
        """Run all streams in an order that the waits allow; fail at a wait cycle."""
        left = [
            sum(one.rank == rank for one in self.threads) for rank in range(self.schedule.ranks)
        ]
        for rank in np.flatnonzero(np.array(left) == 0).tolist():
            self._publish_end(rank)
        waiting: dict[tuple[int, int], list[_Thread]] = defaultdict(list)
        ready = deque(self.threads)
        steps: dict[type[sched.Op], Callable[[_Thread, Any], None]] = {
            sched.Write: self._write,
            sched.Read: self._read,
            sched.Copy: self._copy,
            sched.Contribute: self._contribute,
            sched.Result: self._result,
            sched.Ready: self._ready,
            sched.Close: self._lead,
            sched.Commit: self._lead,
            sched.Add: self._add,
        }
        while ready:
            thread = ready.popleft()
            while thread.at < len(thread.ops):
                op = thread.ops[thread.at]
                if type(op) is sched.Wait:
                    if missing := self._missing(thread, op):
                        waiting[missing].append(thread)
                        break
                    self._wait(thread, op)
                elif type(op) is sched.Signal:
                    self._signal(thread, op)
                    ready.extend(waiting.pop((thread.rank, op.number), ()))
                else:
                    steps[type(op)](thread, op)
                thread.at += 1
            else:
                left[thread.rank] -= 1
                if not left[thread.rank]:
                    self._publish_end(thread.rank)
                    ready.extend(waiting.pop((thread.rank, DONE), ()))
        if waiting:
            self._fail_stuck(waiting)

    def _missing(self, thread: _Thread, op: sched.Wait) -> tuple[int, int] | None:
        if not op.ranks or min(op.ranks) < 0 or max(op.ranks) >= self.schedule.ranks:
            self.fail(f"{self._now(thread)}: no such rank", "name ranks of the schedule")
        if op.back:
            if op.back != 1 or op.number != DONE:
                self.fail(f"{self._now(thread)}: back must be 0, or 1 for DONE", "correct it")
            return None
        keys = ((rank, op.number) for rank in op.ranks)
        return next((key for key in keys if key not in self.signals), None)

    def _now(self, thread: _Thread) -> str:
        return self.name(thread.number, thread.at)

    def _clock(self, thread: _Thread) -> Lines:
        """Return a copy of the clock of a stream that counts its own operations so far."""
        clock = self.clocks[thread.row].copy()
        clock[thread.number] = thread.at
        return clock

    def _advance(self, thread: _Thread, clock: Lines) -> None:
        thread.row = len(self.clocks)
        self.clocks.append(clock)

    def _wait(self, thread: _Thread, op: sched.Wait) -> None:
        clock = self._clock(thread)
        if op.back:
            clock[[self.ended + rank for rank in op.ranks]] = 1
        else:
            known = [self.signals[rank, op.number] for rank in op.ranks]
            clock = np.maximum.reduce([clock, *known])
        self._advance(thread, clock)

    def _signal(self, thread: _Thread, op: sched.Signal) -> None:
        if op.number <= thread.last_signal:
            self.fail(f"{self._now(thread)} does not ascend in its stream", "number it higher")
        if (thread.rank, op.number) in self.signals:
            self.fail(f"{self._now(thread)} is given twice by its rank", "number one of them anew")
        thread.last_signal = op.number
        clock = self._clock(thread)
        clock[thread.number] += 1  # the signal itself, for barriers
        self.signals[thread.rank, op.number] = clock

    def _publish_end(self, rank: int) -> None:
        clocks = [self._clock(one) for one in self.threads if one.rank == rank]
        self.signals[rank, DONE] = np.maximum.reduce([self.clocks[0], *clocks])

    def _fail_stuck(self, waiting: dict[tuple[int, int], list[_Thread]]) -> NoReturn:
        """Report a signal that nobody gives, or else the streams of a cycle."""
        given = {
            (one.rank, op.number)
            for one in self.threads
            for op in one.ops
            if type(op) is sched.Signal
        }
        for key, threads in waiting.items():
            if key not in given and key[1] != DONE:
                self.fail(
                    f"{self._now(threads[0])}: rank {key[0]} never gives signal {key[1]}",
                    "add the signal or drop the wait",
                )
        stuck = [self._now(one) for threads in waiting.values() for one in threads]
        self.fail(f"wait cycle: {' <- '.join(stuck[:2])}", "signal before the wait")

    # -- operations -------------------------------------------------------------------------------

    def _device(self, thread: _Thread, op: Any) -> None:
        if not (0 <= op.device < self.schedule.devices):
            self.fail(f"{self._now(thread)}: no such device", "name a device of the schedule")

    def _extent(self, thread: _Thread, op: Any, lines: int) -> None:
        self._device(thread, op)
        if op.count < 1 or op.line < 0 or op.line + op.count > lines:
            self.fail(f"{self._now(thread)}: outside the {lines} lines there", "correct line")

    def _place(self, thread: _Thread, place: sched.Place, count: int, kind: int) -> Lines:
        """Return the lines of a local buffer, and record the access."""
        lines = self.local[thread.rank, place.buffer]
        if count < 1 or place.line < 0 or place.line + count > len(lines):
            self.fail(
                f"{self._now(thread)}: outside the {len(lines)} lines of {place.buffer}",
                "correct line or count",
            )
        if place.buffer is not sched.Buffer.IN:
            at = self.base[thread.rank, place.buffer] + place.line
            self._access(thread, at, count, kind)
        elif kind == _WRITE:
            self.fail(f"{self._now(thread)}: writes the input", "use out or scratch")
        return lines[place.line : place.line + count]

    def _access(self, thread: _Thread, at: int, count: int, kind: int) -> None:
        self.accesses.extend((at, at + count, thread.number, thread.at, kind, thread.row))

    def _write(self, thread: _Thread, op: sched.Write) -> None:
        room = self.schedule.room
        self._extent(thread, op, room)
        source = self._place(thread, op.source, op.count, _READ)
        self.held[op.device, op.line : op.line + op.count] = source
        self._access(thread, self.plain_at + op.device * room + op.line, op.count, _WRITE)
        self.load[0, op.device] += op.count

    def _read(self, thread: _Thread, op: sched.Read) -> None:
        room = self.schedule.room
        self._extent(thread, op, room)
        target = self._place(thread, op.target, op.count, _WRITE)
        target[:] = self.held[op.device, op.line : op.line + op.count]
        self._access(thread, self.plain_at + op.device * room + op.line, op.count, _READ)
        self.load[1, op.device] += op.count

    def _copy(self, thread: _Thread, op: sched.Copy) -> None:
        source = self._place(thread, op.source, op.count, _READ)
        self._place(thread, op.target, op.count, _WRITE)[:] = source

    def _contribute(self, thread: _Thread, op: sched.Contribute) -> None:
        self._region_of(thread, op)
        self._extent(thread, op, self.region)
        if not self.clocks[thread.row][self.committed + op.device]:
            self.fail(
                f"{self._now(thread)}: its region may not be committed yet",
                f"add `ready device={op.device}` before it",
            )
        source = self._place(thread, op.source, op.count, _READ)
        lines = self.given[op.device, op.line : op.line + op.count, thread.rank]
        if lines.any():
            self.fail(f"{self._now(thread)}: contributes a line twice", "drop one of them")
        lines[:] = source
        self._access(thread, op.device * self.region + op.line, op.count, _CONTRIBUTE)
        self.load[0, op.device] += op.count

    def _result(self, thread: _Thread, op: sched.Result) -> None:
        self._region_of(thread, op)
        self._extent(thread, op, self.region)
        if op.view not in self.schedule.views:
            self.fail(f"{self._now(thread)}: no such view", "name one of the schedule's views")
        target = self._place(thread, op.target, op.count, _WRITE)
        key = op.device, op.line, op.count
        if key not in self.sums:
            self.sums[key] = self._sum(self.given[op.device, op.line : op.line + op.count].T)
        target[:] = self.sums[key] - self.symbols * self.schedule.views.index(op.view)
        self._access(thread, op.device * self.region + op.line, op.count, _READ)
        self.load[1, op.device] += op.count

    def _add(self, thread: _Thread, op: sched.Add) -> None:
        if self.schedule.adder is not Adder.PASSIVE:
            self.fail(f"{self._now(thread)}: the ranks do not add", "set adder to passive")
        parts = [self._place(thread, source, op.count, _READ) for source in op.sources]
        total = self._sum(np.array(parts))
        for view in range(len(self.schedule.views)):
            place = sched.Place(op.target.buffer, op.target.line + view * self.schedule.lines)
            target = self._place(thread, place, op.count, _WRITE)
            target[:] = total - self.symbols * view

    def _sum(self, parts: Lines) -> Lines:
        """Return what view 0 of a sum holds; ``parts[r]`` must be the same line of each rank r."""
        first = parts[0]
        own = first + self.symbols * np.arange(len(parts))[:, None]
        good = (parts == own).all(axis=0) & (first > 0) & (first < self.symbols)
        good &= len(parts) == self.schedule.ranks
        return np.where(good, -first, _MIXED)

    def _region_of(self, thread: _Thread, op: Any) -> None:
        self._device(thread, op)
        if self.schedule.adder is not Adder.DEVICE:
            self.fail(f"{self._now(thread)}: no device adds", "set adder to device")

    def _ready(self, thread: _Thread, op: sched.Ready) -> None:
        self._region_of(thread, op)
        clock = self._clock(thread)
        clock[self.committed + op.device] = 1
        self._advance(thread, clock)

    def _lead(self, thread: _Thread, op: sched.Close | sched.Commit) -> None:
        self._region_of(thread, op)
        key = type(op), op.device
        if key in self.leader_ops:
            other = self.name(*self.leader_ops[key][:2])
            self.fail(f"{self._now(thread)} repeats {other}", "drop one of them")
        self.leader_ops[key] = thread.number, thread.at, thread.row
        ended = self.clocks[thread.row][self.ended : self.committed]
        if not ended.all():
            rank = int(np.flatnonzero(ended == 0)[0])
            self.fail(
                f"{self._now(thread)} races with the contributions and results of rank {rank} in "
                "the collective before",
                f"add `wait ranks={rank} number={DONE} back=1` before it",
            )

    # -- rules over the whole run -----------------------------------------------------------------

    def check_commits(self) -> None:
        """Check that each region is closed and then committed once for the next use."""
        if self.schedule.adder is not Adder.DEVICE:
            return
        for device in range(self.schedule.devices):
            for kind in (sched.Close, sched.Commit):
                if (kind, device) not in self.leader_ops:
                    self.fail(f"no {kind.__name__.lower()} device={device}", "add it to a leader")
            close, commit = (self.leader_ops[kind, device] for kind in (sched.Close, sched.Commit))
            known = self.clocks[commit[2]][close[0]]
            if not (known > close[1] or (close[0] == commit[0] and close[1] < commit[1])):
                first, second = self.name(*close[:2]), self.name(*commit[:2])
                self.fail(f"{second} races with {first}", "close before the commit")

    def check_races(self) -> None:
        """Check that conflicting accesses are ordered, and who writes a line, and how often."""
        table = np.frombuffer(self.accesses, np.int64).reshape(-1, 6)
        if not len(table):
            return
        clocks = np.stack(self.clocks)
        _, _, thread, number, kind, row = table.T
        rank = np.array([one.rank for one in self.threads])[thread]
        for left, right, where in _pairs(table, self.scratch_at):
            both = (kind[left] == _CONTRIBUTE) & (kind[right] == _CONTRIBUTE)
            writes = (kind[left] == _WRITE) & (kind[right] == _WRITE)
            plain = (where >= self.plain_at) & (where < self.out_at)
            out = (where >= self.out_at) & (where < self.scratch_at)
            same, others = thread[left] == thread[right], rank[left] != rank[right]
            ordered = (clocks[row[right], thread[left]] > number[left]) | (
                clocks[row[left], thread[right]] > number[right]
            )
            for wrong, what, todo in (
                (~(both | same | ordered), "races with", "add a signal and a wait between them"),
                (writes & out, "writes a line of out that was written by", "write each line once"),
                (writes & plain & others, "writes a line of", "give each line one writer"),
            ):
                if wrong.any():
                    at = int(np.argmax(wrong))
                    one, other = (self.name(*table[side[at], 2:4]) for side in (right, left))
                    self.fail(f"{one} {what} {other}", todo)

    def check_run_ahead(self) -> None:
        """Check that no rank is more than two tiles on a device ahead of another one.

        More lines than that may not fit into the slots of the device, of which a tile is at most a
        quarter.
        """
        table = np.frombuffer(self.accesses, np.int64).reshape(-1, 6)
        table = table[table[:, 4] == _CONTRIBUTE]
        if not len(table):
            return
        clocks = np.stack(self.clocks)
        device = table[:, 0] // self.region
        for key in np.unique(device * len(self.threads) + table[:, 2]):
            number, owner = divmod(int(key), len(self.threads))
            here = table[device == number]
            own = here[here[:, 2] == owner]
            own = own[np.argsort(own[:, 0], kind="stable")]
            latest = np.maximum.accumulate(own[:, 3])
            count = np.searchsorted(own[:, 0], here[:, 1] - 2 * self.schedule.tile)
            last = np.where(count > 0, latest[np.maximum(count, 1) - 1], -1)
            known = np.where(here[:, 2] == owner, here[:, 3], clocks[here[:, 5], owner])
            if (late := np.flatnonzero(known <= last)).size:
                one = here[late[0]]
                self.fail(
                    f"{self.name(*one[2:4])} is more than two tiles ahead of "
                    f"{self.name(owner, int(last[late[0]]))}",
                    "wait for that contribution",
                )

    def check_outputs(self) -> None:
        """Check that "out" of each rank holds what the collective defines."""
        for rank in range(self.schedule.ranks):
            got = self.local[rank, sched.Buffer.OUT]
            want = _expected(self.schedule, rank, self.symbols)
            if (wrong := np.flatnonzero(got != want)).size:
                line = int(wrong[0])
                self.fail(
                    f"line {line} of out of rank {rank} is {self._symbol(got[line])}, not "
                    f"{self._symbol(want[line])}",
                    "correct the operations that write it",
                )

    def _symbol(self, value: int) -> str:
        if value == _EMPTY:
            return "not written"
        if value < _MIXED // 2:
            return "a sum that lacks a rank or mixes lines"
        which, line = divmod(abs(value) - 1, self.symbols)
        return f"line {line} of rank {which}" if value > 0 else f"view {which} of sum {line}"

    def check_barrier(self) -> None:
        """Check that each rank leaves a barrier after all ranks have entered it."""
        ranks = range(self.schedule.ranks)
        if self.schedule.collective is not Collective.BARRIER:
            return
        for rank in ranks:
            entered = {one.rank for one in self.threads if self.signals[rank, DONE][one.number]}
            if missing := {*ranks} - entered - {rank}:
                self.fail(
                    f"rank {rank} may leave before rank {min(missing)} enters",
                    "wait for a signal of that rank",
                )

    def check_load(self) -> float | None:
        """Check that the devices have even loads, from `EVEN_FROM` granules a device on."""
        one = self.schedule
        unit = one.tile * one.ranks if one.adder is Adder.DEVICE else one.granule
        if self.load[0].mean() < EVEN_FROM * unit:
            return None
        uneven = self.load.max(axis=1) / self.load.mean(axis=1)
        for lines, ratio, what in zip(self.load, uneven, ("written", "read"), strict=True):
            if ratio > MAX_LOAD:
                self.fail(
                    f"device {lines.argmax()} has {ratio:.2f} x the mean of lines {what}",
                    f"spread lines evenly, to {MAX_LOAD} x",
                )
        return float(uneven.max())


def _pairs(table: Lines, alone_from: int) -> Iterator[tuple[Lines, Lines, Lines]]:
    """Yield pairs of accesses to a line of which one writes, as indices, and their first line.

    The bounds of all accesses cut the axis of lines into cells. In each cell the accesses are
    sorted, writes first; the j-th pairs are those of write j of each cell and the accesses after
    it. Cells of one stream from ``alone_from`` on are left out.
    """
    bounds = np.unique(table[:, :2])
    first = np.searchsorted(bounds, table[:, 0])
    cells = np.searchsorted(bounds, table[:, 1]) - first
    who = np.repeat(np.arange(len(table)), cells)
    cell = np.repeat(first, cells) + _counted(cells)
    order = np.argsort(2 * cell + (table[who, 4] == _READ), kind="stable")
    who, cell = who[order], cell[order]
    start = np.flatnonzero(np.diff(cell, prepend=-1))
    size = np.diff(start, append=len(cell))
    writes = np.add.reduceat(table[who, 4] != _READ, start, dtype=np.int64)
    thread = table[who, 2]
    alone = np.minimum.reduceat(thread, start) == np.maximum.reduceat(thread, start)
    alone &= bounds[cell[start]] >= alone_from
    for write in range(int(writes.max())):
        more = np.flatnonzero((writes > write) & ~alone & (size > write + 1))
        count = size[more] - write - 1
        left = np.repeat(start[more] + write, count)
        right = left + 1 + _counted(count)
        yield who[left], who[right], bounds[cell[left]]


def _counted(counts: Lines) -> Lines:
    """Return 0, 1 .. count - 1 for each of ``counts``, in one array."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)


def _expected(schedule: Schedule, rank: int, symbols: int) -> Lines:
    """Return what "out" of ``rank`` must hold at the end."""
    size = schedule.size(rank, sched.Buffer.OUT)
    lines = np.arange(schedule.lines)
    part = 1 + rank * schedule.lines + lines
    match schedule.collective:
        case Collective.ALL_GATHER | Collective.GATHER:
            every = symbols * np.arange(schedule.ranks)[:, None] + 1 + lines
            return every.reshape(-1)[:size]
        case Collective.BROADCAST:
            return symbols * (schedule.root or 0) + 1 + lines
        case Collective.SCATTER:
            return symbols * (schedule.root or 0) + part
        case Collective.REDUCE_SCATTER:
            first = part
        case _:
            first = 1 + lines
    views = symbols * np.arange(len(schedule.views))[:, None]
    return -(views + first).reshape(-1)[:size]

# SPDX-License-Identifier: Apache-2.0
"""Executor of schedules by processes that share memory: `pool.c`, or numpy with the same bits.

`program_of` translates one rank's part of a schedule to a table of operations on lines of four
memories: the pool, and the rank's buffers "in", "out" and scratch. `Runner.run` executes it.

The devices of the schedule are rooms of the shared memory, one after another. Data that a rank
would copy to its scratch buffer only to add it is added where it is in the pool: nobody overwrites
a line of the pool before all ranks have signalled `DONE`.
"""

from __future__ import annotations

import ctypes
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuron_fabric.codec import LINE, U8, native
from neuron_fabric.collectives.schedule import (
    DONE,
    Add,
    Buffer,
    Copy,
    Op,
    Place,
    Read,
    Schedule,
    Signal,
    Wait,
    Write,
)

SOURCE = Path(__file__).with_name("pool.c")
PAGE = 4096
"""Bytes of the page of bells of a rank."""
MAX_RANKS = 64
"""Ranks of a wait are the bits of one word."""
ABORT, CALL, SEEN, AT, SIGNATURE, BELLS = 0, 1, 2, 3, 4, 64
"""Words of a page: abort flag, call, time and number of the last signal, two signatures, bells. The
others are of `pool.c` alone, whose ranks sleep."""
TEXT = 3072
"""First byte of the texts of a page: two calls and the reason of an abort, `TEXTS` bytes each."""
TEXTS = 340
MAX_SIGNAL = TEXT // 8 - BELLS - 1
KINDS = [
    (np.dtype(kind), join)
    for kind in (np.float32, np.float64, np.int32, np.int64)
    for join in ("sum", "min", "max")
]
"""Types and operations of `pool.c`, in its order."""
_STREAMS = 3

Words = NDArray[np.uint64]
Numbers = NDArray[np.int64]
AddLines = Callable[[list[U8], list[U8]], None]
"""Adds the lines of each rank, uint8[n, 64], into each view of the result, uint8[n, 64]."""


class RunState(IntEnum):
    """State in which a run returns."""

    DONE = 0
    NUMBERS = 1
    """The operation at `number` is next, and it is not one of `pool.c`."""
    BLOCKED = 2
    """The rank waits for signal `number` of rank `who`, -1 for its call."""
    ABORTED = 3
    """Rank `who` has aborted the pool."""
    DIFFERENT = 4
    """Rank `who` is in the same call with another signature."""


class OpKind(IntEnum):
    """Operations of a program."""

    COPY = 0
    SIGNAL = 1
    WAIT = 2
    ADD = 3


class Room(IntEnum):
    """Memories of a program."""

    POOL = 0
    IN = 1
    OUT = 2
    SCRATCH = 3


_BUFFERS = {Buffer.IN: Room.IN, Buffer.OUT: Room.OUT, Buffer.SCRATCH: Room.SCRATCH}


class RunArgument(ctypes.Structure):
    """Argument of `nf_pool_run`, see `pool.c`."""

    _fields_ = (
        ("pages", ctypes.c_void_p),
        ("memory", ctypes.c_void_p * 4),
        ("ops", ctypes.c_void_p),
        ("sources", ctypes.c_void_p),
        ("next", ctypes.c_int64 * _STREAMS),
        ("end", ctypes.c_int64 * _STREAMS),
        *(
            (name, ctypes.c_int64)
            for name in ("rank", "world", "epoch", "call", "verified", "lines", "bytes")
        ),
        ("stride", ctypes.c_int64 * 4),
        *(
            (name, ctypes.c_int64)
            for name in ("adder", "signature", "slice_ns", "who", "number", "awaited")
        ),
    )


@dataclass(frozen=True)
class Program:
    """Part of a schedule that one rank runs.

    Attributes:
        ops: Operations int64[n, 5]: kind, lines, then for
            COPY target and source, each as memory << 48 | line;
            SIGNAL number;
            WAIT number, ranks as bits, collectives back;
            ADD target, first of its ``sources``, their number.
        sources: Sources of all additions, int64[m].
        bounds: First operation of each stream, and the end of the last.
        lines: `Schedule.lines`.
        views: Number of views of an addition.
        room: Lines of the pool for one parity.
        scratch: Lines of the scratch buffer.
    """

    ops: Numbers
    sources: Numbers
    bounds: tuple[int, ...]
    lines: int
    views: int
    room: int
    scratch: int

    def start(self, run: RunArgument) -> None:
        """Point ``run`` at the first operations."""
        run.lines = max(1, self.lines)
        ctypes.memmove(ctypes.addressof(run) + RunArgument.ops.offset, self.image, len(self.image))

    @cached_property
    def image(self) -> bytes:
        """Return the fields from ``ops`` to ``end`` of `RunArgument`."""
        run = RunArgument(ops=self.ops.ctypes.data, sources=self.sources.ctypes.data)
        run.next[:], run.end[:] = self.bounds[:-1], self.bounds[1:]
        return bytes(run)[RunArgument.ops.offset : RunArgument.rank.offset]


class _Lowering:
    """Translation of the streams of a rank."""

    def __init__(self, schedule: Schedule, rank: int) -> None:
        self.schedule = schedule
        self.ops: list[list[int]] = []
        self.sources: list[int] = []
        self.bounds = [0]
        self.aliases = np.full(schedule.scratch, -1, np.int64)
        self.once = _writes_once(schedule)
        for stream in schedule.streams[rank]:
            for op in stream.ops:
                self.translate(op)
            self.bounds.append(len(self.ops))
        self.bounds += [len(self.ops)] * (_STREAMS + 1 - len(self.bounds))

    def pool(self, device: int, line: int) -> int:
        return Room.POOL << 48 | device * self.schedule.room + line

    def place(self, place: Place) -> int:
        return _BUFFERS[place.buffer] << 48 | place.line

    def translate(self, op: Op) -> None:
        match op:
            case Write(device, line, count, source):
                self.copy(count, self.pool(device, line), source)
            case Read(device, line, count, Place(Buffer.SCRATCH, first)) if self.once:
                self.aliases[first : first + count] = self.pool(device, line) + np.arange(count)
            case Read(device, line, count, target):
                self.put(OpKind.COPY, count, self.place(target), self.pool(device, line))
            case Copy(count, source, target):
                self.copy(count, self.place(target), source)
            case Signal(number):
                if number > MAX_SIGNAL:
                    raise ValueError(f"signal {number}, and a pool has {MAX_SIGNAL}")
                self.put(OpKind.SIGNAL, 0, number)
            case Wait(ranks, number, back):
                self.put(OpKind.WAIT, 0, number, sum(1 << rank for rank in ranks), back)
            case Add():
                self.add(op)
            case _:
                raise ValueError(f"{type(op).__name__.lower()} needs devices that add")

    def put(self, kind: OpKind, count: int, target: int, source: int = 0, extra: int = 0) -> None:
        """Append an operation, or extend the copy before it."""
        last = self.ops[-1] if len(self.ops) > self.bounds[-1] else [-1] * 5
        follows = last[0] == kind == OpKind.COPY and (last[2] + last[1], last[3] + last[1]) == (
            target,
            source,
        )
        if follows and not (self.opens_part(target) or self.opens_part(source)):
            last[1] += count
        else:
            self.ops.append([kind, count, target, source, extra])

    def opens_part(self, at: int) -> bool:
        """Return whether a place is the first line of a part of a rank's buffer."""
        line = at & (1 << 48) - 1
        return at >> 48 in (Room.IN, Room.OUT) and line % self.schedule.lines == 0

    def copy(self, count: int, target: int, source: Place) -> None:
        for first, length, (at,) in self.runs(count, [source]):
            self.put(OpKind.COPY, length, target + first, at)

    def add(self, op: Add) -> None:
        target = self.place(op.target)
        for first, length, sources in self.runs(op.count, op.sources):
            self.put(OpKind.ADD, length, target + first, len(self.sources), len(sources))
            self.sources += sources
        if op.target.buffer is Buffer.SCRATCH:
            self.aliases[op.target.line : op.target.line + op.count] = -1

    def runs(self, count: int, places: Sequence[Place]) -> Iterator[tuple[int, int, list[int]]]:
        """Yield first line, number of lines and sources of the parts that are contiguous."""
        lines = np.array([self.resolve(place, count) for place in places])
        breaks = np.flatnonzero((np.diff(lines, axis=1) != 1).any(axis=0)) + 1
        for first, end in pairwise([0, *breaks.tolist(), count]):
            yield first, end - first, lines[:, first].tolist()

    def resolve(self, place: Place, count: int) -> Numbers:
        """Return the place of each of ``count`` lines."""
        own = self.place(place) + np.arange(count)
        if place.buffer is not Buffer.SCRATCH:
            return own
        aliases = self.aliases[place.line : place.line + count]
        return np.where(aliases < 0, own, aliases)


def _writes_once(schedule: Schedule) -> bool:
    """Return whether no line of the pool is written twice."""
    seen = np.zeros((schedule.devices, max(1, schedule.room)), np.int64)
    for streams in schedule.streams:
        for op in (op for stream in streams for op in stream.ops if isinstance(op, Write)):
            seen[op.device, op.line : op.line + op.count] += 1
    return bool(seen.max() <= 1)


def program_of(schedule: Schedule, rank: int) -> Program:
    """Return the program of a rank.

    Args:
        schedule: A schedule whose ranks add. An extent stays within one part of a buffer.
        rank: The rank.

    Raises:
        ValueError: The schedule needs a device that adds, or has too many ranks or signals.
    """
    if schedule.ranks > MAX_RANKS:
        raise ValueError(f"{schedule.ranks} ranks, and a pool has {MAX_RANKS} at most")
    low = _Lowering(schedule, rank)
    return Program(
        ops=np.array(low.ops, np.int64).reshape(-1, 5),
        sources=np.array(low.sources, np.int64),
        bounds=tuple(low.bounds),
        lines=schedule.lines,
        views=max(1, len(schedule.views)),
        room=schedule.devices * schedule.room,
        scratch=schedule.scratch,
    )


class Runner:
    """Executor of the programs of one rank.

    Attributes:
        run_state: State that `pool.c` shares; `who` and `number` say what it waits for.
        pages: Pages of bells uint64[W, PAGE / 8].
        memory: Memories uint8[bytes], in the order of `Room`.
    """

    def __init__(self, pages: Words, rank: int) -> None:
        """Use the pages of all ranks; `_library` may raise ValueError."""
        self.pages, self.memory = pages, [np.zeros(0, np.uint8)] * 4
        self.run_state = RunArgument(pages=pages.ctypes.data, rank=rank, world=len(pages))
        self.loops = _library()

    def run(self, program: Program, adder: AddLines | None) -> RunState:
        """Run the program until it is done, or for `slice_ns` nanoseconds without progress."""
        while True:
            if self.loops is None:
                result = self._run_numpy(program)
            else:
                result = RunState(self.loops.nf_pool_run(ctypes.byref(self.run_state)))
            if result is not RunState.NUMBERS:
                return result
            assert adder is not None
            self._add(program, self.run_state.number, adder)

    def _place(self, at: int, size: int) -> U8:
        """Return the bytes of a place, at most ``size``, and at most those of its part."""
        run, memory, line = self.run_state, Room(at >> 48), at & (1 << 48) - 1
        first = line * LINE
        if memory in (Room.IN, Room.OUT):
            part, line = divmod(line, run.lines)
            first = part * run.stride[memory] + line * LINE
            size = max(0, min(size, run.bytes - line * LINE))
        return self.memory[memory][first : first + size]

    def _add(self, program: Program, number: int, adder: AddLines) -> None:
        _, count, target, first, sources = program.ops[number].tolist()
        size = count * LINE
        given = [self._place(at, size) for at in program.sources[first : first + sources].tolist()]
        views = [self._place(target + v * program.lines, size) for v in range(program.views)]
        adder([one.reshape(-1, LINE) for one in given], [one.reshape(-1, LINE) for one in views])

    # The twin of `pool.c`, function by function.

    def _run_numpy(self, program: Program) -> RunState:
        run, start, polls = self.run_state, time.monotonic_ns(), 0
        while True:
            aborted, before = np.flatnonzero(self.pages[:, ABORT]), tuple(run.next)
            result = self._step(program)
            if result is RunState.DONE:
                self._give(DONE)
            if len(aborted) and result in (RunState.BLOCKED, RunState.DIFFERENT):
                run.who = int(aborted[0])
                return RunState.ABORTED
            if result is not RunState.BLOCKED:
                return result
            if tuple(run.next) != before:
                start = time.monotonic_ns()
            if time.monotonic_ns() - start > run.slice_ns:
                return RunState.BLOCKED
            polls += 1
            time.sleep(0 if polls < 100 else 0.0001)

    def _step(self, program: Program) -> RunState:
        run, result = self.run_state, RunState.DONE
        if self._given((1 << run.world) - 1, DONE, run.epoch - 2, verify=False):
            return RunState.BLOCKED
        self._announce()
        for stream in range(_STREAMS):
            while run.next[stream] < run.end[stream]:
                found = self._operation(program, run.next[stream])
                if found in (RunState.NUMBERS, RunState.DONE):
                    run.next[stream] += 1
                if found in (RunState.NUMBERS, RunState.DIFFERENT):
                    return found
                if found is RunState.BLOCKED:
                    result = found
                    break
        return result

    def _operation(self, program: Program, number: int) -> RunState:
        run = self.run_state
        kind, count, target, source, extra = program.ops[number].tolist()
        if kind == OpKind.SIGNAL:
            self._give(target)
        elif kind == OpKind.WAIT:
            return self._given(source, target, run.epoch - extra, verify=True)
        elif kind == OpKind.COPY:
            data = self._place(source, count * LINE)
            to = self._place(target, count * LINE)
            size = min(len(data), len(to))
            to[:size] = data[:size]
        elif run.adder < 0:
            run.number = number
            return RunState.NUMBERS
        else:
            places = [target, *program.sources[source : source + extra].tolist()]
            out, *given = (self._place(at, count * LINE) for at in places)
            size = min(map(len, (out, *given)))
            dtype, join = KINDS[run.adder]
            out[:size] = reduced([one[:size].view(dtype) for one in given], join).view(np.uint8)
        return RunState.DONE

    def _give(self, number: int) -> None:
        run, own = self.run_state, self.pages[self.run_state.rank]
        own[SEEN], own[AT] = time.monotonic_ns(), run.call << 16 | number
        own[BELLS + number] = run.epoch + 1

    def _announce(self) -> None:
        run, own = self.run_state, self.pages[self.run_state.rank]
        if own[CALL] != run.call:
            own[SIGNATURE + run.call % 2], own[SEEN] = run.signature, time.monotonic_ns()
            own[CALL] = run.call

    def _given(self, ranks: int, number: int, epoch: int, *, verify: bool) -> RunState:
        run = self.run_state
        signature = SIGNATURE + run.call % 2
        for rank in (rank for rank in range(run.world) if ranks >> rank & 1):
            run.who, run.number = rank, number
            if verify and not run.verified >> rank & 1:
                if int(self.pages[rank, CALL]) < run.call:
                    run.number = -1
                    return RunState.BLOCKED
                if self.pages[rank, signature] != self.pages[run.rank, signature]:
                    return RunState.DIFFERENT
                run.verified |= 1 << rank
            if int(self.pages[rank, BELLS + number]) <= epoch:
                return RunState.BLOCKED
        return RunState.DONE


def reduced(rows: Sequence[NDArray[Any]], join: str) -> NDArray[Any]:
    """Return the sum, minimum or maximum of arrays [n], in their order.

    A NaN of any array makes the result NaN, with the bits that the device gives it.
    """
    total = rows[0].copy()
    with np.errstate(all="ignore"):
        for row in rows[1:]:
            if join == "sum":
                total += row
            else:
                better = row < total if join == "min" else row > total
                np.copyto(total, row, where=better | (row != row))
        if total.dtype.kind == "f":
            total[np.isnan(total)] = np.nan
    return total


def _library() -> Any:
    """Return the library of `pool.c`, or None where NF_NATIVE=0 or a missing compiler forbids it.

    Raises:
        ValueError: This machine may reorder the stores of numpy.
    """
    why = "NF_NATIVE is 0"
    if os.environ.get("NF_NATIVE", "") != "0":
        try:
            loaded = ctypes.CDLL(str(native.library(code=SOURCE)))
        except (native.NoLibraryError, OSError) as error:
            why = str(error)
        else:
            loaded.nf_pool_run.argtypes = [ctypes.POINTER(RunArgument)]
            return loaded
    if platform.machine() not in ("x86_64", "AMD64"):
        raise ValueError(f"without the compiled loops ({why}) a pool needs an x86-64 machine")
    return None

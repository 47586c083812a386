# SPDX-License-Identifier: Apache-2.0
"""Collectives between the processes of a machine, through shared memory, on numpy arrays."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Self, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from neuron_fabric.codec import LINE, U8, Route, add_codes, count
from neuron_fabric.collectives.executor import (
    AT,
    CALL,
    KINDS,
    MAX_RANKS,
    SEEN,
    AddLines,
    Program,
    Room,
    Runner,
    RunState,
    program_of,
)
from neuron_fabric.collectives.meeting import Store, meet
from neuron_fabric.collectives.programs import EXCHANGE, Programs, views
from neuron_fabric.collectives.rounds import Closing, Rounds
from neuron_fabric.collectives.schedule import DONE, Buffer, Collective, Schedule
from neuron_fabric.collectives.shared_memory import (
    LEAST_ROOM,
    CollectiveTimeout,
    PoolError,
    SharedMemory,
)
from neuron_fabric.printable import one_line

TIMEOUT_S = 30.0
ROOM = 8 << 20
"""Bytes for the data of one collective; longer arrays take several, one after another."""
_SLICE_S = 0.25
"""Seconds without progress after which a rank looks whether the awaited process lives."""
_KEPT = 512
_SIGNATURE = (1 << 56) - 1
_KIND_OF = {kind: number for number, kind in enumerate(KINDS)}
Array = NDArray[Any]


@dataclass(frozen=True)
class _Call:
    """Collective call of a rank.

    Attributes:
        collective: The collective; "exchange" sends part p of ``given`` to rank p.
        what: Description that must be the same on all ranks.
        size: Bytes of a rank's vector or part.
        given: Bytes of the buffer "in".
        out: Bytes of the buffer "out".
        root: The root, or None.
        kind: Number in `KINDS` of an addition, -1 if ``adder`` adds, None if nothing is added.
        route: Route of packed lines.
        adder: Adds packed lines.
        program: Program for the whole call, of a schedule that is given.
    """

    collective: str
    what: str
    size: int
    given: U8 | None = None
    out: U8 | None = None
    root: int | None = None
    kind: int | None = None
    route: Route = Route.FP32
    adder: AddLines | None = None
    program: Program | None = None


class CallOptions(TypedDict, total=False):
    """Options of each collective call.

    Attributes:
        async_op: Whether to return a `Work` at once. False by default.
        timeout: Seconds to wait for another rank. That of `open_pool` by default.
    """

    async_op: bool
    timeout: float | None


class Work:
    """Call that runs in the background."""

    def __init__(self, future: Future[Any]) -> None:
        """Wrap the future of the call."""
        self.future = future

    def done(self) -> bool:
        """Return whether the call has ended, well or not."""
        return self.future.done()

    def wait(self) -> Any:
        """Wait for the call; return its result, or raise its PoolError."""
        return self.future.result()


def open_pool(
    path: str | os.PathLike[str] | None,
    rank: int,
    world: int,
    *,
    store: Store | None = None,
    timeout: float = TIMEOUT_S,
    room: int = ROOM,
) -> Pool:
    """Open a pool with the other ranks of a job; every rank must call it.

    Args:
        path: Name of the shared memory, in /dev/shm; it disappears when all ranks have opened it.
            With ``store`` it may be None: rank 0 draws a name.
        rank: This rank, 0 to ``world`` - 1.
        world: Number of ranks, up to 64, all on this machine.
        store: Store that all ranks share, as torch's: they check there that all open one path of
            one machine. Without it ranks of two machines wait for each other. After an error use
            another store or prefix: a rank that came twice leaves its keys there.
        timeout: Seconds to wait for another rank, here and in each call.
        room: Bytes for the data of one collective, the same on all ranks. The file has twice as
            many.

    Returns:
        The pool.

    Raises:
        PoolError: An argument is wrong, or the ranks do not come together.
    """
    where = f"pool {os.fspath(path or '')}".strip()
    if not isinstance(world, int) or not 1 <= world <= MAX_RANKS:
        raise PoolError(where, f"world is {world!r}", f"use 1 to {MAX_RANKS} ranks")
    if not isinstance(rank, int) or not 0 <= rank < world:
        raise PoolError(where, f"rank is {rank!r}", f"use 0 to {world - 1}")
    if str(path).startswith("unix:"):
        what = "a reducer server has no collectives"
        raise PoolError(where, what, 'use attach(reducer="unix:PATH"), or a path in /dev/shm')
    if room < LEAST_ROOM * world or room % LINE:
        what = f"a room of {room:,} bytes"
        raise PoolError(where, what, f"use a multiple of 64, at least {LEAST_ROOM * world:,}")
    if not timeout > 0:
        raise PoolError(where, f"timeout is {timeout!r}", "use seconds above 0")
    if store is not None:
        path = meet(store, rank, world, None if path is None else Path(path), timeout)
    if path is None:
        raise PoolError("pool", "no path", "give a path in /dev/shm, or a store")
    return Pool(SharedMemory(Path(path), rank, world, room, timeout), timeout)


class Pool:
    """Collectives of one rank over a shared memory; `open_pool` opens it.

    All ranks make the same calls in one order. Each call returns when its result is there; with
    ``async_op`` it returns a `Work`, and its arrays must stay as they are until `Work.wait`.
    Arrays are C-contiguous. `CallOptions` are keywords of every call.

    A call raises PoolError if its arguments are wrong, and then nothing has happened. It also
    raises PoolError if the ranks call different things, a rank ends, aborts or does not come in
    time (`CollectiveTimeout`): on all ranks, and the pool is unusable until `configure`. The
    outputs of such a call are undefined.

    Attributes:
        rank: This rank.
        world: Number of ranks.
    """

    def __init__(self, memory: SharedMemory, timeout: float) -> None:
        """Use an open shared memory, with a time-out in seconds."""
        self._timeout, self._error, self._pid = timeout, "", os.getpid()
        self._thread: ThreadPoolExecutor | None = None
        self._pending: Future[Any] | None = None
        self._lock, self._inside = threading.Lock(), 0
        self._use(memory)

    def _use(self, memory: SharedMemory) -> None:
        self._memory, self.rank, self.world = memory, memory.rank, memory.world
        self._rounds: Rounds | None = None
        self._runner = Runner(memory.pages, memory.rank)
        self._run = self._runner.run_state
        self._calls = self._epoch = 0
        self._programs = Programs(memory.rank, memory.world, memory.room)

    # Collectives

    def all_reduce(self, x: Array, op: str = "sum", **how: Unpack[CallOptions]) -> Any:
        """Reduce the ranks' arrays, in place, in the order of ranks.

        Args:
            x: float32, float64, int32 or int64, of one shape on all ranks.
            op: "sum", "min" or "max". A NaN makes the result NaN.
            how: See `CallOptions`.
        """
        data = self._bytes("all_reduce", x, out=True)
        call = self._numbers(Collective.ALL_REDUCE, x, op, data, data)
        return self._start(call, **how)

    def reduce(self, x: Array, root: int, op: str = "sum", **how: Unpack[CallOptions]) -> Any:
        """Reduce the ranks' arrays into that of the root, as `all_reduce`; others keep theirs."""
        self._check_root("reduce", root)
        data = self._bytes("reduce", x, out=True)
        call = self._numbers(Collective.REDUCE, x, op, data, data, root)
        return self._start(call, **how)

    def reduce_scatter(
        self, out: Array, x: Array, op: str = "sum", **how: Unpack[CallOptions]
    ) -> Any:
        """Reduce the ranks' arrays ``x`` as `all_reduce`; rank r gets part r in ``out``.

        ``x`` has the elements of ``world`` arrays ``out``, one after another.
        """
        buffers = self._pair("reduce_scatter", x, out, out)
        call = self._numbers(Collective.REDUCE_SCATTER, out, op, *buffers)
        return self._start(call, **how)

    def all_gather(self, out: Array, x: Array, **how: Unpack[CallOptions]) -> Any:
        """Copy the ranks' arrays ``x``, of any type, one after another into ``out`` of each."""
        given, target = self._pair("all_gather", out, x, out)
        call = self._moved(Collective.ALL_GATHER, x, given, target)
        return self._start(call, **how)

    def broadcast(self, x: Array, root: int, **how: Unpack[CallOptions]) -> Any:
        """Copy the root's array, of any type, into that of every rank."""
        self._check_root("broadcast", root)
        data = self._bytes("broadcast", x, out=True)
        call = self._moved(Collective.BROADCAST, x, data, data, root)
        return self._start(call, **how)

    def gather(self, out: Array | None, x: Array, root: int, **how: Unpack[CallOptions]) -> Any:
        """Copy the ranks' arrays ``x`` one after another into ``out`` of the root."""
        self._check_root("gather", root)
        if self.rank == root:
            given, target = self._pair("gather", out, x, out)
        else:
            given, target = self._bytes("gather", x), None
        call = self._moved(Collective.GATHER, x, given, target, root)
        return self._start(call, **how)

    def scatter(self, x: Array, parts: Array | None, root: int, **how: Unpack[CallOptions]) -> Any:
        """Copy part r of the root's ``parts`` into ``x`` of rank r."""
        self._check_root("scatter", root)
        if self.rank == root:
            given, target = self._pair("scatter", parts, x, x)
        else:
            given, target = None, self._bytes("scatter", x, out=True)
        call = self._moved(Collective.SCATTER, x, given, target, root)
        return self._start(call, **how)

    def exchange(self, out: Array, x: Array, **how: Unpack[CallOptions]) -> Any:
        """Copy row p of every rank's ``x`` to rank p; row q of ``out`` is from rank q."""
        given, target = self._bytes("exchange", x), self._bytes("exchange", out, out=True)
        if x.shape != out.shape or x.dtype != out.dtype or len(x) != self.world:
            what = f"arrays {list(x.shape)} and {list(out.shape)}"
            raise PoolError("exchange", what, f"give two arrays [{self.world}, ...]")
        if np.may_share_memory(given, target):
            raise PoolError("exchange", "in and out overlap", "use separate arrays")
        call = self._moved(EXCHANGE, x[0], given, target)
        return self._start(call, **how)

    def barrier(self, **how: Unpack[CallOptions]) -> Any:
        """Wait until all ranks call it."""
        return self._start(_Call(Collective.BARRIER, "barrier", 0), **how)

    def all_reduce_lines(
        self,
        lines: U8,
        route: Route,
        *,
        close_after: float | None = None,
        min_workers: int | None = None,
        **how: Unpack[CallOptions],
    ) -> Any:
        """Reduce packed lines, uint8[n, 64], of all ranks by their route.

        Args:
            lines: Votes or codes of this rank, as of `codec.pack` and `codec.pack_codes`.
            route: Their route, the same on all ranks.
            close_after: Seconds, fewer than the time-out, after which the call returns without the
                ranks that are late. All ranks get the same result, a late one too. A rank is left
                out of 6 calls in a row at most. The first such call waits for all. By default each
                call does.
            min_workers: Ranks whose lines a result has at least; all but one by default.
            how: See `CallOptions`. `Work.wait` returns the result.

        Returns:
            Of votes: vote lines uint8[n, 64] and count planes uint8[P, n, 64], as `codec.count`. Of
            codes: sums uint8[L, n, 64], as `codec.add_codes`. With ``close_after`` a tuple whose
            last item is the tuple of late ranks: votes, planes, late, or sums, late.
        """
        name = "all_reduce_lines"
        limit = how.get("timeout") or self._timeout
        closing = self._closing(name, close_after, min_workers, limit)
        if not (route.votes or route.codes):
            raise PoolError(name, f"{route} has no votes or codes", "use all_reduce")
        data = self._bytes(name, lines)
        if lines.dtype != np.uint8 or lines.ndim != 2 or lines.shape[1] != LINE:
            found = f"{lines.dtype}{list(lines.shape)}"
            raise PoolError(name, f"lines are {found}", f"give uint8[n, {LINE}]")
        if closing is not None:
            do = partial(self._round, lines, route, closing, limit)
            return self.in_order(do, how.get("async_op", False))
        layers = len(views(route, self.world))
        out = np.empty((layers, len(lines), LINE), np.uint8)
        call = _Call(
            Collective.ALL_REDUCE,
            f"{name} of {len(lines):,} lines of {route.value}",
            data.size,
            data,
            out.reshape(-1),
            kind=-1,
            route=route,
            adder=partial(_add_lines, route),
        )
        result = (out[0], out[1:]) if route.votes else out
        return self._start(call, result, **how)

    def _closing(
        self, name: str, after: float | None, least: int | None, limit: float
    ) -> Closing | None:
        """Return when a call is closed, None for never, or raise PoolError."""
        if after is None:
            if least is not None:
                raise PoolError(name, "min_workers without close_after", "give both")
            return None
        if not (isinstance(after, int | float) and 0 < after < float("inf")):
            raise PoolError(name, f"close_after is {after!r}", "give seconds above 0")
        if after >= limit:
            what = f"close_after {after:g} is not below the time-out of {limit:g} s"
            raise PoolError(name, what, "give fewer seconds")
        least = max(1, self.world - 1) if least is None else least
        if not (isinstance(least, int) and 1 <= least <= self.world):
            raise PoolError(name, f"min_workers is {least!r}", f"give 1 to {self.world}")
        return Closing(float(after), least)

    def _round(self, lines: U8, route: Route, closing: Closing, timeout: float) -> Any:
        """Reduce lines of the ranks that come in time."""
        name, memory = "all_reduce_lines", self._memory
        self._check_usable(name)
        if lines.nbytes > memory.room:
            what = f"{lines.nbytes:,} bytes of lines, and the room has {memory.room:,}"
            raise PoolError(name, what, "open the pool with a larger room")
        if self._rounds is None:  # the errors of a barrier name a rank that does not come, and why
            call = _Call(name, f"{name} with close_after", 0)
            self._execute(call, timeout, None)
        try:
            if self._rounds is None:
                path = memory.path.with_name(f"{memory.path.name}.rounds")
                key = int.from_bytes(memory.creator[:8], "little")
                size = self.rank, self.world, memory.room
                self._rounds = Rounds(path, *size, self._timeout, key)
            inbox = np.empty((self.world, *lines.shape), np.uint8)
            own = self._rounds.submit(lines.reshape(-1), f"{name} of {route.value}", closing)
            late = self._rounds.wait(own, inbox.reshape(self.world, -1), timeout)
        except BaseException as error:
            self._fail(str(error) or type(error).__name__)
            raise
        present = None
        if late:
            present = np.ones((self.world, len(lines)), np.bool_)
            present[list(late)] = False
        if route.votes:
            return *count(inbox, route, present=present), late
        return add_codes(inbox, route, present), late

    def run_schedule(self, schedule: Schedule, given: U8) -> U8:
        """Run a schedule, the same on all ranks, whose ranks add.

        Args:
            schedule: The schedule; the rooms of its devices must fit into that of the pool.
            given: Buffer "in" of this rank, uint8[n, 64].

        Returns:
            Buffer "out", uint8[n, 64].
        """
        name = "run_schedule"
        try:
            program = program_of(schedule, self.rank)
        except ValueError as error:
            raise PoolError(name, str(error), "use a passive schedule") from None
        if schedule.ranks != self.world or program.room * LINE > self._memory.room:
            what = f"{schedule.ranks} ranks and {program.room * LINE:,} bytes"
            raise PoolError(name, what, f"the pool has {self.world}, {self._memory.room:,}")
        out = np.zeros((schedule.size(self.rank, Buffer.OUT), LINE), np.uint8)
        data, route = self._bytes(name, given), schedule.route or Route.FP32
        digest = hashlib.sha256(repr(schedule).encode()).hexdigest()[:8]
        what = f"{name} {schedule.collective} of {schedule.lines} lines, schedule {digest}"
        numbers = route is Route.FP32
        call = _Call(
            name,
            what,
            schedule.lines * LINE,
            data,
            out.reshape(-1),
            kind=0 if numbers else -1,
            route=route,
            adder=None if numbers else partial(_add_lines, route),
            program=program,
        )
        return self._start(call, out)  # type: ignore[no-any-return]

    # Life

    def abort(self, why: str) -> None:
        """Make the current and all later calls fail on all ranks, until `configure`."""
        self._fail(f"rank {self.rank} has aborted: {one_line(why)}")

    def configure(self, live: Sequence[int] | None = None) -> None:
        """Open a new pool with the ranks that live; each of them must call it.

        They are numbered anew, in their order. A rank that is left out, and goes on later, finds
        the pool aborted, and what it writes is seen by nobody.

        Args:
            live: Ranks as they are numbered now; all by default.

        Raises:
            PoolError: The ranks do not come together.
        """
        ranks = tuple(range(self.world) if live is None else live)
        where = f"pool {self._memory.path}"
        if len(set(ranks)) != len(ranks) or not set(ranks) <= set(range(self.world)):
            what = f"live ranks {list(ranks)} of {self.world}"
            raise PoolError(where, what, "name each live rank once")
        if self.rank not in ranks:
            raise PoolError(where, f"rank {self.rank} is not live", "call it on live ranks only")
        self._check_process()
        self._fail(f"it was opened anew by ranks {', '.join(map(str, ranks))}")
        self._drain()
        old = self._memory
        self._leave()
        digest = hashlib.sha256(old.creator + repr(ranks).encode()).digest()
        rank, key = ranks.index(self.rank), int.from_bytes(digest[:8], "little")
        self._use(SharedMemory(old.path, rank, len(ranks), old.room, self._timeout, key))
        self._error = ""

    def close(self) -> None:
        """Wait for calls in the background, and leave the pool."""
        if self._pid == os.getpid():
            self._drain()
            self._leave()
        self._error = self._error or "it is closed"

    def _leave(self) -> None:
        if self._rounds is not None:
            self._rounds.close()
        self._memory.close()

    def __enter__(self) -> Self:
        """Return the pool, which the end of the block closes."""
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Close the pool; after an error, abort it first, so that no rank waits for this one."""
        if error is not None and not self._error:
            self.abort(str(error))
        self.close()

    # Arguments

    def _bytes(self, name: str, x: Any, out: bool = False) -> U8:
        """Return the bytes of an array, or raise PoolError."""
        what = ""
        if not isinstance(x, np.ndarray):
            what = f"{type(x).__name__} is not a numpy array"
        elif not (x.flags.c_contiguous and x.flags.aligned and x.dtype.isnative):
            what = "the array is not contiguous, aligned and native"
        elif x.dtype.hasobject:
            what = "the array has Python objects"
        elif out and not x.flags.writeable:
            what = "the array cannot be written"
        if what:
            raise PoolError(name, what, "give a contiguous array, see numpy.ascontiguousarray")
        flat: U8 = x.reshape(-1).view(np.uint8)
        return flat

    def _pair(self, name: str, whole: Any, part: Any, out: Any) -> tuple[U8, U8]:
        """Return the bytes of "in" and "out", one of which has ``world`` parts of the other."""
        whole_bytes = self._bytes(name, whole, out=whole is out)
        part_bytes = self._bytes(name, part, out=part is out)
        if whole.dtype != part.dtype or whole.size != self.world * part.size:
            found = f"{whole.size:,} x {whole.dtype} and {part.size:,} x {part.dtype}"
            what = f"arrays of {found} in a world of {self.world}"
            raise PoolError(name, what, "one has the elements of all ranks")
        own = whole_bytes[self.rank * part_bytes.size :][: part_bytes.size]
        same = own.ctypes.data == part_bytes.ctypes.data
        if np.may_share_memory(whole_bytes, part_bytes) and not same:
            raise PoolError(name, "in and out overlap", "use separate arrays")
        return (part_bytes, whole_bytes) if whole is out else (whole_bytes, part_bytes)

    def _numbers(
        self, name: Collective, x: Array, op: str, given: U8, out: U8, root: int | None = None
    ) -> _Call:
        kind = _KIND_OF.get((x.dtype, op))
        if kind is None:
            what = f"{op!r} of {x.dtype} is not supported"
            known = "sum, min, max of float32, float64, int32 or int64"
            raise PoolError(name, what, f"use {known}")
        what = _described(f"{name} {op}", x.size, x.dtype, root)
        return _Call(name, what, x.nbytes, given, out, root, kind)

    def _moved(
        self, name: str, x: Array, given: U8 | None, out: U8 | None, root: int | None = None
    ) -> _Call:
        what = _described(name, x.size, x.dtype, root)
        return _Call(name, what, x.nbytes, given, out, root)

    def _check_root(self, name: str, root: int) -> None:
        if not isinstance(root, int) or not 0 <= root < self.world:
            raise PoolError(name, f"root is {root!r}", f"use 0 to {self.world - 1}")

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            what = "it was opened by the process that this one was forked from"
            raise PoolError(f"pool {self._memory.path}", what, "open another pool here")

    # Running

    def _start(
        self,
        call: _Call,
        result: Any = None,
        *,
        async_op: bool = False,
        timeout: float | None = None,
    ) -> Any:
        return self.in_order(
            partial(self._execute, call, timeout or self._timeout, result), async_op
        )

    def in_order(self, do: Callable[[], Any], async_op: bool) -> Any:
        """Run a function that calls collectives after all calls before it.

        Args:
            do: The function.
            async_op: Whether a thread runs it.

        Returns:
            Its `Work`, or its result.
        """
        self._check_process()
        with self._lock:
            nested = threading.get_ident() == self._inside
            busy = not nested and self._pending is not None and not self._pending.done()
            if async_op or busy:
                if self._thread is None:
                    self._thread = ThreadPoolExecutor(1, "nf pool", self._enter_thread)
                self._pending = self._thread.submit(do)
            pending = self._pending
        if async_op:
            assert pending is not None
            return Work(pending)
        return pending.result() if busy and pending is not None else do()

    def _enter_thread(self) -> None:
        self._inside = threading.get_ident()

    def _drain(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown(wait=True)

    def _check_usable(self, name: str) -> None:
        if self._error:
            what = f"the pool is unusable: {self._error}"
            raise PoolError(name, what, "call configure(), or open a new one")

    def _execute(self, call: _Call, timeout: float, result: Any) -> Any:
        self._check_usable(call.collective)
        self._calls += 1
        self._memory.tell(self._calls % 2, call.what)
        run = self._run
        run.call, run.verified = self._calls, 0
        # Of all calls so far: where no rank waits for another, the next call finds a difference.
        run.signature = (run.signature * 3 + _digest(call.what)) & _SIGNATURE
        run.adder = -1 if call.kind is None else call.kind
        run.stride[Room.IN] = run.stride[Room.OUT] = call.size
        most = self._programs.most_bytes(call.collective, call.route)
        if call.program:
            most = max(1, call.size)
        try:
            for at in range(0, max(1, call.size), most):
                size = min(most, call.size - at)
                lines = -(-size // LINE)
                name = call.collective if lines else Collective.BARRIER
                root = call.root if lines else None
                program = call.program or self._programs.get(name, lines, root, call.route)
                self._chunk(call, program, at, size, timeout)
        except BaseException as error:
            self._fail(str(error) or type(error).__name__)
            raise
        return result

    def _chunk(self, call: _Call, program: Program, at: int, size: int, timeout: float) -> None:
        """Run the part of a call from byte ``at`` of its vectors."""
        run, memory = self._run, self._runner.memory
        run.epoch, run.bytes = self._epoch, size
        scratch = np.empty(program.scratch * LINE, np.uint8) if program.scratch else None
        buffers = (self._memory.rooms[self._epoch % 2], call.given, call.out, scratch)
        for number, buffer in enumerate(buffers):
            if buffer is not None:
                first = at if number in (Room.IN, Room.OUT) else 0
                memory[number] = buffer[first:] if first else buffer
                run.memory[number] = buffer.__array_interface__["data"][0] + first
        program.start(run)
        run.slice_ns = int(1e9 * min(_SLICE_S, timeout))
        since, before, ended = time.monotonic(), -1, -1
        while (outcome := self._runner.run(program, call.adder)) is not RunState.DONE:
            if outcome is not RunState.BLOCKED:
                raise self._stopped(call, outcome)
            if sum(run.next) != before:
                before, since, ended = sum(run.next), time.monotonic() - run.slice_ns / 1e9, -1
            if ended == run.who or time.monotonic() - since >= timeout:
                raise self._timed_out(call, ended == run.who)
            # It may have given its last signal just before its end, so look once more.
            ended = -1 if self._memory.alive(run.who) else run.who
        self._epoch += 1

    # Errors

    def _stopped(self, call: _Call, outcome: RunState) -> PoolError:
        who, where = self._run.who, f"{call.collective} {self._calls}"
        if outcome is RunState.ABORTED:
            return PoolError(
                where, self._memory.told(who, 2), "call configure(), or open a new pool"
            )
        low, high = sorted((self.rank, who))
        turn = self._calls % 2  # the call before may be the one in which they differ
        turn ^= self._memory.told(low, turn) == self._memory.told(high, turn)
        calls = [self._memory.told(rank, turn) for rank in (low, high)]
        what = f"rank {low} calls {calls[0]}, rank {high} {calls[1]}"
        return PoolError(where, what, "make the same calls on all ranks, then configure()")

    def _timed_out(self, call: _Call, ended: bool) -> PoolError:
        """Return the error for the awaited rank, which names where each rank is."""
        who, pages = self._run.who, self._memory.pages
        if (aborted := self._memory.aborted()) is not None:  # while this process was stopped
            self._run.who = aborted
            return self._stopped(call, RunState.ABORTED)
        awaited = {-1: f"rank {who} to call it", DONE: f"the end of rank {who}"}.get(
            self._run.number, f"signal {self._run.number} of rank {who}"
        )
        others: dict[str, list[int]] = {}
        for rank in range(self.world):
            if rank != who:
                others.setdefault(self._at(rank), []).append(rank)
        seen = (time.monotonic_ns() - int(pages[who, SEEN])) / 1e9
        about = call.what.partition(" ")[2] or "all ranks"
        last = f"last seen {seen:.1f} s ago" if pages[who, SEEN] else "not seen yet"
        if ended:
            last = f"process {self._memory.process(who)} has ended or closed the pool, {last}"
        return CollectiveTimeout(
            f"{call.collective} {self._calls} ({about}), waiting for {awaited}",
            f"{last} at {self._at(who)}",
            ", ".join(
                f"{'ranks' if len(ranks) > 1 else 'rank'} {', '.join(map(str, ranks))} "
                f"{'are' if len(ranks) > 1 else 'is'} at {at}"
                for at, ranks in others.items()
            ),
        )

    def _at(self, rank: int) -> str:
        """Return the call of a rank and the last signal that it has given there: "41/6"."""
        page = self._memory.pages[rank]
        call, at = int(page[CALL]), int(page[AT])
        signal = (str(at & 0xFFFF) if at & 0xFFFF else "end") if at >> 16 == call else "begin"
        return f"{call}/{signal}"

    def _fail(self, why: str) -> None:
        """Make the pool unusable for all ranks; the first reason counts."""
        if self._error:
            return
        self._error = why
        self._memory.abort(why)
        if self._rounds is not None:
            self._rounds.abort(why)


@lru_cache(_KEPT)
def _described(name: str, size: int, dtype: Any, root: int | None) -> str:
    return f"{name} of {size:,} x {dtype}" + ("" if root is None else f", root {root}")


@lru_cache(_KEPT)
def _digest(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "little")


def _add_lines(route: Route, given: list[U8], out: list[U8]) -> None:
    """Add the lines of all ranks into the views: votes and counts, or sums of codes."""
    lines = np.stack(given)
    if route.votes:
        vote, planes = count(lines, route)
        found = [vote, *planes]
    else:
        found = list(add_codes(lines, route))
    for one, view in zip(found, out, strict=False):  # a schedule may have the votes alone
        view[:] = one

# SPDX-License-Identifier: Apache-2.0
"""Session of a rank with a reducer server: join, submit buckets, read outcomes.

A bucket that this rank could not submit is LOST: the server marks a bucket DONE only if every rank
has submitted it. A submitted bucket has the outcome in the shared memory, which is the same for all
ranks; see `SharedLines`.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import sys
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import torch.distributed as dist
from numpy.typing import NDArray

from neuron_fabric.codec import LINE, U8, Route, sum_kind
from neuron_fabric.errors import LineError, say
from neuron_fabric.rank_agreement import together
from neuron_fabric.reducers import server_wire as wire
from neuron_fabric.reducers.interface import F32, BucketLost, Counters, Outcome, Part
from neuron_fabric.reducers.torch_reducer import OwnGroup

WORDS = 64
"""Outcomes kept; ranks wait for each other in every step, so they are never so far apart."""
REASON = 256
LOCK_S = 5.0
"""Time-out of a rank for the lock, which is held for a moment only."""
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
IN_TURN = 2
_HEAD = WORDS * (8 + 8 + REASON)
_PER_LINE = LINE // 4


class Word(IntEnum):
    """Outcome of a bucket at the reducer server, the same for all ranks."""

    NONE = 0
    DONE = 1
    LOST = 2
    """It is reduced in FP32 by the ranks."""
    REFUSED = 3
    """The training ends: the ranks differ, or the device is wrong."""


@dataclass(frozen=True)
class BucketShape:
    """Layout of the lines that a worker sends for a bucket: parts, sidecar, table of tensors."""

    parts: tuple[wire.PartShape, ...]
    columns: int

    @property
    def firsts(self) -> list[int]:
        """Return the first line of each part."""
        return [sum(part.lines for part in self.parts[:n]) for n in range(len(self.parts))]

    @property
    def side(self) -> tuple[int, int]:
        """Return the first line of the sidecar, and the number of lines of each of its two rows."""
        return sum(part.lines for part in self.parts), -(-self.columns // _PER_LINE)

    @property
    def table(self) -> tuple[int, int]:
        """Return the first line of the table of tensors, and the number of its entries."""
        first, row = self.side
        return first + 2 * row, sum(part.tensors for part in self.parts)

    @property
    def lines(self) -> int:
        """Return the total number of lines."""
        first, entries = self.table
        return first + -(-8 * entries // LINE)


def most_lines(sizes: Sequence[int], more: int = 0) -> int:
    """Return the most lines that a bucket can have.

    Args:
        sizes: Lines of each tensor, all of which may be in one bucket.
        more: Further lines.
    """
    shape = BucketShape((), len(sizes))
    return sum(sizes) + more + 2 * shape.side[1] + -(-8 * len(sizes) // LINE)


def row_of(lines: U8, first: int, columns: int) -> NDArray[np.float32]:
    """Read a row of numbers float32[..., columns] from lines [..., n, 64], from line ``first``."""
    flat = np.ascontiguousarray(lines[..., first : first - (-columns // _PER_LINE), :])
    return flat.reshape(*lines.shape[:-2], -1).view("<f4")[..., :columns].astype(np.float32)


def put_row(lines: U8, first: int, row: NDArray[np.float32]) -> None:
    """Write a row of numbers to lines [n, 64] from line ``first`` on; inverts `row_of`."""
    flat = lines[first : first - (-len(row) // _PER_LINE)].reshape(-1)
    flat[: row.nbytes] = row.astype("<f4").view(np.uint8)
    flat[row.nbytes :] = 0


class SharedLines:
    """Memory that the ranks of a job share with the reducer server: lines, results and outcomes.

      words   int64[WORDS]                  outcome of bucket seq at seq % WORDS, by the server
      given   int64[WORDS]                  seq + 1 where a rank has given up that bucket
      reasons uint8[WORDS, REASON]          why a bucket is lost or refused, UTF-8
      sent    uint8[2, W, lines, 64]        what a worker sends of buckets with even, odd seq
      got     uint8[2, 1 + P, lines, 64]    votes or FP32 sums, then W.bit_length() planes;
                                            sums of integer codes from the first on

    A bucket has **one outcome**, the same for all: a word that the server alone writes, once. A
    rank that gives up waiting records this in ``given``, and the server checks it before it writes
    DONE; both do that under a lock, so that a bucket which a rank has given up is never DONE,
    even when the server was stopped for a while. The server never waits for that lock: while a rank
    holds it, a bucket is LOST, for which it needs none. When the server dies, words that it has not
    written stay 0 for all.

    The memory is sealed: its size cannot change. Both sides check its seals and size before they
    map it, since a file that is made smaller later ends its readers by SIGBUS.

    The lines of a worker: the parts of the bucket one after the other; the sidecar, its scales and
    its presence in lines of 16; then, as int32 pairs, the first line and the sidecar's column of
    every tensor that is voted on.
    """

    def __init__(self, file: int, workers: int, lines: int) -> None:
        """Map the memory of a descriptor, which this object will close.

        Args:
            file: Descriptor.
            workers: Number of ranks.
            lines: Lines of a bucket, at most.

        Raises:
            ServerError: It is not sealed, or has not the size for ``workers`` and ``lines``.
            OSError: It cannot be mapped; also ValueError.
        """
        self.file, self.workers, self.lines = file, workers, lines
        self.planes = workers.bit_length()
        self._close = weakref.finalize(self, os.close, file)
        size = bytes_of(workers, lines)
        _check_sealed(file, size)
        self._map = mmap.mmap(file, size)
        self._words = self._array(np.int64, 0, (WORDS,))
        self._given = self._array(np.int64, 8 * WORDS, (WORDS,))
        self._reasons = self._array(np.uint8, 16 * WORDS, (WORDS, REASON))
        at = _pages(_HEAD)
        self.sent: U8 = self._array(np.uint8, at, (IN_TURN, workers, lines, LINE))
        self.got: U8 = self._array(
            np.uint8, at + self.sent.nbytes, (IN_TURN, 1 + self.planes, lines, LINE)
        )

    @staticmethod
    def create(workers: int, lines: int) -> SharedLines:
        """Create sealed memory of zeros; pages are allocated when written. Raise OSError."""
        file = os.memfd_create("nf-serve", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(file, bytes_of(workers, lines))
            fcntl.fcntl(file, fcntl.F_ADD_SEALS, _SEALS)
        except BaseException:
            os.close(file)
            raise
        return SharedLines(file, workers, lines)

    def outcome(self, seq: int) -> Word:
        """Return the outcome of bucket ``seq``; NONE while it has none."""
        word = int(self._words[seq % WORDS])
        return Word(word & 3) if word >> 2 == seq + 1 else Word.NONE

    def reason(self, seq: int) -> str:
        """Return why bucket ``seq`` is lost or refused, as text."""
        return bytes(self._reasons[seq % WORDS]).rstrip(b"\0").decode(errors="replace")

    def decide(self, seq: int, word: Word, why: str = "") -> Word:
        """Write the outcome of a bucket, unless it has one, and return its outcome; for the server.

        A bucket that a rank has given up, or is giving up, becomes LOST instead of DONE.
        """
        locked = self._try_lock()
        try:
            if (there := self.outcome(seq)) != Word.NONE:
                return there
            given = self._given[seq % WORDS] == seq + 1
            if word == Word.DONE and (given or not locked):
                word, why = Word.LOST, "a rank has given up waiting for it"
                why = why if given else "another process holds the lock of the shared memory"
            self._reasons[seq % WORDS] = 0
            text = np.frombuffer(wire.cut(why, REASON - 1).encode(), np.uint8)
            self._reasons[seq % WORDS, : len(text)] = text
            self._words[seq % WORDS] = (seq + 1) << 2 | word
        finally:
            if locked:
                fcntl.lockf(self.file, fcntl.LOCK_UN)
        return word

    def give_up(self, seq: int) -> Word:
        """Give up a bucket, for a rank; return its outcome, which is LOST if it had none.

        Raises:
            ServerError: Another process does not release the lock.
        """
        end = time.monotonic() + LOCK_S
        while not self._try_lock():
            if time.monotonic() > end:
                what = f"another process has held its lock for {LOCK_S:g} s"
                raise wire.ServerError("the memory of the server", what, "is a rank stopped?")
            time.sleep(0.001)
        try:
            if (there := self.outcome(seq)) != Word.NONE:
                return there
            self._given[seq % WORDS] = seq + 1
        finally:
            fcntl.lockf(self.file, fcntl.LOCK_UN)
        return Word.LOST

    def close(self) -> None:
        """Close the descriptor, which releases the lock; the memory is freed with the last view."""
        self._close()

    def _array(self, kind: Any, at: int, shape: tuple[int, ...]) -> NDArray[Any]:
        count = int(np.prod(shape))
        return np.frombuffer(self._map, kind, count, at).reshape(shape)

    def _try_lock(self) -> bool:
        """Acquire the lock between processes; return False if another process holds it.

        The death of its holder releases it.
        """
        try:
            fcntl.lockf(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return False
        return True


def _check_sealed(file: int, size: int) -> None:
    try:
        seals = fcntl.fcntl(file, fcntl.F_GET_SEALS)
    except OSError:  # a file of another kind
        seals = 0
    if seals & _SEALS != _SEALS:
        what = "it is not sealed: its sender could make it smaller"
        raise wire.ServerError("the memory of the server", what, "use the server of `nf serve`")
    if (found := os.fstat(file).st_size) != size:
        what = f"it has {found:,} bytes, not {size:,}"
        raise wire.ServerError(
            "the memory of the server", what, "use the same version on both sides"
        )


def bytes_of(workers: int, lines: int) -> int:
    """Return the size in bytes of the shared memory for a job."""
    views = workers + 1 + workers.bit_length()
    return _pages(_HEAD) + IN_TURN * views * lines * LINE


def _pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


LOOK_S = 0.25
"""Seconds between two polls of the word by a waiting rank: a message may be lost with its
sender.
"""
SILENCE_S = 5.0
"""A server that does not answer a question for so long is stopped, or worse."""


@dataclass
class Ticket:
    """Bucket that was submitted, or is waiting to be.

    Attributes:
        seq: Number of the bucket in the job.
        submit: Message for the server.
        parts: Lines of this worker.
        sidecar: Scales and presence of this worker.
        session: Session that has sent it; None if it was not sent, and is lost then.
        why: Why it was not sent.
    """

    seq: int
    submit: wire.Submit
    parts: Sequence[Part]
    sidecar: F32
    session: Session | None = None
    why: str = ""

    @property
    def shape(self) -> BucketShape:
        return BucketShape(self.submit.parts, self.submit.columns)


class Session:
    """Connection of a rank to the server, which begins with HELLO.

    Once all ranks of the job have joined, it has the shared memory.
    """

    shared: SharedLines

    def __init__(self, path: Path, hello: wire.Hello) -> None:
        """Connect to the server and send HELLO. Raise ServerError if there is none."""
        self._path, self._hello, self.rank = path, hello, hello.rank
        self.sock = wire.connect(path)
        self.joined = False
        self.ended = ""  # why, once it has
        self.counters: Counter[str] = Counter()
        self._heard = time.monotonic()
        if (
            not wire.send(self.sock, hello) and self.join(0.0) is None
        ):  # refused before it was heard
            self.sock.close()
            raise wire.ServerError(
                path, "the server has ended", f"start it: nf serve --socket {path}"
            )

    def skip(self, seq: int) -> None:
        """Tell the server that this rank submits no bucket up to number ``seq``."""
        wire.send(self.sock, wire.Skip(seq))

    def join(self, timeout_s: float) -> wire.Welcome | None:
        """Wait until all ranks of the job have joined; return the answer, None after ``timeout_s``.

        Raises:
            ServerError: The server refuses, has ended, or cannot be understood.
        """
        end = time.monotonic() + timeout_s
        while wire.readable(self.sock, end - time.monotonic()):
            try:
                return self._welcomed(wire.receive(self.sock))
            except BlockingIOError:
                continue
            except wire.WireError as error:
                self.close()
                raise wire.ServerError(
                    self._path, error, "use the same version on both sides"
                ) from None
        return None

    def _welcomed(self, came: tuple[wire.Message, list[int]] | None) -> wire.Welcome:
        if came is None:
            self.close()
            what = "the server has ended before all ranks had come"
            raise wire.ServerError(self._path, what, f"start it: nf serve --socket {self._path}")
        message, files = came
        try:
            if isinstance(message, wire.Refused):
                raise wire.ServerError(self._path, "refused", message.why)
            if not isinstance(message, wire.Welcome) or len(files) != 1:
                what = f"{type(message).__name__} in answer to HELLO"
                raise wire.ServerError(self._path, what, "use the same version on both sides")
            if lacking := [one for one in self._hello.routes if one not in message.routes]:
                what = f"the device lacks {', '.join(lacking)}: it has {', '.join(message.routes)}"
                raise wire.ServerError(self._path, what, "choose other routes in the profile")
            self.shared = SharedLines(files.pop(), self._hello.world, self._hello.lines)
        except (ValueError, OSError) as error:
            self.close()
            raise wire.ServerError(
                self._path, f"no memory to share ({error})", "see ulimit"
            ) from None
        except wire.ServerError:
            self.close()
            raise
        finally:
            wire.close_all(files)
        self.joined = True
        return message

    def put(self, ticket: Ticket) -> bool:
        """Write the lines of a bucket to the shared memory and tell the server.

        Returns:
            False if the server has gone.
        """
        if self.ended:
            return False
        own = self.shared.sent[ticket.seq % IN_TURN, self.rank]
        shape = ticket.shape
        if shape.lines <= len(own):  # else the server refuses it
            for part, first in zip(ticket.parts, shape.firsts, strict=True):
                own[first : first + len(part.lines)] = part.lines
            first, row = shape.side
            put_row(own, first, ticket.sidecar[0])
            put_row(own, first + row, ticket.sidecar[1])
            _put_table(own, shape, ticket.parts)
        if not wire.send(self.sock, ticket.submit):
            self.ended = "the server has gone"
        return not self.ended

    def outcome(self, seq: int, patience_s: float) -> Word:
        """Wait for the outcome of a bucket that was put, and return it.

        After ``patience_s`` seconds of silence the server is asked. If it does not answer within
        SILENCE_S, or has ended, the bucket is given up.
        """
        self._heard, asked = time.monotonic(), False
        while (word := self.shared.outcome(seq)) == Word.NONE:
            if self.ended:
                return self.shared.give_up(seq)
            if self._hears(LOOK_S):
                continue
            silent = time.monotonic() - self._heard
            if not asked and silent > patience_s:
                asked = wire.send(self.sock, wire.Ask(seq))
                self._heard = time.monotonic()
            elif asked and silent > SILENCE_S:
                self.ended = "the server does not answer"
            elif asked and silent > SILENCE_S / 4:
                wire.send(self.sock, wire.Ask(seq))
        while not self.ended and self._hears(0.0):
            pass  # what nobody reads would fill the socket
        return word

    def _hears(self, within_s: float) -> bool:
        """Wait at most ``within_s`` seconds for a message and process it; return False without one.

        The end of the connection counts as a message.
        """
        try:
            if not wire.readable(self.sock, within_s):
                return False
            came = wire.receive(self.sock)
        except BlockingIOError:
            return False
        except (wire.WireError, ValueError, OSError) as error:
            self.ended = f"the server cannot be understood ({error})"
            return True
        self._heard = time.monotonic()
        if came is None:
            self.ended = self.ended or "the server has ended"
            return True
        message, files = came
        wire.close_all(files)  # nobody was asked for one
        if isinstance(message, wire.Done):
            self.counters.update(message.counters)
        elif isinstance(message, wire.Refused):
            self.ended = message.why
        elif not isinstance(message, wire.Pending):
            self.ended = f"the server says {type(message).__name__}"
        return True

    def close(self, bye: bool = False) -> None:
        """Close the connection, with BYE first if ``bye``."""
        if bye:
            wire.send(self.sock, wire.Bye())
        self.ended = self.ended or "closed"
        self.sock.close()


class ServerSession:
    """Session of one rank of a job with the server; it reconnects if a connection ends.

    `submit` and `wait` may be called by two threads; each of them in the order of the buckets, the
    same on every rank.
    """

    def __init__(self, path: Path, hello: wire.Hello, timeout_s: float) -> None:
        self.path, self.hello, self.timeout_s = path, hello, timeout_s
        self._session: Session | None = None
        self._seq = 0
        self._lock = threading.Lock()
        self._under_way = 0
        self._todo: deque[Ticket] = deque()
        self._why = ""
        self.counters: Counter[str] = Counter()
        """Counts of the server for the completed buckets."""

    def join(self) -> None:
        """Connect and send HELLO. Raise ServerError if there is no server."""
        self._session = Session(self.path, self.hello)

    def joined(self) -> wire.Welcome:
        """Wait, after `join`, until all ranks have joined; return the server's answer.

        Raises:
            ServerError: The server refuses, has ended, or does not answer.
        """
        assert self._session is not None
        said = self._session.join(self.timeout_s + SILENCE_S)  # the server's time-out first
        if said is None:
            self._session.close()
            what = f"the server has not answered for {self.timeout_s:g} s"
            raise wire.ServerError(self.path, what, "is it stopped?")
        return said

    def submit(self, step: int, bucket: int, parts: Sequence[Part], sidecar: F32) -> Ticket:
        """Send the lines of a bucket at once, or queue it while two are in flight; no wait."""
        shapes = tuple(
            wire.PartShape(part.route, part.net, len(part.lines), len(part.starts))
            for part in parts
        )
        with self._lock:
            submit = wire.Submit(
                *(self._seq, step, bucket, shapes, sidecar.shape[1]),
                present=int((sidecar[1] > 0).sum()),
                poison=int(np.isnan(sidecar[0]).sum()),
            )
            ticket = Ticket(self._seq, submit, parts, sidecar)
            self._seq += 1
            self._todo.append(ticket)
            self._send()
        return ticket

    def wait(self, ticket: Ticket) -> Outcome:
        """Wait for a bucket and return its result, the same on every rank.

        Raises:
            BucketLost: It is lost.
            ServerError: It is refused.
        """
        try:
            return self._outcome(ticket)
        finally:
            with self._lock:
                self._under_way -= 1
                self._send()

    def close(self) -> None:
        """Send BYE and close the connection; later buckets are lost."""
        with self._lock:
            if self._session is not None:
                self._session.close(bye=self._session.joined)
            self._session = None
            self._why = "closed"

    def _send(self) -> None:
        """Send queued buckets while fewer than two are in flight; two alternate in the memory."""
        while self._todo and self._under_way < IN_TURN:
            ticket = self._todo.popleft()
            self._under_way += 1
            session = self._alive()
            if session is not None and session.put(ticket):
                ticket.session = session
            else:
                ticket.why = session.ended if session is not None else self._why
                if self._session is not None and not self._session.joined:
                    self._session.skip(ticket.seq)

    def _alive(self) -> Session | None:
        """Return the session with the server, None if there is none.

        An ended one is replaced if the server is up and all ranks have joined again.
        """
        if self._session is not None and self._session.ended:
            self._why = self._session.ended
            self._session.close()
            self._session = None
        if self._why == "closed":
            return None
        try:
            if self._session is None:
                self._session = Session(self.path, self.hello)
            if self._session.joined or self._session.join(0.0) is not None:
                return self._session
        except wire.ServerError as error:
            self._session, self._why = None, str(error)
        return None

    def _outcome(self, ticket: Ticket) -> Outcome:
        session = ticket.session
        if session is None:
            raise BucketLost(ticket.why or "the server has not all ranks again")
        word = session.outcome(ticket.seq, self.timeout_s)
        reason = session.shared.reason(ticket.seq)
        if word == Word.REFUSED:
            raise wire.ServerError(self.path, reason, "see the server's output")
        if word != Word.DONE:
            raise BucketLost(reason or session.ended)
        self.counters += session.counters
        session.counters.clear()
        return _read(session.shared, ticket)


def _put_table(own: U8, shape: BucketShape, parts: Sequence[Part]) -> None:
    first, entries = shape.table
    pairs = [
        (at + start, column)
        for part, at in zip(parts, shape.firsts, strict=True)
        for start, column in zip(part.starts, part.columns, strict=True)
    ]
    flat = own[first : shape.lines].reshape(-1)
    flat[: 8 * entries] = np.array(pairs, "<i4").reshape(-1).view(np.uint8)
    flat[8 * entries :] = 0


def _read(shared: SharedLines, ticket: Ticket) -> Outcome:
    """Copy a bucket's results from the shared memory; the next bucket but one overwrites them."""
    got, shape, out = shared.got[ticket.seq % IN_TURN], ticket.shape, []
    for part, first in zip(shape.parts, shape.firsts, strict=True):
        lines = got[:, first : first + part.lines]
        if part.route.codes:
            layers, _ = sum_kind(part.route, shared.workers)
            out.append(lines[:layers].copy())
        else:
            out.append((lines[1:] if part.net else lines[:1]).copy())
    first, row = shape.side
    scales = row_of(got[0], first, shape.columns)
    return Outcome(out, scales, row_of(got[0], first + row, shape.columns))


# Reduces packed gradients by a reducer server (`nf serve`) with its device; needs torch.
#
# The server and all ranks are on one machine. Lines go through shared memory, and so does the
# outcome of every bucket. A server that is lost costs the training its low-bit gradients, not its
# life: the ranks reduce such buckets in FP32, and come back when it is there again.


EVENTS = ("answers", "severe", "fallback")
"""Counts of the device that the monitor uses."""


class ServerReducer:
    """Reducer (see `Reducer`) that uses the device of a reducer server on this machine."""

    def __init__(self, path: Path, hello: wire.Hello, timeout_s: float = 60.0) -> None:
        """Create the reducer, not connected yet.

        Args:
            path: Socket of the server.
            hello: HELLO message without job, rank and world, which `open` fills in.
            timeout_s: Seconds after which a silent server is asked.
        """
        self.counters = Counters()
        self._path, self._hello, self._timeout_s, self._told = path, hello, timeout_s, False

    def open(self, group: Any) -> None:
        """Connect all ranks of ``group`` to the server; a collective call.

        An error is a LineError, the same on every rank.
        """
        rank, world = dist.get_rank(group), dist.get_world_size(group)
        job = [os.urandom(8).hex()]
        dist.broadcast_object_list(job, src=dist.get_global_rank(group, 0), group=group)
        hello = replace(self._hello, job=job[0], rank=rank, world=world)
        self._server = ServerSession(self._path, hello, self._timeout_s)
        self._rank = rank
        try:
            together(self._server.join, group)
            together(self._server.joined, group)
        except LineError:
            self._server.close()
            raise
        self.first_group, self.second_group = (OwnGroup(group, self._timeout_s) for _ in range(2))

    def submit(self, step: int, bucket: int, parts: Sequence[Part], sidecar: F32) -> Ticket:
        """Send a bucket to the server; return its ticket for `wait`. See `Reducer.submit`."""
        start = time.perf_counter()
        for part in parts:
            self.counters.moved(part.route, sent=part.lines.nbytes)
        self.counters.moved(Route.FP32, sent=sidecar.nbytes)
        ticket = self._server.submit(step, bucket, parts, sidecar)
        self.counters.seconds["submit"] += time.perf_counter() - start
        return ticket

    def wait(self, handle: Ticket) -> Outcome:
        """Wait for the server's result of a bucket and return it. See `Reducer.wait`.

        Rank 0 prints a line for the first of consecutive lost buckets.
        """
        try:
            outcome = self._server.wait(handle)
        except BucketLost as lost:
            self.counters.events["lost"] += 1
            if self._rank == 0 and not self._told:
                where = f"step {handle.submit.step} bucket {handle.submit.bucket}"
                what = f"the reducer is lost ({lost}); FP32 takes its place"
                say(f"nf runtime: {where}: {what}", file=sys.stderr, flush=True)
            self._told = True
            raise
        self._told = False
        self.counters.buckets += 1
        for part, one in zip(handle.parts, outcome.parts, strict=True):
            self.counters.moved(part.route, received=one.nbytes)
        self.counters.moved(Route.FP32, received=handle.sidecar.nbytes)
        for name in EVENTS:
            self.counters.events[name] += self._server.counters.pop(name, 0)
        return outcome

    def close(self) -> None:
        """Leave the server and release the groups."""
        self._server.close()
        del self.first_group, self.second_group

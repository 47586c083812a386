# SPDX-License-Identifier: Apache-2.0
"""Session of a rank with a reducer server: join, submit buckets, read outcomes.

A bucket that this rank could not submit is LOST: the server marks a bucket DONE only if every rank
has submitted it. A submitted bucket has the outcome in the shared memory, which is the same for all
ranks; see `SharedLines`.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from neuron_fabric.codec import U8, sum_kind
from neuron_fabric.reducers import server_wire as wire
from neuron_fabric.reducers.interface import F32, BucketLost, Outcome, Part
from neuron_fabric.reducers.shared_lines import (
    IN_TURN,
    BucketShape,
    SharedLines,
    Word,
    put_row,
    results_kept,
    row_of,
)

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
            hello = self._hello
            size = hello.world, hello.lines, results_kept(hello)
            self.shared = SharedLines(files.pop(), *size)
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
        late = session.shared.late(ticket.seq)
        if session.rank in late and session.shared.checksum(ticket.seq) != ticket.submit.checksum:
            what = f"bucket {ticket.seq} was closed without rank {session.rank}, which has another"
            raise wire.ServerError(self.path, what, "start all ranks alike")
        return replace(_read(session.shared, ticket), late=late)


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
    """Copy a bucket's results from the shared memory; later buckets overwrite them."""
    got, shape, out = shared.got[ticket.seq % shared.kept], ticket.shape, []
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

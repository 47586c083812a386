# SPDX-License-Identifier: Apache-2.0
"""A rank's side of a reducer server: joining, buckets in, outcomes out. Nothing here needs torch.

A bucket that this rank could not submit is LOST: the server makes nothing DONE that has not come
from every rank. A bucket that it has submitted has the outcome that the shared memory says, which
is the same for all; see `shared_lines`.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from neuron_fabric.codec import LINE, U8, sum_kind
from neuron_fabric.runtime.backends.interface import F32, BucketLost, Outcome, Part, Reduced
from neuron_fabric.runtime.backends.server_wire import (
    Ask,
    Bye,
    Done,
    Hello,
    Message,
    PartShape,
    Pending,
    Refused,
    ServerError,
    Skip,
    Submit,
    Welcome,
    WireError,
    close_all,
    connect,
    readable,
    receive,
    send,
)
from neuron_fabric.runtime.backends.shared_lines import (
    IN_TURN,
    BucketShape,
    SharedLines,
    Word,
    put_row,
    row_of,
)

LOOK_S = 0.25
"""How often a rank that waits looks at the word itself: a message may be lost with its sender."""
SILENCE_S = 5.0
"""A server that does not answer a question for so long is stopped, or worse."""


@dataclass
class Ticket:
    """A bucket on its way: what is sent, and by which session it went; None: by none, it is lost
    (``why``)."""

    seq: int
    submit: Submit
    parts: Sequence[Part]
    sidecar: F32
    session: Session | None = None
    why: str = ""

    @property
    def shape(self) -> BucketShape:
        return BucketShape(self.submit.parts, self.submit.columns)


class Session:
    """A connection whose job is complete: the shared memory is there."""

    def __init__(self, sock: socket.socket, shared: SharedLines, rank: int, said: Welcome) -> None:
        self.sock, self.shared, self.rank, self.said = sock, shared, rank, said
        self.ended = ""  # why, once it has
        self.counters: Counter[str] = Counter()
        self._heard = time.monotonic()

    def put(self, ticket: Ticket) -> bool:
        """Lay the lines of a bucket in the shared memory and tell the server; False: it is gone."""
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
        if not send(self.sock, ticket.submit):
            self.ended = "the server has gone"
        return not self.ended

    def outcome(self, seq: int, patience_s: float) -> Word:
        """Wait for the outcome of a bucket that was put. After ``patience_s`` the server is asked;
        one that does not answer is given up, as one that has died."""
        self._heard, asked = time.monotonic(), False
        while (word := self.shared.outcome(seq)) == Word.NONE:
            if self.ended:
                return self.shared.give_up(seq)
            if self._hears(LOOK_S):
                continue
            silent = time.monotonic() - self._heard
            if not asked and silent > patience_s:
                asked = send(self.sock, Ask(seq))
                self._heard = time.monotonic()
            elif asked and silent > SILENCE_S:
                self.ended = "the server does not answer"
            elif asked and silent > SILENCE_S / 4:
                send(self.sock, Ask(seq))
        while not self.ended and self._hears(0.0):
            pass  # what nobody reads would fill the socket
        return word

    def _hears(self, within_s: float) -> bool:
        """Whether a message has come in this time."""
        try:
            if not readable(self.sock, within_s):
                return False
            came = receive(self.sock)
        except BlockingIOError:
            return False
        except (WireError, ValueError, OSError) as error:
            self.ended = f"the server cannot be understood ({error})"
            return True
        self._heard = time.monotonic()
        if came is None:
            self.ended = self.ended or "the server has ended"
            return True
        message, files = came
        close_all(files)  # nobody was asked for one
        if isinstance(message, Done):
            self.counters.update(message.counters)
        elif isinstance(message, Refused):
            self.ended = message.why
        elif not isinstance(message, Pending):
            self.ended = f"the server says {type(message).__name__}"
        return True

    def close(self, bye: bool = False) -> None:
        """End it."""
        if bye:
            send(self.sock, Bye())
        self.ended = self.ended or "closed"
        self.sock.close()


class Joining:
    """A connection on which HELLO was said."""

    def __init__(self, path: Path, hello: Hello) -> None:
        """ServerError when there is no server."""
        self._path, self._hello = path, hello
        self._sock = connect(path)
        if not send(self._sock, hello) and self.session(0.0) is None:  # refused before it was heard
            self._sock.close()
            raise ServerError(path, "the server has ended", f"start it: nf serve --socket {path}")

    def skip(self, seq: int) -> None:
        """Tell that no bucket up to this one comes from here."""
        send(self._sock, Skip(seq))

    def session(self, timeout_s: float) -> Session | None:
        """The session, when all ranks of the job have come; None: not within the time.
        ServerError where it is refused."""
        end = time.monotonic() + timeout_s
        while True:
            left = max(0.0, end - time.monotonic())
            if not readable(self._sock, left):
                return None
            try:
                came = receive(self._sock)
            except BlockingIOError:
                continue
            except WireError as error:
                self.close()
                raise ServerError(self._path, error, "use the same version on both sides") from None
            return self._joined(came)

    def _joined(self, came: tuple[Message, list[int]] | None) -> Session:
        if came is None:
            self.close()
            what = "the server has ended before all ranks had come"
            raise ServerError(self._path, what, f"start it: nf serve --socket {self._path}")
        message, files = came
        try:
            if isinstance(message, Refused):
                raise ServerError(self._path, "refused", message.why)
            if not isinstance(message, Welcome) or len(files) != 1:
                what = f"{type(message).__name__} in answer to HELLO"
                raise ServerError(self._path, what, "use the same version on both sides")
            if lacking := [one for one in self._hello.routes if one not in message.routes]:
                what = f"the device lacks {', '.join(lacking)}: it has {', '.join(message.routes)}"
                raise ServerError(self._path, what, "choose other routes in the profile")
            [file] = files
            files = []
            shared = SharedLines(file, self._hello.world, self._hello.lines)
        except (ValueError, OSError) as error:
            self.close()
            raise ServerError(self._path, f"no memory to share ({error})", "see ulimit") from None
        except ServerError:
            self.close()
            raise
        finally:
            close_all(files)
        return Session(self._sock, shared, self._hello.rank, message)

    def close(self) -> None:
        self._sock.close()


class ServerSession:
    """One rank of a job, through all its sessions. `submit` and `wait` may be called by two
    threads; each of them in the order of the buckets, the same on every rank."""

    def __init__(self, path: Path, hello: Hello, timeout_s: float) -> None:
        self.path, self.hello, self.timeout_s = path, hello, timeout_s
        self._session: Session | None = None
        self._joining: Joining | None = None
        self._seq = 0
        self._lock = threading.Lock()
        self._under_way = 0
        self._todo: deque[Ticket] = deque()
        self._why = ""
        self.counters: Counter[str] = Counter()
        """What the server has counted for the buckets that are done."""

    def join(self) -> None:
        """Say HELLO. ServerError when no server is there."""
        self._joining = Joining(self.path, self.hello)

    def joined(self) -> Welcome:
        """Wait until all ranks have come. ServerError."""
        if self._joining is None:
            raise ServerError(self.path, "HELLO was not said", "join first")
        session = self._joining.session(self.timeout_s + SILENCE_S)  # the server's time-out first
        if session is None:
            self._joining.close()
            what = f"the server has not answered for {self.timeout_s:g} s"
            raise ServerError(self.path, what, "is it stopped?")
        self._session, self._joining = session, None
        return session.said

    def submit(self, step: int, bucket: int, parts: Sequence[Part], sidecar: F32) -> Ticket:
        """Send the lines of a bucket, or when there is room; does not wait."""
        shapes = tuple(
            PartShape(part.route, part.net, len(part.lines), len(part.starts)) for part in parts
        )
        with self._lock:
            submit = Submit(
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
        """The outcome of a bucket. BucketLost, or ServerError, on every rank alike."""
        try:
            return self._outcome(ticket)
        finally:
            with self._lock:
                self._under_way -= 1
                self._send()

    def close(self) -> None:
        """Say BYE."""
        with self._lock:
            if self._session is not None:
                self._session.close(bye=True)
            if self._joining is not None:
                self._joining.close()
            self._session = self._joining = None
            self._why = "closed"

    def _send(self) -> None:
        """As many as there is room for: lines of a bucket lie where those of the last but one have
        lain."""
        while self._todo and self._under_way < IN_TURN:
            ticket = self._todo.popleft()
            self._under_way += 1
            session = self._alive()
            if session is not None and session.put(ticket):
                ticket.session = session
            else:
                ticket.why = session.ended if session is not None else self._why
                if self._joining is not None:
                    self._joining.skip(ticket.seq)

    def _alive(self) -> Session | None:
        """The session; a new one where it has ended, and server and ranks are there again."""
        if self._session is not None and not self._session.ended:
            return self._session
        if self._session is not None:
            self._why = self._session.ended
            self._session.close()
            self._session = None
        if self._why == "closed":
            return None
        try:
            if self._joining is None:
                self._joining = Joining(self.path, self.hello)
            self._session = self._joining.session(0.0)
            if self._session is not None:
                self._joining = None
        except ServerError as error:
            self._joining, self._why = None, str(error)
        return self._session

    def _outcome(self, ticket: Ticket) -> Outcome:
        session = ticket.session
        if session is None:
            raise BucketLost(ticket.why or "the server has not all ranks again")
        word = session.outcome(ticket.seq, self.timeout_s)
        reason = session.shared.reason(ticket.seq)
        if word == Word.REFUSED:
            raise ServerError(self.path, reason, "see the server's output")
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
    """The results, copied: the next bucket but one takes their place."""
    got, shape, out = shared.got[ticket.seq % IN_TURN], ticket.shape, []
    for part, first in zip(shape.parts, shape.firsts, strict=True):
        lines = got[:, first : first + part.lines]
        if part.route.codes:
            layers, _ = sum_kind(part.route, shared.workers)
            out.append(Reduced(np.empty((0, LINE), np.uint8), lines[:layers].copy()))
        elif part.net:
            out.append(Reduced(np.empty((0, LINE), np.uint8), lines[1:].copy()))
        else:
            out.append(Reduced(lines[0].copy(), np.empty((0, 0, LINE), np.uint8)))
    first, row = shape.side
    scales = row_of(got[0], first, shape.columns)
    return Outcome(out, scales, row_of(got[0], first + row, shape.columns))

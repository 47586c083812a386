# SPDX-License-Identifier: Apache-2.0
"""What the ranks of a training and a reducer server (`nf serve`) say to each other.

A Unix socket of kind SOCK_SEQPACKET: it keeps messages apart, tells who is at the other end, and
shows at once that the other end has died. A message is a JSON object of less than 4 KiB; the lines
themselves lie in shared memory (`shared_lines`), whose descriptor comes with WELCOME.

    rank                         server
    HELLO                   ->           every rank of a job, once
                            <-  WELCOME  to all, when the last has come and all have said the same
    SUBMIT                  ->           my lines of a bucket are in the shared memory
                            <-  DONE     to all: its outcome, which is a word of the shared memory
    SKIP                    ->           I do not submit buckets up to this one
    ASK                     ->           I have waited long: what of this bucket?
                            <-  PENDING  still at work, or DONE
    BYE                     ->
    STATUS                  ->           from anybody
                            <-  REPORT
                            <-  REFUSED  in place of any answer: one line; the connection ends

A session is the connections of all ranks of a job. It ends for all when it ends for one; ranks that
go on make a new one, by HELLO.
"""

from __future__ import annotations

import array
import json
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from neuron_fabric.codec.routes import Route
from neuron_fabric.data import DataError, Limits, as_object, parse_json
from neuron_fabric.errors import InputError
from neuron_fabric.typed import typed

VERSION = 2
MOST_BYTES = 4096
_LIMITS = Limits(size=MOST_BYTES, depth=6, values=1000)
_PATH_BYTES = 107  # sun_path, without the 0 at its end
PREFIX = "unix:"


class ServerError(InputError):
    """A reducer server that cannot be used, or refuses: the same line on every rank."""


# -- messages -------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Hello:
    """``job`` names the training; ``fingerprint`` is of all that its ranks have to agree on;
    ``lines``: the most lines that a rank will have in a bucket; ``routes``: those that buckets may
    have, beside FP32, by which every sidecar goes."""

    job: str
    rank: int
    world: int
    fingerprint: str
    lines: int
    routes: tuple[Route, ...] = (Route.G_BINARY, Route.G_TERNARY)


@dataclass(frozen=True)
class Welcome:
    """``device``: what it is, by name; ``routes``: those that it has."""

    device: Mapping[str, int | str]
    routes: tuple[Route, ...]


@dataclass(frozen=True)
class PartShape:
    """A part of a bucket: ``lines`` of each worker, of so many ``tensors``; ``net``: its counts
    come back."""

    route: Route
    net: bool
    lines: int
    tensors: int


@dataclass(frozen=True)
class Submit:
    """Bucket ``seq`` of the job, counted from 0: the lines of this rank are there. ``columns``:
    tensors in its sidecar; of these this rank has votes on ``present``, and ``poison`` are not
    finite here."""

    seq: int
    step: int
    bucket: int
    parts: tuple[PartShape, ...]
    columns: int
    present: int
    poison: int


@dataclass(frozen=True)
class Skip:
    """This rank submits no bucket up to this one, beside those it has: it had no session then. So
    the others need not wait for it."""

    seq: int


@dataclass(frozen=True)
class Done:
    """The outcome of a bucket is in the shared memory. ``counters``: what the device has counted
    for it."""

    seq: int
    counters: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Ask:
    """What of this bucket?"""

    seq: int


@dataclass(frozen=True)
class Pending:
    """It has no outcome yet: ``why``."""

    seq: int
    why: str


@dataclass(frozen=True)
class Status:
    """How is it?"""


@dataclass(frozen=True)
class Report:
    """Lines for a person."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Bye:
    """This rank is done."""


@dataclass(frozen=True)
class Refused:
    """One line for a person."""

    why: str


Message = Hello | Welcome | Submit | Skip | Done | Ask | Pending | Status | Report | Bye | Refused
_KINDS: dict[str, Any] = {
    kind.__name__.upper(): kind
    for kind in (Hello, Welcome, Submit, Skip, Done, Ask, Pending, Status, Report, Bye, Refused)
}


class WireError(Exception):
    """A message that is none; one line."""


class OtherVersion(WireError):
    """A message of another version of this format."""


def encode(message: Message) -> bytes:
    """A message in bytes. ValueError when it is too long."""
    words = {"nf": VERSION, "say": type(message).__name__.upper(), **asdict(message)}
    data = json.dumps(words, separators=(",", ":")).encode()
    if len(data) >= MOST_BYTES:
        raise ValueError(f"a message of {len(data)} bytes, {MOST_BYTES - 1} at most")
    return data


def decode(data: bytes) -> Message:
    """A message from bytes. WireError; OtherVersion, whatever else is in it."""
    try:
        words = as_object(parse_json(data, _LIMITS))
        version = words.pop("nf", None)
        if version != VERSION:
            raise OtherVersion(f"version {version!r}, this program speaks {VERSION}"[:120])
        kind = _KINDS.get(str(words.pop("say", None)))
        if kind is None:
            raise WireError("no message that is known here")
        message: Message = typed(kind, words)
    except DataError as error:
        raise WireError(str(error)) from None
    return message


# -- sockets --------------------------------------------------------------------------------------
def address(text: str) -> Path:
    """The socket that `unix:PATH` names. ServerError."""
    path = text.removeprefix(PREFIX)
    if not path or "\0" in path:
        raise ServerError(f"reducer {text!r}", "names no socket", "write unix:PATH")
    check_path(Path(path))
    return Path(path)


def check_path(path: Path) -> None:
    """ServerError where the system takes no such name for a socket."""
    size = len(os.fsencode(path))
    if size > _PATH_BYTES:
        what = f"the path of a socket has {_PATH_BYTES} bytes at most, this one {size}"
        raise ServerError(path, what, "choose a shorter one, as in /tmp")


def new_socket() -> socket.socket:
    """A socket of the kind that both sides use."""
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def connect(path: Path) -> socket.socket:
    """A connection to the server at ``path``, which does not block. ServerError."""
    sock = new_socket()
    try:
        sock.setblocking(False)
        sock.connect(os.fspath(path))
    except OSError as error:
        sock.close()
        start = f"start it: nf serve --socket {path}"
        if isinstance(error, BlockingIOError):
            raise ServerError(path, "the server does not take connections", "is it stopped?") from (
                None
            )
        if isinstance(error, FileNotFoundError):
            raise ServerError(path, "no reducer server is there", start) from None
        if isinstance(error, ConnectionRefusedError):
            what = "the server of this socket has ended"
            raise ServerError(path, what, start) from None
        what = f"no reducer server answers ({error.strerror})"
        raise ServerError(path, what, start) from None
    return sock


def send(sock: socket.socket, message: Message, files: Sequence[int] = ()) -> bool:
    """Whether it has gone: False where the other end has died, or does not read."""
    right = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))] if files else []
    try:
        sock.sendmsg([encode(message)], right, socket.MSG_NOSIGNAL)
    except OSError:
        return False
    return True


def receive(sock: socket.socket) -> tuple[Message, list[int]] | None:
    """A message, with the files that came with it; None: the other end is gone. WireError;
    BlockingIOError where there is none yet."""
    room = socket.CMSG_SPACE(4 * 4)
    try:
        data, ancillary, flags, _ = sock.recvmsg(
            MOST_BYTES, room, socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT
        )
    except BlockingIOError:
        raise
    except OSError:
        return None
    files: list[int] = []
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds = array.array("i")
            fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
            files += fds
    if not data:
        return None
    try:
        if flags & socket.MSG_TRUNC:
            raise WireError(f"a message of more than {MOST_BYTES} bytes")
        return decode(data), files
    except WireError:
        for file in files:
            os.close(file)
        raise

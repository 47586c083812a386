# SPDX-License-Identifier: Apache-2.0
"""Messages between the ranks of a training and a reducer server (`nf serve`).

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

Both sides look at the user of the other end before they say anything: gradients go to, and come
from, this user alone, and users that --allow-uid of the server and NF_ALLOW_UID of a rank name.
"""

from __future__ import annotations

import array
import json
import os
import select
import socket
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, get_args

from neuron_fabric.codec.routes import Route
from neuron_fabric.data import DataError, DataLimits, as_object, encodable, parse_json
from neuron_fabric.errors import InputError
from neuron_fabric.printable import one_line
from neuron_fabric.private_folder import NAME, make_private, private_temporary, who_else
from neuron_fabric.typed import typed

VERSION = 2
MOST_BYTES = 4096
_LIMITS = DataLimits(size=MOST_BYTES, depth=6, values=1000)
_PATH_BYTES = 107  # sun_path, without the 0 at its end
DEFAULT = "unix"
PREFIX = f"{DEFAULT}:"
ALLOW = "NF_ALLOW_UID"
_NUMBERS = {
    "rank": 1 << 16,
    "world": 1 << 16,
    "seq": 1 << 48,
    "step": 1 << 53,
    "bucket": 1 << 53,
    "lines": 1 << 62,
    "tensors": 1 << 32,
    "columns": 1 << 32,
    "present": 1 << 32,
    "poison": 1 << 32,
}
"""The largest value of each number of a message; the smallest is 0."""
_TEXTS = {"job": 64, "fingerprint": 128}
"""Bytes of each text that a rank chooses."""


class ServerError(InputError):
    """A reducer server that cannot be used, or refuses: the same line on every rank."""


# -- messages -------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Hello:
    """``job`` names the training; ``fingerprint`` is of all that its ranks have to agree on;
    ``lines``: the most lines that a rank will have in a bucket; ``routes``: those that buckets may
    have in addition to FP32, which every sidecar uses."""

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
    """Notice that this rank submits no further bucket up to this one, because it had no session
    then, so that the others need not wait for it."""

    seq: int


@dataclass(frozen=True)
class Done:
    """The outcome of a bucket is in the shared memory. ``counters``: what the device has counted
    for it."""

    seq: int
    counters: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Ask:
    """Question for the outcome of a bucket."""

    seq: int


@dataclass(frozen=True)
class Pending:
    """It has no outcome yet: ``why``."""

    seq: int
    why: str


@dataclass(frozen=True)
class StatusRequest:
    """Request for the status of the server."""


@dataclass(frozen=True)
class StatusReport:
    """Lines for a person."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Bye:
    """This rank is done."""


@dataclass(frozen=True)
class Refused:
    """One line for a person."""

    why: str


Message = (
    Hello
    | Welcome
    | Submit
    | Skip
    | Done
    | Ask
    | Pending
    | StatusRequest
    | StatusReport
    | Bye
    | Refused
)
_WORDS: dict[Any, str] = {kind: kind.__name__.upper() for kind in get_args(Message)} | {
    StatusRequest: "STATUS",
    StatusReport: "REPORT",
}
_KINDS: dict[str, Any] = {word: kind for kind, word in _WORDS.items()}


class WireError(Exception):
    """A message that is none; one line."""


class OtherVersion(WireError):
    """A message of another version of this format."""


def encode(message: Message) -> bytes:
    """Encode a message. Raise ValueError if it is too long."""
    words = {"nf": VERSION, "say": _WORDS[type(message)], **encodable(asdict(message))}
    data = json.dumps(words, separators=(",", ":"), ensure_ascii=False).encode()
    if len(data) >= MOST_BYTES:
        raise ValueError(f"a message of {len(data)} bytes, {MOST_BYTES - 1} at most")
    return data


def decode(data: bytes) -> Message:
    """Decode a message. Raise WireError, or OtherVersion for another version."""
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
    _check(message)
    return message


def _check(message: Any) -> None:
    """Raise WireError for a number out of range, or a text that is empty or too long."""
    for name in (one.name for one in fields(message)):
        value = getattr(message, name)
        if name in _NUMBERS and isinstance(value, int) and not 0 <= value <= _NUMBERS[name]:
            raise WireError(f"{name} {value} is not 0 to {_NUMBERS[name]}")
        if name in _TEXTS and not 1 <= len(value.encode()) <= _TEXTS[name]:
            raise WireError(f"{name} has {len(value.encode())} bytes, 1 to {_TEXTS[name]} it may")
        if name == "parts":
            for part in value:
                _check(part)


def cut(text: str, size: int) -> str:
    """Return ``text`` as one line of at most ``size`` bytes in UTF-8."""
    return one_line(text, size).encode()[:size].decode(errors="ignore")


# -- sockets --------------------------------------------------------------------------------------
def address(text: str) -> Path:
    """Return the socket that `unix:PATH` names, or `unix`, the default one. ServerError."""
    if text == DEFAULT:
        return default_socket()
    path = text.removeprefix(PREFIX)
    if not path or "\0" in path:
        raise ServerError(f"reducer {text!r}", "names no socket", "write unix:PATH")
    check_path(Path(path))
    return Path(path)


def default_socket() -> Path:
    """Return the socket of this user's server where none is named, in a folder that nobody else can
    enter: below XDG_RUNTIME_DIR, or where that is not of this user alone, below the folder for
    temporary files. ServerError."""
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    try:
        mine = os.path.isdir(runtime) and runtime.stat().st_uid == os.getuid()
        if runtime.is_absolute() and mine and not who_else(runtime):
            folder = make_private(runtime / NAME)
        else:
            folder = private_temporary()
    except OSError as error:
        todo = "name one: --socket PATH, and NF_REDUCER=unix:PATH"
        raise ServerError("the default socket", error.strerror or error, todo) from None
    check_path(folder / "serve")
    return folder / "serve"


def allowed_users() -> frozenset[int]:
    """Return the users that NF_ALLOW_UID names, whose server a rank may join. ServerError."""
    text = os.environ.get(ALLOW, "")
    words = [word.strip() for word in text.split(",")] if text.strip() else []
    if not all(word.isascii() and word.isdecimal() and len(word) < 11 for word in words):
        raise ServerError(ALLOW, f"{text!r} is no list of user numbers", "write 1000 or 1000,1001")
    return frozenset(map(int, words))


def peer_of(sock: socket.socket) -> tuple[int, int]:
    """Return process and user at the other end of a connection, as the kernel knows them."""
    size = struct.calcsize("3i")
    pid, uid, _ = struct.unpack("iII", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return pid, uid


def check_path(path: Path) -> None:
    """Raise ServerError for a path that is too long for a socket."""
    size = len(os.fsencode(path))
    if size > _PATH_BYTES:
        what = f"the path of a socket has {_PATH_BYTES} bytes at most, this one {size}"
        raise ServerError(path, what, "choose a shorter one, as in /tmp")


def new_socket() -> socket.socket:
    """Return a socket of the kind that both sides use."""
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def readable(sock: socket.socket, within_s: float) -> bool:
    """Return whether something can be read within this time. A process may have more than the 1024
    files that `select` takes."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(max(0.0, within_s) * 1000))


def connect(path: Path, allowed: Collection[int] = ()) -> socket.socket:
    """Connect to the server at ``path``, without blocking.

    Raises:
        ServerError: there is no server, or it belongs to a user other than this one, ``allowed``
            and those of NF_ALLOW_UID.
    """
    users = {os.getuid(), *allowed, *allowed_users()}
    sock = new_socket()
    try:
        sock.setblocking(False)
        sock.connect(os.fspath(path))
    except OSError as error:
        sock.close()
        todo = f"start it: nf serve --socket {path}"
        if isinstance(error, BlockingIOError):
            what, todo = "the server does not take connections", "is it stopped?"
        elif isinstance(error, FileNotFoundError):
            what = "no reducer server is there"
        elif isinstance(error, ConnectionRefusedError):
            what = "the server of this socket has ended"
        else:
            what = f"no reducer server answers ({error.strerror})"
        raise ServerError(path, what, todo) from None
    uid = peer_of(sock)[1]
    if uid not in users:
        sock.close()
        what = f"its server is of user {uid}, and you are {os.getuid()}"
        raise ServerError(path, what, f"start one of your own, or name that user in {ALLOW}")
    return sock


def send(sock: socket.socket, message: Message, files: Sequence[int] = ()) -> bool:
    """Send a message; return False if the other end has died or does not read."""
    right = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))] if files else []
    try:
        sock.sendmsg([encode(message)], right, socket.MSG_NOSIGNAL)
    except OSError:
        return False
    return True


def receive(sock: socket.socket) -> tuple[Message, list[int]] | None:
    """Receive a message with its files; None if the other end is gone.

    Raises:
        WireError: it is no message.
        BlockingIOError: there is none yet.
    """
    room, how = socket.CMSG_SPACE(4 * 4), socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT
    try:
        try:
            data, ancillary, flags, _ = sock.recvmsg(MOST_BYTES, room, how)
        except ConnectionResetError:  # it has not read all; what it has said comes after that
            data, ancillary, flags, _ = sock.recvmsg(MOST_BYTES, room, how)
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
        close_all(files)
        return None
    try:
        if flags & socket.MSG_TRUNC:
            raise WireError(f"a message of more than {MOST_BYTES} bytes")
        return decode(data), files
    except WireError:
        close_all(files)
        raise


def close_all(files: Iterable[int]) -> None:
    """Close files that came with a message."""
    for file in files:
        os.close(file)

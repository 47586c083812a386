# SPDX-License-Identifier: Apache-2.0
"""Messages between the ranks of a training and a reducer server (`nf serve`).

A Unix socket of kind SOCK_SEQPACKET is used: it keeps messages apart, identifies the peer, and
shows at once that the peer has died. A message is a JSON object of less than 4 KiB; the lines
themselves are in shared memory (`SharedLines`), whose descriptor comes with WELCOME.

  rank                                  server
  HELLO                   ->           every rank of a job, once
                          <-  WELCOME  to all, when the last has come and all have said the same
  SUBMIT                  ->           my lines of a bucket are in the shared memory
                          <-  DONE     to all: its outcome, which is a word of the shared memory;
                                       a round that was closed has it before the late SUBMIT
  SKIP                    ->           I do not submit buckets up to this one
  ASK                     ->           I have waited long: what of this bucket?
                          <-  PENDING  still at work, or DONE
  BYE                     ->
  STATUS                  ->           from anybody
                          <-  REPORT
                          <-  REFUSED  in place of any answer: one line; the connection ends

A session is the connections of all ranks of a job. It ends for all when it ends for one; ranks that
continue make a new one, by HELLO.

Both sides check the user of the peer before they send anything: gradients go to, and come from,
this user alone, and users that --allow-uid of the server and NF_ALLOW_UID of a rank name.
"""

from __future__ import annotations

import array
import json
import os
import select
import socket
import struct
import zlib
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

VERSION = 3
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
    "min_workers": 1 << 16,
}
"""The largest value of each number of a message; the smallest is 0."""
_TEXTS = {"job": 64, "fingerprint": 128}
"""Bytes of each text that a rank chooses."""


class ServerError(InputError):
    """A reducer server cannot be used, or refuses; the same error on every rank."""


# -- messages -------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Hello:
    """Message of a rank that joins a job at the server.

    Attributes:
        job: Name of the training.
        rank: Rank of the sender.
        world: Number of ranks.
        fingerprint: Digest of all that the ranks have to agree on.
        lines: Most lines that a rank will have in a bucket.
        routes: Routes that buckets may have in addition to FP32, which every sidecar uses.
        close_after_s: Seconds after which a round is closed without late ranks; 0: never.
        min_workers: Least number of contributions of a closed round.
    """

    job: str
    rank: int
    world: int
    fingerprint: str
    lines: int
    routes: tuple[Route, ...] = (Route.G_BINARY, Route.G_TERNARY)
    close_after_s: float = 0.0
    min_workers: int = 0


@dataclass(frozen=True)
class Welcome:
    """Answer to HELLO once all ranks have joined; the descriptor of the shared memory is with it.

    Attributes:
        device: Properties of the device by name.
        routes: Routes that the device supports.
    """

    device: Mapping[str, int | str]
    routes: tuple[Route, ...]


@dataclass(frozen=True)
class PartShape:
    """Shape of a part of a bucket: route, number of lines of each worker, and number of tensors.

    ``net``: whether its counts are returned.
    """

    route: Route
    net: bool
    lines: int
    tensors: int


@dataclass(frozen=True)
class Submit:
    """Message that this rank's lines of a bucket are in the shared memory.

    Attributes:
        seq: Number of the bucket in the job, counted from 0.
        step: Training step.
        bucket: Number of the bucket in the step.
        parts: Shapes of its parts.
        columns: Tensors in its sidecar.
        present: How many of them this rank has votes on.
        poison: How many of them are not finite on this rank.
    """

    seq: int
    step: int
    bucket: int
    parts: tuple[PartShape, ...]
    columns: int
    present: int
    poison: int

    @property
    def checksum(self) -> int:
        """Checksum of all that the submissions of one bucket must have in common."""
        return zlib.crc32(repr((self.step, self.bucket, self.parts, self.columns)).encode())


@dataclass(frozen=True)
class Skip:
    """Message that this rank submits no bucket up to ``seq``, because it had no session then.

    The others need not wait for it.
    """

    seq: int


@dataclass(frozen=True)
class Done:
    """Message that bucket ``seq`` has an outcome in the shared memory.

    ``counters`` are the counts of the device for it.
    """

    seq: int
    counters: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Ask:
    """Question of a rank for the outcome of bucket ``seq``."""

    seq: int


@dataclass(frozen=True)
class Pending:
    """Answer to ASK: bucket ``seq`` has no outcome yet; ``why`` is a text."""

    seq: int
    why: str


@dataclass(frozen=True)
class StatusRequest:
    """Request for the status of the server."""


@dataclass(frozen=True)
class StatusReport:
    """Status of the server, as lines of text for a person."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Bye:
    """Message that this rank ends its session."""


@dataclass(frozen=True)
class Refused:
    """Answer that ends the connection; ``why`` is one line of text for a person."""

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
    """Received data is no valid message; the text is one line."""


class OtherVersion(WireError):
    """A received message has another version of this format."""


def encode(message: Message) -> bytes:
    """Return the bytes of a message. Raise ValueError if it is too long."""
    words = {"nf": VERSION, "say": _WORDS[type(message)], **encodable(asdict(message))}
    data = json.dumps(words, separators=(",", ":"), ensure_ascii=False).encode()
    if len(data) >= MOST_BYTES:
        raise ValueError(f"a message of {len(data)} bytes, {MOST_BYTES - 1} at most")
    return data


def decode(data: bytes) -> Message:
    """Return the message in received bytes.

    Raises:
        OtherVersion: It has another version.
        WireError: It is no valid message.
    """
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
    """Check the ranges of a message's numbers and the lengths of its texts. Raise WireError."""
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
    """Return the path of the socket that `unix:PATH` names, or of the default one for `unix`.

    Raises:
        ServerError: The text names no possible socket.
    """
    if text == DEFAULT:
        return default_socket()
    path = text.removeprefix(PREFIX)
    if not path or "\0" in path:
        raise ServerError(f"reducer {text!r}", "names no socket", "write unix:PATH")
    check_path(Path(path))
    return Path(path)


def default_socket() -> Path:
    """Return the path of the default socket of this user's server, in a private folder.

    Only this user can enter the folder. It is below XDG_RUNTIME_DIR, or below the folder for
    temporary files if that is not private.

    Raises:
        ServerError: No such folder can be created.
    """
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
    """Return the user ids in NF_ALLOW_UID, whose servers a rank may join.

    Raises:
        ServerError: The variable is no list of numbers.
    """
    text = os.environ.get(ALLOW, "")
    words = [word.strip() for word in text.split(",")] if text.strip() else []
    if not all(word.isascii() and word.isdecimal() and len(word) < 11 for word in words):
        raise ServerError(ALLOW, f"{text!r} is no list of user numbers", "write 1000 or 1000,1001")
    return frozenset(map(int, words))


def peer_of(sock: socket.socket) -> tuple[int, int]:
    """Return (process id, user id) of the peer of a connection, as the kernel reports them."""
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
    """Return a new Unix socket of kind SOCK_SEQPACKET."""
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def readable(sock: socket.socket, within_s: float) -> bool:
    """Return whether a socket can be read within ``within_s`` seconds.

    `poll` is used: a process may have more than the 1024 files that `select` supports.
    """
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(max(0.0, within_s) * 1000))


def connect(path: Path, allowed: Collection[int] = ()) -> socket.socket:
    """Connect to the server at ``path``; return the socket, which does not block.

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
    """Send a message with file descriptors; return False if the peer has died or does not read."""
    right = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))] if files else []
    try:
        sock.sendmsg([encode(message)], right, socket.MSG_NOSIGNAL)
    except OSError:
        return False
    return True


def receive(sock: socket.socket) -> tuple[Message, list[int]] | None:
    """Receive a message with its file descriptors; None if the peer has gone.

    Raises:
        WireError: it is no valid message.
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
    """Close the file descriptors that came with a message."""
    for file in files:
        os.close(file)

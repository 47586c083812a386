# SPDX-License-Identifier: Apache-2.0
"""Journal of the lines that a device returned, so that a killed replay can be resumed.

One record is appended per epoch that was judged right. A record that is cut off at the end (by a
kill) is dropped; any other damage is refused. Each record contains a hash over the identity of its
journal, so records of another replay, shard or simulator are refused as well. Each shard has its
own journal; merging reads all of them.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import struct
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from models.line_packing import LINE_BYTES, U8
from neuron_fabric.data import DataError, as_object, parse_json
from neuron_fabric.errors import CaptureError
from neuron_fabric.output import create, naming, write_all
from neuron_fabric.typed import typed
from verif.replay.epoch import Key

_FORMAT = b"nf-replay-journal "
MAGIC = _FORMAT + b"2\n"
_HEAD = struct.Struct("<IIII")  # step, epoch, bytes of figures, bytes of lines
_LENGTH = struct.Struct("<I")  # of the identity
_CHECK_BYTES = 16  # a hash of identity, head, figures and lines
_AGAIN = "delete it and replay again without --resume"

_NONE = "replay that part first, without --resume"


@dataclass(frozen=True)
class JournalRecord:
    """Place of an epoch's record in a journal, and the figures of the epoch.

    Attributes:
        figures: Cycles, lines and counters.
        start: Offset of the record in bytes.
        body_size: Bytes of the figures.
        data_size: Bytes of the lines.
    """

    figures: dict[str, int]
    start: int
    body_size: int
    data_size: int

    @property
    def end(self) -> int:
        """Return the offset of the next record in bytes."""
        return self.start + _HEAD.size + self.body_size + self.data_size + _CHECK_BYTES


class Journal:
    """Open journal; ``records`` holds the records by (step, number of the epoch).

    The caller holds the lock of its name.
    """

    def __init__(
        self, path: Path, file: int, text: bytes, records: dict[Key, JournalRecord]
    ) -> None:
        """Take over an open file.

        Args:
            path: Name of the file, for messages.
            file: File descriptor.
            text: Identity of the replay as written in the file.
            records: Records in the file.
        """
        self.path = path
        self.records = records
        self._file = file
        self._text = text
        heads = [len(MAGIC) + _LENGTH.size + len(text)]
        self._end = max([record.end for record in records.values()] + heads)

    @staticmethod
    def create(path: Path, identity: Mapping[str, Any]) -> Journal:
        """Create an empty journal, in place of an older one.

        Args:
            path: Name of the file.
            identity: See `Replay.identity`.

        Raises:
            CaptureError: Another kind of file has this name.
            OSError: The file cannot be written.
        """
        _check_place(path)
        text = _identity(identity)
        file = create(path)
        try:
            with naming(path):
                write_all(file, MAGIC + _LENGTH.pack(len(text)) + text, 0)
        except BaseException:
            os.close(file)
            raise
        return Journal(path, file, text, {})

    @staticmethod
    def in_memory() -> Journal:
        """Return a journal without a file, for the few lines of a signal-level replay."""
        return Journal(Path("memory"), os.memfd_create("nf-replay"), b"", {})

    @staticmethod
    def open(path: Path, identity: Mapping[str, Any]) -> Journal:
        """Open the journal of an earlier run; a record that was cut off at the end is left out.

        Args:
            path: Name of the file.
            identity: See `Replay.identity`.

        Raises:
            CaptureError: It is missing, damaged, or of another replay.
        """
        with ExitStack() as undo:
            try:
                _check_place(path)
                file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
                undo.callback(os.close, file)
                journal = Journal(path, file, _identity(identity), _read(path, file, identity))
            except FileNotFoundError:
                raise CaptureError(path, "there is no journal", _NONE) from None
            except OSError as error:
                raise CaptureError(path, error.strerror or error, "check the file") from None
            undo.pop_all()
        return journal

    def append(self, key: Key, figures: Mapping[str, int], lines: U8) -> None:
        """Append an epoch.

        Args:
            key: (step, number of the epoch in the step).
            figures: Cycles, lines and counters.
            lines: Returned lines, uint8[m, 64].

        Raises:
            CaptureError: The disk is full; earlier records are not changed.
        """
        body = json.dumps(dict(figures)).encode()
        data = lines.tobytes()
        head = _HEAD.pack(*key, len(body), len(data))
        record = JournalRecord(dict(figures), self._end, len(body), len(data))
        whole = head + body + data
        try:
            os.ftruncate(self._file, self._end)  # drop a record that a kill cut off
            write_all(self._file, whole + _check(self._text, whole), self._end)
        except OSError as error:
            os.ftruncate(self._file, self._end)
            todo = "make room, then go on with the same command and --resume"
            raise CaptureError(self.path, error.strerror or error, todo) from None
        self._end = record.end
        self.records[key] = record

    def lines(self, key: Key) -> U8:
        """Return all lines of an epoch, uint8[m, 64].

        Args:
            key: (step, number of the epoch in the step).

        Raises:
            CaptureError: The file has changed since it was opened.
        """
        record = self.records[key]
        size = record.end - record.start
        whole = os.pread(self._file, size, record.start)
        if len(whole) < size or _check(self._text, whole[:-_CHECK_BYTES]) != whole[-_CHECK_BYTES:]:
            raise _damaged(self.path, record.start)
        first = _HEAD.size + record.body_size
        data = whole[first : first + record.data_size]
        return np.frombuffer(data, np.uint8).reshape(-1, LINE_BYTES)

    def close(self, delete: bool = False) -> None:
        """Close the file if it is open; with ``delete`` remove it."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)
        if delete:
            self.path.unlink(missing_ok=True)


def _check_place(path: Path) -> None:
    """Check that the name of a journal is free, or that of a journal.

    Raises:
        CaptureError: Another kind of file has this name.
        OSError: The file cannot be read.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        kind = "a link" if stat.S_ISLNK(mode) else "no file"
        raise CaptureError(path, f"is {kind}, and a journal would go there", "move it away")
    with path.open("rb") as stream:
        start = stream.read(len(_FORMAT))
    if not _FORMAT.startswith(start[: len(_FORMAT)]):
        raise CaptureError(path, "no journal of a replay, and one would go there", "move it away")


def _check(identity: bytes, record: bytes) -> bytes:
    """Return the hash that ends a record, from the journal's identity and the bytes of the
    record.
    """
    return hashlib.sha256(hashlib.sha256(identity).digest() + record).digest()[:_CHECK_BYTES]


def _identity(identity: Mapping[str, Any]) -> bytes:
    return json.dumps(dict(identity), sort_keys=True).encode()


def _read(path: Path, file: int, identity: Mapping[str, Any]) -> dict[Key, JournalRecord]:
    size = os.fstat(file).st_size
    magic = os.pread(file, len(MAGIC), 0)
    if magic != MAGIC:
        what = "no journal of a replay, or one of another version"
        raise CaptureError(path, what, _AGAIN)
    length = os.pread(file, _LENGTH.size, len(MAGIC))
    whole = len(MAGIC) + _LENGTH.size
    claimed = _LENGTH.unpack(length)[0] if len(length) == _LENGTH.size else 0
    text = os.pread(file, min(claimed, size), whole)
    if text != _identity(identity):
        raise CaptureError(path, f"it is of another replay{_difference(text, identity)}", _AGAIN)
    whole += len(text)
    records: dict[Key, JournalRecord] = {}
    while whole + _HEAD.size <= size:
        head = os.pread(file, _HEAD.size, whole)
        step, number, body_size, data_size = _HEAD.unpack(head)
        record = JournalRecord({}, whole, body_size, data_size)
        if record.end > size:
            break
        data = os.pread(file, record.end - whole, whole)
        if _check(text, data[:-_CHECK_BYTES]) != data[-_CHECK_BYTES:]:
            raise _damaged(path, whole)
        if (step, number) in records:
            raise CaptureError(path, f"step {step} round {number} occurs twice", _AGAIN)
        try:
            body = data[_HEAD.size : _HEAD.size + body_size]
            record.figures.update(typed(dict[str, int], parse_json(body), "figures"))
        except DataError as error:
            raise CaptureError(path, f"the record at byte {whole}: {error}", _AGAIN) from None
        records[step, number] = record
        whole = record.end
    return records


def _damaged(path: Path, at: int) -> CaptureError:
    return CaptureError(path, f"the record at byte {at} is damaged, or of another replay", _AGAIN)


def _difference(text: bytes, identity: Mapping[str, Any]) -> str:
    """Return the first setting in which a journal's identity differs, as " (NAME OLD, now NEW)".

    "" if the identity in the file cannot be read.
    """
    try:
        old = as_object(parse_json(text))
        names = [name for name in identity if old.get(name) != identity[name]]
    except DataError:
        return ""
    return f" ({names[0]} {old.get(names[0])!r}, now {identity[names[0]]!r})" if names else ""

# SPDX-License-Identifier: Apache-2.0
"""What the device returned, round by round, on disk: the memory of a replay that can be killed.

A journal is appended to, one record a round that was judged right. What a kill leaves is a record
cut off at the end, which is dropped; anything else that is not as it was written is refused.
Shards of a replay have a journal each, and are merged by reading all of them.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from models.errors import CaptureError
from models.formats import LINE_BYTES, U8
from nf_capture.data import DataError, as_object, parse_json
from nf_capture.typed import typed

MAGIC = b"nf-replay-journal 1\n"
_HEAD = struct.Struct("<IIII")  # step, round, bytes of figures, bytes of lines
_CHECK = struct.Struct("<I")  # CRC-32 of head, figures and lines
_AGAIN = "delete it and replay again without --resume"

_NONE = "replay that part first, without --resume"

Key = tuple[int, int]
"""(step, round)"""


@dataclass(frozen=True)
class Record:
    """A round in the file: figures, and where its lines stand."""

    figures: dict[str, int]
    offset: int
    size: int


class Journal:
    """An open journal; ``records`` by (step, round)."""

    def __init__(self, path: Path, stream: IO[bytes], records: dict[Key, Record]) -> None:
        self.path = path
        self.records = records
        self._stream = stream

    @staticmethod
    def create(path: Path, identity: Mapping[str, Any]) -> Journal:
        """An empty journal in place of whatever was there."""
        text = _identity(identity)
        stream = path.open("w+b")
        stream.write(MAGIC + _CHECK.pack(len(text)) + text)
        stream.flush()
        return Journal(path, stream, {})

    @staticmethod
    def open(path: Path, identity: Mapping[str, Any]) -> Journal:
        """The journal of an earlier run, a record cut off at its end dropped.

        CaptureError when it is of another replay, or damaged.
        """
        try:
            stream = path.open("r+b")
        except FileNotFoundError:
            raise CaptureError(path, "there is no journal", _NONE) from None
        except OSError as error:
            raise CaptureError(path, error.strerror or error, "check the file") from None
        try:
            records = _read(path, stream, identity)
        except BaseException:
            stream.close()
            raise
        return Journal(path, stream, records)

    def append(self, key: Key, figures: Mapping[str, int], lines: Sequence[U8]) -> None:
        """Add a round; ``lines`` are written one after the other."""
        body = json.dumps(dict(figures)).encode()
        data = b"".join(part.tobytes() for part in lines)
        head = _HEAD.pack(*key, len(body), len(data))
        check = zlib.crc32(data, zlib.crc32(body, zlib.crc32(head)))
        self._stream.seek(0, os.SEEK_END)
        offset = self._stream.tell() + len(head) + len(body)
        self._stream.write(b"".join((head, body, data, _CHECK.pack(check))))
        self._stream.flush()
        self.records[key] = Record(dict(figures), offset, len(data))

    def lines(self, key: Key) -> U8:
        """uint8[n, 64]: everything that a round returned."""
        record = self.records[key]
        self._stream.seek(record.offset)
        data = self._stream.read(record.size)
        return np.frombuffer(data, np.uint8).reshape(-1, LINE_BYTES)

    def close(self, delete: bool = False) -> None:
        """Close the file; ``delete``: it has served its purpose."""
        self._stream.close()
        if delete:
            self.path.unlink(missing_ok=True)


def _identity(identity: Mapping[str, Any]) -> bytes:
    return json.dumps(dict(identity), sort_keys=True).encode()


def digest(data: bytes) -> str:
    """Short name of some content."""
    return hashlib.sha256(data).hexdigest()[:16]


def _read(path: Path, stream: IO[bytes], identity: Mapping[str, Any]) -> dict[Key, Record]:
    size = path.stat().st_size
    if stream.read(len(MAGIC)) != MAGIC:
        raise CaptureError(path, "no journal of a replay", _AGAIN)
    length = stream.read(_CHECK.size)
    text = stream.read(_CHECK.unpack(length)[0]) if len(length) == _CHECK.size else b""
    if text != _identity(identity):
        raise CaptureError(path, f"it is of another replay{_difference(text, identity)}", _AGAIN)
    records: dict[Key, Record] = {}
    whole = stream.tell()
    while whole < size:
        head = stream.read(_HEAD.size)
        if len(head) < _HEAD.size:
            break
        step, number, body_size, data_size = _HEAD.unpack(head)
        if whole + _HEAD.size + body_size + data_size + _CHECK.size > size:
            break
        body = stream.read(body_size)
        offset = stream.tell()
        data = stream.read(data_size)
        check = _CHECK.unpack(stream.read(_CHECK.size))[0]
        if check != zlib.crc32(data, zlib.crc32(body, zlib.crc32(head))):
            raise CaptureError(path, f"the record at byte {whole} is damaged", _AGAIN)
        if (step, number) in records:
            raise CaptureError(path, f"step {step} round {number} stands twice", _AGAIN)
        try:
            figures = typed(dict[str, int], parse_json(body), "figures")
        except DataError as error:
            raise CaptureError(path, f"the record at byte {whole}: {error}", _AGAIN) from None
        records[step, number] = Record(figures, offset, data_size)
        whole = stream.tell()
    stream.truncate(whole)
    return records


def _difference(text: bytes, identity: Mapping[str, Any]) -> str:
    """The first setting that differs, as far as the header can be read."""
    try:
        old = as_object(parse_json(text))
        names = [name for name in identity if old.get(name) != identity[name]]
    except DataError:
        return ""
    return f" ({names[0]} {old.get(names[0])!r}, now {identity[names[0]]!r})" if names else ""

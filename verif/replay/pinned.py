# SPDX-License-Identifier: Apache-2.0
"""Files whose content must not change while they are read, however often and in whatever pieces."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from neuron_fabric.data import open_file
from neuron_fabric.errors import CaptureError

CHUNK = 1 << 16
"""Bytes that are hashed together: what a read costs more than it asks for, at most twice this."""
_DIGEST = 16


def changed(where: object) -> CaptureError:
    """What to raise when a capture is not what it was."""
    return CaptureError(
        where, "has changed since this replay began to read it", "replay it again from the start"
    )


@dataclass
class PinnedFile:
    """A file by the hashes of its chunks: each is noted when the chunk is first read, and held
    against the chunk at every later read. 16 bytes of memory for 64 KiB of file."""

    path: Path
    size: int
    _hashes: dict[int, bytes] = field(default_factory=dict)

    def read(self, offset: int, size: int) -> bytes:
        """Those bytes, fewer where the file ends. CaptureError when they are not what they were;
        OSError."""
        first, last = offset // CHUNK, -(-(offset + size) // CHUNK)
        with open_file(self.path) as stream:
            stream.seek(first * CHUNK)
            data = memoryview(stream.read((last - first) * CHUNK))
        for at in range(first, last):
            chunk = data[(at - first) * CHUNK : (at - first + 1) * CHUNK]
            found = hashlib.sha256(chunk).digest()[:_DIGEST]
            if self._hashes.setdefault(at, found) != found:
                raise changed(self.path)
        begin = offset - first * CHUNK
        return bytes(data[begin : begin + size])

    def digest(self) -> str:
        """Names the content, every byte of it; what has not been read yet is read now."""
        total = hashlib.sha256(str(self.size).encode())
        for at in range(-(-self.size // CHUNK)):
            if at not in self._hashes:
                self.read(at * CHUNK, CHUNK)
            total.update(self._hashes[at])
        return total.hexdigest()

# SPDX-License-Identifier: Apache-2.0
"""A safetensors file that is written piece by piece and appears whole or not at all.

The format: 8 bytes of header length (little-endian), a JSON header, then the tensors' bytes without
holes. The header needs shapes only, so it goes first, and each tensor goes to its place as it
comes: in any order, and with no more than one of them in memory.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from neuron_fabric.capture.layout import TensorSpec
from neuron_fabric.output import create, naming, put, write_all

PART = ".part"


class TensorFileWriter:
    """Writes ``path`` under a temporary name; `close` gives it its own when every byte is there.

    ``durable``: what `close` has renamed survives a crash of the machine, not of the process alone.
    As a context manager it closes at the end, and leaves nothing behind on an exception.
    """

    def __init__(
        self,
        path: Path,
        tensors: Iterable[TensorSpec],
        metadata: Mapping[str, str] | None = None,
        *,
        durable: bool = False,
        zeros: bool = False,
    ) -> None:
        """Write the header. OSError when the file cannot be made.

        ``zeros``: tensors may be written in pieces, and what nobody writes is 0.
        """
        self.path = path
        self._durable = durable
        self._temporary = path.with_name(path.name + PART)
        self._places: dict[str, tuple[int, int]] = {}
        header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
        end = 0
        for spec in tensors:
            start, end = end, end + spec.size
            header[spec.name] = {
                "dtype": spec.dtype,
                "shape": list(spec.shape),
                "data_offsets": [start, end],
            }
            self._places[spec.name] = (start, end)
        text = json.dumps(header, separators=(",", ":")).encode("utf-8")
        text += b" " * (-len(text) % 8)
        self._data = 8 + len(text)
        self._missing = {name for name, (start, end) in self._places.items() if end > start}
        self._zeros = zeros
        self._file = os.fdopen(create(self._temporary), "wb", buffering=0)
        try:
            with naming(path):
                write_all(self._file.fileno(), len(text).to_bytes(8, "little") + text, 0)
                if zeros:
                    self._file.truncate(self._data + end)
        except BaseException:
            self.abort()
            raise

    def write(self, name: str, data: Any, at: int = 0) -> None:
        """A tensor's bytes, C order, little-endian: any contiguous buffer, not copied.

        Each tensor comes once and whole; with ``zeros`` in pieces, this one from byte ``at`` on.
        ValueError for what is not so, and for a tensor that the header does not have.
        """
        view = memoryview(data)
        if name not in self._places:
            raise ValueError(f"tensor {name!r} is not in the file")
        start, end = self._places[name]
        fits = 0 <= at <= end - start - view.nbytes
        if not (fits if self._zeros else at == 0 and view.nbytes == end - start):
            raise ValueError(f"tensor {name!r} takes {end - start} bytes, got {view.nbytes}")
        if view.nbytes == 0:
            return
        if not self._zeros and name not in self._missing:
            raise ValueError(f"tensor {name!r} came twice")
        with naming(self.path):
            write_all(self._file.fileno(), view.cast("B"), self._data + start + at)
        self._missing.discard(name)

    def close(self) -> None:
        """The file appears. ValueError, and no file, when a tensor is missing."""
        if self._missing and not self._zeros:
            name = next(name for name in self._places if name in self._missing)
            count = len(self._missing)
            self.abort()
            raise ValueError(f"tensor {name!r} was not written ({count} missing)")
        try:
            with naming(self.path):
                if self._durable:
                    os.fsync(self._file.fileno())
                self._file.close()
                put(self._temporary, self.path)
        except OSError:
            self.abort()
            raise
        if self._durable:
            sync_folder(self.path.parent)

    def abort(self) -> None:
        """Give up; nothing is left on disk."""
        with contextlib.suppress(OSError):
            self._file.close()
        self._temporary.unlink(missing_ok=True)

    def __enter__(self) -> TensorFileWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a crash of the machine."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)

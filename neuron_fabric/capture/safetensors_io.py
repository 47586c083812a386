# SPDX-License-Identifier: Apache-2.0
"""safetensors files, read with every header field checked, and written.

The format is that of `tensor_file`, which writes it. Parsed here, because the numpy binding
has no BF16 and reports a bad file as a traceback.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from neuron_fabric.capture.layout import TensorSpec
from neuron_fabric.capture.tensor_file import TensorFileWriter
from neuron_fabric.data import DataError, Limits, as_object, open_file, parse_json
from neuron_fabric.errors import CaptureError

MAX_HEADER = 100_000_000
MAX_ELEMENTS = 1 << 40
_HEADER = Limits(size=MAX_HEADER)

# BF16 has no numpy type: it travels as its bit pattern.
_DTYPES: dict[str, str] = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U8": "u1",
    "BOOL": "u1",
}
_AGAIN = "the file is damaged, capture it again"


@dataclass(frozen=True)
class TensorInfo:
    """One entry of the header; ``start`` and ``end`` are file offsets in bytes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True)
class TensorFile:
    """A checked header; ``size`` of the whole file in bytes."""

    path: Path
    tensors: dict[str, TensorInfo]
    metadata: dict[str, str]
    size: int
    reader: Callable[[int, int], bytes] | None = field(default=None, compare=False)
    """(offset, bytes) -> the file's content, where somebody watches what is read."""

    def read(self, name: str) -> NDArray[Any]:
        """The tensor as stored, BF16 as uint16 patterns; KeyError for an unknown name."""
        shape = self.tensors[name].shape
        return self._stretch(name, 0, math.prod(shape)).reshape(shape)

    def _stretch(self, name: str, first: int, count: int) -> NDArray[Any]:
        """Elements [first, first + count) of a tensor as stored, flat."""
        info = self.tensors[name]
        dtype = np.dtype(_DTYPES[info.dtype])
        size = count * dtype.itemsize
        try:
            data = (self.reader or self._read)(info.start + first * dtype.itemsize, size)
        except OSError as error:
            raise CaptureError(self.path, error.strerror or error, "check the file") from None
        if len(data) != size:
            raise CaptureError(self.path, f"tensor {name!r} is truncated", _AGAIN)
        return np.frombuffer(data, dtype=dtype)

    def _read(self, offset: int, size: int) -> bytes:
        with open_file(self.path) as stream:
            stream.seek(offset)
            return stream.read(size)

    def read_f32(self, name: str) -> NDArray[np.float32]:
        """The tensor widened to float32 (from F32, F16 or BF16)."""
        return self._widened(name, self.read(name))

    def stretch_f32(self, name: str, first: int, count: int) -> NDArray[np.float32]:
        """The same for elements [first, first + count) in C order, flat; nothing else is read."""
        return self._widened(name, self._stretch(name, first, count))

    def _widened(self, name: str, raw: NDArray[Any]) -> NDArray[np.float32]:
        info = self.tensors[name]
        if info.dtype == "BF16":
            return bf16_to_f32(raw)
        if info.dtype not in ("F32", "F16"):
            raise CaptureError(
                self.path,
                f"tensor {name!r} is {info.dtype}",
                "gradients are F32, F16 or BF16: capture it as one of these",
            )
        with np.errstate(invalid="ignore"):
            return raw.astype(np.float32)


def bf16_to_f32(patterns: NDArray[np.uint16]) -> NDArray[np.float32]:
    """BF16 bit patterns to float32: exact, the upper half of the binary32 pattern."""
    return (patterns.astype(np.uint32) << np.uint32(16)).view(np.float32)


def f32_to_bf16(values: ArrayLike) -> NDArray[np.uint16]:
    """float32 to BF16 bit patterns, round to nearest even; a NaN stays a (quiet) NaN."""
    array = np.ascontiguousarray(np.asarray(values, dtype=np.float32))
    bits = array.view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)
    quiet = (bits >> np.uint64(16)) | np.uint64(0x40)
    return np.where(np.isnan(array), quiet, rounded).astype(np.uint16)


def is_int(value: object) -> bool:
    """True for a JSON integer (bool is not one)."""
    return isinstance(value, int) and not isinstance(value, bool)


def parse_shape(where: object, name: str, value: object, todo: str) -> tuple[int, ...]:
    """A list of dimensions; CaptureError when it is none, or has more than 2**40 elements."""
    if (
        not isinstance(value, list)
        or len(value) > 32
        or not all(is_int(d) and 0 <= d < MAX_ELEMENTS for d in value)
        or math.prod(value) >= MAX_ELEMENTS
    ):
        raise CaptureError(where, f"tensor {name!r} has a bad shape {value}", todo)
    return tuple(value)


def open_tensors(path: Path) -> TensorFile:
    """Read and check the header of ``path``; CaptureError in one line when anything is wrong."""
    try:
        with open_file(path) as stream:
            size = os.fstat(stream.fileno()).st_size
            prefix = stream.read(8)
            length = int.from_bytes(prefix, "little")
            if len(prefix) < 8 or length > min(size - 8, MAX_HEADER):
                raise CaptureError(path, f"truncated: {size} bytes, header cut off", _AGAIN)
            content = as_object(parse_json(stream.read(length), _HEADER))
    except DataError as error:
        raise CaptureError(path, error, _AGAIN) from None
    except FileNotFoundError:
        raise CaptureError(path, "file is missing", "capture it again") from None
    except OSError as error:
        raise CaptureError(path, error.strerror or error, "check the file") from None
    metadata = content.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise CaptureError(path, "__metadata__ is no map of texts", _AGAIN)
    tensors = {name: _entry(path, name, entry, 8 + length) for name, entry in content.items()}
    end = 8 + length
    for info in sorted(tensors.values(), key=lambda t: (t.start, t.end)):
        if info.start != end:
            raise CaptureError(
                path, f"tensor {info.name!r} overlaps or leaves a hole before it", _AGAIN
            )
        end = info.end
    if end > size:
        raise CaptureError(path, f"truncated: {size} bytes, {end} expected", _AGAIN)
    if end < size:
        raise CaptureError(path, f"{size - end} bytes behind the last tensor", _AGAIN)
    return TensorFile(path, tensors, metadata, size)


def _entry(path: Path, name: str, entry: object, data_start: int) -> TensorInfo:
    if not isinstance(entry, dict):
        raise CaptureError(path, f"tensor {name!r} has no description", _AGAIN)
    dtype = entry.get("dtype")
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise CaptureError(
            path, f"tensor {name!r} has dtype {dtype}", "gradients are F32, F16 or BF16"
        )
    shape = parse_shape(path, name, entry.get("shape"), _AGAIN)
    offsets = entry.get("data_offsets")
    if (
        not isinstance(offsets, list)
        or len(offsets) != 2
        or not all(is_int(o) for o in offsets)
        or not 0 <= offsets[0] <= offsets[1]
    ):
        raise CaptureError(path, f"tensor {name!r} has bad data_offsets", _AGAIN)
    size = math.prod(shape) * np.dtype(_DTYPES[dtype]).itemsize
    if offsets[1] - offsets[0] != size:
        raise CaptureError(
            path,
            f"tensor {name!r} has {offsets[1] - offsets[0]} bytes, its shape needs {size}",
            _AGAIN,
        )
    return TensorInfo(name, dtype, shape, data_start + offsets[0], data_start + offsets[1])


_NAMES = {
    np.dtype("f8"): "F64",
    np.dtype("f4"): "F32",
    np.dtype("f2"): "F16",
    np.dtype("i8"): "I64",
    np.dtype("i4"): "I32",
    np.dtype("i2"): "I16",
    np.dtype("i1"): "I8",
    np.dtype("u1"): "U8",
}


def write_tensors(
    path: Path,
    tensors: Mapping[str, NDArray[Any]],
    metadata: Mapping[str, str] | None = None,
    bf16: bool = False,
    durable: bool = False,
) -> None:
    """Write ``tensors`` (C order) and text ``metadata``; the file appears whole or not at all.

    ``durable``: it is on the disk before it appears, and a disk that is full has said so.
    With ``bf16`` every float32 tensor is rounded and stored as BF16. ValueError for a dtype that
    the format has no name for.
    """
    specs = []
    for name, array in tensors.items():
        dtype = dtype_name(name, array.dtype)
        rounded = bf16 and dtype == "F32"
        specs.append(TensorSpec(name, array.shape, "BF16" if rounded else dtype))
    with TensorFileWriter(path, specs, metadata, durable=durable) as file:
        for spec, array in zip(specs, tensors.values(), strict=True):
            stored = f32_to_bf16(array) if spec.dtype == "BF16" else array
            little = stored.dtype.newbyteorder("<")
            file.write(spec.name, np.ascontiguousarray(stored, dtype=little))


def dtype_name(name: str, dtype: np.dtype[Any]) -> str:
    """The format's name of a numpy type; ValueError when it has none."""
    if dtype not in _NAMES:
        raise ValueError(f"tensor {name!r}: dtype {dtype} cannot be stored")
    return _NAMES[dtype]


class StretchWriter:
    """A file whose tensors are written stretch by stretch, in any order, in constant memory.

    Use it as a context manager: the file appears when the block ends, or not at all when it raises.
    What nobody writes is 0. It is on the disk before it appears.
    """

    def __init__(
        self,
        path: Path,
        entries: Mapping[str, tuple[np.dtype[Any], tuple[int, ...]]],
        metadata: Mapping[str, str],
    ) -> None:
        """``entries``: dtype and shape by name, in the file's order."""
        self._types = {name: dtype.newbyteorder("<") for name, (dtype, _) in entries.items()}
        specs = [
            TensorSpec(n, shape, dtype_name(n, dtype)) for n, (dtype, shape) in entries.items()
        ]
        self._file = TensorFileWriter(path, specs, metadata, durable=True, zeros=True)

    def write(self, name: str, first: int, values: NDArray[Any]) -> None:
        """Elements from ``first`` on, in C order."""
        dtype = self._types[name]
        data = np.ascontiguousarray(values, dtype=dtype)
        self._file.write(name, data, first * dtype.itemsize)

    def __enter__(self) -> StretchWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self._file.close()
        else:
            self._file.abort()

# SPDX-License-Identifier: Apache-2.0
"""Reader and writer of safetensors files.

The library validates the header; the data is read here. The numpy binding of the library has no
BF16 and cannot read a part of a tensor. It also maps the file into memory, so that a file truncated
during a read would end the process with SIGBUS, and it accepts duplicate names, which are refused
here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from safetensors import SafetensorError, safe_open

from neuron_fabric.capture.layout import DTYPES, STORED, TensorSpec, check_shape
from neuron_fabric.data import DataError, DataLimits, as_object, open_file, parse_json
from neuron_fabric.errors import CaptureError
from neuron_fabric.output import NewFile, naming

_HEADER = DataLimits(size=100_000_000)  # limit of the library
_AGAIN = "the file is damaged, capture it again"


@dataclass(frozen=True)
class TensorInfo(TensorSpec):
    """Tensor in the header of a safetensors file; ``start`` is the offset of its data in bytes."""

    start: int = 0


@dataclass(frozen=True)
class TensorFile:
    """Opened safetensors file: its checked header, and methods that read tensors.

    ``size`` is the size of the whole file in bytes.
    """

    path: Path
    tensors: dict[str, TensorInfo]
    metadata: dict[str, str]
    size: int
    reader: Callable[[int, int], bytes] | None = field(default=None, compare=False)
    """Function (offset, bytes) -> content; a caller may observe all reads with it."""

    def read(self, name: str) -> NDArray[Any]:
        """Return a tensor as stored, BF16 as uint16 bit patterns.

        Raises:
            KeyError: The file has no such tensor.
            CaptureError: The data cannot be read or is truncated.
        """
        info = self.tensors[name]
        return self._stretch(name, 0, info.elements).reshape(info.shape)

    def _stretch(self, name: str, first: int, count: int) -> NDArray[Any]:
        """Return elements [first, first + count) of a tensor as stored, flat."""
        info = self.tensors[name]
        dtype = STORED[info.dtype]
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
        """Return a tensor converted to float32, from F32, F16 or BF16.

        Raises:
            CaptureError: It has another type, or its data cannot be read.
        """
        info = self.tensors[name]
        return self.stretch_f32(name, 0, info.elements).reshape(info.shape)

    def stretch_f32(self, name: str, first: int, count: int) -> NDArray[np.float32]:
        """Return elements [first, first + count) of a tensor, in C order, as flat float32.

        No other data is read. Raises the same errors as `read_f32`.
        """
        raw, dtype = self._stretch(name, first, count), self.tensors[name].dtype
        if dtype == "BF16":
            return bf16_to_f32(raw)
        if dtype not in DTYPES:
            todo = "gradients are F32, F16 or BF16: capture it as one of these"
            raise CaptureError(self.path, f"tensor {name!r} is {dtype}", todo)
        with np.errstate(invalid="ignore"):
            return raw.astype(np.float32)


def bf16_to_f32(patterns: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Convert BF16 bit patterns (uint16) to float32, exactly: they are its upper 16 bits."""
    return (patterns.astype(np.uint32) << np.uint32(16)).view(np.float32)


def f32_to_bf16(values: ArrayLike) -> NDArray[np.uint16]:
    """Convert float32 to BF16 bit patterns, rounded to nearest even; a NaN becomes a quiet NaN."""
    array = np.ascontiguousarray(np.asarray(values, dtype=np.float32))
    bits = array.view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)
    quiet = (bits >> np.uint64(16)) | np.uint64(0x40)
    return np.where(np.isnan(array), quiet, rounded).astype(np.uint16)


def open_tensors(path: Path) -> TensorFile:
    """Read and check the header of the safetensors file ``path``.

    Raises:
        CaptureError: The file is missing, truncated or damaged.
    """
    try:
        with open_file(path) as stream:
            size = os.fstat(stream.fileno()).st_size
            prefix = stream.read(8)
            length = int.from_bytes(prefix, "little")
            if len(prefix) < 8 or length > min(size - 8, _HEADER.size):
                raise CaptureError(path, f"truncated: {size} bytes, header cut off", _AGAIN)
            content = as_object(parse_json(stream.read(length), _HEADER))
        with safe_open(path, "np"):
            pass
    except DataError as error:
        raise CaptureError(path, error, _AGAIN) from None
    except SafetensorError as error:
        what = str(error).removeprefix("Error while deserializing header: ")
        if "file not fully covered" in what:
            what = f"truncated, or with bytes after the last tensor: {size} bytes"
        raise CaptureError(path, what, _AGAIN) from None
    except FileNotFoundError:
        raise CaptureError(path, "file is missing", "capture it again") from None
    except OSError as error:
        raise CaptureError(path, error.strerror or error, "check the file") from None
    metadata = content.pop("__metadata__", {})
    tensors = {name: _entry(path, name, entry, 8 + length) for name, entry in content.items()}
    return TensorFile(path, tensors, metadata, size)


def _entry(path: Path, name: str, entry: dict[str, Any], data_start: int) -> TensorInfo:
    """Return a tensor's entry of a header that the library has accepted.

    ``data_start`` is the offset in the file at which tensor data starts.
    """
    dtype = entry["dtype"]
    if dtype not in STORED:
        what = f"tensor {name!r} has dtype {dtype}"
        raise CaptureError(path, what, "gradients are F32, F16 or BF16")
    shape = check_shape(path, name, entry["shape"], _AGAIN)
    return TensorInfo(name, shape, dtype, data_start + entry["data_offsets"][0])


PART = ".part"


class TensorFileWriter(NewFile):
    """Writer of a safetensors file, tensor by tensor; the file appears whole or not at all.

    The format is 8 bytes of header length (little-endian), a JSON header, then the data of the
    tensors without gaps. The header needs only shapes, so it is written first. Each tensor is then
    written to its place, in any order, with at most one tensor in memory.
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
        """Create a temporary file next to ``path`` and write the header.

        With ``zeros`` tensors may be written in pieces, and missing pieces are 0. Raises OSError.
        """
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
        super().__init__(path, path.with_name(path.name + PART), durable=durable)
        try:
            self.put(len(text).to_bytes(8, "little") + text)
            if zeros:
                with naming(path):
                    self._file.truncate(self._data + end)
        except BaseException:
            self.abort()
            raise

    def write(self, name: str, values: NDArray[Any], at: int = 0) -> None:
        """Write a tensor; contiguous values are not copied.

        Args:
            name: A tensor of the header, each once; with ``zeros`` any number of times.
            values: All elements as stored, or with ``zeros`` a part of them.
            at: Offset in the tensor in bytes, with ``zeros``.

        Raises:
            ValueError: The tensor is unknown, was written before, or has another size.
        """
        if name not in self._places:
            raise ValueError(f"tensor {name!r} is not in the file")
        start, end = self._places[name]
        fits = 0 <= at <= end - start - values.nbytes
        if not (fits if self._zeros else at == 0 and values.nbytes == end - start):
            raise ValueError(f"tensor {name!r} takes {end - start} bytes, got {values.nbytes}")
        if values.nbytes == 0:
            return
        if not self._zeros and name not in self._missing:
            raise ValueError(f"tensor {name!r} came twice")
        stored = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
        self.put(stored.reshape(-1).view(np.uint8).data, self._data + start + at)
        self._missing.discard(name)

    def close(self) -> None:
        """Rename the file to its final name.

        Raises:
            ValueError: A tensor was not written; there is no file then.
        """
        if self._missing and not self._zeros:
            name = next(name for name in self._places if name in self._missing)
            self.abort()
            raise ValueError(f"tensor {name!r} was not written ({len(self._missing)} missing)")
        super().close()


def write_tensors(
    path: Path, tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str] | None = None
) -> None:
    """Write tensors to a safetensors file, whole or not at all.

    Args:
        path: Name of the file.
        tensors: Tensors by name, in C order.
        metadata: Texts of the header.

    Raises:
        ValueError: The format has no name for a dtype.
    """
    specs = [TensorSpec(k, one.shape, dtype_name(k, one.dtype)) for k, one in tensors.items()]
    with TensorFileWriter(path, specs, metadata) as file:
        for spec, array in zip(specs, tensors.values(), strict=True):
            file.write(spec.name, array)


def dtype_name(name: str, dtype: np.dtype[Any]) -> str:
    """Return the name of a numpy type in the safetensors format, such as "F32".

    Raises:
        ValueError: It has none.
    """
    for known, stored in STORED.items():
        if stored == dtype.newbyteorder("<") and known not in ("BOOL", "BF16"):
            return known
    raise ValueError(f"tensor {name!r}: dtype {dtype} cannot be stored")

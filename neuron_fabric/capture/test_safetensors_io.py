# SPDX-License-Identifier: Apache-2.0
"""Tests of the reader and writer of safetensors files against the format's library."""

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuron_fabric.capture.layout import TensorSpec
from neuron_fabric.capture.safetensors_io import (
    TensorFileWriter,
    bf16_to_f32,
    f32_to_bf16,
    open_tensors,
    write_tensors,
)
from neuron_fabric.errors import CaptureError

ARRAYS: dict[str, np.ndarray[Any, Any]] = {
    "w": np.arange(6, dtype=np.float32).reshape(2, 3),
    "half": np.array([1.5, -2], dtype=np.float16),
    "vote": np.array([-1, 0, 1], dtype=np.int8),
    "plus": np.array(7, dtype=np.uint8),
    "none": np.zeros((0, 4), dtype=np.float32),
}


def raw(path: Path, header: object, data: bytes = b"") -> Path:
    """Write a safetensors file with the given header, valid or not; return its path."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def entry(dtype: object = "F32", shape: object = (2,), offsets: object = (0, 8)) -> dict[str, Any]:
    return {"a": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


@pytest.mark.parametrize("shape", [[0, 1 << 62], [1 << 39, 0, 1 << 39, 4], [0, 1 << 40]])
def test_an_empty_tensor_of_a_huge_dimension_is_one_line(tmp_path: Path, shape: list[int]) -> None:
    """Check that empty tensors with a dimension too large for numpy are refused in one line."""
    path = raw(tmp_path / "x", entry(shape=shape, offsets=(0, 0)))
    with pytest.raises(CaptureError, match=r"bad shape|[Ii]nvalid|overflow"):
        open_tensors(path)
    path = raw(tmp_path / "x", entry(shape=[0, 1 << 20], offsets=(0, 0)))
    assert open_tensors(path).read("a").shape == (0, 1 << 20)


def test_the_library_reads_what_is_written(tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors.numpy")
    write_tensors(tmp_path / "x", ARRAYS, {"note": "π"})
    back = library.load_file(tmp_path / "x")
    assert set(back) == set(ARRAYS)
    own = open_tensors(tmp_path / "x")
    assert (own.metadata, list(own.tensors)) == ({"note": "π"}, list(ARRAYS))
    assert list(tmp_path.iterdir()) == [tmp_path / "x"]
    for name, array in ARRAYS.items():
        assert own.read(name).dtype == array.dtype
        assert (back[name] == array).all()
    library.save_file(ARRAYS, tmp_path / "y", metadata={"k": "v"})
    file = open_tensors(tmp_path / "y")
    assert all((file.read(name) == array).all() for name, array in ARRAYS.items())


def test_every_bf16_pattern_survives() -> None:
    patterns = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
    wide = bf16_to_f32(patterns)
    assert wide[0x3F80] == 1.0
    assert wide[0xC040] == -3.0
    nan = np.isnan(wide)
    assert (f32_to_bf16(wide)[~nan] == patterns[~nan]).all()
    assert np.isnan(bf16_to_f32(f32_to_bf16(wide[nan]))).all()


def test_bf16_rounds_to_nearest_even() -> None:
    bits = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF], dtype=np.uint32)
    assert list(f32_to_bf16(bits.view(np.float32))) == [0x3F80, 0x3F82, 0x3F81, 0x7F80]


def test_half_formats_are_widened(tmp_path: Path) -> None:
    values = np.array([1.0, -0.5, 3e38, np.nan], dtype=np.float32)
    with TensorFileWriter(tmp_path / "b", [TensorSpec("a", (4,), "BF16")]) as writer:
        writer.write("a", f32_to_bf16(values))
    file = open_tensors(tmp_path / "b")
    assert file.tensors["a"].dtype == "BF16"
    assert list(file.read_f32("a")[:2]) == [1.0, -0.5]
    write_tensors(tmp_path / "h", {"a": np.array([65504, -0.0], dtype=np.float16)})
    back = open_tensors(tmp_path / "h").read_f32("a")
    assert back.dtype == np.float32
    assert back[0] == 65504
    assert np.signbit(back[1])
    write_tensors(tmp_path / "i", {"a": np.zeros(2, dtype=np.int8)})
    with pytest.raises(CaptureError, match="is I8"):
        open_tensors(tmp_path / "i").read_f32("a")


ENTRY = json.dumps(entry()["a"]).encode()
BAD = {
    "no header": (b"{", b"", "malformed JSON"),
    "not utf-8": (b'{"a\xff":1}', b"", "malformed JSON"),
    "twice": (b'{"a":%b,"a":%b}' % (ENTRY, ENTRY), bytes(8), "stands twice"),
    "NaN": (b'{"a":NaN}', b"", "malformed JSON"),
    "deep": (b"[" * 100_000, b"", "malformed JSON"),
    "a list": ([], b"", "no JSON object"),
    "dtype": (entry("F8_E8M0", [8]), bytes(8), "dtype F8_E8M0"),
    "shape size": (entry(shape=[1 << 30, 1 << 30]), bytes(8), "overflow computing"),
    "shape of nothing": (entry(shape=[0, 1 << 50], offsets=[0, 0]), b"", "bad shape"),
    "cut": (entry(), bytes(7), "truncated"),
    "tail": (entry(), bytes(9), "bytes after the last tensor"),
}


@pytest.mark.parametrize(("header", "data", "text"), BAD.values(), ids=BAD.keys())
def test_bad_files(tmp_path: Path, header: object, data: bytes, text: str) -> None:
    with pytest.raises(CaptureError, match=re.escape(text)) as caught:
        open_tensors(raw(tmp_path / "x", header, data))
    assert "\n" not in str(caught.value)


def test_folders_and_headers_that_are_too_long(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="is a folder, not a file; check the file"):
        open_tensors(tmp_path)
    (tmp_path / "x").write_bytes((1 << 60).to_bytes(8, "little") + b"{}")
    with pytest.raises(CaptureError, match="truncated"):
        open_tensors(tmp_path / "x")


def test_a_file_cut_after_opening(tmp_path: Path) -> None:
    write_tensors(tmp_path / "x", ARRAYS)
    file = open_tensors(tmp_path / "x")
    (tmp_path / "x").write_bytes(b"")
    with pytest.raises(CaptureError, match="truncated"):
        file.read("w")
    (tmp_path / "x").unlink()
    with pytest.raises(CaptureError, match="check the file"):
        file.read("w")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damage_is_found_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Check that a file with a changed byte, or cut off, gives one clear error or sound tensors."""
    path = tmp_path_factory.mktemp("d") / "x"
    write_tensors(path, {"a": np.ones(3, dtype=np.float32)}, {"m": "t"})
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(0, len(content))) :]
    path.write_bytes(content)
    with contextlib.suppress(CaptureError):
        file = open_tensors(path)
        for name, info in file.tensors.items():
            assert file.read(name).shape == info.shape


def test_unknown_types_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="complex"):
        write_tensors(tmp_path / "x", {"a": np.zeros(1, dtype=np.complex64)})

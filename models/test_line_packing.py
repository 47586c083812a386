# SPDX-License-Identifier: Apache-2.0
"""Tests of line formats against hand-computed bit positions, and of packers against unpackers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.line_packing import (
    code_range,
    codes_to_lines,
    lines_to_codes,
    pack_binary,
    pack_fp32,
    pack_int,
    pack_ternary,
    unpack_binary,
    unpack_fp32,
    unpack_int,
    unpack_ternary,
)
from models.modes import Mode, elements_per_line, lines_needed

finite = st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), max_size=600)
patterns = st.lists(st.integers(0, 2**32 - 1), max_size=40)


@pytest.mark.parametrize(
    ("mode", "count"), [(1, 512), (2, 256), (3, 16), (4, 128), (5, 64), (6, 320)]
)
def test_elements_per_line(mode: int, count: int) -> None:
    assert elements_per_line(Mode(mode)) == count
    assert [lines_needed(n, Mode(mode)) for n in (0, 1, count, count + 1)] == [0, 1, 1, 2]


def test_identity_has_no_elements() -> None:
    with pytest.raises(ValueError, match="only bytes"):
        elements_per_line(Mode.IDENTITY)


def test_binary_bit_positions() -> None:
    x = np.zeros(513, dtype=np.float32)
    x[[0, 9, 511, 512]] = -1.0
    lines = pack_binary(x)
    assert lines.shape == (2, 64)
    assert int.from_bytes(lines[0].tobytes(), "little") == 1 | 1 << 9 | 1 << 511
    assert int.from_bytes(lines[1].tobytes(), "little") == 1


def test_binary_rule_is_less_than_zero() -> None:
    x = np.array([-0.0, 0.0, -1e-45, 1e-45, -3.0], dtype=np.float32)
    assert pack_binary(x)[0, 0] == 0b10100


def test_ternary_bit_positions() -> None:
    lines = pack_ternary(np.array([1, -1, 0.5, -0.5, 0, 2], dtype=np.float32), 0.5)
    # Elements from bit 0 up: 10, 11, 00 (not above the threshold), 00, 00, 10.
    assert int.from_bytes(lines[0].tobytes(), "little") == 0b10_00_00_00_11_10


def test_fp32_byte_order() -> None:
    lines = pack_fp32(np.array([1.0, -2.0], dtype=np.float32))
    assert lines[0, :8].tobytes() == bytes.fromhex("0000803f000000c0")
    assert not lines[0, 8:].any()


@pytest.mark.parametrize(
    ("mode", "signed", "codes", "word"),
    [
        (Mode.G_INT4, True, [-8, 7, -1, 0, 1], 0x1_0F_78),
        (Mode.G_INT4, False, [15, 1, 8], 0x81F),
        (Mode.G_INT8, True, [-128, 127, -1], 0xFF_7F_80),
        (Mode.G_INT8, False, [255, 128], 0x80FF),
    ],
)
def test_int_bit_positions(mode: Mode, signed: bool, codes: list[int], word: int) -> None:
    line = pack_int(codes, mode, signed)
    assert line.shape == (1, 64)
    assert int.from_bytes(line[0].tobytes(), "little") == word
    assert list(unpack_int(line, mode, signed, len(codes))) == codes


@given(st.data(), st.sampled_from([Mode.G_INT4, Mode.G_INT8]), st.booleans())
def test_int_round_trip(data: st.DataObject, mode: Mode, signed: bool) -> None:
    codes = data.draw(st.lists(st.integers(*code_range(mode, signed)), max_size=300))
    lines = pack_int(codes, mode, signed)
    assert len(lines) == lines_needed(len(codes), mode)
    assert list(unpack_int(lines, mode, signed, len(codes))) == codes
    assert not unpack_int(lines, mode, signed).reshape(-1)[len(codes) :].any()


def test_int_misuse_is_refused() -> None:
    with pytest.raises(ValueError, match="G_INT4 code is -8"):
        pack_int([8], Mode.G_INT4)
    with pytest.raises(ValueError, match="G_INT8 code is 0"):
        pack_int([-1], Mode.G_INT8, signed=False)
    with pytest.raises(ValueError, match="no integer codes"):
        pack_int([1], Mode.G_BINARY)
    with pytest.raises(ValueError, match="lines must be"):
        unpack_int(np.zeros((2, 63), dtype=np.uint8), Mode.G_INT8)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nonfinite_has_no_vote(bad: float) -> None:
    with pytest.raises(ValueError, match="element 1"):
        pack_binary([1.0, bad])
    with pytest.raises(ValueError, match="element 1"):
        pack_ternary([1.0, bad], 0.5)


@given(finite)
def test_binary_round_trip(values: list[float]) -> None:
    x = np.array(values, dtype=np.float32)
    assert (unpack_binary(pack_binary(x), x.size) == np.where(x < 0, -1, 1)).all()
    assert (unpack_binary(pack_binary(x))[x.size :] == 1).all()


@given(finite, st.floats(0, 2.0**100, width=32))
def test_ternary_round_trip(values: list[float], threshold: float) -> None:
    x = np.array(values, dtype=np.float32)
    lines = pack_ternary(x, threshold)
    want = np.where(np.abs(x) > np.float32(threshold), np.where(x < 0, -1, 1), 0)
    assert (unpack_ternary(lines, x.size) == want).all()
    assert 1 not in lines_to_codes(lines)


@given(patterns)
def test_fp32_keeps_every_pattern(bits: list[int]) -> None:
    x = np.array(bits, dtype=np.uint32)
    back = unpack_fp32(pack_fp32(x.view(np.float32)), x.size)
    assert (back.view(np.uint32) == x).all()


@given(st.lists(st.integers(0, 3), max_size=600))
def test_codes_round_trip(codes: list[int]) -> None:
    assert list(lines_to_codes(codes_to_lines(codes))[: len(codes)]) == codes


def test_illegal_code_counts_as_zero() -> None:
    assert list(unpack_ternary(codes_to_lines([0, 1, 2, 3]), 4)) == [0, 0, 1, -1]


def test_bad_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="lines must be"):
        unpack_binary(np.zeros((2, 63), dtype=np.uint8))
    with pytest.raises(ValueError, match="ternary code"):
        codes_to_lines([4])

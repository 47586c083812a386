# SPDX-License-Identifier: Apache-2.0
"""Line formats: conversion of gradients to 64-byte lines and back.

A line is little-endian: element ``e`` starts at bit ``e * width``, and bit ``n`` of a line is bit
``n mod 8`` of byte ``n // 8``. Spec: controller §1, second edition §7, §10.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

LINE_BYTES = 64
LINE_BITS = 8 * LINE_BYTES

U8 = NDArray[np.uint8]
I8 = NDArray[np.int8]
I16 = NDArray[np.int16]
F32 = NDArray[np.float32]

_Scalar = TypeVar("_Scalar", bound=np.generic)


MODE_MAX = 15
"""Largest code of the field in CONFIG."""


class Mode(IntEnum):
    """Region mode, as coded in the CONFIG register."""

    IDENTITY = 0
    G_BINARY = 1
    G_TERNARY = 2
    FP32 = 3
    G_INT4 = 4
    G_INT8 = 5
    G_TERN5 = 6

    @classmethod
    def _missing_(cls, value: object) -> Mode | None:
        """Return a separate member for a reserved code (7..15), which iteration does not include: a
        register may hold it, and a commit refuses it.
        """
        if not isinstance(value, int) or not 0 <= value <= MODE_MAX:
            return None
        member = int.__new__(cls, value)
        member._name_, member._value_ = f"RESERVED_{value}", value
        return member

    @property
    def reserved(self) -> bool:
        """Return True for a reserved code, which a commit refuses."""
        return self > Mode.G_TERN5

    @property
    def optional(self) -> bool:
        """Return True for a mode that depends on a build option; without it a commit refuses the
        mode.
        """
        return self is Mode.G_TERN5

    @property
    def low_bit(self) -> bool:
        """Return True for the counting modes."""
        return self in (Mode.G_BINARY, Mode.G_TERNARY, Mode.G_TERN5) or self.bits > 0

    @property
    def bits(self) -> int:
        """Return the bits of a code in the modes that sum codes; 0 in all others."""
        return {Mode.G_INT4: 4, Mode.G_INT8: 8}.get(self, 0)

    @property
    def exact(self) -> bool:
        """Return True if the result is a sum, so that a commit must rule out saturation."""
        return self.bits > 0 or self is Mode.G_TERN5

    def counts_to(self, workers: int) -> int:
        """Return the highest count of a column that so many workers can reach."""
        return 2 * workers if self is Mode.G_TERN5 else workers


FIRST_EDITION = (Mode.IDENTITY, Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32)
"""Modes without integer codes and without build options."""
GATED = (Mode.G_TERNARY, Mode.G_TERN5)
"""Modes whose elements may be off; they have illegal codes."""


class Tie(IntEnum):
    """Result of a tied G_BINARY vote (the TIE_MINUS bit of CONFIG)."""

    PLUS = 0
    MINUS = 1


_ELEMENTS = {
    Mode.G_BINARY: 512,
    Mode.G_TERNARY: 256,
    Mode.FP32: 16,
    Mode.G_INT4: 128,
    Mode.G_INT8: 64,
    Mode.G_TERN5: 320,
}
TRITS_A_BYTE = 5
TERN5_CODES: int = 3**TRITS_A_BYTE
"""First illegal byte value in a G_TERN5 line."""


def elements_per_line(mode: Mode) -> int:
    """Return the elements per line of ``mode``. Raise ValueError for IDENTITY, which has only
    bytes.
    """
    if mode not in _ELEMENTS:
        raise ValueError(f"mode {Mode(mode).name} has no elements, only bytes")
    return _ELEMENTS[mode]


def lines_needed(elements: int, mode: Mode) -> int:
    """Return the lines for ``elements`` elements; the last one is padded with code 0."""
    return -(-elements // elements_per_line(mode))


def contributions(lines: ArrayLike, present: ArrayLike | None) -> tuple[U8, NDArray[np.bool_]]:
    """Return lines uint8[W, n, 64] and contributors bool[W, n] (None: all); refuse other shapes."""
    array = np.asarray(lines, dtype=np.uint8)
    if array.ndim != 3 or array.shape[2] != LINE_BYTES:
        raise ValueError(f"lines must be uint8[W, n, 64], not shape {array.shape}")
    mask = np.ones(array.shape[:2], np.bool_) if present is None else np.asarray(present, np.bool_)
    if mask.shape != array.shape[:2]:
        raise ValueError(f"present must be bool{array.shape[:2]}, not {mask.shape}")
    return array, mask


def _padded(values: NDArray[_Scalar], per_line: int) -> NDArray[_Scalar]:
    flat = np.ascontiguousarray(values).reshape(-1)
    return np.pad(flat, (0, -flat.size % per_line))


def _bits_to_lines(bits: U8) -> U8:
    return np.packbits(bits, bitorder="little").reshape(-1, LINE_BYTES)


def _of_lines(lines: ArrayLike) -> U8:
    array = np.asarray(lines, dtype=np.uint8)
    if array.ndim == 0 or array.shape[-1] != LINE_BYTES:
        raise ValueError(f"lines must be uint8[..., {LINE_BYTES}], not shape {array.shape}")
    return array


def _lines_to_bits(lines: ArrayLike) -> U8:
    return np.unpackbits(_of_lines(lines).reshape(-1), bitorder="little")


def _finite(x: ArrayLike) -> F32:
    values = np.asarray(x, dtype=np.float32)
    bad = np.flatnonzero(~np.isfinite(values.reshape(-1)))
    if bad.size:
        raise ValueError(f"element {bad[0]} is {values.reshape(-1)[bad[0]]}: it has no sign vote")
    return values


def _gated(x: ArrayLike, threshold: float | np.float32) -> I8:
    """Return the sign of each element above the threshold, else 0."""
    values = _finite(x)
    gate = np.abs(values) > np.float32(threshold)
    return np.where(gate, np.where(values < 0, -1, 1), 0).astype(np.int8)


def pack_binary(x: ArrayLike) -> U8:
    """Pack float32[...] to uint8[n, 64]: bit = ``x < 0`` (-0.0 counts as +), tail padded with 0.

    Raises:
        ValueError: NaN or infinity, which have no sign vote.
    """
    values = _finite(x)
    return _bits_to_lines(_padded((values < 0).astype(np.uint8), elements_per_line(Mode.G_BINARY)))


def pack_ternary(x: ArrayLike, threshold: float | np.float32) -> U8:
    """Pack float32[...] to uint8[n, 64]: gate = ``|x| > threshold`` (in float32), sign = ``x < 0``.

    A closed gate is sent as 00, never as the illegal 01.

    Raises:
        ValueError: NaN or infinity.
    """
    return codes_to_lines(np.array([0, 2, 3], np.uint8)[_gated(x, threshold)])


def codes_to_lines(codes: ArrayLike) -> U8:
    """Pack raw 2-bit codes uint8[...] (0..3, illegal 01 included) to uint8[n, 64], tail 00."""
    flat = _padded(np.asarray(codes, dtype=np.uint8), elements_per_line(Mode.G_TERNARY))
    if flat.size and int(flat.max()) > 3:
        raise ValueError("a ternary code is 0..3")
    bits = np.empty((flat.size, 2), dtype=np.uint8)
    bits[:, 0] = flat & 1
    bits[:, 1] = flat >> 1
    return _bits_to_lines(bits.reshape(-1))


def lines_to_codes(lines: ArrayLike) -> U8:
    """Unpack uint8[n, 64] to raw 2-bit codes uint8[n * 256]."""
    bits = _lines_to_bits(lines).reshape(-1, 2)
    return (bits[:, 0] | (bits[:, 1] << 1)).astype(np.uint8)


def pack_tern5(x: ArrayLike, threshold: float | np.float32) -> U8:
    """Pack float32[...] to uint8[n, 64] of G_TERN5, by the rule of ``pack_ternary``."""
    return trits_to_lines(_gated(x, threshold))


def trits_to_lines(trits: ArrayLike) -> U8:
    """Pack elements [...] in {-1, 0, +1} to uint8[n, 64] of G_TERN5, tail padded with 0.

    A byte is the sum of digit i times 3^i; digit 0 is 0, 1 is +1, 2 is -1.
    """
    flat = _padded(np.asarray(trits, dtype=np.int8), elements_per_line(Mode.G_TERN5))
    if flat.size and int(np.abs(flat).max()) > 1:
        raise ValueError("an element of G_TERN5 is -1, 0 or +1")
    weights = 3 ** np.arange(TRITS_A_BYTE)
    codes: U8 = ((flat.reshape(-1, TRITS_A_BYTE) % 3) @ weights).astype(np.uint8)
    return codes.reshape(-1, LINE_BYTES)


def unpack_tern5(lines: ArrayLike, count: int | None = None) -> I8:
    """Unpack uint8[n, 64] to int8[count] in {-1, 0, +1}; an illegal byte counts as five zeros."""
    codes = _of_lines(lines).astype(np.int16)
    legal = np.where(codes < TERN5_CODES, codes, 0).reshape(-1, 1)
    digits = legal // 3 ** np.arange(TRITS_A_BYTE) % 3
    return np.where(digits == 2, -1, digits).astype(np.int8).reshape(-1)[:count]


def pack_fp32(x: ArrayLike) -> U8:
    """Pack float32[...] to uint8[n, 64], byte for byte (NaN payloads kept), tail padded with
    0.0.
    """
    values = np.ascontiguousarray(np.asarray(x, dtype=np.float32))
    # Copy bit patterns: a floating-point copy may quieten a signalling NaN.
    words = _padded(values.reshape(-1).view(np.uint32), elements_per_line(Mode.FP32))
    return words.astype("<u4").view(np.uint8).reshape(-1, LINE_BYTES)


def code_range(mode: Mode, signed: bool = True) -> tuple[int, int]:
    """Return (smallest, largest) code of G_INT4 or G_INT8. Raise ValueError for another mode."""
    if not mode.bits:
        raise ValueError(f"mode {Mode(mode).name} has no integer codes")
    low = -(1 << (mode.bits - 1)) if signed else 0
    return low, low + (1 << mode.bits) - 1


def pack_int(codes: ArrayLike, mode: Mode, signed: bool = True) -> U8:
    """Pack integer codes [...] of G_INT4 or G_INT8 to uint8[n, 64], tail padded with code 0.

    Raises:
        ValueError: a code is out of range.
    """
    values = np.asarray(codes, dtype=np.int16)
    low, high = code_range(mode, signed)
    if values.size and not (low <= int(values.min()) and int(values.max()) <= high):
        raise ValueError(f"a {mode.name} code is {low}..{high}")
    flat = _padded(values, elements_per_line(mode)) & ((1 << mode.bits) - 1)
    if mode == Mode.G_INT4:
        flat = flat[0::2] | flat[1::2] << 4
    return flat.astype(np.uint8).reshape(-1, LINE_BYTES)


def unpack_int(lines: ArrayLike, mode: Mode, signed: bool = True, count: int | None = None) -> I16:
    """Unpack uint8[..., 64] to codes int16[..., 512 / bits]; ``count``: number of codes, flat."""
    low, _ = code_range(mode, signed)
    array = _of_lines(lines)
    codes = array.astype(np.int16)
    if mode == Mode.G_INT4:
        codes = np.stack((codes & 15, codes >> 4), axis=-1)
        codes = codes.reshape(*array.shape[:-1], 2 * LINE_BYTES)
    codes[codes >= low + (1 << mode.bits)] -= 1 << mode.bits
    return codes.reshape(-1)[:count] if count is not None else codes


def unpack_binary(lines: ArrayLike, count: int | None = None) -> I8:
    """Unpack uint8[n, 64] to int8[count]: +1 for bit 0 and -1 for bit 1 (all elements by
    default).
    """
    bits = _lines_to_bits(lines)
    return (1 - 2 * bits.astype(np.int8)).astype(np.int8)[:count]


def unpack_ternary(lines: ArrayLike, count: int | None = None) -> I8:
    """Unpack uint8[n, 64] to int8[count] in {-1, 0, +1}; the illegal code 01 counts as 0."""
    table = np.array([0, 0, 1, -1], dtype=np.int8)
    return table[lines_to_codes(lines)][:count]


def unpack_fp32(lines: ArrayLike, count: int | None = None) -> F32:
    """Unpack uint8[n, 64] to float32[count], bit for bit."""
    array = np.ascontiguousarray(np.asarray(lines, dtype=np.uint8)).reshape(-1)
    return array.view("<u4").astype(np.uint32).view(np.float32)[:count]

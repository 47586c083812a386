# SPDX-License-Identifier: Apache-2.0
"""Line formats: conversion of gradients to 64-byte lines and back.

A line is little-endian: element ``e`` starts at bit ``e * width``, and bit ``n`` of a line is bit
``n mod 8`` of byte ``n // 8``. Spec: controller §1, second edition §7, §10.
"""

from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.modes import Mode, elements_per_line

LINE_BYTES = 64
LINE_BITS = 8 * LINE_BYTES

U8 = NDArray[np.uint8]
I8 = NDArray[np.int8]
I16 = NDArray[np.int16]
F32 = NDArray[np.float32]

_Scalar = TypeVar("_Scalar", bound=np.generic)
TRITS_A_BYTE = 5
TERN5_CODES: int = 3**TRITS_A_BYTE
"""First illegal byte value in a G_TERN5 line."""


def contributions(lines: ArrayLike, present: ArrayLike | None) -> tuple[U8, NDArray[np.bool_]]:
    """Return checked lines uint8[W, n, 64] and contributors bool[W, n].

    Args:
        lines: Contributions of all workers.
        present: Contributors bool[W, n]; None for all.

    Raises:
        ValueError: A shape is wrong.
    """
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
    """Return int8 of the same shape: the sign of each x with abs(x) > threshold, else 0."""
    values = _finite(x)
    gate = np.abs(values) > np.float32(threshold)
    return np.where(gate, np.where(values < 0, -1, 1), 0).astype(np.int8)


def pack_binary(x: ArrayLike) -> U8:
    """Pack float32[...] to lines uint8[n, 64] of G_BINARY: bit 1 for ``x < 0`` (-0.0 counts as +).

    The last line is padded with 0.

    Raises:
        ValueError: NaN or infinity, which have no sign vote.
    """
    values = _finite(x)
    return _bits_to_lines(_padded((values < 0).astype(np.uint8), elements_per_line(Mode.G_BINARY)))


def pack_ternary(x: ArrayLike, threshold: float | np.float32) -> U8:
    """Pack float32[...] to lines uint8[n, 64] of G_TERNARY, two bits {gate, sign} per element.

    gate = ``|x| > threshold`` (in float32), sign = ``x < 0``. A closed gate is sent as 00, never as
    the illegal 01. The last line is padded with 00.

    Raises:
        ValueError: NaN or infinity.
    """
    return codes_to_lines(np.array([0, 2, 3], np.uint8)[_gated(x, threshold)])


def codes_to_lines(codes: ArrayLike) -> U8:
    """Pack 2-bit codes uint8[...] (0..3, illegal 01 included) to lines uint8[n, 64], tail 00.

    Raises:
        ValueError: A code is above 3.
    """
    flat = _padded(np.asarray(codes, dtype=np.uint8), elements_per_line(Mode.G_TERNARY))
    if flat.size and int(flat.max()) > 3:
        raise ValueError("a ternary code is 0..3")
    bits = np.empty((flat.size, 2), dtype=np.uint8)
    bits[:, 0] = flat & 1
    bits[:, 1] = flat >> 1
    return _bits_to_lines(bits.reshape(-1))


def lines_to_codes(lines: ArrayLike) -> U8:
    """Unpack lines uint8[n, 64] to 2-bit codes uint8[n * 256], gate in bit 1 and sign in bit 0."""
    bits = _lines_to_bits(lines).reshape(-1, 2)
    return (bits[:, 0] | (bits[:, 1] << 1)).astype(np.uint8)


def pack_tern5(x: ArrayLike, threshold: float | np.float32) -> U8:
    """Pack float32[...] to lines uint8[n, 64] of G_TERN5: sign of x if ``|x| > threshold``, else 0.

    Raises:
        ValueError: NaN or infinity.
    """
    return trits_to_lines(_gated(x, threshold))


def trits_to_lines(trits: ArrayLike) -> U8:
    """Pack trits [...] to lines of G_TERN5, uint8[n, 64].

    A byte holds 5 consecutive trits: the sum of digit i times 3^i, where trit 0 is digit 0, +1 is
    digit 1 and -1 is digit 2. A line holds 320 trits; the last line is filled with trits 0.

    Args:
        trits: Elements -1, 0 or +1 in any shape, flattened in C order.

    Raises:
        ValueError: An element is not -1, 0 or +1.
    """
    flat = _padded(np.asarray(trits, dtype=np.int8), elements_per_line(Mode.G_TERN5))
    if flat.size and int(np.abs(flat).max()) > 1:
        raise ValueError("an element of G_TERN5 is -1, 0 or +1")
    weights = 3 ** np.arange(TRITS_A_BYTE)
    codes: U8 = ((flat.reshape(-1, TRITS_A_BYTE) % 3) @ weights).astype(np.uint8)
    return codes.reshape(-1, LINE_BYTES)


def unpack_tern5(lines: ArrayLike, count: int | None = None) -> I8:
    """Unpack G_TERN5 lines uint8[n, 64] to int8[count] in {-1, 0, +1} (default: all elements).

    An illegal byte (243..255) counts as five zeros.
    """
    codes = _of_lines(lines).astype(np.int16)
    legal = np.where(codes < TERN5_CODES, codes, 0).reshape(-1, 1)
    digits = legal // 3 ** np.arange(TRITS_A_BYTE) % 3
    return np.where(digits == 2, -1, digits).astype(np.int8).reshape(-1)[:count]


def pack_fp32(x: ArrayLike) -> U8:
    """Pack float32[...] to lines uint8[n, 64] of FP32, bit for bit, tail padded with 0.0.

    NaN payloads are kept.
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
    """Unpack lines uint8[..., 64] of G_INT4 or G_INT8 to codes int16[..., 512 / bits].

    With ``count`` the result is flat: the first ``count`` codes, int16[count].

    Raises:
        ValueError: another mode or shape.
    """
    low, _ = code_range(mode, signed)
    array = _of_lines(lines)
    codes = array.astype(np.int16)
    if mode == Mode.G_INT4:
        codes = np.stack((codes & 15, codes >> 4), axis=-1)
        codes = codes.reshape(*array.shape[:-1], 2 * LINE_BYTES)
    codes[codes >= low + (1 << mode.bits)] -= 1 << mode.bits
    return codes.reshape(-1)[:count] if count is not None else codes


def unpack_binary(lines: ArrayLike, count: int | None = None) -> I8:
    """Unpack G_BINARY lines uint8[n, 64] to int8[count]: +1 for bit 0 and -1 for bit 1.

    All elements are returned by default.
    """
    bits = _lines_to_bits(lines)
    return (1 - 2 * bits.astype(np.int8)).astype(np.int8)[:count]


def unpack_ternary(lines: ArrayLike, count: int | None = None) -> I8:
    """Unpack G_TERNARY lines uint8[n, 64] to int8[count] in {-1, 0, +1}; illegal code 01 is 0.

    All elements are returned by default.
    """
    table = np.array([0, 0, 1, -1], dtype=np.int8)
    return table[lines_to_codes(lines)][:count]


def unpack_fp32(lines: ArrayLike, count: int | None = None) -> F32:
    """Unpack FP32 lines uint8[n, 64] to float32[count], bit for bit (default: all elements)."""
    array = np.ascontiguousarray(np.asarray(lines, dtype=np.uint8)).reshape(-1)
    return array.view("<u4").astype(np.uint32).view(np.float32)[:count]


# Bit 0 of each 2-bit code in a 512-bit line.
_SIGN_BITS = int.from_bytes(b"\x55" * LINE_BYTES, "little")


def illegal_codes(data: bytes, mode: Mode) -> int:
    """Return the number of illegal elements in a 64-byte contribution.

    G_TERNARY: codes 01 (gate 0, sign 1). G_TERN5: five elements for each illegal byte. Other modes
    have none.
    """
    if mode is Mode.G_TERN5:
        return TRITS_A_BYTE * sum(byte >= TERN5_CODES for byte in data)
    if mode is not Mode.G_TERNARY:
        return 0
    word = int.from_bytes(data, "little")
    return (word & ~(word >> 1) & _SIGN_BITS).bit_count()

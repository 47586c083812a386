# SPDX-License-Identifier: Apache-2.0
"""Tensors to lines and read-back lines to tensors.

spec: capture spec. A tensor is flattened in C order and starts on a new line; the tail of its last
line carries code 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.line_packing import (
    F32,
    LINE_BYTES,
    U8,
    Mode,
    lines_needed,
    pack_binary,
    pack_fp32,
    pack_ternary,
    unpack_binary,
    unpack_fp32,
    unpack_ternary,
)
from models.reducers import planes_to_counts

TERNARY_RATIO = 0.7
OUTPUTS: dict[Mode, dict[str, type[np.generic]]] = {
    Mode.G_BINARY: {"vote": np.int8, "plus": np.uint8},
    Mode.G_TERNARY: {"vote": np.int8, "plus": np.uint8, "minus": np.uint8},
    Mode.FP32: {"sum": np.float32},
}
"""What a replay writes for a tensor of a route: suffix of the name and type."""
SUM_PIECE = 1 << 20
"""Elements that a mean is summed over at a time: a tensor read piece by piece gives the same."""


@dataclass(frozen=True)
class Lines:
    """Result lines uint8[n, 64] and count planes uint8[p, n, 64] (p = 0 in FP32)."""

    result: U8
    planes: U8

    @staticmethod
    def empty(lines: int, planes: int) -> Lines:
        """Zeros of that size, to be filled."""
        return Lines(
            np.zeros((lines, LINE_BYTES), dtype=np.uint8),
            np.zeros((planes, lines, LINE_BYTES), dtype=np.uint8),
        )


def ternary_threshold(x: ArrayLike, ratio: float = TERNARY_RATIO) -> np.float32:
    """Gate threshold of one worker's tensor: float32(R) * float32(mean |x|, summed in float64).

    0.0 for an empty tensor. The product is rounded to float32.
    """
    values = np.ascontiguousarray(np.asarray(x, dtype=np.float32)).reshape(-1)
    pieces = range(0, values.size, SUM_PIECE)
    total = sum(absolute_sum(values[at : at + SUM_PIECE]) for at in pieces)
    return threshold_of(total, values.size, ratio)


def absolute_sum(piece: F32) -> float:
    """Sum of |x| in float64 over one piece of SUM_PIECE elements (the last one may be shorter)."""
    return float(np.abs(piece).astype(np.float64).sum())


def threshold_of(total: float, count: int, ratio: float = TERNARY_RATIO) -> np.float32:
    """Gate threshold from the sums of all pieces, added in order; 0.0 for no element."""
    if not count:
        return np.float32(0.0)
    return np.float32(np.float32(ratio) * np.float32(total / count))


def pack_tensor(x: ArrayLike, mode: Mode, ratio: float = TERNARY_RATIO) -> U8:
    """One worker's tensor float32[*shape] as lines uint8[n, 64]; ValueError for IDENTITY."""
    return pack_stretch(x, mode, ternary_threshold(x, ratio) if mode == Mode.G_TERNARY else 0.0)


def pack_stretch(x: ArrayLike, mode: Mode, threshold: float | np.float32) -> U8:
    """A stretch of one worker's tensor that begins with a line, as lines uint8[n, 64].

    ``threshold`` is the whole tensor's (G_TERNARY). ValueError for IDENTITY.
    """
    if mode == Mode.G_BINARY:
        return pack_binary(x)
    if mode == Mode.G_TERNARY:
        return pack_ternary(x, threshold)
    if mode == Mode.FP32:
        return pack_fp32(x)
    raise ValueError("a tensor has no IDENTITY route")


def outputs_from_lines(
    mode: Mode, shape: tuple[int, ...], result: ArrayLike, planes: ArrayLike | None = None
) -> dict[str, NDArray[Any]]:
    """What a replay writes for a tensor, from the lines it read back.

    ``result`` uint8[n, 64] is selector 0; ``planes`` uint8[p, n, 64] are selectors 8 .. 8 + p - 1
    (the planes left out read as zeros; low-bit modes only). Gives {"vote": int8, "plus": uint8}
    and, in G_TERNARY, "minus": uint8; or {"sum": float32}; each in ``shape``. ValueError when ``n``
    is wrong.
    """
    lines = np.asarray(result, dtype=np.uint8)
    count = int(np.prod(shape, dtype=np.int64))
    need = lines_needed(count, mode)
    if lines.shape != (need, LINE_BYTES):
        raise ValueError(f"shape {shape} takes uint8[{need}, 64], not {lines.shape}")
    if mode == Mode.FP32:
        return {"sum": unpack_fp32(lines, count).reshape(shape)}
    if planes is None:
        raise ValueError("a low-bit tensor needs its count planes")
    counts = planes_to_counts(planes)
    if counts.shape[0] != lines.shape[0]:
        raise ValueError(f"{counts.shape[0]} lines of planes, {lines.shape[0]} of votes")
    if mode == Mode.G_BINARY:
        return {
            "vote": unpack_binary(lines, count).reshape(shape),
            "plus": counts.reshape(-1)[:count].astype(np.uint8).reshape(shape),
        }
    return {
        "vote": unpack_ternary(lines, count).reshape(shape),
        "plus": counts[:, 0::2].reshape(-1)[:count].astype(np.uint8).reshape(shape),
        "minus": counts[:, 1::2].reshape(-1)[:count].astype(np.uint8).reshape(shape),
    }

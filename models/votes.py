# SPDX-License-Identifier: Apache-2.0
"""Reference votes of the low-bit modes: majority (G_BINARY) and threshold (G_TERNARY, G_TERN5).

The majority vote is that of signSGD (docs/references.md). Counts are integers per element, computed
with numpy and never with ripple-carry planes: the device is bit-sliced, so its reference counts in
another way and slices only the result. Spec: controller §3, second edition §10.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.line_packing import (
    LINE_BITS,
    LINE_BYTES,
    TERN5_CODES,
    TRITS_A_BYTE,
    U8,
    contributions,
    trits_to_lines,
    unpack_tern5,
)
from models.modes import Mode, Tie

PLANES = 8
U16 = NDArray[np.uint16]
Bool = NDArray[np.bool_]


@dataclass(frozen=True)
class LowBitResult:
    """Votes and counts of ``n`` lines of a vote mode, reduced over the workers.

    ``counts`` has the layout of the count planes: column ``b`` is the counter that is sliced into
    bit ``b`` of each plane (G_BINARY: + votes for element ``b``; G_TERNARY: + votes for element
    ``b/2`` if ``b`` is even, - votes for element ``(b-1)/2`` if odd; G_TERN5: the sum of t + 1 over
    the contributions t to element ``b``, ``b`` < 320).
    """

    mode: Mode
    vote: U8
    """uint8[n, 64], in the mode's line format."""
    counts: U16
    """uint16[n, 512], saturated."""
    contributions: U16
    """uint16[n]: number of clean contributions (m)."""
    saturated: Bool
    """bool[n]: an increment was lost."""
    illegal: NDArray[np.int64]
    """int64[n]: illegal elements among the contributions; 0 in G_BINARY."""

    @property
    def planes(self) -> U8:
        """Return the count planes uint8[8, n, 64]: the lines at selectors 8..15."""
        return count_planes(self.counts)


def count_planes(counts: NDArray[np.unsignedinteger]) -> U8:
    """Convert counts uint[n, 512] to count planes uint8[8, n, 64].

    Bit b of plane p is bit p of count b.
    """
    planes = [
        np.packbits(((counts >> p) & 1).astype(np.uint8), axis=1, bitorder="little")
        for p in range(PLANES)
    ]
    return np.stack(planes)


def planes_to_counts(planes: ArrayLike) -> U16:
    """Convert planes uint8[p, n, 64] (p <= 8, missing ones are zero) to counts uint16[n, 512].

    Raises:
        ValueError: Another shape.
    """
    array = np.asarray(planes, dtype=np.uint8)
    if array.ndim != 3 or array.shape[0] > PLANES or array.shape[2] != LINE_BYTES:
        raise ValueError(f"planes must be uint8[p<=8, n, 64], not shape {array.shape}")
    counts = np.zeros((array.shape[1], LINE_BITS), dtype=np.uint16)
    for p in range(array.shape[0]):
        bits = np.unpackbits(array[p], axis=1, bitorder="little").astype(np.uint16)
        counts |= bits << np.uint16(p)
    return counts


def _result(
    mode: Mode, vote: U8, exact: U16, counts: U16, mask: Bool, illegal: NDArray[np.int64]
) -> LowBitResult:
    return LowBitResult(
        mode=mode,
        vote=vote,
        counts=counts,
        contributions=mask.sum(axis=0).astype(np.uint16),
        saturated=np.asarray((exact > counts).any(axis=1), dtype=np.bool_),
        illegal=illegal,
    )


def _saturated(exact: U16, cnt_max: int) -> U16:
    if not 1 <= cnt_max <= 255:
        raise ValueError(f"cnt_max is 1..255, not {cnt_max}")
    return np.minimum(exact, cnt_max).astype(np.uint16)


def reduce_binary(
    lines: ArrayLike,
    present: ArrayLike | None = None,
    tie: Tie = Tie.PLUS,
    cnt_max: int = 255,
) -> LowBitResult:
    """Return counts and majority vote of G_BINARY lines uint8[W, n, 64].

    c is the number of + votes (bits 0) among m contributions. ``2c > m`` gives 0 (+), ``2c < m``
    gives 1 (-), a tie gives ``tie``; ``m = 0`` reads as zeros. Counters saturate at ``cnt_max``;
    ``m`` does not.

    Args:
        lines: contributions of all workers.
        present: bool[W, n], contributors; None for all.
        tie: result of a tie.
        cnt_max: value at which counters saturate.
    """
    array, mask = contributions(lines, present)
    exact = np.zeros((array.shape[1], LINE_BITS), dtype=np.uint16)
    for line, here in zip(array, mask, strict=True):
        nonneg = np.unpackbits(line, axis=1, bitorder="little") == 0
        exact += nonneg & here[:, None]
    counts = _saturated(exact, cnt_max)
    m = mask.sum(axis=0).astype(np.uint16)
    balance = 2 * counts.astype(np.int32) - m.astype(np.int32)[:, None]
    negative = (balance < 0) | ((balance == 0) & (tie == Tie.MINUS) & (m[:, None] > 0))
    vote = np.packbits(negative.astype(np.uint8), axis=1, bitorder="little")
    legal = np.zeros(array.shape[1], dtype=np.int64)
    return _result(Mode.G_BINARY, vote, exact, counts, mask, legal)


def reduce_ternary(
    lines: ArrayLike,
    present: ArrayLike | None = None,
    threshold: int = 1,
    cnt_max: int = 255,
) -> LowBitResult:
    """Return counts and thresholded vote of G_TERNARY lines uint8[W, n, 64].

    net = plus - minus of the saturated counts; ``net >= threshold`` gives +1 (10), ``net <=
    -threshold`` gives -1 (11), else 0 (00). The illegal code 01 counts as 0.

    Args:
        lines: contributions of all workers.
        present: bool[W, n], contributors; None for all.
        threshold: T, at least 1 (else ValueError).
        cnt_max: value at which counters saturate.
    """
    if threshold < 1:
        raise ValueError(f"threshold is at least 1, not {threshold}")
    array, mask = contributions(lines, present)
    exact = np.zeros((array.shape[1], LINE_BITS), dtype=np.uint16)
    illegal = np.zeros(array.shape[1], dtype=np.int64)
    for line, here in zip(array, mask, strict=True):
        bits = np.unpackbits(line, axis=1, bitorder="little").astype(np.bool_)
        sign, gate = bits[:, 0::2], bits[:, 1::2]
        exact[:, 0::2] += gate & ~sign & here[:, None]
        exact[:, 1::2] += gate & sign & here[:, None]
        illegal += (sign & ~gate & here[:, None]).sum(axis=1)
    counts = _saturated(exact, cnt_max)
    net = counts[:, 0::2].astype(np.int32) - counts[:, 1::2].astype(np.int32)
    out = np.zeros((array.shape[1], LINE_BITS), dtype=np.uint8)
    out[:, 0::2] = net <= -threshold
    out[:, 1::2] = np.abs(net) >= threshold
    vote = np.packbits(out, axis=1, bitorder="little")
    return _result(Mode.G_TERNARY, vote, exact, counts, mask, illegal)


def reduce_tern5(
    lines: ArrayLike, present: ArrayLike | None = None, threshold: int = 1
) -> LowBitResult:
    """Return counts and thresholded vote of G_TERN5 lines uint8[W, n, 64].

    net is the sum of the elements -1, 0 and +1. net >= threshold gives +1, net <= -threshold gives
    -1, else 0, as lines of the same format. The counters hold every count that a commit allows, so
    none saturates.

    Args:
        lines: contributions of all workers.
        present: bool[W, n], contributors; None for all.
        threshold: T, at least 1 (else ValueError).
    """
    if threshold < 1:
        raise ValueError(f"threshold is at least 1, not {threshold}")
    array, mask = contributions(lines, present)
    n = array.shape[1]
    net = np.zeros((n, TRITS_A_BYTE * LINE_BYTES), dtype=np.int32)
    illegal = np.zeros(n, dtype=np.int64)
    for line, here in zip(array, mask, strict=True):
        net += unpack_tern5(line).reshape(n, -1) * here[:, None]
        illegal += TRITS_A_BYTE * ((line >= TERN5_CODES) & here[:, None]).sum(axis=1)
    m = mask.sum(axis=0)
    counts = np.zeros((n, LINE_BITS), dtype=np.uint16)
    counts[:, : net.shape[1]] = net + m[:, None]
    vote = (net >= threshold).astype(np.int8) - (net <= -threshold).astype(np.int8)
    return _result(Mode.G_TERN5, trits_to_lines(vote), counts, counts, mask, illegal)

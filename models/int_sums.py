# SPDX-License-Identifier: Apache-2.0
"""Reference of G_INT4 and G_INT8: exact sums of k-bit codes, as lines that a host reads.

Sums are integers per element, computed with numpy from the codes. The device counts and weighs bits
in planes; its reference therefore uses no planes. `sums_of_planes` is the host's arithmetic on
count planes, for a region without a sum view. Spec: controller, second edition §7.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.line_packing import LINE_BITS, LINE_BYTES, U8, contributions, unpack_int
from models.modes import Mode
from models.votes import U16, count_planes, planes_to_counts

I32 = NDArray[np.int32]
SUM8_WORKERS = 16
"""Largest W whose sums of 4-bit codes fit eight bits."""


def sum16_lines(mode: Mode) -> int:
    """Return the number of SUM16 lines (16-bit sums) per line of codes; 0 for other modes."""
    return {Mode.G_INT4: 4, Mode.G_INT8: 2}.get(mode, 0)


def sum8_lines(mode: Mode, workers: int) -> int:
    """Return the number of SUM8 lines (8-bit sums) per line of codes.

    It is 2 for G_INT4 with at most 16 workers, else 0.
    """
    return 2 if mode == Mode.G_INT4 and workers <= SUM8_WORKERS else 0


@dataclass(frozen=True)
class IntResult:
    """Sums of ``n`` lines of integer codes over the workers, and the lines that a host reads."""

    mode: Mode
    sums: I32
    """int32[n, elements of a line]."""
    counts: U16
    """uint16[n, 512]: contributions with a one at each bit of the line."""
    contributions: U16
    """uint16[n]: number of summed contributions (m)."""

    @property
    def planes(self) -> U8:
        """Return the count planes uint8[8, n, 64]: the lines at selectors 8..15."""
        return count_planes(self.counts)

    @property
    def sum16(self) -> U8:
        """Return the 16-bit sums as lines uint8[4 or 2, n, 64], at selectors from 16 on."""
        return _views(self.sums.astype("<i2"))

    @property
    def sum8(self) -> U8:
        """Return 8-bit sums as lines uint8[2, n, 64], selectors from 32 on (G_INT4, W <= 16)."""
        return _views(self.sums.astype("<i1"))


def _views(values: NDArray[np.signedinteger]) -> U8:
    """Convert sums [n, elements] to lines uint8[views, n, 64]; view 0 has the first elements."""
    lines = values.view(np.uint8).reshape(len(values), -1, LINE_BYTES)
    return np.ascontiguousarray(lines.transpose(1, 0, 2))


def sums_of_views(views: U8, kind: str) -> I32:
    """Return the sums int32[n, elements] in SUM16 or SUM8 lines uint8[v, n, 64].

    ``kind`` is the numpy type of a sum: "<i2" for SUM16, "<i1" for SUM8.
    """
    parts = [np.ascontiguousarray(one).view(kind).astype(np.int32) for one in views]
    return np.concatenate(parts, axis=1)


def reduce_int(
    lines: ArrayLike, mode: Mode, present: ArrayLike | None = None, signed: bool = True
) -> IntResult:
    """Sum the integer codes of all workers in lines uint8[W, n, 64].

    Args:
        lines: contributions of all workers.
        mode: G_INT4 or G_INT8.
        present: bool[W, n], contributors; None for all.
        signed: codes are two's complement, else 0 .. 2^k - 1.

    Raises:
        ValueError: another mode or shape.
    """
    array, mask = contributions(lines, present)
    counts = np.zeros((array.shape[1], LINE_BITS), np.uint16)
    sums = np.zeros((array.shape[1], LINE_BITS // max(1, mode.bits)), np.int32)
    for line, here in zip(array, mask, strict=True):
        counts += np.unpackbits(line, axis=1, bitorder="little") & here[:, None]
        sums += unpack_int(line, mode, signed) * here[:, None]
    return IntResult(mode, sums, counts, mask.sum(axis=0).astype(np.uint16))


def sums_of_planes(
    planes: ArrayLike, mode: Mode, signed: bool = True, zeros_of: int | None = None
) -> I32:
    """Return the sums int32[n, elements of a line] of codes from the count planes of their bits.

    Args:
        planes: Count planes uint8[p, n, 64].
        mode: G_INT4 or G_INT8.
        signed: Codes are two's complement, else 0 .. 2^k - 1.
        zeros_of: Contributions per line, if the planes are those of a G_BINARY region, which counts
            zeros; None if they count ones.
    """
    counts = planes_to_counts(planes).astype(np.int32)
    if zeros_of is not None:
        counts = zeros_of - counts
    weights = 1 << np.arange(mode.bits, dtype=np.int32)
    if signed:
        weights[-1] = -weights[-1]
    sums: I32 = (counts.reshape(len(counts), -1, mode.bits) * weights).sum(axis=2, dtype=np.int32)
    return sums

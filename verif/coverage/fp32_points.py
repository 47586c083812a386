# SPDX-License-Identifier: Apache-2.0
"""FP32 sums: the classes of both operands of each addition, and how its result was rounded.

The additions are those of the reference, in worker order. They are kept as they come and
classified together: a call of numpy costs as much for one line as for a hundred.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from models.fp32 import U32, add_bits, canonical
from verif.coverage.cover_model import CHEAP, CoverModel

OPERANDS = ("0", "-0", "subnormal", "normal", "huge", "+inf", "-inf", "nan")
ROUNDINGS = (
    "exact",
    "guard 0, sticky 1",
    "guard 1, sticky 1",
    "tie, to even below",
    "tie, to even above",
)
CARRIES = ("none", "carry out", "cancels 1 bit", "cancels more")
RESULTS = (
    "exact zero of two that cancel",
    "+0 of two zeros",
    "-0 of two zeros",
    "overflow to infinity",
    "largest number",
    "infinity stays",
    "infinities that cancel",
    "NaN stays",
    "two subnormals give a subnormal",
    "two subnormals give a normal",
    "normals give a subnormal",
    "smallest normal",
)
_BATCH = 4096  # additions that are classified at once
_FRACTION = np.uint32(0x7FFFFF)
_MAGNITUDE = np.uint32(0x7FFFFFFF)
_HUGE = 254  # the largest exponent field of a number
Bool = NDArray[np.bool_]


def operand_classes(bits: U32) -> NDArray[np.intp]:
    """Index into OPERANDS of each bit pattern."""
    exponent = bits >> np.uint32(23) & np.uint32(0xFF)
    zero, special = (bits & _MAGNITUDE) == 0, exponent == 255
    negative = bits >> np.uint32(31) == 1
    nan = special & ((bits & _FRACTION) != 0)
    return np.select(
        [zero & ~negative, zero, exponent == 0, nan, special & ~negative, special]
        + [exponent == _HUGE],
        [0, 1, 2, 7, 5, 6, 4],
        default=3,
    )


class Fp32Points:
    """Feed it with `sum`, and call `flush` before the hits are read."""

    def __init__(self, model: CoverModel) -> None:
        self.operands = model.cross(
            "FP32 operands",
            "every class of a sum so far with every class of the line added to it",
            {"sum": OPERANDS, "line": OPERANDS},
            test="test_systematic::pairs",
            at_least=CHEAP,
        )
        self.rounding = model.cross(
            "FP32 rounding",
            "each way to round a sum of two numbers, with and without a carry out or cancelled "
            "bits; a sum that cancels more than one bit is exact",
            {"rounding": ROUNDINGS, "carry": CARRIES},
            test="test_scenario::fp32_values",
            at_least=CHEAP,
            ignore=lambda rounding, carry: carry == "cancels more" and rounding != "exact",
        )
        self.results = model.point(
            "FP32 results",
            "results at the edges of the format",
            RESULTS,
            test="test_systematic::pairs",
            at_least=CHEAP,
        )
        self._pairs: list[tuple[U32, U32]] = []
        self._waiting = 0

    def sum(self, lines: Iterable[bytes]) -> None:
        """A sum was read; `lines` are the present workers' in order, 64 bytes each."""
        words = np.frombuffer(b"".join(lines), dtype="<u4").reshape(-1, 16)
        if len(words) < 2:
            return
        with np.errstate(all="ignore"):
            partial = np.add.accumulate(canonical(words).view(np.float32), axis=0)
        self._pairs.append((partial[:-1].view(np.uint32), words[1:]))
        self._waiting += partial[:-1].size
        if self._waiting >= _BATCH:
            self.flush()

    def flush(self) -> None:
        """Classify what has come since the last time."""
        if not self._pairs:
            return
        a = canonical(np.concatenate([pair[0].ravel() for pair in self._pairs]))
        b = np.concatenate([pair[1].ravel() for pair in self._pairs])
        self._pairs.clear()
        self._waiting = 0
        first, second = operand_classes(a), operand_classes(b)
        pairs = np.bincount(first * len(OPERANDS) + second, minlength=len(OPERANDS) ** 2)
        for index in np.flatnonzero(pairs):
            one, other = divmod(int(index), len(OPERANDS))
            self.operands.hit(OPERANDS[one], OPERANDS[other], times=int(pairs[index]))
        total = add_bits(a, b)
        self._results(a, b, total, first, second)
        finite = (first < 5) & (second < 5) & ((total & _MAGNITUDE) < np.uint32(0x7F800000))
        finite &= (first > 1) & (second > 1)
        self._rounding(a[finite], b[finite], total[finite])

    def _results(
        self,
        a: U32,
        b: U32,
        total: U32,
        first: NDArray[np.intp],
        second: NDArray[np.intp],
    ) -> None:
        size, exponent = total & _MAGNITUDE, total >> np.uint32(23) & np.uint32(0xFF)
        zeros = (first <= 1) & (second <= 1)
        numbers = (first < 5) & (second < 5)
        infinite, nan = size == 0x7F800000, size > 0x7F800000
        subnormal = (exponent == 0) & (size != 0)
        small = (first == 2) & (second == 2)
        found = (
            (size == 0) & ~zeros,
            zeros & (total == 0),
            zeros & (total != 0),
            infinite & numbers,
            (size == 0x7F7FFFFF) & numbers,
            infinite & ~numbers,
            nan & (first != 7) & (second != 7),
            nan & ((first == 7) | (second == 7)),
            subnormal & small,
            small & (exponent == 1),
            subnormal & (first > 2) & (second > 2),
            size == 0x00800000,
        )
        for name, where in zip(RESULTS, found, strict=True):
            times = int(np.count_nonzero(where))
            if times:
                self.results.hit(name, times)

    def _rounding(self, a: U32, b: U32, total: U32) -> None:
        """`a`, `b`, `total`: finite numbers that are not zero (the total may be)."""
        x, y, s = (value.view(np.float32) for value in (a, b, total))
        with np.errstate(all="ignore"):
            # What rounding has left out, exactly (Moller, Knuth): s + error = x + y.
            part = s - x
            error = (x - (s - part)) + (y - part)
            half = np.spacing(np.abs(s)) / 2
            rounded_up = (error > 0) != (s > 0)
            # Below a power of two the neighbours are twice as close.
            half = np.where(rounded_up & (total & _FRACTION == 0), half / 2, half)
        kinds = np.select(
            [error == 0, np.abs(error) == half, ~rounded_up],
            [0, np.where(rounded_up, 4, 3), 1],
            default=2,
        )
        before = np.maximum(
            a >> np.uint32(23) & np.uint32(255), b >> np.uint32(23) & np.uint32(255)
        )
        shift = (total >> np.uint32(23) & np.uint32(255)).astype(np.int64) - before
        carries = np.select([shift > 0, shift == 0, shift == -1], [1, 0, 2], default=3)
        counts = np.bincount(kinds * len(CARRIES) + carries, minlength=20)
        for index in np.flatnonzero(counts):
            kind, carry = divmod(int(index), len(CARRIES))
            self.rounding.hit(ROUNDINGS[kind], CARRIES[carry], times=int(counts[index]))

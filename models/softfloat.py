# SPDX-License-Identifier: Apache-2.0
"""binary32 addition in integer arithmetic, to check `models.fp32`.

Every finite binary32 is an integer multiple of 2**-149. So the exact sum is one integer addition,
and all that is left is one rounding. Slow and plain on purpose: nothing here depends on a
floating-point unit.
"""

from __future__ import annotations

from collections.abc import Iterable

CANONICAL_NAN = 0x7FC00000
_INFINITY = 0x7F800000
_SIGN = 0x80000000


def is_nan(bits: int) -> bool:
    """True when the 32-bit pattern is a NaN."""
    return (bits & 0x7FFFFFFF) > _INFINITY


def to_units(bits: int) -> int:
    """A finite binary32 as a signed count of 2**-149 units."""
    exponent = (bits >> 23) & 0xFF
    fraction = bits & 0x7FFFFF
    magnitude = fraction if exponent == 0 else (fraction | 0x800000) << (exponent - 1)
    return -magnitude if bits & _SIGN else magnitude


def from_units(units: int) -> int:
    """The binary32 nearest to ``units * 2**-149``, ties to even; +0.0 for zero."""
    sign = _SIGN if units < 0 else 0
    magnitude = abs(units)
    drop = max(magnitude.bit_length() - 24, 0)
    kept = magnitude >> drop
    rest = magnitude - (kept << drop)
    half = (1 << drop) >> 1
    if drop and (rest > half or (rest == half and kept & 1)):
        kept += 1
    if kept == 1 << 24:
        kept >>= 1
        drop += 1
    if kept < 1 << 23:
        return sign | kept  # subnormal: the exponent field is 0, the unit is 2**-149 already
    exponent = drop + 1
    if exponent >= 0xFF:
        return sign | _INFINITY
    return sign | (exponent << 23) | (kept & 0x7FFFFF)


def add(a: int, b: int) -> int:
    """binary32 ``a + b`` on bit patterns: round to nearest even, subnormals, NaN 7FC00000h."""
    if is_nan(a) or is_nan(b):
        return CANONICAL_NAN
    a_inf, b_inf = (a & 0x7FFFFFFF) == _INFINITY, (b & 0x7FFFFFFF) == _INFINITY
    if a_inf or b_inf:
        if a_inf and b_inf and a != b:
            return CANONICAL_NAN
        return a if a_inf else b
    if (a | b) & 0x7FFFFFFF == 0:
        return a & b  # only -0 + -0 is -0
    return from_units(to_units(a) + to_units(b))


def ordered_sum(values: Iterable[int]) -> int:
    """Sum of bit patterns in order (controller spec §4); +0.0 when there is none."""
    acc: int | None = None
    for value in values:
        if acc is None:
            acc = CANONICAL_NAN if is_nan(value) else value
        else:
            acc = add(acc, value)
    return 0 if acc is None else acc

# SPDX-License-Identifier: Apache-2.0
"""Oracle of integer codes: scale, code and mean of one element at a time, in exact arithmetic.

spec: capture, "From tensors to lines". It is written from the text alone, with integers and
fractions, and shares nothing with `neuron_fabric.codec.integer_codes`, which it judges: a rounding
to float32 counts units of 2^-149, of which every float32 is a multiple, and a rounding to float64
is Python's conversion of a fraction, which is correct to the last bit.
"""

import math
from fractions import Fraction

from models.modes import Mode

BUCKET = 1024
"""Elements that share a scale."""
_UNITS = 1 << 149
_DIGITS = 24
_INFINITE = Fraction(2) ** 128


def buckets(elements: int) -> int:
    """Return the number of buckets of a tensor; the last one may be shorter."""
    return -(-elements // BUCKET)


def scale(largest: float, mode: Mode) -> float:
    """Return the scale u of a bucket: the least float32 with which no code is clipped.

    Args:
        largest: Largest absolute value in the bucket.
        mode: G_INT4 or G_INT8.
    """
    units = -(-int(Fraction(largest) * _UNITS) // _top(mode))
    excess = max(0, units.bit_length() - _DIGITS)
    return math.ldexp(-(-units >> excess), excess - 149)


def code(x: float, u: float, mode: Mode, r: float = 0.5) -> int:
    """Return the integer code floor(x / u + r), computed as float64 does, at most the largest code.

    Args:
        x: An element, no larger than the largest of its bucket.
        u: The scale of its bucket; 0 for a bucket of zeros, whose codes are 0.
        mode: G_INT4 or G_INT8.
        r: 1/2 rounds to nearest, half up; a uniform draw of [0, 1) rounds stochastically.
    """
    ratio = float(Fraction(x) / Fraction(u)) if u else 0.0
    return min(math.floor(float(Fraction(ratio) + Fraction(r))), _top(mode))


def mean(total: int, u: float, contributions: int) -> float:
    """Return u * total / contributions, rounded once to float32, ties to even.

    Without contributions it is u * total, where the total is 0.
    """
    return to_float32(Fraction(u) * total / max(1, contributions))


def to_float32(exact: Fraction) -> float:
    """Round an exact number to the nearest float32, ties to even.

    Zero gives +0.0, and numbers beyond the largest float32 an infinity.
    """
    units = abs(exact) * _UNITS
    excess = max(0, int(units).bit_length() - _DIGITS)
    rounded = Fraction(round(units / 2**excess) << excess, _UNITS)
    size = float(rounded) if rounded < _INFINITE else math.inf
    return math.copysign(size, exact)


def _top(mode: Mode) -> int:
    return int((1 << mode.bits - 1) - 1)

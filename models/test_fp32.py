# SPDX-License-Identifier: Apache-2.0
"""Tests that binary32 addition by numpy, by fractions and by float64 agrees bit for bit."""

import functools
import math
import struct
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import fp32
from models.integer_codes import to_float32
from models.line_packing import U8

INF, NAN, SIGN = 0x7F800000, 0x7FC00000, 0x80000000
HARD = sorted(
    {
        sign | magnitude
        for sign in (0, 0x80000000)
        for magnitude in (
            *(0x00000000, 0x00000001, 0x00000002, 0x00000003, 0x00400000),  # zero, subnormals
            *(0x007FFFFE, 0x007FFFFF, 0x00800000, 0x00800001, 0x00FFFFFF, 0x01000000),
            *(0x33000000, 0x33800000, 0x33800001, 0x34000000, 0x34000001),  # ulp and half of 1.0
            *(0x3F7FFFFF, 0x3F800000, 0x3F800001, 0x3F800002, 0x3F800003, 0x40000000),
            *(0x4B000000, 0x4B7FFFFF, 0x4B800000, 0x4B800001),  # around 2**23, 2**24
            *(0x73000000, 0x72FFFFFF, 0x73800000, 0x7F000000),  # half an ulp of the largest
            *(0x7F7FFFFE, 0x7F7FFFFF, INF, NAN, 0x7F800001, 0x7FFFFFFF),
        )
    }
)


# -- the reference: binary32 addition in exact fractions -----------------------------------------
# The exact sum of two numbers is rounded once, by integers: it depends on no float32 unit.


def exact_add(a: int, b: int) -> int:
    """Add two bit patterns as binary32, in exact arithmetic; NaN becomes 7FC00000h."""
    x, y = struct.unpack("<2f", struct.pack("<2I", a, b))
    total = x + y  # of floats of Python: exact enough for NaN, infinities and the sign of zero
    if math.isnan(total):
        return NAN
    if math.isfinite(x) and math.isfinite(y) and total != 0:
        total = to_float32(Fraction(x) + Fraction(y))
    return int(struct.unpack("<I", struct.pack("<f", total))[0])


def exact_sum(values: Iterable[int]) -> int:
    """Add bit patterns in order (controller spec §4); without any the sum is +0.0."""
    first, *others = [*values] or [0]
    # -0.0 changes no number; of a NaN it makes the canonical one.
    return functools.reduce(exact_add, others, exact_add(first, SIGN))


# -- tests ---------------------------------------------------------------------------------------
def compare(a: np.ndarray, b: np.ndarray) -> None:
    """Check that numpy's sums equal the exact sums, and float64 sums rounded once to float32.

    float64 has enough bits for that: 53 >= 2 * 24 + 2.
    """
    got = fp32.add_bits(a, b)
    want = [exact_add(int(x), int(y)) for x, y in zip(a, b, strict=True)]
    assert [hex(int(g)) for g in got] == [hex(w) for w in want]
    with np.errstate(all="ignore"):
        wide = a.view(np.float32).astype(np.float64) + b.view(np.float32).astype(np.float64)
        detour = fp32.canonical(wide.astype(np.float32).view(np.uint32))
    assert (got == detour).all()


def test_every_pair_of_hard_values() -> None:
    a, b = (np.array(g.reshape(-1), dtype=np.uint32) for g in np.meshgrid(HARD, HARD))
    compare(a, b)


def test_random_patterns() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 1 << 32, (2, 30_000), dtype=np.uint64).astype(np.uint32)
    compare(a, b)


def test_random_neighbours() -> None:
    """Check sums of numbers with exponents at most 26 apart, so that they round and cancel."""
    rng = np.random.default_rng(2)
    a = rng.integers(0, 1 << 32, 30_000, dtype=np.uint64).astype(np.uint32)
    exponent = np.clip((a >> 23 & 0xFF).astype(np.int64) + rng.integers(-26, 27, a.size), 0, 254)
    sign_fraction = rng.integers(0, 1 << 24, a.size).astype(np.uint32)
    b = (sign_fraction >> 23 << 31) | (exponent.astype(np.uint32) << 23) | sign_fraction & 0x7FFFFF
    compare(a, b.astype(np.uint32))


def lines_of(words: np.ndarray) -> U8:
    return np.ascontiguousarray(words.astype("<u4")).view(np.uint8).reshape(*words.shape[:-1], 64)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 8))
def test_ordered_sum_in_integers(seed: int, workers: int) -> None:
    rng = np.random.default_rng(seed)
    words = rng.choice(np.array(HARD, dtype=np.uint32), (workers, 2, 16))
    present = rng.random((workers, 2)) < 0.7
    got = fp32.ordered_sum(lines_of(words), present).view("<u4").reshape(2, 16)
    for i in range(2):
        for e in range(16):
            want = exact_sum(int(words[w, i, e]) for w in range(workers) if present[w, i])
            assert int(got[i, e]) == want


def test_misuse_is_refused() -> None:
    with pytest.raises(ValueError, match="lines must be"):
        fp32.ordered_sum(np.zeros((2, 64), dtype=np.uint8))
    with pytest.raises(ValueError, match="present must be"):
        fp32.ordered_sum(np.zeros((2, 1, 64), dtype=np.uint8), np.ones((2, 2), dtype=np.bool_))

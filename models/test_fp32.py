# SPDX-License-Identifier: Apache-2.0
"""binary32 addition: numpy, integers and double precision must agree bit for bit."""

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import fp32
from models.line_packing import U8

INF, NINF, NAN, SIGN = 0x7F800000, 0xFF800000, 0x7FC00000, 0x80000000
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


# -- the reference: binary32 addition in integer arithmetic --------------------------------------
# Every finite binary32 is an integer multiple of 2**-149, so the exact sum is one integer addition
# with one rounding. It is slow and simple on purpose: it depends on no floating-point unit.


def is_nan(bits: int) -> bool:
    """Return True if the 32-bit pattern is a NaN."""
    return (bits & 0x7FFFFFFF) > INF


def to_units(bits: int) -> int:
    """Return a finite binary32 as a signed number of 2**-149 units."""
    exponent = (bits >> 23) & 0xFF
    fraction = bits & 0x7FFFFF
    magnitude = fraction if exponent == 0 else (fraction | 0x800000) << (exponent - 1)
    return -magnitude if bits & SIGN else magnitude


def from_units(units: int) -> int:
    """Return the binary32 nearest to ``units * 2**-149``, ties to even; +0.0 for zero."""
    sign = SIGN if units < 0 else 0
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
        return sign | INF
    return sign | (exponent << 23) | (kept & 0x7FFFFF)


def exact_add(a: int, b: int) -> int:
    """Add bit patterns as binary32: round to nearest even, subnormals, NaN 7FC00000h."""
    if is_nan(a) or is_nan(b):
        return NAN
    a_inf, b_inf = (a & 0x7FFFFFFF) == INF, (b & 0x7FFFFFFF) == INF
    if a_inf or b_inf:
        if a_inf and b_inf and a != b:
            return NAN
        return a if a_inf else b
    if (a | b) & 0x7FFFFFFF == 0:
        return a & b  # only -0 + -0 is -0
    return from_units(to_units(a) + to_units(b))


def exact_sum(values: Iterable[int]) -> int:
    """Return the sum of bit patterns in order (controller spec §4); +0.0 without any."""
    acc: int | None = None
    for value in values:
        if acc is None:
            acc = NAN if is_nan(value) else value
        else:
            acc = exact_add(acc, value)
    return 0 if acc is None else acc


# -- tests ---------------------------------------------------------------------------------------
def add(a: int, b: int) -> int:
    words = np.array([a, b], dtype=np.uint32)
    return int(fp32.add_bits(words[:1], words[1:])[0])


@pytest.mark.parametrize(
    ("a", "b", "want"),
    [
        (0x3F800000, 0x33800000, 0x3F800000),  # 1 + 2**-24: a tie, down to even
        (0x3F800001, 0x33800000, 0x3F800002),  # a tie, up to even
        (0x3F800000, 0x33800001, 0x3F800001),  # just above the tie
        (0x3F800000, 0xBF800000, 0x00000000),  # x - x = +0
        (0x80000000, 0x80000000, 0x80000000),  # -0 + -0
        (0x80000000, 0x00000000, 0x00000000),
        (0x00000001, 0x80000001, 0x00000000),
        (0x00000001, 0x00000001, 0x00000002),  # subnormals are kept
        (0x007FFFFF, 0x00000001, 0x00800000),  # up into the normals
        (0x00800000, 0x80000001, 0x007FFFFF),  # and down again
        (0x7F7FFFFF, 0x7F7FFFFF, INF),
        (0x7F7FFFFF, 0x73000000, INF),  # half an ulp above the largest: a tie, away
        (0x7F7FFFFF, 0x72FFFFFF, 0x7F7FFFFF),
        (INF, NINF, NAN),
        (INF, 0xFF7FFFFF, INF),
        (NINF, 0x3F800000, NINF),
        (0xFFC00001, 0x3F800000, NAN),
        (0x7F800001, INF, NAN),  # a signalling NaN
    ],
)
def test_known_sums(a: int, b: int, want: int) -> None:
    assert exact_add(a, b) == want
    assert exact_add(b, a) == want
    assert add(a, b) == add(b, a) == want


def compare(a: np.ndarray, b: np.ndarray) -> None:
    """Compare numpy's sum, the sum by integers, and a float64 sum rounded once (53 >= 2 * 24 +
    2).
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
    """Check exponents at most 26 apart, where rounding and cancellation occur."""
    rng = np.random.default_rng(2)
    a = rng.integers(0, 1 << 32, 30_000, dtype=np.uint64).astype(np.uint32)
    exponent = np.clip((a >> 23 & 0xFF).astype(np.int64) + rng.integers(-26, 27, a.size), 0, 254)
    sign_fraction = rng.integers(0, 1 << 24, a.size).astype(np.uint32)
    b = (sign_fraction >> 23 << 31) | (exponent.astype(np.uint32) << 23) | sign_fraction & 0x7FFFFF
    compare(a, b.astype(np.uint32))


def test_units_are_the_inverse_of_rounding() -> None:
    for bits in HARD:
        if not is_nan(bits) and bits & 0x7FFFFFFF != INF and bits != 0x80000000:
            assert from_units(to_units(bits)) == bits


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


def test_order_is_the_worker_order() -> None:
    # (1 + 2**-24) + 2**-24 stays 1; 2**-24 + 2**-24 first gives the next number above 1.
    column = np.array([0x3F800000, 0x33800000, 0x33800000], dtype=np.uint32)
    words = np.repeat(column, 16).reshape(3, 1, 16)
    assert fp32.ordered_sum(lines_of(words)).view("<u4")[0, 0] == 0x3F800000
    assert fp32.ordered_sum(lines_of(words[::-1])).view("<u4")[0, 0] == 0x3F800001


def test_missing_is_not_the_same_as_zero() -> None:
    words = np.full((2, 1, 16), 0x80000000, dtype=np.uint32)

    def total(first: bool, second: bool) -> int:
        present = np.array([[first], [second]])
        return int(fp32.ordered_sum(lines_of(words), present).view("<u4")[0, 0])

    assert total(True, False) == total(False, True) == total(True, True) == 0x80000000
    assert total(False, False) == 0
    words[0] = 0
    assert total(True, True) == 0


def test_a_lone_nan_is_canonical() -> None:
    words = np.full((1, 1, 16), 0xFF812345, dtype=np.uint32)
    assert (fp32.ordered_sum(lines_of(words)).view("<u4") == NAN).all()


def test_misuse_is_refused() -> None:
    with pytest.raises(ValueError, match="lines must be"):
        fp32.ordered_sum(np.zeros((2, 64), dtype=np.uint8))
    with pytest.raises(ValueError, match="present must be"):
        fp32.ordered_sum(np.zeros((2, 1, 64), dtype=np.uint8), np.ones((2, 2), dtype=np.bool_))

# SPDX-License-Identifier: Apache-2.0
"""Tests of the oracle of integer codes, and of the package's codec against it."""

import math
from fractions import Fraction

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from models import integer_codes
from models.line_packing import unpack_int
from models.modes import Mode
from neuron_fabric import codec
from neuron_fabric.codec import Route

INTS = st.sampled_from([Mode.G_INT4, Mode.G_INT8])
finite = st.floats(allow_nan=False, allow_infinity=False, width=32)
draws = st.floats(0, 1, exclude_max=True) | st.sampled_from([0.0, 0.5, math.nextafter(1, 0)])
LARGEST = float(np.finfo(np.float32).max)
LEAST = 2.0**-149


@given(st.lists(finite, min_size=1, max_size=40), INTS, st.none() | draws)
def test_a_code_is_a_neighbour_and_nearest_within_half_a_scale(
    values: list[float], mode: Mode, draw: float | None
) -> None:
    """Check that a code is within half a unit of its value, or one unit with stochastic rounding.

    Checked in exact arithmetic, with subnormals and the largest numbers.
    """
    u = integer_codes.scale(max(map(abs, values)), mode)
    r, reach = (0.5, Fraction(1, 2)) if draw is None else (draw, 1 + Fraction(1, 2**45))
    for value in values:
        code = integer_codes.code(value, u, mode, r)
        assert abs(code) <= (7 if mode == Mode.G_INT4 else 127)
        assert abs(Fraction(value) - code * Fraction(u)) <= reach * Fraction(u)


@given(finite, INTS)
def test_a_scale_is_the_least_float32_that_reaches(largest: float, mode: Mode) -> None:
    u, top = integer_codes.scale(abs(largest), mode), 2 ** (mode.bits - 1) - 1
    assert float(np.float32(u)) == u
    assert Fraction(u) * top >= Fraction(abs(largest))
    if u:
        below = float(np.nextafter(np.float32(u), np.float32(0)))
        assert Fraction(below) * top < Fraction(abs(largest))


def test_numbers_of_the_specification() -> None:
    """Check scales, codes and means against hand-computed values."""
    assert integer_codes.scale(7.0, Mode.G_INT4) == integer_codes.scale(127.0, Mode.G_INT8) == 1.0
    assert [integer_codes.code(x, 1.0, Mode.G_INT4) for x in (0.49, 0.5, -0.5, -0.51, 7)] == [
        *(0, 1, 0, -1, 7)
    ]
    assert integer_codes.code(0.0, 0.0, Mode.G_INT8) == 0
    assert integer_codes.scale(LEAST, Mode.G_INT8) == LEAST
    assert (integer_codes.mean(14, 0.5, 7), integer_codes.mean(-7, 0.5, 7)) == (1, -0.5)
    assert integer_codes.mean(0, 0.5, 0) == 0
    assert integer_codes.mean(1, 1.0, 3) == float(np.float32(1 / 3))
    assert integer_codes.mean(1, LEAST, 2) == 0.0  # ties to even
    assert integer_codes.mean(3, LEAST, 2) == 2 * LEAST
    assert integer_codes.buckets(1025) == 2


@given(
    values=st.lists(finite, min_size=1, max_size=30),
    mode=INTS,
    drawn=st.none() | st.lists(draws, min_size=30, max_size=30),
    start=st.sampled_from([0, 1, 1000]),
)
@example([1.0, 127.0, -127.0], Mode.G_INT8, [math.nextafter(1, 0)] * 30, 0)
@example([1.0, 7.0, -7.0], Mode.G_INT4, [math.nextafter(1, 0)] * 30, 0)
@example([1.0, LARGEST, -LARGEST], Mode.G_INT8, None, 0)
@example([LEAST, -LEAST, 3 * LEAST, 0.0], Mode.G_INT4, None, 1000)
def test_the_codec_is_the_oracle(
    values: list[float], mode: Mode, drawn: list[float] | None, start: int
) -> None:
    """Check that units, codes and values of codes in the codec equal the oracle's.

    Tensors may cross the boundary of two buckets.
    """
    x = np.zeros(start + len(values), np.float32)
    x[start:] = values
    route, every = Route(mode.name), np.array(drawn or [0.5]).repeat(x.size)[: x.size]
    if drawn is not None:
        every[start:] = drawn[: len(values)]
    u = codec.units(codec.maxima(x), route)
    firsts = range(0, x.size, integer_codes.BUCKET)
    want = [
        integer_codes.scale(max(abs(v) for v in x[n : n + integer_codes.BUCKET].tolist()), mode)
        for n in firsts
    ]
    assert u.tolist() == want
    given_draws = None if drawn is None else lambda first, count: every[first : first + count]
    packed = codec.pack_codes(x, route, u, given_draws)
    codes = unpack_int(packed.lines, mode).reshape(-1).tolist()
    with np.errstate(over="ignore"):  # a code of the largest float32 may stand for more than it
        back = codec.unpack_codes(packed.lines, route, u, x.size).tolist()
    assert not any(codes[:start])
    for n in range(start, x.size):
        r, unit = 0.5 if drawn is None else float(every[n]), want[n // integer_codes.BUCKET]
        assert codes[n] == integer_codes.code(float(x[n]), unit, mode, r), (n, x[n], unit, r)
        assert back[n] == integer_codes.mean(codes[n], unit, 1), (n, codes[n], unit)


@given(
    largest=finite,
    mode=INTS,
    workers=st.integers(1, 255),
    present=st.integers(0, 255),
    seed=st.integers(0, 2**32),
)
def test_means_of_the_codec_are_the_oracle(
    largest: float, mode: Mode, workers: int, present: int, seed: int
) -> None:
    route, present = Route(mode.name), min(present, workers)
    per_line = codec.elements_of_line(route)
    layers, kind = codec.sum_kind(route, workers)
    reach = (2 ** (mode.bits - 1) - 1) * present
    drawn = np.random.default_rng(seed).integers(-reach, reach, per_line, endpoint=True)
    sums = drawn.astype(kind)
    u = codec.units(np.array([abs(largest)], np.float32), route)
    lines = sums.view(np.uint8).reshape(layers, 1, 64)
    got = np.empty(per_line, np.float32)
    with np.errstate(over="ignore"):
        codec.unpack_sums(lines, route, u, workers, present, got)
    want = [integer_codes.mean(total, float(u[0]), present) for total in sums.tolist()]
    assert got.tolist() == want

# SPDX-License-Identifier: Apache-2.0
"""Laws of the packers: nearest is within half a scale, stochastic has no bias."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.line_packing import Mode, code_range
from models.quantize import (
    BUCKET,
    bucket_maxima,
    buckets,
    mean_of_sums,
    quantize,
    scale_of_each,
    scales,
)

INTS = st.sampled_from([Mode.G_INT4, Mode.G_INT8])
finite = st.floats(allow_nan=False, allow_infinity=False, width=32)
DRAWS = 10**6


@given(st.lists(finite, min_size=1, max_size=40), INTS)
def test_nearest_is_within_half_a_scale(values: list[float], mode: Mode) -> None:
    """In exact arithmetic, subnormals and the largest numbers among the values."""
    x = np.array(values, np.float32)
    u = scales(bucket_maxima(x), mode)
    codes = quantize(x, scale_of_each(u, x.size), mode)
    low, high = code_range(mode)
    assert (codes >= low + 1).all()
    assert (codes <= high).all()
    unit = Fraction(float(u[0]))
    for value, code in zip(x, codes, strict=True):
        assert abs(Fraction(float(value)) - int(code) * unit) <= unit / 2


@given(st.lists(finite, min_size=1, max_size=40), INTS, st.integers(0, 2**32))
def test_stochastic_is_a_neighbour(values: list[float], mode: Mode, seed: int) -> None:
    x = np.array(values, np.float32)
    u = scales(bucket_maxima(x), mode)
    draws = np.random.default_rng(seed).random(x.size)
    codes = quantize(x, u[0], mode, draws)
    unit = Fraction(float(u[0]))
    for value, code in zip(x, codes, strict=True):
        assert abs(Fraction(float(value)) - int(code) * unit) <= unit * (1 + Fraction(1, 2**48))


@settings(max_examples=12, deadline=None)
@given(st.floats(-1, 1, width=32), INTS, st.integers(0, 2**32))
def test_stochastic_has_no_bias(share: float, mode: Mode, seed: int) -> None:
    """The mean of 10^6 draws is within 4 sigma of the value; p (1 - p) u^2 is their variance."""
    x, u = np.float32(share), scales([1.0], mode)[0]
    draws = np.random.default_rng(seed).random(DRAWS)
    codes = quantize(np.full(DRAWS, x), u, mode, draws)
    exact = float(x) / float(u)
    p = exact - np.floor(exact)
    sigma = np.sqrt(p * (1 - p) / DRAWS)
    assert abs(float(codes.mean()) - exact) <= 4 * sigma + 1e-9
    assert codes.min() >= np.floor(exact)
    assert codes.max() <= np.ceil(exact)


def test_a_biased_rounding_is_found() -> None:
    """Negative twin of the law above: r in [0, 0.99)."""
    draws = np.random.default_rng(1).random(DRAWS) * 0.99
    codes = quantize(np.full(DRAWS, np.float32(0.5)), np.float32(1), Mode.G_INT4, draws)
    assert abs(float(codes.mean()) - 0.5) > 4 * np.sqrt(0.25 / DRAWS)


@given(st.integers(1, 3 * BUCKET), st.integers(1, 3), INTS)
def test_workers_share_the_scale_of_a_bucket(elements: int, workers: int, mode: Mode) -> None:
    rng = np.random.default_rng(elements)
    x = rng.standard_normal((workers, elements)).astype(np.float32)
    u = scales(bucket_maxima(x), mode)
    assert u.shape == (buckets(elements),)
    for number in range(buckets(elements)):
        own = np.abs(x[:, number * BUCKET : (number + 1) * BUCKET]).max()
        assert own <= float(u[number]) * code_range(mode)[1] <= own * (1 + 1e-6)
    each = scale_of_each(u, elements)
    assert (each == u[np.arange(elements) // BUCKET]).all()
    at = elements // 2
    assert (scale_of_each(u[at // BUCKET :], elements - at, at) == each[at:]).all()


def test_zeros_and_what_is_not_finite() -> None:
    zeros = np.zeros(5, np.float32)
    u = scales(bucket_maxima(zeros), Mode.G_INT4)
    assert (u == 0).all()
    assert not quantize(zeros, u[0], Mode.G_INT4).any()
    assert not quantize(zeros, u[0], Mode.G_INT4, np.full(5, 0.999)).any()
    assert bucket_maxima(np.zeros((2, 0))).shape == (0,)
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(ValueError, match="not finite"):
            bucket_maxima([1.0, bad])


def test_means() -> None:
    assert list(mean_of_sums([14, -7], 0.5, 7)) == [1.0, -0.5]
    assert list(mean_of_sums([0], 0.5, 0)) == [0.0]

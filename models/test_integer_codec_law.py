# SPDX-License-Identifier: Apache-2.0
"""Integer codes of the package equal the reference models, bit for bit; sums have no order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from models import quantize
from models.int_sums import reduce_int
from models.line_packing import F32, Mode, pack_int
from neuron_fabric import codec
from neuron_fabric.codec import Route

MODES = {Route.G_INT4: Mode.G_INT4, Route.G_INT8: Mode.G_INT8}
SEEDS = st.integers(0, 2**32)
SIZES = st.integers(1, 1100) | st.integers(65_400, 65_700)
WORKERS = st.integers(1, 18)
Drawn = NDArray[np.float64]


def tensors(rng: np.random.Generator, workers: int, size: int) -> F32:
    """float32[W, n]: any magnitudes side by side, zeros, subnormals, workers without a gradient."""
    x = rng.standard_normal((workers, size)) * 10.0 ** rng.integers(-44, 38, (1, size))
    x *= rng.random((workers, size)) < 0.8
    x[rng.random(workers) < 0.2] = 0
    return np.clip(x, -3.4e38, 3.4e38).astype(np.float32)


def slices(uniform: Drawn) -> Callable[[int, int], Drawn]:
    return lambda first, count: uniform[first : first + count]


def units_of(x: F32, route: Route) -> F32:
    """As ranks agree on them."""
    return codec.units(np.max([codec.maxima(own) for own in x], axis=0), route)


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, size=SIZES, workers=WORKERS, route=st.sampled_from(list(MODES)))
def test_codes_are_the_models(seed: int, size: int, workers: int, route: Route) -> None:
    rng, mode = np.random.default_rng(seed), MODES[route]
    x = tensors(rng, workers, size)
    u = units_of(x, route)
    assert np.array_equal(u, quantize.scales(quantize.bucket_maxima(x), mode))
    each = quantize.scale_of_each(u, size)
    for own, uniform in zip(x, rng.random(x.shape), strict=True):
        for draws in (None, uniform):
            packed = codec.pack_codes(own, route, u, None if draws is None else slices(draws))
            codes = quantize.quantize(own, each, mode, draws)
            assert np.array_equal(packed.lines, pack_int(codes, mode))
            value = (each.astype(np.float64) * codes).astype(np.float32)
            assert np.array_equal(codec.unpack_codes(packed.lines, route, u, size), value)
        assert packed.scale == 1
        assert packed.zeros == (own == 0).sum()
        assert (packed.finite, packed.open_gates) == (True, size)


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, size=SIZES, workers=WORKERS, route=st.sampled_from(list(MODES)))
def test_sums_are_exact_in_any_order(seed: int, size: int, workers: int, route: Route) -> None:
    """Also of workers that are not there, whatever their lines hold."""
    rng, mode = np.random.default_rng(seed), MODES[route]
    lines = rng.integers(0, 256, (workers, codec.lines_of(size, route), 64), np.uint8)
    here = rng.random(lines.shape[:2]) < 0.8
    views = codec.add_codes(lines, route, here)
    want = reduce_int(lines, mode, here)
    narrow = route == Route.G_INT4 and workers <= 16
    assert np.array_equal(views, want.sum8 if narrow else want.sum16)
    order = rng.permutation(workers)
    assert np.array_equal(codec.add_codes(lines[order], route, here[order]), views)
    present = int(rng.integers(workers + 1))
    u = rng.random(-(-size // codec.BUCKET)).astype(np.float32)
    got = np.empty(size, np.float32)
    codec.unpack_sums(views, route, u, workers, present, got)
    each, flat = quantize.scale_of_each(u, size), want.sums.reshape(-1)[:size]
    assert np.array_equal(got, quantize.mean_of_sums(flat, each, present))


@pytest.mark.parametrize("route", list(MODES))
@pytest.mark.parametrize("byte", [0x80, 0x88, 0x77, 0x7F])
@pytest.mark.parametrize("workers", [16, 17, 64, 255])
def test_sums_have_room(route: Route, byte: int, workers: int) -> None:
    """The largest codes of both signs, of as many workers as there may be."""
    lines = np.full((workers, 1, 64), byte, np.uint8)
    layers, kind = codec.sum_kind(route, workers)
    views = codec.add_codes(lines, route)
    got = views.transpose(1, 0, 2).reshape(-1).view(kind)
    assert len(views) == layers
    assert np.array_equal(got, reduce_int(lines, MODES[route]).sums[0])


def test_a_tensor_that_is_not_finite_has_no_codes_on_any_rank() -> None:
    x = np.ones((2, 3000), np.float32)
    for bad in (np.nan, np.inf, -np.inf):
        x[1, 2999] = bad
        u = units_of(x, Route.G_INT8)
        assert np.isinf(u).all()
        for own in x:
            packed = codec.pack_codes(own, Route.G_INT8, u)
            assert not packed.finite
            assert np.isnan(packed.scale)
            assert not packed.lines.any()


def test_units_of_one_worker_alone_are_refused() -> None:
    """The twin: a worker that has not heard of a larger unit would clip."""
    x = np.array([1.0, -4.0], np.float32)
    own = codec.units(codec.maxima(x[:1]), Route.G_INT4)
    with pytest.raises(ValueError, match="beyond the codes of G_INT4"):
        codec.pack_codes(x, Route.G_INT4, own)


def test_bad_arguments_are_refused() -> None:
    x, u = np.zeros(1025, np.float32), np.zeros(2, np.float32)
    with pytest.raises(ValueError, match="1025 elements have 2 units"):
        codec.pack_codes(x, Route.G_INT4, u[:1])
    for refused in (
        lambda: codec.pack_codes(x, Route.G_BINARY, u),
        lambda: codec.units(u, Route.FP32),
        lambda: codec.add_codes(np.zeros((1, 1, 64), np.uint8), Route.G_TERNARY),
    ):
        with pytest.raises(ValueError, match="has no integer codes"):
            refused()
    with pytest.raises(ValueError, match="256 workers: a sum of codes has room for 1 to 255"):
        codec.add_codes(np.zeros((256, 1, 64), np.uint8), Route.G_INT8)
    with pytest.raises(ValueError, match=r"lines must be uint8\[W, n, 64\]"):
        codec.add_codes(np.zeros((1, 1, 32), np.uint8), Route.G_INT8)
    sums = codec.add_codes(np.zeros((17, 8, 64), np.uint8), Route.G_INT4)
    with pytest.raises(ValueError, match=r"sums must be uint8\[2, n, 64\], not uint8\[4, 8, 64\]"):
        codec.unpack_sums(sums, Route.G_INT4, u, 16, 16, x)
    with pytest.raises(ValueError, match="8 lines do not hold 1025 elements, 9 would"):
        codec.unpack_sums(sums, Route.G_INT4, u, 17, 17, x)

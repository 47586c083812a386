# SPDX-License-Identifier: Apache-2.0
"""Tests of the package's integer codes: packing by buckets, exact sums in any order."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from models.int_sums import reduce_int
from models.line_packing import F32
from models.modes import Mode
from neuron_fabric import codec
from neuron_fabric.codec import Route

MODES = {Route.G_INT4: Mode.G_INT4, Route.G_INT8: Mode.G_INT8}
SEEDS = st.integers(0, 2**32)
SIZES = st.integers(1, 1100) | st.integers(65_400, 65_700)
WORKERS = st.integers(1, 18)


def tensors(rng: np.random.Generator, workers: int, size: int) -> F32:
    """Return float32[W, n]: mixed magnitudes, zeros, subnormals, workers with zeros only."""
    x = rng.standard_normal((workers, size)) * 10.0 ** rng.integers(-44, 38, (1, size))
    x *= rng.random((workers, size)) < 0.8
    x[rng.random(workers) < 0.2] = 0
    return np.clip(x, -3.4e38, 3.4e38).astype(np.float32)


def slices(uniform: NDArray[np.float64]) -> Callable[[int, int], NDArray[np.float64]]:
    return lambda first, count: uniform[first : first + count]


def units_of(x: F32, route: Route) -> F32:
    """Return the units of the buckets on which workers with gradients x [W, n] agree."""
    return codec.units(np.max([codec.maxima(own) for own in x], axis=0), route)


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS, size=SIZES, workers=WORKERS, route=st.sampled_from(list(MODES)))
@pytest.mark.parametrize("stochastic", [False, True])
def test_packing_counts_zeros_and_scales_by_one(
    stochastic: bool, seed: int, size: int, workers: int, route: Route
) -> None:
    """Check that packing a tensor equals packing its buckets one by one; scale 1, zeros counted."""
    rng = np.random.default_rng(seed)
    x = tensors(rng, workers, size)
    u, draws = units_of(x, route), rng.random(size) if stochastic else np.full(size, 0.5)
    packed = codec.pack_codes(x[0], route, u, slices(draws) if stochastic else None)
    own = [slice(at, at + codec.BUCKET) for at in range(0, size, codec.BUCKET)]
    parts = [
        codec.pack_codes(x[0, at], route, u[n : n + 1], slices(draws[at])).lines
        for n, at in enumerate(own)
    ]
    assert np.array_equal(packed.lines, np.concatenate(parts))
    assert (float(packed.scale), packed.zeros) == (1, int((x[0] == 0).sum()))
    assert (packed.finite, packed.open_gates) == (True, size)


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, size=SIZES, workers=WORKERS, route=st.sampled_from(list(MODES)))
def test_sums_are_exact_in_any_order(seed: int, size: int, workers: int, route: Route) -> None:
    """Check that sums equal the model's, in any order of workers; absent ones are ignored."""
    rng, mode = np.random.default_rng(seed), MODES[route]
    lines = rng.integers(0, 256, (workers, codec.lines_of(size, route), 64), np.uint8)
    here = rng.random(lines.shape[:2]) < 0.8
    views = codec.add_codes(lines, route, here)
    want = reduce_int(lines, mode, here)
    narrow = route == Route.G_INT4 and workers <= 16
    assert np.array_equal(views, want.sum8 if narrow else want.sum16)
    order = rng.permutation(workers)
    assert np.array_equal(codec.add_codes(lines[order], route, here[order]), views)


@pytest.mark.parametrize("route", list(MODES))
@pytest.mark.parametrize("byte", [0x80, 0x88, 0x77, 0x7F])
@pytest.mark.parametrize("workers", [16, 17, 64, 255])
def test_sums_have_room(route: Route, byte: int, workers: int) -> None:
    """Check the sums of the largest codes of both signs for various numbers of workers to 255."""
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
    """Check that a value beyond its unit, here another value's, is refused (negative twin)."""
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

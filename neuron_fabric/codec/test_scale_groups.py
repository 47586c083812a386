# SPDX-License-Identifier: Apache-2.0
"""Tests of scales of rows and columns, against loops over single elements."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuron_fabric.codec import Route, pack, unpack
from neuron_fabric.codec.scale_groups import Granularity, groups_of, pack_groups

VOTES = (Route.G_BINARY, Route.G_TERNARY)


@settings(max_examples=60, deadline=None)
@given(
    shape=st.lists(st.integers(1, 9), min_size=2, max_size=4),
    order=st.randoms(use_true_random=False),
    route=st.sampled_from(VOTES),
    granularity=st.sampled_from(["row", "column"]),
    block=st.integers(1, 5),
    seed=st.integers(0, 99),
)
def test_each_element_has_the_scale_of_its_group(
    shape: list[int], order: object, route: Route, granularity: Granularity, block: int, seed: int
) -> None:
    """Check scales, gates and decoded values for any order of the dimensions in memory."""
    dims = list(range(len(shape)))
    order.shuffle(dims)  # type: ignore[attr-defined]
    rng = np.random.default_rng(seed)
    memory = rng.standard_normal([shape[dim] for dim in dims]) * (rng.random() < 0.9)
    flat = memory.astype(np.float32).reshape(-1)
    shaped = flat.reshape(memory.shape).transpose(np.argsort(dims))
    strides = [one // 4 for one in shaped.strides]
    groups = groups_of(shape, strides, route, granularity, block)
    axis = ["row", "column"].index(granularity)
    if block >= shape[axis]:
        assert groups is None
        return
    assert groups is not None
    packed, scales = pack_groups(flat, route, groups)
    got = unpack(packed.lines, route, flat.size)
    groups.multiply(got, scales)
    found = got.reshape(memory.shape).transpose(np.argsort(dims))
    assert packed.zeros == np.count_nonzero(flat == 0)
    for number in range(groups.count):
        inside = [slice(None)] * len(shape)
        inside[axis] = slice(number * block, (number + 1) * block)
        x = shaped[tuple(inside)].astype(np.float64)
        gate = np.ones(x.shape, bool)
        if route == Route.G_TERNARY:
            gate = np.abs(x) > np.float32(0.7) * np.float32(np.abs(x).mean())
        scale = np.float32(np.abs(x[gate]).mean()) if gate.any() else np.float32(0)
        assert np.isclose(scales[number], scale, rtol=1e-6)
        wanted = np.where(x < 0, -1, 1) * gate * scales[number]
        assert np.array_equal(found[tuple(inside)], wanted.astype(np.float32))


def test_the_votes_are_those_of_one_scale() -> None:
    x = np.random.default_rng(1).standard_normal(64 * 192).astype(np.float32)
    groups = groups_of((64, 192), (192, 1), Route.G_BINARY, "column")
    assert groups is not None
    packed, scales = pack_groups(x, Route.G_BINARY, groups)
    assert np.array_equal(packed.lines, pack(x, Route.G_BINARY).lines)
    x[7] = np.nan
    packed, scales = pack_groups(x, Route.G_TERNARY, groups)
    assert not packed.finite
    assert np.isnan(scales).all()


@pytest.mark.parametrize("route", VOTES)
def test_scales_add_five_percent_at_most(route: Route) -> None:
    """Check the number of groups: as many as 5 % of the lines have room for.

    It is a multiple of 6 if that of rows or columns is, so no group crosses a half or a third.
    """
    for rows, columns in itertools.product((1, 30, 64, 97, 768), (16, 192, 2304)):
        for granularity, size in (("row", rows), ("column", columns)):
            groups = groups_of((rows, columns), (columns, 1), route, granularity)  # type: ignore[arg-type]
            lines = -(-rows * columns * route.bits // 512)
            room = lines // 20 * 16
            sixths = size % 6 == 0
            fits = [n for n in range(2, room + 1) if size % n == 0 and not (sixths and n % 6)]
            assert (groups.count if groups else 0) == max(fits, default=0), (rows, columns)


def test_one_scale_where_there_are_no_groups() -> None:
    for shape, route, granularity in (
        ((4096,), Route.G_BINARY, "row"),
        ((64, 192), Route.G_INT8, "row"),
        ((64, 192), Route.FP32, "column"),
        ((64, 192), Route.G_BINARY, "tensor"),
    ):
        strides = [192, 1][: len(shape)]
        assert groups_of(shape, strides, route, granularity) is None  # type: ignore[arg-type]

# SPDX-License-Identifier: Apache-2.0
"""Tests of sums of integer codes: exact in any order and subset, in every view."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.int_sums import (
    IntResult,
    reduce_int,
    sum8_lines,
    sum16_lines,
    sums_of_planes,
)
from models.line_packing import U8, code_range
from models.modes import Mode, elements_per_line
from models.votes import reduce_binary

INTS = st.sampled_from([Mode.G_INT4, Mode.G_INT8])
SHAPES = ("random", "smallest", "largest", "alternating", "one hot")


def drawn(seed: int, workers: int, n: int, mode: Mode, signed: bool, shape: str) -> Any:
    """Return random codes int64[W, n, elements] of a mode; ``shape`` gives extreme ones."""
    rng, (low, high) = np.random.default_rng(seed), code_range(mode, signed)
    codes = rng.integers(low, high + 1, (workers, n, elements_per_line(mode)))
    if shape in ("smallest", "largest"):
        codes[:] = low if shape == "smallest" else high
    if shape == "alternating":
        codes[:, :, 0::2], codes[:, :, 1::2] = low, high
    if shape == "one hot":
        keep = rng.integers(0, codes.shape[2])
        codes[:, :, np.arange(codes.shape[2]) != keep] = 0
    return codes


def as_lines(codes: Any, mode: Mode) -> U8:
    """Pack codes to lines with Python integers, without the packer: element e at bit e * k."""
    k = mode.bits
    out = np.zeros((*codes.shape[:2], 64), np.uint8)
    for w, i in np.ndindex(*codes.shape[:2]):
        word = sum((int(c) & ((1 << k) - 1)) << (e * k) for e, c in enumerate(codes[w, i]))
        out[w, i] = np.frombuffer(word.to_bytes(64, "little"), np.uint8)
    return out


def values_of(views: U8, kind: str) -> Any:
    """Return the values [n, elements] in sum lines uint8[views, n, 64] of numpy type ``kind``."""
    return np.concatenate([np.ascontiguousarray(one).view(kind) for one in views], axis=1)


def check(result: IntResult, want: Any, workers: int, signed: bool) -> None:
    """Check that planes, SUM16 and SUM8 lines contain the sums ``want``, int64[n, elements]."""
    assert (result.sums == want).all()
    assert (sums_of_planes(result.planes, result.mode, signed) == want).all()
    assert len(result.sum16) == sum16_lines(result.mode)
    assert (values_of(result.sum16, "<i2" if signed else "<u2") == want).all()
    if sum8_lines(result.mode, workers):
        assert len(result.sum8) == sum8_lines(result.mode, workers)
        assert (values_of(result.sum8, "<i1" if signed else "<u1") == want).all()


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(1, 64),
    INTS,
    st.booleans(),
    st.sampled_from(SHAPES),
    st.booleans(),
)
def test_exact_in_any_order_and_subset(
    seed: int, workers: int, mode: Mode, signed: bool, shape: str, whole: bool
) -> None:
    rng = np.random.default_rng(seed)
    codes = drawn(seed, workers, 2, mode, signed, shape)
    present = np.ones((workers, 2), np.bool_) if whole else rng.random((workers, 2)) < 0.6
    want = (codes * present[:, :, None]).sum(axis=0)
    lines, order = as_lines(codes, mode), rng.permutation(workers)
    for who in (np.arange(workers), order):
        result = reduce_int(lines[who], mode, present[who], signed)
        check(result, want, workers, signed)
        assert (result.contributions == present.sum(axis=0)).all()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 64), INTS, st.booleans())
def test_a_binary_region_holds_the_same_sums(
    seed: int, workers: int, mode: Mode, signed: bool
) -> None:
    """Check that sums of codes follow from the count planes of a G_BINARY region.

    These count the zeros of each bit.
    """
    codes = drawn(seed, workers, 2, mode, signed, "random")
    lines = as_lines(codes, mode)
    planes = reduce_binary(lines).planes[: workers.bit_length()]
    assert (sums_of_planes(planes, mode, signed, zeros_of=workers) == codes.sum(axis=0)).all()


def test_sum8_fits_sixteen_workers_alone() -> None:
    assert [sum8_lines(Mode.G_INT4, w) for w in (1, 15, 16, 17, 64)] == [2, 2, 2, 0, 0]
    assert sum8_lines(Mode.G_INT8, 1) == 0
    lines = as_lines(drawn(1, 16, 1, Mode.G_INT4, True, "smallest"), Mode.G_INT4)
    assert (values_of(reduce_int(lines, Mode.G_INT4).sum8, "<i1") == -128).all()


def test_misuse_is_refused() -> None:
    lines = np.zeros((2, 1, 64), np.uint8)
    with pytest.raises(ValueError, match="no integer codes"):
        reduce_int(lines, Mode.G_BINARY)
    with pytest.raises(ValueError, match="lines must be"):
        reduce_int(lines[0], Mode.G_INT4)
    with pytest.raises(ValueError, match="present"):
        reduce_int(lines, Mode.G_INT8, np.ones((1, 2), np.bool_))

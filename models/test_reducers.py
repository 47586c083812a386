# SPDX-License-Identifier: Apache-2.0
"""Votes and counts against a per-element oracle in plain Python integers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.line_packing import U8, Mode, Tie
from models.reducers import (
    LowBitResult,
    count_planes,
    planes_to_counts,
    reduce_binary,
    reduce_ternary,
)

CNT_MAX = st.sampled_from([1, 3, 7, 15, 255])


def field(line: U8, low: int, width: int) -> int:
    """Return bits [low + width - 1 : low] of a line, without numpy's bit functions."""
    return int(line[low // 8]) >> low % 8 & ((1 << width) - 1)


def random_lines(seed: int, workers: int, n: int) -> tuple[U8, np.ndarray]:
    rng = np.random.default_rng(seed)
    lines = rng.integers(0, 256, (workers, n, 64), dtype=np.uint8)
    return lines, rng.random((workers, n)) < rng.random()


def check_planes(result: LowBitResult, planes: U8, line: int, bit: int, want: int) -> None:
    assert result.counts[line, bit] == want
    got = sum(field(planes[p, line], bit, 1) << p for p in range(8))
    assert got == want


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 9), st.sampled_from(Tie), CNT_MAX)
def test_binary_against_elements(seed: int, workers: int, tie: Tie, cnt_max: int) -> None:
    lines, present = random_lines(seed, workers, 2)
    result = reduce_binary(lines, present, tie, cnt_max)
    planes = result.planes
    for i in range(2):
        here = [w for w in range(workers) if present[w, i]]
        lost = False
        for e in range(512):
            exact = sum(1 - field(lines[w, i], e, 1) for w in here)
            c, m = min(exact, cnt_max), len(here)
            lost |= exact > cnt_max
            if m == 0:
                want = 0
            elif 2 * c == m:
                want = int(tie)
            else:
                want = int(2 * c < m)
            assert field(result.vote[i], e, 1) == want
            check_planes(result, planes, i, e, c)
        assert result.saturated[i] == lost
        assert result.contributions[i] == len(here)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 9), st.integers(1, 4), CNT_MAX)
def test_ternary_against_elements(seed: int, workers: int, threshold: int, cnt_max: int) -> None:
    lines, present = random_lines(seed, workers, 2)
    result = reduce_ternary(lines, present, threshold, cnt_max)
    planes = result.planes
    for i in range(2):
        here = [w for w in range(workers) if present[w, i]]
        lost, illegal = False, 0
        for e in range(256):
            codes = [field(lines[w, i], 2 * e, 2) for w in here]
            plus, minus = codes.count(2), codes.count(3)
            illegal += codes.count(1)
            lost |= max(plus, minus) > cnt_max
            plus, minus = min(plus, cnt_max), min(minus, cnt_max)
            net = plus - minus
            want = 2 if net >= threshold else 3 if net <= -threshold else 0
            assert field(result.vote[i], 2 * e, 2) == want
            check_planes(result, planes, i, 2 * e, plus)
            check_planes(result, planes, i, 2 * e + 1, minus)
        assert result.saturated[i] == lost
        assert result.illegal[i] == illegal


@given(st.integers(0, 2**32), st.integers(1, 8))
def test_planes_are_the_inverse_of_counts(seed: int, kept: int) -> None:
    counts = np.random.default_rng(seed).integers(0, 1 << kept, (2, 512)).astype(np.uint16)
    planes = count_planes(counts)
    assert not planes[kept:].any()
    assert (planes_to_counts(planes[:kept]) == counts).all()


def test_misuse_is_refused() -> None:
    lines = np.zeros((2, 1, 64), dtype=np.uint8)
    with pytest.raises(ValueError, match="threshold"):
        reduce_ternary(lines, threshold=0)
    with pytest.raises(ValueError, match="cnt_max"):
        reduce_binary(lines, cnt_max=256)
    with pytest.raises(ValueError, match="present"):
        reduce_binary(lines, np.ones((1, 2), dtype=np.bool_))
    with pytest.raises(ValueError, match="lines must be"):
        reduce_binary(lines[0])
    with pytest.raises(ValueError, match="planes must be"):
        planes_to_counts(np.zeros((9, 1, 64), dtype=np.uint8))
    assert reduce_binary(lines).mode == Mode.G_BINARY

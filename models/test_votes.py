# SPDX-License-Identifier: Apache-2.0
"""Tests of the vote reducers against a per-element oracle in plain Python integers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.line_packing import U8
from models.modes import Mode, Tie, elements_per_line
from models.votes import (
    LowBitResult,
    count_planes,
    planes_to_counts,
    reduce_binary,
    reduce_tern5,
    reduce_ternary,
)

CNT_MAX = st.sampled_from([1, 3, 7, 15, 255])


def field(line: U8, low: int, width: int) -> int:
    """Return bits [low + width - 1 : low] of a line, without numpy's bit functions."""
    return int(line[low // 8]) >> low % 8 & ((1 << width) - 1)


def element(line: U8, mode: Mode, e: int) -> int | None:
    """Return the vote of element e of a line: -1, 0 or +1; None if it is illegal."""
    if mode == Mode.G_BINARY:
        return 1 - 2 * field(line, e, 1)
    if mode == Mode.G_TERNARY:
        return (0, None, 1, -1)[field(line, 2 * e, 2)]
    byte = int(line[e // 5])
    return (0, 1, -1)[byte // 3 ** (e % 5) % 3] if byte < 243 else None


def reduced(mode: Mode, lines: U8, present: np.ndarray, option: int, cnt_max: int) -> LowBitResult:
    if mode == Mode.G_BINARY:
        return reduce_binary(lines, present, Tie(option % 2), cnt_max)
    if mode == Mode.G_TERNARY:
        return reduce_ternary(lines, present, option, cnt_max)
    return reduce_tern5(lines, present, option)


def decided(mode: Mode, counts: list[int], m: int, option: int) -> int:
    """Return the vote, -1, 0 or +1, of an element with these counters and ``m`` contributions.

    ``option`` is the tie rule of G_BINARY (odd: minus) or the threshold of the other modes.
    """
    if mode == Mode.G_BINARY:
        net = 2 * counts[0] - m or (-1 if option % 2 and m else 1)
        return 1 if net > 0 else -1
    net = counts[0] - (counts[1] if mode == Mode.G_TERNARY else m)
    return (net >= option) - (net <= -option)


@settings(max_examples=50, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(1, 9),
    st.sampled_from([Mode.G_BINARY, Mode.G_TERNARY, Mode.G_TERN5]),
    st.integers(1, 4),
    CNT_MAX,
)
def test_votes_against_elements(
    seed: int, workers: int, mode: Mode, option: int, cnt_max: int
) -> None:
    rng = np.random.default_rng(seed)
    lines = rng.integers(0, 256, (workers, 2, 64), dtype=np.uint8)
    present = rng.random((workers, 2)) < rng.random()
    cnt_max = 255 if mode == Mode.G_TERN5 else cnt_max
    result = reduced(mode, lines, present, option, cnt_max)
    for i, planes in enumerate(result.planes.transpose(1, 0, 2)):
        here = lines[present[:, i], i]
        wanted: list[int] = []  # counters by column
        illegal = 0
        for e in range(elements_per_line(mode)):
            votes = [element(line, mode, e) for line in here]
            illegal += votes.count(None)
            plus, minus = votes.count(1), votes.count(-1)
            both = [plus, minus] if mode == Mode.G_TERNARY else [plus]
            exact = [len(here) + plus - minus] if mode == Mode.G_TERN5 else both
            wanted += exact
            shown = [min(count, cnt_max) for count in exact]
            assert element(result.vote[i], mode, e) == decided(mode, shown, len(here), option)
        assert result.saturated[i] == (max(wanted) > cnt_max)
        assert result.illegal[i] == illegal
        assert result.contributions[i] == len(here)
        columns = [min(count, cnt_max) for count in wanted] + [0] * (512 - len(wanted))
        assert result.counts[i].tolist() == columns
        for column, count in enumerate(columns):
            assert sum(field(planes[p], column, 1) << p for p in range(8)) == count


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

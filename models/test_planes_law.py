# SPDX-License-Identifier: Apache-2.0
"""Tests that added count planes of groups of 64 workers equal one count of all workers.

A vote on the votes of the groups does not. Spec: runtime L14.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from models.line_packing import U8
from neuron_fabric.capacity.cost_model import MOST_WORKERS
from neuron_fabric.codec import Route, add_planes, count, vote_of

ROUTES = (Route.G_BINARY, Route.G_TERNARY)


def drawn(seed: int, workers: int, lines: int) -> tuple[U8, NDArray[np.bool_]]:
    """Return random votes uint8[W, lines, 64] and contributors bool[W, lines]."""
    rng = np.random.default_rng(seed)
    bits = rng.random((workers, lines, 512)) < rng.choice([0.1, 0.5, 0.9])
    here = rng.random((workers, lines)) < rng.choice([0.3, 1.0])
    return np.packbits(bits, axis=2, bitorder="little"), here


def in_groups(lines: U8, here: NDArray[np.bool_], route: Route, size: int) -> list[U8]:
    """Return the count planes of each group of ``size`` workers, as a region would count them."""
    return [
        count(lines[at : at + size], route, present=here[at : at + size])[1]
        for at in range(0, len(lines), size)
    ]


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    workers=st.integers(1, 255),
    size=st.sampled_from([MOST_WORKERS, 8, 63]),
)
def test_planes_of_groups_are_the_flat_count(seed: int, workers: int, size: int) -> None:
    lines, here = drawn(seed, workers, 3)
    for route in ROUTES:
        added = add_planes(in_groups(lines, here, route, size), workers)
        vote, planes = count(lines, route, present=here)
        assert np.array_equal(added, planes)
        assert np.array_equal(vote_of(added, route, here.sum(axis=0)), vote)


def test_a_vote_of_votes_is_another() -> None:
    """Check that a vote on the votes of groups differs from a vote of all workers (negative twin).

    Of 100 workers in two groups, 48 vote +, all in one group. The vote of all is -, that of the two
    groups is a tie and so +.
    """
    plus = np.zeros((64, 1, 64), np.uint8)
    minus = np.full((36, 1, 64), 0xFF, np.uint8)
    plus[48:] = 0xFF
    both = np.concatenate([plus, minus])
    flat, _ = count(both, Route.G_BINARY)
    groups = [count(one, Route.G_BINARY)[0] for one in (plus, minus)]
    again, _ = count(np.stack(groups), Route.G_BINARY)
    assert flat.all()  # minus
    assert not again.any()  # plus


def test_planes_that_cannot_be_added() -> None:
    lines, here = drawn(1, 64, 2)
    [planes] = in_groups(lines, here, Route.G_BINARY, 64)
    full = np.full((6, 2, 64), 0xFF, np.uint8)  # 63 of each
    with pytest.raises(ValueError, match="workers must be 1 to 255, not 256"):
        add_planes([planes] * 4, 256)
    with pytest.raises(ValueError, match="100 workers, and more than 127 votes"):
        add_planes([full, full, full], 100)
    with pytest.raises(ValueError, match="7 workers, and more than 7 votes"):
        add_planes([full], 7)
    with pytest.raises(ValueError, match="of the same lines, not uint8"):
        add_planes([planes, planes[:, :1]], 128)
    with pytest.raises(ValueError, match="of the same lines, not none"):
        add_planes([], 1)
    with pytest.raises(ValueError, match=r"uint8\[P, n, 64\], not uint8\[7, 2, 32\]"):
        add_planes([planes[:, :, :32]], 64)
    with pytest.raises(ValueError, match="FP32 has no votes"):
        vote_of(planes, Route.FP32, 64)

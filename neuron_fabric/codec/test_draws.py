# SPDX-License-Identifier: Apache-2.0
"""Tests of the counter-based draws."""

from __future__ import annotations

import dataclasses

import numpy as np

from neuron_fabric.codec.draws import Key, draws

KEY = Key(1, 2, 3, "w")


def test_a_key_of_numpy_is_the_same() -> None:
    """Check that numpy integers in a key give the same draws as Python's.

    They print as np.int64(2), which would give another digest.
    """
    assert Key(np.int64(1), np.int64(2), np.int32(3), "w").words() == KEY.words()  # type: ignore[arg-type]


def test_draws_are_uniform_and_of_their_key_alone() -> None:
    found = draws(KEY, 40_000)
    assert 0 <= found.min() < 1e-3
    assert 1 - 1e-3 < found.max() < 1
    assert abs(found.mean() - 0.5) < 5 * np.sqrt(1 / 12 / found.size)
    changes = ({"seed": 9}, {"step": 9}, {"rank": 9}, {"parameter": "v"}, {"stage": "reduced"})
    for change in changes:
        other = draws(dataclasses.replace(KEY, **change), found.size)  # type: ignore[arg-type]
        assert abs(np.corrcoef(found, other)[0, 1]) < 5 / np.sqrt(found.size)
    for first, count in ((0, 1), (5, 20), (8, 8), (8191, 3)):
        assert np.array_equal(draws(KEY, count, first), found[first : first + count])

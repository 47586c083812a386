# SPDX-License-Identifier: Apache-2.0
"""Bit-sliced votes equal those of the reducers, which count integers."""

from __future__ import annotations

import numpy as np
import pytest

from models.bitsliced import vote_binary, vote_ternary
from models.line_packing import Tie
from models.reducers import reduce_binary, reduce_ternary


@pytest.mark.parametrize("workers", [1, 2, 3, 7, 8, 15, 16, 33, 64])
def test_both_reducers_agree(workers: int) -> None:
    rng = np.random.default_rng(workers)
    planes = workers.bit_length()
    for ones in (0.5, 0.1, 0.9):
        bits = (rng.random((workers, 5, 512)) < ones).astype(np.uint8)
        sent = np.packbits(bits, axis=2, bitorder="little")
        for tie in Tie:
            want = reduce_binary(sent, None, tie)
            vote, counts = vote_binary(sent, tie, planes)
            assert np.array_equal(vote, want.vote)
            assert np.array_equal(counts, want.planes[:planes])
        for threshold in (1, 2, workers, workers + 1, 200, 255):
            want = reduce_ternary(sent, None, threshold)
            vote, counts = vote_ternary(sent, threshold, planes)
            assert np.array_equal(vote, want.vote)
            assert np.array_equal(counts, want.planes[:planes])


def test_a_count_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="3 planes do not hold a count of 8"):
        vote_binary(np.zeros((8, 1, 64), np.uint8), Tie.PLUS, 3)

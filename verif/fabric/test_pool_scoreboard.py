# SPDX-License-Identifier: Apache-2.0
"""Each rule of the pool scoreboard, with outputs that break it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from models.line_packing import U8
from models.pool_oracle import digest, drawn_inputs, expected
from neuron_fabric.collectives.schedule import Collective
from neuron_fabric.collectives.shipped import shipped
from verif.fabric.pool_scoreboard import PoolScoreboard

PLAN = shipped(Collective.ALL_GATHER, 3, 2, 4)
INPUTS = drawn_inputs(PLAN, 1)
OUTPUTS = expected(PLAN, INPUTS)


def flipped(output: U8) -> U8:
    """Return a copy with one bit of the last line flipped."""
    other = output.copy()
    other[-1, 63] ^= 0x80
    return other


def judged(*reports: tuple[int, U8]) -> list[str]:
    """Return the findings after reports of (rank, output)."""
    board = PoolScoreboard([PLAN], [INPUTS])
    for rank, output in reports:
        board.ended(rank, 0, output)
    return board.finish()


def test_right_outputs_and_their_digest() -> None:
    board = PoolScoreboard([PLAN], [INPUTS])
    for rank, output in enumerate(OUTPUTS):
        board.ended(rank, 0, output)
    assert board.finish() == []
    assert board.digests() == [digest(OUTPUTS)]


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (flipped, "all_gather 0, rank 2: 1 of 12 lines differ; line 11 is"),
        (lambda output: output[:-1], "all_gather 0, rank 2 has 11 lines, not 12"),
    ],
    ids=["a bit", "a line less"],
)
def test_wrong_output(change: Callable[[U8], U8], finding: str) -> None:
    [found] = judged((0, OUTPUTS[0]), (1, OUTPUTS[1]), (2, change(OUTPUTS[2])))
    assert finding in found


def test_missing_and_repeated_outputs() -> None:
    assert judged((0, OUTPUTS[0]), (2, OUTPUTS[2])) == [
        "pool: all_gather 0 has not ended on rank 1"
    ]
    assert judged(*enumerate(OUTPUTS), (1, OUTPUTS[1])) == [
        "pool: all_gather 0, rank 1 has ended twice"
    ]


def test_nothing_seen() -> None:
    assert PoolScoreboard([], []).finish() == ["pool: there was no collective"]

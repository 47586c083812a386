# SPDX-License-Identifier: Apache-2.0
"""Tests of the state area that a region leaves: content that is certain is compared, older is
refused.
"""

from __future__ import annotations

import dataclasses

import pytest

from models.regions import RegionConfig
from verif.scoreboard.test_scoreboard import BINARY, FP32, ONE, TWO, Bench, read, write

AWAY = dataclasses.replace(FP32, state_base=0x80000)
HERE = FP32.state_base


def moved(bench: Bench, config: RegionConfig) -> None:
    bench.commit(0, config, 2)


@pytest.mark.parametrize("late", [False, True])
def test_a_store_that_races_with_the_commit(late: bool) -> None:
    """Check that a store before the commit is in the memory that the region leaves, and a later one
    not.
    """
    bench = Bench(FP32)
    msg = bench.begin(write(FP32.address(0, 0), ONE))
    bench.commit_during(msg, 0, AWAY, before=not late)
    bench.do(read(HERE))
    assert bench.errors == []


def test_racing_stores_of_one_worker() -> None:
    bench = Bench(FP32)
    both = [bench.begin(write(FP32.address(0, 0), data)) for data in (ONE, TWO)]
    for msg in reversed(both):
        bench.answer(msg)
    moved(bench, AWAY)
    bench.do(read(HERE))
    assert bench.errors == []


def test_what_is_certain_is_compared() -> None:
    for wrong in (False, True):
        bench = Bench(FP32)
        both = [bench.begin(write(FP32.address(worker, 0), ONE)) for worker in (0, 1)]
        for msg in reversed(both):
            bench.answer(msg)
        moved(bench, AWAY)
        if wrong:
            bench.device.memory.write(HERE >> 6, TWO, None, False)
        bench.do(read(HERE))
        assert bool(bench.errors) == wrong


def test_ambiguous_plain_lines_in_a_claimed_area() -> None:
    bench = Bench(FP32)
    line = BINARY.state_base
    both = [bench.begin(write(line, data)) for data in (ONE, TWO)]
    for msg in reversed(both):
        bench.answer(msg)
    bench.commit(1, BINARY, 1)
    bench.commit(1, dataclasses.replace(BINARY, state_base=0xC0000), 2)
    bench.device.memory.write(line >> 6, bytes(range(64)), None, False)  # what a record was there
    bench.do(read(line))
    assert bench.errors == []

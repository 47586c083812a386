# SPDX-License-Identifier: Apache-2.0
"""Tests of the status ranges of a region: one value at rest, a range in a race, and no wider than
it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from cocotbext.cxl.wire.messages import M2SMessage
from models.modes import Mode
from verif.scoreboard.ranges import Span
from verif.scoreboard.test_scoreboard import BINARY, FP32, Bench, read, write

ONE_LINE = dataclasses.replace(BINARY, lines_log2=0, workers=2)
TERNARY = dataclasses.replace(BINARY, base=1 << 42, state_base=0x90000, mode=Mode.G_TERNARY)
ILLEGAL = b"\x55" * 64


def now(bench: Bench, region: int = 0) -> dict[str, Span]:
    status = bench.scoreboard.status
    return status.end(region, status.begin(region))


def test_exact_at_rest() -> None:
    bench = Bench(ONE_LINE)
    assert all(span.low == span.high for span in now(bench).values())
    for worker in range(2):
        assert now(bench)["done"] == Span(0, 0)
        bench.do(write(ONE_LINE.address(worker, 0)))
    assert now(bench)["done"] == Span(1, 1)
    assert now(bench)["complete_lines"] == Span(1, 1)
    assert bench.scoreboard.status.times_done() == Span(1, 1)


def test_a_contribution_in_flight_may_count() -> None:
    bench = Bench(ONE_LINE)
    bench.do(write(ONE_LINE.address(0, 0)))
    before = bench.scoreboard.status.begin(0)
    msg = bench.begin(write(ONE_LINE.address(1, 0)))
    assert now(bench)["done"] == Span(0, 1)
    assert bench.scoreboard.status.times_done() == Span(0, 1)
    bench.answer(msg)
    assert now(bench)["done"] == Span(1, 1)
    assert bench.scoreboard.status.end(0, before)["done"] == Span(0, 1), "a read around it"


def test_illegal_codes_belong_to_their_region() -> None:
    bench = Bench(BINARY, TERNARY)
    msg = bench.begin(write(TERNARY.address(0, 0), ILLEGAL))
    assert now(bench, 1)["illegal_seen"] == Span(0, 1)
    assert now(bench, 0)["illegal_seen"] == Span(0, 0)
    bench.answer(msg)
    assert now(bench, 1)["illegal_seen"] == Span(1, 1)
    for region in (0, 1):
        bench.scoreboard.compare_region(region, {"illegal_seen": 1})
        assert bool(bench.errors) == (region == 0)
        bench.errors.clear()


def test_a_commit_leaves_old_and_new() -> None:
    bench = Bench(BINARY)
    before = bench.scoreboard.status.begin(0)
    bench.scoreboard.commit_begin(0, BINARY, 9)
    values = now(bench)
    assert 1 in values["epoch"]
    assert 9 in values["epoch"]
    assert 5 not in values["epoch"]
    assert bench.scoreboard.status.times_done() == Span(0, 1), "a close would complete the round"
    bench.scoreboard.commit_end(0)
    assert 1 in bench.scoreboard.status.end(0, before)["epoch"]
    assert now(bench)["epoch"] == Span(9, 9)


def test_what_nobody_judged_widens_its_region_alone() -> None:
    other = dataclasses.replace(FP32, base=1 << 42, state_base=0x90000)
    bench = Bench(FP32, other, budget=50)
    writes = [bench.begin(write(FP32.address(k % 3, 0), bytes([k] * 64))) for k in range(8)]
    reads = [bench.begin(read(FP32.address(0, 0))) for _ in range(2)]
    for msg in [*writes, *reads]:
        bench.answer(msg)
    scoreboard = bench.scoreboard
    assert scoreboard.judge.unjudged == 10
    assert now(bench, 0)["complete_lines"] == Span(0, 1)
    assert scoreboard.counter_range("CONTRIBUTION") == (0, 8)
    assert scoreboard.counter_range("EARLY_READ") == (0, 2)
    assert scoreboard.counter_range("REFUSED") == (0, 0)
    bench.do(write(other.address(0, 0)))
    assert now(bench, 1)["complete_lines"] == Span(0, 0)
    scoreboard.compare_region(1, {"complete_lines": 1})
    assert "REGION 1 complete_lines is 1, expected 0" in scoreboard.errors[0]
    bench.commit(0, FP32, 2)
    assert now(bench, 0)["complete_lines"] == Span(0, 0), "the doubt ends with the round"


@pytest.mark.parametrize("times", [1, 2, 3])
def test_done_counts_once_a_round(times: int) -> None:
    bench = Bench(ONE_LINE)
    for number in range(times):
        for worker in (0, 1, 1):
            bench.do(write(ONE_LINE.address(worker, 0)))
        assert bench.scoreboard.status.times_done() == Span(number + 1, number + 1)
        bench.commit(0, ONE_LINE, number + 2)


@pytest.mark.parametrize("request_of", [read, write])
@pytest.mark.parametrize("mask", [0xFFFE, 0xFFFF])
def test_a_refusal_that_races_with_a_commit(
    mask: int, request_of: Callable[[int], M2SMessage]
) -> None:
    """Check a refused request that races with a commit.

    It is judged if the new descriptor refuses it as well, else the count of REFUSED stays open, and
    the state of the line that a write may have reached is unknown.
    """
    closed = dataclasses.replace(BINARY, ld_mask=0xFFFE)
    bench = Bench(closed)
    msg = bench.begin(request_of(closed.address(0, 0)))
    bench.commit_during(msg, 0, dataclasses.replace(closed, ld_mask=mask))
    same = mask == closed.ld_mask
    judge = bench.scoreboard.judge
    assert judge.unjudged == (not same)
    lost = request_of is write and not same
    assert judge.unknown == ({(0, 0)} if lost else set())
    assert bench.scoreboard.counter_range("REFUSED") == ((1, 1) if same else (0, 1))
    bench.do(read(closed.address(0, 0)))
    assert judge.unjudged == (not same) + lost, "of the lost line no read is judged"
    assert bench.errors == []


def test_a_read_around_two_commits() -> None:
    """Check that a read of EPOCH around two commits may return the epoch before, between or after
    them.

    Older epochs are excluded; after the read only the last one is possible.
    """
    bench = Bench(ONE_LINE)
    status, scoreboard = bench.scoreboard.status, bench.scoreboard
    old = scoreboard.epochs[0]

    def commit(epoch: int) -> None:
        scoreboard.commit_begin(0, ONE_LINE, epoch)
        scoreboard.commit_end(0)

    commit(old + 1)
    before = status.begin(0)
    commit(old + 2)
    commit(old + 3)
    span = status.end(0, before)["epoch"]
    assert [epoch for epoch in range(old, old + 5) if epoch in span] == [old + 1, old + 2, old + 3]
    assert now(bench)["epoch"] == Span(old + 3, old + 3)

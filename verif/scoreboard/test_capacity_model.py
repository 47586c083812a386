# SPDX-License-Identifier: Apache-2.0
"""Tests of `CapacityCheck` against a count by hand, for drawn windows, thresholds and outcomes."""

import random

import pytest

from verif.scoreboard.devload import CapacityCheck
from verif.scoreboard.ranges import Span


def contribute(check: CapacityCheck) -> None:
    """Record a contribution to region 0, without a read of SLOT_MISS."""
    check.operation()
    check.contribution(0)


def one(check: CapacityCheck, misses: int) -> None:
    """Record a contribution to region 0, and then a read of SLOT_MISS that returned `misses`."""
    contribute(check)
    check.saw_misses(misses)


@pytest.mark.parametrize("seed", range(20))
def test_one_stream_is_exact(seed: int) -> None:
    rng = random.Random(seed)
    window, threshold = rng.randint(1, 12), rng.randint(0, 12)
    check = CapacityCheck(2, window, threshold)
    made: list[bool] = []
    misses = times = 0
    for _ in range(300):
        missed = rng.random() < rng.choice((0.1, 0.5, 0.9))
        contribute(check)
        made.append(missed)
        times += sum(made[-window:]) > threshold
        misses += missed
        check.saw_misses(misses)
        assert check.times(0, ()) == Span(times, times)
        assert check.times(1, ()) == Span(0, 0)


def test_unknown_outcomes_leave_a_range() -> None:
    check = CapacityCheck(1, 4, 1)
    for _ in range(3):
        contribute(check)
    assert check.times(0, ()) == Span(0, 2)
    check.saw_misses(1)  # one of three missed: nobody knows which
    assert check.times(0, ()) == Span(0, 2)
    one(check, 2)
    assert check.times(0, ()).low == 0


@pytest.mark.parametrize("missed", [False, True])
def test_all_or_none_are_known(missed: bool) -> None:
    check = CapacityCheck(1, 4, 1)
    for _ in range(5):
        contribute(check)
    check.saw_misses(5 * missed)
    assert check.times(0, ()) == Span(4 * missed, 4 * missed)


@pytest.mark.parametrize("missed", [False, True])
def test_a_long_stretch_without_reads_is_open(missed: bool) -> None:
    """Check that a read of SLOT_MISS settles what the check still holds, not what it has decided.

    It decides the 1025 contributions since the restart, and keeps 256 of them.
    """
    check = CapacityCheck(1, 4, 1)
    for number in range(1, 1501):
        contribute(check)
        if number == 100:
            check.saw_misses(100 * missed)
    check.saw_misses(1500 * missed)
    first = [missed] * 100 + [None] * 925
    made = [(first, end) for end in range(1, 1026)]
    made += [([missed] * 1500, end) for end in range(1026, 1501)]
    windows = [outcomes[max(0, end - 4) : end] for outcomes, end in made]
    low = sum(one.count(True) > 1 for one in windows)
    high = sum(len(one) - one.count(False) > 1 for one in windows)
    assert check.times(0, ()) == Span(low, high)


def change(check: CapacityCheck, window: int, threshold: int) -> None:
    """Write other limits with nothing in flight."""
    check.change(window, threshold, True)
    check.changed(True)


def test_a_restart_forgets_the_history() -> None:
    check = CapacityCheck(1, 4, 1)
    one(check, 1)
    check.regions[0].restart(True)
    one(check, 2)
    assert check.times(0, ()) == Span(0, 0)
    one(check, 3)
    assert check.times(0, ()) == Span(1, 1)
    change(check, 5, 1)
    one(check, 4)
    assert check.times(0, ()) == Span(1, 1)


def test_a_restart_under_traffic_is_open() -> None:
    check = CapacityCheck(1, 4, 1)
    one(check, 1)
    check.regions[0].restart(False)
    one(check, 2)
    assert check.times(0, ()) == Span(0, 1)


def test_requests_in_flight_may_exceed_the_threshold() -> None:
    check = CapacityCheck(2, 4, 1)
    assert check.times(0, {0}).high > 0
    assert check.times(1, {0}) == Span(0, 0)
    change(check, 4, 4)
    assert check.times(0, {0}) == Span(0, 0), "more than 4 of 4 cannot miss"


@pytest.mark.parametrize("before", [True, False])
def test_limits_that_change_under_a_contribution(before: bool) -> None:
    """Check that a contribution in flight while the threshold changes may meet the old or the new
    one.

    FALLBACK then may be set or not.
    """
    old, new = (0, 255) if before else (255, 0)
    check = CapacityCheck(1, 256, old)
    check.change(256, new, False)
    assert check.times(0, {0}).high > 0, "in flight"
    check.changed(False)
    assert check.times(0, {0}).high > 0, "still in flight"
    contribute(check)
    check.idle()
    assert check.times(0, ()) == Span(0, 1)
    check.saw_misses(1)
    assert check.times(0, ()) == Span(0, 1)


def test_former_limits_end_when_nothing_is_in_flight() -> None:
    check = CapacityCheck(1, 256, 0)
    check.change(256, 256, False)
    check.changed(False)
    assert check.times(0, {0}).high > 0
    check.idle()
    assert check.times(0, {0}) == Span(0, 0)
    one(check, 1)
    assert check.times(0, ()) == Span(0, 0)
    change(check, 256, 1)
    one(check, 2)
    assert check.times(0, ()) == Span(0, 1), "the history was open, so the outcome is"


def test_a_request_within_the_write_of_the_window_is_open() -> None:
    """Check that a missed contribution which begins and ends during the write of CAP_WINDOW stays
    in doubt.

    It may come before or after the restart of the history, so FALLBACK may be set after the next
    miss.
    """
    check = CapacityCheck(1, 4, 1)
    check.change(5, 1, True)
    contribute(check)
    check.idle()
    check.changed(True)
    check.saw_misses(1)
    one(check, 2)
    assert check.times(0, ()) == Span(0, 1)

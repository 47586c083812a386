# SPDX-License-Identifier: Apache-2.0
"""Tests of the status ranges of a region, and negative twins of CLOSE, INFO and STATUS.

A range has one value at rest, and is no wider than a race. Legal responses pass, all others are
reported.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import astuple, replace
from typing import Any

import pytest

from cocotbext.cxl.wire.messages import S2MDRS, M2SMessage, S2MMessage
from models.info_status_lines import LineInfo, StatusView, pack_words, unpack_words
from models.modes import Mode
from models.regions import RegionConfig
from verif.scoreboard.ranges import Span
from verif.scoreboard.test_scoreboard import BINARY, FP32, IDENTITY, Bench, read, write, wrong

ONE_LINE = dataclasses.replace(BINARY, lines_log2=0, workers=2)
TERNARY = dataclasses.replace(BINARY, base=1 << 42, state_base=0x90000, mode=Mode.G_TERNARY)
ILLEGAL = b"\x55" * 64


def now(bench: Bench, region: int = 0) -> dict[str, Span]:
    status = bench.scoreboard.status
    return status.end(region, status.begin(region))


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
    scoreboard.finish()
    assert scoreboard.judge.unjudged == 10
    assert "10 of 10 operations could not be judged" in bench.errors.pop()
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
    assert bench.scoreboard.events("ENGINE") == Span(0, int(not same))
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


STRICT = replace(BINARY, strict=True)
Change = Callable[[Any], S2MMessage]


def close(bench: Bench, region: int = 0) -> bool:
    """Close a region in scoreboard and device, with nothing between the write of CLOSE and its
    response.

    Return False if the region has no round to end.
    """
    begun = bench.scoreboard.close_begin(region) is not None
    bench.device.close(region)
    if begun:
        bench.scoreboard.commit_end(region)
    return begun


def figures(**change: int) -> Change:
    """Return a function that replaces figures in the response to a read of STATUS."""
    return lambda r: replace(r, data=replace(StatusView.unpack(r.data), **change).pack())


def word(index: int, value: int) -> Change:
    """Return a function that replaces one 32-bit word of a read response."""

    def changed(response: Any) -> S2MMessage:
        words = unpack_words(response.data)
        words[index] = value
        return wrong(data=pack_words(words))(response)

    return changed


def status(bench: Bench, config: RegionConfig, change: Change | None = None) -> list[str]:
    """Read STATUS of a region, and return all findings.

    Args:
        bench: Testbench.
        config: Descriptor of the region.
        change: Function that changes the right response, or None.
    """
    bench.answer(bench.begin(read(config.address(2, 0))), change)
    return [str(one) for one in bench.errors]


def test_a_close_completes_a_round() -> None:
    bench = Bench(STRICT)
    assert close(bench)
    assert bench.scoreboard.status.times_done() == Span(1, 1)
    bench.commit(0, STRICT, 9)
    assert now(bench)["done"] == now(bench)["closed"] == Span(0, 0)


def test_what_comes_late_must_not_count() -> None:
    bench = Bench(BINARY)
    bench.scoreboard.close_begin(0)
    bench.scoreboard.commit_end(0)  # the device has not closed
    bench.do(write(BINARY.address(0, 1)))
    bench.do(read(BINARY.address(1, 1)))
    assert "MISMATCH" in str(bench.errors[0])


def test_a_read_after_the_close_must_be_final() -> None:
    """Check a read in flight before CLOSE and answered after its response, which must be final.

    An early result of a STRICT region is then reported as wrong, unless the link repeats responses.
    """
    for link_repeats in (False, True):
        bench = Bench(STRICT)
        racing = bench.begin(read(STRICT.address(0, 1)))
        found = bench.device.step(racing)
        assert isinstance(found, S2MDRS)
        assert found.poison, "an early read with STRICT"
        bench.scoreboard.close_begin(0)
        bench.scoreboard.commit_end(0, strict=not link_repeats)
        bench.scoreboard.response(found)
        assert bool(bench.errors) != link_repeats


def test_a_contribution_that_races_with_the_close_is_on_one_side() -> None:
    for closed_first in (False, True):
        bench = Bench(BINARY)
        racing = bench.begin(write(BINARY.address(2, 1)))
        bench.commit_during(racing, 0, None, before=not closed_first)
        assert bench.scoreboard.counter_range("LATE") == (0, 1)
        for selector in (1, 2, 3):
            bench.do(read(BINARY.address(selector, 1 if selector == 1 else 0)))
        assert bench.errors == []


def test_a_region_without_a_round_cannot_be_closed() -> None:
    bench = Bench(IDENTITY)
    assert not close(bench)
    assert not close(bench, 5)


def test_a_close_after_an_unsettled_commit() -> None:
    """Check that a region can be closed while its first commit is not settled yet."""
    bench = Bench()
    held = bench.begin(read(BINARY.address(0, 0)))
    bench.commit_during(held, 0, BINARY)  # answered before the commit: unmapped
    assert close(bench)
    bench.do(read(BINARY.address(1, 2)))
    assert bench.errors == []


@pytest.mark.parametrize("field", list(LineInfo.__dataclass_fields__))
def test_info_is_compared_in_every_field(field: str) -> None:
    bench = Bench(BINARY)
    bench.do(write(BINARY.address(1, 0)))

    def changed(response: Any) -> S2MMessage:
        info = LineInfo.unpack(response.data)
        old = getattr(info, field)
        new = not old if isinstance(old, bool) else old ^ 1
        return wrong(data=replace(info, **{field: new}).pack())(response)

    bench.answer(bench.begin(read(BINARY.address(1, 0))), changed)
    assert "MISMATCH" in str(bench.errors[0])


@pytest.mark.parametrize("name", [n for n in StatusView.__dataclass_fields__ if n != "fallback"])
def test_status_is_compared_in_every_figure(name: str) -> None:
    bench = Bench(BINARY)
    bench.contribute(BINARY, range(3), 0)
    bench.do(replace(write(BINARY.address(0, 1)), poison=True))
    bench.do(read(BINARY.address(200, 0)))
    assert status(bench, BINARY) == []
    value = dict(zip(StatusView.__dataclass_fields__, (1, 1, 0, 0, 1, 0, 1), strict=True))
    assert value == dict(
        zip(StatusView.__dataclass_fields__, astuple(bench.device.status_view(0)), strict=True)
    )
    for other in (value[name] + 1, value[name] ^ 1 << 20):
        bench.errors.clear()
        assert name in status(bench, BINARY, figures(**{name: other}))[0]


def test_words_after_the_last_are_zero() -> None:
    bench = Bench(BINARY)
    assert "words after" in status(bench, BINARY, word(7, 1))[0]


def test_lines_of_each_worker_are_compared() -> None:
    bench = Bench(FP32)
    for line in range(3):
        bench.do(write(FP32.address(2, line)))
    bench.do(write(FP32.address(2, 0)))  # again: no other line
    ask: Callable[[], M2SMessage] = lambda: bench.begin(read(FP32.address(3, 0)))  # noqa: E731
    bench.answer(ask(), word(2, 3))
    assert bench.errors == []
    bench.answer(ask(), word(2, 4))
    assert "lines of worker 2 is 4, expected 3" in str(bench.errors[0])
    bench.errors.clear()
    bench.answer(bench.begin(read(FP32.address(6, 0))), word(15, 1))
    assert "lines of worker 63 is 1" in str(bench.errors[0])


def test_a_contribution_in_flight_may_count_in_status() -> None:
    bench = Bench(BINARY)
    racing = bench.begin(write(BINARY.address(2, 0)))
    for value in (0, 1):
        bench.answer(bench.begin(read(BINARY.address(3, 0))), word(2, value))
    assert bench.errors == []
    bench.answer(racing)
    bench.answer(bench.begin(read(BINARY.address(3, 0))), word(2, 0))
    assert "lines of worker 2 is 0, expected 1" in str(bench.errors[0])


def test_a_refusal_that_races_with_a_commit_counts_on_either_side() -> None:
    bench = Bench(BINARY)
    racing = bench.begin(read(BINARY.address(200, 0)))
    bench.commit_during(racing, 0, BINARY)
    assert status(bench, BINARY) == []
    bench.do(read(BINARY.address(200, 0)))
    assert status(bench, BINARY) == []
    assert "refused is 4" in status(bench, BINARY, figures(refused=4))[0]


def test_status_is_never_poisoned() -> None:
    bench = Bench(replace(BINARY, mode=Mode.G_TERNARY))
    assert "Poison" in status(bench, BINARY, wrong(poison=True))[0]


@pytest.mark.parametrize("begun", [0, 1, 2])
@pytest.mark.parametrize("answered", [0, 1, 2])
def test_a_contribution_around_a_read_of_status(begun: int, answered: int) -> None:
    """Check which counts STATUS may show if a contribution overlaps the read.

    Args:
        begun: Start of the contribution: before the read (0), within it (1) or after it (2).
        answered: Response to the contribution, likewise.
    """
    for value in range(3):
        bench, asked = Bench(BINARY), read(BINARY.address(3, 0))
        racing: M2SMessage = write(BINARY.address(2, 0))
        for moment in range(3):
            if moment == begun:
                racing = bench.begin(racing)
            if moment == answered >= begun:
                bench.answer(racing)
            if moment == 0:
                reading = bench.begin(asked)
            if moment == 1:
                bench.answer(reading, word(2, value))
        may = {int(begun == answered == 0), int(begun < 2)}
        assert (bench.errors == []) is (value in may), value


@pytest.mark.parametrize(("config", "poison"), [(BINARY, 0), (BINARY, 1), (FP32, 0), (FP32, 1)])
def test_a_line_that_a_contribution_in_flight_may_poison(config: RegionConfig, poison: int) -> None:
    """Check that a stored line may become poisoned, and a counted one by a poisoned write only."""
    bench = Bench(config)
    bench.begin(replace(write(config.address(2, 0)), poison=bool(poison)))
    found = status(bench, config, figures(poisoned_lines=1))
    assert (found == []) is bool(poison or config is FP32)

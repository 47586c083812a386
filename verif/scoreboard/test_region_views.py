# SPDX-License-Identifier: Apache-2.0
"""Negative twins of CLOSE, INFO and STATUS: legal responses pass, all others are reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, replace
from typing import Any

import pytest

from cocotbext.cxl.wire.messages import S2MDRS, M2SMessage, S2MMessage
from models.info_status_lines import LineInfo, StatusView, pack_words, unpack_words
from models.modes import Mode
from models.regions import RegionConfig
from verif.scoreboard.test_scoreboard import BINARY, FP32, IDENTITY, Bench, read, write, wrong

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


@pytest.mark.parametrize("config", [STRICT, FP32])
def test_a_closed_round_passes(config: RegionConfig) -> None:
    bench = Bench(config)
    bench.do(write(config.address(0, 1)))
    bench.do(read(config.address(0, 1)))
    assert close(bench)
    bench.do(write(config.address(1, 1)))
    for selector in (0, 1, 2, 3):
        bench.do(read(config.address(selector, 0 if selector > 1 else 1)))
    bench.scoreboard.finish()
    assert bench.errors == []
    bench.scoreboard.compare_counters({"LATE": 1, "CONTRIBUTION": 1, "EARLY_READ": 1})
    bench.scoreboard.compare_region(0, {"done": 1, "closed": 1, "complete_lines": 0})
    assert bench.scoreboard.status.times_done()[:2] == (1, 1)
    bench.commit(0, config, 9)
    bench.scoreboard.compare_region(0, {"done": 0, "closed": 0})
    assert bench.errors == []


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


def test_a_read_before_the_close_may_be_early_or_not() -> None:
    for closed_first in (False, True):
        bench = Bench(STRICT)
        racing = bench.begin(read(STRICT.address(0, 1)))
        bench.scoreboard.close_begin(0)
        if closed_first:
            bench.device.close(0)
        bench.answer(racing)
        bench.device.close(0)
        bench.scoreboard.commit_end(0)
        bench.do(read(STRICT.address(1, 1)))
        assert bench.errors == []


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

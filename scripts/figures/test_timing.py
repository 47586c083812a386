# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf measure figures timing`: stimuli and stages by hand, and a few runs on the RTL."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from scripts.benchmarks.bulk_loads import run_block, write_block
from scripts.build import bulk_build
from scripts.figures import baseline, timing_figure
from scripts.figures.timing_figure import (
    ACCESSES,
    IN_ORDER,
    LATENCY,
    LOW_BIT,
    PLAIN,
    READ,
    SECOND,
    Access,
    Case,
    Setting,
    Timed,
    percentiles,
    split,
)
from verif.host.bulk_device import VerilatedDevice
from verif.host.c_interface import PASSED, WRITES, Stage

SMALL = Setting(workers=3, lines=4)


def test_stimuli_by_hand() -> None:
    second = timing_figure.nth_worker(SMALL, 1)
    assert second.before == ((0, 0), (0, 1), (0, 2), (0, 3))
    assert second.counted == ((1, 0), (1, 1), (1, 2), (1, 3))
    assert timing_figure.tiles(SMALL, 3).counted == (
        *((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)),
        *((0, 3), (1, 3), (2, 3)),
    )


def made(events: list[tuple[int, int, int]], each: list[int], ended: list[int]) -> Timed:
    """Return the measurements of a run of which only times are known."""
    passed = np.array(events, PASSED)
    answers = np.array(each, np.uint64), np.array(ended, np.uint64)
    return Timed(0, *answers, 0, 0, 0, 0, passed)


def test_stages_by_hand() -> None:
    """Check the clocks of one access by stage; events of evictions do not count for it."""
    events: list[tuple[int, int, int]] = [
        (104, Stage.CORE_IN, 7),
        (105, Stage.UNIT_IN, 7),
        (106, Stage.MEMORY_ASKED, WRITES),
        (107, Stage.MEMORY_ASKED, 0),
        (110, Stage.MEMORY_ANSWERED, WRITES + 3),
        (117, Stage.MEMORY_ANSWERED, 0),
        (119, Stage.MEMORY_ANSWERED, 0),
        (122, Stage.UNIT_OUT, 7),
        (124, Stage.CORE_OUT, 7),
    ]
    came = made(events, [30], [130])
    whole = {name: int(clocks[0]) for name, clocks in split(came).items()}
    assert tuple(whole) == IN_ORDER
    assert list(whole.values()) == [4, 1, 17, 2, 6]
    lacking = made([event for event in events if event[1] != Stage.UNIT_OUT], [30], [130])
    with pytest.raises(ValueError, match="access 0 has not passed UNIT_OUT"):
        split(lacking)


def test_percentiles_and_formula_by_hand() -> None:
    assert percentiles(np.arange(1, 101)) == (1, 50, 95, 100)
    assert timing_figure.formula(SECOND, 300) == pytest.approx(100 * 3 / 311)
    assert timing_figure.formula(READ, 100) == pytest.approx(100 * 8 / 111)


@pytest.mark.parametrize("access", ACCESSES, ids=lambda access: access.name)
def test_the_formula_gives_what_was_accepted(access: Access) -> None:
    """Check that the formula of the overhead gives the accepted values of the RTL."""
    accepted = baseline.read()["timing"]
    kind = f"{access.name}, one at a time at {LATENCY}"
    plain = accepted[f"{PLAIN}, {kind}: clocks"]
    assert plain == pytest.approx(LATENCY + timing_figure.PLAIN_CLOCKS, abs=0.05)
    for name in LOW_BIT:
        over = accepted[f"{name}, {kind}: clocks over plain memory"]
        assert over == pytest.approx(timing_figure.added(access), abs=0.05)
        assert 100 * over / plain == pytest.approx(timing_figure.formula(access, LATENCY), rel=0.01)


def test_a_narrow_link_takes_its_clocks(tmp_path: Path) -> None:
    """Check the clocks a line on links with a flit in 1, 2 and 4 clocks.

    A line is 5 slots, a flit 4: with a flit in n clocks a line takes at least 1.25 n.
    """
    model = bulk_build.build("verilator")
    took = []
    for flit_clocks in (1, 2, 4):
        with closing(model.open(tmp_path, 20, 1, timing_figure.AT_300.at(3))) as device:
            assert isinstance(device, VerilatedDevice)
            device.set_flit_clocks(flit_clocks)
            took.append(run_block(device, write_block(None, [(0, i) for i in range(400)])) / 400)
            assert not len(device.passed())  # no probe in this build
    assert all(clocks >= 1.25 * n for clocks, n in zip(took, (1, 2, 4), strict=True))
    assert took[2] < 1.1 * 1.25 * 4
    assert all(less < more for less, more in pairwise(took))


def test_verdicts_under_pressure() -> None:
    """Check the verdict and the noise of a case by hand.

    20 clocks of plain memory are 5 an access; noise is 8 clocks of the first and last beat.
    """
    case = Case(next(iter(timing_figure.PATTERNS)), "x16", 4)
    assert case.noise == 2 * 4 / timing_figure.MANY
    plain, same, slow = (replace(made([], [9] * 4, [9] * 4), clocks=n) for n in (20, 20, 30))
    assert [timing_figure.judged(case, one, plain) for one in (plain, same, slow)] == [
        *("", "met", "missed by 2.50 clocks"),
    ]


def test_names_in_the_baseline() -> None:
    """Check the names of baseline values: memory of one clock a beat is not mentioned."""
    misses, _, reads = timing_figure.PATTERNS
    key = timing_figure.key(Case(misses, "x4", 1), "FP32")
    assert key == "FP32, second worker, all misses, full credits, x4 at 300: clocks an access"
    key = timing_figure.key(Case(reads, "x16", 4), "G_INT4")
    assert key.startswith("G_INT4, result read, 8 workers, all misses, full credits, x16, 4 clocks")

# SPDX-License-Identifier: Apache-2.0
"""Limits of an access with a narrow bandwidth, and verdicts on a mode, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from scripts.figures import timing_figure
from scripts.figures.timing_figure import Case
from scripts.figures.timing_loads import Timed
from verif.host.c_interface import PASSED, Stage

MISSES, _TILES, READS = timing_figure.PATTERNS
COUNT = 4


def made(clocks: int, unit: int, reads: int, writes: int) -> Timed:
    """Return consecutive accesses, each ``unit`` clocks in its unit and 2 more in the core."""
    events = [
        event
        for n in range(COUNT)
        for event in (
            *((1000 * n + 3, Stage.CORE_IN, n), (1000 * n + 4, Stage.UNIT_IN, n)),
            *((1000 * n + 4 + unit, Stage.UNIT_OUT, n), (1000 * n + 5 + unit, Stage.CORE_OUT, n)),
        )
    ]
    each = np.full(COUNT, unit + 8, np.uint64)
    ended = np.array([1000 * n + unit + 8 for n in range(COUNT)], np.uint64)
    passed = np.array(events, PASSED)
    return Timed(clocks, each, ended, 0, 0, COUNT * reads, COUNT * writes, passed)


PLAIN = made(clocks=20, unit=302, reads=0, writes=1)


@pytest.mark.parametrize(
    ("pattern", "link", "beat", "bound", "clocks"),
    [
        (MISSES, "x16", 1, "response places", 305 / 64),
        (MISSES, "x8", 4, "response places", 305 / 64),
        (READS, "x16", 2, "response places", 305 / 64),
        (MISSES, "x4", 4, "link", 5.0),
        (MISSES, "x8", 8, "memory port", 8.0),
    ],
)
def test_what_is_narrow(pattern: str, link: str, beat: int, bound: str, clocks: float) -> None:
    """64 places, each taken for 305 clocks; 5 slots of 4 a flit; a beat an access."""
    assert timing_figure.held(PLAIN) == 305
    least = timing_figure.limits(Case(pattern, link, beat), PLAIN, 305)
    assert max(least, key=least.__getitem__) == bound
    assert least[bound] == pytest.approx(clocks)


def test_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    """20 clocks of plain memory are 5 an access; there are as many places as accesses but one."""
    monkeypatch.setattr(timing_figure, "constant", lambda _: COUNT - 1)
    case = Case(MISSES, "x16", 4)
    assert case.noise == 2 * 4 / timing_figure.MANY
    assert timing_figure.judged(case, PLAIN, PLAIN, 15) == ("", "")
    for unit in (302, 3):
        assert timing_figure.judged(case, made(20, unit, 0, 1), PLAIN, 15) == ("met", "")
    assert timing_figure.judged(case, made(30, 314, 1, 0), PLAIN, 15) == (
        "missed by 2.50 clocks",
        "+3.00 until 3 are answered, then -0.50: its own bound is 5.00 by response places (each "
        "held for 15 clocks by an access alone), 7.50 measured",
    )


def test_what_waits_for_the_port_holds_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """12 clocks an access are the port's; that each holds one of 64 places for 757 says no more."""
    monkeypatch.setattr(timing_figure, "constant", lambda _: COUNT)
    text = "its own bound is 12.00 by memory port (3.00 beats written), 12.00 measured"
    busy = made(48, 757, 2, 3)
    assert timing_figure.judged(Case(MISSES, "x16", 4), busy, PLAIN, 20)[1].endswith(text)


def test_of_two_bounds_alike_the_device_s_own_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five beats at a clock each take what the five slots of a line take at x4."""
    monkeypatch.setattr(timing_figure, "constant", lambda _: COUNT)
    case = Case(READS, "x4", 1)
    text = "its own bound is 5.00 by memory port (5.00 beats read), 12.00 measured"
    assert timing_figure.judged(case, made(48, 60, 5, 3), PLAIN, 4)[1].endswith(text)
    text = "its own bound is 5.00 by link (as plain memory), 12.00 measured"
    assert timing_figure.judged(case, made(48, 60, 3, 3), PLAIN, 4)[1].endswith(text)


def test_names_in_the_baseline() -> None:
    """Memory of a beat a clock is not named: these keys are older than the others."""
    key = timing_figure.key(Case(MISSES, "x4", 1), "FP32")
    assert key == "FP32, second worker, all misses, full credits, x4 at 300: clocks an access"
    key = timing_figure.key(Case(READS, "x16", 4), "G_INT4")
    assert key.startswith("G_INT4, result read, 8 workers, all misses, full credits, x16, 4 clocks")

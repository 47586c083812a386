# SPDX-License-Identifier: Apache-2.0
"""Geometry of the charts, in the units of their SVG view boxes. The template draws them.

Charts hold no text: an SVG is scaled to the width of the screen, and text with it, which on a phone
nobody could read. Numbers stand beside them, in HTML.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scripts.report.trend import HistoryPoint

WIDTH, HEIGHT = 600.0, 100.0
_FEWEST = 8  # a chart of two points does not fill the page with two slabs


@dataclass(frozen=True)
class Bar:
    """A rectangle. `kind` says how it is filled: passed, failed, flaky, time."""

    x: float
    y: float
    width: float
    height: float
    kind: str = "time"


@dataclass(frozen=True)
class Column:
    """One invocation in the trend: its bars, and its point, of which the tool tip tells."""

    point: HistoryPoint
    bars: tuple[Bar, ...]
    time: Bar


@dataclass(frozen=True)
class TrendChart:
    """Columns, oldest first; `most` tests and `longest` seconds are the tops of the two charts."""

    columns: tuple[Column, ...]
    most: int
    longest: float
    width: float = WIDTH
    height: float = HEIGHT


def duration_bars(seconds: Sequence[float]) -> list[Bar]:
    """One horizontal bar a duration, the longest full; all in a view box of WIDTH x 10."""
    longest = max(seconds, default=0.0) or 1.0
    return [Bar(0, 0, round(WIDTH * one / longest, 1), 10) for one in seconds]


def trend_chart(points: Sequence[HistoryPoint]) -> TrendChart:
    """Failed at the bottom, then flaky, then passed: what is red never hides above a tall bar."""
    most = max((p.passed + p.failed + p.flaky for p in points), default=0)
    longest = max((p.seconds for p in points), default=0.0)
    step = WIDTH / max(len(points), _FEWEST)
    columns = []
    for number, p in enumerate(points):
        x, width, bottom = round(number * step, 2), round(step * 0.8, 2), HEIGHT
        bars = []
        for kind, count in (("failed", p.failed), ("flaky", p.flaky), ("passed", p.passed)):
            height = _height(count, most)
            bottom -= height
            if count:
                bars.append(Bar(x, round(bottom, 2), width, round(height, 2), kind))
        tall = round(_height(p.seconds, longest), 2)
        time = Bar(x, round(HEIGHT - tall, 2), width, tall)
        columns.append(Column(p, tuple(bars), time))
    return TrendChart(tuple(columns), most, longest)


def _height(value: float, top: float) -> float:
    """At least 3 of 100 for what is not nothing: one failure among thousands must be seen."""
    return max(3.0, HEIGHT * value / top) if value and top else 0.0

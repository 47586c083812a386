# SPDX-License-Identifier: Apache-2.0
"""Where the parts of a plot lie in an SVG: axes with ticks, lines and their points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scripts.figures.result_file import Line, Plot

WIDTH, HEIGHT, MARGIN = 860.0, 380.0, 64.0
_TICKS = 4
_LOG_SPAN = 16
"""An axis whose last place is so many times its first one is drawn with a logarithmic scale."""


@dataclass(frozen=True)
class Axis:
    """A scale from values to places on the page; ``log``: logarithmic, with a tick a value."""

    first: float
    last: float
    at_first: float
    at_last: float
    log: bool = False
    values: tuple[float, ...] = ()

    def at(self, value: float) -> float:
        """The place of a value."""
        low, high, here = self.first, self.last, value
        if self.log:
            low, high, here = math.log(low), math.log(high), math.log(here)
        share = (here - low) / (high - low) if high > low else 0.0
        return round(self.at_first + share * (self.at_last - self.at_first), 1)

    def ticks(self) -> list[tuple[float, str]]:
        """Places and texts."""
        step = (self.last - self.first) / _TICKS
        values = self.values if self.log else [self.first + n * step for n in range(_TICKS + 1)]
        return [(self.at(value), f"{value:,.4g}") for value in values]


@dataclass(frozen=True)
class Drawn:
    """A line: its place among the lines, its points as SVG takes them, and one by one."""

    number: int
    line: Line
    path: str
    dots: tuple[tuple[float, float, str], ...]


@dataclass(frozen=True)
class Picture:
    """A plot with everything in its place."""

    plot: Plot
    x: Axis
    y: Axis
    lines: tuple[Drawn, ...]


def picture(plot: Plot) -> Picture:
    """Lay out a plot. ValueError for one without a point."""
    points = [point for line in plot.lines for point in line.points]
    if not points:
        raise ValueError(f"the plot {plot.title!r} has no point")
    x = _x_axis(sorted({x for x, _ in points}))
    values = [y for _, y in points]
    low, high = min(0.0, *values), max(0.0, *values)
    y = Axis(low, high if high > low else low + 1, HEIGHT - MARGIN, MARGIN / 2)
    lines = enumerate(_distinct(plot.lines))
    return Picture(plot, x, y, tuple(_drawn(n, one, x, y) for n, one in lines))


def _distinct(lines: Sequence[Line]) -> list[Line]:
    """Lines that lie on each other as one with all their names: else the last hides the others."""
    names: dict[tuple[tuple[tuple[float, float], ...], bool], list[str]] = {}
    for line in lines:
        names.setdefault((line.points, line.formula), []).append(line.name)
    return [Line(", ".join(same), *key) for key, same in names.items()]


def _x_axis(values: Sequence[float]) -> Axis:
    ends = (MARGIN, WIDTH - MARGIN / 2)
    if values[0] > 0 and values[-1] >= _LOG_SPAN * values[0] and len(values) <= 2 * _TICKS:
        return Axis(values[0], values[-1], *ends, log=True, values=tuple(values))
    return Axis(values[0], values[-1], *ends)


def _drawn(number: int, line: Line, x: Axis, y: Axis) -> Drawn:
    dots = tuple((x.at(a), y.at(b), f"{line.name}: {a:,.6g}, {b:,.6g}") for a, b in line.points)
    return Drawn(number, line, " ".join(f"{a},{b}" for a, b, _ in dots), dots)


def spark(values: Sequence[float], width: float = 120.0, height: float = 24.0) -> str:
    """Points of a small line without axes, oldest first; empty for fewer than two."""
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    step = width / (len(values) - 1)
    span = high - low or 1.0
    return " ".join(
        f"{round(n * step, 1)},{round(height - 2 - (v - low) / span * (height - 4), 1)}"
        for n, v in enumerate(values)
    )

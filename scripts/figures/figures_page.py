# SPDX-License-Identifier: Apache-2.0
"""One page of all figures, offline. Whatever number is on it stands in a result file, or, for the
course over commits, in the history."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from neuron_fabric.data import DataError
from neuron_fabric.typed import typed
from scripts.common.errors import NfError
from scripts.figures.baseline import Baseline, slipped
from scripts.figures.result_file import NO_CLAIM, Line, Plot, Result, title_of
from scripts.record.database import History
from scripts.report.invocation import CHANGED

# Where the parts of a plot lie in an SVG: axes with ticks, lines and their points.

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


_TEMPLATE = Path(__file__).with_name("figures_page.html.j2").read_text(encoding="utf-8")
_KEPT = 30
"""Commits that the course looks back on."""
_COMMANDS = 500
"""Commands that it looks for them among."""

Course = Mapping[str, Sequence[float]]
"""Values of each followed figure, a commit each, oldest first, the last one that of the page."""


@dataclass(frozen=True)
class Followed:
    """A figure beside its accepted value, and its course; ``points``: as an SVG takes them."""

    name: str
    value: float
    accepted: float | None
    points: str
    commits: int


def course(result: Result) -> dict[str, list[float]]:
    """What the history holds of a result's figures, the latest of each commit, and behind it the
    result's own values. What was measured between two commits is of neither."""
    found: dict[str, dict[str, float]] = {}  # newest commit first
    with suppress(NfError, DataError), History(write=False) as history:
        for one in history.invocations(_COMMANDS, title_of(result.figure)):
            commit = one.revision
            if commit not in ("", result.revision) and not commit.endswith(CHANGED):
                values = (one.facts or {}).get("followed", {})
                values = typed(dict[str, float], values, "followed")
                found[commit] = {**values, **found.get(commit, {})}  # the latest of each
    before = [*reversed(list(found.values())[: _KEPT - 1])]
    return {
        name: [*(one[name] for one in before if name in one), value]
        for name, value in result.followed.items()
    }


def page(
    results: Sequence[Result],
    accepted: Baseline,
    courses: Mapping[str, Course],
    seconds: float = 0.0,
) -> str:
    """The page; ``courses`` by figure; ``seconds`` that the command took, all figures together."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_TEMPLATE).render(
        parts=[
            (
                result,
                [picture(plot) for plot in result.plots],
                _followed(result, accepted.get(result.figure, {}), courses[result.figure]),
                slipped(result.followed, accepted.get(result.figure, result.followed), whole=True),
            )
            for result in results
        ],
        claim=NO_CLAIM,
        seconds=seconds,
        commits=sorted({result.revision or "unknown" for result in results}),
        width=WIDTH,
        height=HEIGHT,
        margin=MARGIN,
    )


def _followed(result: Result, accepted: Mapping[str, float], of: Course) -> list[Followed]:
    return [
        Followed(name, value, accepted.get(name), spark(of[name]), len(of[name]))
        for name, value in result.followed.items()
    ]

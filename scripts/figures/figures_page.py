# SPDX-License-Identifier: Apache-2.0
"""Offline page of all figures. Every number on it is in a result file, or in the history."""

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
from scripts.figures.result_file import NO_CLAIM, FigureResult, Line, Plot, title_of
from scripts.record.database import History
from scripts.report.invocation import CHANGED

# Layout of a plot in an SVG: axes with ticks, lines and their points.

WIDTH, HEIGHT, MARGIN = 860.0, 380.0, 64.0
_TICKS = 4
_LOG_SPAN = 16
"""Ratio of the last to the first value from which an axis is logarithmic."""


@dataclass(frozen=True)
class Axis:
    """Scale from values to positions on the page; ``log``: logarithmic, with a tick per value."""

    first: float
    last: float
    at_first: float
    at_last: float
    log: bool = False
    values: tuple[float, ...] = ()

    def at(self, value: float) -> float:
        """Return the position of a value."""
        low, high, here = self.first, self.last, value
        if self.log:
            low, high, here = math.log(low), math.log(high), math.log(here)
        share = (here - low) / (high - low) if high > low else 0.0
        return round(self.at_first + share * (self.at_last - self.at_first), 1)

    def ticks(self) -> list[tuple[float, str]]:
        """Return positions and texts of the ticks."""
        step = (self.last - self.first) / _TICKS
        values = self.values if self.log else [self.first + n * step for n in range(_TICKS + 1)]
        return [(self.at(value), f"{value:,.4g}") for value in values]


@dataclass(frozen=True)
class Drawn:
    """Line: its number, its points as an SVG attribute, and each point."""

    number: int
    line: Line
    path: str
    dots: tuple[tuple[float, float, str], ...]


@dataclass(frozen=True)
class Picture:
    """Plot with computed positions."""

    plot: Plot
    x: Axis
    y: Axis
    lines: tuple[Drawn, ...]


def picture(plot: Plot) -> Picture:
    """Lay out a plot. Raise ValueError if it has no point."""
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
    """Join identical lines into one with all their names, since the last would hide the others."""
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
    """Return the points of a sparkline, oldest first; empty for fewer than two values."""
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
"""Maximum number of commits in the history of a figure."""
_COMMANDS = 500
"""Number of commands that are searched for them."""

Course = Mapping[str, Sequence[float]]
"""Values of each followed figure, one per commit, oldest first, ending with the current one."""


@dataclass(frozen=True)
class Followed:
    """Figure with its accepted value and its history; ``points``: as an SVG attribute."""

    name: str
    value: float
    accepted: float | None
    points: str
    commits: int


def course(result: FigureResult) -> dict[str, list[float]]:
    """Return the history of a result's figures: the latest values of each commit, then the result's
    own.

    Values that were measured with uncommitted changes are left out.
    """
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
    results: Sequence[FigureResult],
    accepted: Baseline,
    courses: Mapping[str, Course],
    seconds: float = 0.0,
) -> str:
    """Return the page; ``courses`` by figure; ``seconds`` is the time of the whole command."""
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


def _followed(result: FigureResult, accepted: Mapping[str, float], of: Course) -> list[Followed]:
    return [
        Followed(name, value, accepted.get(name), spark(of[name]), len(of[name]))
        for name, value in result.followed.items()
    ]

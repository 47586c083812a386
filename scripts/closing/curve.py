# SPDX-License-Identifier: Apache-2.0
"""The curve of `nf close`: closed bins against simulated cycles, beside plain random seeds, as one
offline page with an SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, StrictUndefined

_TEMPLATE = Path(__file__).with_name("curve.html.j2").read_text(encoding="utf-8")
WIDTH, HEIGHT, MARGIN = 860, 400, 60

Point = tuple[int, int]  # cycles, closed bins


@dataclass(frozen=True)
class Line:
    """A way of choosing runs, and how far it came: points in the order of the runs."""

    name: str
    points: tuple[Point, ...]

    @property
    def bins(self) -> int:
        return self.points[-1][1] if self.points else 0

    @property
    def cycles(self) -> int:
        return self.points[-1][0] if self.points else 0

    def reached(self, bins: int) -> int | None:
        """Cycles after which so many bins were closed; None when they never were."""
        return next((cycles for cycles, closed in self.points if closed >= bins), None)


@dataclass(frozen=True)
class Ratio:
    """How much more plain seeds cost for the same number of bins. `least`: they never got there."""

    bins: int
    closed: int
    plain: int
    least: bool

    @property
    def value(self) -> float:
        return self.plain / max(self.closed, 1)

    def __str__(self) -> str:
        most = "more than " if self.least else ""
        came = "did not come there in" if self.least else "took"
        return (
            f"{most}{self.value:.1f} times fewer cycles for {self.bins} bins: nf close took "
            f"{self.closed:,}, plain random seeds {came} {self.plain:,}"
        )


def ratio(close: Line, plain: Line) -> Ratio | None:
    """At the number of bins where `close` ended; where plain seeds never came so far, what they had
    spent counts. None without runs."""
    ours = close.reached(close.bins)
    if ours is None or not plain.points:
        return None
    theirs = plain.reached(close.bins)
    return Ratio(close.bins, ours, theirs or plain.cycles, theirs is None)


def same_bins(close: Line, plain: Line) -> Ratio | None:
    """At the largest number of bins that both reached."""
    bins = min(close.bins, plain.bins)
    ours, theirs = close.reached(bins), plain.reached(bins)
    if ours is None or theirs is None:
        return None
    return Ratio(bins, ours, theirs, False)


@dataclass(frozen=True)
class OpenBin:
    """A bin that was not closed, and the test that is meant to."""

    point: str
    name: str
    hits: int
    at_least: int
    test: str


def page(lines: Sequence[Line], said: Sequence[str], goals: int, left: Sequence[OpenBin]) -> str:
    """The page; `said` are sentences above the curve."""
    most = max((line.cycles for line in lines), default=0) or 1
    scale_x, scale_y = (WIDTH - 2 * MARGIN) / most, (HEIGHT - 2 * MARGIN) / max(goals, 1)

    def at(cycles: float, bins: float) -> str:
        return f"{MARGIN + cycles * scale_x:.1f},{HEIGHT - MARGIN - bins * scale_y:.1f}"

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_TEMPLATE).render(
        said=said,
        lines=[(line, " ".join(at(*p) for p in ((0, 0), *line.points))) for line in lines],
        ticks_x=[(MARGIN + n * (WIDTH - 2 * MARGIN) / 4, f"{most * n / 4:,.0f}") for n in range(5)],
        ticks_y=[
            (HEIGHT - MARGIN - n * (HEIGHT - 2 * MARGIN) / 4, f"{goals * n / 4:.0f}")
            for n in range(5)
        ],
        width=WIDTH,
        height=HEIGHT,
        margin=MARGIN,
        left=left,
        goals=goals,
    )

# SPDX-License-Identifier: Apache-2.0
"""Progress diagram of `nf close` (coverage closure) as an offline HTML page with an SVG.

It shows closed coverage bins against simulated cycles, compared with plain random seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from scripts.common.terminal import many
from scripts.coverage.functional_coverage import Bin
from scripts.report.chart import line_chart
from scripts.report.templates import render

SEVERAL = 3

Point = tuple[int, int]  # cycles, closed bins


@dataclass
class ClosureCurve:
    """Progress of one strategy of coverage closure: (cycles, closed bins) after each run, summed.

    `start` is the number of bins that were closed before the first run.
    """

    name: str
    points: list[Point] = field(default_factory=list)
    start: int = 0

    @property
    def bins(self) -> int:
        return self.points[-1][1] if self.points else self.start

    @property
    def cycles(self) -> int:
        return self.points[-1][0] if self.points else 0

    def reached(self, bins: int) -> tuple[int, int] | None:
        """Return the (cycles, runs) after which so many bins were closed; None if they never were.

        The bins of a run are taken as closed at equal distances, so part of its cycles may count.
        """
        before = 0, self.start
        for number, (cycles, closed) in enumerate(self.points, 1):
            if closed >= bins:
                gained = max(closed - before[1], 1)
                part = (cycles - before[0]) * (bins - before[1]) / gained
                return round(before[0] + max(part, 0.0)), number
            before = cycles, closed
        return None


def costs(
    close: ClosureCurve, plain: ClosureCurve
) -> tuple[int, tuple[int, int], tuple[int, int]] | None:
    """Return the largest number of bins that both closed, and the (cycles, runs) of each for it.

    None if one of them closed no bin, or needed fewer than SEVERAL runs: then the length of one run
    would decide.
    """
    bins = min(close.bins, plain.bins)
    ours, theirs = close.reached(bins), plain.reached(bins)
    if bins <= max(close.start, plain.start) or ours is None or theirs is None:
        return None
    few = min(ours[1], theirs[1]) < SEVERAL or min(ours[0], theirs[0]) == 0
    return None if few else (bins, ours, theirs)


def comparison(close: ClosureCurve, plain: ClosureCurve) -> str:
    """Return the sentence that compares two strategies, or says why they cannot be compared."""
    if found := costs(close, plain):
        bins, *pair = found
        value = pair[1][0] / pair[0][0]
        times = f"{value:.1f} times fewer" if value >= 1 else f"{1 / value:.1f} times more"
        ours, theirs = (f"{cycles:,} ({runs} runs)" for cycles, runs in pair)
        return f"{times} cycles for {bins} bins: nf close took {ours}, plain random seeds {theirs}"
    each = ", ".join(
        f"{line.name} closed {line.bins - line.start} in {many(len(line.points), 'run')}"
        for line in (close, plain)
    )
    return f"no comparison: both need {SEVERAL} runs for the same bins, but {each}"


def page(
    lines: Sequence[ClosureCurve], said: Sequence[str], goals: int, left: Sequence[Bin]
) -> str:
    """Return the text of the HTML page.

    Args:
        lines: Curves of the strategies; the first one is highlighted.
        said: Sentences above the diagram.
        goals: Number of bins to close.
        left: Bins that are still open, for a table.
    """
    drawn = [
        (line.name, ((0, line.start), *line.points), number > 0)
        for number, line in enumerate(lines)
    ]
    return render(
        "curve.html.j2",
        said=said,
        chart=line_chart("simulated cycles", f"closed bins (of {goals})", drawn),
        lines=lines,
        left=left,
    )

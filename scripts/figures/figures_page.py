# SPDX-License-Identifier: Apache-2.0
"""Offline HTML page of all figures; every number on it is in a result file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from scripts.figures.baseline import Baseline, slipped
from scripts.figures.result_file import NO_CLAIM, FigureResult, Plot
from scripts.report.chart import Points, line_chart

_TEMPLATE = Path(__file__).with_name("figures_page.html.j2").read_text(encoding="utf-8")
_LOG_SPAN, _MOST_TICKS = 16, 8
"""Ratio of the last to the first x from which few values have a logarithmic axis."""


def picture(plot: Plot) -> str:
    """Return the SVG of a plot; raise ValueError if it has no point.

    Identical lines become one with all their names, since the last would hide the others.
    """
    names: dict[tuple[Points, bool], list[str]] = {}
    for line in plot.lines:
        names.setdefault((line.points, line.formula), []).append(line.name)
    xs = sorted({x for line in plot.lines for x, _ in line.points})
    log = xs and 0 < _LOG_SPAN * xs[0] <= xs[-1] and len(xs) <= _MOST_TICKS
    lines = [(", ".join(same), *of) for of, same in names.items()]
    return line_chart(plot.x, plot.y, lines, xs if log else ())


def page(
    results: Sequence[FigureResult],
    accepted: Baseline,
    seconds: float = 0.0,
) -> str:
    """Return the text of the HTML page.

    Args:
        results: Results of the figures.
        accepted: Baseline.
        seconds: Duration of the whole command.
    """
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    parts = []
    for result in results:
        known = accepted.get(result.figure)
        followed = [(*one, (known or {}).get(one[0])) for one in result.followed.items()]
        pictures = [(plot, picture(plot)) for plot in result.plots]
        slips = slipped(result.followed, known or result.followed, whole=True)
        parts.append((result, pictures, followed, slips))
    return environment.from_string(_TEMPLATE).render(
        parts=parts,
        claim=NO_CLAIM,
        seconds=seconds,
        commits=sorted({result.revision or "unknown" for result in results}),
    )

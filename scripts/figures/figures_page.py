# SPDX-License-Identifier: Apache-2.0
"""Offline page of all figures. Every number on it is in a result file, or in the history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from neuron_fabric.data import DataError
from neuron_fabric.typed import typed
from scripts.common.errors import NfError
from scripts.figures.baseline import Baseline, slipped
from scripts.figures.result_file import NO_CLAIM, FigureResult, Plot, title_of
from scripts.record.database import History
from scripts.report.chart import Points, line_chart
from scripts.report.invocation import CHANGED

_TEMPLATE = Path(__file__).with_name("figures_page.html.j2").read_text(encoding="utf-8")
_LOG_SPAN, _MOST_TICKS = 16, 8
"""Ratio of the last to the first x from which few values have a logarithmic axis."""
_KEPT = 30
"""Maximum number of commits in the history of a figure."""
_COMMANDS = 500
"""Number of commands that are searched for them."""
_BARS = "▁▂▃▄▅▆▇█"

Course = Mapping[str, Sequence[float]]
"""Values of each followed figure, one per commit, oldest first, ending with the current one."""


def picture(plot: Plot) -> str:
    """Draw a plot. Identical lines become one with all their names, since the last would hide the
    others. Raise ValueError if it has no point.
    """
    names: dict[tuple[Points, bool], list[str]] = {}
    for line in plot.lines:
        names.setdefault((line.points, line.formula), []).append(line.name)
    xs = sorted({x for line in plot.lines for x, _ in line.points})
    log = xs and 0 < _LOG_SPAN * xs[0] <= xs[-1] and len(xs) <= _MOST_TICKS
    lines = [(", ".join(same), *of) for of, same in names.items()]
    return line_chart(plot.x, plot.y, lines, xs if log else ())


def spark(values: Sequence[float]) -> str:
    """Return a bar for each value, oldest first; empty for fewer than two values."""
    low, span = min(values), max(values) - min(values) or 1.0
    bars = [_BARS[round((one - low) / span * (len(_BARS) - 1))] for one in values]
    return "".join(bars) if len(values) > 1 else ""


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
    parts = []
    for result in results:
        known, of = accepted.get(result.figure, result.followed), courses[result.figure]
        followed = [
            (name, value, accepted.get(result.figure, {}).get(name), len(of[name]), spark(of[name]))
            for name, value in result.followed.items()
        ]
        pictures = [(plot, picture(plot)) for plot in result.plots]
        parts.append((result, pictures, followed, slipped(result.followed, known, whole=True)))
    return environment.from_string(_TEMPLATE).render(
        parts=parts,
        claim=NO_CLAIM,
        seconds=seconds,
        commits=sorted({result.revision or "unknown" for result in results}),
    )

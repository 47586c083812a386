# SPDX-License-Identifier: Apache-2.0
"""One page of all figures, offline. Whatever number is on it stands in a result file, or, for the
course over commits, in the history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from neuron_fabric.data import DataError
from neuron_fabric.typed import typed
from scripts.common.errors import NfError
from scripts.figures import svg_plot
from scripts.figures.baseline import Baseline, slipped
from scripts.figures.result_file import NO_CLAIM, Result, title_of
from scripts.record.database import History
from scripts.report.invocation import CHANGED

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
                [svg_plot.picture(plot) for plot in result.plots],
                _followed(result, accepted.get(result.figure, {}), courses[result.figure]),
                slipped(result.followed, accepted.get(result.figure, result.followed), whole=True),
            )
            for result in results
        ],
        claim=NO_CLAIM,
        seconds=seconds,
        commits=sorted({result.revision or "unknown" for result in results}),
        width=svg_plot.WIDTH,
        height=svg_plot.HEIGHT,
        margin=svg_plot.MARGIN,
    )


def _followed(result: Result, accepted: Mapping[str, float], of: Course) -> list[Followed]:
    return [
        Followed(name, value, accepted.get(name), svg_plot.spark(of[name]), len(of[name]))
        for name, value in result.followed.items()
    ]

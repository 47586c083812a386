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

_TEMPLATE = Path(__file__).with_name("figures_page.html.j2").read_text(encoding="utf-8")
_KEPT = 30
"""Commands that the course looks back on."""

Course = Mapping[str, Sequence[float]]
"""Values of each followed figure, oldest first, the last one that of the page."""


@dataclass(frozen=True)
class Followed:
    """A figure beside its accepted value, and its course; ``points``: as an SVG takes them."""

    name: str
    value: float
    accepted: float | None
    points: str
    runs: int


def course(result: Result) -> dict[str, list[float]]:
    """What the history holds of a result's figures; without a history, the result's own values."""
    out: dict[str, list[float]] = {name: [] for name in result.followed}
    with suppress(NfError, DataError), History(write=False) as history:
        for one in reversed(history.invocations(_KEPT, title_of(result.figure))):
            found = typed(dict[str, float], (one.facts or {}).get("followed", {}), "followed")
            for name in out:
                out[name] += [found[name]] if name in found else []
    return {name: values or [result.followed[name]] for name, values in out.items()}


def page(results: Sequence[Result], accepted: Baseline, courses: Mapping[str, Course]) -> str:
    """The page; ``courses`` by figure."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_TEMPLATE).render(
        parts=[
            (
                result,
                [svg_plot.picture(plot) for plot in result.plots],
                _followed(result, accepted.get(result.figure, {}), courses[result.figure]),
                slipped(result.followed, accepted.get(result.figure, result.followed)),
            )
            for result in results
        ],
        claim=NO_CLAIM,
        width=svg_plot.WIDTH,
        height=svg_plot.HEIGHT,
        margin=svg_plot.MARGIN,
    )


def _followed(result: Result, accepted: Mapping[str, float], of: Course) -> list[Followed]:
    return [
        Followed(name, value, accepted.get(name), svg_plot.spark(of[name]), len(of[name]))
        for name, value in result.followed.items()
    ]

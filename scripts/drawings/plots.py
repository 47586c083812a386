# SPDX-License-Identifier: Apache-2.0
"""Plots of the accepted figures, each with commit, date and set-up; `plots.toml` lists them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import StrMethodFormatter

from neuron_fabric.data import parse_toml, read_text
from neuron_fabric.typed import typed
from scripts.common.errors import NfError
from scripts.figures import baseline
from scripts.figures.timing_figure import (
    ACCESSES,
    BEFORE,
    LAST,
    LATENCY,
    LINKS,
    PLAIN,
    PLAIN_CLOCKS,
    READ,
    behind,
    formula,
)
from scripts.report.chart import render

FILE = Path(__file__).with_suffix(".toml")
PATTERNS = {
    "contribution that misses": "second worker, all misses",
    "8 workers in tiles": "8 workers in tiles of 16 lines",
    "result read that misses": "result read, 8 workers, all misses",
}
MODES = (PLAIN, "G_BINARY", "FP32")
BEATS = (1, 2, 4, 8)
Bars = Mapping[str, Sequence[float | None]]
"""Values of each series, one for each name; None: not measured."""


@dataclass(frozen=True)
class AcceptedPlot:
    """Plot of a result; the fields after `high` are those of bars.

    Attributes:
        result: name of the result in the baseline.
        set_up: set-up in one line.
        high: height in inches.
        x: quantity and unit.
        key: name of an accepted figure, with {name} and {series}.
        names: labels of the groups of bars, and what they put in the place of {name}.
        series: the same for the bars of a group.
        left_out: words of the figures that are not drawn.
        digits: format of a value.
    """

    result: str
    set_up: str
    high: float
    x: str = ""
    key: str = ""
    names: dict[str, str] = field(default_factory=dict)
    series: dict[str, str] = field(default_factory=lambda: {"": ""})
    left_out: tuple[str, ...] = ()
    digits: str = "{:,.0f}"

    def paint(self, axes: Axes, known: Mapping[str, float]) -> None:
        """Draw the bars."""
        series = {}
        for label, one in self.series.items():
            keys = [self.key.format(name=name, series=one) for name in self.names.values()]
            series[label] = [
                None if any(words in key for words in self.left_out) else known[key] for key in keys
            ]
        _bars(axes, self.x, list(self.names), series, self.digits)


def _bars(axes: Axes, x: str, names: Sequence[str], series: Bars, digits: str) -> None:
    """Draw level bars, a group for each name from the top, a bar for each series, with values."""
    room = 0.8 / len(series)
    for number, (label, values) in enumerate(series.items()):
        shown = [(at, value) for at, value in enumerate(values) if value is not None]
        places = [at + room * (number - (len(series) - 1) / 2) for at, _ in shown]
        bars = axes.barh(places, [value for _, value in shown], room * 0.9, label=label)
        axes.bar_label(bars, [digits.format(value) for _, value in shown], padding=3, fontsize=8)
    axes.set_yticks(range(len(names)), list(names))
    axes.invert_yaxis()
    axes.set_xlabel(x)
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axes.margins(x=0.12)
    if len(series) > 1:
        axes.legend(frameon=False, loc="best")


def _stages(axes: Axes, known: Mapping[str, float]) -> None:
    """Draw the clocks after those of plain memory by stage of the engine."""
    parts = (*BEFORE, "planes of the record", *behind(READ))
    colours = dict(zip(parts, ("C0", "C1", "C2", "C3", "C4"), strict=True))
    for row, access in enumerate(ACCESSES):
        key = f"G_BINARY, {access.name}, one at a time at {LATENCY}: clocks over {PLAIN}"
        clocks = {**dict.fromkeys((*BEFORE, *behind(access)), 1), parts[1]: access.planes}
        if sum(clocks.values()) != known[key]:
            raise NfError(f"the stages of {access.name!r} do not add up to {known[key]:g} clocks")
        left = 0
        for part in parts:
            size = clocks.get(part, 0)
            axes.barh(row, size, left=left, color=colours[part])
            left += size
        axes.text(left + 0.15, row, f"{left} of {PLAIN_CLOCKS + LATENCY + left}", va="center")
    axes.set_yticks(range(len(ACCESSES)), [access.name for access in ACCESSES])
    axes.invert_yaxis()
    axes.set_xlabel("clocks over plain memory, in the order in which they pass")
    axes.margins(x=0.15)
    patches = [Patch(color=colour, label=part) for part, colour in colours.items()]
    axes.legend(handles=patches, frameon=False)


def _latency(axes: Axes, known: Mapping[str, float]) -> None:
    latencies = range(20, 601, 10)
    for access, marker in ((LAST, "o"), (READ, "s")):
        curve = [formula(access, one) for one in latencies]
        [line] = axes.plot(latencies, curve, "--", label=f"formula: {access.name}")
        alone = f"{access.name}, one at a time at {LATENCY}: clocks"
        over = known[f"G_BINARY, {alone} over {PLAIN}"]
        share = 100 * over / known[f"{PLAIN}, {alone}"]
        axes.plot([LATENCY], [share], marker, color=line.get_color(), label="measured, G_BINARY")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("memory latency, clocks")
    axes.set_ylabel("exposed overhead, %")
    axes.legend(frameon=False)


def _case(
    known: Mapping[str, float], mode: str, pattern: str, link: str, beat: int
) -> float | None:
    slow = f", {beat} clocks a beat" if beat > 1 else ""
    return known.get(
        f"{mode}, {pattern}, full credits, {link}{slow} at {LATENCY}: clocks an access"
    )


def _beats(axes: Axes, known: Mapping[str, float]) -> None:
    styles = {PLAIN: ":", "G_BINARY": "-", "FP32": "--"}
    for number, (name, pattern) in enumerate(PATTERNS.items()):
        for mode in MODES:
            values = [_case(known, mode, pattern, "x16", beat) for beat in BEATS]
            points = [(b, v) for b, v in zip(BEATS, values, strict=True) if v is not None]
            if points:
                xs, ys = zip(*points, strict=True)
                label = f"{name}, {mode}"
                axes.plot(xs, ys, styles[mode], marker=".", color=f"C{number}", label=label)
    axes.set_xticks(BEATS)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("clocks of a memory beat of 64 bytes")
    axes.set_ylabel("clocks an access")
    axes.legend(frameon=False, fontsize=8)


def _links(axes: Axes, known: Mapping[str, float]) -> None:
    names, series = [], {mode: list[float | None]() for mode in MODES}
    for name, pattern in PATTERNS.items():
        for link in ("x16", "x4"):
            names.append(f"{name}, {link}")
            for mode in MODES:
                clocks = _case(known, mode, pattern, link, 1)
                series[mode].append(None if clocks is None else LINKS[link] / clocks)
    _bars(axes, "accesses in the time of a flit", names, series, "{:.2f}")


PLOTS = typed(dict[str, AcceptedPlot], parse_toml(read_text(FILE)))
_PAINTERS = {"stages": _stages, "latency": _latency, "beats": _beats, "links": _links}
"""Painters of the plots that are not bars of accepted values."""


def draw(name: str) -> str:
    """Return the SVG of a plot, with commit, date and set-up below it.

    Raises:
        NfError: a figure of the plot was not accepted.
    """
    plot = PLOTS[name]

    def paint(figure: Figure) -> None:
        known, origin = baseline.read()[plot.result], baseline.origin()[plot.result]
        _PAINTERS.get(name, plot.paint)(figure.add_subplot(), known)
        text = f"accepted {origin['date']}, commit {origin['commit']}; {plot.set_up}"
        figure.supxlabel(text, fontsize=8)

    try:
        return render(paint, (9, plot.high))
    except KeyError as error:
        raise NfError(
            f"plot {name}: no accepted figure {error}; accept it, or mend {FILE.name}."
        ) from None

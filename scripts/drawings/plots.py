# SPDX-License-Identifier: Apache-2.0
"""Plots of the accepted figures, each with commit, date and set-up (see `scripts/figures`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import StrMethodFormatter

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

ROUTES = ("G_BINARY vote", "G_TERN5 vote", "G_TERNARY vote", "G_INT4 SUM8", "G_INT8 SUM16")
NETWORKS = {
    "ResNet-18, CIFAR-10": "ResNet-18 (CIFAR stem, 10 classes)",
    "DistilBERT": "DistilBERT (2 classes)",
    "ResNet-50, ImageNet": "ResNet-50 (ImageNet)",
    "LM, 1.3 B parameters": "LM 1.3 B (24 layers, width 2,048, tied head)",
}
PARTS = {
    "engine": "engine, ECP5 mapped fast: LUTs",
    "of it: low-bit datapath": "low-bit datapath in the engine, ECP5 mapped fast: LUTs",
    "FP32 path": "FP32 path, ECP5 mapped fast: LUTs",
    "link": "link, ECP5 mapped fast: LUTs",
    "regions and status": "regions and status, ECP5 mapped fast: LUTs",
    "registers": "registers, ECP5 mapped fast: LUTs",
    "memory ports": "memory ports, ECP5 mapped fast: LUTs",
    "without aggregation, whole": "controller without aggregation, ECP5 mapped fast: LUTs",
    "whole controller": "whole controller, ECP5 mapped fast: LUTs",
}
DATAPATH = {
    "16 FP32 adders (yardstick)": "16-lane FP32 adder datapath, ECP5: LUTs",
    "votes and integer sums": "low-bit datapath, ECP5: LUTs",
    "votes alone": "low-bit datapath without integer sums, ECP5: LUTs",
}
CLOCKS = {
    "link": "link, ECP5 for short paths: Fmax, MHz",
    "engine, narrow": "engine, 128 columns, 16 slots, ECP5 for short paths: Fmax, MHz",
    "low-bit datapath": "low-bit datapath, ECP5: Fmax, MHz",
    "the same without integer sums": "low-bit datapath without integer sums, ECP5: Fmax, MHz",
    "the same, 64 columns": "low-bit datapath without integer sums, 64 columns, ECP5: Fmax, MHz",
    "FP32 path: stores": "FP32 path, stores, ECP5 for short paths: Fmax, MHz",
    "FP32 path: gathers": "FP32 path, gathers, ECP5 for short paths: Fmax, MHz",
    "16 FP32 adders (yardstick)": "16-lane FP32 adder datapath, ECP5: Fmax, MHz",
}
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
    """Plot of a result.

    Attributes:
        result: name of the result in the baseline.
        set_up: set-up in one line.
        paint: draws on axes, from the values of the result by name.
        high: height in inches.
    """

    result: str
    set_up: str
    paint: Callable[[Axes, Mapping[str, float]], None]
    high: float = 3.6


def _bars(axes: Axes, x: str, names: Sequence[str], series: Bars, digits: str = "{:,.0f}") -> None:
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


def _bytes(axes: Axes, known: Mapping[str, float]) -> None:
    series = {
        name: [
            known[f"{network}, {route}, head in FP32: payload both ways, % of FP32"]
            for route in ROUTES
        ]
        for name, network in NETWORKS.items()
    }
    _bars(axes, "payload both ways, % of FP32", ROUTES, series, "{:.1f}")


def _extra(axes: Axes, known: Mapping[str, float]) -> None:
    series: dict[str, list[float | None]] = {}
    for mode in ("G_BINARY", "G_TERNARY", "G_INT8", "FP32"):
        series[mode] = [
            None
            if mode == "FP32" and access.worker is None
            else known[f"{mode}, {access.name}, one at a time at {LATENCY}: clocks over {PLAIN}"]
            for access in ACCESSES
        ]
    _bars(axes, "clocks over plain memory", [access.name for access in ACCESSES], series, "{:g}")


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


def _named(names: Mapping[str, str], x: str) -> Callable[[Axes, Mapping[str, float]], None]:
    """Return a painter of one bar for each name."""

    def paint(axes: Axes, known: Mapping[str, float]) -> None:
        _bars(axes, x, list(names), {x: [known[key] for key in names.values()]})

    return paint


_DEVICE = f"default parameters, Verilator, memory latency {LATENCY}"
_FULL = f"{_DEVICE}, full credits"
PLOTS: dict[str, AcceptedPlot] = {
    "bytes": AcceptedPlot("traffic", "8 workers, head and scales in FP32 included", _bytes, 5.4),
    "extra-clocks": AcceptedPlot("timing", f"{_DEVICE}, one access at a time, all miss", _extra, 5),
    "stages": AcceptedPlot("timing", f"{_DEVICE}, one access at a time, G_BINARY", _stages),
    "latency": AcceptedPlot("timing", f"{_DEVICE} for marks, one access at a time", _latency, 4),
    "beats": AcceptedPlot("timing", f"{_FULL}, x16", _beats, 4.6),
    "links": AcceptedPlot("timing", f"{_FULL}, 1 clock a beat", _links, 4.6),
    "area": AcceptedPlot("synth", "yosys for ECP5, mapped fast", _named(PARTS, "LUTs"), 4),
    "datapath": AcceptedPlot(
        "synth", "yosys for ECP5, a line a clock", _named(DATAPATH, "LUTs"), 2.2
    ),
    "clock": AcceptedPlot(
        "synth", "yosys and nextpnr for ECP5-85k, each part alone", _named(CLOCKS, "Fmax, MHz"), 4
    ),
}


def draw(name: str) -> str:
    """Return the SVG of a plot, with commit, date and set-up below it."""
    plot = PLOTS[name]
    known, origin = baseline.read()[plot.result], baseline.origin()[plot.result]
    text = f"accepted {origin['date']}, commit {origin['commit']}; {plot.set_up}"

    def paint(figure: Figure) -> None:
        plot.paint(figure.add_subplot(), known)
        figure.supxlabel(text, fontsize=8)

    return render(paint, (9, plot.high))

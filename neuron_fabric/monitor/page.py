# SPDX-License-Identifier: Apache-2.0
"""HTML report of a monitored run: one file, no script, no network access.

Spec: runtime section 4.4. `page.html.j2` draws the charts as SVG. The meaning of a mark in words is
its `<title>`, which browsers show and screen readers read. The page is well-formed XML too, so that
a test without a browser can check it; the template escapes every text that comes from a log.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from neuron_fabric.monitor.consensus import least_of
from neuron_fabric.monitor.log import Segment, Step, bytes_by_route, last_run, loss_off, reason
from neuron_fabric.monitor.states import Decision, Mode, Status
from neuron_fabric.printable import one_line

STYLE, TEMPLATE = (Path(__file__).with_name(name) for name in ("page.css", "page.html.j2"))
LEFT, RIGHT, TOP, BOTTOM = 54.0, 10.0, 18.0, 22.0
"""Margins of a chart in SVG units; axis labels are drawn there."""
CAPITAL_WIDTH = 8
"""Width of a capital letter in SVG units: a narrower band gets no label."""
_BARS = 160
Point = tuple[float, float]
Steps = tuple[int, int]
"""First step, and one more than the last step."""
Band = tuple[str, int, int]
"""State, its first step, and one more than its last step."""


@dataclass(frozen=True)
class Chart:
    """Chart over a range of ``x`` and of ``y``, drawn as SVG by the template.

    Attributes:
        label: Description for screen readers.
        x: First and last value of the horizontal axis.
        y: First and last value of the vertical axis.
        width: Width in SVG units, with the margins.
        height: Height in SVG units, with the margins.
        most_ticks: Greatest number of intervals on the horizontal axis.
        scale: Whether the vertical axis has numbers; False for a chart without values.
        kind: CSS class of the line and the dots.
        line: Points of a line, from left to right.
        dots: Points with their value in words.
        bands: States over the whole height.
        limits: Horizontal lines: value, CSS class, name.
        boxes: Ranges of x and y, CSS class, words.
    """

    label: str
    x: Point
    y: Point
    width: float = 400.0
    height: float = 170.0
    most_ticks: int = 4
    scale: bool = True
    kind: str = "cosine"
    line: Sequence[Point] = ()
    dots: Sequence[Point] = ()
    bands: Sequence[Band] = ()
    limits: Sequence[tuple[float, str, str]] = ()
    boxes: Sequence[tuple[Point, Point, str, str]] = ()

    def across(self, x: float) -> float:
        """Return the horizontal position of a value in SVG units, clipped to the axis."""
        return round(LEFT + _share(x, self.x) * (self.width - LEFT - RIGHT), 1)

    def down(self, y: float) -> float:
        """Return the vertical position of a value in SVG units, clipped to the axis."""
        return round(TOP + (1 - _share(y, self.y)) * (self.height - TOP - BOTTOM), 1)

    def has_room(self, name: str, first: float, last: float) -> bool:
        """Return whether a band from ``first`` to ``last`` is wide enough for its label."""
        return self.across(last) - self.across(first) > CAPITAL_WIDTH * len(name)

    @staticmethod
    def ticks(ends: Point, most: int) -> list[float]:
        """Return at most ``most`` + 1 round numbers between ``ends``, for the marks of an axis.

        The step is 1, 2 or 5 times a power of 10: the least of these that gives few enough
        intervals.
        """
        first, last = ends
        if not 0 < last - first < math.inf:
            return [first]
        step = 10.0 ** math.floor(math.log10((last - first) / most))
        step *= next(one for one in (1, 2, 5, 10) if (last - first) / (step * one) <= most)
        number = math.ceil(first / step - 1e-9)
        count = min(math.floor(last / step + 1e-9) - number, most) + 1
        return [round((number + n) * step, 12) for n in range(count)]


def _share(value: float, ends: Point) -> float:
    first, last = ends
    if not last > first or not math.isfinite(value):
        return 0.0
    return min(max((value - first) / (last - first), 0.0), 1.0)


def short(value: float) -> str:
    """Return the text of a number with three digits and a unit prefix: 1.2 M, 34 k, 0.35."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"


def thinned(points: Sequence[Point], most: int = 600) -> list[Point]:
    """Return about ``most`` of the points: the lowest and the highest of each interval.

    This keeps every spike. All points are returned if there are few enough.
    """
    if len(points) <= most:
        return list(points)
    size = -(-len(points) // max(1, most // 2))
    out: list[Point] = []
    for at in range(0, len(points), size):
        part = points[at : at + size]
        ends = {min(part, key=lambda one: one[1]), max(part, key=lambda one: one[1])}
        out += sorted(ends)
    return out


def spread(values: Sequence[float], room: float = 0.05) -> Point:
    """Return the (first, last) value of an axis that shows ``values``, with margins.

    If the greatest value is more than 8 times as far above the median as the 98th percentile is
    above the least value, the axis is cut, so that an outlier does not flatten the curve.
    """
    if not values:
        return 0.0, 1.0
    ordered = sorted(values)
    low, high = ordered[0], ordered[-1]
    usual = ordered[int(0.98 * (len(ordered) - 1))]
    middle = ordered[len(ordered) // 2]
    if high - middle > 8 * (usual - low):
        high = usual + 2 * (usual - low)
    gap = (high - low) * room or abs(high) * room or 1.0
    return low - gap, high + gap


def rendered(template: Path, **values: object) -> str:
    """Return the text of a template; every value that it prints is one line, and escaped."""
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: value if hasattr(value, "__html__") else one_line(value, 400),
    )
    environment.filters |= {"short": short, "reason": reason}
    return environment.from_string(template.read_text(encoding="utf-8")).render(**values)


def page(segments: Sequence[Segment]) -> str:
    """Return the HTML text of the report on the last training in a log."""
    parts = last_run(segments)
    run = parts[-1].run
    steps = [step for part in parts for step in part.steps]
    decisions = [one for part in parts for one in part.decisions]
    ends = (steps[0].step, steps[-1].step + 1) if steps else (0, 1)
    modes = Counter(step.mode for step in steps)
    total = bytes_by_route(steps)
    routes = {route: f"r{number % 5}" for number, route in enumerate(total)}
    verified = "unverified: every region had to pass PROBE" if run.plan.unverified else "used"
    about = {
        "fingerprint": run.fingerprint,
        "warm-up": f"{run.plan.warmup} steps",
        "profile": verified,
        "signals off": ", ".join([*map(str, run.plan.off), *loss_off(parts[-1])]) or "none",
    }
    return rendered(
        TEMPLATE,
        title=parts[0].run.profile or "a run",
        style=STYLE.read_text(encoding="utf-8"),
        run=run,
        steps=len(steps),
        falls=sum(one.target == Mode.FALLBACK for one in decisions),
        modes={mode: count / len(steps) for mode, count in modes.items()},
        end=parts[-1].end,
        loss=_loss(steps, ends),
        job_states={one: one for one in Mode},
        cosines=list(_cosines(parts, decisions, ends)),
        region_states={one: one for one in Status},
        agreements=list(_agreements(parts, ends)),
        traffic=_traffic(steps, ends, routes) if any(map(sum, total.values())) else {},
        routes=routes,
        bytes=total,
        decisions=decisions,
        about={**about, **run.about},
    )


def _loss(steps: list[Step], ends: Steps) -> Chart:
    points = [(float(one.step), one.loss) for one in steps if one.loss is not None]
    return Chart(
        "loss by step, states as bands" if points else "states by step",
        ends,
        spread([loss for _, loss in points]),
        820.0,
        230.0 if points else 70.0,
        8,
        scale=bool(points),
        kind="loss",
        line=thinned(points),
        bands=runs_of((one.step, one.mode) for one in steps),
    )


def runs_of(values: Iterable[tuple[int, str]]) -> list[Band]:
    """Return the intervals of consecutive steps with equal state, from (step, state) pairs."""
    out = []
    for value, group in groupby(values, key=lambda one: one[1]):
        numbers = [step for step, _ in group]
        out.append((value, numbers[0], numbers[-1] + 1))
    return out


def _cosines(
    parts: Sequence[Segment], decisions: list[Decision], ends: Steps
) -> Iterator[tuple[str, str, Chart]]:
    limits = parts[-1].run.plan.limits
    samples = [one for part in parts for one in part.samples]
    for region in parts[-1].run.plan.regions:
        name = region.name
        points = [(float(step), found[name]) for step, found in samples if name in found]
        if not points:
            continue
        chart = Chart(
            f"cosine of {name}",
            ends,
            (min(0.0, *(value for _, value in points)), 1.0),
            line=thinned(points, 300),
            dots=thinned(points, 120),
            bands=statuses(name, decisions, ends),
            limits=(
                (limits.drop, "drop", f"drop {limits.drop:g}"),
                (limits.floor, "floor", f"at once {limits.floor:g}"),
                (limits.good, "good", f"good {limits.good:g}"),
            ),
        )
        yield name, f"{region.elements:,} elements, last {points[-1][1]:.3f}", chart


def _agreements(parts: Sequence[Segment], ends: Steps) -> Iterator[tuple[str, str, Chart]]:
    against = parts[-1].run.plan.limits.against_in
    for region in parts[-1].run.plan.regions:
        found = list(_least(parts, f"{region.name}.agreement"))
        if not found:
            continue
        values = [value for _, value, _ in found]
        chart = Chart(
            f"least agreement of {region.name}",
            ends,
            (min(-2 * against, *values), max(2 * against, *values)),
            line=thinned([(step, value) for step, value, _ in found], 300),
            limits=((-against, "drop", f"against {-against:g}"),),
        )
        yield region.name, f"last {values[-1]:.3f}, worker {found[-1][2]}", chart


def _least(parts: Sequence[Segment], field: str) -> Iterator[tuple[float, float, int]]:
    """Yield (step, value, worker) of a minimum over the ranks, ``field`` of the log.

    Steps without it, as in older logs, are left out.
    """
    for part in parts:
        if field not in part.run.fields:
            continue
        at = part.run.fields.index(field)
        for step in part.steps:
            value, worker = least_of(step.vector[at])
            if value is not None:
                yield float(step.step), value, worker


def statuses(region: str, decisions: Iterable[Decision], ends: Steps) -> list[Band]:
    """Return the states of a profile region over a run, as bands of steps.

    A FALLBACK of the job returns all low-bit regions to FP32 without a decision of the region.
    """
    out: list[Band] = []
    now, since = str(Status.FP32), ends[0]
    for one in decisions:
        fell = not one.region and one.target in (Mode.FALLBACK, Mode.LOCKED_FP32)
        target = one.target if one.region == region and one.target in list(Status) else now
        if fell and now in (Status.LOW, Status.PROBE):
            target = Status.FP32
        if target != now:
            out.append((now, since, one.step + 1))
            now, since = str(target), one.step + 1
    return [one for one in [*out, (now, since, ends[1])] if one[2] > one[1]]


def _traffic(steps: list[Step], ends: Steps, routes: dict[str, str]) -> dict[str, Chart]:
    """Return two charts of rank 0's mean bytes per step by route: "sent" and "received".

    Both have the same vertical scale.
    """
    size = max(1, -(-len(steps) // _BARS))
    parts = [steps[at : at + size] for at in range(0, len(steps), size)]

    def mean(part: list[Step], route: str, way: int) -> float:
        return sum(one.bytes.get(route, (0, 0))[way] for one in part) / len(part)

    most = max(sum(mean(part, route, way) for route in routes) for part in parts for way in (0, 1))
    charts = {}
    for way, name in enumerate(("sent", "received")):
        boxes = []
        for part in parts:
            first, last, low = part[0].step, part[-1].step, 0.0
            for route, kind in routes.items():
                here = mean(part, route, way)
                what = f"steps {first} to {last}: {short(here)}B a step {name}, {route}"
                boxes.append(((first, last + 1), (low, low + here), kind, what))
                low += here
        charts[name] = Chart(
            f"bytes a step {name}, by route",
            ends,
            (0.0, most * 1.05),
            820.0,
            160.0,
            8,
            boxes=boxes,
        )
    return charts

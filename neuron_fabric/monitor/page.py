# SPDX-License-Identifier: Apache-2.0
"""HTML report of a run: one file, no script, no network access (spec: runtime section 4.4).

Charts are SVG texts. The meaning of a mark in words is its `<title>`, which browsers show and
screen readers read. The page is well-formed XML too, so that a test without a browser can check
it; `markup` and `Axes` escape every text that comes from a log.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path

from neuron_fabric.errors import one_line
from neuron_fabric.monitor.consensus import least_of
from neuron_fabric.monitor.log import Segment, Step, bytes_by_route, last_run, loss_off, reason
from neuron_fabric.monitor.states import Decision, Mode, Status

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
STYLE = Path(__file__).with_name("page.css")
LEFT, RIGHT, TOP, BOTTOM = 54.0, 10.0, 18.0, 22.0
"""Margins of a chart in SVG units; axis labels are drawn there."""
CAPITAL_WIDTH = 8
"""Width of a capital letter in SVG units: a narrower band gets no label."""
_BARS = 160
_MOST_ROWS = 2000
_TEMPLATE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta http-equiv="Content-Security-Policy" content="{policy}"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta name="color-scheme" content="light dark"/>
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""
Point = tuple[float, float]
Steps = tuple[int, int]
"""First step, and one more than the last step."""


def markup(value: object) -> str:
    """Return a text without markup and without characters that XML does not allow."""
    return escape(one_line(value, 400))


@dataclass(frozen=True)
class Axes:
    """A chart over a range of ``x`` and of ``y``.

    Attributes:
        x: First and last value of the horizontal axis.
        y: The same of the vertical axis.
        width: Size in SVG units, with the margins.
        height: The same.
        ticks: Greatest number of intervals on the horizontal axis.
        scale: Whether the vertical axis has numbers; False for a chart without values.
    """

    x: Point
    y: Point
    width: float = 820.0
    height: float = 230.0
    ticks: int = 8
    scale: bool = True

    def at(self, x: float, y: float) -> Point:
        """Return the place of a value; a value outside the ranges is drawn on the edge."""
        across = _share(x, self.x) * (self.width - LEFT - RIGHT)
        down = (1 - _share(y, self.y)) * (self.height - TOP - BOTTOM)
        return round(LEFT + across, 1), round(TOP + down, 1)

    def draw(self, label: str, *parts: str) -> str:
        """Return the whole figure; screen readers read ``label``."""
        head = f'<svg viewBox="0 0 {self.width:g} {self.height:g}" role="img" '
        head += f'aria-label="{markup(label)}">'
        lines = [f"<figure>{head}", *filter(None, parts), *self._axes(), "</svg></figure>"]
        return "\n".join(lines)

    def _axes(self) -> list[str]:
        left, bottom = self.at(self.x[0], self.y[0])
        right, top = self.at(self.x[1], self.y[1])
        out = [f'<path class="axis" d="M{left} {top}V{bottom}H{right}"/>']
        for value in ticks(*self.x, self.ticks):
            out.append(_label(self.at(value, self.y[0])[0], bottom + 15, "middle", f"{value:,g}"))
        for value in ticks(*self.y, 4) if self.scale else ():
            y = self.at(self.x[0], value)[1]
            out.append(f'<path class="grid" d="M{left} {y}H{right}"/>')
            out.append(_label(left - 5, y + 4, "end", short(value)))
        return out

    def line(self, points: Sequence[Point], kind: str) -> str:
        """Draw a line through ``points``, which are ordered from left to right."""
        if not points:
            return ""
        path = "L".join("{} {}".format(*self.at(*point)) for point in points)
        return f'<path class="{kind}" d="M{path}"/>'

    def dots(self, points: Iterable[Point], kind: str, what: str) -> str:
        """Draw a dot for each point, with its value in words."""
        out = []
        for x, y in points:
            cx, cy = self.at(x, y)
            title = f"<title>{markup(f'step {x:g}: {what} {y:.3f}')}</title>"
            out.append(f'<circle class="{kind}" cx="{cx}" cy="{cy}" r="2.5">{title}</circle>')
        return "\n".join(out)

    def level(self, value: float, kind: str, label: str, *, left: bool = False) -> str:
        """Draw a limit: a horizontal line with its name at the right end, or at the left one."""
        if not self.y[0] <= value <= self.y[1]:
            return ""
        start, y = self.at(self.x[0], value)
        end, _ = self.at(self.x[1], value)
        place = (start + 3, y - 3, "start") if left else (end, y - 3, "end")
        return f'<path class="{kind}" d="M{start} {y}H{end}"/>{_label(*place, label)}'

    def band(self, name: str, first: float, last: float) -> str:
        """Draw a state from step ``first`` to ``last`` over the whole height."""
        words = f"{name}: steps {first:g} to {last:g}"
        out = self.bar((first, last), self.y, f"band {markup(name)}", words)
        x, end = self.at(first, 0)[0], self.at(last, 0)[0]
        if end - x > CAPITAL_WIDTH * len(name):
            out += _label(x + 3, TOP - 5, "start", name)
        return out

    def bar(self, x: Point, y: Point, kind: str, what: str) -> str:
        """Draw a box over the ranges ``x`` and ``y``."""
        left, top = self.at(x[0], y[1])
        right, bottom = self.at(x[1], y[0])
        size = f'width="{max(round(right - left, 1), 0.5)}" height="{round(bottom - top, 1)}"'
        title = f"<title>{markup(what)}</title>"
        return f'<rect class="{kind}" x="{left}" y="{top}" {size}>{title}</rect>'


def _share(value: float, ends: Point) -> float:
    first, last = ends
    if not last > first or not math.isfinite(value):
        return 0.0
    return min(max((value - first) / (last - first), 0.0), 1.0)


def _label(x: float, y: float, anchor: str, words: str) -> str:
    place = f'x="{round(x, 1)}" y="{round(y, 1)}"'
    return f'<text {place} text-anchor="{anchor}">{markup(words)}</text>'


def ticks(first: float, last: float, most: int) -> list[float]:
    """Return at most ``most`` + 1 round numbers from ``first`` to ``last``.

    The step is 1, 2 or 5 times a power of 10: the least of these that gives few enough intervals.
    """
    if not 0 < last - first < math.inf:
        return [first]
    step = 10.0 ** math.floor(math.log10((last - first) / most))
    step *= next(one for one in (1, 2, 5, 10) if (last - first) / (step * one) <= most)
    number = math.ceil(first / step - 1e-9)
    out: list[float] = []
    while number * step <= last + 1e-9 * step and len(out) <= most:
        out.append(round(number * step, 12))
        number += 1
    return out


def short(value: float) -> str:
    """Return a number with three digits and a unit: 1.2 M, 34 k, 0.35."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"


def thinned(points: Sequence[Point], most: int = 600) -> list[Point]:
    """Return at most ``most`` points: the least and the greatest of each interval, which keeps
    every spike."""
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
    """Return the ends of an axis for ``values``.

    Where the greatest value is more than 8 times as far above the median as the 98th percentile
    is above the least value, the axis is cut, so that an outlier does not flatten the curve.
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


def page(segments: Sequence[Segment]) -> str:
    """Return the page of the last run of a log."""
    parts = last_run(segments)
    steps = [step for part in parts for step in part.steps]
    decisions = [one for part in parts for one in part.decisions]
    ends = (steps[0].step, steps[-1].step + 1) if steps else (0, 1)
    sections = {
        "Loss and states": _loss(steps, ends) + _legend({one: one for one in Mode}),
        "Sampled cosines": _cosines(parts, decisions, ends),
        "Agreement of the worker that agrees least": _agreements(parts, ends),
        "Bytes a step, by route": _bytes(steps, ends),
        "Decisions": _decisions(decisions),
        "About": _about(parts[-1]),
    }
    body = [_numbers(parts, steps, decisions)]
    body += [f"<section><h2>{name}</h2>\n{one}\n</section>" for name, one in sections.items()]
    return _TEMPLATE.format(
        policy=POLICY,
        title=markup(parts[0].run.profile or "a run"),
        style=STYLE.read_text(encoding="utf-8"),
        body="\n".join(body),
    )


def _hint(words: str) -> str:
    return f'<p class="hint">{words}</p>'


def _legend(kinds: Mapping[str, str]) -> str:
    """Return the legend of a chart from names and the class of their colour."""
    spans = "".join(
        f'<span><svg class="key" viewBox="0 0 10 10" aria-hidden="true"><rect class="{kind}" '
        f'width="10" height="10"/></svg> {markup(name)}</span>'
        for name, kind in kinds.items()
    )
    return f'<p class="legend">{spans}</p>'


def _table(head: str, rows: Iterable[str]) -> str:
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    thead = f"<thead><tr>{head}</tr></thead>" if head else ""
    return f"<table>{thead}<tbody>{body}</tbody></table>"


def _numbers(parts: Sequence[Segment], steps: list[Step], decisions: list[Decision]) -> str:
    run, ended = parts[-1].run, parts[-1].end
    modes = Counter(step.mode for step in steps)
    falls = sum(one.target == Mode.FALLBACK for one in decisions)
    words = [
        f"<b>{len(steps):,}</b> steps",
        f"<b>{run.world}</b> ranks",
        f"<b>{len(run.plan.regions)}</b> regions, {len(run.plan.eligible)} may be low-bit",
        f"<b>{falls}</b> fallbacks",
        *(f"{markup(mode)} <b>{100 * n / len(steps):.1f} %</b>" for mode, n in modes.items()),
    ]
    note = "" if ended in (None, "closed") else f"<p><b>Ended: {markup(ended)}</b></p>"
    spans = "".join(f"<span>{one}</span>" for one in words)
    return f'<p class="numbers">{spans}</p>{note}'


def _loss(steps: list[Step], ends: Steps) -> str:
    if not steps:
        return _hint("No step was recorded.")
    points = [(float(one.step), one.loss) for one in steps if one.loss is not None]
    height = 230.0 if points else 70.0
    axes = Axes(ends, spread([loss for _, loss in points]), height=height, scale=bool(points))
    bands = [axes.band(*one) for one in runs_of((one.step, one.mode) for one in steps)]
    label = "loss by step, states as bands" if points else "states by step"
    drawn = axes.draw(label, *bands, axes.line(thinned(points), "loss"))
    return drawn if points else drawn + _hint("No loss was observed: its signals were off.")


def runs_of(values: Iterable[tuple[int, str]]) -> list[tuple[str, int, int]]:
    """Return the intervals of equal value: the value, its first step, one more than its last."""
    out = []
    for value, group in groupby(values, key=lambda one: one[1]):
        numbers = [step for step, _ in group]
        out.append((value, numbers[0], numbers[-1] + 1))
    return out


def _panel(region: str, about: str, drawn: str) -> str:
    return f"<div><h3>{markup(region)}</h3>{_hint(about)}{drawn}</div>"


def _cosines(parts: Sequence[Segment], decisions: list[Decision], ends: Steps) -> str:
    limits, out = parts[-1].run.plan.limits, []
    samples = [one for part in parts for one in part.samples]
    for region in parts[-1].run.plan.regions:
        name = region.name
        points = [(float(step), found[name]) for step, found in samples if name in found]
        if not points:
            continue
        axes = Axes(ends, (min(0.0, *(value for _, value in points)), 1.0), 400.0, 170.0, ticks=4)
        drawn = axes.draw(
            f"cosine of {name}",
            *(axes.band(*one) for one in statuses(name, decisions, ends)),
            axes.level(limits.drop, "drop", f"drop {limits.drop:g}"),
            axes.level(limits.floor, "floor", f"at once {limits.floor:g}"),
            axes.level(limits.good, "good", f"good {limits.good:g}", left=True),
            axes.line(thinned(points, 300), "cosine"),
            axes.dots(thinned(points, 120), "cosine", "cosine"),
        )
        out.append(_panel(name, f"{region.elements:,} elements, last {points[-1][1]:.3f}", drawn))
    if not out:
        return _hint("Nothing was sampled.")
    return f'<div class="many">{"".join(out)}</div>' + _legend({one: one for one in Status})


def _agreements(parts: Sequence[Segment], ends: Steps) -> str:
    against, out = parts[-1].run.plan.limits.against_in, []
    for region in parts[-1].run.plan.regions:
        found = list(_least(parts, f"{region.name}.agreement"))
        if not found:
            continue
        points = [(step, value) for step, value, _ in found]
        values = [value for _, value in points]
        y = min(-2 * against, *values), max(2 * against, *values)
        axes = Axes(ends, y, 400.0, 170.0, ticks=4)
        drawn = axes.draw(
            f"least agreement of {region.name}",
            axes.level(-against, "drop", f"against {-against:g}"),
            axes.line(thinned(points, 300), "cosine"),
        )
        about = f"last {values[-1]:.3f}, worker {found[-1][2]}"
        out.append(_panel(region.name, about, drawn))
    return f'<div class="many">{"".join(out)}</div>' if out else _hint("No votes were compared.")


def _least(parts: Sequence[Segment], field: str) -> Iterable[tuple[float, float, int]]:
    """Yield step, value and worker of a minimum over the ranks; older logs do not have one."""
    for part in parts:
        if field not in part.run.fields:
            continue
        at = part.run.fields.index(field)
        for step in part.steps:
            value, worker = least_of(step.vector[at])
            if value is not None:
                yield float(step.step), value, worker


def statuses(region: str, decisions: Iterable[Decision], ends: Steps) -> list[tuple[str, int, int]]:
    """Return the states of a region over a run.

    A FALLBACK of the job returns all low-bit regions to FP32 without a decision of the region.
    """
    out: list[tuple[str, int, int]] = []
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


def _bytes(steps: list[Step], ends: Steps) -> str:
    """Draw mean bytes a step of rank 0 by route, sent and received in two charts of one scale."""
    total = bytes_by_route(steps)
    if not any(map(sum, total.values())):
        return _hint("No bytes were counted.")
    size = max(1, -(-len(steps) // _BARS))
    parts = [steps[at : at + size] for at in range(0, len(steps), size)]

    def mean(part: list[Step], route: str, way: int) -> float:
        return sum(one.bytes.get(route, (0, 0))[way] for one in part) / len(part)

    most = max(sum(mean(part, route, way) for route in total) for part in parts for way in (0, 1))
    axes = Axes(ends, (0.0, most * 1.05), height=160.0)
    kinds = {route: f"r{number % 5}" for number, route in enumerate(total)}
    out = []
    for way, name in enumerate(("sent", "received")):
        bars = []
        for part in parts:
            first, last, low = part[0].step, part[-1].step, 0.0
            for route, kind in kinds.items():
                here = mean(part, route, way)
                what = f"steps {first} to {last}: {short(here)}B a step {name}, {route}"
                bars.append(axes.bar((first, last + 1), (low, low + here), kind, what))
                low += here
        out.append(f"<h3>{name}</h3>{axes.draw(f'bytes a step {name}, by route', *bars)}")
    out.append(_legend(kinds))
    rows = (
        f'<th scope="row">{markup(route)}</th><td class="n">{up:,}</td><td class="n">{down:,}</td>'
        for route, (up, down) in total.items()
    )
    head = '<th>route</th><th class="n">bytes sent</th><th class="n">received</th>'
    return "".join(out) + _table(head, rows)


def _decisions(decisions: list[Decision]) -> str:
    if not decisions:
        return _hint("None.")
    rows = (
        f'<td class="n">{one.step}</td><td>{markup(one.region or "job")}</td>'
        f"<td>{markup(one.source)} → <b>{markup(one.target)}</b></td><td>{markup(reason(one))}</td>"
        for one in decisions[:_MOST_ROWS]
    )
    more = len(decisions) - _MOST_ROWS
    note = _hint(f"... and {more:,} more.") if more > 0 else ""
    head = '<th class="n">step</th><th>who</th><th>from, to</th><th>why</th>'
    return _table(head, rows) + note


def _about(segment: Segment) -> str:
    run = segment.run
    off = [*map(str, run.plan.off), *loss_off(segment)]
    rows = {
        "fingerprint": run.fingerprint,
        "warm-up": f"{run.plan.warmup} steps",
        "profile": "unverified: every region had to pass PROBE" if run.plan.unverified else "used",
        "signals off": ", ".join(off) or "none",
        **run.about,
    }
    cells = (
        f'<th scope="row">{markup(key)}</th><td>{markup(value)}</td>'
        for key, value in rows.items()
        if value
    )
    return _table("", cells)

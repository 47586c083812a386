# SPDX-License-Identifier: Apache-2.0
"""Small charts as SVG texts: axes, lines, bands, stacked bars. Nothing of them needs a script; what
a mark means in words is its `<title>`, which browsers show and screen readers read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from neuron_fabric.errors import one_line

Point = tuple[float, float]
LEFT, RIGHT, TOP, BOTTOM = 54.0, 10.0, 18.0, 22.0


@dataclass(frozen=True)
class Axes:
    """A chart of ``width`` x ``height`` over the values ``x`` and ``y``, each from, to. ``scale``:
    whether ``y`` has numbers: not where there are no values."""

    x: tuple[float, float]
    y: tuple[float, float]
    width: float = 820.0
    height: float = 230.0
    ticks: int = 8
    scale: bool = True

    def at(self, x: float, y: float) -> Point:
        """Where a value lies; what is outside lies on the edge."""
        across = _share(x, self.x) * (self.width - LEFT - RIGHT)
        down = (1 - _share(y, self.y)) * (self.height - TOP - BOTTOM)
        return round(LEFT + across, 1), round(TOP + down, 1)

    def draw(self, label: str, *parts: str) -> str:
        """The whole image; ``label`` says what it shows."""
        size = f"0 0 {self.width:g} {self.height:g}"
        head = f'<svg viewBox="{size}" role="img" aria-label="{_safe(label)}">'
        return "\n".join([head, *filter(None, parts), self._axes(), "</svg>"])

    def _axes(self) -> str:
        left, bottom = self.at(self.x[0], self.y[0])
        right, top = self.at(self.x[1], self.y[1])
        out = [f'<path class="axis" d="M{left} {top}V{bottom}H{right}"/>']
        for value in ticks(*self.x, self.ticks):
            x, y = self.at(value, self.y[0])
            out.append(_text(x, y + 15, "middle", f"{value:,g}"))
        for value in ticks(*self.y, 4) if self.scale else ():
            x, y = self.at(self.x[0], value)
            out.append(f'<path class="grid" d="M{x} {y}H{right}"/>')
            out.append(_text(x - 5, y + 4, "end", short(value)))
        return "\n".join(out)

    def line(self, points: Sequence[Point], kind: str) -> str:
        """A line through ``points``, left to right."""
        if not points:
            return ""
        path = "L".join("{} {}".format(*self.at(*point)) for point in points)
        return f'<path class="{_safe(kind)}" d="M{path}"/>'

    def dots(self, points: Iterable[Point], kind: str, what: str) -> str:
        """A dot a point, each with its value in words."""
        out = []
        for x, y in points:
            cx, cy = self.at(x, y)
            words = _safe(f"step {x:g}: {what} {y:.3f}")
            dot = f'<circle class="{_safe(kind)}" cx="{cx}" cy="{cy}" r="2.5">'
            out.append(f"{dot}<title>{words}</title></circle>")
        return "\n".join(out)

    def level(self, value: float, kind: str, label: str, *, left: bool = False) -> str:
        """A limit: a line across, with its name at the right end, or at the left one."""
        if not self.y[0] <= value <= self.y[1]:
            return ""
        start, y = self.at(self.x[0], value)
        end, _ = self.at(self.x[1], value)
        name = _text(start + 3, y - 3, "start", label) if left else _text(end, y - 3, "end", label)
        return f'<path class="{_safe(kind)}" d="M{LEFT} {y}H{end}"/>{name}'

    def band(self, first: float, last: float, kind: str, label: str) -> str:
        """The time from ``first`` to ``last``, over the whole height; named where there is room."""
        x, top = self.at(first, self.y[1])
        end, bottom = self.at(last, self.y[0])
        width, words = max(round(end - x, 1), 0.5), _safe(f"{label}: steps {first:g} to {last:g}")
        size = f'x="{x}" y="{top}" width="{width}" height="{round(bottom - top, 1)}"'
        out = f'<rect class="band {_safe(kind)}" {size}><title>{words}</title></rect>'
        if width > 8 * len(label):  # capitals of the states are this wide
            out += _text(x + 3, TOP - 5, "start", label)
        return out

    def bar(self, first: float, last: float, low: float, high: float, kind: str, what: str) -> str:
        """A box from ``low`` to ``high``."""
        x, top = self.at(first, high)
        end, bottom = self.at(last, low)
        size = f'width="{max(round(end - x, 1), 0.5)}" height="{round(bottom - top, 1)}"'
        title = f"<title>{_safe(what)}</title>"
        return f'<rect class="{_safe(kind)}" x="{x}" y="{top}" {size}>{title}</rect>'


def _safe(words: str) -> str:
    """Text as it may stand in the image: no markup, and no character that XML does not have."""
    return escape(one_line(words, 400))


def _share(value: float, ends: tuple[float, float]) -> float:
    first, last = ends
    if not last > first or not math.isfinite(value):
        return 0.0
    return min(max((value - first) / (last - first), 0.0), 1.0)


def _text(x: float, y: float, anchor: str, words: str) -> str:
    return f'<text x="{round(x, 1)}" y="{round(y, 1)}" text-anchor="{anchor}">{_safe(words)}</text>'


def ticks(first: float, last: float, most: int) -> list[float]:
    """At most ``most`` + 1 round numbers from ``first`` to ``last``."""
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
    """A number for an axis: 1.2 M, 34 k, 0.35."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"


def thinned(points: Sequence[Point], most: int = 600) -> list[Point]:
    """At most ``most`` points: least and most of every stretch, so that no spike is lost."""
    if len(points) <= most:
        return list(points)
    size = -(-len(points) // max(1, most // 2))
    out: list[Point] = []
    for at in range(0, len(points), size):
        part = points[at : at + size]
        ends = {min(part, key=lambda one: one[1]), max(part, key=lambda one: one[1])}
        out += sorted(ends)
    return out


def spread(values: Sequence[float], room: float = 0.05) -> tuple[float, float]:
    """Ends of an axis for ``values``: a few that lie far out are cut."""
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

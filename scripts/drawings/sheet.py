# SPDX-License-Identifier: Apache-2.0
"""Sheet of SVG: text, boxes, arrows and rows of bits on a white page.

The page is white so that it can be read in a light and in a dark theme. Text has no measured width:
`Sheet.words` keeps an estimate of the place of each text, by which a test finds overlaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import NamedTuple

BLUE, RED, INK, PALE = "#2563b8", "#c8553d", "#1d2b3f", "#5b6b82"
FILLS = {"blue": "#eef3fa", "green": "#e7f3e7", "amber": "#fff3da", "red": "#fbe9e5", "": "#ffffff"}
TINTS = ("#d3e2f7", "#fbe2c4", "#d9ecd4", "#f3d6d0", "#e6dff2")
"""Colours of neighbours that must be told apart, light enough for text."""
SIZES = {"": 14, "head": 14, "pale": 12, "small": 11, "title": 16}
"""Kinds of text, with their size in pixels."""
_SMALL, _CAPITAL = 0.56, 0.72  # mean widths of letters over their size
_STYLE = f"""<style>
text {{ font: 14px Helvetica, Arial, sans-serif; fill: {INK} }}
.pale {{ fill: {PALE}; font-size: 12px }} .head {{ font-weight: bold }}
.small {{ font-size: 11px }} .title {{ font-size: 16px; font-weight: bold }}
.halo {{ paint-order: stroke; stroke: #ffffff; stroke-width: 4px }}
</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"
 orient="auto-start-reverse"><path d="M0 0 L8 4 L0 8 z" fill="{INK}"/></marker></defs>"""


class Words(NamedTuple):
    """Text and the estimated place of its left, top, right and bottom edge."""

    text: str
    left: float
    top: float
    right: float
    bottom: float

    def crosses(self, box: Box) -> bool:
        """Return whether the text lies on the border of a box."""
        edges = Words("", box.x, box.y, box.x + box.w, box.y + box.h)
        inside = edges.left <= self.left and self.right <= edges.right
        return self.meets(edges) and not (inside and edges.top <= self.top)

    def meets(self, other: Words) -> bool:
        """Return whether both texts overlap by more than a pixel."""
        return (
            min(self.right, other.right) - max(self.left, other.left) > 1
            and min(self.bottom, other.bottom) - max(self.top, other.top) > 1
        )


class Box(NamedTuple):
    """Rectangle: left, top, width and height."""

    x: float
    y: float
    w: float
    h: float

    @property
    def middle(self) -> tuple[float, float]:
        """Return the centre."""
        return self.x + self.w / 2, self.y + self.h / 2

    def edge(self, towards: tuple[float, float]) -> tuple[float, float]:
        """Return the point of the border on the straight line from the centre to a point."""
        x, y = self.middle
        dx, dy = towards[0] - x, towards[1] - y
        scale = min(
            self.w / 2 / abs(dx) if dx else float("inf"),
            self.h / 2 / abs(dy) if dy else float("inf"),
        )
        return x + dx * scale, y + dy * scale


def width_of(text: str, kind: str = "") -> float:
    """Return the estimated width of a text in pixels."""
    letters = sum(_CAPITAL if letter.isupper() else _SMALL for letter in text)
    return letters * SIZES[kind] * (1.06 if kind in ("head", "title") else 1)


@dataclass
class Sheet:
    """Drawing under construction; `label` describes it to readers who do not see it."""

    label: str
    width: float = 960
    height: float = 0
    parts: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    """Parts above all others: texts with a white edge."""
    words: list[Words] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)

    def text(
        self, x: float, y: float, words: str, kind: str = "", anchor: str = "start", halo: str = ""
    ) -> None:
        """Write a text whose baseline begins, is centred or ends at (x, y)."""
        if not words:
            return
        wide, size = width_of(words, kind), SIZES[kind]
        left = x - wide * {"start": 0, "middle": 0.5, "end": 1}[anchor]
        self.words.append(Words(words, left, y - 0.72 * size, left + wide, y + 0.2 * size))
        style = " ".join(filter(None, (kind, halo)))
        at = f' text-anchor="{anchor}"' if anchor != "start" else ""
        (self.labels if halo else self.parts).append(
            f'<text x="{x:.4g}" y="{y:.4g}"'
            + (f' class="{style}"' if style else "")
            + f"{at}>{escape(words, quote=False)}</text>"
        )

    def lines(self, x: float, y: float, words: Iterable[str], **how: str) -> None:
        """Write pale texts below each other; ``how`` are anchor and halo of `text`."""
        for row, line in enumerate(words):
            self.text(x, y + row * SIZES["pale"] * 1.35, line, "pale", **how)

    def rect(self, box: Box, fill: str, more: str = "") -> None:
        """Draw a rectangle of a colour; `more` are further attributes."""
        x, y, w, h = box
        self.parts.append(
            f'<rect x="{x:.4g}" y="{y:.4g}" width="{w:.4g}" height="{h:.4g}" fill="{fill}" {more}/>'
        )

    def box(self, box: Box, name: str, note: str = "", fill: str = "blue", radius: int = 6) -> Box:
        """Draw a box with round corners, a name and a note in its middle, and return it."""
        self.rect(box, FILLS[fill], f'rx="{radius}" stroke="{INK}" stroke-width="1.2"')
        self.boxes.append(box)
        notes = note.split("\n") if note else []
        x, y = box.middle
        top = y + 5 - 8 * len(notes)
        self.text(x, top, name, "head", "middle")
        self.lines(x, top + 17, notes, anchor="middle")
        return box

    def line(self, x1: float, y1: float, x2: float, y2: float, more: str = "") -> None:
        """Draw a straight line."""
        self.parts.append(
            f'<line x1="{x1:.4g}" y1="{y1:.4g}" x2="{x2:.4g}" y2="{y2:.4g}" stroke="{INK}" {more}/>'
        )

    def arrow(self, a: Box, b: Box, labels: Sequence[str] = (), both: bool = False) -> None:
        """Draw a straight arrow from box to box: upright or level where their sides allow it."""
        across = _overlap(a.x, a.w, b.x, b.w)
        along = _overlap(a.y, a.h, b.y, b.h)
        (x1, y1), (x2, y2) = a.edge(b.middle), b.edge(a.middle)
        if across is not None:
            x1 = x2 = across
            y1, y2 = (a.y + a.h, b.y) if a.y < b.y else (a.y, b.y + b.h)
        elif along is not None:
            y1 = y2 = along
            x1, x2 = (a.x + a.w, b.x) if a.x < b.x else (a.x, b.x + b.w)
        tips = ' marker-start="url(#tip)"' if both else ""
        self.line(x1, y1, x2, y2, f'stroke-width="1.4" marker-end="url(#tip)"{tips}')
        x, y = (x1 + x2) / 2, (y1 + y2) / 2
        if across is not None:
            self.lines(x + 6, y + 4 - 8 * (len(labels) - 1), labels, halo="halo")
        else:
            self.lines(x, y - 6 - 16 * (len(labels) - 1), labels, anchor="middle", halo="halo")

    def curve(self, a: Box, b: Box, bend: float, labels: Sequence[str]) -> None:
        """Draw a curved arrow, bent to the left of its way by `bend` pixels, with its labels."""
        (ax, ay), (bx, by) = a.middle, b.middle
        far = ((bx - ax) ** 2 + (by - ay) ** 2) ** 0.5
        nx, ny = (by - ay) / far, (ax - bx) / far  # to the left of the way, on a page
        knee = (ax + bx) / 2 + 2 * bend * nx, (ay + by) / 2 + 2 * bend * ny
        (x1, y1), (x2, y2) = a.edge(knee), b.edge(knee)
        self.parts.append(
            f'<path d="M{x1:.4g} {y1:.4g} Q{knee[0]:.4g} {knee[1]:.4g} {x2:.4g} {y2:.4g}" '
            f'fill="none" stroke="{INK}" stroke-width="1.4" marker-end="url(#tip)"/>'
        )
        x, y = (x1 + 2 * knee[0] + x2) / 4, (y1 + 2 * knee[1] + y2) / 4
        steep = abs(nx) > 0.7
        anchor = ("start" if nx > 0 else "end") if steep else "middle"
        x += 7 * nx if steep else 0
        rise = 15 * (len(labels) - 1)
        y += 4 - rise / 2 if steep else (-6 - rise if ny < 0 else 15)
        self.lines(x, y, labels, anchor=anchor, halo="halo")

    def bits(self, box: Box, count: int, fields: Iterable[tuple[str, int, int, str]]) -> float:
        """Draw a row of `count` bits, bit 0 at the left, and return the height with its labels.

        Args:
            box: place of the row.
            count: bits of the row.
            fields: name, lowest bit, bits and colour of each field, in the order of their bits.
        """
        x, y, wide, high = box
        self.rect(box, "#e4e8ee", f'stroke="{PALE}"')
        scale, below = wide / count, list[tuple[float, int]]()
        # Labels without room begin below their field. From right to left each takes a level below
        # those that begin above its text, so that no line crosses a label.
        for name, low, bits, fill in reversed(list(fields)):
            left, room = x + low * scale, bits * scale
            self.rect(Box(left, y, room, high), fill, f'stroke="{INK}" stroke-width="0.8"')
            middle, need = left + room / 2, width_of(name, "small")
            if need < room:
                self.text(middle, y + high / 2 + 4, name, "small", "middle")
                continue
            level = 1 + max((n for at, n in below if at < middle + need + 6), default=-1)
            below.append((middle, level))
            base = y + high + 14 + 13 * level
            self.line(middle, y + high, middle, base - 8, 'stroke-width="0.6"')
            self.text(middle - 2, base, name, "small")
        return high + (8 + 13 * (1 + max(n for _, n in below)) if below else 0)

    def svg(self) -> str:
        """Return the text of the SVG file."""
        size = f"{self.width:.4g} {self.height:.4g}"
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" role="img" '
                f'aria-label="{escape(self.label)}">',
                _STYLE,
                f'<rect width="{self.width:.4g}" height="{self.height:.4g}" rx="10" '
                'fill="#ffffff"/>',
                *self.parts,
                *self.labels,
                "</svg>",
                "",
            ]
        )


def _overlap(a: float, wide: float, b: float, other: float) -> float | None:
    """Return the middle of the common part of two intervals, None if it is short."""
    low, high = max(a, b), min(a + wide, b + other)
    return (low + high) / 2 if high - low > 8 else None

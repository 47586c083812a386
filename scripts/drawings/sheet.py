# SPDX-License-Identifier: Apache-2.0
"""Sheet of SVG: text, rectangles, lines and rows of bits on a white page.

The page is white so that it can be read in a light and in a dark theme. Text has no measured width.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from typing import NamedTuple

INK, PALE = "#1d2b3f", "#5b6b82"
TINTS = ("#d3e2f7", "#fbe2c4", "#d9ecd4", "#f3d6d0", "#e6dff2")
"""Colours of neighbours that must be told apart, light enough for text."""
SIZES = {"": 14, "head": 14, "pale": 12, "small": 11, "title": 16}
"""Kinds of text, with their size in pixels."""
_SMALL, _CAPITAL = 0.56, 0.72  # mean widths of letters over their size
_STYLE = f"""<style>
text {{ font: 14px Helvetica, Arial, sans-serif; fill: {INK} }}
.pale {{ fill: {PALE}; font-size: 12px }} .head {{ font-weight: bold }}
.small {{ font-size: 11px }} .title {{ font-size: 16px; font-weight: bold }}
</style>"""


class Box(NamedTuple):
    """Rectangle: left, top, width and height."""

    x: float
    y: float
    w: float
    h: float


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

    def text(self, x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> None:
        """Write a text whose baseline begins, is centred or ends at (x, y)."""
        style = f' class="{kind}"' if kind else ""
        at = f' text-anchor="{anchor}"' if anchor != "start" else ""
        self.parts.append(
            f'<text x="{x:.4g}" y="{y:.4g}"{style}{at}>{escape(words, quote=False)}</text>'
        )

    def rect(self, box: Box, fill: str, more: str = "") -> None:
        """Draw a rectangle of a colour; `more` are further attributes."""
        x, y, w, h = box
        self.parts.append(
            f'<rect x="{x:.4g}" y="{y:.4g}" width="{w:.4g}" height="{h:.4g}" fill="{fill}" {more}/>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, more: str = "") -> None:
        """Draw a straight line."""
        self.parts.append(
            f'<line x1="{x1:.4g}" y1="{y1:.4g}" x2="{x2:.4g}" y2="{y2:.4g}" stroke="{INK}" {more}/>'
        )

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
                "</svg>",
                "",
            ]
        )

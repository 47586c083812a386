# SPDX-License-Identifier: Apache-2.0
"""Charts as SVG for offline HTML pages and for the documents, drawn by matplotlib.

Equal data gives equal text: the ids have a fixed salt, and the file has no date. Text stays text,
so a browser can search it. Styles become presentation attributes, because the policy of a page may
forbid styles in attributes; text and axes have the colour of the text of the page. Functions import
matplotlib, since it takes half a second that most commands can spare.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Points = Sequence[tuple[float, float]]
_INK = "#777777"
"""Stands for the colour of the page's text while matplotlib draws."""
_LOOK = {
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor"), _INK),
    **dict.fromkeys(("xtick.color", "ytick.color"), _INK),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "nf",
}
_NO_DATE = dict.fromkeys(("Creator", "Date", "Format", "Type"))
_WIDE, NARROW = (9.0, 4.5), (4.4, 3.3)
"""Width and height in inches: of a chart across a page, and of one of three side by side."""
BLUE, ORANGE, RED, GREY = "#4c78a8", "#e07b39", "#d1495b", "#9aa4af"
"""Colours of bars; each has enough contrast to a light page and to a dark one."""
_NAMESPACE = re.compile(r' xmlns(:\w+)?="[^"]*"')
_STYLE = re.compile(r' style="([^"]*)"')
_SHEET = re.compile(r"\s*<style[^>]*>.*?</style>", re.DOTALL)
_NUMBERED = re.compile(
    r' id="(?:figure|axes|patch|line2d|text|legend|matplotlib\.\w+|[xy]tick)_\d+"'
)
_FONT = re.compile(r"font: (?:(?P<weight>\d+) )?(?P<size>[\d.]+px)[^;]*")


def render(paint: Callable[[Figure], object], size: tuple[float, float] = _WIDE) -> str:
    """Return the SVG element of a figure.

    Args:
        paint: draws on the empty figure.
        size: width and height in inches.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_LOOK):  # type: ignore[arg-type]
        figure = Figure(figsize=size, layout="constrained")
        paint(figure)
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata=_NO_DATE)
    text = out.getvalue()
    return text[text.index("<svg") :]


def line_chart(
    x: str,
    y: str,
    lines: Sequence[tuple[str, Points, bool]],
    ticks: Sequence[float] = (),
    size: tuple[float, float] = _WIDE,
) -> str:
    """Draw lines over one axis.

    Args:
        x: quantity and unit of the horizontal axis.
        y: the same of the vertical axis, which begins at 0 or below.
        lines: name, points in the order of x, and whether the line is dashed and without marks.
        ticks: with values the x axis is logarithmic, and has a tick at each.
        size: width and height in inches.

    Returns:
        The SVG element, to be put into a page as it is (names are escaped).

    Raises:
        ValueError: no line has a point.
    """
    if not any(points for _, points, _ in lines):
        raise ValueError(f"the chart of {y!r} has no point")

    from matplotlib.ticker import NullLocator, StrMethodFormatter

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot(xlabel=x, ylabel=y)
        for name, points, dashed in lines:
            axes.plot(
                [a for a, _ in points],
                [b for _, b in points],
                linestyle="--" if dashed else "-",
                marker="" if dashed else ".",
                label=name.replace("$", r"\$"),
            )
        if ticks:
            axes.set_xscale("log")
            axes.set_xticks(list(ticks))
            axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.4g}"))
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        figure.legend(loc="outside lower center", ncols=2, frameon=False)

    return _inline(render(paint, size), f"{y} over {x}")


def bar_chart(
    x: str, rows: Mapping[str, tuple[Sequence[float], str]], parts: Mapping[str, str]
) -> str:
    """Draw a horizontal bar for each row, made of parts.

    Args:
        x: quantity and unit of the horizontal axis.
        rows: by the name of the row, the length of each part, and the text after the bar.
        parts: colours of the parts by their names, in the order of the lengths.
    """

    from matplotlib.ticker import StrMethodFormatter

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot(xlabel=x)
        begin = [0.0] * len(rows)
        for number, (part, colour) in enumerate(parts.items()):
            lengths = [values[number] for values, _ in rows.values()]
            bars = axes.barh([*rows], lengths, left=begin, color=colour, label=part)
            begin = [a + b for a, b in zip(begin, lengths, strict=True)]
        axes.bar_label(bars, [note for _, note in rows.values()], padding=4)
        axes.margins(x=0.3)  # room for the texts
        axes.locator_params(axis="x", nbins=5)
        axes.invert_yaxis()  # the first row is the upper one
        axes.tick_params(axis="y", length=0)
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.4g}"))
        figure.legend(loc="outside lower center", ncols=len(parts), frameon=False)

    said = ", ".join(f"{name} {note}" for name, (_, note) in rows.items())
    return _inline(render(paint, NARROW), f"{x}: {said}")


def _inline(text: str, label: str) -> str:
    """Return an SVG element for a page, with a label for readers who do not see it."""
    # HTML knows the names of SVG: the page needs no address.
    text = _NAMESPACE.sub("", text)
    for pattern in (_SHEET, _NUMBERED):  # numbers would occur twice in a page with two charts
        text = pattern.sub("", text)
    text = _STYLE.sub(_attributes, text).replace(_INK, "currentColor")
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(label)}"', 1)


def _attributes(style: re.Match[str]) -> str:
    """Return a style as presentation attributes. `font`, which is none, becomes size and weight:
    the page chooses the family."""
    text = _FONT.sub(_font, style[1])
    pairs = (pair.split(":", 1) for pair in text.split(";") if ":" in pair)
    return "".join(f' {name.strip()}="{value.strip()}"' for name, value in pairs)


def _font(found: re.Match[str]) -> str:
    return f"font-size: {found['size']}; font-weight: {found['weight'] or 400}"

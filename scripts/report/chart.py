# SPDX-License-Identifier: Apache-2.0
"""Charts as SVG for offline HTML pages and for the documents, drawn by matplotlib.

Equal data gives equal text: the ids have a fixed salt, and the file has no date. Text stays text,
so a browser can search it.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, StrMethodFormatter

Points = Sequence[tuple[float, float]]
_LOOK = {
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor"), "#777777"),
    **dict.fromkeys(("xtick.color", "ytick.color"), "#777777"),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "nf",
}
"""Grey text is readable on a light page and on a dark one."""
_NAMESPACE = re.compile(r' xmlns(:\w+)?="[^"]*"')
_NO_DATE = dict.fromkeys(("Creator", "Date", "Format", "Type"))


def render(paint: Callable[[Figure], object], size: tuple[float, float] = (9, 4.5)) -> str:
    """Return the SVG element of a figure.

    Args:
        paint: draws on the empty figure.
        size: width and height in inches.
    """
    with mpl.rc_context(_LOOK):  # type: ignore[arg-type]
        figure = Figure(figsize=size, layout="constrained")
        paint(figure)
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata=_NO_DATE)
    text = out.getvalue()
    return text[text.index("<svg") :]


def line_chart(
    x: str, y: str, lines: Sequence[tuple[str, Points, bool]], ticks: Sequence[float] = ()
) -> str:
    """Draw lines over one axis.

    Args:
        x: quantity and unit of the horizontal axis.
        y: the same of the vertical axis, which begins at 0 or below.
        lines: name, points in the order of x, and whether the line is dashed and without marks.
        ticks: with values the x axis is logarithmic, and has a tick at each.

    Returns:
        The SVG element, to be put into a page as it is (names are escaped).

    Raises:
        ValueError: no line has a point.
    """
    if not any(points for _, points, _ in lines):
        raise ValueError(f"the chart of {y!r} has no point")

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

    # HTML knows the names of SVG: the page needs no address.
    return _NAMESPACE.sub("", render(paint))

# SPDX-License-Identifier: Apache-2.0
"""`nf measure figures`: measures one figure or all, compares with the baseline, writes the page."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

from jinja2 import Environment, StrictUndefined

from neuron_fabric import output
from neuron_fabric.errors import say
from scripts.common.arguments import given
from scripts.common.git import revision
from scripts.common.paths import BUILD, shown
from scripts.figures import (
    baseline,
    collectives_figure,
    result_file,
    synth_figure,
    timing_figure,
    traffic_figure,
)
from scripts.figures.baseline import Baseline, slipped
from scripts.figures.result_file import FOLDER, NO_CLAIM, FigureResult, Plot
from scripts.report.chart import Points, line_chart

# Each module has HELP, add_arguments(parser) and run(args), which returns the measured result.
FIGURES: dict[str, ModuleType] = {
    "traffic": traffic_figure,
    "timing": timing_figure,
    "collectives": collectives_figure,
    "synth": synth_figure,
}
ALL = "all"
PAGE = BUILD / "figures" / "index.html"
_ACCEPT = "store the measured values as the new baseline"

EXAMPLES = """examples:
  nf measure figures traffic                 every network and mode, as shapes and captures
  nf measure figures timing                  what each mode adds to plain memory, in clocks
  nf measure figures timing --only latency   a part of it
  nf measure figures collectives --ranks 8 --devices 1 2 --only all_reduce
  nf measure figures synth --only datapath   areas of the low-bit datapath and its yardstick
  nf measure figures all --html figures.html  all of them, and one page
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    for name, module in FIGURES.items():
        sub = kinds.add_parser(name, help=module.HELP, description=module.HELP)
        module.add_arguments(sub)
        sub.add_argument("--accept", action="store_true", help=_ACCEPT)
    text = "measure every figure with its defaults and write one page"
    sub = kinds.add_parser(ALL, help=text, description=text)
    sub.add_argument(
        "--html",
        nargs="?",
        metavar="FILE",
        default=str(PAGE),
        const=str(PAGE),
        help=f"write the page to FILE ({shown(PAGE)})",
    )
    sub.add_argument("--accept", action="store_true", help=_ACCEPT)


def run(args: argparse.Namespace) -> int:
    """Measure the chosen figure, or all of them; return 1 if a value has slipped, else 0."""
    if args.what == ALL:
        return run_all(FIGURES, args)
    return run_one(args.what, FIGURES[args.what], args)


def run_one(
    name: str,
    module: ModuleType,
    args: argparse.Namespace,
    whole: bool = False,
    folder: Path = FOLDER,
    commit: str = "",
) -> int:
    """Measure a figure, write its result file, and compare it with the baseline.

    A part of a figure, selected by options, is written to a separate result file, so that a
    complete one is never lost.

    Args:
        name: Name of the figure.
        module: Its module.
        args: Options.
        whole: Every value of the baseline must be present.
        folder: Folder of the result files.
        commit: Commit of the checkout; see `result_file.measure`.

    Returns:
        Exit code: 1 if one of its values has slipped, else 0.
    """
    other = given(args, module.add_arguments) - {"jobs"}
    part, command = not whole and bool(other), f"nf measure figures {name}" if whole else ""
    result = result_file.measure(name, lambda: module.run(args), command, folder, part, commit)
    if args.accept:
        baseline.accept(result)
        return 0
    known = baseline.read()
    if name not in known:  # a first run is no slip
        say(f"nf measure figures {name}: no baseline yet, --accept makes one")
        return 0
    slips = baseline.slipped(result.followed, known[name], whole)
    say(*(f"slipped: {line}" for line in slips))
    return 1 if slips else 0


def _defaults(module: ModuleType) -> argparse.Namespace:
    """Return the default options of a figure, which measure all of it."""
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    return parser.parse_args([])


def run_all(
    figures: Mapping[str, ModuleType], args: argparse.Namespace, folder: Path = FOLDER
) -> int:
    """Measure every figure with its defaults, then write the HTML page of their result files.

    Returns:
        Exit code: 1 if a value has slipped, else 0.
    """
    start = time.monotonic()
    file, codes = Path(args.html), []
    if file.absolute().is_relative_to(folder.absolute()):
        folder.mkdir(parents=True, exist_ok=True)
    output.check_output(file, "--html")
    commit = revision()  # of all of it: --accept changes a file
    for name, module in figures.items():
        own = _defaults(module)
        own.accept = args.accept
        codes.append(run_one(name, module, own, True, folder, commit))
    results = [result_file.read(name, folder) for name in figures]
    took = time.monotonic() - start
    output.write_text(file, page(results, baseline.read(), took))
    say(f"nf measure figures all: {len(results)} figures in {took:,.0f} s, {shown(file)}")
    return max(codes)


_TEMPLATE = Path(__file__).with_name("figures_page.html.j2").read_text(encoding="utf-8")
_LOG_SPAN, _MOST_TICKS = 16, 8
"""Ratio of the last to the first x from which few values have a logarithmic axis."""


def picture(plot: Plot) -> str:
    """Return the SVG of a plot; raise ValueError if it has no point.

    Identical lines become one with all their names, since the last would hide the others.
    """
    names: dict[tuple[Points, bool], list[str]] = {}
    for line in plot.lines:
        names.setdefault((line.points, line.formula), []).append(line.name)
    xs = sorted({x for line in plot.lines for x, _ in line.points})
    log = xs and 0 < _LOG_SPAN * xs[0] <= xs[-1] and len(xs) <= _MOST_TICKS
    lines = [(", ".join(same), *of) for of, same in names.items()]
    return line_chart(plot.x, plot.y, lines, xs if log else ())


def page(
    results: Sequence[FigureResult],
    accepted: Baseline,
    seconds: float = 0.0,
) -> str:
    """Return the text of the HTML page.

    Args:
        results: Results of the figures.
        accepted: Baseline.
        seconds: Duration of the whole command.
    """
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    parts = []
    for result in results:
        known = accepted.get(result.figure)
        followed = [(*one, (known or {}).get(one[0])) for one in result.followed.items()]
        pictures = [(plot, picture(plot)) for plot in result.plots]
        slips = slipped(result.followed, known or result.followed, whole=True)
        parts.append((result, pictures, followed, slips))
    return environment.from_string(_TEMPLATE).render(
        parts=parts,
        claim=NO_CLAIM,
        seconds=seconds,
        commits=sorted({result.revision or "unknown" for result in results}),
    )

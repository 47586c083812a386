# SPDX-License-Identifier: Apache-2.0
"""What `nf figures` does: measure one figure or all, compare with the baseline, write the page."""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Mapping
from pathlib import Path

from neuron_fabric import output
from neuron_fabric.errors import say
from scripts.common.errors import OptionError
from scripts.common.paths import shown
from scripts.figures import baseline, figures_page, result_file
from scripts.figures.result_file import FOLDER
from scripts.report.invocation import revision


def run_one(
    name: str,
    module: str,
    args: argparse.Namespace,
    command: str = "",
    whole: bool = False,
    folder: Path = FOLDER,
    commit: str = "",
) -> int:
    """Measure a figure, whose module is given by name; 1 when one of its values has slipped.
    ``command`` repeats it; ``whole``: every value of the baseline has to be there. A part of a
    figure, by its options, has a result file of its own: none of a whole one is lost. ``commit``:
    as `result_file.measure` takes it. OptionError for --accept with an option by which values mean
    another thing; without it they are not compared."""
    found = importlib.import_module(module)
    other = set(_changed(module, args))
    means_other = sorted(other.intersection(getattr(found, "MEAN_OTHER", ())))
    if means_other and args.accept:
        raise OptionError(
            f"--accept with --{means_other[0]}", "the baseline is of its default", "leave one out"
        )
    part = not whole and bool(other)
    result = result_file.measure(name, lambda: found.run(args), command, folder, part, commit)
    if args.accept:
        baseline.accept(result)
        return 0
    if means_other:
        say(f"nf figures {name}: not compared, the baseline is of another --{means_other[0]}")
        return 0
    known = baseline.read()
    if name not in known:  # a first run is no slip
        say(f"nf figures {name}: no baseline yet, --accept makes one")
        return 0
    slips = baseline.slipped(result.followed, known[name], whole)
    say(*(f"slipped: {line}" for line in slips))
    return 1 if slips else 0


def _defaults(module: str) -> argparse.Namespace:
    """Options of a figure that is measured whole."""
    parser = argparse.ArgumentParser()
    importlib.import_module(module).add_arguments(parser)
    return parser.parse_args([])


def _changed(module: str, args: argparse.Namespace) -> list[str]:
    """Options that leave something out, or measure another thing; how many runs there are at once
    does not."""
    default = vars(_defaults(module))
    return [
        key for key, one in default.items() if key != "jobs" and vars(args).get(key, one) != one
    ]


def run_all(figures: Mapping[str, str], args: argparse.Namespace, folder: Path = FOLDER) -> int:
    """Every figure with its defaults, then the page, of the result files that these have left."""
    start = time.monotonic()
    page, codes = Path(args.html), []
    if page.absolute().is_relative_to(folder.absolute()):
        folder.mkdir(parents=True, exist_ok=True)
    output.check_output(page, "--html")
    commit = revision()  # of all of it: --accept changes a file
    for name, module in figures.items():
        own = _defaults(module)
        own.accept = args.accept
        codes.append(run_one(name, module, own, f"nf figures {name}", True, folder, commit))
    results = [result_file.read(name, folder) for name in figures]
    courses = {result.figure: figures_page.course(result) for result in results}
    took = time.monotonic() - start
    output.write_text(page, figures_page.page(results, baseline.read(), courses, took))
    say(f"nf figures all: {len(results)} figures in {took:,.0f} s, {shown(page)}")
    return max(codes)

# SPDX-License-Identifier: Apache-2.0
"""What `nf figures` does: measure one figure or all, compare with the baseline, write the page."""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Mapping
from pathlib import Path

from neuron_fabric import output
from neuron_fabric.text import say
from scripts.common.paths import shown
from scripts.figures import baseline, figures_page, result_file
from scripts.figures.result_file import FOLDER


def run_one(
    name: str,
    module: str,
    args: argparse.Namespace,
    command: str = "",
    whole: bool = False,
    folder: Path = FOLDER,
) -> int:
    """Measure a figure, whose module is given by name; 1 when one of its values has slipped.
    ``command`` repeats it; ``whole``: every value of the baseline has to be there. A part of a
    figure, by its options, has a result file of its own: none of a whole one is lost."""
    found = importlib.import_module(module)
    part = not whole and _is_part(module, args)
    result = result_file.measure(name, lambda: found.run(args), command, folder, part)
    if args.accept:
        baseline.accept(result)
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


def _is_part(module: str, args: argparse.Namespace) -> bool:
    """Whether options leave something out, or measure another thing; how many runs there are at
    once does not."""
    default = vars(_defaults(module))
    return any(vars(args).get(key, one) != one for key, one in default.items() if key != "jobs")


def run_all(figures: Mapping[str, str], args: argparse.Namespace, folder: Path = FOLDER) -> int:
    """Every figure with its defaults, then the page, of the result files that these have left."""
    start = time.monotonic()
    page, codes = Path(args.html), []
    if page.absolute().is_relative_to(folder.absolute()):
        folder.mkdir(parents=True, exist_ok=True)
    output.check_output(page, "--html")
    for name, module in figures.items():
        own = _defaults(module)
        own.accept = args.accept
        codes.append(run_one(name, module, own, f"nf figures {name}", True, folder))
    results = [result_file.read(name, folder) for name in figures]
    courses = {result.figure: figures_page.course(result) for result in results}
    took = time.monotonic() - start
    output.write_text(page, figures_page.page(results, baseline.read(), courses, took))
    say(f"nf figures all: {len(results)} figures in {took:,.0f} s, {shown(page)}")
    return max(codes)

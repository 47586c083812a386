# SPDX-License-Identifier: Apache-2.0
"""What `nf figures` does: measure one figure or all, compare with the baseline, write the page."""

from __future__ import annotations

import argparse
import importlib
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
    ``command`` repeats it; ``whole``: every value of the baseline has to be there."""
    found = importlib.import_module(module)
    result = result_file.measure(name, lambda: found.run(args), command, folder)
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


def run_all(figures: Mapping[str, str], args: argparse.Namespace, folder: Path = FOLDER) -> int:
    """Every figure with its defaults, then the page, of the result files that these have left."""
    page, codes = Path(args.html), []
    if page.absolute().is_relative_to(folder.absolute()):
        folder.mkdir(parents=True, exist_ok=True)
    output.check_output(page, "--html")
    for name, module in figures.items():
        parser = argparse.ArgumentParser()
        importlib.import_module(module).add_arguments(parser)
        own = parser.parse_args([])
        own.accept = args.accept
        codes.append(run_one(name, module, own, f"nf figures {name}", True, folder))
    results = [result_file.read(name, folder) for name in figures]
    courses = {result.figure: figures_page.course(result) for result in results}
    output.write_text(page, figures_page.page(results, baseline.read(), courses))
    say(f"nf figures all: {len(results)} figures, {shown(page)}")
    return max(codes)

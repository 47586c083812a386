# SPDX-License-Identifier: Apache-2.0
"""`nf figures WHAT`: what the design is worth, measured, each figure with its set-up."""

from __future__ import annotations

import argparse
import importlib

# Each module has HELP, add_arguments(parser) and run(args), which gives what it has measured.
FIGURES = {
    "traffic": "scripts.figures.traffic_figure",
}

EXAMPLES = """examples:
  nf figures traffic                         every network and mode, as shapes and captures
  nf figures traffic --network lm --workers 64
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    for name, module in FIGURES.items():
        found = importlib.import_module(module)
        sub = kinds.add_parser(name, help=found.HELP, description=found.HELP)
        found.add_arguments(sub)


def run(args: argparse.Namespace) -> int:
    result_file = importlib.import_module("scripts.figures.result_file")
    module = importlib.import_module(FIGURES[args.what])
    result_file.measure(args.what, lambda: module.run(args))
    return 0

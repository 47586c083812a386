# SPDX-License-Identifier: Apache-2.0
"""`nf figures WHAT`: what the design is worth, measured, each figure with its set-up."""

from __future__ import annotations

import argparse
import importlib

from scripts.common.paths import BUILD, shown

# Each module has HELP, add_arguments(parser) and run(args), which gives what it has measured.
FIGURES = {
    "traffic": "scripts.figures.traffic_figure",
    "timing": "scripts.figures.timing_figure",
    "synth": "scripts.figures.synth_figure",
}
ALL = "all"
PAGE = BUILD / "figures" / "index.html"
_ACCEPT = "take what is measured as the new baseline"

EXAMPLES = """examples:
  nf figures traffic                         every network and mode, as shapes and captures
  nf figures traffic --network lm --workers 64
  nf figures timing                          what each mode adds to plain memory, in clocks
  nf figures timing --only latency           a part of it
  nf figures synth --only datapath           areas of the low-bit datapath and its yardstick
  nf figures all --html figures.html         all of them, and one page
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    for name, module in FIGURES.items():
        found = importlib.import_module(module)
        sub = kinds.add_parser(name, help=found.HELP, description=found.HELP)
        found.add_arguments(sub)
        sub.add_argument("--accept", action="store_true", help=_ACCEPT)
    text = "every figure with its defaults, and one page of them"
    sub = kinds.add_parser(ALL, help=text, description=text)
    sub.add_argument(
        "--html",
        nargs="?",
        metavar="FILE",
        default=str(PAGE),
        const=str(PAGE),
        help=f"where the page goes ({shown(PAGE)})",
    )
    sub.add_argument("--accept", action="store_true", help=_ACCEPT)


def run(args: argparse.Namespace) -> int:
    """Measure; 1 when a figure has slipped from its baseline."""
    command = importlib.import_module("scripts.figures.command")
    code: int = (
        command.run_all(FIGURES, args)
        if args.what == ALL
        else command.run_one(args.what, FIGURES[args.what], args)
    )
    return code

# SPDX-License-Identifier: Apache-2.0
"""`nf bench WHAT`: measures, in one run, what the project promises about its speed."""

from __future__ import annotations

import argparse
import importlib

# Each module has HELP, add_arguments(parser) and run(args), which measures and gives the exit code.
BENCHES = {
    "runner": "scripts.benchmarks.bench_runner",
    "replay": "scripts.benchmarks.bench_replay",
    "model": "scripts.benchmarks.bench_model",
    "profile": "scripts.benchmarks.bench_profile",
    "misses": "scripts.benchmarks.bench_misses",
    "draws": "scripts.benchmarks.bench_draws",
    "coverage": "scripts.benchmarks.bench_coverage",
    "runtime": "scripts.benchmarks.bench_runtime",
    "hook": "scripts.benchmarks.bench_hook",
}

EXAMPLES = """examples:
  nf bench runner                            the runner against its goals
  nf bench replay --sim verilator            bulk replay against the bare model
  nf bench model                             the verilated RTL against the first edition
  nf bench model --baseline HEAD~1           what the last commit cost or brought
  nf bench profile                           where its instructions go, by part
  nf bench misses --memory-latency 48        hits, misses and isolation, in clocks
  nf bench replay --jobs 2                   what two cores bring to it
  nf bench draws                             a draw of a scenario against the libraries
  nf bench coverage                          what sampling adds to a test
  nf bench runtime                           packing, votes and decoding against a copy
  nf bench hook                              a step of a training by the hook against plain DDP
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    for name, module in BENCHES.items():
        found = importlib.import_module(module)
        sub = kinds.add_parser(name, help=found.HELP, description=found.HELP)
        found.add_arguments(sub)


def run(args: argparse.Namespace) -> int:
    code: int = importlib.import_module(BENCHES[args.what]).run(args)
    return code

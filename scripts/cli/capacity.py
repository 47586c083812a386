# SPDX-License-Identifier: Apache-2.0
"""`nf capacity`: whether a reducer can take a bucket, and whether that pays."""

from __future__ import annotations

import argparse
import importlib

from neuron_fabric.runtime import capacity_command

MEASURE = "measure"
_BENCH = "scripts.benchmarks.bench_capacity"

EXAMPLES = (
    capacity_command.EXAMPLES
    + """  nf capacity measure --out s.toml           the coefficients, by the RTL and this host
"""
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = capacity_command.add_kinds(parser)
    bench = importlib.import_module(_BENCH)  # benchmarks drive verbs: by name, as `nf bench` does
    bench.add_arguments(kinds.add_parser(MEASURE, help=bench.HELP, description=bench.HELP))


def run(args: argparse.Namespace) -> int:
    if args.what == MEASURE:
        code: int = importlib.import_module(_BENCH).run(args)
        return code
    return capacity_command.run(args)

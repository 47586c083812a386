# SPDX-License-Identifier: Apache-2.0
"""`nf capacity`: whether a reducer can take a bucket, and whether that pays."""

from __future__ import annotations

import argparse
import importlib

from neuron_fabric.capacity import capacity_command
from scripts.common.arguments import given
from scripts.common.errors import NfError
from scripts.common.memory_options import memory_of

MEASURE, CLOCKS = "measure", "clocks"
_BENCH, _CELLS = "scripts.benchmarks.bench_capacity", "scripts.benchmarks.bench_cells"
_CLOCKS = "scripts.benchmarks.bench_clocks"

EXAMPLES = (
    capacity_command.EXAMPLES
    + """  nf capacity measure --out s.toml           the coefficients, by the RTL and this host
  nf capacity table --measure                does the model choose what is faster here
  nf capacity clocks                         random buckets through the RTL, against the model
"""
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = capacity_command.add_kinds(parser)
    bench = importlib.import_module(_BENCH)  # benchmarks drive verbs: by name, as `nf bench` does
    bench.add_arguments(kinds.add_parser(MEASURE, help=bench.HELP, description=bench.HELP))
    clocks = importlib.import_module(_CLOCKS)
    clocks.add_arguments(kinds.add_parser(CLOCKS, help=clocks.HELP, description=clocks.HELP))
    importlib.import_module(_CELLS).add_arguments(kinds.choices["table"])


def run(args: argparse.Namespace) -> int:
    if args.what in (MEASURE, CLOCKS):
        bench = importlib.import_module(_BENCH if args.what == MEASURE else _CLOCKS)
        code: int = bench.run(args)
        return code
    if args.what == "table":
        cells = importlib.import_module(_CELLS)
        _check_table(args, given(args, cells.add_arguments))
        if args.measure:
            memory = memory_of(args, args.memory_latency)
            measured: int = cells.measure(
                args.workers, args.kib, args.networks, args.runs, args.flit_ns, memory
            )
            return measured
    return capacity_command.run(args)


def _check_table(args: argparse.Namespace, of_measure: set[str]) -> None:
    """NfError for options that would say nothing, or no cell."""
    if not args.measure:
        for name in sorted(of_measure):
            raise NfError(f"capacity table --{name.replace('_', '-')}: goes with --measure.")
        return
    if args.substrate is not None:
        raise NfError("capacity table --substrate: --measure goes by what it measures.")
    if min(*args.workers, 2) < 2 or max(args.workers) > 16 or min(*args.kib, args.runs) < 1:
        raise NfError("capacity table --measure: 2 to 16 workers, sizes and runs above 0.")
    if not 0 < args.flit_ns < 1e6:
        raise NfError(f"capacity table --flit-ns: {args.flit_ns:g} ns is no flit time.")

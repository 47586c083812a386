# SPDX-License-Identifier: Apache-2.0
"""`nf measure capacity`: prints which buckets fit a reducer, and where low-bit beats FP32."""

from __future__ import annotations

import argparse

from neuron_fabric.capacity import capacity_command
from scripts.benchmarks import capacity_choice, capacity_clocks, capacity_fit
from scripts.common.arguments import given
from scripts.common.errors import NfError

MEASURE, CLOCKS = "measure", "clocks"

EXAMPLES = (
    capacity_command.EXAMPLES
    + """  nf measure capacity measure --out s.toml   the coefficients, by the RTL and this host
  nf measure capacity table --measure        does the model choose what is faster here
  nf measure capacity clocks                 random buckets through the RTL, against the model
"""
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = capacity_command.add_arguments(parser)
    for name, bench in ((MEASURE, capacity_fit), (CLOCKS, capacity_clocks)):
        bench.add_arguments(kinds.add_parser(name, help=bench.HELP, description=bench.HELP))
    capacity_choice.add_arguments(kinds.choices["table"])


def run(args: argparse.Namespace) -> int:
    if args.what == MEASURE:
        return capacity_fit.run(args)
    if args.what == CLOCKS:
        return capacity_clocks.run(args)
    if args.what == "table":
        _check_table(args, given(args, capacity_choice.add_arguments))
        if args.measure:
            return capacity_choice.measure(args)
    return capacity_command.run(args)


def _check_table(args: argparse.Namespace, of_measure: set[str]) -> None:
    """Raise NfError for options of `table` that have no effect or select no cell."""
    if not args.measure:
        for name in sorted(of_measure):
            raise NfError(f"capacity table: --{name.replace('_', '-')} requires --measure")
        return
    if args.substrate is not None:
        raise NfError("capacity table: --measure measures the coefficients; leave out --substrate")
    if min(*args.workers, 2) < 2 or max(args.workers) > 16 or min(*args.kib, args.runs) < 1:
        raise NfError("capacity table --measure: give 2..16 workers, sizes and runs above 0")
    if not 0 < args.flit_ns < 1e6:
        raise NfError(
            f"capacity table: --flit-ns must be above 0 and below 1e6, got {args.flit_ns:g}"
        )

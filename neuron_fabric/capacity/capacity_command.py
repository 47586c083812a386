# SPDX-License-Identifier: Apache-2.0
"""`python -m neuron_fabric capacity`: whether low-bit routes pay, according to the cost model.

Every number printed is computed from coefficients.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from neuron_fabric.arguments import whole
from neuron_fabric.capacity.cost_model import (
    Coefficients,
    Traffic,
    admits,
    low_seconds,
    most_elements,
    place,
    refusals,
    ring_seconds,
)
from neuron_fabric.capacity.substrate import Substrate, read_substrate, shipped
from neuron_fabric.codec.routes import Route, lines_of
from neuron_fabric.errors import say

HELP = "print which buckets fit a reducer, and where low-bit is faster"
EXAMPLES = """examples:
  nf measure capacity table                  T_low / T_fp32 by bandwidth and workers, of the RTL
  nf measure capacity table --substrate s.toml  by what was measured of another device
  nf measure capacity fits 25 --workers 8    a bucket of 25 MiB: limits, rounds
"""
BANDWIDTHS = (1.25, 25.0, 300.0)
CELLS = (*((Route.G_BINARY, workers) for workers in (4, 8, 16, 64)), (Route.G_TERNARY, 8))
_MIB = 1 << 20
ELEMENTS = 25 * _MIB // 4


def add_arguments(parser: argparse.ArgumentParser) -> argparse._SubParsersAction[Any]:
    """Add the commands `table` and `fits`; return the subparsers, for callers to add more."""
    kinds = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    table = kinds.add_parser("table", help="T_low / T_fp32 of contributions and votes")
    fits = kinds.add_parser("fits", help="whether a bucket can go through the device")
    add = fits.add_argument
    add("mib", type=_above_0, metavar="MIB", help="FP32 size of the bucket")
    add("--workers", type=whole(1, 999_999), default=8, metavar="W", help="workers (8)")
    for one in (table, fits):
        one.add_argument("--substrate", type=Path, metavar="FILE", help="measured coefficients")
    return kinds


def run(args: argparse.Namespace) -> int:
    """Print the table or the placements of a bucket; return exit code 0.

    Raises:
        SubstrateError: The substrate file is wrong.
    """
    substrate = read_substrate(args.substrate) if args.substrate else shipped()
    if args.what == "fits":
        say(*fits_lines(substrate, int(args.mib * _MIB) // 4, args.workers))
    else:
        say(*table_lines(substrate, BANDWIDTHS, CELLS))
    return 0


def table_lines(
    substrate: Substrate, bandwidths: Sequence[float], cells: Sequence[tuple[Route, int]]
) -> list[str]:
    """Return the table of T_low / T_fp32 as lines of text: a row per bandwidth, a column per cell.

    In a cell the first number is for workers in step, the one in brackets for workers apart (see
    `Traffic`). A star marks a ratio that the rule rejects.

    Args:
        substrate: Device with its coefficients.
        bandwidths: Bandwidths of the ring, in GB/s per worker.
        cells: Route and number of workers of each column.
    """
    known = substrate.coefficients
    head = "".join(f"{f'{route} W {workers}':>18}" for route, workers in cells)
    out = [
        f"T_low / T_fp32, contributions and votes: {substrate.name} ({substrate.measured})",
        f"{known.devices} device(s), {known.flit_s * 1e9:g} ns a flit; workers in step (apart); "
        "* rejected: above 0.80",
        f"{'GB/s a worker':14}{head}",
    ]
    for bandwidth in bandwidths:
        row = "".join(f"{_cell_text(known, bandwidth, *cell):>18}" for cell in cells)
        out.append(f"{bandwidth:<14g}{row}")
    return out


def _cell_text(known: Coefficients, bandwidth: float, route: Route, workers: int) -> str:
    """Return the text of a cell: T_low / T_fp32 of a bucket of 25 MiB, in step and apart.

    The vote is read by each worker; packing, commit and unpacking are left out. ``bandwidth`` is in
    GB/s per worker.
    """
    network = ring_seconds(ELEMENTS, workers, bandwidth * 1e9)
    step, apart = (
        low_seconds(known, route, ELEMENTS, workers, traffic=one).device / network
        for one in (Traffic.STREAM, Traffic.APART)
    )
    return f"{_short(step)}{'' if admits(False, step) else '*'} ({_short(apart)})"


def _short(value: float) -> str:
    return f"{value:.2f}" if value < 5 else f"{value:.1f}" if value < 10 else f"{value:.0f}"


def fits_lines(substrate: Substrate, elements: int, workers: int) -> list[str]:
    """Return lines of text: for each route of the device, why it is refused or where a bucket fits.

    ``elements`` is the number of elements in the bucket.
    """
    out = [f"{elements:,} elements, {workers} workers, {substrate.name}:"]
    for route in substrate.device.routes:
        reasons = refusals(substrate.device, route, elements, workers)
        placed = place(substrate.device, route, elements, workers)
        if reasons or placed is None:
            out += [f"  {route:10} refused: {one}" for one in reasons]
            continue
        most = most_elements(substrate.device, route, workers)
        out.append(
            f"  {route:10} {lines_of(elements, route):,} lines a worker, regions of "
            f"2^{placed.lines_log2} lines, {placed.rounds} round(s); one region alone holds "
            f"{most:,} elements"
        )
    return out


def _above_0(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value

# SPDX-License-Identifier: Apache-2.0
"""`nf figures traffic`: bytes per gradient element each way, for every mode, read view and choice
of tensors that stay in FP32."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from models.line_packing import Mode
from neuron_fabric.capture import Capture
from scripts.common.arguments import up_to
from scripts.common.paths import ROOT
from scripts.figures.network_shapes import NETWORKS, Network, Role, of_capture
from scripts.figures.result_file import Cell, Column, Line, Measured, Plot, Table
from scripts.figures.traffic_count import (
    COUNTED,
    POLICIES,
    Choice,
    Traffic,
    choices,
    count,
    ring_bytes,
)

HELP = "bytes per gradient element each way, by mode, read view and network"
MEAN_OTHER = ("workers",)
"""Options by which a value of the same name is of another thing."""
SHIPPED = ROOT / "captures" / "digits-resnet-8x"
WORKERS = 8
MOST_WORKERS = 64
CURVE_WORKERS = (2, 4, 8, 16, 32, 64)

COLUMNS = (
    *(Column("route"), Column("read as")),
    *(Column("payload up B/el", 4), Column("down B/el", 4)),
    *(Column("on the wire up B/el", 4), Column("down B/el", 4)),
    *(Column("payload, both ways: % of FP32"), Column("% of ring FP32")),
    *(Column("wire: % of FP32"), Column("payload-only, one-way (up): % of FP32")),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        *("--network",), action="append", choices=list(NETWORKS), help="only this one (all)"
    )
    parser.add_argument(
        *("--workers",),
        type=up_to(MOST_WORKERS),
        default=WORKERS,
        metavar="W",
        help=f"of networks that are no capture ({WORKERS})",
    )
    parser.add_argument(
        *("--capture",), action="append", metavar="DIR", help="a capture (the one that is shipped)"
    )


def run(args: argparse.Namespace) -> Measured:
    """Count; CaptureError for a capture that is none."""
    captures = args.capture or ([] if args.network else [str(SHIPPED)])
    networks = [of_capture(Capture.open(Path(name))) for name in captures]
    if args.network or not args.capture:
        networks += [NETWORKS[name] for name in args.network or NETWORKS]
    tables = [
        _table(network, policy, network.workers or args.workers)
        for network in networks
        for policy in POLICIES
    ]
    return Measured(
        set_up=(
            ("workers", f"{args.workers}; a capture has its own"),
            ("unit", "bytes of one worker and one step, divided by the elements of all tensors"),
            ("FP32", "each line written once and its sum read once, through the same device"),
            *COUNTED,
            ("networks", "; ".join(_described(network) for network in networks)),
        ),
        tables=tuple(tables),
        plots=tuple(_over_workers(network) for network in networks if not network.workers),
        followed=_followed(networks, args.workers),
    )


def _described(network: Network) -> str:
    head = network.elements_of(Role.HEAD)
    return (
        f"{network.name}: {network.elements:,} elements in {len(network.tensors)} tensors, "
        f"{head:,} of them in the head"
    )


def _table(network: Network, policy: str, workers: int) -> Table:
    kept, (whole_sum, *others) = POLICIES[policy], choices(workers)
    shown = [whole_sum, *(one for one in others if one.mode.low_bit or not kept)]
    found = {one: count(network, one, kept, workers) for one in shown}
    whole = found[whole_sum]
    rows = [_row(one, traffic, whole, workers) for one, traffic in found.items()]
    return Table(f"{network.name}, {workers} workers, {policy}", COLUMNS, tuple(rows))


def _row(choice: Choice, traffic: Traffic, whole: Traffic, workers: int) -> tuple[Cell, ...]:
    n = max(1, traffic.elements)
    ring = ring_bytes(traffic.elements, workers)
    up, down = traffic.up, traffic.down
    return (
        *(choice.mode.name, choice.view),
        *(up.payload / n, down.payload / n, up.wire / n, down.wire / n),
        100 * traffic.payload / max(1, whole.payload),
        100 * traffic.payload / ring if ring else None,
        100 * traffic.wire / max(1.0, whole.wire),
        100 * up.payload / max(1, whole.up.payload),
    )


_SHOWN = ((Mode.G_BINARY, "vote"), (Mode.G_BINARY, "planes"), (Mode.G_TERNARY, "vote"),
          (Mode.G_TERN5, "vote"),
          (Mode.G_INT4, "SUM8"), (Mode.G_INT4, "SUM16"), (Mode.G_INT8, "SUM16"))  # fmt: skip
"""What the plots show."""
_FOLLOWED = (*_SHOWN, (Mode.G_TERNARY, "planes"), (Mode.G_TERN5, "planes"))
_HEAD = "head in FP32"


def _percent(network: Network, choice: Choice, workers: int) -> tuple[float, float]:
    """Payload in percent of FP32 through the device, the head in FP32: both ways, and up alone."""
    whole = count(network, choices(workers)[0], frozenset(), workers)
    found = count(network, choice, POLICIES[_HEAD], workers)
    return (
        100 * found.payload / max(1, whole.payload),
        100 * found.up.payload / max(1, whole.up.payload),
    )


def _over_workers(network: Network) -> Plot:
    lines = []
    for mode, view in _SHOWN:
        points = [
            (float(workers), _percent(network, one, workers)[0])
            for workers in CURVE_WORKERS
            for one in choices(workers)
            if (one.mode, one.view) == (mode, view)
        ]
        lines.append(Line(f"{mode.name} {view}", tuple(points)))
    return Plot(
        f"{network.name}, {_HEAD}: payload both ways over workers",
        *("workers", "% of FP32 through the device", tuple(lines)),
    )


def _followed(networks: Sequence[Network], workers: int) -> dict[str, float]:
    """By name; what goes up is the same for all views of a mode, and stands there once."""
    out = {}
    for network in networks:
        for one in choices(network.workers or workers):
            if (one.mode, one.view) in _FOLLOWED:
                both, up = _percent(network, one, network.workers or workers)
                name, mode = network.name, one.mode.name
                way = f"{_HEAD}: payload both ways, % of FP32"
                out[f"{name}, {mode} {one.view}, {way}"] = round(both, 4)
                way = f"{_HEAD}: payload-only, one-way (up), % of FP32"
                out[f"{name}, {mode}, {way}"] = round(up, 4)
    return out

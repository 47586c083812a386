# SPDX-License-Identifier: Apache-2.0
"""`nf capacity measure`: the coefficients of the capacity model, by the clocks of the RTL and the
speed of this host's codec, into a substrate file."""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from models.line_packing import Mode
from models.parameters import DeviceParams
from neuron_fabric.codec import Route, pack, unpack
from neuron_fabric.output import check_output
from neuron_fabric.runtime.capacity import Coefficients, Device, Traffic
from neuron_fabric.runtime.substrate import Substrate, write_substrate
from neuron_fabric.text import say
from scripts.benchmarks.miss_loads import LEAST_LINES, Bench
from scripts.build import registry
from scripts.cli import replay as nf_replay
from scripts.cli.replay_options import add_memory, memory_of
from scripts.common.arguments import up_to
from scripts.common.paths import BUILD

HELP = "measure the coefficients of the capacity model into a substrate file"
COMMIT = 39.0
"""Clocks of a commit (spec: controller-2, table 0, F1)."""
_ELEMENTS = 25 * (1 << 20) // 4  # a bucket, which no cache holds
_RUNS = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--out", type=Path, required=True, metavar="FILE", help="substrate file to write")
    add("--sim", choices=registry.names(), default=registry.names()[0], help="simulator")
    add("--flit-ns", type=float, default=2.125, metavar="NS", help="flit time (2.125: x8 Gen5)")
    add(
        "--lines",
        type=up_to(1 << 14, first=LEAST_LINES),
        default=1024,
        metavar="N",
        help="lines a worker (1024)",
    )
    add("--device-only", action="store_true", help="not this host's packing: it takes no time then")
    add_memory(parser, "48")


def run(args: argparse.Namespace, files: Path = BUILD / "bench" / "misses") -> int:
    """Measure, print and write."""
    check_output(args.out, "--out")
    memory = memory_of(args, args.memory_latency)
    model = nf_replay.Simulators(files=files, command="nf capacity").bulk(args.sim, {})
    with tempfile.TemporaryDirectory(prefix="nf-bench-") as folder:
        bench = Bench(model, Path(folder), memory, args.lines)
        rates = {
            Traffic.HITS: bench.hits(write=True),
            Traffic.STREAM: bench.stream(),
            Traffic.APART: bench.stream(tile=args.lines),
        }
        out, miss = bench.hits(write=False), bench.misses(Mode.G_BINARY, 8)
    packed, unpacked = (math.inf, math.inf) if args.device_only else host_rates()
    known = Coefficients(
        flit_s=args.flit_ns * 1e-9,
        lines_in={traffic: round(rate, 4) for traffic, rate in rates.items()},
        lines_out=round(out, 4),
        miss=round(miss, 2),
        commit=COMMIT,
        pack_rate=float(f"{packed:.3g}"),
        unpack_rate=float(f"{unpacked:.3g}"),
    )
    params = DeviceParams()
    device = Device(params.regions, params.slots, params.cnt_w, params.mem_lines_log2)
    how = f"{args.sim}, {args.lines} lines a worker, {memory}; commit by the specification"
    substrate = Substrate("RTL", how, device, known)
    write_substrate(args.out, substrate)
    say(*summary(substrate), f"wrote {args.out}")
    return 0


def host_rates() -> tuple[float, float]:
    """float32 bytes a second that this host packs and unpacks as G_BINARY; the best of some."""
    values = np.random.default_rng(1).standard_normal(_ELEMENTS).astype(np.float32)
    lines = pack(values, Route.G_BINARY).lines
    packs = _seconds(lambda: pack(values, Route.G_BINARY))
    return values.nbytes / packs, values.nbytes / _seconds(
        lambda: unpack(lines, Route.G_BINARY, _ELEMENTS)
    )


def _seconds(work: Callable[[], object]) -> float:
    """The shortest of some runs."""
    took = []
    for _ in range(_RUNS):
        start = time.perf_counter()
        work()
        took.append(time.perf_counter() - start)
    return min(took)


def summary(substrate: Substrate) -> list[str]:
    """What was measured, a line a coefficient."""
    known = substrate.coefficients
    out = [f"{substrate.name}: {substrate.measured}"]
    out += [
        f"  in, {traffic:8} {rate:8.4f} lines a flit time"
        for traffic, rate in known.lines_in.items()
    ]
    out.append(f"  out          {known.lines_out:8.4f} lines a flit time")
    out.append(f"  a miss       {known.miss:8.2f} clocks")
    if known.pack_rate != math.inf:
        rates = known.pack_rate / 1e9, known.unpack_rate / 1e9
        out.append(f"  pack, unpack {rates[0]:.3g}, {rates[1]:.3g} GB/s")
    return out

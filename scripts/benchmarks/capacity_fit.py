# SPDX-License-Identifier: Apache-2.0
"""`nf measure capacity measure`: measures the coefficients of the capacity model.

They come from clocks of the RTL and the speed of this host's codec, and are written to a substrate
file.
"""

from __future__ import annotations

import argparse
import datetime
import math
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from timeit import repeat

import numpy as np

from models.modes import Mode
from models.parameters import DeviceParams
from models.regions import PLANE_SELECTOR
from neuron_fabric.capacity.cost_model import TILE, Coefficients, Device
from neuron_fabric.capacity.substrate import Substrate, write_substrate
from neuron_fabric.codec import Route, pack, unpack
from neuron_fabric.errors import say
from neuron_fabric.output import check_output
from scripts.benchmarks.bulk_loads import BulkLoads, add_device, benches
from scripts.common.git import revision
from scripts.common.memory_options import add_memory, memory_of
from verif.mem.memory_timing import MemoryTiming

HELP = "measure the coefficients of the capacity model into a substrate file"
FAST, SLOW = 3, (300, 600)
"""Memory latencies at which memory bounds nothing, and at which accesses under way do."""
PAIRS = (FAST, 48)
"""Memory latencies whose mean is taken for the FP32 lines of two workers, which vary with it."""
_ELEMENTS = 25 * (1 << 20) // 4  # a bucket, which no cache holds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--out", type=Path, required=True, metavar="FILE", help="substrate file to write")
    add("--flit-ns", type=float, default=2.125, metavar="NS", help="flit time (2.125: x8 Gen5)")
    add_device(parser, 1024)
    add("--device-only", action="store_true", help="not this host's packing: it takes no time then")
    add_memory(parser, "48")


def run(args: argparse.Namespace) -> int:
    """Measure the coefficients, print them and write the substrate file; return exit code 0."""
    check_output(args.out, "--out")
    memory = memory_of(args, args.memory_latency)
    with benches(args.sim) as bench:

        def at(timing: MemoryTiming) -> BulkLoads:
            return bench(timing, args.lines)

        known = fitted(at, memory, args.flit_ns * 1e-9)
    if not args.device_only:
        packed, unpacked = host_rates()
        known = replace(known, pack_rate=_digits(packed), unpack_rate=_digits(unpacked))
    params = DeviceParams()
    device = Device(params.regions, params.slots, params.cnt_w, params.mem_lines_log2)
    how = f"{args.sim}, {args.lines} lines a worker, {memory}"
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    substrate = Substrate("RTL", how, known, device, revision(), today)
    write_substrate(args.out, substrate)
    say(*summary(substrate), f"wrote {args.out}")
    return 0


def fitted(
    at: Callable[[MemoryTiming], BulkLoads], memory: MemoryTiming, flit_s: float
) -> Coefficients:
    """Fit the coefficients of the capacity model, each to a load whose speed it limits.

    Args:
        at: Returns the loads (`BulkLoads`) on a device with a memory timing. Link and engine are
            measured with a memory that limits nothing.
        memory: Memory of the device.
        flit_s: Duration of a flit in seconds.
    """
    fast = at(MemoryTiming(FAST))
    lines, votes, planes = fast.lines, (0,), (0, PLANE_SELECTOR, PLANE_SELECTOR + 1)
    lines_in, lines_out = fast.hits(write=True), fast.hits(write=False)
    start = fast.bucket(Mode.G_BINARY, 8, ()) - 8 * lines / lines_in

    def clocks(mode: Mode, workers: int, read: tuple[int, ...]) -> float:
        return (fast.bucket(mode, workers, read) - start) / lines

    store = clocks(Mode.FP32, 8, ()) / 8
    pairs = [at(MemoryTiming(one)).bucket(Mode.FP32, 2, ()) / lines for one in PAIRS]
    serial = 32 / lines_in + 32 / lines_out
    slow = [at(memory.at(one)).bucket(Mode.FP32, 8, ()) / (8 * lines) for one in SLOW]
    depth = (SLOW[1] - SLOW[0]) / (slow[1] - slow[0])
    return Coefficients(
        flit_s=flit_s,
        lines_in=_digits(lines_in),
        lines_out=_digits(lines_out),
        request=_digits((clocks(Mode.G_BINARY, 8, votes) - 8 / lines_in) / 8),
        operation=_digits(clocks(Mode.G_BINARY, 2, planes) / 8),
        store=_digits(store),
        fp32_line=_digits(max(sum(pairs) / len(pairs) - 2 * store, 0)),
        overlap=_digits((serial - clocks(Mode.G_BINARY, 32, votes)) * TILE),
        # A miss of the second worker writes bookkeeping and two planes.
        beat=_digits(at(memory.at(FAST)).misses(Mode.G_BINARY, 8) / 3),
        depth=_digits(depth),
        turnaround=_digits(slow[0] * depth - SLOW[0]),
        start=_digits(start),
        commit=_digits(fast.commit()),
        memory_latency=memory.latency,
    )


def _digits(value: float) -> float:
    return float(f"{value:.4g}")


def host_rates() -> tuple[float, float]:
    """Return the float32 bytes per second that this host packs and unpacks as G_BINARY.

    The best of five runs counts.
    """
    values = np.random.default_rng(1).standard_normal(_ELEMENTS).astype(np.float32)
    lines = pack(values, Route.G_BINARY).lines
    packs = repeat(lambda: pack(values, Route.G_BINARY), number=1)
    unpacks = repeat(lambda: unpack(lines, Route.G_BINARY, _ELEMENTS), number=1)
    return values.nbytes / min(packs), values.nbytes / min(unpacks)


def summary(substrate: Substrate) -> list[str]:
    """Return one line for each measured coefficient."""
    out = [f"{substrate.name}: {substrate.measured}"]
    for name, value in asdict(substrate.coefficients).items():
        if value != math.inf:
            out.append(f"  {name:15} {value:.4g}")
    return out

# SPDX-License-Identifier: Apache-2.0
"""`nf measure capacity table --measure`: checks that the capacity model chooses the faster way.

The two ways of reducing a bucket are FP32 and low-bit. Both are measured in turn for all buckets,
numbers of workers and networks (cells); printed are the times, those of the model, its decision,
and the regret: time lost against the faster way. The reducer is `torch`, by the same network; and a
device, whose buckets take the clocks that they take in the RTL, at a stated flit time, and on this
host the times of packing and unpacking alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import median
from types import SimpleNamespace
from typing import Any

from models.modes import Mode
from neuron_fabric.capacity.cost_model import Coefficients, admits, place
from neuron_fabric.capacity.network_times import fit_line, usual
from neuron_fabric.capacity.profile_costs import costs_of
from neuron_fabric.capacity.substrate import shipped
from neuron_fabric.codec.routes import Route, lines_of
from neuron_fabric.errors import say
from neuron_fabric.profile import PhaseRoute
from scripts.benchmarks.bulk_loads import benches
from scripts.build import registry
from scripts.common import folder_locks
from scripts.common.errors import NfError
from scripts.common.memory_options import add_memory, memory_of
from scripts.ranks import node_network
from scripts.ranks.launch import need_torch, rank_run
from scripts.ranks.node_network import LOOPBACK
from verif.mem.memory_timing import MemoryTiming

RANKS = "scripts.ranks.capacity_ranks"
TORCH, DEVICE = "torch", "device"
SIZES_KIB = (64, 1024, 16_384, 65_536)
WORKERS = (2, 4, 8)
RATES = ("10gbit", "1gbit", "100mbit")
RIGHT, REGRET, APART = 0.95, 0.05, 0.20
"""Share of decisions that are right where the ways are APART, and summed regret at most."""


@dataclass(frozen=True)
class Cell:
    """Times in seconds of one bucket by both ways, FP32 and low-bit, as measured and as modelled.

    `elements` is the size of the bucket, `network` a rate ("1gbit") or "loopback".
    """

    network: str
    workers: int
    elements: int
    fp32: float
    low: float
    model_fp32: float
    model_low: float
    reducer: str = TORCH

    @property
    def chosen(self) -> bool:
        """True if the model chooses low-bit."""
        return admits(False, self.model_low / self.model_fp32 if self.model_fp32 > 0 else 1e9)

    @property
    def regret(self) -> float:
        """Measured seconds lost by the choice of the model against the faster way."""
        return (self.low if self.chosen else self.fp32) - min(self.low, self.fp32)

    @property
    def apart(self) -> bool:
        """True if the measured times of the two ways differ by more than APART (20 %)."""
        return abs(self.low - self.fp32) > APART * min(self.low, self.fp32)


def measure(args: argparse.Namespace) -> int:
    """Measure and print all cells, as the options of `add_arguments` say.

    Returns:
        Exit code: 1 when the model has chosen badly, else 0.

    Raises:
        NfError: torch is missing, or a bucket does not fit the device.
    """
    need_torch("capacity")
    folder_locks.tree()
    memory, flit_ns = memory_of(args, args.memory_latency), args.flit_ns
    sizes = [256 * kib for kib in args.kib]
    known = replace(shipped().coefficients, flit_s=flit_ns * 1e-9, memory_latency=memory.latency)
    clocks = device_clocks(args.workers, sizes, memory)
    say(f"device: clocks of the RTL, {flit_ns:g} ns each, {memory}; contributions in step, votes")
    cells: list[Cell] = []
    columns = f"{'FP32 ms':>10}{'low ms':>10}{'model':>18}  choice, regret"
    say(f"{'network':10}{'by':7}{'W':>3}{'KiB':>8}{columns}")
    for network in args.networks:
        if network != LOOPBACK and (why := node_network.why_not()):
            say(f"{network}: left out ({why})")
            continue
        for count in args.workers:
            with node_network.network(count, network) as nodes:
                words = [str(args.runs), *map(str, sizes)]
                found = rank_run(nodes, RANKS, words)
            here = cells_of(network, count, found, known, clocks)
            say(*map(_line, here), flush=True)
            cells += here
    for reducer in (TORCH, DEVICE):
        say(*summary([cell for cell in cells if cell.reducer == reducer], f"by {reducer}"))
    say(*summary(cells, "all"))
    return int(not good(cells))


def device_clocks(
    workers: Sequence[int], elements: Sequence[int], memory: MemoryTiming
) -> dict[tuple[int, int], int]:
    """Return the clocks that each bucket takes in the RTL, by (workers, elements).

    Contributions are in step, then each worker reads the votes, G_BINARY, on a device that has just
    been reset. A bucket larger than a region takes a full region's clocks in each of its rounds.
    """
    found = {}
    with benches(registry.names()[0]) as bench:
        for count, size in product(workers, elements):
            placed = place(shipped().device, Route.G_BINARY, size, count)
            if placed is None:
                raise NfError(f"capacity: no line of {count} workers fits the device.")
            lines = min(lines_of(size, Route.G_BINARY), 1 << placed.lines_log2)
            clocks = bench(memory, lines).bucket(Mode.G_BINARY, count, (0,))
            found[count, size] = placed.rounds * clocks
    return found


def cells_of(
    network: str,
    workers: int,
    found: Mapping[str, Any],
    known: Coefficients,
    clocks: Mapping[tuple[int, int], int],
) -> list[Cell]:
    """Return two cells for each bucket: with the reducer `torch` and with a device.

    The model has the host's rates and a line fitted through the FP32 times, of each size what it
    usually takes, as a training would have it. The low-bit time of a device is the host's packing
    and unpacking by their rates, the bucket's clocks and a commit.

    Args:
        network: Name of the network.
        workers: Number of ranks.
        found: Measurements of the ranks (`capacity_ranks`).
        known: Coefficients of the device.
        clocks: Clocks of a bucket by workers and elements.
    """
    known = replace(
        known, pack_rate=float(found["pack_rate"]), unpack_rate=float(found["unpack_rate"])
    )
    ratio, seconds = found["waits"]
    times = ((4 * one["elements"], usual(one["fp32"])) for one in found["cells"])
    link, out = fit_line(times) or (0.0, 0.0), []
    for one in found["cells"]:
        elements, fp32 = one["elements"], median(one["fp32"])
        region = SimpleNamespace(
            name="bucket", elements=elements, phases={"steady": PhaseRoute(Route.G_BINARY)}
        )
        profile: Any = SimpleNamespace(regions=(region,), monitor={})
        by_torch = costs_of(profile, known, workers, device=False, waits=(ratio, seconds))
        by_device = costs_of(profile, known, workers)
        low = 4 * elements * (1 / known.pack_rate + 1 / known.unpack_rate)
        low += (known.commit + clocks[workers, elements]) * known.flit_s
        for reducer, costs, measured in (
            (TORCH, by_torch["bucket"], median(one["low"])),
            (DEVICE, by_device["bucket"], low),
        ):
            model = costs.network(*link), costs.low(*link)
            out.append(Cell(network, workers, elements, fp32, measured, *model, reducer))
    return out


def _line(cell: Cell) -> str:
    model = f"{1e3 * cell.model_fp32:.2f} / {1e3 * cell.model_low:.2f}"
    choice = "low" if cell.chosen else "FP32"
    wrong = " *" if cell.apart and cell.chosen != (cell.low < cell.fp32) else ""
    return (
        f"{cell.network:10}{cell.reducer:7}{cell.workers:3}{cell.elements // 256:8}"
        f"{1e3 * cell.fp32:10.2f}{1e3 * cell.low:10.2f}{model:>18}  {choice:4} "
        f"{1e3 * cell.regret:8.2f} ms{wrong}"
    )


def shares(cells: Sequence[Cell]) -> tuple[float, float]:
    """Return the share of right decisions, and the regret as a share of the faster ways' time.

    Decisions count only in cells whose two ways are apart; the regret is summed over all cells.
    """
    matter = [cell for cell in cells if cell.apart]
    right = sum(cell.chosen == (cell.low < cell.fp32) for cell in matter)
    best = sum(min(cell.low, cell.fp32) for cell in cells)
    lost = sum(cell.regret for cell in cells)
    return right / len(matter) if matter else 1.0, lost / best if best else 0.0


def good(cells: Sequence[Cell]) -> bool:
    """Return whether the model has chosen well in these cells, by the goals RIGHT and REGRET."""
    right, regret = shares(cells)
    return bool(cells) and right >= RIGHT and regret <= REGRET


def summary(cells: Sequence[Cell], which: str) -> list[str]:
    """Return the line that summarizes some cells, as a list; `which` names them."""
    matter = sum(cell.apart for cell in cells)
    right, regret = shares(cells)
    return [
        f"{which}: {right:.0%} of {matter} decisions right where the ways are {APART:.0%} apart "
        f"(goal {RIGHT:.0%}); regret {regret:.1%} of the better times (goal {REGRET:.0%}); "
        f"{len(cells)} cells; * wrong"
    ]


def _network(text: str) -> str:
    return text if text == LOOPBACK else node_network.rate_of(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `--measure`."""
    add = parser.add_argument
    add("--measure", action="store_true", help="measure both ways on this machine instead")
    networks, text = [LOOPBACK, *RATES], "of --measure: loopback, or links of a rate"
    text += f" ({' '.join(networks)})"
    add("--networks", nargs="+", type=_network, metavar="RATE", default=networks, help=text)
    for name, words, given in (
        ("--workers", "of --measure (2 4 8)", WORKERS),
        ("--kib", "of --measure: FP32 size of a bucket", SIZES_KIB),
    ):
        add(name, nargs="+", type=int, metavar=name[2:].upper(), default=list(given), help=words)
    text = "of --measure: a clock of the device (2.125: x8 Gen5)"
    add("--flit-ns", type=float, default=2.125, metavar="NS", help=text)
    add_memory(parser, "48")
    add("--runs", type=int, default=5, metavar="N", help="of --measure; of small buckets more (5)")

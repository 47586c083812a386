# SPDX-License-Identifier: Apache-2.0
"""Capacity model of a reducer: hard limits and time of a bucket (spec: runtime section 5).

Hard limits come first, each with its own line. The time of the low-bit path is modelled from
measured coefficients (`capacity.substrate`); the all-reduce of the network is a line fitted to the
times of the warm-up (`capacity.link_times`). `nf measure capacity clocks` compares the model with
the RTL. The name "reducer-capacity checks" is that of the NEURON-Fabric papers, which are public as
abstracts alone; model and numbers are this project's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from neuron_fabric.codec.routes import Route, elements_of_line, lines_of

MOST_WORKERS = 64
SELECTOR_BITS = 8
"""A region's window holds 2^8 times its lines: a selector each."""
ADDRESS_BITS = 46  # of a line
MOST_ROUTES = 3
SUM8_WORKERS = 16
"""Workers whose sums of 4-bit codes fit 8 bits."""
IN_TURN = 2
"""Regions of a route: contributions carry no epoch, so two are used in turn."""


@dataclass(frozen=True)
class Device:
    """Limits of a device, as VERSION and PARAMS report them; the defaults are those of the RTL."""

    regions: int = 8
    slots: int = 64
    cnt_w: int = 8
    mem_lines_log2: int = 20
    routes: tuple[Route, ...] = tuple(Route)


@dataclass(frozen=True)
class Placed:
    """Placement of a bucket in a device.

    Attributes:
        lines_log2: log2 of the lines of one region.
        state: lines of device memory for all its regions in turn.
        rounds: number of passes through the regions.
    """

    lines_log2: int
    state: int
    rounds: int


def record_lines(workers: int, cnt_w: int) -> int:
    """Return the lines of a low-bit state record: bookkeeping and count planes, a power of two."""
    planes = min(cnt_w, workers.bit_length())
    return 1 << planes.bit_length()


def state_lines(route: Route, workers: int, lines: int, cnt_w: int) -> int:
    """Return the lines of device memory for a region of ``lines`` lines per worker.

    FP32 keeps the line of every worker and its bookkeeping, low-bit a record.
    """
    if route == Route.FP32:
        return (workers + 1) * lines
    return lines * record_lines(workers, cnt_w)


def refusals(
    device: Device, route: Route, elements: int, workers: int, job: Iterable[Route] = ()
) -> list[str]:
    """Return the reasons why a bucket cannot go through a device, one line each.

    ``job``: routes that the job uses on the device already.
    """
    routes = {*job, route}
    out = []
    if workers > MOST_WORKERS:
        out.append(f"{workers} workers: a region has {MOST_WORKERS} at most")
    if workers > (1 << device.cnt_w) - 1:
        out.append(
            f"{workers} workers: counters of {device.cnt_w} bits end at {(1 << device.cnt_w) - 1}"
        )
    if route not in device.routes:
        names = ", ".join(device.routes)
        out.append(f"{route}: the device has {names}")
    most = min(MOST_ROUTES, device.regions // IN_TURN)
    if len(routes) > most:
        out.append(
            f"{len(routes)} routes: a job has {most} at a time on one device, "
            f"{most * IN_TURN} of {device.regions} regions"
        )
    if lines_log2(elements, route) + SELECTOR_BITS > ADDRESS_BITS:
        out.append(f"{elements:,} elements: a window has 2^{ADDRESS_BITS} lines at most")
    if not out and state_lines(route, workers, 1, device.cnt_w) * IN_TURN > _memory(device):
        out.append(f"{route} of {workers} workers: not one line fits 2^{device.mem_lines_log2}")
    return out


def lines_log2(elements: int, route: Route) -> int:
    """log2 of a region's lines that hold so many elements."""
    return max(lines_of(elements, route) - 1, 0).bit_length()


def place(device: Device, route: Route, elements: int, workers: int) -> Placed | None:
    """Return the placement with the largest regions, or None if not one line fits."""
    for log2 in range(lines_log2(elements, route), -1, -1):
        state = IN_TURN * state_lines(route, workers, 1 << log2, device.cnt_w)
        if state <= _memory(device):
            return Placed(log2, state, -(-lines_of(elements, route) >> log2) or 1)
    return None


def most_elements(device: Device, route: Route, workers: int) -> int:
    """Return the elements of one region that has the memory for itself."""
    lines = _memory(device) // state_lines(route, workers, 1, device.cnt_w)
    return (1 << max(lines.bit_length() - 1, 0)) * elements_of_line(route) if lines else 0


def _memory(device: Device) -> int:
    return 1 << device.mem_lines_log2


TILE = 16
"""Lines that all workers write before the next ones, in step; a tile is read once the next one is
written."""


class Traffic(StrEnum):
    """Order of a bucket's accesses: on lines that a slot holds; in tiles of `TILE` lines, where a
    line leaves its slot once; or worker after worker, where each access misses."""

    HITS = "hits"
    STREAM = "stream"
    APART = "apart"


@dataclass(frozen=True)
class Coefficients:
    """Clocks of the device, as `nf measure capacity measure` fits them, and rates of the host.

    ``rtl.toml`` holds those of the RTL (`substrate.shipped`): there are no defaults.

    Args:
        flit_s: seconds of a clock, which is a flit time.
        lines_in: contributions a clock that the link brings.
        lines_out: lines a clock that the link takes away.
        request: clocks of the inward link for the request of a line.
        operation: clocks of the engine for an access.
        store: clocks of the engine for an FP32 store; ``fp32_line``: for a line beyond its stores.
        overlap: clocks of a tile in which its reads and the next contributions overlap.
        beat: clocks of the memory port for a line.
        depth: memory accesses under way at once.
        turnaround: clocks of an access to memory beyond ``memory_latency``.
        start: clocks of a bucket before its first answer.
        commit: clocks of a commit.
        memory_latency: clocks from a request of the device to its memory's answer.
        pack_rate: bytes a second of float32 that the host packs; ``unpack_rate``: that it unpacks.
        devices: devices that share the lines of a bucket.
    """

    flit_s: float
    lines_in: float
    lines_out: float
    request: float
    operation: float
    store: float
    fp32_line: float
    overlap: float
    beat: float
    depth: float
    turnaround: float
    start: float
    commit: float
    memory_latency: float
    pack_rate: float = math.inf
    unpack_rate: float = math.inf
    devices: int = 1

    @property
    def in_flight(self) -> float:
        """Clocks a memory access where ``depth`` are under way."""
        return (self.memory_latency + self.turnaround) / self.depth

    def miss(self, count: int) -> float:
        """Clocks of a low-bit record to or from memory after ``count`` contributions: its
        bookkeeping and count planes."""
        return max((1 + count.bit_length()) * self.beat, self.in_flight)


@dataclass(frozen=True)
class Low:
    """Parts of T_low, in seconds; ``total`` is the sum, as nothing of one bucket overlaps."""

    pack: float
    device: float
    commit: float
    unpack: float

    @property
    def total(self) -> float:
        """T_low."""
        return self.pack + self.device + self.commit + self.unpack


def result_lines(route: Route, workers: int) -> int:
    """Return how many lines hold the result of one line: a vote or a sum, or the sums of codes."""
    if not route.codes:
        return 1
    return 4 if route == Route.G_INT4 and workers > SUM8_WORKERS else 2


def low_seconds(
    known: Coefficients,
    route: Route,
    elements: int,
    workers: int,
    *,
    traffic: Traffic = Traffic.STREAM,
    misses: int = 0,
    readers: int | None = None,
    planes: int = 0,
) -> Low:
    """Return T_low of a bucket (spec: runtime section 5.2).

    Args:
        known: coefficients of device and host.
        elements: float32 values of the bucket.
        traffic: order of the accesses.
        misses: accesses that miss, for a bucket whose other lines stay in their slots.
        readers: workers that read the result (all).
        planes: lines that each of them reads of a line beyond its result, as count planes.
    """
    lines = lines_of(elements, route)
    reads = workers if readers is None else readers
    reads *= result_lines(route, workers) + planes
    busy = _busy(known, route, lines, workers, reads, traffic)
    busy = max(busy, misses * known.miss(workers)) + known.start
    size = 4 * elements
    return Low(
        size / known.pack_rate,
        busy * known.flit_s / known.devices,
        known.commit * known.flit_s,
        size / known.unpack_rate,
    )


def _busy(
    known: Coefficients, route: Route, lines: int, workers: int, reads: int, traffic: Traffic
) -> float:
    """Return clocks of all lines. The first lines find empty slots: nothing is written back."""
    spare = max(lines - Device.slots, 0)
    if route == Route.FP32:  # the first store, and then the first sum
        line = _apart if traffic == Traffic.APART and spare else _steady
        wait = known.memory_latency * (2 if reads else 1)
        return lines * line(known, route, workers, reads) + wait
    if traffic == Traffic.APART and spare:
        saved = Device.slots * max(known.miss(1) - 1 / known.lines_in, 0)
        return lines * _apart(known, route, workers, reads) - saved + known.memory_latency
    steady = _steady(known, route, workers, reads)
    evicted = 0 if traffic == Traffic.HITS else spare
    return lines * steady + evicted * max(known.miss(workers) - steady, 0)


def _steady(known: Coefficients, route: Route, workers: int, reads: int) -> float:
    """Return clocks a line while slots hit: the busiest of link, engine and memory port. Link and
    engine serve reads and contributions; they overlap by some clocks of each tile."""
    inward, outward = workers / known.lines_in, reads / known.lines_out
    link = max(inward + reads * known.request, outward, inward + outward - known.overlap / TILE)
    if route != Route.FP32:
        return max(link, (workers + reads) * known.operation)
    engine = workers * known.store + max(reads * known.operation, known.fp32_line)
    port = workers * max(known.in_flight, known.beat)
    # Stores wait for engine and memory in turn, those that are read sooner more often: a smooth
    # maximum, whose exponents were found by trial.
    power = 3 if reads else 6
    stores = (engine**power + port**power) ** (1 / power)
    return max(link, stores, reads * workers * known.beat)  # a sum fetches all workers' lines


def _apart(known: Coefficients, route: Route, workers: int, reads: int) -> float:
    """Return clocks a line where every access misses: all contributions, then all reads."""
    if route == Route.FP32:  # a store moves its bookkeeping, too
        inward = workers * max(2 * known.store, known.in_flight)
        outward = reads * max(workers * known.beat, known.in_flight)
    else:
        inward = sum(known.miss(count) for count in range(1, workers + 1))
        outward = reads * known.miss(workers)
    return max(inward, workers / known.lines_in) + max(outward, reads / known.lines_out)


def ring_seconds(elements: int, workers: int, bytes_a_second: float) -> float:
    """Return the time of an FP32 ring all-reduce: 2 (W - 1) / W of the bytes."""
    return 2 * (workers - 1) / workers * 4 * elements / bytes_a_second


def admits(before: bool, ratio: float, admit: float = 0.80, drop: float = 0.95) -> bool:
    """Hysteresis on T_low / T_fp32: in at ``admit`` or less, out above ``drop``."""
    return ratio <= (drop if before else admit)


def cap_threshold(
    known: Coefficients,
    route: Route,
    elements: int,
    workers: int,
    t_fp32: float,
    window: int,
) -> int:
    """CAP_THRESHOLD for a CAP_WINDOW of ``window`` contributions: the misses above which T_low
    exceeds T_fp32, so that FALLBACK rises there; 1..window."""
    low = low_seconds(known, route, elements, workers, traffic=Traffic.HITS)
    rest = t_fp32 - (low.total - low.device)
    misses = rest * known.devices / (known.miss(workers) * known.flit_s)
    share = misses / (workers * lines_of(elements, route))
    return min(max(int(share * window), 1), window)

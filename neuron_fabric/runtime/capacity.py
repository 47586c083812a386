# SPDX-License-Identifier: Apache-2.0
"""Whether a reducer can take a bucket, and whether that pays (spec: runtime section 5).

Hard limits first, each with its own line; then time: the low-bit path is modelled from measured
coefficients (`runtime.substrate`), the network's all-reduce from a line through the times that
warm-up has seen. The name "reducer-capacity checks" is that of the NEURON-Fabric papers, which are
public as abstracts alone; model and numbers are this project's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from neuron_fabric.codec.routes import Route, elements_of_line, lines_of

MOST_WORKERS = 64
SELECTOR_BITS = 8
"""A region's window holds 2^8 times its lines: a selector each."""
ADDRESS_BITS = 46  # of a line
MOST_ROUTES = 3
IN_TURN = 2
"""Regions of a route: contributions carry no epoch, so two are used in turn."""


@dataclass(frozen=True)
class Device:
    """What VERSION and PARAMS of a device say; the defaults are the RTL's."""

    regions: int = 8
    slots: int = 64
    cnt_w: int = 8
    mem_lines_log2: int = 20
    routes: tuple[Route, ...] = tuple(Route)


@dataclass(frozen=True)
class Placed:
    """How a bucket lies in a device: ``lines_log2`` of one region, ``state`` lines of device memory
    for all its regions in turn, and in how many ``rounds`` the bucket goes through them."""

    lines_log2: int
    state: int
    rounds: int


def record_lines(workers: int, cnt_w: int) -> int:
    """Lines of a low-bit state record: bookkeeping and count planes, to a power of two."""
    planes = min(cnt_w, workers.bit_length())
    return 1 << planes.bit_length()


def state_lines(route: Route, workers: int, lines: int, cnt_w: int) -> int:
    """Lines of device memory that a region of ``lines`` lines a worker needs: FP32 keeps every
    worker's line and its bookkeeping, low-bit a record."""
    if route == Route.FP32:
        return (workers + 1) * lines
    return lines * record_lines(workers, cnt_w)


def refusals(
    device: Device, route: Route, elements: int, workers: int, job: Iterable[Route] = ()
) -> list[str]:
    """Why a bucket cannot go through a device at all, a line a reason; none: it can. ``job``: the
    routes that the job has on the device already."""
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


def place(
    device: Device, route: Route, elements: int, workers: int, others: int = 0
) -> Placed | None:
    """The largest regions for a bucket beside ``others`` lines of state; None: not one line."""
    for log2 in range(lines_log2(elements, route), -1, -1):
        state = IN_TURN * state_lines(route, workers, 1 << log2, device.cnt_w)
        if state + others <= _memory(device):
            return Placed(log2, state, -(-lines_of(elements, route) >> log2) or 1)
    return None


def most_elements(device: Device, route: Route, workers: int) -> int:
    """Elements that one region may hold when it has the memory for itself."""
    lines = _memory(device) // state_lines(route, workers, 1, device.cnt_w)
    return (1 << max(lines.bit_length() - 1, 0)) * elements_of_line(route) if lines else 0


def _memory(device: Device) -> int:
    return 1 << device.mem_lines_log2


class Traffic(StrEnum):
    """How contributions arrive: on lines that a slot holds, worker by worker in step (every line
    comes once from memory), or with workers further apart than the slots reach."""

    HITS = "hits"
    STREAM = "stream"
    APART = "apart"


@dataclass(frozen=True)
class Coefficients:
    """Of the device, in flit times of ``flit_s`` seconds (a clock each): lines a flit time in, by
    traffic, and out; clocks of a miss and of a commit. Of the host: float32 bytes a second that are
    packed and unpacked."""

    flit_s: float = 2.125e-9
    lines_in: Mapping[Traffic, float] = field(
        default_factory=lambda: {Traffic.HITS: 0.8022, Traffic.STREAM: 0.37, Traffic.APART: 0.067}
    )
    lines_out: float = 0.8022
    miss: float = 15.0
    commit: float = 39.0
    pack_rate: float = math.inf
    unpack_rate: float = math.inf
    devices: int = 1


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
    """T_low of a bucket of ``elements``: every worker's lines go in, and the vote with ``planes``
    count planes out to each of ``readers`` (all workers)."""
    lines = lines_of(elements, route)
    read = workers if readers is None else readers
    busy = max(
        workers * lines / known.lines_in[traffic],
        read * lines * (1 + planes) / known.lines_out,
        misses * known.miss,
    )
    size = 4 * elements
    return Low(
        size / known.pack_rate,
        busy * known.flit_s / known.devices,
        known.commit * known.flit_s,
        size / known.unpack_rate,
    )


def ring_seconds(elements: int, workers: int, bytes_a_second: float, latency: float = 0.0) -> float:
    """An FP32 ring all-reduce by its volume: 2 (W - 1) / W of the bytes each way, and a latency."""
    return latency + 2 * (workers - 1) / workers * 4 * elements / bytes_a_second


def admits(before: bool, ratio: float, admit: float = 0.80, drop: float = 0.95) -> bool:
    """Hysteresis on T_low / T_fp32: in at ``admit`` or less, out above ``drop``."""
    return ratio <= (drop if before else admit)


_SHORTEST = 1e-6  # seconds below which a time is not weighed more


@dataclass
class LinkFit:
    """The network's all-reduce as a line over its bytes: least squares over what was measured, as
    shares of each time. Times vary in proportion to what they are, and decisions go by ratios: by
    seconds, the latency was what a 64 MiB all-reduce left over, 0.3 ms where 64 KiB took 4."""

    weight: float = 0.0
    bytes: float = 0.0
    seconds: float = 0.0
    squares: float = 0.0
    products: float = 0.0

    def add(self, size: int, seconds: float) -> None:
        """One all-reduce of ``size`` bytes. ValueError for times that are none."""
        if not (size > 0 and 0 <= seconds < math.inf):
            raise ValueError(f"{size} bytes in {seconds} s")
        weight = 1 / max(seconds, _SHORTEST) ** 2
        self.weight += weight
        self.bytes += weight * size
        self.seconds += weight * seconds
        self.squares += weight * size * size
        self.products += weight * size * seconds

    def line(self) -> tuple[float, float] | None:
        """Latency in seconds, and seconds a MiB: what `StepReport.seconds` carries. None before
        anything was measured; neither is negative, and of one size all counts as transfer."""
        if not self.weight:
            return None
        spread = self.weight * self.squares - self.bytes * self.bytes
        slope = self.seconds / self.bytes
        if spread > 1e-9 * self.weight * self.squares:
            slope = (self.weight * self.products - self.bytes * self.seconds) / spread
        slope = max(slope, 0.0)
        latency = (self.seconds - slope * self.bytes) / self.weight
        if latency < 0:
            latency, slope = 0.0, self.products / self.squares
        return latency, slope * (1 << 20)


def cap_threshold(
    known: Coefficients,
    route: Route,
    elements: int,
    workers: int,
    t_fp32: float,
    window: int = 1024,
) -> int:
    """CAP_THRESHOLD for a CAP_WINDOW of ``window`` contributions: the misses above which T_low
    exceeds T_fp32, so that FALLBACK rises there; 1..window."""
    low = low_seconds(known, route, elements, workers, traffic=Traffic.HITS)
    rest = t_fp32 - (low.total - low.device)
    misses = rest * known.devices / (known.miss * known.flit_s)
    share = misses / (workers * lines_of(elements, route))
    return min(max(int(share * window), 1), window)

# SPDX-License-Identifier: Apache-2.0
"""Cost model of a reducer: hard limits, and time of a bucket on it (spec: runtime section 5).

Hard limits come first, each with its own line. The time of the low-bit path is modelled from
measured coefficients (`capacity.substrate`); the all-reduce of the network is a line fitted to the
times of the warm-up (`capacity.network_times`). `nf measure capacity clocks` compares the model
with the RTL. The name "reducer-capacity checks" is that of the NEURON-Fabric papers, of which only
the abstracts are public; model and numbers are this project's.
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
    """Limits of a device, as its registers VERSION and PARAMS report them; defaults are the RTL's.

    Attributes:
        regions: Regions that it has.
        slots: Slots of its engine, each for the state of one line.
        cnt_w: Bits of a counter.
        mem_lines_log2: log2 of the lines of its memory.
        routes: Routes that it supports.
    """

    regions: int = 8
    slots: int = 256
    cnt_w: int = 8
    mem_lines_log2: int = 20
    routes: tuple[Route, ...] = tuple(Route)


@dataclass(frozen=True)
class Placed:
    """Placement of a bucket in regions of a device.

    Attributes:
        lines_log2: log2 of the lines per worker of one region.
        state: Lines of device memory for the `IN_TURN` regions that are used in turn.
        rounds: Commits that the bucket needs, since a region holds only a part of it.
    """

    lines_log2: int
    state: int
    rounds: int


def record_lines(workers: int, cnt_w: int) -> int:
    """Return the lines of a low-bit state record: bookkeeping and count planes, a power of two.

    Unused lines fill it up.
    """
    planes = min(cnt_w, workers.bit_length())
    return 1 << planes.bit_length()


def state_lines(route: Route, workers: int, lines: int, cnt_w: int) -> int:
    """Return the lines of device memory for a region of ``lines`` lines per worker.

    FP32 stores the line of every worker and a bookkeeping line, a low-bit route one record.
    """
    if route == Route.FP32:
        return (workers + 1) * lines
    return lines * record_lines(workers, cnt_w)


def refusals(
    device: Device, route: Route, elements: int, workers: int, job: Iterable[Route] = ()
) -> list[str]:
    """Return the reasons why a device cannot reduce a bucket, a line each; [] if it can.

    Args:
        device: Limits of the device.
        route: Route of the bucket.
        elements: Elements of the bucket.
        workers: Number of workers.
        job: Routes that the job uses on the device already.
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
    """Return the log2 of the lines per worker of the least region for ``elements`` elements."""
    return max(lines_of(elements, route) - 1, 0).bit_length()


def place(device: Device, route: Route, elements: int, workers: int) -> Placed | None:
    """Return the placement of a bucket in the largest regions that fit; None if no line fits."""
    for log2 in range(lines_log2(elements, route), -1, -1):
        state = IN_TURN * state_lines(route, workers, 1 << log2, device.cnt_w)
        if state <= _memory(device):
            return Placed(log2, state, -(-lines_of(elements, route) >> log2) or 1)
    return None


def most_elements(device: Device, route: Route, workers: int) -> int:
    """Return how many elements one region could hold if it had all memory of the device."""
    lines = _memory(device) // state_lines(route, workers, 1, device.cnt_w)
    return (1 << max(lines.bit_length() - 1, 0)) * elements_of_line(route) if lines else 0


def _memory(device: Device) -> int:
    return 1 << device.mem_lines_log2


TILE = 16
"""Lines that all workers write before the next ones, in step; a tile is read once the next one is
written."""


class Traffic(StrEnum):
    """Order of a bucket's accesses to lines.

    HITS: each line is in a slot. STREAM: the workers are in step, in tiles of `TILE` lines, and a
    line leaves its slot once. APART: worker after worker, and each access misses. With up to 1.5
    lines a slot that time is an upper bound, since the lines of some sets stay in their slots.
    """

    HITS = "hits"
    STREAM = "stream"
    APART = "apart"


@dataclass(frozen=True)
class Coefficients:
    """Clocks of the device, as `nf measure capacity measure` fits them, and rates of the host.

    ``rtl.toml`` holds those of the RTL (`substrate.shipped`): there are no defaults.

    Args:
        flit_s: Seconds per clock, which is the time of a flit.
        lines_in: Contributions per clock that the link can bring.
        lines_out: Lines per clock that the link can take away.
        request: Clocks of the inward link for the request of a line.
        operation: Clocks of the engine for an access.
        store: Clocks of the engine for an FP32 store.
        fp32_line: Clocks of the engine for an FP32 line in addition to its stores.
        overlap: Clocks of a tile in which its reads and the next contributions overlap.
        beat: Clocks of the memory port for a line.
        depth: Memory accesses in flight at once.
        turnaround: Clocks of an access to memory in addition to ``memory_latency``.
        start: Clocks of a bucket before its first response.
        commit: Clocks of a commit.
        memory_latency: Clocks from a request of the device to its memory's response.
        pack_rate: Bytes of float32 per second that the host packs.
        unpack_rate: Bytes of float32 per second that the host unpacks.
        devices: Devices that share the lines of a bucket.
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
        """Return the clocks per memory access when ``depth`` accesses are in flight."""
        return (self.memory_latency + self.turnaround) / self.depth

    def miss(self, count: int) -> float:
        """Return the clocks to move a low-bit record after ``count`` contributions.

        It is moved to or from memory: a bookkeeping line and the count planes in use.
        """
        return max((1 + count.bit_length()) * self.beat, self.in_flight)


@dataclass(frozen=True)
class Low:
    """Parts of T_low, the modelled time of a bucket on the low-bit path, in seconds."""

    pack: float
    device: float
    commit: float
    unpack: float

    @property
    def total(self) -> float:
        """Return T_low in seconds: the sum of the parts, since none of one bucket overlap."""
        return self.pack + self.device + self.commit + self.unpack


def result_lines(route: Route, workers: int) -> int:
    """Return how many lines hold the result of one line of contributions.

    It is 1 for a vote or an FP32 sum; 2 or 4 for sums of integer codes.
    """
    if not route.codes:
        return 1
    return 4 if route == Route.G_INT4 and workers > SUM8_WORKERS else 2


def most_lines(lines: int, devices: int) -> int:
    """Return the lines of the device that has most of ``lines`` dealt to devices by tile."""
    rows, rest = divmod(lines, TILE * devices)
    return rows * TILE + min(rest, TILE)


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
    """Return the parts of T_low, the time of a bucket on the device (spec: runtime section 5.2).

    Args:
        known: Coefficients of device and host.
        route: Route of the bucket.
        elements: float32 values of the bucket.
        workers: Number of workers.
        traffic: Order of the accesses.
        misses: Accesses that miss, for a bucket whose other lines stay in their slots.
        readers: Workers that read the result; None for all.
        planes: Lines that each of them reads in addition to the result of a line, such as count
            planes.
    """
    lines = most_lines(lines_of(elements, route), known.devices)
    reads = workers if readers is None else readers
    reads *= result_lines(route, workers) + planes
    busy = _busy(known, route, lines, workers, reads, traffic)
    busy = max(busy, misses * known.miss(workers) / known.devices) + known.start
    size = 4 * elements
    return Low(
        size / known.pack_rate,
        busy * known.flit_s,
        known.commit * known.flit_s,
        size / known.unpack_rate,
    )


def _busy(
    known: Coefficients, route: Route, lines: int, workers: int, reads: int, traffic: Traffic
) -> float:
    """Return the device's clocks for all lines of a bucket.

    The first lines find empty slots: nothing is written back.
    """
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
    """Return the clocks per line while slots hit: those of the busiest of link, engine and memory.

    Link and engine serve reads and contributions; they overlap by some clocks of each tile.
    """
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
    """Return the clocks per line if every access misses: all contributions, then all reads."""
    if route == Route.FP32:  # a store moves its bookkeeping, too
        inward = workers * max(2 * known.store, known.in_flight)
        outward = reads * max(workers * known.beat, known.in_flight)
    else:
        inward = sum(known.miss(count) for count in range(1, workers + 1))
        outward = reads * known.miss(workers)
    return max(inward, workers / known.lines_in) + max(outward, reads / known.lines_out)


def ring_seconds(elements: int, workers: int, bytes_a_second: float) -> float:
    """Return the seconds of an FP32 ring all-reduce: each worker sends 2 (W - 1) / W of the bytes.

    ``bytes_a_second`` is the bandwidth per worker.
    """
    return 2 * (workers - 1) / workers * 4 * elements / bytes_a_second


def admits(before: bool, ratio: float, admit: float = 0.80, drop: float = 0.95) -> bool:
    """Return whether a bucket may use the low-bit path, with hysteresis on T_low / T_fp32.

    Args:
        before: Whether it was admitted before.
        ratio: T_low / T_fp32.
        admit: Largest ratio at which it gets admitted.
        drop: Largest ratio at which it stays admitted.
    """
    return ratio <= (drop if before else admit)


def cap_threshold(
    known: Coefficients,
    route: Route,
    elements: int,
    workers: int,
    t_fp32: float,
    window: int,
) -> int:
    """Return CAP_THRESHOLD for the device's capacity check, 1..window.

    It is the number of misses among ``window`` contributions (CAP_WINDOW) above which T_low exceeds
    ``t_fp32`` (seconds); with more misses the device sets FALLBACK.
    """
    low = low_seconds(known, route, elements, workers, traffic=Traffic.HITS)
    rest = t_fp32 - (low.total - low.device)
    misses = rest * known.devices / (known.miss(workers) * known.flit_s)
    share = misses / (workers * lines_of(elements, route))
    return min(max(int(share * window), 1), window)

# SPDX-License-Identifier: Apache-2.0
"""Whether a reducer can take a bucket, and whether that pays (spec: runtime section 5).

Hard limits first, each with its own line; then time: the low-bit path is modelled from measured
coefficients (`runtime.substrate`), the network's all-reduce from a line through the times that
warm-up has seen. `nf measure capacity clocks` compares model and RTL. The name "reducer-capacity
checks" is that of the NEURON-Fabric papers, which are public as abstracts alone; model and numbers
are this project's.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from neuron_fabric.codec.routes import Route, elements_of_line, lines_of
from neuron_fabric.data import DataError, parse_toml, read_text
from neuron_fabric.errors import InputError, one_line
from neuron_fabric.output import write_text
from neuron_fabric.typed import typed

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

    ``hook/rtl.toml`` holds those of the RTL (`substrate.shipped`): there are no defaults.

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
    misses = rest * known.devices / (known.miss(workers) * known.flit_s)
    share = misses / (workers * lines_of(elements, route))
    return min(max(int(share * window), 1), window)


# The substrate file: what was measured of a reducer and its host (spec: runtime section 5.2).
#
# TOML, UTF-8, versioned, written whole or not at all; keys that are not known are refused.


FORMAT = "neuron-fabric-substrate"
VERSION = 2
MOST_BYTES = 64 << 10
SHIPPED = Path(__file__).with_name("rtl.toml")
"""Result of `nf measure capacity measure --device-only --out neuron_fabric/hook/rtl.toml` for the
RTL; of no host."""


class SubstrateError(InputError):
    """A substrate file that cannot be used."""


@dataclass(frozen=True)
class Substrate:
    """A reducer. ``name``, how it was ``measured``, the ``revision`` of the repository and the
    ``date`` are for people."""

    name: str
    measured: str
    coefficients: Coefficients
    device: Device = field(default_factory=Device)
    revision: str = ""
    date: str = ""


def read_substrate(path: Path) -> Substrate:
    """A substrate file. SubstrateError of one line, whatever it holds."""
    try:
        values = parse_toml(read_text(path, MOST_BYTES))
        if values.pop("format", None) != FORMAT:
            raise DataError(f'no substrate file (format = "{FORMAT}" is missing)')
        version = values.pop("version", None)
        if version != VERSION:
            raise DataError(f"is of version {version!r}, this program reads {VERSION}")
        found = typed(Substrate, values)
        _check(found)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise SubstrateError(path, f"cannot be read ({why})", "give a substrate file") from None
    except ValueError as error:  # DataError, and what dataclasses refuse
        raise SubstrateError(path, error, "write it by `nf measure capacity measure`") from None
    return found


def shipped() -> Substrate:
    """The RTL as it was measured, where no file is given."""
    return read_substrate(SHIPPED)


def write_substrate(path: Path, substrate: Substrate) -> None:
    """Write it, whole or not at all. OSError."""
    head = asdict(substrate)
    known, device = head.pop("coefficients"), head.pop("device")
    finite = {key: one for key, one in known.items() if one != math.inf}
    lines = [f'format = "{FORMAT}"', f"version = {VERSION}", *_lines(head)]
    for title, table in (("device", device), ("coefficients", finite)):
        lines += ["", f"[{title}]", *_lines(table)]
    write_text(path, "\n".join(lines) + "\n")


def _lines(table: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {_toml(value)}" for key, value in table.items()]


def _toml(value: Any) -> str:
    if isinstance(value, str):
        shown = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{one_line(shown, 500)}"'
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_toml, value))}]"
    return repr(value)


def _check(found: Substrate) -> None:
    known = asdict(found.coefficients)
    zero = {"fp32_line", "overlap", "turnaround", "start", "commit", "memory_latency"}
    if not all(one > 0 for key, one in known.items() if key not in zero):
        raise DataError("coefficients: rates and clocks of an access are above 0")
    if min(known[key] for key in zero) < 0:
        raise DataError(f"coefficients: {', '.join(sorted(zero))} are not negative")
    device = found.device
    if not (0 < device.cnt_w <= 8 and 0 <= device.mem_lines_log2 <= 46 and device.regions > 0):
        raise DataError("device: cnt_w is 1..8, mem_lines_log2 0..46, regions above 0")
    if Route.FP32 not in device.routes:
        raise DataError("device.routes: FP32 is always there")


# What the network takes for FP32 all-reduces, measured as the training makes them.
#
# Warm-up gives whole buckets; later on there are the FP32 parts of mixed buckets, and samples.
# The time of an all-reduce begins where the one before it has ended, if that is later than its
# own start: buckets under way together share the network. Of each size the lower quartile of the
# last few counts (`usual`); through these goes a line (`capacity.LinkFit`).


KEPT = 5
"""Times of each size."""
FRESH = 200
"""Steps for which a size counts that is not seen any more, unless it is told otherwise: a network
changes."""


def usual(times: Sequence[float]) -> float:
    """The lower quartile. A rank that comes late makes all wait, and is not the network, so not
    more; the least is not what a training will see where ranks share cores, and collectives of more
    rounds are further from it: 64 KiB on two cores took 0.3 ms at the least, and mostly 2."""
    return sorted(times)[(len(times) - 1) // 4]


@dataclass
class _Size:
    step: int = 0
    times: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))


class LinkTimes:
    """Times of one rank's all-reduces by their bytes. Callbacks come from other threads."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.fresh = FRESH
        self._clock, self._lock = clock, threading.Lock()
        self._sizes: dict[int, _Size] = {}
        self._last = 0.0
        self._step = 0

    def watch(self, step: int, size: int, future: Any) -> None:
        """An all-reduce of ``size`` bytes starts now, and ends when ``future`` is there."""
        start = self._clock()
        future.add_done_callback(lambda _: self.ended(step, size, start))

    def ended(self, step: int, size: int, start: float) -> None:
        """An all-reduce of ``size`` bytes has just ended."""
        with self._lock:
            now = self._clock()  # in here: whoever comes second has the later time
            begin, self._last = max(start, self._last), now
            if size <= 0:
                return
            one = self._sizes.setdefault(size, _Size())
            one.step = self._step = max(step, self._step)
            one.times.append(now - begin)

    def seconds(self) -> dict[str, float]:
        """`link_latency` and `link_mib`, as `StepReport.seconds` has them; nothing before the first
        all-reduce."""
        with self._lock:
            last = self._step - self.fresh
            took = {size: usual(one.times) for size, one in self._sizes.items() if one.step >= last}
        fit = LinkFit()
        for size, seconds in sorted(took.items()):
            fit.add(size, seconds)
        line = fit.line()
        return {} if line is None else {"link_latency": line[0], "link_mib": line[1]}

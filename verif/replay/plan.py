# SPDX-License-Identifier: Apache-2.0
"""Plan of a step of a replay: regions, and epochs that carry each line of each tensor once.

spec: controller §2, second edition §7; capture spec, "From tensors to lines". Each route has one
region. Its tensors, each from a new line, form one row of lines, which is cut into epochs. An epoch
is one commit per region, the contributions to its lines, and the reads of its results. Epochs are
independent, so a device can begin with any of them. There are two ways to cut a row:

- between tensors (signal level): epochs as large as the device can hold, no tensor is split; - by
size (bulk): epochs of bounded size, in which all routes take part from first to last.

If the regions of all routes do not fit into the device together, the routes take turns.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, product
from typing import Literal

import numpy as np

from models import regions
from models.commit_check import CommitCode, check_commit
from models.line_packing import LINE_BYTES, U8
from models.modes import Mode, Tie, elements_per_line, lines_needed
from models.parameters import LINE_ADDRESS_BITS, DeviceParams
from models.regions import RegionConfig
from neuron_fabric.capture import TensorSpec
from neuron_fabric.errors import CaptureError

# -- reads of a line, and returned lines ----------------------------------------------------------
# The route belongs to a tensor, the mode to the region that carries it. Sums of integer codes are
# read from a region of their mode, by every view that it has, or from the count planes of a
# G_BINARY region.

RESULT_SELECTOR = 0


Sums = Literal["views", "planes"]
"""Integer codes use regions of their mode, or the count planes of G_BINARY regions."""


def carrier(route: Mode, sums: Sums = "views") -> Mode:
    """Return the mode of the region that carries a route.

    It is G_BINARY for integer codes whose sums are read from planes, else the route itself.
    """
    return Mode.G_BINARY if route.bits and sums == "planes" else route


def selectors(route: Mode, config: RegionConfig, device: DeviceParams) -> tuple[int, ...]:
    """Return the selectors by which each line of a region is read.

    Args:
        route: Route of the tensors.
        config: Descriptor of the region.
        device: Parameters of the device.

    Returns:
        For votes the result (0) and the count planes in use, for FP32 the result; for integer codes
        the count planes in use and the sum views.
    """
    planes = regions.planes_kept(config.workers, device.cnt_w) if route.low_bit else 0
    counts = tuple(range(regions.PLANE_SELECTOR, regions.PLANE_SELECTOR + planes))
    return (*counts, *regions.sum_selectors(config)) if route.bits else (RESULT_SELECTOR, *counts)


def result_lines(chosen: Sequence[int]) -> int:
    """Return the least number of reads per line that give its result.

    Args:
        chosen: Selectors that are read: with 0 one read is enough, else all of the smallest view.
    """
    if RESULT_SELECTOR in chosen:
        return 1
    kinds = (regions.PLANE_SELECTOR, regions.SUM16_SELECTOR, regions.SUM8_SELECTOR)
    counts = [
        sum(0 <= selector - first < regions.PLANE_COUNT for selector in chosen) for first in kinds
    ]
    return min(count for count in counts if count)


@dataclass(frozen=True)
class Lines:
    """Lines returned by a region, uint8[v, n, 64]: n lines by each of v selectors.

    The properties are views of one array.

    Attributes:
        selectors: Selectors of the first dimension.
        stack: The lines.
    """

    selectors: tuple[int, ...]
    stack: U8

    @staticmethod
    def of(result: U8, planes: U8) -> Lines:
        """Join results uint8[n, 64] and count planes uint8[p, n, 64], in this order."""
        counts = range(regions.PLANE_SELECTOR, regions.PLANE_SELECTOR + len(planes))
        return Lines((RESULT_SELECTOR, *counts), np.concatenate([result[None], planes]))

    def part(self, lines: slice) -> Lines:
        """Return the same selectors of a slice of the n lines."""
        return Lines(self.selectors, self.stack[:, lines])

    @property
    def result(self) -> U8:
        """Return the lines of selector 0, uint8[n, 64].

        Raises:
            ValueError: It was not read.
        """
        view: U8 = self.stack[self.selectors.index(RESULT_SELECTOR)]
        return view

    @property
    def planes(self) -> U8:
        """Return the count planes that were read, uint8[p, n, 64]."""
        return self.between(regions.PLANE_SELECTOR, regions.PLANE_COUNT)

    def between(self, first: int, count: int) -> U8:
        """Return the lines of selectors ``first`` to ``first + count - 1`` that were read, uint8[s,
        n, 64].
        """
        at = [n for n, selector in enumerate(self.selectors) if 0 <= selector - first < count]
        begin = at[0] if at else 0
        view: U8 = self.stack[begin : begin + len(at)]
        return view

    @property
    def sum16(self) -> U8:
        """Return the lines of the view SUM16 that were read, uint8[s, n, 64]."""
        return self.between(regions.SUM16_SELECTOR, regions.PLANE_COUNT)

    @property
    def sum8(self) -> U8:
        """Return the lines of the view SUM8 that were read, uint8[s, n, 64]."""
        return self.between(regions.SUM8_SELECTOR, regions.PLANE_COUNT)

    def differ(self, other: Lines) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return for each of the n lines whether it differs by any selector, bool[n]."""
        return np.asarray((self.stack != other.stack).any(axis=(0, 2)))


# -- placement of regions: windows and state areas that the commit checks accept -------------------
# No other region of the device may be committed.


def log2_up(value: int) -> int:
    """Return the exponent of the smallest power of two that is at least ``value``."""
    return max(value - 1, 0).bit_length()


@dataclass(frozen=True)
class Placement:
    """Address space of a device, for regions that share tie rule, threshold and number of workers.

    Attributes:
        params: Parameters of the device.
        workers: Number of workers.
        tie: Result of a tied binary vote.
        threshold: Least net count of a ternary vote.
    """

    params: DeviceParams
    workers: int
    tie: Tie
    threshold: int

    def area(self, mode: Mode, lines_log2: int) -> int:
        """Return the number of memory lines in the state area of a region with 2**lines_log2
        lines.
        """
        config = RegionConfig(0, 0, lines_log2, self.workers, mode)
        return regions.state_lines(config, self.params.cnt_w)

    def check_counters(self, spec: TensorSpec, route: Mode) -> None:
        """Check that the counters of the device do not saturate for codes of that many workers.

        Args:
            spec: Tensor, for the message.
            route: Its route; only integer codes are checked.

        Raises:
            CaptureError: Sums of codes would be wrong.
        """
        if route.bits and self.workers > self.params.cnt_max:
            raise CaptureError(
                f"tensor {spec.name!r} {list(spec.shape)}",
                f"by {route.name} a device with CNT_W={self.params.cnt_w} sums the codes of "
                f"{self.params.cnt_max} workers, not of {self.workers}",
                "use a device with a larger CNT_W or another route",
            )

    def check(self, spec: TensorSpec, mode: Mode, lines: int) -> None:
        """Check that a tensor of ``lines`` lines fits into the empty device.

        Raises:
            CaptureError: Its state area exceeds the memory, or its window the address space.
        """
        log2, room = log2_up(lines), self.params.mem_lines
        need = self.area(mode, log2)
        if need > room:
            raise CaptureError(
                f"tensor {spec.name!r} {list(spec.shape)}",
                f"by {mode.name} with {self.workers} workers it needs a state area of {need} "
                f"lines, the device's memory has {room}",
                f"use a device with MEM_LINES_LOG2 >= {log2_up(need)} or another route",
            )
        if log2 + regions.SELECTOR_BITS > LINE_ADDRESS_BITS - 1:
            raise CaptureError(
                f"tensor {spec.name!r}", "no window is that large", "split the tensor"
            )

    def holds(self, modes: Sequence[Mode], logs: Sequence[int]) -> bool:
        """Return whether regions of these modes and sizes (log2 of lines) fit into the device
        together.
        """
        memory = sum(self.area(mode, log2) for mode, log2 in zip(modes, logs, strict=True))
        return len(modes) <= self.params.regions and memory <= self.params.mem_lines

    def place(self, modes: Sequence[Mode], logs: Sequence[int]) -> tuple[RegionConfig, ...]:
        """Return descriptors of regions that are active together, region 0 first.

        The device accepts them in this order, and each of them again with fewer lines. State areas
        are placed in this order too: a low-bit one is a whole number of records, so all stay
        aligned if these come first. Windows are placed above the memory, the largest first, which
        keeps each naturally aligned.

        Args:
            modes: Mode of each region, low-bit ones first.
            logs: Size of each region, log2 of its lines.

        Raises:
            CaptureError: The windows do not fit into the address space.
        """
        bases = [0] * len(modes)
        at = self.params.mem_lines
        for index in sorted(range(len(modes)), key=lambda i: -logs[i]):
            size = 1 << (logs[index] + regions.SELECTOR_BITS)
            bases[index] = -(-at // size) * size
            at = bases[index] + size
        if at > 1 << LINE_ADDRESS_BITS:
            what = "no room for the windows above the memory"
            raise CaptureError("plan", what, "use less memory")
        out: list[RegionConfig] = []
        state = 0
        for mode, log2, base in zip(modes, logs, bases, strict=True):
            config = RegionConfig(
                base=base * LINE_BYTES,
                state_base=state * LINE_BYTES,
                lines_log2=log2,
                workers=self.workers,
                mode=mode,
                tie_minus=self.tie == Tie.MINUS,
                threshold=self.threshold,
            )
            code = check_commit(self.params, config, out)
            if code != CommitCode.OK:
                raise AssertionError(f"region {len(out)} would be refused: {code.name}")
            out.append(config)
            state += self.area(mode, log2)
        return tuple(out)


ROUTE_ORDER = (Mode.G_BINARY, Mode.G_TERNARY, Mode.G_INT4, Mode.G_INT8, Mode.FP32)


@dataclass(frozen=True)
class Extent:
    """Lines [first, first + lines) of a tensor."""

    tensor: TensorSpec
    first: int
    lines: int


@dataclass(frozen=True)
class RegionUse:
    """Use of one region in one epoch.

    DONE requires every line of the region: if the region has more lines than the extents, it stays
    0.

    Attributes:
        region: Number of the region.
        config: Descriptor that is committed.
        extents: Parts of tensors that fill the region's lines from 0 on.
        route: Route of the tensors.
        selectors: Selectors by which each line is read.
    """

    region: int
    config: RegionConfig
    extents: tuple[Extent, ...]
    route: Mode
    selectors: tuple[int, ...]

    @property
    def lines(self) -> int:
        """Return the number of lines per worker that carry tensors."""
        return sum(extent.lines for extent in self.extents)


@dataclass(frozen=True)
class Row:
    """Row of a route: all its tensors, one after the other, through one region.

    Attributes:
        region: Number of the region.
        route: Route of the tensors.
        config: Descriptor of the region at full size.
        selectors: Selectors by which each line is read.
        tensors: Tensors in the order of their lines.
        starts: First line of each tensor in the row, then the number of lines.
        bounds: Epoch n carries lines [bounds[n], bounds[n + 1]) of the row.
    """

    region: int
    route: Mode
    config: RegionConfig
    selectors: tuple[int, ...]
    tensors: tuple[TensorSpec, ...]
    starts: tuple[int, ...]
    bounds: tuple[int, ...]

    @property
    def lines(self) -> int:
        """Return the number of lines per worker."""
        return self.starts[-1]

    def use(self, number: int) -> RegionUse | None:
        """Return the use of the region in an epoch, or None if the row has no line in it.

        Args:
            number: Number of the epoch in the group of this row, from 0.
        """
        first, last = self.bounds[number : number + 2] if number + 1 < len(self.bounds) else (0, 0)
        if first == last:
            return None
        config = replace(self.config, lines_log2=log2_up(last - first))
        extents = tuple(self._extents(first, last))
        return RegionUse(self.region, config, extents, self.route, self.selectors)

    def _extents(self, first: int, last: int) -> Iterator[Extent]:
        at = bisect_right(self.starts, first) - 1
        while first < last:
            end = min(last, self.starts[at + 1])
            if end > first:
                yield Extent(self.tensors[at], first - self.starts[at], end - first)
            first, at = end, at + 1


@dataclass(frozen=True)
class Plan:
    """Plan of one step.

    Attributes:
        params: Parameters of the device.
        workers: Number of workers.
        groups: Groups of rows. The rows of a group are active together; groups follow each other.
    """

    params: DeviceParams
    workers: int
    groups: tuple[tuple[Row, ...], ...]

    @property
    def epochs(self) -> int:
        """Return the number of epochs of the step."""
        return sum(map(_epochs, self.groups))

    @property
    def lines(self) -> int:
        """Return the number of lines per worker, of all routes."""
        return sum(row.lines for group in self.groups for row in group)

    @property
    def writes(self) -> int:
        """Return the number of contributions of all workers."""
        return self.lines * self.workers

    @property
    def reads(self) -> int:
        """Return the number of lines read back: results, count planes and sums."""
        return sum(row.lines * len(row.selectors) for group in self.groups for row in group)

    @property
    def results(self) -> int:
        """Return the least number of reads that give all results."""
        rows = [row for group in self.groups for row in group]
        return sum(row.lines * result_lines(row.selectors) for row in rows)

    def epoch(self, number: int) -> tuple[RegionUse, ...]:
        """Return the uses of regions in an epoch.

        Args:
            number: Number of the epoch in the step, from 0.

        Raises:
            IndexError: There is no such epoch.
        """
        for group in self.groups:
            if number < _epochs(group):
                return tuple(use for row in group if (use := row.use(number)) is not None)
            number -= _epochs(group)
        raise IndexError("no such epoch")


def _epochs(group: tuple[Row, ...]) -> int:
    return max(len(row.bounds) for row in group) - 1


def plan_step(
    tensors: Sequence[TensorSpec],
    routes: Mapping[str, Mode],
    workers: int,
    params: DeviceParams,
    *,
    tie: Tie = Tie.PLUS,
    threshold: int = 1,
    epoch_lines_log2: int | None = None,
    sums: Sums = "views",
) -> Plan:
    """Plan the epochs of a step; tensors without elements are left out.

    Args:
        tensors: All tensors, in the order of the manifest.
        routes: Route of each tensor by name.
        workers: Number of workers.
        params: Parameters of the device.
        tie: Result of a tied binary vote.
        threshold: Least net count of a ternary vote.
        epoch_lines_log2: Cut by size, into epochs of at most 2**epoch_lines_log2 lines per worker
            and route; None: cut between tensors.
        sums: Regions that carry integer codes.

    Raises:
        CaptureError: The device does not support that many workers, cannot hold a tensor (cut by
            size: one line of each route), or cannot sum the codes of that many workers.
    """
    if not 1 <= workers <= regions.MAX_WORKERS:
        what = f"{workers} workers, the device takes {regions.MAX_WORKERS}"
        raise CaptureError("plan", what, "use fewer workers")
    found = []
    for mode in ROUTE_ORDER:
        own = tuple(t for t in tensors if routes[t.name] == mode and t.elements)
        if own:
            lines = tuple(lines_needed(t.elements, mode) for t in own)
            found.append(_Route(mode, carrier(mode, sums), own, lines))
    placement = Placement(params, workers, tie, threshold)
    for route in found:
        placement.check_counters(route.tensors[0], route.mode)
    return Plan(params, workers, tuple(_groups(found, placement, epoch_lines_log2)))


@dataclass(frozen=True)
class _Route:
    """Tensors of one route while a step is planned.

    Attributes:
        mode: Route.
        carrier: Mode of the region that carries it.
        tensors: Tensors in the order of the manifest.
        lines: Number of lines of each tensor.
    """

    mode: Mode
    carrier: Mode
    tensors: tuple[TensorSpec, ...]
    lines: tuple[int, ...]

    @property
    def smallest(self) -> int:
        return log2_up(max(self.lines))

    @property
    def largest(self) -> int:
        return log2_up(sum(self.lines))

    def first_fit(self, lines_log2: int) -> list[list[int]]:
        """Assign tensors to epochs of 2**lines_log2 lines by first fit; return their indices per
        epoch.
        """
        epochs: list[list[int]] = []
        free: list[int] = []
        for index, lines in enumerate(self.lines):
            at = next((i for i, room in enumerate(free) if lines <= room), len(epochs))
            if at == len(epochs):
                epochs.append([])
                free.append(1 << lines_log2)
            epochs[at].append(index)
            free[at] -= lines
        return epochs

    def row(
        self, region: int, config: RegionConfig, params: DeviceParams, epochs: int | None
    ) -> Row:
        """Return the row of this route, with the tensors in the order of the epochs.

        Args:
            region: Number of the region.
            config: Descriptor of the region.
            params: Parameters of the device.
            epochs: Number of epochs of equal size; None: cut between tensors.
        """
        whole = [list(range(len(self.tensors)))]
        packed = self.first_fit(config.lines_log2) if epochs is None else whole
        order = [index for epoch in packed for index in epoch]
        starts = tuple(accumulate((self.lines[index] for index in order), initial=0))
        sizes = (sum(self.lines[index] for index in epoch) for epoch in packed)
        bounds = tuple(accumulate(sizes, initial=0))
        if epochs is not None:
            bounds = tuple(starts[-1] * number // epochs for number in range(epochs + 1))
        tensors = tuple(self.tensors[index] for index in order)
        chosen = selectors(self.mode, config, params)
        return Row(region, self.mode, config, chosen, tensors, starts, bounds)


def _groups(
    routes: Sequence[_Route], placement: Placement, log2: int | None
) -> Iterator[tuple[Row, ...]]:
    """Yield the rows that are active together: all routes if they fit, else each route alone.

    Args:
        routes: Routes with tensors.
        placement: Address space of the device.
        log2: Cut by size, into epochs of at most 2**log2 lines; None: cut between tensors.
    """
    modes = [route.carrier for route in routes]
    if log2 is None:
        for route in routes:
            for spec, lines in zip(route.tensors, route.lines, strict=True):
                placement.check(spec, route.carrier, lines)
        sizes = _side_by_side(routes, placement)
        together = None if sizes is None else placement.place(modes, sizes)
    else:
        together = one_size(modes, placement, log2)
    parts = [(list(routes), together)] if routes else []
    if together is None:
        most = [route.largest if log2 is None else log2 for route in routes]
        alone = [one_size([mode], placement, size) for mode, size in zip(modes, most)]
        parts = [([route], configs) for route, configs in zip(routes, alone)]
    for members, configs in parts:
        assert configs is not None  # a single route fits, or `one_size` has raised an error
        pairs, epochs = list(zip(members, configs, strict=True)), None
        if log2 is not None:
            epochs = max(-(-sum(route.lines) // config.lines) for route, config in pairs)
        yield tuple(
            route.row(region, config, placement.params, epochs)
            for region, (route, config) in enumerate(pairs)
        )


def _side_by_side(routes: Sequence[_Route], placement: Placement) -> list[int] | None:
    """Return the region size (log2 of lines) of each route, so that all fit into the device
    together.

    Of all sizes that fit, those with the fewest epochs are chosen, then with the least memory, by
    exhaustive search; None if none fit.
    """
    modes = [route.carrier for route in routes]
    ranges = [range(route.smallest, route.largest + 1) for route in routes]
    counts = [
        {log2: len(route.first_fit(log2)) for log2 in logs} for route, logs in zip(routes, ranges)
    ]

    def cost(logs: tuple[int, ...]) -> tuple[int, int]:
        epochs = max((own[log2] for own, log2 in zip(counts, logs)), default=0)
        return epochs, sum(placement.area(mode, log2) for mode, log2 in zip(modes, logs))

    fitting = (logs for logs in product(*ranges) if placement.holds(modes, logs))
    best = min(fitting, key=cost, default=None)
    return None if best is None else list(best)


def one_size(
    modes: Sequence[Mode], placement: Placement, log2: int
) -> tuple[RegionConfig, ...] | None:
    """Return one region per mode, all of the largest size that fits together.

    Args:
        modes: Mode of each region.
        placement: Address space of the device.
        log2: Greatest size, log2 of lines.

    Returns:
        Descriptors; None if regions of these modes do not fit together.

    Raises:
        CaptureError: A single region of one line does not fit.
    """
    for size in range(log2, -1, -1):
        logs = [size] * len(modes)
        if placement.holds(modes, logs):
            return placement.place(modes, logs)
    for mode in modes:
        placement.check(TensorSpec(mode.name, (elements_per_line(mode),)), mode, 1)
    return None

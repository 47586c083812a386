# SPDX-License-Identifier: Apache-2.0
"""What a step of a replay sends in which epoch: every line of every tensor once.

spec: controller §2, capture spec. Every route has one region. Its tensors, one after the other and
each from a new line, make one row of lines, which is cut into epochs; an epoch is one commit a
region, the contributions to its lines, and its results. An epoch is complete in itself, so that a
device can begin with any of them. There are two ways to cut:

- between tensors: epochs as large as the device can hold, a tensor never in two of them;
- by size: epochs of bounded size, all routes at work from the first to the last.

Where the device cannot hold the regions of all routes side by side, the routes take turns.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, product

from models.line_packing import Mode, Tie, elements_per_line, lines_needed
from models.regions import MAX_WORKERS, DeviceParams, RegionConfig
from neuron_fabric.capture import TensorSpec
from neuron_fabric.errors import CaptureError
from verif.replay.placement import Placement, log2_up
from verif.replay.views import Sums, carrier, result_lines, selectors

ROUTE_ORDER = (Mode.G_BINARY, Mode.G_TERNARY, Mode.G_INT4, Mode.G_INT8, Mode.FP32)


@dataclass(frozen=True)
class Extent:
    """Lines [first, first + lines) of a tensor's own lines."""

    tensor: TensorSpec
    first: int
    lines: int


@dataclass(frozen=True)
class RegionUse:
    """One region in one epoch: the extents fill its lines from 0 on, and each line is read by
    ``selectors``.

    DONE needs every line of the region: where it has more than ``lines``, it stays 0.
    """

    region: int
    config: RegionConfig
    extents: tuple[Extent, ...]
    route: Mode
    selectors: tuple[int, ...]

    @property
    def lines(self) -> int:
        """Lines a worker that carry tensors."""
        return sum(extent.lines for extent in self.extents)


@dataclass(frozen=True)
class Row:
    """A route: its region at full size, its tensors, the line where each of them begins, and what
    is read of a line.

    Epoch n takes lines [bounds[n], bounds[n + 1]) of the row.
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
        """Lines a worker."""
        return self.starts[-1]

    def use(self, number: int) -> RegionUse | None:
        """What the region takes in an epoch of the group, or None."""
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
    """One step; steps with the same routes have the same plan. The rows of a group are at work
    together, one group after the other."""

    params: DeviceParams
    workers: int
    groups: tuple[tuple[Row, ...], ...]

    @property
    def epochs(self) -> int:
        """How many epochs there are."""
        return sum(map(_epochs, self.groups))

    @property
    def lines(self) -> int:
        """Lines a worker, all routes."""
        return sum(row.lines for group in self.groups for row in group)

    @property
    def writes(self) -> int:
        """Contributions of all workers."""
        return self.lines * self.workers

    @property
    def reads(self) -> int:
        """Lines read back: results and count planes."""
        return sum(row.lines * len(row.selectors) for group in self.groups for row in group)

    @property
    def results(self) -> int:
        """The least lines that have to be read for the results alone."""
        rows = [row for group in self.groups for row in group]
        return sum(row.lines * result_lines(row.selectors) for row in rows)

    def epoch(self, number: int) -> tuple[RegionUse, ...]:
        """The regions at work in epoch ``number``, counted from 0; IndexError beyond the last."""
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
    """Plan a step; tensors without elements are left out.

    ``epoch_lines_log2``: cut by size, into epochs of at most 2**that lines a worker and route;
    None: cut between tensors. CaptureError when the device does not take that many workers, or
    cannot hold a tensor (a line of each route, where the rows are cut by size), or cannot sum the
    codes of that many workers.
    """
    if not 1 <= workers <= MAX_WORKERS:
        raise CaptureError(
            "plan", f"{workers} workers, the device takes {MAX_WORKERS}", "use fewer workers"
        )
    if threshold < 1 or threshold > 255:
        raise CaptureError("plan", f"threshold {threshold}", "THRESHOLD is 1..255")
    found = []
    for mode in ROUTE_ORDER:
        own = tuple(t for t in tensors if routes[t.name] == mode and t.elements)
        if own:
            lines = tuple(lines_needed(t.elements, mode) for t in own)
            found.append(_Route(mode, carrier(mode, sums), own, lines))
    placement = Placement(params, workers, tie, threshold)
    for route in found:
        placement.check_counters(route.tensors[0], route.mode)
    if epoch_lines_log2 is None:
        groups = _between_tensors(found, placement)
    else:
        groups = _by_size(found, placement, epoch_lines_log2)
    return Plan(params, workers, tuple(groups))


@dataclass(frozen=True)
class _Route:
    """Tensors of one route with their line counts, in manifest order; the mode of its region."""

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
        """Indices of the tensors of each epoch of 2**lines_log2 lines."""
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
        self,
        region: int,
        config: RegionConfig,
        epochs: Sequence[Sequence[int]],
        params: DeviceParams,
    ) -> Row:
        """The row, its tensors in the order of the epochs."""
        order = [index for epoch in epochs for index in epoch]
        sizes = [sum(self.lines[index] for index in epoch) for epoch in epochs]
        return Row(
            region,
            self.mode,
            config,
            selectors(self.mode, config, params),
            tuple(self.tensors[index] for index in order),
            tuple(accumulate((self.lines[index] for index in order), initial=0)),
            tuple(accumulate(sizes, initial=0)),
        )


# -- cut between tensors ------------------------------------------------------------------------
def _between_tensors(routes: Sequence[_Route], placement: Placement) -> Iterator[tuple[Row, ...]]:
    for route in routes:
        for spec, lines in zip(route.tensors, route.lines, strict=True):
            placement.check(spec, route.carrier, lines)
    sizes = _side_by_side(routes, placement)
    parts = (
        [(list(routes), sizes)]
        if sizes is not None
        else [([route], [_alone(route, placement)]) for route in routes]
    )
    for members, logs in parts:
        configs = placement.place([route.carrier for route in members], logs)
        if members:
            yield tuple(
                route.row(region, config, route.first_fit(config.lines_log2), placement.params)
                for region, (route, config) in enumerate(zip(members, configs, strict=True))
            )


def _side_by_side(routes: Sequence[_Route], placement: Placement) -> list[int] | None:
    """Region sizes (log2) with the fewest epochs, then the least memory; None: no room for all."""
    modes = [route.carrier for route in routes]
    ranges = [range(route.smallest, route.largest + 1) for route in routes]
    counts = [
        {log2: len(route.first_fit(log2)) for log2 in logs} for route, logs in zip(routes, ranges)
    ]
    best: tuple[tuple[int, int], list[int]] | None = None
    for logs in product(*ranges):
        if not placement.holds(modes, logs):
            continue
        epochs = max((own[log2] for own, log2 in zip(counts, logs)), default=0)
        memory = sum(placement.area(mode, log2) for mode, log2 in zip(modes, logs))
        if best is None or (epochs, memory) < best[0]:
            best = (epochs, memory), list(logs)
    return None if best is None else best[1]


def _alone(route: _Route, placement: Placement) -> int:
    """The largest useful size that fits when the route has the memory to itself."""
    log2 = route.largest
    while not placement.holds([route.carrier], [log2]):
        log2 -= 1
    return log2


# -- cut by size --------------------------------------------------------------------------------
def _by_size(
    routes: Sequence[_Route], placement: Placement, log2: int
) -> Iterator[tuple[Row, ...]]:
    together = _one_size([route.carrier for route in routes], placement, log2) if routes else ()
    if together is not None:
        parts = [(list(routes), together)] if routes else []
    else:
        alone = [(route, _one_size([route.carrier], placement, log2)) for route in routes]
        parts = [([route], configs) for route, configs in alone if configs is not None]
    for members, configs in parts:
        totals = [sum(route.lines) for route in members]
        epochs = max(-(-lines // own.lines) for lines, own in zip(totals, configs, strict=True))
        yield tuple(
            replace(
                route.row(region, config, [range(len(route.tensors))], placement.params),
                bounds=tuple(lines * number // epochs for number in range(epochs + 1)),
            )
            for region, (route, config, lines) in enumerate(
                zip(members, configs, totals, strict=True)
            )
        )


def _one_size(
    modes: Sequence[Mode], placement: Placement, log2: int
) -> tuple[RegionConfig, ...] | None:
    """A region a mode, as large as fits side by side up to 2**log2 lines; None: they do not fit.

    CaptureError where not even one line of a single mode fits.
    """
    for size in range(log2, -1, -1):
        logs = [size] * len(modes)
        if placement.holds(modes, logs):
            return placement.place(modes, logs)
    for mode in modes:
        placement.check(TensorSpec(mode.name, (elements_per_line(mode),)), mode, 1)
    return None

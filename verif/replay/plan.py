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
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import accumulate, product
from typing import Literal

import numpy as np

from models.commit_check import check_commit
from models.line_packing import LINE_BYTES, U8, Mode, Tie, elements_per_line, lines_needed
from models.parameters import DeviceParams
from models.regions import (
    LINE_ADDRESS_BITS,
    MAX_WORKERS,
    PLANE_COUNT,
    PLANE_SELECTOR,
    SELECTOR_BITS,
    SUM8_SELECTOR,
    SUM16_SELECTOR,
    CommitCode,
    RegionConfig,
    planes_kept,
    state_lines,
    sum_selectors,
)
from neuron_fabric.capture import ModuleSpec, TensorSpec
from neuron_fabric.errors import CaptureError

# What a replay reads of each line of a region, and the lines that have come back.
#
# spec: controller §2, second edition §7. A route is what becomes of a tensor, the mode is that of
# the region it goes through. Sums of integer codes are read of a region of their mode, by every
# view that it has, or of a G_BINARY region, whose count planes hold them.

RESULT_SELECTOR = 0


Sums = Literal["views", "planes"]
"""Integer codes go through a region of their mode, or through a G_BINARY region."""


def carrier(route: Mode, sums: Sums = "views") -> Mode:
    """The mode of the region that a route goes through."""
    return Mode.G_BINARY if route.bits and sums == "planes" else route


def selectors(route: Mode, config: RegionConfig, device: DeviceParams) -> tuple[int, ...]:
    """What is read of each line: its result where there is one, the planes that count, sums."""
    planes = planes_kept(config.workers, device.cnt_w) if route.low_bit else 0
    counts = tuple(range(PLANE_SELECTOR, PLANE_SELECTOR + planes))
    return (*counts, *sum_selectors(config)) if route.bits else (RESULT_SELECTOR, *counts)


def result_lines(chosen: Sequence[int]) -> int:
    """The least of the lines that are read of a line that make its result."""
    if RESULT_SELECTOR in chosen:
        return 1
    kinds = (PLANE_SELECTOR, SUM16_SELECTOR, SUM8_SELECTOR)
    counts = [sum(0 <= selector - first < PLANE_COUNT for selector in chosen) for first in kinds]
    return min(count for count in counts if count)


@dataclass(frozen=True)
class Lines:
    """uint8[v, n, 64]: for each of the selectors the lines that it reads, as views of one array."""

    selectors: tuple[int, ...]
    stack: U8

    @staticmethod
    def of(result: U8, planes: U8) -> Lines:
        """Results uint8[n, 64] and count planes uint8[p, n, 64] together."""
        counts = range(PLANE_SELECTOR, PLANE_SELECTOR + len(planes))
        return Lines((RESULT_SELECTOR, *counts), np.concatenate([result[None], planes]))

    def part(self, lines: slice) -> Lines:
        """A stretch of the lines."""
        return Lines(self.selectors, self.stack[:, lines])

    @property
    def result(self) -> U8:
        """uint8[n, 64]: selector 0. ValueError where it was not read."""
        view: U8 = self.stack[self.selectors.index(RESULT_SELECTOR)]
        return view

    @property
    def planes(self) -> U8:
        """uint8[p, n, 64]: the count planes."""
        return self.between(PLANE_SELECTOR, PLANE_COUNT)

    def between(self, first: int, count: int) -> U8:
        """uint8[v, n, 64]: those of ``count`` selectors from ``first`` on that were read."""
        at = [n for n, selector in enumerate(self.selectors) if 0 <= selector - first < count]
        begin = at[0] if at else 0
        view: U8 = self.stack[begin : begin + len(at)]
        return view

    @property
    def sum16(self) -> U8:
        """uint8[s, n, 64]: the SUM16 lines."""
        return self.between(SUM16_SELECTOR, PLANE_COUNT)

    @property
    def sum8(self) -> U8:
        """uint8[s, n, 64]: the SUM8 lines."""
        return self.between(SUM8_SELECTOR, PLANE_COUNT)

    def differ(self, other: Lines) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """bool[n]: lines of which any view is not the same."""
        return np.asarray((self.stack != other.stack).any(axis=(0, 2)))


# Where the regions of a replay lie: windows and state areas that the commit checks accept.
#
# spec: controller §2. Nobody else may have committed a region of the device.


def log2_up(value: int) -> int:
    """Exponent of the smallest power of two that is not below ``value``."""
    return max(value - 1, 0).bit_length()


@dataclass(frozen=True)
class Placement:
    """The address space of a device, to be filled with regions that share tie rule, threshold and
    number of workers."""

    params: DeviceParams
    workers: int
    tie: Tie
    threshold: int

    def area(self, mode: Mode, lines_log2: int) -> int:
        """Lines of the state area of a region of that size."""
        config = RegionConfig(0, 0, lines_log2, self.workers, mode)
        return state_lines(config, self.params.cnt_w)

    def check_counters(self, spec: TensorSpec, route: Mode) -> None:
        """CaptureError when counters that saturate would make a wrong sum of the codes of a tensor,
        whatever the mode of its region."""
        if route.bits and self.workers > self.params.cnt_max:
            raise CaptureError(
                f"tensor {spec.name!r} {list(spec.shape)}",
                f"by {route.name} a device with CNT_W={self.params.cnt_w} sums the codes of "
                f"{self.params.cnt_max} workers, not of {self.workers}",
                "use a device with a larger CNT_W or another route",
            )

    def check(self, spec: TensorSpec, mode: Mode, lines: int) -> None:
        """CaptureError when a tensor of that many lines does not fit into the empty device."""
        log2, room = log2_up(lines), self.params.mem_lines
        need = self.area(mode, log2)
        if need > room:
            raise CaptureError(
                f"tensor {spec.name!r} {list(spec.shape)}",
                f"by {mode.name} with {self.workers} workers it needs a state area of {need} "
                f"lines, the device's memory has {room}",
                f"use a device with MEM_LINES_LOG2 >= {log2_up(need)} or another route",
            )
        if log2 + SELECTOR_BITS > LINE_ADDRESS_BITS - 1:
            raise CaptureError(
                f"tensor {spec.name!r}", "no window is that large", "split the tensor"
            )

    def holds(self, modes: Sequence[Mode], logs: Sequence[int]) -> bool:
        """Whether regions of these modes and sizes fit side by side."""
        memory = sum(self.area(mode, log2) for mode, log2 in zip(modes, logs, strict=True))
        return len(modes) <= self.params.regions and memory <= self.params.mem_lines

    def place(self, modes: Sequence[Mode], logs: Sequence[int]) -> tuple[RegionConfig, ...]:
        """The descriptors of regions side by side, region 0 first; CaptureError when there is no
        room for their windows.

        The device accepts them in this order, and each of them again with fewer lines. Low-bit
        state areas come first: each is a whole number of records, so all of them stay aligned.
        Windows go up from the memory's end, the largest first, which keeps each naturally aligned.
        """
        bases = [0] * len(modes)
        at = self.params.mem_lines
        for index in sorted(range(len(modes)), key=lambda i: -logs[i]):
            size = 1 << (logs[index] + SELECTOR_BITS)
            bases[index] = -(-at // size) * size
            at = bases[index] + size
        if at > 1 << LINE_ADDRESS_BITS:
            raise CaptureError(
                "plan", "no room for the windows above the memory", "use less memory"
            )
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


# Which path each tensor takes, and the check that it can.
#
# spec: capture spec, "From tensors to lines". Patterns are ``name-glob=route``; the first match
# wins; what matches nothing takes the layer-aware default.


ROUTES = {mode.name: mode for mode in Mode if mode != Mode.IDENTITY and not mode.optional}


@dataclass(frozen=True)
class RoutePattern:
    """``glob`` (case-sensitive, as fnmatch) sends matching tensors by ``mode``."""

    glob: str
    mode: Mode


def parse_route(text: str) -> RoutePattern:
    """``name-glob=route``, split at the last ``=``; CaptureError when it is not that."""
    glob, separator, route = text.rpartition("=")
    glob, route = glob.strip(), route.strip().upper()
    if not separator or not glob or route not in ROUTES:
        raise CaptureError(
            f"route {text!r}",
            "not understood",
            f"write NAME-GLOB=ROUTE with one of {', '.join(ROUTES)}",
        )
    return RoutePattern(glob, ROUTES[route])


def parse_routes(texts: Sequence[str]) -> tuple[RoutePattern, ...]:
    """Patterns in order of precedence."""
    return tuple(parse_route(text) for text in texts)


def layer_of(name: str) -> str:
    """The layer prefix of a tensor name; a name without a dot is its own layer."""
    return name.rpartition(".")[0] or name


def tied_tensors(modules: Sequence[ModuleSpec]) -> list[str]:
    """Tensors that several modules hold."""
    held = Counter(name for module in modules for name in module.tensors)
    return [name for name, times in held.items() if times > 1]


def default_routes(
    tensors: Sequence[TensorSpec], modules: Sequence[ModuleSpec] = ()
) -> dict[str, Mode]:
    """Layer-aware default. FP32 for every tensor of <= 1 dimension, and by kind where ``modules``
    are known: the head, what is tied, embeddings, norms and biases. Where they are not, for the
    last layer, which is that of the last tensor in manifest order. The rest by G_BINARY.
    """
    if modules:
        kept = {s.name for s in tensors if "bias" in s.name.rpartition(".")[2]}
        kept.update(tied_tensors(modules))
        for module in modules:
            if module.head or module.is_norm or module.is_embedding:
                kept.update(module.tensors)
    else:
        last = layer_of(tensors[-1].name) if tensors else ""
        # Only the layer's own tensors: a sub-module below the same prefix is another layer.
        kept = {spec.name for spec in tensors if layer_of(spec.name) == last}
    return {
        spec.name: Mode.FP32 if spec.name in kept or len(spec.shape) <= 1 else Mode.G_BINARY
        for spec in tensors
    }


def assign_routes(
    tensors: Sequence[TensorSpec],
    patterns: Sequence[RoutePattern] = (),
    modules: Sequence[ModuleSpec] = (),
) -> dict[str, Mode]:
    """Route of every tensor, in manifest order; ``modules`` as for `default_routes`.

    CaptureError for a pattern that no tensor's name matches: it is a typing error, and the tensor
    that was meant would silently take the default.
    """
    routes = default_routes(tensors, modules)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern.glob) for name in routes):
            raise CaptureError(
                f"route {pattern.glob}={pattern.mode.name}",
                "matches no tensor",
                f"the names are like {tensors[0].name!r}" if tensors else "there are no tensors",
            )
    for name, default in routes.items():
        chosen = (one.mode for one in patterns if fnmatchcase(name, one.glob))
        routes[name] = next(chosen, default)
    return routes

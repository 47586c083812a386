# SPDX-License-Identifier: Apache-2.0
"""Where the lines of a replay of any size go: rounds of bounded size on regions that never move.

spec: controller §2, capture spec. Every route has one region. Its tensors, one after the other and
each from a new line, make one row of lines; each round takes the next stretch of every row, so that
all routes are at work at once from the first round to the last. A round is complete in itself: a
new epoch, its contributions, its results. A device can therefore begin with any round.

Where the device cannot hold one region a route side by side, the routes take turns on region 0.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from models.formats import Mode, Tie, elements_per_line, lines_needed
from models.regions import DeviceParams, RegionConfig
from neuron_fabric.capture.reader import TensorSpec
from neuron_fabric.errors import CaptureError
from verif.replay.replay_plan import plan_replay

ROUND_LINES_LOG2 = 11
"""Lines a worker and route in a round, at most: 1 MiB of contributions with 8 workers."""
_ORDER = (Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32)


@dataclass(frozen=True)
class Extent:
    """Lines [first, first + lines) of a tensor's own lines."""

    tensor: TensorSpec
    first: int
    lines: int


@dataclass(frozen=True)
class RegionShare:
    """What one region takes in a round: the extents fill its lines from 0 on."""

    region: int
    config: RegionConfig
    extents: tuple[Extent, ...]

    @property
    def lines(self) -> int:
        """Lines a worker."""
        return sum(extent.lines for extent in self.extents)


@dataclass(frozen=True)
class _Row:
    """A route: its region at full size, its tensors, and where each one's lines begin."""

    region: int
    config: RegionConfig
    tensors: tuple[TensorSpec, ...]
    starts: tuple[int, ...]

    @property
    def lines(self) -> int:
        return self.starts[-1]

    def stretch(self, first: int, last: int) -> Iterator[Extent]:
        """The extents of lines [first, last) of the row."""
        at = bisect_right(self.starts, first) - 1
        while first < last:
            end = min(last, self.starts[at + 1])
            if end > first:
                yield Extent(self.tensors[at], first - self.starts[at], end - first)
            first, at = end, at + 1


@dataclass(frozen=True)
class _Group:
    """Routes that are at work together, for ``rounds`` rounds."""

    rows: tuple[_Row, ...]
    rounds: int


@dataclass(frozen=True)
class StreamPlan:
    """One step. Every step with the same routes has the same plan."""

    params: DeviceParams
    workers: int
    groups: tuple[_Group, ...]

    @property
    def rounds(self) -> int:
        """How many rounds there are."""
        return sum(group.rounds for group in self.groups)

    @property
    def lines(self) -> int:
        """Lines a worker, all routes."""
        return sum(row.lines for group in self.groups for row in group.rows)

    def round(self, number: int) -> tuple[RegionShare, ...]:
        """The regions at work in round ``number``, counted from 0; IndexError beyond the last."""
        for group in self.groups:
            if number < group.rounds:
                return tuple(_shares(group, number))
            number -= group.rounds
        raise IndexError("no such round")


def _shares(group: _Group, number: int) -> Iterator[RegionShare]:
    for row in group.rows:
        first = row.lines * number // group.rounds
        last = row.lines * (number + 1) // group.rounds
        if last > first:
            log2 = (last - first - 1).bit_length()
            config = replace(row.config, lines_log2=log2)
            yield RegionShare(row.region, config, tuple(row.stretch(first, last)))


def plan_stream(
    tensors: Sequence[TensorSpec],
    routes: Mapping[str, Mode],
    workers: int,
    params: DeviceParams,
    *,
    tie: Tie = Tie.PLUS,
    threshold: int = 1,
    round_lines_log2: int = ROUND_LINES_LOG2,
) -> StreamPlan:
    """Plan a step of any size; tensors without elements are left out.

    CaptureError when the device does not take that many workers, or cannot hold one line of each.
    """
    chosen = [
        (mode, tuple(t for t in tensors if routes[t.name] == mode and t.elements))
        for mode in _ORDER
    ]
    present = [(mode, own) for mode, own in chosen if own]
    side_by_side = len(present) <= params.regions
    together = [present] if side_by_side else [[one] for one in present]
    groups = []
    for members in together:
        modes = [mode for mode, _ in members]
        configs = _regions(modes, workers, params, tie, threshold, round_lines_log2)
        if configs is None and len(members) > 1:  # no room for all: one after the other
            return _in_turn(present, workers, params, tie, threshold, round_lines_log2)
        assert configs is not None
        groups.append(_group(members, configs))
    return StreamPlan(params, workers, tuple(groups))


def _in_turn(
    present: Sequence[tuple[Mode, tuple[TensorSpec, ...]]],
    workers: int,
    params: DeviceParams,
    tie: Tie,
    threshold: int,
    log2: int,
) -> StreamPlan:
    groups = []
    for mode, own in present:
        configs = _regions([mode], workers, params, tie, threshold, log2)
        assert configs is not None
        groups.append(_group([(mode, own)], configs))
    return StreamPlan(params, workers, tuple(groups))


def _group(
    members: Sequence[tuple[Mode, tuple[TensorSpec, ...]]],
    configs: Sequence[tuple[int, RegionConfig]],
) -> _Group:
    rows = []
    for (mode, own), (region, config) in zip(members, configs, strict=True):
        starts = accumulate((lines_needed(t.elements, mode) for t in own), initial=0)
        rows.append(_Row(region, config, own, tuple(starts)))
    return _Group(tuple(rows), max(-(-row.lines // row.config.lines) for row in rows))


def _regions(
    modes: Sequence[Mode],
    workers: int,
    params: DeviceParams,
    tie: Tie,
    threshold: int,
    log2: int,
) -> list[tuple[int, RegionConfig]] | None:
    """A region a mode, as large as fits side by side up to 2**log2 lines; None: nothing fits.

    `plan_replay` places them, and proves that the device's commit checks accept them. CaptureError
    where not even one line of a single mode fits.
    """
    while True:
        full = [TensorSpec(mode.name, (elements_per_line(mode) << log2,)) for mode in modes]
        try:
            plan = plan_replay(
                full,
                {mode.name: mode for mode in modes},
                workers,
                params,
                tie=tie,
                threshold=threshold,
            )
        except CaptureError:
            if not log2:
                raise
        else:
            if len(plan.rounds) == 1:
                return [(use.region, use.config) for use in plan.rounds[0].uses]
            if not log2:
                return None
        log2 -= 1

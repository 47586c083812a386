# SPDX-License-Identifier: Apache-2.0
"""Where a replay's tensors go: regions, lines and rounds that the commit checks accept.

spec: controller §2, capture spec. One region per route carries tensor after tensor, each from a new
line. When not everything fits at once, the same regions are used again in further rounds (a new
epoch each); when not even one tensor of each route fits side by side, the routes take turns on one
region.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from models.formats import Mode, Tie, lines_needed
from models.regions import (
    LINE_ADDRESS_BITS,
    MAX_WORKERS,
    SELECTOR_BITS,
    CommitCode,
    DeviceParams,
    RegionConfig,
    check_commit,
    record_lines,
    state_lines,
)
from neuron_fabric.capture.reader import TensorSpec
from neuron_fabric.errors import CaptureError

_ORDER = (Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32)
_LINE = 64


@dataclass(frozen=True)
class Placement:
    """Lines [first_line, first_line + lines) of a region's worker hold one tensor."""

    tensor: TensorSpec
    first_line: int
    lines: int


@dataclass(frozen=True)
class RegionUse:
    """One region in one round; lines from ``used_lines`` to ``config.lines`` hold no tensor.

    DONE needs every line of every worker: a replay that waits for it writes zeros to those too.
    """

    region: int
    config: RegionConfig
    placements: tuple[Placement, ...]

    @property
    def used_lines(self) -> int:
        """Lines a worker that carry tensors."""
        return sum(p.lines for p in self.placements)

    @property
    def padding_lines(self) -> int:
        """Lines a worker that carry none."""
        return self.config.lines - self.used_lines


@dataclass(frozen=True)
class Round:
    """Regions to commit with ``epoch``, in this order, then to fill and read."""

    epoch: int
    uses: tuple[RegionUse, ...]


@dataclass(frozen=True)
class ReplayPlan:
    """A whole step of a replay."""

    params: DeviceParams
    workers: int
    rounds: tuple[Round, ...]

    def placements(self) -> Iterator[tuple[Round, RegionUse, Placement]]:
        """Every tensor once, in the order driven."""
        for one in self.rounds:
            for use in one.uses:
                for placement in use.placements:
                    yield one, use, placement

    def from_epoch(self, first_epoch: int) -> ReplayPlan:
        """The same layout for another step, its epochs counted from ``first_epoch``.

        A device that ran this plan accepts it again; another layout may meet its old regions.
        """
        rounds = tuple(
            replace(one, epoch=first_epoch + number) for number, one in enumerate(self.rounds)
        )
        return replace(self, rounds=rounds)

    def describe(self) -> list[str]:
        """One line of text per region and round."""
        return [
            f"epoch {one.epoch} region {use.region} {use.config.mode.name}: "
            f"{len(use.placements)} tensors, {use.used_lines} of {use.config.lines} lines, "
            f"window {use.config.base:#x}, state {use.config.state_base:#x}"
            for one in self.rounds
            for use in one.uses
        ]


@dataclass(frozen=True)
class _Job:
    """A route's tensors with their line counts, in manifest order."""

    mode: Mode
    tensors: tuple[tuple[TensorSpec, int], ...]

    @property
    def smallest(self) -> int:
        return _log2_up(max(lines for _, lines in self.tensors))

    @property
    def largest(self) -> int:
        return _log2_up(sum(lines for _, lines in self.tensors))

    def rounds(self, lines_log2: int) -> list[list[tuple[TensorSpec, int]]]:
        """First fit into rounds of 2**lines_log2 lines."""
        rounds: list[list[tuple[TensorSpec, int]]] = []
        free: list[int] = []
        for tensor, lines in self.tensors:
            at = next((i for i, room in enumerate(free) if lines <= room), len(rounds))
            if at == len(rounds):
                rounds.append([])
                free.append(1 << lines_log2)
            rounds[at].append((tensor, lines))
            free[at] -= lines
        return rounds


def _log2_up(value: int) -> int:
    return max(value - 1, 0).bit_length()


def _align_up(value: int, step: int) -> int:
    return -(-value // step) * step


def _area(mode: Mode, lines_log2: int, workers: int, cnt_w: int) -> int:
    """State lines of a region; only mode, size and worker count matter."""
    return state_lines(RegionConfig(0, 0, lines_log2, workers, mode), cnt_w)


def plan_replay(
    tensors: Sequence[TensorSpec],
    routes: Mapping[str, Mode],
    workers: int,
    params: DeviceParams,
    *,
    tie: Tie = Tie.PLUS,
    threshold: int = 1,
    strict: bool = False,
    bind: bool = False,
    first_epoch: int = 1,
    reserve_lines: int = 0,
) -> ReplayPlan:
    """Plan one step. The device must have no region committed by anybody else.

    ``reserve_lines`` at the bottom of memory stay free for ordinary use. Tensors without elements
    are left out. CaptureError when the device does not take that many workers, when a tensor does
    not fit its memory, or when no window fits above it.
    """
    if not 1 <= workers <= MAX_WORKERS:
        raise CaptureError(
            "plan", f"{workers} workers, the device takes {MAX_WORKERS}", "use fewer workers"
        )
    if threshold < 1 or threshold > 255:
        raise CaptureError("plan", f"threshold {threshold}", "THRESHOLD is 1..255")
    jobs = []
    for mode in _ORDER:
        own = tuple(
            (t, lines_needed(t.elements, mode))
            for t in tensors
            if routes[t.name] == mode and t.elements
        )
        if own:
            jobs.append(_Job(mode, own))
    start = _align_up(reserve_lines, record_lines(workers, params.cnt_w))
    room = params.mem_lines - start
    for job in jobs:
        _check_fits(job, workers, params, room)

    def config(mode: Mode, lines_log2: int, base: int, state: int) -> RegionConfig:
        return RegionConfig(
            base=base * _LINE,
            state_base=state * _LINE,
            lines_log2=lines_log2,
            workers=workers,
            mode=mode,
            tie_minus=tie == Tie.MINUS,
            strict=strict,
            bind=bind,
            threshold=threshold,
        )

    sizes = _side_by_side(jobs, workers, params, room)
    if sizes is None:
        groups = [([job], [_alone(job, workers, params, room)]) for job in jobs]
    else:
        groups = [(jobs, sizes)]
    rounds: list[Round] = []
    for members, logs in groups:
        places = _place(members, logs, workers, params, start)
        split = [job.rounds(log) for job, log in zip(members, logs, strict=True)]
        for number in range(max((len(s) for s in split), default=0)):
            uses = []
            for region, (job, chunks, (base, state)) in enumerate(
                zip(members, split, places, strict=True)
            ):
                if number >= len(chunks):
                    continue
                placed = _placements(chunks[number])
                used = placed[-1].first_line + placed[-1].lines
                uses.append(
                    RegionUse(region, config(job.mode, _log2_up(used), base, state), placed)
                )
            rounds.append(Round(first_epoch + len(rounds), tuple(uses)))
    plan = ReplayPlan(params, workers, tuple(rounds))
    _prove(plan)
    return plan


def _check_fits(job: _Job, workers: int, params: DeviceParams, room: int) -> None:
    for tensor, lines in job.tensors:
        log = _log2_up(lines)
        need = _area(job.mode, log, workers, params.cnt_w)
        if need > room:
            raise CaptureError(
                f"tensor {tensor.name!r} {list(tensor.shape)}",
                f"by {job.mode.name} with {workers} workers it needs a state area of {need} lines, "
                f"the device's memory has {room}",
                f"use a device with MEM_LINES_LOG2 >= {_log2_up(need + params.mem_lines - room)} "
                "or another route",
            )
        if log + SELECTOR_BITS > LINE_ADDRESS_BITS - 1:
            raise CaptureError(
                f"tensor {tensor.name!r}", "no window is that large", "split the tensor"
            )


def _side_by_side(
    jobs: Sequence[_Job], workers: int, params: DeviceParams, room: int
) -> list[int] | None:
    """Region sizes (log2) with the fewest rounds, then the least memory; None: no room for all."""
    if len(jobs) > params.regions:
        return None
    best: tuple[tuple[int, int], list[int]] | None = None
    counts: dict[tuple[Mode, int], int] = {}
    areas: dict[tuple[Mode, int], int] = {}
    ranges = []
    for job in jobs:
        ranges.append(range(job.smallest, job.largest + 1))
        for log in ranges[-1]:
            areas[job.mode, log] = _area(job.mode, log, workers, params.cnt_w)
            counts[job.mode, log] = len(job.rounds(log))
    for logs in product(*ranges):
        pairs = [(job.mode, log) for job, log in zip(jobs, logs, strict=True)]
        memory = sum(areas[pair] for pair in pairs)
        if memory > room:
            continue
        score = (max((counts[pair] for pair in pairs), default=0), memory)
        if best is None or score < best[0]:
            best = (score, list(logs))
    return None if best is None else best[1]


def _alone(job: _Job, workers: int, params: DeviceParams, room: int) -> int:
    """The largest useful size that fits when the route has the memory to itself."""
    log = job.largest
    while _area(job.mode, log, workers, params.cnt_w) > room:
        log -= 1
    return log


def _place(
    jobs: Sequence[_Job], logs: Sequence[int], workers: int, params: DeviceParams, start: int
) -> list[tuple[int, int]]:
    """(window, state area) of each job as line addresses.

    Low-bit areas come first: each is a whole number of records, so all of them stay aligned.
    Windows go up from the memory's end, the largest first, which keeps each naturally aligned.
    """
    bases = [0] * len(jobs)
    at = params.mem_lines
    for index in sorted(range(len(jobs)), key=lambda i: -logs[i]):
        size = 1 << (logs[index] + SELECTOR_BITS)
        bases[index] = _align_up(at, size)
        at = bases[index] + size
    if at > 1 << LINE_ADDRESS_BITS:
        raise CaptureError("plan", "no room for the windows above the memory", "use less memory")
    out = []
    state = start
    for job, log, base in zip(jobs, logs, bases, strict=True):
        out.append((base, state))
        state += _area(job.mode, log, workers, params.cnt_w)
    return out


def _placements(chunk: Sequence[tuple[TensorSpec, int]]) -> tuple[Placement, ...]:
    out, at = [], 0
    for tensor, lines in chunk:
        out.append(Placement(tensor, at, lines))
        at += lines
    return tuple(out)


def _prove(plan: ReplayPlan) -> None:
    """Every commit of the plan, in order, against the device's own checks."""
    active: dict[int, RegionConfig] = {}
    for one in plan.rounds:
        for use in one.uses:
            others = [config for region, config in active.items() if region != use.region]
            code = check_commit(plan.params, use.config, others)
            if code != CommitCode.OK:
                raise AssertionError(f"region {use.region} would be refused: {code.name}")
            active[use.region] = use.config

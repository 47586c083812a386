# SPDX-License-Identifier: Apache-2.0
"""Cover points of regions: region numbers, epochs, views and capacity."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cocotbext.cxl.wire.messages import DevLoad, M2SRwD
from models.aggregated_line import AggregatedLine
from models.line_packing import Mode
from models.nf_regs import REG_MAP
from models.regions import STATUS_SELECTOR, VIEW_SELECTORS, Cause, CommitCode, Kind, RegionConfig
from verif.coverage.cover_model import CoverModel
from verif.coverage.coverage_plan import Planned
from verif.coverage.transaction_points import (
    AGGREGATING,
    INTS,
    LINES,
    LOW_BIT,
    MODES,
    TERN5,
    THRESHOLDS,
    lines_class,
    own_points,
    threshold_class,
)
from verif.scoreboard.operations import Op

MAX_REGIONS = 16
REGIONS = tuple(str(region) for region in range(MAX_REGIONS))
EVENTS = (
    "commit",
    "commit refused",
    "write IDENTITY",
    "read IDENTITY",
    "write G_BINARY",
    "write G_TERNARY",
    "write FP32",
    "result G_BINARY",
    "result G_TERNARY",
    "result FP32",
    "plane",
    "raw",
    "early",
    "poisoned",
    "illegal code",
    "line complete",
    "DONE",
    "refused LD_MASK",
    "refused SELECTOR",
    "refused BIND",
    "refused PARTIAL",
    "write-back",
    "initialised",
    "fetched",
)
_KINDS = {Kind.RESULT: "result ", Kind.CONTRIBUTION: "write "}


class RegionPoints:
    """Events of each region number, sampled by `op`, `judged`, `committed` and `record`."""

    def __init__(self, model: CoverModel) -> None:
        plan = Planned(model)
        self.events = plan.cross("region number", {"region": REGIONS, "event": EVENTS})

    def op(self, op: Op) -> None:
        """Sample an answered operation."""
        access = op.access
        if access.region is None:
            return
        cause = access.cause
        if cause in (Cause.LD_MASK, Cause.SELECTOR, Cause.BIND, Cause.PARTIAL):
            self.events.hit(REGIONS[access.region], f"refused {cause.name}")
        elif access.kind is Kind.IDENTITY:
            way = "write" if access.write else "read"
            self.events.hit(REGIONS[access.region], f"{way} IDENTITY")

    def judged(
        self,
        op: Op,
        config: RegionConfig,
        before: AggregatedLine,
        after: AggregatedLine,
        done: bool,
    ) -> None:
        """Sample an operation on a line that raced with none; `done`: the region is complete after
        it.
        """
        access, hit = op.access, self.events.hit
        region = REGIONS[access.region]
        kind = _KINDS.get(access.kind)
        if kind is not None:
            hit(region, kind + config.mode.name)
        else:
            hit(region, "raw" if access.kind is Kind.RAW else "plane")
        if access.kind is Kind.CONTRIBUTION:
            if after.poisoned and not before.poisoned:
                hit(region, "poisoned")
            if after.illegal and not before.illegal:
                hit(region, "illegal code")
            if after.counted_complete and not before.counted_complete:
                hit(region, "line complete")
                if done:
                    hit(region, "DONE")
        elif len(before.data) < config.workers:
            hit(region, "early")

    def committed(self, region: int, code: int) -> None:
        """Sample a decided commit."""
        self.events.hit(REGIONS[region], "commit refused" if code else "commit")

    def record(self, region: int, place: str, write: bool) -> None:
        """Sample a transfer of a bookkeeping line; `place` as named by `MemoryPort.located`."""
        event = ("initialised" if place == "initialiser" else "write-back") if write else "fetched"
        self.events.hit(REGIONS[region], event)


# Commits: their codes, shapes and options of regions, what a new round finds of the old one.


CHANGES = (
    "first",
    "same",
    "options",
    "W",
    "lines",
    "mode",
    "window moved",
    "area moved",
    "several",
)
NUMBERS = ("0", "same", "next", "2^32-1", "other")
MASKS = ("none", "one", "some", "all")
TOUCHES = ("write", "result", "part")
FOUND = ("new area", "older round", "other shape")
_SHAPE = {
    "workers": "W",
    "lines_log2": "lines",
    "mode": "mode",
    "base": "window moved",
    "state_base": "area moved",
}


class EpochPoints:
    """Descriptors, commits and first touches, sampled by `committed` and `judged`."""

    def __init__(self, model: CoverModel) -> None:
        plan = Planned(model)
        self.workers = plan.cross(
            "workers", {"mode": AGGREGATING, "W": [str(workers) for workers in range(1, 65)]}
        )
        self.lines = plan.cross("lines", {"mode": MODES, "LINES_LOG2": LINES})
        self.options = plan.point(
            "options",
            [f"{o} {v}" for o in ("tie_minus", "strict", "bind", "keep_sum") for v in (0, 1)],
        )
        self.threshold = plan.point("threshold", THRESHOLDS)
        self.ld_mask = plan.cross(
            "LD mask", {"mode": MODES, "LD-IDs": MASKS, "bind": ("free", "BIND")}
        )
        self.commit = plan.cross(
            "commit", {"code": [code.name for code in CommitCode], "before": ("none", "committed")}
        )
        self.change = plan.cross("commit change", {"change": CHANGES, "mode": MODES})
        self.number = plan.point("epoch number", NUMBERS)
        self.commit_traffic = plan.point("commit traffic", ["quiet", "busy"])
        self.first_touch = plan.cross(
            "first touch", {"mode": AGGREGATING, "found": FOUND, "what": TOUCHES}
        )
        self._old: dict[int, RegionConfig] = {}
        self._found: dict[int, str] = {}
        self._number: dict[int, int] = {}

    # -- sampling -----------------------------------------------------------------------------
    def committed(
        self, region: int, config: RegionConfig, epoch: int, code: int, busy: bool
    ) -> None:
        """Sample a decided commit."""
        old = self._old.get(region)
        self.commit.hit(CommitCode(code).name, "committed" if old else "none")
        if code:
            return
        self._old[region] = config
        change = _change(old, config)
        same_area = old is not None and old.state_base == config.state_base
        same_shape = change in ("same", "options", "window moved")
        self._found[region] = FOUND[0 if not same_area else 1 if same_shape else 2]
        self.number.hit(_number(self._number.get(region), epoch))
        self._number[region] = epoch
        self.commit_traffic.hit("busy" if busy else "quiet")
        for option in ("tie_minus", "strict", "bind", "keep_sum"):
            self.options.hit(f"{option} {int(getattr(config, option))}")
        if config.mode is Mode.G_TERNARY:
            self.threshold.hit(threshold_class(config.threshold, config.workers))
        allowed = {0: "none", 1: "one", 16: "all"}.get(config.ld_mask.bit_count(), "some")
        if own_points(config.mode):
            return
        self.change.hit(change, config.mode.name)
        self.lines.hit(config.mode.name, lines_class(config.lines_log2))
        self.ld_mask.hit(config.mode.name, allowed, "BIND" if config.bind else "free")
        if config.mode is not Mode.IDENTITY:
            self.workers.hit(config.mode.name, str(config.workers))

    def judged(self, op: Op, config: RegionConfig, before: AggregatedLine) -> None:
        """Sample an operation on a line that raced with none; `before`: the line before it."""
        if before.data or before.poisoned:
            return
        kind = op.access.kind
        what = TOUCHES[0 if kind is Kind.CONTRIBUTION else 1 if kind is Kind.RESULT else 2]
        self.first_touch.hit(config.mode.name, self._found[op.access.region], what)


def _change(old: RegionConfig | None, new: RegionConfig) -> str:
    if old is None:
        return "first"
    shape = [name for field, name in _SHAPE.items() if getattr(old, field) != getattr(new, field)]
    if shape:
        return shape[0] if len(shape) == 1 else "several"
    return "same" if old == new else "options"


def _number(old: int | None, new: int) -> str:
    if new in (0, 2**32 - 1):
        return "0" if new == 0 else "2^32-1"
    if old is None:
        return "other"
    return {0: "same", 1: "next"}.get(new - old, "other")


# What the second edition adds for hosts: shared LD-IDs, rounds that close, INFO and STATUS.


_WRITES = (Kind.CONTRIBUTION, Kind.IDENTITY)
_READS = {
    Kind.RESULT: "result",
    Kind.SUM: "result",
    Kind.PLANE: "part",
    Kind.RAW: "part",
    Kind.INFO: "INFO",
}
_MODES = (*AGGREGATING, *INTS, TERN5)
_FLAGS = ("complete", "poisoned", "lost", "saturated", "closed")
_FIGURES = ("complete lines", "done", "FALLBACK", "refused", "late", "poisoned lines")


class ViewPoints:
    """Closed rounds, INFO and STATUS, sampled by `op`, `judged`, `closed` and `status`."""

    def __init__(self, model: CoverModel) -> None:
        plan = Planned(model)
        self.bind_shift = plan.cross(
            "bind shift",
            {"shift": ("0", "1", "2"), "LD-ID": ("owner", "unshifted", "other")},
            ignore=lambda shift, ldid: shift == "0" and ldid == "unshifted",
        )
        self.late = plan.cross(
            "late write",
            {
                "mode": _MODES,
                "worker": ("new", "seen"),
                "data": ("clean", "poisoned"),
                "line": ("untouched", "some", "complete"),
            },
            ignore=lambda _mode, worker, _data, line: (
                line == ("untouched" if worker == "seen" else "complete")
            ),
        )
        self.final = plan.cross(
            "final read",
            {
                "mode": _MODES,
                "read": ("result", "part", "INFO"),
                "strict": ("lax", "STRICT"),
                "line": ("untouched", "some", "complete"),
            },
        )
        self.close = plan.point("close", ("quiet", "busy"))
        self.info = plan.cross(
            "INFO",
            {"mode": _MODES, "flag": _FLAGS, "value": ("0", "1")},
            ignore=lambda mode, flag, value: (
                mode not in LOW_BIT and (flag, value) == ("saturated", "1")
            ),
        )
        self.info_race = plan.point("INFO race", ("alone", "racing", "with commit"))
        self.figures = plan.cross(
            "STATUS", {"figure": _FIGURES, "value": ("0", "more"), "when": ("quiet", "racing")}
        )
        self.workers = plan.cross(
            "worker lines",
            {
                "selector": [str(one) for one in VIEW_SELECTORS[1:]],
                "lines": ("0", "1..255", "256.."),
            },
        )

    def op(self, op: Op, config: RegionConfig | None) -> None:
        """Sample an answered operation."""
        access, msg = op.access, op.msg
        if config is None or not config.bind or not isinstance(msg, M2SRwD):
            return
        if access.kind in _WRITES or access.cause is Cause.BIND:
            who = "unshifted" if msg.ldid == access.selector else "other"
            if msg.ldid == config.owner(access.selector):
                who = "owner"
            self.bind_shift.hit(str(config.bind_shift), who)

    def closed(self, busy: bool) -> None:
        """Sample the close of a round; `busy`: with requests in flight."""
        self.close.hit("busy" if busy else "quiet")

    def judged(
        self,
        op: Op,
        config: RegionConfig,
        before: AggregatedLine,
        after: AggregatedLine,
        closed: bool,
    ) -> None:
        """Sample an operation on a line; `before`, `after`: the line before and after it."""
        mode, seen = config.mode.name, len(before.data)
        line = "complete" if seen == config.workers else "some" if seen else "untouched"
        if closed and op.access.kind is Kind.CONTRIBUTION:
            worker = "seen" if op.access.selector in before.data else "new"
            data = "poisoned" if getattr(op.msg, "poison", False) else "clean"
            self.late.hit(mode, worker, data, line)
        elif closed:
            strict = "STRICT" if config.strict else "lax"
            self.final.hit(mode, _READS[op.access.kind], strict, line)
        if op.access.kind is not Kind.INFO:
            return
        complete = seen == config.workers and not before.lost
        saturated = mode in LOW_BIT and before.saturated
        flags = (complete, before.poisoned, before.lost, saturated, closed)
        for name, flag in zip(_FLAGS, flags, strict=True):
            self.info.hit(mode, name, str(int(flag)))
        with_commit = "with commit" if op.commit_raced else "racing"
        self.info_race.hit(with_commit if op.overlapped or op.commit_raced else "alone")

    def status(self, op: Op, words: list[int], exact: bool) -> None:
        """Sample a read of STATUS; `exact`: no request raced with it."""
        selector, when = op.access.selector, "quiet" if exact else "racing"
        if selector == STATUS_SELECTOR:
            for name, word in zip(_FIGURES, words[1:], strict=False):
                self.figures.hit(name, "more" if word else "0", when)
            return
        for word in words:
            lines = "256.." if word > 255 else "1..255" if word else "0"
            self.workers.hit(str(selector), lines)


# What the device tells the host of its state: DevLoad, FALLBACK, DONE and the interrupt, with the
# registers that set their limits.


_REGISTERS = REG_MAP.expand()
_IRQ_STATUS = _REGISTERS["IRQ_STATUS"]
_DEVLOAD = _REGISTERS["DEVLOAD_THRESHOLD"]
SOURCES = tuple(field.name for field in _IRQ_STATUS.fields)
LOADS = tuple(load.name for load in DevLoad)
WINDOWS = ("0", "1", "2", "3..255", "256", "above 256")
MISSES = ("0", "1", "below window", "window - 1", "window", "above window")
LEVELS = ("0", "1", "2..128", "above 128")  # 128: every answer that may be under way


class CapacityPoints:
    """DevLoad, FALLBACK and interrupts, sampled by `op`, `register` (a read) and `written`."""

    def __init__(self, model: CoverModel) -> None:
        plan = Planned(model)
        self.devload = plan.point("devload", LOADS)
        self.devload_change = plan.cross("devload change", {"before": LOADS, "now": LOADS})
        self.levels = plan.cross(
            "devload levels", {"level": ("OPTIMAL", "MODERATE", "SEVERE"), "value": LEVELS}
        )
        self.interrupt = plan.cross(
            "interrupt", {"source": SOURCES, "enable": ("masked", "enabled")}
        )
        self.window = plan.cross(
            "capacity limits", {"window": WINDOWS, "misses": MISSES}, ignore=_same_edge
        )
        self.fallback = plan.point(
            "fallback", ("raised", "cleared", "raised again", "raised beside another")
        )
        self.done = plan.point(
            "done", ("raised", "ended by a commit", "raised again", "raised beside another")
        )
        self._load = ""
        self._enabled = 0
        self._limits = {name: _REGISTERS[name].reset for name in ("CAP_WINDOW", "CAP_THRESHOLD")}
        self._levels = {"FALLBACK": 0, "DONE": 0}
        self._ever = {"FALLBACK": 0, "DONE": 0}

    # -- responses ----------------------------------------------------------------------------
    def op(self, op: Op) -> None:
        """Sample an answered operation."""
        if op.response is None:
            return
        load = LOADS[op.response.devload]
        self.devload.hit(load)
        if self._load:
            self.devload_change.hit(self._load, load)
        self._load = load

    # -- registers ----------------------------------------------------------------------------
    def register(self, name: str, value: int) -> None:
        """Sample a register read."""
        if name == "IRQ_STATUS":
            for source, pending in _IRQ_STATUS.unpack(value).items():
                if pending:
                    enabled = _IRQ_STATUS.field(source).extract(self._enabled)
                    self.interrupt.hit(source, "enabled" if enabled else "masked")
        elif name == "FALLBACK":
            self._follow(self.fallback.hit, name, value, "cleared")
        elif name == "DONE":
            self._follow(self.done.hit, name, value, "ended by a commit")

    def _follow(self, hit: Callable[[str], None], name: str, value: int, fall: str) -> None:
        """Count rising and falling bits of a register with one bit per region, between two reads of
        it.
        """
        old, ever = self._levels[name], self._ever[name]
        rises = value & ~old
        if rises:
            hit("raised again" if rises & ever else "raised")
            if value & (value - 1):
                hit("raised beside another")
        if old & ~value:
            hit(fall)
        self._levels[name], self._ever[name] = value, ever | value

    def written(self, name: str, value: int) -> None:
        """Sample a register write."""
        if name == "IRQ_ENABLE":
            self._enabled = value
        elif name in self._limits:
            self._limits[name] = value & 511
            window, misses = self._limits["CAP_WINDOW"], self._limits["CAP_THRESHOLD"]
            self.window.hit(_window(window), _misses(misses, min(window, 256)))
        elif name == "DEVLOAD_THRESHOLD":
            for level, limit in _DEVLOAD.unpack(value).items():
                self.levels.hit(level, _ranged(limit, (0, 1, 128), LEVELS))


def _ranged(value: int, limits: Sequence[int], names: Sequence[str]) -> str:
    """Return the name of the first limit that is at least `value`, or the last name."""
    for limit, name in zip(limits, names, strict=False):
        if value <= limit:
            return name
    return names[-1]


def _window(window: int) -> str:
    return _ranged(window, (0, 1, 2, 255, 256), WINDOWS)


def _misses(misses: int, window: int) -> str:
    if misses >= window:
        return "window" if misses == window else "above window"
    if misses == window - 1:
        return "window - 1"
    return str(misses) if misses <= 1 else "below window"


def _same_edge(window: str, misses: str) -> bool:
    """Return whether a number of misses has another name in so short a window."""
    taken = {"0": ("0", "1", "below window", "window - 1"), "1": ("0", "1", "below window")}
    return misses in {**taken, "2": ("1", "below window")}.get(window, ())

# SPDX-License-Identifier: Apache-2.0
"""Cover points of regions: region numbers, epochs, views by INFO and STATUS, DevLoad and
FALLBACK.
"""

from cocotbext.cxl.wire.messages import DevLoad, M2SRwD
from models.access_decode import Cause, Kind
from models.commit_check import CommitCode
from models.modes import Mode
from models.regions import STATUS_SELECTOR, RegionConfig
from models.register_map import REG_MAP
from verif.coverage.cover_model import CoverModel
from verif.coverage.coverage_plan import Judged, Points, class_of, codes
from verif.coverage.transaction_points import LOW_BIT, own_points, threshold_class
from verif.scoreboard.operations import Op

_KINDS = {Kind.RESULT: "result ", Kind.CONTRIBUTION: "write "}


class RegionPoints(Points):
    """Cover point "region number": each event in each region number.

    Sampled by `op`, `judged`, `committed` and `record`.
    """

    def event(self, region: int, event: str) -> None:
        """Count the bin of an event in a region, by the name of the event in `plan.toml`."""
        self.hit("region number", str(region), event)

    def op(self, op: Op) -> None:
        """Count the bins of an answered request to a window: a refusal, or an access of mode
        IDENTITY.
        """
        access = op.access
        if access.region is None:
            return
        cause = access.cause
        if cause in (Cause.LD_MASK, Cause.SELECTOR, Cause.BIND, Cause.PARTIAL):
            self.event(access.region, f"refused {cause.name}")
        elif access.kind is Kind.IDENTITY:
            way = "write" if access.write else "read"
            self.event(access.region, f"{way} IDENTITY")

    def judged(self, one: Judged) -> None:
        """Count the bins of a judged operation on a line: its kind and mode, and what it has
        completed.

        Args:
            one: Operation that the scoreboard found correct, with the line before and after it.
        """
        access, before, after = one.op.access, one.before, one.after
        region, raw = access.region, "raw" if access.kind is Kind.RAW else "plane"
        kind = _KINDS.get(access.kind)
        self.event(region, raw if kind is None else kind + one.mode)
        if one.writes:
            if after.poisoned and not before.poisoned:
                self.event(region, "poisoned")
            if after.illegal and not before.illegal:
                self.event(region, "illegal code")
            if after.counted_complete and not before.counted_complete:
                self.event(region, "line complete")
                if one.done:
                    self.event(region, "DONE")
        elif len(before.data) < one.config.workers:
            self.event(region, "early")

    def committed(self, region: int, code: int) -> None:
        """Count the bin of a settled commit: accepted (code 0) or refused."""
        self.event(region, "commit refused" if code else "commit")

    def record(self, region: int, place: str, write: bool) -> None:
        """Count the bin of a transfer of a bookkeeping line on the memory port.

        Args:
            region: Number of the region.
            place: Name of the access, see `MemoryPort.located`.
            write: Whether it is a write.
        """
        event = ("initialised" if place == "initialiser" else "write-back") if write else "fetched"
        self.event(region, event)


# Commits: their codes, shapes and options of regions, what a new round finds of the old one.


_SHAPE = {
    "workers": "W",
    "lines_log2": "lines",
    "mode": "mode",
    "base": "window moved",
    "state_base": "area moved",
}


class EpochPoints(Points):
    """Cover points of commits: codes, changes of descriptors, options, and the first access to a
    line.

    Sampled by `committed` and `judged`.
    """

    def __init__(self, model: CoverModel) -> None:
        super().__init__(model)
        self._old: dict[int, RegionConfig] = {}
        self._found: dict[int, str] = {}
        self._number: dict[int, int] = {}

    # -- sampling -----------------------------------------------------------------------------
    def committed(
        self, region: int, config: RegionConfig, epoch: int, code: int, busy: bool
    ) -> None:
        """Count the bins of a settled commit.

        Args:
            region: Number of the region.
            config: Descriptor that was committed, or refused.
            epoch: Value written to EPOCH.
            code: Result code; 0 if the commit was accepted.
            busy: Whether requests were in flight when it began.
        """
        old = self._old.get(region)
        self.hit("commit", CommitCode(code).name, "committed" if old else "none")
        if code:
            return
        self._old[region] = config
        change = _change(old, config)
        same_area = old is not None and old.state_base == config.state_base
        same_shape = change in ("same", "options", "window moved")
        kept = "older round" if same_shape else "other shape"
        self._found[region] = kept if same_area else "new area"
        self.hit("epoch number", _number(self._number.get(region), epoch))
        self._number[region] = epoch
        self.hit("commit traffic", "busy" if busy else "quiet")
        for option in ("tie_minus", "strict", "bind", "keep_sum"):
            self.hit("options", f"{option} {int(getattr(config, option))}")
        if config.mode is Mode.G_TERNARY:
            self.hit("threshold", threshold_class(config.threshold, config.workers))
        allowed = {0: "none", 1: "one", 16: "all"}.get(config.ld_mask.bit_count(), "some")
        if own_points(config.mode):
            return
        self.hit("commit change", change, config.mode.name)
        self.hit("lines", config.mode.name, class_of("LINES", config.lines_log2))
        self.hit("LD mask", config.mode.name, allowed, "BIND" if config.bind else "free")
        if config.mode is not Mode.IDENTITY:
            self.hit("workers", config.mode.name, str(config.workers))

    def judged(self, one: Judged) -> None:
        """Count the bin of the first operation on a line in an epoch; other operations have none.

        Args:
            one: Operation that the scoreboard found correct, with the line before and after it.
        """
        if not (one.before.data or one.before.poisoned):
            access = one.op.access
            what = {Kind.CONTRIBUTION: "write", Kind.RESULT: "result"}.get(access.kind, "part")
            self.hit("first touch", one.mode, self._found[access.region], what)


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


class ViewPoints(Points):
    """Cover points of the second edition: BIND_SHIFT, closed rounds, and reads of INFO and STATUS.

    Sampled by `op`, `judged`, `closed` and `status`.
    """

    def op(self, op: Op, config: RegionConfig | None) -> None:
        """Count the bin of a write to a region with BIND: from the owner of the worker, or another
        LD-ID.
        """
        access, msg = op.access, op.msg
        if config is None or not config.bind or not isinstance(msg, M2SRwD):
            return
        if access.kind in _WRITES or access.cause is Cause.BIND:
            who = "unshifted" if msg.ldid == access.selector else "other"
            if msg.ldid == config.owner(access.selector):
                who = "owner"
            self.hit("bind shift", str(config.bind_shift), who)

    def closed(self, busy: bool) -> None:
        """Count the bin of a close of a round; `busy`: requests were in flight when it began."""
        self.hit("close", "busy" if busy else "quiet")

    def judged(self, one: Judged) -> None:
        """Count the bins of a judged operation on a line: after a close, or a read of INFO.

        Args:
            one: Operation that the scoreboard found correct, with the line before and after it.
        """
        op, before, mode, seen = one.op, one.before, one.mode, len(one.before.data)
        complete = seen == one.config.workers
        line = "complete" if complete else "some" if seen else "untouched"
        if one.closed and one.writes:
            worker = "seen" if op.access.selector in before.data else "new"
            data = "poisoned" if getattr(op.msg, "poison", False) else "clean"
            self.hit("late write", mode, worker, data, line)
        elif one.closed:
            strict = "STRICT" if one.config.strict else "lax"
            self.hit("final read", mode, _READS[op.access.kind], strict, line)
        if op.access.kind is not Kind.INFO:
            return
        flags = {
            "complete": complete and not before.lost,
            "poisoned": before.poisoned,
            "lost": before.lost,
            "saturated": mode in LOW_BIT and before.saturated,
            "closed": one.closed,
        }
        for name, flag in flags.items():
            self.hit("INFO", mode, name, str(int(flag)))
        with_commit = "with commit" if op.commit_raced else "racing"
        self.hit("INFO race", with_commit if op.overlapped or op.commit_raced else "alone")

    def status(self, op: Op, words: list[int], exact: bool) -> None:
        """Count the bins of the words that a read of STATUS through a region's window returned.

        Args:
            op: The read.
            words: The 16 words of the response.
            exact: Whether each word could have one value only, as no request raced with the read.
        """
        selector, when = op.access.selector, "quiet" if exact else "racing"
        if selector == STATUS_SELECTOR:
            for name, word in zip(codes("FIGURES"), words[1:], strict=False):
                self.hit("STATUS", name, "more" if word else "0", when)
            return
        for word in words:
            self.hit("worker lines", str(selector), class_of("WORKER_LINES", word))


# What the device tells the host of its state: DevLoad, FALLBACK, DONE and the interrupt, with the
# registers that set their limits.


_REGISTERS = REG_MAP.expand()
_IRQ_STATUS = _REGISTERS["IRQ_STATUS"]
_DEVLOAD = _REGISTERS["DEVLOAD_THRESHOLD"]


class CapacityPoints(Points):
    """Cover points of DevLoad, FALLBACK, DONE and the interrupt, and of the registers with their
    limits.

    Sampled by `op`, `register` (a read) and `written`.
    """

    def __init__(self, model: CoverModel) -> None:
        super().__init__(model)
        self._load = ""
        self._enabled = 0
        self._limits = {name: _REGISTERS[name].reset for name in ("CAP_WINDOW", "CAP_THRESHOLD")}
        self._levels = {"FALLBACK": 0, "DONE": 0}
        self._ever = {"FALLBACK": 0, "DONE": 0}

    # -- responses ----------------------------------------------------------------------------
    def op(self, op: Op) -> None:
        """Count the bins of the DevLoad level of a response, and of its change since the last
        response.
        """
        if op.response is None:
            return
        load = DevLoad(op.response.devload).name
        self.hit("devload", load)
        if self._load:
            self.hit("devload change", self._load, load)
        self._load = load

    # -- registers ----------------------------------------------------------------------------
    def register(self, name: str, value: int) -> None:
        """Count the bins of a read of IRQ_STATUS, FALLBACK or DONE; other registers have none."""
        if name == "IRQ_STATUS":
            for source, pending in _IRQ_STATUS.unpack(value).items():
                if pending:
                    enabled = _IRQ_STATUS.field(source).extract(self._enabled)
                    self.hit("interrupt", source, "enabled" if enabled else "masked")
        elif name == "FALLBACK":
            self._follow("fallback", name, value, "cleared")
        elif name == "DONE":
            self._follow("done", name, value, "ended by a commit")

    def _follow(self, point: str, name: str, value: int, fall: str) -> None:
        """Count the bits of a register that rose or fell between two reads of it.

        Args:
            point: Name of the cover point.
            name: Name of the register, with one bit per region.
            value: Value read.
            fall: Bin of a bit that fell.
        """
        old, ever = self._levels[name], self._ever[name]
        rises = value & ~old
        if rises:
            self.hit(point, "raised again" if rises & ever else "raised")
            if value & (value - 1):
                self.hit(point, "raised beside another")
        if old & ~value:
            self.hit(point, fall)
        self._levels[name], self._ever[name] = value, ever | value

    def written(self, name: str, value: int) -> None:
        """Count the bins of a write of CAP_WINDOW, CAP_THRESHOLD or DEVLOAD_THRESHOLD; follow
        IRQ_ENABLE.
        """
        if name == "IRQ_ENABLE":
            self._enabled = value
        elif name in self._limits:
            self._limits[name] = value & 511
            window, misses = self._limits["CAP_WINDOW"], self._limits["CAP_THRESHOLD"]
            self.hit(
                "capacity limits",
                class_of("WINDOWS", window),
                _misses(misses, min(window, 256)),
            )
        elif name == "DEVLOAD_THRESHOLD":
            for level, limit in _DEVLOAD.unpack(value).items():
                self.hit("devload levels", level, class_of("LEVELS", limit))


def _misses(misses: int, window: int) -> str:
    if misses >= window:
        return "window" if misses == window else "above window"
    if misses == window - 1:
        return "window - 1"
    return str(misses) if misses <= 1 else "below window"

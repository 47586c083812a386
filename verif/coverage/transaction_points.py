# SPDX-License-Identifier: Apache-2.0
"""Cover points of transactions: opcodes, modes, refusals, poison, byte enables, races."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from cocotbext.cxl.wire.messages import BE_ALL, S2MDRS, M2SRwD, ReqOp, RwdOp
from models.control_window import REGION_LINE, ControlWindow, written_words
from models.line_packing import Mode
from models.nf_regs import REG_MAP
from models.parameters import DeviceParams
from models.regions import (
    MAX_WORKERS,
    Cause,
    CommitCode,
    Kind,
    RegionConfig,
    is_partial,
    state_lines,
)
from verif.coverage.cover_model import CoverModel
from verif.coverage.coverage_plan import Planned
from verif.scoreboard.operations import Op
from verif.scoreboard.pending import Commit

# Classes of values that several cover points share: workers, thresholds, lines, waiting times.

LOW_BIT = (Mode.G_BINARY.name, Mode.G_TERNARY.name)
INTS = (Mode.G_INT4.name, Mode.G_INT8.name)
AGGREGATING = (*LOW_BIT, Mode.FP32.name)
MODES = (Mode.IDENTITY.name, *AGGREGATING)
TERN5 = Mode.G_TERN5.name

WORKERS = ("1", "2", "3", "2^k-1", "2^k", "2^k+1", "63", "64", "odd", "even")
THRESHOLDS = ("1", "2", "3..W-1", "W", "W+1..64", "65..254", "255")
LINES = ("0", "1", "2", "3..5", "6..9", "10..13", "14..")
CLOCKS = ("0..3", "4..15", "16..63", "64..")


def own_points(mode: Mode) -> bool:
    """Return whether the mode has points of its class, because it shares the path of another
    mode.
    """
    return mode.bits > 0 or mode is Mode.G_TERN5


@functools.cache
def workers_class(workers: int) -> str:
    """Return the class of W by the shape of masks, planes and votes."""
    if workers in (1, 2, 3, MAX_WORKERS - 1, MAX_WORKERS):
        return str(workers)
    for distance, name in ((1, "2^k-1"), (0, "2^k"), (-1, "2^k+1")):
        if (workers + distance).bit_count() == 1:
            return name
    return "odd" if workers & 1 else "even"


@functools.cache
def threshold_class(threshold: int, workers: int) -> str:
    """Return the class of T relative to W: within reach of no worker, of some or of all."""
    if threshold in (1, 2, 255):
        return str(threshold)
    if threshold == workers:
        return "W"
    if threshold < workers:
        return "3..W-1"
    return "W+1..64" if threshold <= MAX_WORKERS else "65..254"


def _ranged(limits: tuple[tuple[int, str], ...], beyond: str, value: int) -> str:
    return next((name for most, name in limits if value <= most), beyond)


@functools.cache
def lines_class(lines_log2: int) -> str:
    """Return the class of LINES_LOG2."""
    limits = ((0, "0"), (1, "1"), (2, "2"), (5, "3..5"), (9, "6..9"), (13, "10..13"))
    return _ranged(limits, "14..", lines_log2)


@functools.lru_cache(4096)
def clocks_class(clocks: int) -> str:
    """Return the class of a waiting time in clocks."""
    return _ranged(((3, "0..3"), (15, "4..15"), (63, "16..63")), "64..", clocks)


WAYS = ("read", "write")
REQUESTS = ("MEM_RD", "MEM_RD_DATA", "MEM_WR", "MEM_WR_PTL")
OTHERS = (
    *("MEM_INV", "MEM_INV_NT", "MEM_RD_FWD", "MEM_WR_FWD"),
    *("Req reserved", "RwD reserved"),
)
EDGES = ("0", "W-1", "W", "7", "8", "15", "16", "63", "64", "64+W-1", "64+W", "255", "others")
WINDOW_SHIFT = 8 + 6
ADDRESS_BITS = range(WINDOW_SHIFT, 52)
AREA_EDGES = ("before", "first", "last", "behind")
BE_KINDS = ("none", "one", "all", "mixed")
REFUSALS: dict[str, list[Cause]] = {
    "write": [c for c in Cause if c is not Cause.NONE],
    # PARTIAL and BIND exist for writes alone.
    "read": [c for c in Cause if c not in (Cause.NONE, Cause.PARTIAL, Cause.BIND, Cause.CONTROL)],
}


def _access_bins() -> list[str]:
    bins = ["write MEMORY", "read MEMORY", "write IDENTITY", "read IDENTITY"]
    for mode in (*AGGREGATING, TERN5):
        bins += [f"write {mode}", f"read result {mode}"]
        bins += [f"read INFO {mode}", f"read STATUS {mode}"]
    for mode in INTS:
        bins += [f"write {mode}", f"read sum {mode}", f"read INFO {mode}", f"read STATUS {mode}"]
    for mode in (*LOW_BIT, *INTS, TERN5):
        bins += [f"read plane {plane} {mode}" for plane in range(8)]
    return [*bins, "read raw FP32"]


def be_kind(be: int) -> str:
    """Return the class of the byte enables of a partial write."""
    if be in (0, BE_ALL):
        return "all" if be else "none"
    return "one" if be.bit_count() == 1 else "mixed"


class TransactionPoints:
    """Requests, sampled by `op` and `unmapped`; `placed` tells where the regions are."""

    def __init__(self, model: CoverModel) -> None:
        plan = Planned(model)
        self.access = plan.point("access", _access_bins())
        self.opcode = plan.point(
            "opcode",
            [f"Req {op.name}" for op in ReqOp if op is not ReqOp.MEM_SPEC_RD]
            + [f"RwD {op.name}" for op in RwdOp]
            + ["Req reserved", "RwD reserved"],
        )
        self.refusal = plan.point(
            "refusal",
            [f"{way} {cause.name}" for way, causes in REFUSALS.items() for cause in causes],
        )
        self.poison = plan.point(
            "poison", [f"{way} {mode}" for way in WAYS for mode in ("MEMORY", *MODES, *INTS, TERN5)]
        )
        self.bytes = plan.point(
            "byte enables", [f"{m} {k}" for m in ("MEMORY", "IDENTITY", "FP32") for k in BE_KINDS]
        )
        self.race = plan.point(
            "race", ["read on line", "write on line", "read with commit", "write with commit"]
        )
        self.ldid = plan.point("ldid", [str(k) for k in range(16)])
        self.selector = plan.cross(
            "selector edge", {"opcode": REQUESTS, "mode": MODES, "selector": EDGES}
        )
        self.allowed = plan.cross(
            "LD-ID allowed",
            {"opcode": REQUESTS, "mode": MODES, "outcome": ("allowed", "LD_MASK", "BIND")},
            ignore=_never_decided,
        )
        self.others = plan.cross(
            "other opcodes",
            {"opcode": OTHERS, "place": ("memory", "window", "state area", "unmapped")},
        )
        self.state_edge = plan.cross(
            "state area edge", {"way": WAYS, "mode": MODES, "line": AREA_EDGES}
        )
        self.window_bit = plan.point("window bit", [str(bit) for bit in ADDRESS_BITS])

        self._areas: list[tuple[int, int]] = []
        self._edges: dict[int, list[tuple[str, str]]] = {}
        self._mem_lines = 0

    def placed(self, configs: Sequence[RegionConfig | None], params: DeviceParams) -> None:
        """Follow a change of the committed regions."""
        self._mem_lines = params.mem_lines
        self._areas.clear()
        self._edges.clear()
        for config in configs:
            if config is None:
                continue
            start = config.state_line
            end = start + state_lines(config, params.cnt_w)
            self._areas.append((start, end))
            if own_points(config.mode):  # areas of votes, by all that is said of them
                continue
            for name, line in zip(AREA_EDGES, (start - 1, start, end - 1, end), strict=True):
                self._edges.setdefault(line, []).append((config.mode.name, name))

    def unmapped(self, addr: int, configs: Iterable[RegionConfig | None]) -> None:
        """Sample an unmapped access; `configs`: the committed regions."""
        for config in configs:
            if config is not None:
                shift = config.lines_log2 + WINDOW_SHIFT
                missed = (addr >> shift ^ config.base >> shift) << shift
                if missed.bit_count() == 1:
                    self.window_bit.hit(str(missed.bit_length() - 1))

    def op(self, op: Op, config: RegionConfig | None) -> None:
        """Sample an answered operation."""
        msg, access = op.msg, op.access
        way = "read" if op.read else "write"
        name = getattr(msg.opcode, "name", None)
        self.opcode.hit(f"{'Req' if op.read else 'RwD'} {name or 'reserved'}")
        self.ldid.hit(str(msg.ldid))
        self._decoded(op, name, config)
        if access.cause is not Cause.NONE:
            self.refusal.hit(f"{way} {access.cause.name}")
            return
        if access.kind in (Kind.NO_EFFECT, Kind.CONTROL):
            return
        mode = "MEMORY" if config is None else config.mode.name
        self._access(op, way, mode)
        if isinstance(msg, M2SRwD):
            if msg.poison:
                self.poison.hit(f"write {mode}")
            if msg.opcode == RwdOp.MEM_WR_PTL and f"{mode} all" in self.bytes.bins:
                self.bytes.hit(f"{mode} {be_kind(msg.be)}")
        elif isinstance(op.response, S2MDRS) and op.response.poison:
            self.poison.hit(f"read {mode}")
        if op.overlapped:
            self.race.hit(f"{way} on line")
        if op.commit_raced:
            self.race.hit(f"{way} with commit")

    def _decoded(self, op: Op, name: str | None, config: RegionConfig | None) -> None:
        """Sample the opcode with the place, the selector and the logical device."""
        access, line = op.access, op.msg.addr >> 6
        if name not in REQUESTS:
            place = "window" if config is not None else self._place(line)
            kind = name or ("Req reserved" if op.read else "RwD reserved")
            self.others.hit(kind, place)
            return
        if config is None:
            for mode, edge in self._edges.get(line, ()):
                self.state_edge.hit(WAYS[not op.read], mode, edge)
            return
        if own_points(config.mode):  # selectors and refusals of theirs are elsewhere
            return
        mode = config.mode.name
        if access.cause in (Cause.LD_MASK, Cause.BIND):
            self.allowed.hit(name, mode, access.cause.name)
        elif access.cause is Cause.NONE:
            self.allowed.hit(name, mode, "allowed")
        if access.cause is not Cause.LD_MASK and access.selector is not None:
            for edge in _selector_edges(access.selector, config.workers):
                self.selector.hit(name, mode, edge)

    def _place(self, line: int) -> str:
        """Return the place of a line outside all windows."""
        if line >= self._mem_lines:
            return "unmapped"
        return "state area" if any(a <= line < b for a, b in self._areas) else "memory"

    def _access(self, op: Op, way: str, mode: str) -> None:
        access = op.access
        if access.kind is Kind.RESULT:
            self.access.hit(f"read result {mode}")
        elif access.kind is Kind.PLANE:
            self.access.hit(f"read plane {access.selector - 8} {mode}")
        elif access.kind is Kind.RAW:
            self.access.hit("read raw FP32")
        elif access.kind is Kind.SUM:
            self.access.hit(f"read sum {mode}")
        elif access.kind in (Kind.INFO, Kind.STATUS):
            self.access.hit(f"read {access.kind.name} {mode}")
        else:
            self.access.hit(f"{way} {mode}")


@functools.lru_cache(4096)
def _selector_edges(selector: int, workers: int) -> tuple[str, ...]:
    """Return the edges on which a selector lies: several if W makes them equal."""
    named = {"W-1": workers - 1, "W": workers, "64+W-1": 63 + workers, "64+W": 64 + workers}
    at = {edge: named.get(edge, int(edge) if edge.isdigit() else -1) for edge in EDGES}
    return tuple(edge for edge, place in at.items() if place == selector) or ("others",)


def _never_decided(opcode: str, mode: str, outcome: str) -> bool:
    if opcode == "MEM_WR_PTL" and mode in LOW_BIT:
        return outcome != "LD_MASK"
    return outcome == "BIND" and opcode in ("MEM_RD", "MEM_RD_DATA")


# The control window: who accesses which registers, what a write asks for, what is refused.


_EPOCH = REG_MAP.region_register("EPOCH").address
_CTRL = REG_MAP.region_register("CTRL").address
_CODE = next(one for one in REG_MAP.registers if one.name == "CTRL_WINDOW_LO").field("CODE")
_MOVES = (
    CommitCode.OK,
    CommitCode.BASE_ALIGN,
    CommitCode.WINDOW_MEMORY,
    CommitCode.WINDOW_OVERLAP,
)
_LINES = ("device", "region", "none")


class ControlPoints:
    """Accesses through the control window, sampled by `op`, `raced` and reads of CTRL_WINDOW_LO."""

    def __init__(self, model: CoverModel) -> None:
        plan = Planned(model)
        self.access = plan.cross(
            "control access",
            {"way": ("read", "write"), "line": _LINES, "who": ("manager", "owner", "other")},
            ignore=lambda way, line, who: (
                (who == "owner" and line != "region") or (way == "write" and who == "other")
            ),
        )
        self.words = plan.point(
            "control words", ("none", "one", "several", "MemWrPtl all", "MemWr")
        )
        self.commit = plan.point(
            "control commit", ("EPOCH", "line and EPOCH", "EPOCH and CLOSE", "CLOSE", "neither")
        )
        self.refusal = plan.point("control refusal", ("part of a word", "poisoned", "LD-ID"))
        self.move = plan.point("control place", [code.name for code in _MOVES])
        self.race = plan.point("control race", ("read", "write"))
        self.commits = plan.cross(
            "control commit race",
            {"last": ("AXI4-Lite", "window"), "window brings": ("the same", "another")},
        )
        self.closes = plan.cross(
            "control close race", {"CLOSE by": ("AXI4-Lite", "window"), "last": ("CLOSE", "commit")}
        )

    def register(self, name: str, data: int, write: bool) -> None:
        """Sample a register access by AXI4-Lite."""
        if name == "CTRL_WINDOW_LO" and not write:
            self.move.hit(CommitCode(_CODE.extract(data)).name)

    def raced(self, first: Commit, last: Commit) -> None:
        """Sample two racing commits of a region, or a commit that races with a close."""
        ways = ("AXI4-Lite", "window")
        close = next((one for one in (first, last) if one.closes), None)
        if close is not None:
            self.closes.hit(ways[close.in_band], "CLOSE" if close is last else "commit")
            return
        window = first if first.in_band else last
        changes = window.after != window.before
        self.commits.hit(ways[last.in_band], "another" if changes else "the same")

    def op(self, op: Op, window: ControlWindow) -> None:
        """Sample an answered operation; `window`: the present control window."""
        msg, access = op.msg, op.access
        if op.windows:
            self.race.hit("read" if op.read else "write")
            return
        if access.kind is Kind.REFUSED and window.holds(msg.addr >> 6):
            self._refused(op)
        if access.kind is not Kind.CONTROL:
            return
        region = access.line - REGION_LINE
        regions = len(window.owners)
        line = "device" if access.line < 2 else "region" if 0 <= region < regions else "none"
        owns = line == "region" and window.owners[region] == msg.ldid
        who = "manager" if window.ld_mask >> msg.ldid & 1 else "owner" if owns else "other"
        self.access.hit("read" if op.read else "write", line, who)
        if isinstance(msg, M2SRwD):
            self._written(msg, access.line, line == "region")

    def _refused(self, op: Op) -> None:
        if op.access.cause is Cause.PARTIAL:
            self.refusal.hit("part of a word")
        elif op.access.cause is Cause.CONTROL:
            assert isinstance(op.msg, M2SRwD)
            self.refusal.hit("poisoned" if op.msg.poison else "LD-ID")

    def _written(self, msg: M2SRwD, line: int, of_region: bool) -> None:
        words = written_words(line, msg.data, msg.be if is_partial(msg) else BE_ALL)
        kinds = {0: "none", 1: "one", 16: "MemWrPtl all" if is_partial(msg) else "MemWr"}
        self.words.hit(kinds.get(len(words), "several"))
        if not of_region:
            return
        offsets = {address % 64: word for address, word in words.items()}
        commits, closes = _EPOCH in offsets, bool(offsets.get(_CTRL, 0) & 1)
        if closes:
            self.commit.hit("EPOCH and CLOSE" if commits else "CLOSE")
        elif commits:
            self.commit.hit("EPOCH" if len(offsets) == 1 else "line and EPOCH")
        else:
            self.commit.hit("neither")

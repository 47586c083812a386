# SPDX-License-Identifier: Apache-2.0
"""Cover points of transactions: opcodes, modes, refusals, poison, byte enables, races.

Beats on the device-memory port have points of their kind, latency, errors and poison.
"""

import functools
from collections.abc import Iterable, Sequence

from cocotbext.cxl.wire.messages import BE_ALL, S2MDRS, M2SRwD, RwdOp
from models.access_decode import Cause, Kind, is_partial
from models.commit_check import CommitCode
from models.control_window import REGION_LINE, ControlWindow, written_words
from models.modes import Mode
from models.parameters import DeviceParams
from models.regions import MAX_WORKERS, RegionConfig, state_lines
from models.register_map import REG_MAP
from verif.axi import Resp
from verif.coverage.cover_model import CoverModel
from verif.coverage.coverage_plan import Points, class_of, codes
from verif.mem.memory_config import FULL_STROBE, MemBeat
from verif.scoreboard.memory_port import Record
from verif.scoreboard.operations import WINDOW_SHIFT, Op
from verif.scoreboard.pending import Commit

LOW_BIT = codes("LOW_BIT")
DATA_OPCODES = codes("DATA_OPCODES")
AGGREGATING = codes("AGGREGATING")


def own_points(mode: Mode) -> bool:
    """Return whether a mode (an integer mode, or G_TERN5) has separate cover points.

    It is then left out of the common ones, because it shares the path of another mode.
    """
    return mode.bits > 0 or mode is Mode.G_TERN5


@functools.cache
def workers_class(workers: int) -> str:
    """Return the bin of W workers in the list WORKERS of `plan.toml`.

    It is "1", "2", "3", "63" or "64", else "2^k-1", "2^k", "2^k+1", "odd" or "even".
    """
    if workers in (1, 2, 3, MAX_WORKERS - 1, MAX_WORKERS):
        return str(workers)
    for distance, name in ((1, "2^k-1"), (0, "2^k"), (-1, "2^k+1")):
        if (workers + distance).bit_count() == 1:
            return name
    return "odd" if workers & 1 else "even"


@functools.cache
def threshold_class(threshold: int, workers: int) -> str:
    """Return the bin of a threshold T with W workers in the list THRESHOLDS of `plan.toml`.

    It is "1", "2", "255", "W", "3..W-1", "W+1..64" or "65..254".
    """
    if threshold in (1, 2, 255):
        return str(threshold)
    if threshold == workers:
        return "W"
    if threshold < workers:
        return "3..W-1"
    return "W+1..64" if threshold <= MAX_WORKERS else "65..254"


def be_kind(be: int) -> str:
    """Return the bin of byte enables of a partial write: "none", "one", "all" or "mixed"."""
    if be in (0, BE_ALL):
        return "all" if be else "none"
    return "one" if be.bit_count() == 1 else "mixed"


class TransactionPoints(Points):
    """Cover points of requests: opcodes, LD-IDs, refusals, poison, byte enables, selectors and
    races.

    Sampled by `op` and `unmapped`; `placed` sets where the state areas of the regions are.
    """

    def __init__(self, model: CoverModel) -> None:
        super().__init__(model)
        self._areas: list[tuple[int, int]] = []
        self._edges: dict[int, list[tuple[str, str]]] = {}
        self._mem_lines = 0

    def placed(self, configs: Sequence[RegionConfig | None], params: DeviceParams) -> None:
        """Record the state areas of all regions after an accepted commit.

        Args:
            configs: Committed descriptor by region; None without one.
            params: Parameters of the device.
        """
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
            edges = {"before": start - 1, "first": start, "last": end - 1, "behind": end}
            for name, line in edges.items():
                self._edges.setdefault(line, []).append((config.mode.name, name))

    def unmapped(self, addr: int, configs: Iterable[RegionConfig | None]) -> None:
        """Count the bin of an unmapped address that misses a window by a single address bit.

        Args:
            addr: Byte address.
            configs: Committed descriptor by region; None without one.
        """
        for config in configs:
            if config is not None:
                shift = config.lines_log2 + WINDOW_SHIFT
                missed = (addr >> shift ^ config.base >> shift) << shift
                if missed.bit_count() == 1:
                    self.hit("window bit", str(missed.bit_length() - 1))

    def op(self, op: Op, config: RegionConfig | None) -> None:
        """Count the bins of an answered request.

        Args:
            op: Request with its response.
            config: Descriptor of the region whose window holds the address, or None.
        """
        msg, access = op.msg, op.access
        way = "read" if op.read else "write"
        name = getattr(msg.opcode, "name", None)
        self.hit("opcode", f"{'Req' if op.read else 'RwD'} {name or 'reserved'}")
        self.hit("ldid", str(msg.ldid))
        self._decoded(op, name, config)
        if access.cause is not Cause.NONE:
            self.hit("refusal", f"{way} {access.cause.name}")
            return
        if access.kind in (Kind.NO_EFFECT, Kind.CONTROL):
            return
        mode = "MEMORY" if config is None else config.mode.name
        self._access(op, way, mode)
        if isinstance(msg, M2SRwD):
            if msg.poison:
                self.hit("poison", f"write {mode}")
            if msg.opcode == RwdOp.MEM_WR_PTL and mode in ("MEMORY", "IDENTITY", "FP32"):
                self.hit("byte enables", f"{mode} {be_kind(msg.be)}")
        elif isinstance(op.response, S2MDRS) and op.response.poison:
            self.hit("poison", f"read {mode}")
        if op.overlapped:
            self.hit("race", f"{way} on line")
        if op.commit_raced:
            self.hit("race", f"{way} with commit")

    def _decoded(self, op: Op, name: str | None, config: RegionConfig | None) -> None:
        """Count the bins of the decoding of a request: opcode with place, selector, LD-ID and area
        edge.
        """
        access, line = op.access, op.msg.addr >> 6
        if name not in DATA_OPCODES:
            place = "window" if config is not None else self._place(line)
            kind = name or ("Req reserved" if op.read else "RwD reserved")
            self.hit("other opcodes", kind, place)
            return
        if config is None:
            for mode, edge in self._edges.get(line, ()):
                self.hit("state area edge", "read" if op.read else "write", mode, edge)
            return
        if own_points(config.mode):  # selectors and refusals of theirs are elsewhere
            return
        mode = config.mode.name
        if access.cause in (Cause.LD_MASK, Cause.BIND):
            self.hit("LD-ID allowed", name, mode, access.cause.name)
        elif access.cause is Cause.NONE:
            self.hit("LD-ID allowed", name, mode, "allowed")
        if access.cause is not Cause.LD_MASK and access.selector is not None:
            for edge in _selector_edges(access.selector, config.workers):
                self.hit("selector edge", name, mode, edge)

    def _place(self, line: int) -> str:
        """Return "memory", "state area" or "unmapped" for a line outside all windows."""
        if line >= self._mem_lines:
            return "unmapped"
        return "state area" if any(a <= line < b for a, b in self._areas) else "memory"

    def _access(self, op: Op, way: str, mode: str) -> None:
        kind = op.access.kind
        if kind is Kind.PLANE:
            self.hit("access", f"read plane {op.access.selector - 8} {mode}")
        elif kind in (Kind.INFO, Kind.STATUS):
            self.hit("access", f"read {kind.name} {mode}")
        else:
            what = {Kind.RESULT: "read result", Kind.RAW: "read raw", Kind.SUM: "read sum"}
            self.hit("access", f"{what.get(kind, way)} {mode}")


@functools.lru_cache(4096)
def _selector_edges(selector: int, workers: int) -> tuple[str, ...]:
    """Return the bins of a selector in the list SELECTORS of `plan.toml`: several if W makes them
    equal.
    """
    named = {"W-1": workers - 1, "W": workers, "64+W-1": 63 + workers, "64+W": 64 + workers}
    at = {edge: named.get(edge, int(edge) if edge.isdigit() else -1) for edge in codes("SELECTORS")}
    return tuple(edge for edge, place in at.items() if place == selector) or ("others",)


# The control window: who accesses which registers, what a write asks for, what is refused.


_EPOCH = REG_MAP.region_register("EPOCH").address
_CTRL = REG_MAP.region_register("CTRL").address
_CODE = next(one for one in REG_MAP.registers if one.name == "CTRL_WINDOW_LO").field("CODE")


class ControlPoints(Points):
    """Cover points of the control window: who accesses which registers, commits, refusals and
    races.

    Sampled by `op`, `raced` and `register`.
    """

    def register(self, name: str, data: int, write: bool) -> None:
        """Count the bin of a read of CTRL_WINDOW_LO by AXI4-Lite: the code of the last move."""
        if name == "CTRL_WINDOW_LO" and not write:
            self.hit("control place", CommitCode(_CODE.extract(data)).name)

    def raced(self, first: Commit, last: Commit) -> None:
        """Count the bin of two racing commits of a region, or a commit and a close, in their
        order.
        """
        ways = ("AXI4-Lite", "window")
        close = next((one for one in (first, last) if one.closes), None)
        if close is not None:
            self.hit(
                "control close race", ways[close.in_band], "CLOSE" if close is last else "commit"
            )
            return
        window = first if first.in_band else last
        changes = window.after != window.before
        self.hit("control commit race", ways[last.in_band], "another" if changes else "the same")

    def op(self, op: Op, window: ControlWindow) -> None:
        """Count the bins of an answered request to the control window.

        Args:
            op: Request with its response.
            window: Present control window.
        """
        msg, access = op.msg, op.access
        if op.windows:
            self.hit("control race", "read" if op.read else "write")
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
        self.hit("control access", "read" if op.read else "write", line, who)
        if isinstance(msg, M2SRwD):
            self._written(msg, access.line, line == "region")

    def _refused(self, op: Op) -> None:
        if op.access.cause is Cause.PARTIAL:
            self.hit("control refusal", "part of a word")
        elif op.access.cause is Cause.CONTROL:
            assert isinstance(op.msg, M2SRwD)
            self.hit("control refusal", "poisoned" if op.msg.poison else "LD-ID")

    def _written(self, msg: M2SRwD, line: int, of_region: bool) -> None:
        words = written_words(line, msg.data, msg.be if is_partial(msg) else BE_ALL)
        kinds = {0: "none", 1: "one", 16: "MemWrPtl all" if is_partial(msg) else "MemWr"}
        self.hit("control words", kinds.get(len(words), "several"))
        if not of_region:
            return
        offsets = {address % 64: word for address, word in words.items()}
        commits, closes = _EPOCH in offsets, bool(offsets.get(_CTRL, 0) & 1)
        if closes:
            what = "EPOCH and CLOSE" if commits else "CLOSE"
        elif commits:
            what = "EPOCH" if len(offsets) == 1 else "line and EPOCH"
        else:
            what = "neither"
        self.hit("control commit", what)


class MemoryPortPoints(Points):
    """Cover points of beats on the device-memory port, sampled by `beat`."""

    def beat(self, beat: MemBeat, place: str, record: Record | None, mode: Mode | None) -> None:
        """Count the bins of a beat on the device-memory port.

        Args:
            beat: The beat.
            place: Name of the access, see `MemoryPort.located`.
            record: Record that the line is a part of, or None.
            mode: Mode of its region, or None.
        """
        way = "write" if beat.write else "read"
        path = f"{way} {place}"
        if beat.answered:
            self.hit("memory latency", path, class_of("CLOCKS", beat.clocks))
        kind = Resp(beat.resp).name if beat.error else "poison" if beat.poison else ""
        if kind:
            self.hit("memory side-band", f"{path} {kind}")
            name = mode.name if mode is not None else ""
            if record is not None and name in AGGREGATING and not beat.write:
                part = f"plane {record.beat - 1}" if record.beat else "bookkeeping"
                self.hit("record error", name, part, kind)
        if beat.error:
            self.hit("memory", f"{way} error")
        elif not beat.write:
            self.hit("memory", "read poison" if beat.poison else "read")
        else:
            self.hit("memory", "write full" if beat.strobe == FULL_STROBE else "write partial")
            if beat.poison:
                self.hit("memory", "write poison")

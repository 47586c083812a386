# SPDX-License-Identifier: Apache-2.0
"""Transactions: opcodes, modes, refusals, poison, byte enables, races; from judged operations."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from cocotbext.cxl.wire.messages import BE_ALL, S2MDRS, M2SRwD, ReqOp, RwdOp
from models.parameters import DeviceParams
from models.regions import Cause, Kind, RegionConfig, state_lines
from verif.coverage.cover_model import CHEAP, CoverModel
from verif.coverage.value_classes import AGGREGATING, INTS, LOW_BIT, MODES, TERN5, own_points
from verif.scoreboard.operations import Op

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
    """Class of a partial write's byte enables."""
    if be in (0, BE_ALL):
        return "all" if be else "none"
    return "one" if be.bit_count() == 1 else "mixed"


class TransactionPoints:
    """Feed it with `op`, with `unmapped` accesses, and with the regions where they are `placed`."""

    def __init__(self, model: CoverModel) -> None:
        point, cross = model.point, model.cross
        self.access = point(
            "access",
            "every operation of every mode",
            _access_bins(),
            test="test_scenario::mixed",
            at_least=CHEAP,
        )
        self.opcode = point(
            "opcode",
            "every opcode is answered as the link spec says",
            [f"Req {op.name}" for op in ReqOp if op is not ReqOp.MEM_SPEC_RD]
            + [f"RwD {op.name}" for op in RwdOp]
            + ["Req reserved", "RwD reserved"],
            test="test_scenario::refused_accesses",
            at_least=CHEAP,
        )
        self.refusal = point(
            "refusal",
            "every cause, for each direction in which it exists",
            [f"{way} {cause.name}" for way, causes in REFUSALS.items() for cause in causes],
            test="test_scenario::refused_accesses",
            at_least=CHEAP,
        )
        self.poison = point(
            "poison",
            "poison taken in, and given back, in each mode",
            [f"{way} {mode}" for way in WAYS for mode in ("MEMORY", *MODES, *INTS, TERN5)],
            test="test_memory_faults::memory_errors",
            at_least=CHEAP,
        )
        self.bytes = point(
            "byte enables",
            "partial writes: none, one, all and mixed bytes, where they are honoured",
            [f"{m} {k}" for m in ("MEMORY", "IDENTITY", "FP32") for k in BE_KINDS],
            test="test_plain_memory::partial_writes",
            at_least=CHEAP,
        )
        self.race = point(
            "race",
            "operations overlapping on one line, and with a commit of their region",
            ["read on line", "write on line", "read with commit", "write with commit"],
            test="test_scenario::many_commits",
            at_least=CHEAP,
        )
        self.ldid = point(
            "ldid",
            "every LD-ID is echoed",
            [str(k) for k in range(16)],
            test="test_scenario::mixed",
            at_least=CHEAP,
        )
        self.selector = cross(
            "selector edge",
            "each opcode at each selector where its meaning changes, in each mode, from a logical "
            "device that the region lets in",
            {"opcode": REQUESTS, "mode": MODES, "selector": EDGES},
            test="test_systematic::accesses",
        )
        self.allowed = cross(
            "LD-ID allowed",
            "each opcode from devices that are let in, masked out, or bound to another selector; "
            "BIND is for writes, and a partial one of the low-bit modes is refused wherever "
            "LD_MASK lets it in",
            {"opcode": REQUESTS, "mode": MODES, "outcome": ("allowed", "LD_MASK", "BIND")},
            test="test_systematic::accesses",
            at_least=CHEAP,
            ignore=_never_decided,
        )
        self.others = cross(
            "other opcodes",
            "opcodes that touch no data, at every place where one that does would matter",
            {"opcode": OTHERS, "place": ("memory", "window", "state area", "unmapped")},
            test="test_systematic::accesses",
        )
        self.state_edge = cross(
            "state area edge",
            "the first and the last line of a state area, and those beside it",
            {"way": WAYS, "mode": MODES, "line": AREA_EDGES},
            test="test_systematic::accesses",
        )
        self.window_bit = point(
            "window bit",
            "addresses that miss a window in a single bit, one for each bit of the match",
            [str(bit) for bit in ADDRESS_BITS],
            test="test_systematic::accesses",
        )

        self._areas: list[tuple[int, int]] = []
        self._edges: dict[int, list[tuple[str, str]]] = {}
        self._mem_lines = 0

    def placed(self, configs: Sequence[RegionConfig | None], params: DeviceParams) -> None:
        """The committed regions have changed."""
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
        """An access to nothing; `configs`: the committed regions."""
        for config in configs:
            if config is not None:
                shift = config.lines_log2 + WINDOW_SHIFT
                missed = (addr >> shift ^ config.base >> shift) << shift
                if missed.bit_count() == 1:
                    self.window_bit.hit(str(missed.bit_length() - 1))

    def op(self, op: Op, config: RegionConfig | None) -> None:
        """An answered operation."""
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
        """Opcode against the place, the selector and the logical device."""
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
        """Of a line in no window."""
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
    """The edges on which a selector lies; several when W makes them one."""
    named = {"W-1": workers - 1, "W": workers, "64+W-1": 63 + workers, "64+W": 64 + workers}
    at = {edge: named.get(edge, int(edge) if edge.isdigit() else -1) for edge in EDGES}
    return tuple(edge for edge, place in at.items() if place == selector) or ("others",)


def _never_decided(opcode: str, mode: str, outcome: str) -> bool:
    if opcode == "MEM_WR_PTL" and mode in LOW_BIT:
        return outcome != "LD_MASK"
    return outcome == "BIND" and opcode in ("MEM_RD", "MEM_RD_DATA")

# SPDX-License-Identifier: Apache-2.0
"""Aggregation: what an operation met on its line, in which mode, and where the state had been.

Sampled from operations that raced with none: of a race nobody knows the order. What only the
pipeline knows (hits, forwarding, queues) is sampled inside the design.
"""

from __future__ import annotations

from cocotbext.cxl.wire.messages import M2SRwD, RwdOp
from models.aggregated_line import AggregatedLine, illegal_codes
from models.nf_regs import REG_MAP
from models.regions import Kind, RegionConfig
from models.register_map import Counts
from verif.coverage.cover_model import CHEAP, CoverModel
from verif.coverage.transaction_points import BE_KINDS, be_kind
from verif.coverage.value_classes import AGGREGATING, LOW_BIT, WORKERS, workers_class
from verif.scoreboard.operations import Op

_REGION_STATUS = REG_MAP.region_register("STATUS")
PLACES = ("never left", "fetched", "back")
_EVICTED = (
    "; a line 'never left' its slot in this epoch, is 'fetched' after a write-back, or 'back'"
)
READS = {Kind.RESULT: "result", Kind.PLANE: "part", Kind.RAW: "part", Kind.SUM: "result"}
MARKS = (
    "poisoned write first",
    "poisoned write after clean",
    "clean write after poison",
    "read result",
    "read part",
)


class EnginePoints:
    """Feed it with `judged`, `write_back` and `register`."""

    def __init__(self, model: CoverModel) -> None:
        cross = model.cross
        self.slots = model.point(
            "slots",
            "the pool was hit, missed, evicted from and refilled",
            REG_MAP.counters(Counts.SLOTS),
            test="test_scenario::wide_regions",
            at_least=CHEAP,
        )
        self.line_flags = model.point(
            "line events",
            "rare events of a line were counted by the device",
            ["DUPLICATE", "ILLEGAL_CODE", "EARLY_READ", "SATURATED"],
            test="test_events::duplicates",
        )
        self.contribution = cross(
            "contribution",
            "for each shape of W: the first, a middle and the last contribution of a line, and one "
            "too many; a single worker has no other, of two none is in the middle",
            {"mode": AGGREGATING, "W": WORKERS, "which": ("first", "middle", "last", "again")},
            test="test_systematic::workers",
            at_least=CHEAP,
            ignore=lambda mode, w, which: (
                (w == "1" and which in ("first", "middle")) or (w == "2" and which == "middle")
            ),
        )
        self.duplicate = cross(
            "duplicate",
            "a second contribution with the same or other data, clean or poisoned" + _EVICTED,
            {
                "mode": LOW_BIT,
                "data": ("same", "other"),
                "poison": ("clean", "poisoned"),
                "place": PLACES,
            },
            test="test_systematic::duplicates",
        )
        self.marked = cross(
            "poisoned line",
            "a line that poison has marked, through its life" + _EVICTED + "; before its first "
            "contribution there is nothing to fetch",
            {"mode": AGGREGATING, "what": MARKS, "place": PLACES},
            test="test_systematic::write_states",
            ignore=lambda mode, what, place: what == MARKS[0] and place != "never left",
        )
        self.early = cross(
            "early read",
            "reads of incomplete lines, STRICT or not" + _EVICTED + "; a line with nothing in it "
            "is not written back",
            {
                "mode": AGGREGATING,
                "read": ("result", "part"),
                "strict": ("lax", "STRICT"),
                "seen": ("none", "some", "all but one"),
                "place": PLACES,
            },
            test="test_systematic::read_states",
            ignore=lambda mode, read, strict, seen, place: seen == "none" and place != "never left",
        )
        self.illegal_codes = cross(
            "illegal codes",
            "how many illegal codes a ternary line carries, where they count and where not",
            {"codes": ("1", "some", "256"), "line": ("new", "duplicate", "poisoned")},
            test="test_systematic::duplicates",
        )
        self.lost = cross(
            "lost line",
            "what a host does with a line whose record was lost" + _EVICTED,
            {"mode": AGGREGATING, "what": ("write", "result", "part"), "place": PLACES},
            test="test_systematic::write_states",
        )
        self.store = cross(
            "FP32 store",
            "whole and partial stores, first and again: the first clears what it does not write",
            {
                "which": ("first", "again"),
                "bytes": ("whole", *BE_KINDS),
                "poison": ("clean", "poisoned"),
            },
            test="test_systematic::stored_states",
        )
        self._left: dict[tuple[int, int], str] = {}

    # -- sampling -----------------------------------------------------------------------------
    def write_back(self, region: int, line: int) -> None:
        """The record of a line was written: its slot is another's now."""
        self._left[region, line] = "fetched"

    def committed(self, region: int) -> None:
        """A new epoch: what was written back is nothing."""
        for key in [key for key in self._left if key[0] == region]:
            del self._left[key]

    def judged(self, op: Op, config: RegionConfig, before: AggregatedLine) -> None:
        """An operation on a line that raced with none; `before` is the line as it was."""
        access = op.access
        key = (access.region, access.line)
        place = self._left.get(key, "never left")
        if place == "fetched":
            self._left[key] = "back"
        mode = config.mode.name
        if access.kind is Kind.CONTRIBUTION:
            self._contribution(op, config, before, place)
        else:
            self._read(op, config, before, place)
        if before.lost:
            what = "write" if access.kind is Kind.CONTRIBUTION else READS[access.kind]
            self.lost.hit(mode, what, place)

    def _contribution(
        self, op: Op, config: RegionConfig, before: AggregatedLine, place: str
    ) -> None:
        msg, worker, mode = op.msg, op.access.selector, config.mode.name
        assert isinstance(msg, M2SRwD)
        again, poison = worker in before.data, "poisoned" if msg.poison else "clean"
        if config.mode.low_bit:
            codes = illegal_codes(msg.data, config.mode)
            if codes:
                line = "duplicate" if again else "poisoned" if msg.poison else "new"
                self.illegal_codes.hit({1: "1", 256: "256"}.get(codes, "some"), line)
            if again:
                data = "same" if before.data[worker] == msg.data else "other"
                self.duplicate.hit(mode, data, poison, place)
        else:
            kind = be_kind(msg.be) if msg.opcode == RwdOp.MEM_WR_PTL else "whole"
            self.store.hit("again" if again else "first", kind, poison)
        seen = len(before.data)
        if msg.poison:
            if not (again and config.mode.low_bit):
                self.marked.hit(mode, MARKS[1] if seen else MARKS[0], place)
            return
        if before.poisoned and not again:
            self.marked.hit(mode, MARKS[2], place)
        last = seen == config.workers - 1
        which = "again" if again else "last" if last else "middle" if seen else "first"
        self.contribution.hit(mode, workers_class(config.workers), which)

    def _read(self, op: Op, config: RegionConfig, before: AggregatedLine, place: str) -> None:
        mode, read = config.mode.name, READS[op.access.kind]
        if before.poisoned:
            self.marked.hit(mode, f"read {read}", place)
        seen = len(before.data)
        if seen < config.workers:
            share = "none" if not seen else "some" if seen < config.workers - 1 else "all but one"
            self.early.hit(mode, read, "STRICT" if config.strict else "lax", share, place)

    def register(self, name: str, value: int) -> None:
        """A register was read."""
        if name in self.slots.bins and value:
            self.slots.hit(name)
        elif name in self.line_flags.bins and value:
            self.line_flags.hit(name)
        elif name.endswith("].STATUS") and _REGION_STATUS.field("SATURATED").extract(value):
            self.line_flags.hit("SATURATED")

# SPDX-License-Identifier: Apache-2.0
"""Cover points of aggregation: operations by the state of their line, the mode, and the place of
the state.

Sampled from operations that raced with none: of a race nobody knows the order. What only the
pipeline knows (hits, forwarding, queues) is sampled inside the design.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from cocotbext.cxl.wire.messages import M2SRwD, RwdOp
from models.aggregated_line import AggregatedLine, illegal_codes
from models.fp32 import U32, add_bits, canonical
from models.line_packing import TERN5_CODES, Mode, code_range, elements_per_line, unpack_int
from models.nf_regs import REG_MAP
from models.reducers import LowBitResult
from models.regions import (
    PLANE_SELECTOR,
    SUM8_SELECTOR,
    SUM16_SELECTOR,
    Cause,
    CommitCode,
    Kind,
    RegionConfig,
)
from models.register_map import Counts
from verif.coverage.cover_model import CoverModel
from verif.coverage.coverage_plan import Planned
from verif.coverage.transaction_points import (
    AGGREGATING,
    BE_KINDS,
    INTS,
    LOW_BIT,
    THRESHOLDS,
    WORKERS,
    be_kind,
    threshold_class,
    workers_class,
)
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
    """State of lines, sampled by `judged`, `write_back` and `register`."""

    def __init__(self, model: CoverModel) -> None:
        plan = Planned(model)
        self.slots = plan.point("slots", REG_MAP.counters(Counts.SLOTS))
        self.line_flags = plan.point(
            "line events", ["DUPLICATE", "ILLEGAL_CODE", "EARLY_READ", "SATURATED"]
        )
        self.contribution = plan.cross(
            "contribution",
            {"mode": AGGREGATING, "W": WORKERS, "which": ("first", "middle", "last", "again")},
            ignore=lambda mode, w, which: (
                (w == "1" and which in ("first", "middle")) or (w == "2" and which == "middle")
            ),
        )
        self.duplicate = plan.cross(
            "duplicate",
            {
                "mode": LOW_BIT,
                "data": ("same", "other"),
                "poison": ("clean", "poisoned"),
                "place": PLACES,
            },
        )
        self.marked = plan.cross(
            "poisoned line",
            {"mode": AGGREGATING, "what": MARKS, "place": PLACES},
            ignore=lambda mode, what, place: what == MARKS[0] and place != "never left",
        )
        self.early = plan.cross(
            "early read",
            {
                "mode": AGGREGATING,
                "read": ("result", "part"),
                "strict": ("lax", "STRICT"),
                "seen": ("none", "some", "all but one"),
                "place": PLACES,
            },
            ignore=lambda mode, read, strict, seen, place: seen == "none" and place != "never left",
        )
        self.illegal_codes = plan.cross(
            "illegal codes",
            {"codes": ("1", "some", "256"), "line": ("new", "duplicate", "poisoned")},
        )
        self.lost = plan.cross(
            "lost line", {"mode": AGGREGATING, "what": ("write", "result", "part"), "place": PLACES}
        )
        self.store = plan.cross(
            "FP32 store",
            {
                "which": ("first", "again"),
                "bytes": ("whole", *BE_KINDS),
                "poison": ("clean", "poisoned"),
            },
        )
        self._left: dict[tuple[int, int], str] = {}

    # -- sampling -----------------------------------------------------------------------------
    def write_back(self, region: int, line: int) -> None:
        """Follow the write-back of a record: its slot now holds another line."""
        self._left[region, line] = "fetched"

    def committed(self, region: int) -> None:
        """Follow a new epoch: no record of it has been written back."""
        for key in [key for key in self._left if key[0] == region]:
            del self._left[key]

    def judged(self, op: Op, config: RegionConfig, before: AggregatedLine) -> None:
        """Sample an operation on a line that raced with none; `before`: the line before it."""
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
        """Sample a register read."""
        if name in self.slots.bins and value:
            self.slots.hit(name)
        elif name in self.line_flags.bins and value:
            self.line_flags.hit(name)
        elif name.endswith("].STATUS") and _REGION_STATUS.field("SATURATED").extract(value):
            self.line_flags.hit("SATURATED")


# Counts of the low-bit modes: where a vote turns over, and what a count plane holds.


# A count c of m contributions: 2c - m says which way the vote goes, and by how much.
COUNTS = ("0", "1", "half-1", "half", "half+1", "m-1", "m")
NETS = ("min", "-T-1", "-T", "-T+1", "0", "T-1", "T", "T+1", "max")
SHARES = ("0", "1", "some", "m-1", "m")
PLANES = tuple(str(plane) for plane in range(8))
CONTENTS = ("zeros", "mixed", "ones")
FILLS = ("part", "all")


class CountPoints:
    """Counts, votes and planes, sampled by `result` and `plane` for each line that a host has
    read.
    """

    def __init__(self, model: CoverModel) -> None:
        plan = Planned(model)
        self.majority = plan.cross(
            "majority",
            {"count": COUNTS, "parity": ("even", "odd"), "tie": ("PLUS", "MINUS"), "seen": FILLS},
            ignore=lambda count, parity, tie, seen: count == "half" and parity == "odd",
        )
        self.unanimous = plan.point(
            "unanimous line",
            [*(f"{mode} {sign}" for mode in LOW_BIT for sign in "+-"), "G_TERNARY 0"],
        )
        self.net = plan.cross("net", {"net": NETS, "T": THRESHOLDS}, ignore=no_net)
        self.shares = plan.cross(
            "plus and minus", {"plus": SHARES, "minus": SHARES}, ignore=_too_many
        )
        self.planes = plan.cross(
            "plane content",
            {"mode": LOW_BIT, "plane": PLANES, "content": CONTENTS},
            ignore=lambda mode, plane, content: (
                (plane == "7" and content != "zeros")
                or (mode == Mode.G_TERNARY.name and plane == "6" and content == "ones")
            ),
        )

    def result(self, config: RegionConfig, reduced: LowBitResult) -> None:
        """Sample a vote; `reduced`: the reduction of the reference model, of one line."""
        m = int(reduced.contributions[0])
        if m == 0:
            return
        seen = "all" if m == config.workers else "part"
        if config.mode is Mode.G_BINARY:
            self._majority(config, reduced, m, seen)
        else:
            self._net(config, reduced, m)

    def _majority(self, config: RegionConfig, reduced: LowBitResult, m: int, seen: str) -> None:
        present = np.bincount(reduced.counts[0], minlength=m + 1)
        tie = "MINUS" if config.tie_minus else "PLUS"
        parity = "odd" if m & 1 else "even"
        below, above = (m - 1) // 2, m // 2 + 1  # the nearest counts that are no tie
        for name, count in zip(
            COUNTS, (0, 1, below, -1 if m & 1 else m // 2, above, m - 1, m), strict=True
        ):
            if 0 <= count <= m and present[count]:
                self.majority.hit(name, parity, tie, seen)
        if present[m] == len(reduced.counts[0]):
            self.unanimous.hit(f"{Mode.G_BINARY.name} +")
        elif present[0] == len(reduced.counts[0]):
            self.unanimous.hit(f"{Mode.G_BINARY.name} -")

    def _net(self, config: RegionConfig, reduced: LowBitResult, m: int) -> None:
        plus = reduced.counts[0, 0::2].astype(np.int32)
        minus = reduced.counts[0, 1::2].astype(np.int32)
        t = config.threshold
        present = np.bincount(plus - minus + m, minlength=2 * m + 1)
        kind = threshold_class(t, config.workers)
        values = (-m, -t - 1, -t, 1 - t, 0, t - 1, t, t + 1, m)
        for name, net in zip(NETS, values, strict=True):
            if -m <= net <= m and present[net + m]:
                self.net.hit(name, kind)
        table = _share_codes(m)
        pairs = np.bincount(table[plus] * len(SHARES) + table[minus], minlength=len(SHARES) ** 2)
        for index in np.flatnonzero(pairs).tolist():
            self.shares.hit(SHARES[index // len(SHARES)], SHARES[index % len(SHARES)])
        for sign, net in (("0", 0), ("+", m), ("-", -m)):
            if present[net + m] == len(plus):
                self.unanimous.hit(f"{Mode.G_TERNARY.name} {sign}")

    def plane(self, mode: Mode, plane: int, data: bytes) -> None:
        """Sample a count plane that was read as `data`."""
        ones = int.from_bytes(data, "little").bit_count()
        content = "zeros" if ones == 0 else "ones" if ones == 8 * len(data) else "mixed"
        self.planes.hit(mode.name, str(plane), content)


@functools.cache
def _share_codes(m: int) -> NDArray[np.intp]:
    """Return the index into SHARES of each count of m contributions."""
    codes = np.full(m + 1, SHARES.index("some"))
    codes[m - 1] = SHARES.index("m-1")
    codes[min(1, m)] = SHARES.index("1")
    codes[0], codes[m] = SHARES.index("0"), SHARES.index("m")
    return codes


def _too_many(plus: str, minus: str) -> bool:
    """Return whether two counts add up to more than m."""
    if "m" in (plus, minus):
        return {plus, minus} != {"m", "0"}
    return (plus, minus) == ("m-1", "m-1") or {plus, minus} == {"m-1", "some"}


def no_net(net: str, threshold: str) -> bool:
    """Return whether no count can reach an edge of T at this value of T."""
    beyond = {"W": ("-T-1", "T+1")}
    if threshold in ("W+1..64", "65..254", "255"):
        return net not in ("min", "0", "max") and not (
            threshold == "W+1..64" and net in ("T-1", "-T+1")
        )
    return net in beyond.get(threshold, ())


# FP32 sums: the classes of both operands of each addition, and how its result was rounded.
#
# The additions are those of the reference, in worker order. They are kept as they come and
# classified together: a call of numpy costs as much for one line as for a hundred.


OPERANDS = ("0", "-0", "subnormal", "normal", "huge", "+inf", "-inf", "nan")
ROUNDINGS = (
    "exact",
    "guard 0, sticky 1",
    "guard 1, sticky 1",
    "tie, to even below",
    "tie, to even above",
)
CARRIES = ("none", "carry out", "cancels 1 bit", "cancels more")
RESULTS = (
    "exact zero of two that cancel",
    "+0 of two zeros",
    "-0 of two zeros",
    "overflow to infinity",
    "largest number",
    "infinity stays",
    "infinities that cancel",
    "NaN stays",
    "two subnormals give a subnormal",
    "two subnormals give a normal",
    "normals give a subnormal",
    "smallest normal",
)
_BATCH = 4096  # additions that are classified at once
_FRACTION = np.uint32(0x7FFFFF)
_MAGNITUDE = np.uint32(0x7FFFFFFF)
_HUGE = 254  # the largest exponent field of a number
Bool = NDArray[np.bool_]


def operand_classes(bits: U32) -> NDArray[np.intp]:
    """Return the index into OPERANDS of each bit pattern."""
    exponent = bits >> np.uint32(23) & np.uint32(0xFF)
    zero, special = (bits & _MAGNITUDE) == 0, exponent == 255
    negative = bits >> np.uint32(31) == 1
    nan = special & ((bits & _FRACTION) != 0)
    return np.select(
        [zero & ~negative, zero, exponent == 0, nan, special & ~negative, special]
        + [exponent == _HUGE],
        [0, 1, 2, 7, 5, 6, 4],
        default=3,
    )


class Fp32Points:
    """Operands, rounding and results of FP32 sums, sampled by `sum`; call `flush` before reading
    the hits.
    """

    def __init__(self, model: CoverModel) -> None:
        plan = Planned(model)
        self.operands = plan.cross("FP32 operands", {"sum": OPERANDS, "line": OPERANDS})
        self.rounding = plan.cross(
            "FP32 rounding",
            {"rounding": ROUNDINGS, "carry": CARRIES},
            ignore=lambda rounding, carry: carry == "cancels more" and rounding != "exact",
        )
        self.results = plan.point("FP32 results", RESULTS)
        self._pairs: list[tuple[U32, U32]] = []
        self._waiting = 0

    def sum(self, lines: Iterable[bytes]) -> None:
        """Sample a sum; `lines`: 64 bytes of each present worker, in order."""
        words = np.frombuffer(b"".join(lines), dtype="<u4").reshape(-1, 16)
        if len(words) < 2:
            return
        with np.errstate(all="ignore"):
            partial = np.add.accumulate(canonical(words).view(np.float32), axis=0)
        self._pairs.append((partial[:-1].view(np.uint32), words[1:]))
        self._waiting += partial[:-1].size
        if self._waiting >= _BATCH:
            self.flush()

    def flush(self) -> None:
        """Classify what has come since the last time."""
        if not self._pairs:
            return
        a = canonical(np.concatenate([pair[0].ravel() for pair in self._pairs]))
        b = np.concatenate([pair[1].ravel() for pair in self._pairs])
        self._pairs.clear()
        self._waiting = 0
        first, second = operand_classes(a), operand_classes(b)
        pairs = np.bincount(first * len(OPERANDS) + second, minlength=len(OPERANDS) ** 2)
        for index in np.flatnonzero(pairs):
            one, other = divmod(int(index), len(OPERANDS))
            self.operands.hit(OPERANDS[one], OPERANDS[other], times=int(pairs[index]))
        total = add_bits(a, b)
        self._results(a, b, total, first, second)
        finite = (first < 5) & (second < 5) & ((total & _MAGNITUDE) < np.uint32(0x7F800000))
        finite &= (first > 1) & (second > 1)
        self._rounding(a[finite], b[finite], total[finite])

    def _results(
        self,
        a: U32,
        b: U32,
        total: U32,
        first: NDArray[np.intp],
        second: NDArray[np.intp],
    ) -> None:
        size, exponent = total & _MAGNITUDE, total >> np.uint32(23) & np.uint32(0xFF)
        zeros = (first <= 1) & (second <= 1)
        numbers = (first < 5) & (second < 5)
        infinite, nan = size == 0x7F800000, size > 0x7F800000
        subnormal = (exponent == 0) & (size != 0)
        small = (first == 2) & (second == 2)
        found = (
            (size == 0) & ~zeros,
            zeros & (total == 0),
            zeros & (total != 0),
            infinite & numbers,
            (size == 0x7F7FFFFF) & numbers,
            infinite & ~numbers,
            nan & (first != 7) & (second != 7),
            nan & ((first == 7) | (second == 7)),
            subnormal & small,
            small & (exponent == 1),
            subnormal & (first > 2) & (second > 2),
            size == 0x00800000,
        )
        for name, where in zip(RESULTS, found, strict=True):
            times = int(np.count_nonzero(where))
            if times:
                self.results.hit(name, times)

    def _rounding(self, a: U32, b: U32, total: U32) -> None:
        """Sample the rounding of sums; `a`, `b`, `total`: finite numbers, of which `total` alone
        may be 0.
        """
        x, y, s = (value.view(np.float32) for value in (a, b, total))
        with np.errstate(all="ignore"):
            # What rounding has left out, exactly (Moller, Knuth): s + error = x + y.
            part = s - x
            error = (x - (s - part)) + (y - part)
            half = np.spacing(np.abs(s)) / 2
            rounded_up = (error > 0) != (s > 0)
            # Below a power of two the neighbours are twice as close.
            half = np.where(rounded_up & (total & _FRACTION == 0), half / 2, half)
        kinds = np.select(
            [error == 0, np.abs(error) == half, ~rounded_up],
            [0, np.where(rounded_up, 4, 3), 1],
            default=2,
        )
        before = np.maximum(
            a >> np.uint32(23) & np.uint32(255), b >> np.uint32(23) & np.uint32(255)
        )
        shift = (total >> np.uint32(23) & np.uint32(255)).astype(np.int64) - before
        carries = np.select([shift > 0, shift == 0, shift == -1], [1, 0, 2], default=3)
        counts = np.bincount(kinds * len(CARRIES) + carries, minlength=20)
        for index in np.flatnonzero(counts):
            kind, carry = divmod(int(index), len(CARRIES))
            self.rounding.hit(ROUNDINGS[kind], CARRIES[carry], times=int(counts[index]))


# Cover points of the integer modes: codes, sums by every view, and what is refused.


SIGNS = ("unsigned", "signed")
INT_VIEWS = ("plane", "SUM16", "SUM8")
INT_WORKERS = ("1", "2..14", "15", "16", "17", "18..62", "63", "64")
CODES = ("smallest", "largest", "both", "one", "zeros", "any")
SEEN = ("none", "some", "all")
SELECTORS = ("0", "7", "15", "16", "17", "18", "19", "20", "32", "33", "34")


class IntPoints:
    """Integer modes, sampled by `op`, `judged` and `committed`."""

    def __init__(self, model: CoverModel) -> None:
        plan = Planned(model)
        self.views = plan.cross(
            "integer view",
            {"mode": INTS, "sign": SIGNS, "W": INT_WORKERS, "view": INT_VIEWS},
            ignore=lambda mode, sign, W, view: _no_sum8(mode, W, view),
        )
        self.codes = plan.cross(
            "integer codes",
            {"mode": INTS, "sign": SIGNS, "codes": CODES},
            ignore=lambda mode, sign, codes: sign == "unsigned" and codes == "zeros",
        )
        self.lines = plan.cross(
            "integer line",
            {"mode": INTS, "view": INT_VIEWS, "seen": SEEN, "mark": ("clean", "poisoned")},
            ignore=lambda mode, view, seen, mark: (
                (mode == INTS[1] and view == "SUM8") or (seen == "all" and mark == "poisoned")
            ),
        )
        self.line = plan.cross(
            "integer view line",
            {"mode": INTS, "line": ("16", "17", "18", "19", "32", "33")},
            ignore=lambda mode, line: mode == INTS[1] and line not in ("16", "17"),
        )
        self.selectors = plan.cross(
            "integer selector",
            {"mode": INTS, "sum8": ("SUM8", "none"), "selector": SELECTORS},
            ignore=lambda mode, sum8, selector: mode == INTS[1] and sum8 == "SUM8",
        )
        self.refused = plan.point(
            "integer commit",
            [*(f"MODE {code}" for code in range(6, 16)), *(f"PLANES {mode}" for mode in INTS)],
        )

    def op(self, op: Op, config: RegionConfig) -> None:
        """Sample an answered operation of a region of integer codes."""
        if op.read and op.access.cause in (Cause.NONE, Cause.SELECTOR):
            sum8 = "SUM8" if config.mode is Mode.G_INT4 and config.workers <= 16 else "none"
            selector = str(op.access.selector)
            if selector in SELECTORS:
                self.selectors.hit(config.mode.name, sum8, selector)

    def judged(self, op: Op, config: RegionConfig, after: AggregatedLine) -> None:
        """Sample an operation on a line; `after`: the line after it."""
        mode, sign = config.mode.name, SIGNS[config.signed]
        if op.access.kind is Kind.CONTRIBUTION:
            data = after.data.get(op.access.selector)
            if data is not None:
                self.codes.hit(mode, sign, _codes_class(data, config))
            return
        view, line = _view(op.access.selector)
        seen = "all" if after.all_seen(config.workers) else "some" if after.data else "none"
        self.lines.hit(mode, view, seen, "poisoned" if after.poisoned else "clean")
        if line is not None:
            self.line.hit(mode, line)
        if seen == "all":
            self.views.hit(mode, sign, _workers_class(config.workers), view)

    def committed(self, config: RegionConfig, code: int) -> None:
        """Sample a decided commit."""
        if code == CommitCode.MODE:
            self.refused.hit(f"MODE {int(config.mode)}")
        if code == CommitCode.PLANES and config.mode.bits:
            self.refused.hit(f"PLANES {config.mode.name}")


def _view(selector: int) -> tuple[str, str | None]:
    """Return the view of a selector, and the selector if it reads a line of sums."""
    if selector >= SUM8_SELECTOR:
        return "SUM8", str(selector)
    if selector >= SUM16_SELECTOR:
        return "SUM16", str(selector)
    assert selector >= PLANE_SELECTOR
    return "plane", None


def _workers_class(workers: int) -> str:
    return (
        str(workers)
        if str(workers) in INT_WORKERS
        else INT_WORKERS[1]
        if workers < 15
        else INT_WORKERS[5]
    )


def _no_sum8(mode: str, workers: str, view: str) -> bool:
    return view == "SUM8" and (mode == INTS[1] or workers not in INT_WORKERS[:4])


def _codes_class(data: bytes, config: RegionConfig) -> str:
    codes = unpack_int(memoryview(data), config.mode, config.signed)
    low, high = code_range(config.mode, config.signed)
    if not codes.any():
        return "smallest" if low == 0 else "zeros"
    if (codes == codes[0]).all() and codes[0] in (low, high):
        return "smallest" if codes[0] == low else "largest"
    if ((codes == low) | (codes == high)).all():
        return "both"
    return "one" if (codes != 0).sum() == 1 else "any"


# Cover points of G_TERN5: bytes, nets, what a read finds, and what is refused.


BYTES = ("0", "1..241", str(TERN5_CODES - 1), str(TERN5_CODES), "244..254", "255")
TERN5_VIEWS = ("vote", "plane")
_TEST = "test_tern5::codes"


class Tern5Points:
    """Mode G_TERN5, sampled by `judged` and `committed`."""

    def __init__(self, model: CoverModel) -> None:
        plan = Planned(model)
        self.bytes = plan.point("G_TERN5 byte", BYTES)
        self.illegal = plan.cross(
            "G_TERN5 illegal elements",
            {"elements": ("5", "some", "320"), "line": ("new", "duplicate", "poisoned")},
            ignore=lambda elements, line: elements == "5" and line != "new",
        )
        self.net = plan.cross("G_TERN5 net", {"net": NETS, "T": THRESHOLDS}, ignore=no_net)
        self.workers = plan.point("G_TERN5 workers", WORKERS)
        self.lines = plan.cross(
            "G_TERN5 line",
            {"view": TERN5_VIEWS, "seen": SEEN, "mark": ("clean", "poisoned")},
            ignore=lambda view, seen, mark: seen == "all" and mark == "poisoned",
        )
        self.refused = plan.point("G_TERN5 refused", ("MODE", "PLANES"))

    def judged(
        self, op: Op, config: RegionConfig, before: AggregatedLine, after: AggregatedLine
    ) -> None:
        """Sample an operation on a line; `before`, `after`: the line before and after it."""
        if op.access.kind is Kind.CONTRIBUTION:
            self._contribution(op, config, before)
            return
        view = "vote" if op.access.kind is Kind.RESULT else "plane"
        seen = "all" if after.all_seen(config.workers) else "some" if after.data else "none"
        self.lines.hit(view, seen, "poisoned" if after.poisoned else "clean")
        if view == "vote" and after.data:
            self._vote(config, after)

    def _contribution(self, op: Op, config: RegionConfig, before: AggregatedLine) -> None:
        data = getattr(op.msg, "data", b"")
        again, poison = op.access.selector in before.data, getattr(op.msg, "poison", False)
        count = illegal_codes(data, config.mode)
        if count:
            line = "duplicate" if again else "poisoned" if poison else "new"
            self.illegal.hit({5: "5", 320: "320"}.get(count, "some"), line)
        if not (again or poison):
            self.workers.hit(workers_class(config.workers))
            for byte in set(data):
                name = str(byte)
                between = BYTES[1] if byte < TERN5_CODES else BYTES[4]
                self.bytes.hit(name if name in BYTES else between)

    def _vote(self, config: RegionConfig, after: AggregatedLine) -> None:
        counts = after.reduced(config, 255).counts[0, : elements_per_line(config.mode)]
        m, t = len(after.data), config.threshold
        present = np.bincount(counts, minlength=2 * m + 1)
        kind = threshold_class(t, config.workers)
        edges = (-m, -t - 1, -t, 1 - t, 0, t - 1, t, t + 1, m)
        for name, net in zip(NETS, edges, strict=True):
            if -m <= net <= m and present[net + m]:
                self.net.hit(name, kind)

    def committed(self, config: RegionConfig, code: int) -> None:
        """Sample a decided commit of a G_TERN5 region."""
        if code in (CommitCode.MODE, CommitCode.PLANES):
            self.refused.hit(CommitCode(code).name)

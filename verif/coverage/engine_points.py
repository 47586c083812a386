# SPDX-License-Identifier: Apache-2.0
"""Cover points of aggregation: operations by mode, state of their line, and place of that state.

A race has no known order, so operations of a race are sampled in one order that explains them.
Events that only the pipeline knows (hits, forwarding, queues) are sampled inside the design.
"""

from collections.abc import Collection, Iterable

import numpy as np
from numpy.typing import NDArray

from cocotbext.cxl.wire.messages import M2SRwD, RwdOp
from models.access_decode import Cause, Kind
from models.aggregated_line import AggregatedLine
from models.commit_check import CommitCode
from models.fp32 import U32, add_bits, canonical
from models.line_packing import TERN5_CODES, code_range, illegal_codes, unpack_int
from models.modes import Mode, elements_per_line
from models.regions import SUM8_SELECTOR, SUM16_SELECTOR, RegionConfig
from models.register_map import REG_MAP
from models.votes import LowBitResult
from verif.coverage.cover_model import CoverModel
from verif.coverage.coverage_plan import Judged, Points, class_of, codes, entries
from verif.coverage.transaction_points import be_kind, threshold_class, workers_class
from verif.scoreboard.operations import Op

_REGION_STATUS = REG_MAP.region_register("STATUS")
_COUNTERS = codes("COUNTERS")
_LINE_EVENTS = ("DUPLICATE", "ILLEGAL_CODE", "EARLY_READ")
READS = {Kind.RESULT: "result", Kind.PLANE: "part", Kind.RAW: "part", Kind.SUM: "result"}


def _marked(again: bool, poisoned: bool) -> str:
    """Return the bin of MARKED for a line with illegal codes: "new", "duplicate" or "poisoned".

    Args:
        again: Whether the worker had contributed to the line before.
        poisoned: Whether the contribution is poisoned.
    """
    return "duplicate" if again else "poisoned" if poisoned else "new"


def _seen(line: AggregatedLine, workers: int) -> str:
    return "all" if line.all_seen(workers) else "some" if line.data else "none"


def _poison(poisoned: bool) -> str:
    return "poisoned" if poisoned else "clean"


class EnginePoints(Points):
    """Cover points of operations on lines of modes G_BINARY, G_TERNARY and FP32.

    Sampled by `judged` and `register`. The place of a line's state in this epoch is one axis: it
    has 'never left' its slot, is 'fetched' for the first operation after a write-back, and 'back'
    for later ones.
    """

    def __init__(self, model: CoverModel) -> None:
        super().__init__(model)
        self._left: dict[tuple[int, int], str] = {}

    # -- sampling -----------------------------------------------------------------------------
    def write_back(self, region: int, line: int) -> None:
        """Record that the record of a line was written back: its state has left the slot."""
        self._left[region, line] = "fetched"

    def committed(self, region: int) -> None:
        """Forget the write-backs of a region's records after an accepted commit, which starts a new
        epoch.
        """
        self._left = {key: place for key, place in self._left.items() if key[0] != region}

    def judged(self, one: Judged) -> None:
        """Count the coverage bins that a judged operation on a line hits.

        Args:
            one: Operation that the scoreboard found correct, with the line before and after it.
        """
        access, before = one.op.access, one.before
        key = (access.region, access.line)
        place = self._left.get(key, "never left")
        if place == "fetched":
            self._left[key] = "back"
        if one.writes:
            self._contribution(one, place)
        else:
            self._read(one, place)
        if before.lost:
            self.hit("lost line", one.mode, READS.get(access.kind, "write"), place)

    def _contribution(self, one: Judged, place: str) -> None:
        msg, worker, before = one.op.msg, one.op.access.selector, one.before
        mode, low_bit = one.mode, one.config.mode.low_bit
        assert isinstance(msg, M2SRwD)
        again = worker in before.data
        if low_bit:
            count = illegal_codes(msg.data, one.config.mode)
            if count:
                shown = {1: "1", 256: "256"}.get(count, "some")
                self.hit("illegal codes", shown, _marked(again, msg.poison))
            if again:
                data = "same" if before.data[worker] == msg.data else "other"
                self.hit("duplicate", mode, data, _poison(msg.poison), place)
        else:
            kind = be_kind(msg.be) if msg.opcode == RwdOp.MEM_WR_PTL else "whole"
            self.hit("FP32 store", "again" if again else "first", kind, _poison(msg.poison))
        seen = len(before.data)
        if msg.poison:
            if not (again and low_bit):
                what = "poisoned write after clean" if seen else "poisoned write first"
                self.hit("poisoned line", mode, what, place)
            return
        if before.poisoned and not again:
            self.hit("poisoned line", mode, "clean write after poison", place)
        last = seen == one.config.workers - 1
        which = "again" if again else "last" if last else "middle" if seen else "first"
        self.hit("contribution", mode, workers_class(one.config.workers), which)

    def _read(self, one: Judged, place: str) -> None:
        read, workers, seen = READS[one.op.access.kind], one.config.workers, len(one.before.data)
        if one.before.poisoned:
            self.hit("poisoned line", one.mode, f"read {read}", place)
        if seen < workers:
            share = "none" if not seen else "some" if seen < workers - 1 else "all but one"
            strict = "STRICT" if one.config.strict else "lax"
            self.hit("early read", one.mode, read, strict, share, place)

    def register(self, name: str, value: int) -> None:
        """Count the bins that a register read hits: counters that are not 0, and SATURATED of a
        region.
        """
        if name in _COUNTERS and value:
            self.hit("slots", name)
        elif name in _LINE_EVENTS and value:
            self.hit("line events", name)
        elif name.endswith("].STATUS") and _REGION_STATUS.field("SATURATED").extract(value):
            self.hit("line events", "SATURATED")


# Counts of the low-bit modes: where a vote turns over, and what a count plane holds.

NETS = codes("NETS")


class NetPoints(Points):
    """Base of the cover points of votes, by net count (contributions of + minus those of -) and
    threshold.
    """

    def nets(self, point: str, config: RegionConfig, m: int, present: Collection[int]) -> None:
        """Count the bins of the net counts that occur in a line.

        Args:
            point: Name of the cover point.
            config: Descriptor of the region, with threshold T.
            m: Number of contributions to the line.
            present: Net counts of its elements.
        """
        t = config.threshold
        kind = threshold_class(t, config.workers)
        values = (-m, -t - 1, -t, 1 - t, 0, t - 1, t, t + 1, m)
        for name, net in zip(NETS, values, strict=True):
            if net in present:
                self.hit(point, name, kind)


class CountPoints(NetPoints):
    """Cover points of counts, votes and count planes of lines that a host has read.

    Sampled by `result` and `plane`.
    """

    def result(self, config: RegionConfig, reduced: LowBitResult) -> None:
        """Count the bins that the read of a line's vote hits.

        Args:
            config: Descriptor of the region.
            reduced: Reduction of this one line by the reference model.
        """
        m = int(reduced.contributions[0])
        if m and config.mode is Mode.G_BINARY:
            self._majority(config, reduced, m)
        elif m:
            self._net(config, reduced, m)

    def _majority(self, config: RegionConfig, reduced: LowBitResult, m: int) -> None:
        """Count the bins of a G_BINARY vote with m contributions.

        For a count c of + votes, the sign of 2c - m decides; counts around m / 2 have bins, and
        ties.
        """
        present = {*reduced.counts[0].tolist()}
        tie = "MINUS" if config.tie_minus else "PLUS"
        parity = "odd" if m & 1 else "even"
        seen = "all" if m == config.workers else "part"
        half = {} if m & 1 else {"half": m // 2}
        nearest = {"half-1": (m - 1) // 2, "half+1": m // 2 + 1}  # that are no tie
        for name, count in ({"0": 0, "1": 1, "m-1": m - 1, "m": m} | half | nearest).items():
            if count in present:
                self.hit("majority", name, parity, tie, seen)
        for count, sign in ((m, "+"), (0, "-")):
            if present == {count}:
                self.hit("unanimous line", f"{Mode.G_BINARY.name} {sign}")

    def _net(self, config: RegionConfig, reduced: LowBitResult, m: int) -> None:
        pairs = {*zip(*(reduced.counts[0, sign::2].tolist() for sign in (0, 1)), strict=True)}
        present = {plus - minus for plus, minus in pairs}
        self.nets("net", config, m, present)
        shares = {m - 1: "m-1", 1: "1", 0: "0", m: "m"}  # a later one wins where two are equal
        for names in {tuple(shares.get(count, "some") for count in pair) for pair in pairs}:
            self.hit("plus and minus", *names)
        for sign, net in (("0", 0), ("+", m), ("-", -m)):
            if present == {net}:
                self.hit("unanimous line", f"{Mode.G_TERNARY.name} {sign}")

    def plane(self, mode: Mode, plane: int, data: bytes) -> None:
        """Count the bins of a count plane that was read: its content is all zeros, all ones, or
        mixed.

        Args:
            mode: Mode of the region.
            plane: Number of the plane.
            data: The 64 bytes read.
        """
        ones = int.from_bytes(data, "little").bit_count()
        content = "zeros" if ones == 0 else "ones" if ones == 8 * len(data) else "mixed"
        self.hit("plane content", mode.name, str(plane), content)


# FP32 sums: the classes of both operands of each addition, and how its result was rounded.
#
# The additions are those of the reference, in worker order. They are kept as they come and
# classified together: a call of numpy costs as much for one line as for a hundred.

OPERANDS, ROUNDINGS, CARRIES = codes("OPERANDS"), codes("ROUNDINGS"), codes("CARRIES")
_BATCH = 4096  # additions that are classified at once
_FRACTION = np.uint32(0x7FFFFF)
_MAGNITUDE = np.uint32(0x7FFFFFFF)
_HUGE = 254  # the largest exponent field of a number


def _exponent(bits: U32) -> U32:
    return bits >> np.uint32(23) & np.uint32(0xFF)


def operand_classes(bits: U32) -> NDArray[np.intp]:
    """Return the index into OPERANDS (0, -0, subnormal, ..., nan) of FP32 bit patterns."""
    exponent = _exponent(bits)
    zero, special = (bits & _MAGNITUDE) == 0, exponent == 255
    negative = bits >> np.uint32(31) == 1
    nan = special & ((bits & _FRACTION) != 0)
    return np.select(
        [zero & ~negative, zero, exponent == 0, nan, special & ~negative, special]
        + [exponent == _HUGE],
        [0, 1, 2, 7, 5, 6, 4],
        default=3,
    )


class Fp32Points(Points):
    """Cover points of FP32 sums: operands, rounding and result of each addition, sampled by `sum`.

    The additions are those of the reference, in worker order. They are collected and classified in
    batches; call `flush` before reading the hits.
    """

    def __init__(self, model: CoverModel) -> None:
        super().__init__(model)
        self._pairs: list[tuple[U32, U32]] = []

    def sum(self, lines: Iterable[bytes]) -> None:
        """Collect the additions of the sum of one line; `lines`: 64 bytes of each contributor, by
        worker.
        """
        words = np.array([np.frombuffer(line, "<u4") for line in lines], np.uint32)
        with np.errstate(all="ignore"):
            partial = np.add.accumulate(canonical(words).view(np.float32), axis=0)
        self._pairs.append((partial[:-1].view(np.uint32), words[1:]))
        if sum(partial.size for partial, _ in self._pairs) >= _BATCH:
            self.flush()

    def flush(self) -> None:
        """Classify the additions that were collected since the last call, and count their bins."""
        if not self._pairs:
            return
        a = canonical(np.concatenate([pair[0].ravel() for pair in self._pairs]))
        b = np.concatenate([pair[1].ravel() for pair in self._pairs])
        self._pairs.clear()
        first, second = operand_classes(a), operand_classes(b)
        self._hit_pairs("FP32 operands", OPERANDS, first, OPERANDS, second)
        total = add_bits(a, b)
        self._results(total, first, second)
        finite = ((total & _MAGNITUDE) < np.uint32(0x7F800000)) & (first > 1) & (second > 1)
        self._rounding(a[finite], b[finite], total[finite])

    def _hit_pairs(
        self,
        point: str,
        first: tuple[str, ...],
        a: NDArray[np.intp],
        second: tuple[str, ...],
        b: NDArray[np.intp],
    ) -> None:
        """Count the bins of a point with two axes.

        Args:
            point: Name of the cover point.
            first: Values of the first axis.
            a: Indices into `first`, one for each sample.
            second: Values of the second axis.
            b: Indices into `second`, one for each sample.
        """
        counts = np.bincount(a * len(second) + b)
        for index in np.flatnonzero(counts).tolist():
            one, other = divmod(index, len(second))
            self.hit(point, first[one], second[other], times=int(counts[index]))

    def _results(self, total: U32, first: NDArray[np.intp], second: NDArray[np.intp]) -> None:
        size, exponent = total & _MAGNITUDE, _exponent(total)
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
        for name, where in zip(entries()["FP32 results"].bins, found, strict=True):
            times = int(np.count_nonzero(where))
            if times:
                self.hit("FP32 results", name, times=times)

    def _rounding(self, a: U32, b: U32, total: U32) -> None:
        """Count the bins of the rounding of additions and of their carry or cancellation.

        Args:
            a: First operands, as bit patterns of finite numbers other than 0.
            b: Second operands, likewise.
            total: Rounded sums, finite; may be 0.
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
        shift = _exponent(total).astype(np.int64) - np.maximum(_exponent(a), _exponent(b))
        carries = np.select([shift > 0, shift == 0, shift == -1], [1, 0, 2], default=3)
        self._hit_pairs("FP32 rounding", ROUNDINGS, kinds, CARRIES, carries)


# Cover points of the integer modes: codes, sums by every view, and what is refused.

SELECTORS = entries()["integer selector"].axes["selector"]


class IntPoints(Points):
    """Cover points of the modes G_INT4 and G_INT8: codes, sums by every view, and refusals.

    Sampled by `op`, `judged` and `committed`.
    """

    def op(self, op: Op, config: RegionConfig) -> None:
        """Count the bin of the selector of an answered read of a region of integer codes."""
        selector = str(op.access.selector)
        if op.read and op.access.cause in (Cause.NONE, Cause.SELECTOR) and selector in SELECTORS:
            sum8 = "SUM8" if config.mode is Mode.G_INT4 and config.workers <= 16 else "none"
            self.hit("integer selector", config.mode.name, sum8, selector)

    def judged(self, one: Judged) -> None:
        """Count the coverage bins that a judged operation on a line of an integer region hits.

        A contribution is sampled for its codes; a read for its view (plane, SUM8, SUM16), for the
        workers seen and for poison.

        Args:
            one: Operation that the scoreboard found correct, with the line before and after it.
        """
        config, after, selector = one.config, one.after, one.op.access.selector
        sign = "signed" if config.signed else "unsigned"
        if one.writes:
            data = after.data.get(selector)
            if data is not None:
                self.hit("integer codes", one.mode, sign, _codes_class(data, config))
            return
        views = {SUM8_SELECTOR: "SUM8", SUM16_SELECTOR: "SUM16"}
        view = next((name for first, name in views.items() if selector >= first), "plane")
        seen = _seen(after, config.workers)
        self.hit("integer line", one.mode, view, seen, _poison(after.poisoned))
        if view != "plane":
            self.hit("integer view line", one.mode, str(selector))
        if seen == "all":
            self.hit("integer view", one.mode, sign, class_of("INT_WORKERS", config.workers), view)

    def committed(self, config: RegionConfig, code: int) -> None:
        """Count the bin of a commit that was refused for its mode, or for planes of an integer
        mode.
        """
        if code == CommitCode.MODE:
            self.hit("integer commit", f"MODE {int(config.mode)}")
        if code == CommitCode.PLANES and config.mode.bits:
            self.hit("integer commit", f"PLANES {config.mode.name}")


def _codes_class(data: bytes, config: RegionConfig) -> str:
    values = unpack_int(memoryview(data), config.mode, config.signed)
    low, high = code_range(config.mode, config.signed)
    if not values.any():
        return "smallest" if low == 0 else "zeros"
    if (values == values[0]).all() and values[0] in (low, high):
        return "smallest" if values[0] == low else "largest"
    if ((values == low) | (values == high)).all():
        return "both"
    return "one" if (values != 0).sum() == 1 else "any"


# Cover points of G_TERN5: bytes, nets, what a read finds, and what is refused.


class Tern5Points(NetPoints):
    """Cover points of mode G_TERN5: bytes, net counts, reads by state of the line, and refusals.

    Sampled by `judged` and `committed`.
    """

    def judged(self, one: Judged) -> None:
        """Count the coverage bins that a judged operation on a line of a G_TERN5 region hits.

        Args:
            one: Operation that the scoreboard found correct, with the line before and after it.
        """
        config, after = one.config, one.after
        if one.writes:
            self._contribution(one)
            return
        view = "vote" if one.op.access.kind is Kind.RESULT else "plane"
        self.hit("G_TERN5 line", view, _seen(after, config.workers), _poison(after.poisoned))
        if view == "vote" and after.data:
            counts = after.reduced(config, 255).counts[0, : elements_per_line(config.mode)]
            m = len(after.data)
            self.nets("G_TERN5 net", config, m, {count - m for count in counts.tolist()})

    def _contribution(self, one: Judged) -> None:
        data, poison = getattr(one.op.msg, "data", b""), getattr(one.op.msg, "poison", False)
        again = one.op.access.selector in one.before.data
        count = illegal_codes(data, one.config.mode)
        if count:
            shown = {5: "5", 320: "320"}.get(count, "some")
            self.hit("G_TERN5 illegal elements", shown, _marked(again, poison))
        if not (again or poison):
            self.hit("G_TERN5 workers", workers_class(one.config.workers))
            for byte in set(data):
                edge = byte in (0, TERN5_CODES - 1, TERN5_CODES, 255)
                between = "1..241" if byte < TERN5_CODES else "244..254"
                self.hit("G_TERN5 byte", str(byte) if edge else between)

    def committed(self, config: RegionConfig, code: int) -> None:
        """Count the bin of a commit of a G_TERN5 region that was refused for its mode or its
        planes.
        """
        if code in (CommitCode.MODE, CommitCode.PLANES):
            self.hit("G_TERN5 refused", CommitCode(code).name)

# SPDX-License-Identifier: Apache-2.0
"""Generator of random scenarios: regions, then a stream of operations, drawn by the weights of the
knobs in `knobs.toml`.
"""

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cocotbext.cxl.wire.messages import ReqOp
from models.commit_check import CommitCode, check_commit
from models.line_packing import TERN5_CODES, code_range, codes_to_lines, pack_int, trits_to_lines
from models.modes import GATED, Mode, elements_per_line
from models.parameters import LINE_ADDRESS_BITS, DeviceParams
from models.regions import (
    INFO_SELECTOR,
    MAX_WORKERS,
    PLANE_COUNT,
    PLANE_SELECTOR,
    RAW_SELECTOR,
    SELECTOR_BITS,
    SELECTORS,
    VIEW_SELECTORS,
    RegionConfig,
    planes_kept,
    record_lines,
    records,
    state_lines,
    sum_selectors,
)
from verif.scenario.scenario_data import Do, Link, Memory, Operation, Region, Scenario
from verif.scenario.weights import Weights
from verif.scoreboard.register_predictor import COUNTERS
from verif.sequences.line_data import FP32_CORNERS, line_for, random_line

# -- contributions of all workers to a line, drawn together: real gradients correlate, and the
# corners of a count or of a sum need workers that agree with each other ---------------------------
Random = np.random.Generator
Votes = NDArray[np.int8]
Words = NDArray[np.uint32]
_Level = TypeVar("_Level", np.int8, np.int64)


def lines_of(config: RegionConfig, kind: str, rng: Random) -> list[bytes]:
    """Draw the contribution of each worker of a region to one line.

    Args:
        config: Descriptor of the region.
        kind: Choice of the knob "values", or "values_fp32" in mode FP32.
        rng: Source of all draws.

    Returns:
        Lines of 64 bytes, one for each worker; random bytes in mode IDENTITY.
    """
    workers = config.workers
    if config.mode is Mode.IDENTITY:
        return [rng.bytes(64) for _ in range(workers)]
    if config.mode is Mode.FP32:
        return [row.astype("<u4").tobytes() for row in fp32(kind, workers, rng)]
    if config.mode.bits:
        codes = int_codes(kind, workers, config, rng)
        return [pack_int(row, config.mode, config.signed).tobytes() for row in codes]
    votes = low_bit(kind, workers, config, rng)
    if config.mode is Mode.G_BINARY:
        packed = np.packbits((votes < 0).astype(np.uint8), axis=1, bitorder="little")
        return [row.tobytes() for row in packed]
    if config.mode is Mode.G_TERN5:
        return [trits_to_lines(row).tobytes() for row in votes]
    codes = np.where(votes == 0, 0, np.where(votes < 0, 3, 2)).astype(np.uint8)
    return [codes_to_lines(row).tobytes() for row in codes]


def with_illegal_codes(data: bytes, mode: Mode, rng: Random) -> bytes:
    """Return a line with some or all elements replaced by illegal codes.

    Args:
        data: Line of 64 bytes.
        mode: G_TERNARY (code 01) or G_TERN5 (bytes from TERN5_CODES on).
        rng: Source of all draws.
    """
    if mode is Mode.G_TERN5:
        line = np.frombuffer(data, np.uint8).copy()
        bad = rng.random(len(line)) < rng.choice((0.02, 0.3, 1.0))
        line[bad] = rng.integers(TERN5_CODES, 256, int(bad.sum()))
        return line.tobytes()
    codes = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little").reshape(-1, 2)
    codes[rng.random(len(codes)) < rng.choice((0.01, 0.3, 1.0))] = (1, 0)
    return np.packbits(codes.reshape(-1), bitorder="little").tobytes()


def int_codes(kind: str, workers: int, config: RegionConfig, rng: Random) -> NDArray[np.int64]:
    """Draw integer codes int64[workers, elements of a line].

    They are random, equal for all workers or for all but one, or corner values.

    Args:
        kind: Choice of the knob "values".
        workers: Number of workers.
        config: Descriptor, with an integer mode and its sign.
        rng: Source of all draws.
    """
    low, high = code_range(config.mode, config.signed)
    shape = (workers, elements_per_line(config.mode))
    if kind in ("unanimous", "near unanimous", "correlated"):
        codes = np.tile(_common(np.arange(low, high + 1), shape[1], rng), (workers, 1))
        if kind != "unanimous":
            codes[rng.integers(workers)] = rng.integers(low, high + 1, shape[1])
        return codes
    if kind == "independent":
        return rng.integers(low, high + 1, shape)
    return rng.choice(np.unique([low, low + 1, 0, 1, high - 1, high]), shape)


def low_bit(kind: str, workers: int, config: RegionConfig, rng: Random) -> Votes:
    """Draw votes int8[workers, elements of a line]: +1 and -1 in G_BINARY, also 0 in ternary modes.

    Args:
        kind: Choice of the knob "values".
        workers: Number of workers.
        config: Descriptor, with mode and threshold.
        rng: Source of all draws.
    """
    ternary = config.mode in GATED
    count = elements_per_line(config.mode)
    levels = np.array([-1, 0, 1] if ternary else [-1, 1], np.int8)
    if kind == "independent":
        return rng.choice(levels, (workers, count))
    if kind in ("correlated", "unanimous", "near unanimous"):
        votes = np.tile(_common(levels, count, rng), (workers, 1))
        if kind == "correlated":
            rate = rng.choice((0.02, 0.1, 0.25))
            flipped = rng.random(votes.shape) < rate
            votes[flipped] = rng.choice(levels, int(flipped.sum()))
        elif kind == "near unanimous":
            votes[rng.integers(workers)] = rng.choice(levels, count)
        return votes
    plus, minus = _targets(kind, workers, config.threshold, ternary, count, rng)
    rank = rng.random((workers, count)).argsort(axis=0)
    votes = np.where(rank < plus, 1, np.where(rank < plus + minus, -1, 0))
    return votes.astype(np.int8)


def _common(levels: NDArray[_Level], count: int, rng: Random) -> NDArray[_Level]:
    """Draw the value of `count` elements that all workers share: one level for all, or a random
    pattern.
    """
    if rng.random() < 0.5:
        return np.full(count, rng.choice(levels), levels.dtype)
    return rng.choice(levels, count)


def _targets(
    kind: str, workers: int, threshold: int, ternary: bool, count: int, rng: Random
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw, for each of `count` elements, how many workers vote + and how many vote -."""
    half = workers // 2
    if kind == "ties":
        plus = np.full(count, half)
        plus += rng.integers(0, 2, count) * (workers & 1)
        return plus, workers - plus if workers & 1 or not ternary else plus.copy()
    if kind == "near threshold" and ternary:
        net = np.clip(threshold + rng.integers(-1, 2, count), 0, workers)
        minus = rng.integers(0, (workers - net) // 2 + 1)
        swap = rng.random(count) < 0.5
        plus = minus + net
        return np.where(swap, minus, plus), np.where(swap, plus, minus)
    if kind == "uniform counts":
        plus = rng.integers(0, workers + 1, count)
    else:
        corners = [0, 1, half - 1, half, half + 1, workers - 1, workers]
        plus = rng.choice(np.clip(corners, 0, workers), count)
    rest = workers - plus
    return plus, rng.integers(0, rest + 1) if ternary else rest


# -- FP32 -------------------------------------------------------------------------------------
def fp32(kind: str, workers: int, rng: Random) -> Words:
    """Draw operands of FP32 sums as bit patterns, uint32[workers, 16].

    Args:
        kind: Choice of the knob "values_fp32".
        workers: Number of workers.
        rng: Source of all draws.
    """
    shape = (workers, elements_per_line(Mode.FP32))
    corners = np.array(FP32_CORNERS, np.uint32)
    if kind == "corners":
        return rng.choice(corners, shape)
    if kind == "equal corners":
        return np.tile(rng.choice(corners, shape[1]), (workers, 1))
    if kind == "one scale":
        return rng.uniform(-1, 1, shape).astype(np.float32).view(np.uint32)
    if kind == "cancellation":
        return _cancelling(shape, rng)
    if kind == "rounding ties":
        return _rounding(shape, rng)
    exponents = {"huge": (250, 255), "subnormal": (0, 3), "scales": (100, 154)}.get(kind, (0, 256))
    words = _floats(rng.integers(*exponents, shape), rng.integers(0, 1 << 23, shape), rng)
    if kind == "huge":  # of one sign in half of the elements: these overflow
        words[:, :8] &= 0x7FFF_FFFF
    return words


def _floats(exponent: NDArray[np.int64], fraction: NDArray[np.int64], rng: Random) -> Words:
    sign = rng.integers(0, 2, exponent.shape)
    return (sign << 31 | exponent << 23 | fraction).astype(np.uint32)


def _cancelling(shape: tuple[int, int], rng: Random) -> Words:
    """Draw operands of which each two consecutive workers cancel exactly, or up to the last
    bits.
    """
    words = _floats(rng.integers(1, 254, shape), rng.integers(0, 1 << 23, shape), rng)
    pairs = shape[0] // 2
    words[1 : 2 * pairs : 2] = words[0 : 2 * pairs : 2] ^ np.uint32(1 << 31)
    near = rng.random(shape) < 0.3
    words[near] ^= rng.integers(1, 4, int(near.sum())).astype(np.uint32)
    return words


def _rounding(shape: tuple[int, int], rng: Random) -> Words:
    """Draw a first operand, and others near half of its last place: rounding ties, exact or nearly
    so.
    """
    base = rng.integers(30, 220, shape[1])
    exponent = np.tile(base, (shape[0], 1)) - 24 + rng.integers(-1, 2, shape)
    fraction = rng.choice(np.array([0, 0, 1, 1 << 22, (1 << 23) - 1]), shape)
    words = _floats(exponent, fraction, rng)
    edges = np.array([0, 1, 2, (1 << 23) - 1, (1 << 23) - 2, 0x2A_AAAA, 0x55_5555])
    words[0] = _floats(base, rng.choice(edges, shape[1]), rng)
    return words


# -- a committed region while a scenario is drawn: lines of its epoch, their data, open work -------

HUGE = 1 << 12
"""Lines of a region beyond which nothing is contributed: to initialise more takes too long."""
LIMITS = {"after": 0, "racing": 5, "loaded": 2, "single": 1}
"""Requests in flight on a line, by the choice of the knob "overlap"; 0: any number. The scoreboard
tries all orders of racing requests, so few of them may race with reads or with a commit."""


@dataclass
class LiveRegion:
    """Committed region while a scenario is drawn: its descriptor, and the work left in its epoch.

    Attributes:
        index: Index of its descriptor in the scenario.
        number: Number of the region in the device.
        config: Descriptor.
        overlap: Choice of the knob "overlap", which limits the requests in flight on a line.
        lines: Lines that the epoch uses.
        work: Contributions of the epoch still to be drawn, as (worker, line).
        data: Contributions of all workers, by line.
        closing: Lines whose result is read once the work is done.
        raced: Whether stores of one line may have raced, so that the last one is unknown.
        read: Lines that were read in this epoch.
    """

    index: int
    number: int
    config: RegionConfig
    overlap: str
    lines: list[int] = field(default_factory=list)
    work: deque[tuple[int, int]] = field(default_factory=deque)
    data: dict[int, list[bytes]] = field(default_factory=dict)
    kinds: str = ""
    closing: deque[int] = field(default_factory=deque)
    """Lines to read when the work is done."""
    raced: bool = False
    """Stores of one line may have raced: which of them came last is not known."""
    read: set[int] = field(default_factory=set)
    """Lines that were read in this epoch."""

    @property
    def limit(self) -> int:
        """Return the number of requests that may be in flight on a line; 0 for any number.

        In modes that are not low-bit it is 3 at most, unless it is 0.
        """
        limit = LIMITS[self.overlap]
        return limit if self.config.mode.low_bit else min(limit, LIMITS["loaded"] + 1)

    @property
    def may_move(self) -> bool:
        """Return whether a commit may move the region or change its shape.

        Not so if racing FP32 stores leave the data in its old memory unknown.
        """
        return self.config.mode.low_bit or not self.raced

    def write_limit(self, line: int) -> int:
        """Return the limit of requests in flight on a line for a contribution.

        It is `limit`, but 2 instead of no limit once the line was read: few may queue after a read.
        """
        return LIMITS["loaded"] if not self.limit and line in self.read else self.limit

    def read_limit(self, line: int) -> int:
        """Return the limit of requests in flight on a line for a read, and note the line as read.

        It is 1 if contributions have no limit.
        """
        self.read.add(line)
        return self.limit or 1

    def begin(self, weights: Weights, rng: random.Random, slots: int) -> None:
        """Draw the work of a new epoch: lines, workers of each line, and order of arrival.

        Args:
            weights: Weights of the knobs.
            rng: Source of all draws.
            slots: Number of slots of the device.
        """
        config = self.config
        self.raced = not config.mode.low_bit and (self.raced or self.overlap != "single")
        self.lines = _lines(config.lines, weights, rng, slots)
        self.data.clear()
        self.read.clear()
        self.closing = deque(self.lines[:8])
        self.work.clear()
        if config.mode is Mode.IDENTITY:
            return
        share = weights.pick(rng, "share")
        pairs = []
        for line in self.lines:
            workers = list(range(config.workers))
            rng.shuffle(workers)
            keep = {"one missing": len(workers) - 1, "half": (len(workers) + 1) // 2}
            pairs += [(worker, line) for worker in workers[: keep.get(share, len(workers))]]
        self.work.extend(_ordered(pairs, weights.pick(rng, "arrival"), rng))

    def contribution(self, worker: int, line: int, weights: Weights, rng: random.Random) -> bytes:
        """Return the 64 bytes that a worker contributes to a line.

        They are drawn together with those of the other workers at the first call for the line.
        """
        rows = self.data.get(line)
        if rows is None:
            knob = "values_fp32" if self.config.mode is Mode.FP32 else "values"
            numbers = np.random.default_rng(rng.getrandbits(64))
            rows = self.data[line] = lines_of(self.config, weights.pick(rng, knob), numbers)
        return rows[worker]


def _lines(lines: int, weights: Weights, rng: random.Random, slots: int) -> list[int]:
    """Draw the lines of a region that an epoch uses.

    Args:
        lines: Number of lines of the region. In a huge one only the first HUGE are used, because an
            eviction waits until the record initialiser has passed its line.
        weights: Weights of the knobs.
        rng: Source of all draws.
        slots: Number of slots of the device.

    Returns:
        Line indices in ascending order.
    """
    lines = min(lines, HUGE)
    count = {
        "1": 1,
        "2..4": rng.randint(2, 4),
        "about SLOTS": max(1, slots + rng.randint(-1, 1)),
        "above SLOTS": slots + rng.randint(2, max(3, slots // 2)),
    }[weights.pick(rng, "lines_in_use")]
    count = min(count, lines)
    place = weights.pick(rng, "line_place")
    if place == "spread":
        return sorted(rng.sample(range(lines), count))
    first = 0 if place == "low" else lines - count
    return list(range(first, first + count))


def _ordered(
    pairs: list[tuple[int, int]], arrival: str, rng: random.Random
) -> list[tuple[int, int]]:
    if arrival == "shuffled":
        rng.shuffle(pairs)
    elif arrival == "by worker":
        pairs.sort()
    elif arrival == "bursts":
        ranks = {pair: (rng.random() if n % 4 == 0 else 0.0) for n, pair in enumerate(pairs)}
        last = 0.0
        keyed = []
        for pair in pairs:
            last = ranks[pair] or last
            keyed.append((last, pair))
        pairs = [pair for _, pair in sorted(keyed, key=lambda one: one[0])]
    return pairs


class Draws:
    """Base of the classes that draw parts of a scenario, with knobs and parameters of the
    device.
    """

    def __init__(self, params: DeviceParams, weights: Weights, rng: random.Random) -> None:
        self.params = params
        self.weights = weights
        self.rng = rng

    def pick(self, knob: str) -> str:
        """Draw a choice of the knob `knob`, by the weights."""
        return self.weights.pick(self.rng, knob)

    def may(self, knob: str) -> bool:
        """Draw "no" or "yes" of the knob `knob`; return True for "yes"."""
        return self.weights.may(self.rng, knob)


# Draws what surrounds the device: behaviour of memory and link, and errors of the memory.

_LATENCIES = {"1..3": (1, 3), "2..12": (2, 12), "2..40": (2, 40), "100..300": (100, 300)}
_SHARES = {"few": 0.1, "half": 0.5, "all": 1.0}
_RATES = {"few": 0.02, "half": 0.05, "all": 0.1}
_STATUS = ("STATUS", "DONE", "FALLBACK", "ERR_INFO", "IRQ_STATUS", "LINK_STATE", "ERR_ADDR_LO")
_LEAVES = ("STATUS", "COMPLETE_LINES", "EPOCH")


class SurroundingDraws(Draws):
    """Draws of what surrounds the device: memory, link, memory faults, and register accesses."""

    def memory(self) -> Memory:
        """Draw latency, stalls and order of responses of the device memory."""
        rng = self.rng
        low, high = _LATENCIES[self.pick("latency")]
        first = rng.randint(low, high)
        most = {"none": 0.0, "some": 0.3, "heavy": 0.8}[self.pick("stalls")]
        aw, w, ar, b, r = (
            round(rng.uniform(0, most), 2) if rng.random() < 0.7 else 0.0 for _ in range(5)
        )
        order = self.pick("memory_order")
        latency = (first, rng.randint(first, high))
        return Memory(latency, aw, w, ar, b, r, order != "in order", order == "interleaved")

    def link(self) -> Link:
        """Draw packing, gaps, back-pressure and credits of the host."""
        rng = self.rng
        gaps = {"none": 0.0, "some": 0.2, "many": 0.6}[self.pick("host_gaps")]
        ready = {"always": 1.0, "often": 0.8, "seldom": 0.3}[self.pick("ready")]
        credits = self.pick("credits")
        grants = {"many": (64, 64), "few": (rng.randint(3, 16), rng.randint(3, 8)), "two": (2, 2)}
        plain, data = grants[credits]
        return Link(
            dense=self.pick("packing") == "dense",
            empty_weight=rng.choice((0.2, 0.6, 1.5)),
            idle_rate=gaps,
            idle_flit_rate=rng.choice((0.0, 0.1)),
            ready_rate=ready,
            ready_hold=(1, rng.choice((1, 4, 12))),
            grant_plain=plain,
            grant_data=data,
            return_delay=(0, rng.choice((0, 20, 40))) if credits != "many" else (0, 0),
            return_batch=rng.choice((1, 2)) if credits == "few" else 1,
            ak_in_headers=rng.random() < 0.8,
            credits_in_headers=rng.random() < 0.8,
        )

    def faults(self, live: Sequence[LiveRegion], pool: Sequence[int]) -> Operation | None:
        """Draw an operation that makes memory lines fail from now on, or poisons lines.

        Args:
            live: Committed regions.
            pool: Lines of ordinary memory in use.

        Returns:
            The operation; None if no line lies in the drawn place.
        """
        rng = self.rng
        place, kind = self.pick("fault_place"), self.pick("fault_kind")
        if place == "any access":
            rate = _RATES[self.pick("fault_rate")]
            write = rate / 2 if kind == "write error" else 0.0
            read = 0.0 if write else rate
            return Operation(Do.FAULTS, idle=True, read_error_rate=read, write_error_rate=write)
        lines: list[int] = []
        if place == "plain":
            areas = [self._area(one.config) for one in live]
            lines = [line for line in pool if not any(line in area for area in areas)]
        for one in live:
            lines += self._fault_lines(place, one.config, one.lines[:16])
        rate = _SHARES[self.pick("fault_rate")]
        bad = tuple(line for line in lines[:200] if rng.random() < rate)
        poisoned = "spoilt" if place == "records" else "poisoned"
        names = {"read error": "read_errors", "write error": "write_errors", "poison": poisoned}
        fields: dict[str, Any] = {names[kind]: bad}
        return Operation(Do.FAULTS, idle=True, **fields) if bad else None

    def _area(self, config: RegionConfig) -> range:
        return range(config.state_line, config.state_line + state_lines(config, self.params.cnt_w))

    def _fault_lines(self, place: str, config: RegionConfig, used: list[int]) -> list[int]:
        """Return lines of device memory that belong to given lines of a region.

        Args:
            place: Choice of the knob "fault_place": "IDENTITY", "FP32 data" or "records".
            config: Descriptor of the region.
            used: Indices of lines in the region.

        Returns:
            Data lines of all workers, or a line of each record; [] if the region has none of that
            place.
        """
        rng, cnt_w, start = self.rng, self.params.cnt_w, config.state_line
        if (place, config.mode) in (("IDENTITY", Mode.IDENTITY), ("FP32 data", Mode.FP32)):
            selectors = range(4 if config.mode is Mode.IDENTITY else config.workers)
            return [start + s * config.lines + i for s in selectors for i in used]
        if place != "records" or config.mode is Mode.IDENTITY:
            return []
        if config.mode is Mode.FP32:
            first, distance = records(config, cnt_w)
            return [first + distance * i + rng.randrange(distance) for i in used]
        if not config.mode.low_bit:
            return []
        size, beats = record_lines(config.most, cnt_w), 1 + planes_kept(config.most, cnt_w)
        beat = rng.choice((0, rng.randrange(beats)))
        return [start + i * size + beat for i in used]

    def registers(self, live: Sequence[LiveRegion]) -> list[Operation]:
        """Draw a register access, or a few related ones, by the knob "register".

        They read registers that the scoreboard compares, and write those that change the device
        under traffic.

        Args:
            live: Committed regions.
        """
        rng, regions = self.rng, self.params.regions
        kind = self.pick("register")
        idle, background = rng.random() < 0.4, rng.random() < 0.3

        def write(name: str, value: int, wait: bool = False) -> Operation:
            aside = background and not wait
            return Operation(Do.SET, name=name, value=value, idle=wait, background=aside)

        def get(name: str) -> Operation:
            return Operation(Do.GET, name=name, idle=idle, background=background and not idle)

        if kind in ("status", "counter"):
            return [get(rng.choice(_STATUS if kind == "status" else COUNTERS))]
        if kind == "region":
            number = rng.choice(live).number if live else rng.randrange(regions)
            return [get(f"REGION[{number}].{rng.choice(_LEAVES)}")]
        if kind in ("irq enable", "multi header"):
            name, bits = {"irq enable": ("IRQ_ENABLE", 7)}.get(kind, ("CTRL.MULTI_HEADER", 1))
            return [write(name, rng.getrandbits(bits))]
        if kind in ("irq clear", "fallback clear"):
            name, bits = {"irq clear": ("IRQ_STATUS", 7)}.get(kind, ("FALLBACK", regions))
            return [write(name, rng.getrandbits(bits), idle), get(name)]
        if kind.startswith("clear counters"):
            return [Operation(Do.CLEAR, idle=kind.endswith("idle"))]
        if kind == "capacity":
            window = rng.choice((0, 1, 2, rng.randint(3, 255), 256, 300))
            threshold = rng.choice((0, 1, 2, rng.randint(3, 255), 256, max(0, window - 1), window))
            return [write("CAP_WINDOW", window), write("CAP_THRESHOLD", threshold & 0x1FF)]
        if kind == "devload":
            levels = [rng.choice((0, 1, 2, rng.randint(3, 255), 255)) for _ in range(3)]
            return [write("DEVLOAD_THRESHOLD", levels[2] << 16 | levels[1] << 8 | levels[0])]
        return [Operation(Do.SET, name="ERR_INFO", value=1, idle=True), get("ERR_INFO")]


# Draws region descriptors: legal ones, changed ones on the same area, and ones to be refused.

TRIES = 40
ADDRESS_LINES = 1 << LINE_ADDRESS_BITS
_LINES = {
    "1": (0, 0),
    "2..8": (1, 3),
    "16..64": (4, 6),
    "2^7..2^10": (7, 10),
    "2^11..2^13": (11, 13),
    "more": (14, 30),
}
Others = Sequence[RegionConfig]
"""The descriptors that are committed in other regions."""


class RegionDraws(Draws):
    """Draws of region descriptors: legal ones, changes of a committed one, and ones to be
    refused.
    """

    # -- whole descriptors --------------------------------------------------------------------
    def region(self, others: Others) -> RegionConfig | None:
        """Draw a descriptor that a commit accepts.

        Args:
            others: Descriptors that are committed in other regions.

        Returns:
            The descriptor; None if no place was found in TRIES tries, as the memory is used up.
        """
        for attempt in range(TRIES):
            mode, workers = self.mode(), self.workers()
            log2 = self.lines_log2() if attempt < TRIES // 2 else self.rng.randrange(3)
            draft = RegionConfig(0, 0, log2, workers, mode, **self.options(workers))
            placed = self.place(draft, others)
            if placed is not None:
                return placed
        return None

    def place(self, draft: RegionConfig, others: Others) -> RegionConfig | None:
        """Draw a window and a state area for a descriptor.

        Args:
            draft: Descriptor; its own bases are ignored.
            others: Descriptors that are committed in other regions.

        Returns:
            A descriptor that a commit accepts; None if no place was found.
        """
        for _ in range(TRIES):
            base = self._window(1 << (draft.lines_log2 + SELECTOR_BITS), others) % ADDRESS_LINES
            state = self._state(draft, others)
            if state is None:
                return None
            placed = replace(draft, base=base << 6, state_base=state << 6)
            if self.legal(placed, others):
                return placed
        return None

    def legal(self, config: RegionConfig, others: Others) -> bool:
        """Return whether a commit accepts the descriptor with `others` committed in other
        regions.
        """
        return check_commit(self.params, config, others) is CommitCode.OK

    # -- fields -------------------------------------------------------------------------------
    def mode(self) -> Mode:
        """Draw the mode; a device with G_TERN5 gets it in place of half of the G_TERNARY ones."""
        mode = Mode[self.pick("mode")]
        if mode is Mode.G_TERNARY and self.params.tern5 and self.rng.random() < 0.5:
            return Mode.G_TERN5
        return mode

    def workers(self) -> int:
        """Draw the number of workers W, 1..64, by the knob "workers"."""
        rng, choice = self.rng, self.pick("workers")
        near = {"2^k - 1": -1, "2^k": 0, "2^k + 1": 1}.get(choice)
        if near is not None:
            return min(MAX_WORKERS, max(1, (1 << rng.randint(1, 6)) + near))
        if choice in ("4..16", "any"):
            return rng.randint(4, 16) if choice == "4..16" else rng.randint(1, MAX_WORKERS)
        return int(choice)

    def lines_log2(self) -> int:
        """Draw LINES_LOG2 by the knob "lines", at most half of the memory."""
        low, high = _LINES[self.pick("lines")]
        most = self.params.mem_lines_log2 - 1
        return self.rng.randint(min(low, most), min(high, most))

    def options(self, workers: int) -> dict[str, Any]:
        """Draw the other fields of a descriptor with W = `workers`, by name of the `RegionConfig`
        field.

        These are threshold, tie_minus, strict, bind, bind_shift, keep_sum, signed and ld_mask.
        """
        rng = self.rng
        thresholds = {
            "1": 1,
            "inside": rng.randint(1, workers),
            "W": workers,
            "above W": rng.randint(workers + 1, 254),
            "255": 255,
        }
        threshold = thresholds[self.pick("threshold")]
        some, one = rng.randrange(1, 0x10000), 1 << rng.randrange(16)
        mask = {"all": 0xFFFF, "some": some, "one": one}[self.pick("ld_mask")]
        return {
            "threshold": threshold,
            "tie_minus": self.pick("tie") == "MINUS",
            "strict": self.may("strict"),
            "bind": self.may("bind"),
            "bind_shift": int(self.pick("bind_shift")),
            "keep_sum": self.may("keep_sum"),
            "signed": rng.random() < 0.6,
            "ld_mask": mask,
        }

    # -- places -------------------------------------------------------------------------------
    def _window(self, size: int, others: Others) -> int:
        """Draw the first line of a window of `size` lines, aligned to its size.

        It may overlap another window; the caller checks that.
        """
        choice, memory = self.pick("window"), self.params.mem_lines
        if choice == "memory end":
            return -(-memory // size) * size
        if choice == "address top":
            return ADDRESS_LINES - size
        if choice == "beside another" and others:
            other = self.rng.choice(others)
            behind = other.base_line + other.window_lines
            return self.rng.choice((-(-behind // size) * size, max(0, other.base_line - size)))
        bits = self.rng.randint(self.params.mem_lines_log2 + 1, LINE_ADDRESS_BITS)
        return self.rng.randrange(1 << bits) // size * size

    def _align(self, config: RegionConfig) -> int:
        """Return the alignment of a descriptor's state area in lines: a record in the low-bit
        modes, else 1.
        """
        return record_lines(config.most, self.params.cnt_w) if config.mode.low_bit else 1

    def _state(self, draft: RegionConfig, others: Others) -> int | None:
        """Draw the first line of a state area; None if the area is larger than the memory.

        It may overlap another area; the caller checks that.
        """
        size, align = state_lines(draft, self.params.cnt_w), self._align(draft)
        last = self.params.mem_lines - size
        if last < 0:
            return None
        choice = self.pick("state")
        start = self.rng.randint(0, last)
        if choice in ("memory start", "memory end"):
            start = 0 if choice == "memory start" else last
        elif choice == "beside another" and others:
            other = self.rng.choice(others)
            behind = other.state_line + state_lines(other, self.params.cnt_w)
            start = self.rng.choice((-(-behind // align) * align, other.state_line - size))
        return min(max(start, 0), last) // align * align

    # -- changes ------------------------------------------------------------------------------
    def changed(self, old: RegionConfig, what: str, others: Others) -> RegionConfig | None:
        """Draw a descriptor that differs from a committed one in one respect and is accepted by a
        commit.

        Args:
            old: Committed descriptor.
            what: Choice of the knob "commit": "options", "workers", "mode", "size" or "moved"; only
                the last one changes the places, unless alignment requires it. Any other leaves it
                unchanged.
            others: Descriptors that are committed in other regions.

        Returns:
            The descriptor; None if none was found.
        """
        changes: dict[str, Callable[[], dict[str, Any]]] = {
            "options": lambda: self.options(old.workers),
            "workers": lambda: {"workers": self.workers()},
            "mode": lambda: {"mode": self.mode()},
            "size": lambda: {"lines_log2": self.lines_log2()},
        }
        if what == "moved":
            return self.place(old, others)
        for _ in range(TRIES):
            new = replace(old, **changes[what]()) if what in changes else old
            align, window = self._align(new), new.window_lines
            base, state = new.base_line // window * window, new.state_line // align * align
            new = replace(new, base=base << 6, state_base=state << 6)
            if self.legal(new, others):
                return new
        return None

    def refused(self, old: RegionConfig, others: Others) -> RegionConfig | None:
        """Draw a descriptor with one or two faults, which a commit must refuse.

        Args:
            old: Descriptor that is spoilt.
            others: Descriptors that are committed in other regions.

        Returns:
            The descriptor; None if none was found.
        """
        for _ in range(TRIES):
            bad = old
            for _fault in range(self.rng.choice((1, 1, 2))):
                bad = self._spoilt(bad, others)
            if not self.legal(bad, others):
                return bad
        return None

    def _spoilt(self, config: RegionConfig, others: Others) -> RegionConfig:
        rng, top = self.rng, (1 << 52) - 64
        memory = self.params.mem_lines << 6
        faults: list[dict[str, Any]] = [
            {"workers": rng.choice((0, 65, rng.randint(66, 255)))},
            {"threshold": 0},
            {"lines_log2": rng.choice((39, 63, rng.randint(40, 62)))},
            {"base": config.base ^ 64 << rng.randrange(config.lines_log2 % 38 + SELECTOR_BITS)},
            {"base": rng.randrange(memory) & ~63},
            {"state_base": config.state_base ^ 64 << rng.randrange(3)},
            {"state_base": memory - 64 * rng.choice((0, 1, 2)) & top},
            {"state_base": rng.randrange(memory, top) & top},
        ]
        for other in others[:1]:
            faults += [{"base": other.base}, {"state_base": other.state_base}]
        return replace(config, **rng.choice(faults))


# Draws accesses: contributions with what may go wrong with them, reads of every selector class,
# ordinary memory, and addresses and opcodes that must be refused.

PARTIAL_LIMIT = 3
"""Partial writes that race on a line leave many states: fewer of them at a time."""
_ODD_OPCODES = (*(int(op) for op in ReqOp), 5, 6, 7, 10, 15)


class AccessDraws(Draws):
    """Draws of accesses, appended to `out`.

    They are contributions with rare events, reads of every class of selector, accesses to ordinary
    memory (the lines of `pool`), and requests that must be refused.
    """

    def __init__(self, params: DeviceParams, weights: Weights, rng: random.Random) -> None:
        super().__init__(params, weights, rng)
        self.out: list[Operation] = []
        last = params.mem_lines - 1
        self.pool = [0, 1, last, *(rng.randint(0, last) for _ in range(9))]

    def add(self, do: Do, **fields: Any) -> None:
        """Append an operation of kind `do` with these fields."""
        self.out.append(Operation(do, **fields))

    # -- who ----------------------------------------------------------------------------------
    def ldid(self, live: LiveRegion, worker: int | None = None) -> int:
        """Draw an LD-ID that may access a region.

        Args:
            live: The region.
            worker: Worker that writes; with BIND only its owner may. None for a read.
        """
        config = live.config
        owner = 16 if worker is None else config.owner(worker)
        if config.bind and owner < 16 and config.ld_mask >> owner & 1:
            return owner
        return self.rng.choice([k for k in range(16) if config.ld_mask >> k & 1])

    def wrong_ldid(self, live: LiveRegion) -> int:
        """Draw an LD-ID outside LD_MASK of a region; any LD-ID if the mask has all."""
        strangers = [k for k in range(16) if not live.config.ld_mask >> k & 1]
        return self.rng.choice(strangers or range(16))

    # -- contributions ------------------------------------------------------------------------
    def contribute(self, live: LiveRegion, worker: int, line: int) -> None:
        """Append a contribution of a worker to a line, with an event drawn by the knob "event".

        Events are poison, a repetition, illegal codes, byte enables, a wrong LD-ID or a wrong
        selector.
        """
        rng, config = self.rng, live.config
        data = live.contribution(worker, line, self.weights, rng)
        good = Operation(
            Do.WRITE,
            region=live.index,
            selector=worker,
            line=line,
            ldid=self.ldid(live, worker),
            data=data.hex(),
            limit=live.write_limit(line),
        )
        event = self.pick("event")
        if event == "poison":
            good = replace(good, poison=True)
        elif event == "resend after poison":
            self.out.append(replace(good, poison=True))
        elif event == "illegal codes" and config.mode in GATED:
            numbers = np.random.default_rng(rng.getrandbits(64))
            good = replace(good, data=with_illegal_codes(data, config.mode, numbers).hex())
        elif event == "partial":
            good = self._partial(good)
        elif event == "wrong LD-ID":
            good = replace(good, ldid=self.wrong_ldid(live))
        elif event == "odd selector":
            good = replace(good, selector=rng.randint(min(255, config.workers), 255))
        self.out.append(good)
        if event.startswith("duplicate"):
            again = good
            if event.endswith("other data"):
                again = replace(good, data=line_for(config.mode, rng).hex())
            if rng.random() < 0.5:
                self.out.append(again)
            else:  # later, when the line may have left its slot
                live.work.insert(rng.randint(0, len(live.work)), (good.selector, line))

    def _partial(self, operation: Operation) -> Operation:
        """Return a write as a partial one, with byte enables by the knob "byte_enables" and a lower
        limit.
        """
        rng = self.rng
        enables = {
            "none": 0,
            "one": 1 << rng.randrange(64),
            "all": (1 << 64) - 1,
            "half": ((1 << 32) - 1) << rng.choice((0, 32)),
            "mixed": rng.getrandbits(64),
        }
        limit = min(operation.limit or PARTIAL_LIMIT, PARTIAL_LIMIT)
        return replace(operation, be=enables[self.pick("byte_enables")], limit=limit)

    # -- reads --------------------------------------------------------------------------------
    def read(self, live: LiveRegion, line: int | None = None) -> None:
        """Append a read of a line of a region, with a selector by the knob "read".

        Args:
            live: The region.
            line: Index of the line; None draws one of those in use.
        """
        rng, config = self.rng, live.config
        if line is None:
            line = rng.choice(live.lines)
            if config.lines > HUGE and rng.random() < 0.5:
                line = rng.randrange(config.lines)
        choice = self.pick("read")
        ldid = self.wrong_ldid(live) if choice == "wrong LD-ID" else self.ldid(live)
        selector = self._result(config)
        if config.mode is Mode.IDENTITY:
            selector = self._identity_selector()
        elif choice == "forbidden":
            selector = self._forbidden(config)
        elif choice == "info":
            selector = INFO_SELECTOR
        elif choice == "status":
            selector, line = rng.choice(VIEW_SELECTORS), 0
        elif choice in ("plane", "raw"):
            parts = self._parts(config)
            selector = parts[rng.randrange(len(parts))]
        opcode = int(rng.choice((ReqOp.MEM_RD, ReqOp.MEM_RD, ReqOp.MEM_RD_DATA)))
        self._read(live, line, selector, ldid, opcode=opcode)

    def closing_read(self, live: LiveRegion, line: int) -> None:
        """Append a read of a line's result at the end of an epoch, and with probability 1/2 a
        second read.
        """
        self._read(live, line, self._result(live.config), self.ldid(live))
        if self.rng.random() < 0.5:
            self.read(live, line)

    def _read(self, live: LiveRegion, line: int, selector: int, ldid: int, **fields: int) -> None:
        at = {"region": live.index, "selector": selector, "line": line, "ldid": ldid}
        self.add(Do.READ, **at, **fields, limit=live.read_limit(line))

    def _result(self, config: RegionConfig) -> int:
        """Draw a selector that reads the result of a line: 0, or one line of the sums of integer
        codes.
        """
        return self.rng.choice(sum_selectors(config)) if config.mode.bits else 0

    def _parts(self, config: RegionConfig) -> range:
        """Return the selectors of count planes, or in mode FP32 those of the workers' data."""
        if config.mode is Mode.FP32:
            return range(RAW_SELECTOR, RAW_SELECTOR + config.workers)
        return range(PLANE_SELECTOR, PLANE_SELECTOR + PLANE_COUNT)

    def _forbidden(self, config: RegionConfig) -> int:
        results = sum_selectors(config) or [0]
        legal = {INFO_SELECTOR, *VIEW_SELECTORS, *results, *self._parts(config)}
        forbidden = [n for n in range(SELECTORS) if n not in legal]
        edges = [n for n in forbidden if {n - 1, n + 1} & legal]
        return self.rng.choice(edges if self.rng.random() < 0.5 else forbidden)

    # -- memory -------------------------------------------------------------------------------
    def _identity_selector(self) -> int:
        return self.rng.choice((0, 1, 127, 128, 255, self.rng.randrange(256)))

    def identity(self, live: LiveRegion) -> None:
        """Append a read or write of an IDENTITY region."""
        rng, config = self.rng, live.config
        if rng.random() < 0.4:
            self.read(live)
            return
        selector = self._identity_selector()
        if config.bind and rng.random() < 0.8:
            selector = rng.randrange(16 << config.bind_shift)
        self._memory_write(
            region=live.index,
            selector=selector,
            line=rng.choice(live.lines),
            ldid=self.ldid(live),
            data=random_line(rng).hex(),
            limit=live.limit or PARTIAL_LIMIT,
        )

    def _memory_write(self, **fields: Any) -> None:
        operation = Operation(Do.WRITE, **fields)
        event = self.pick("event")
        if event in ("poison", "resend after poison"):
            operation = replace(operation, poison=True)
        if event == "partial" or self.rng.random() < 0.2:
            operation = self._partial(operation)
        self.out.append(operation)

    def plain(self, write: bool) -> None:
        """Append an access to a line of `pool`, which is or was ordinary memory."""
        rng = self.rng
        line, ldid = rng.choice(self.pool), rng.randrange(16)
        # What races on a line that a region may claim, and leave again, cannot be judged later.
        limit = 1 if line in self.pool[:3] else PARTIAL_LIMIT
        at = {"addr": line << 6, "ldid": ldid, "limit": limit}
        if write:
            self._memory_write(**at, data=random_line(rng).hex())
        else:
            self.add(Do.READ, **at)

    # -- what must be refused -----------------------------------------------------------------
    def odd_opcode(self, live: LiveRegion | None) -> None:
        """Append a request without data, with any opcode: most are no read, some are reserved.

        Args:
            live: Region that it may address, or None.
        """
        rng = self.rng
        where = {"addr": rng.choice(self.pool) << 6}
        if live is not None and rng.random() < 0.5:
            where = {"region": live.index, "line": rng.choice(live.lines)}
        opcode = rng.choice(_ODD_OPCODES)
        self.add(Do.REQUEST, **where, opcode=opcode, ldid=rng.randrange(16), limit=1)

    def odd_address(self, live: LiveRegion | None) -> None:
        """Append an access at the edge of memory, of a window or of a state area, or one address
        bit away.

        Args:
            live: Region whose edges are used too, or None.
        """
        rng = self.rng
        edges = [self.params.mem_lines, self.params.mem_lines - 1]
        if live is not None:
            config = live.config
            state = config.state_line
            end = state + state_lines(config, self.params.cnt_w)
            edges += [state, end - 1, end, max(0, state - 1)]
            edges += [config.base_line - 1, config.base_line + config.window_lines]
            edges += [config.base_line ^ 1 << rng.randrange(46) for _ in range(6)]
        at = {"addr": (rng.choice(edges) << 6) % (1 << 52), "ldid": rng.randrange(16), "limit": 1}
        if rng.random() < 0.5:
            self.add(Do.READ, **at)
        else:
            self.add(Do.WRITE, **at, data=random_line(rng).hex())


LONG = 1 << 8
"""Lines of a region whose area is given up at the end: to initialise more takes too long."""
OPERATIONS = 220
"""Operations of a scenario at scale 1."""


def generate(
    seed: int, hardware: DeviceParams, weights: Weights, operations: int = OPERATIONS
) -> Scenario:
    """Generate the scenario of a seed; equal arguments give equal scenarios.

    Args:
        seed: Seed of all draws.
        hardware: Parameters of the device.
        weights: Weights of the knobs.
        operations: Number of operations after which the scenario is ended.
    """
    return _Generator(seed, hardware, weights, operations).scenario()


class _Generator(AccessDraws, SurroundingDraws, RegionDraws):
    def __init__(self, seed: int, hardware: DeviceParams, weights: Weights, count: int) -> None:
        super().__init__(hardware, weights, random.Random(f"scenario {seed}"))
        self.seed = seed
        self.count = count
        self.regions: list[Region] = []
        self.live: list[LiveRegion] = []
        self.epoch = self.rng.getrandbits(32)
        self.turn: list[LiveRegion] = []
        self.faulty = 0
        """Operations that are left of a phase with errors of the memory."""
        self.by_rate = False

    def scenario(self) -> Scenario:
        memory, link = self.memory(), self.link()
        background = self.pick("background")
        for number in self.rng.sample(range(self.params.regions), self._region_count()):
            self.first_commit(number)
        while len(self.out) < self.count:
            self.step()
        self.end()
        return Scenario(
            seed=self.seed,
            hardware=self.params,
            regions=tuple(self.regions),
            operations=tuple(self.out),
            memory=memory,
            link=link,
            background=background,
        )

    def _region_count(self) -> int:
        regions = self.params.regions
        count = {"1": 1, "2": 2, "3..4": self.rng.randint(3, 4), "all": regions}
        return min(regions, count[self.pick("regions")])

    # -- commits ------------------------------------------------------------------------------
    def others(self, number: int) -> list[RegionConfig]:
        """Return the descriptors that are committed in regions other than `number`."""
        return [live.config for live in self.live if live.number != number]

    def descriptor(self, number: int, config: RegionConfig) -> int:
        """Append a descriptor for region `number` to the scenario, and return its index."""
        self.regions.append(Region(number, config))
        return len(self.regions) - 1

    def first_commit(self, number: int) -> None:
        config = self.region(self.others(number))
        if config is None:
            return
        live = LiveRegion(self.descriptor(number, config), number, config, self.pick("overlap"))
        live.begin(self.weights, self.rng, self.params.slots)
        self.live.append(live)
        self._write_commit(live.index)

    def commit(self, live: LiveRegion) -> None:
        """Append a commit of a region in use, by the knobs "commit" and "commit_when".

        The descriptor stays, changes, or is refused; an accepted commit starts the work of a new
        epoch.
        """
        what = self.pick("commit")
        when = self.pick("commit_when")
        if live.overlap != "loaded":  # too many orders of what is in flight
            when = "idle"
        others = self.others(live.number)
        new = live.config
        if what == "refused":
            bad = self.refused(live.config, others)
            if bad is not None:
                self._write_commit(self.descriptor(live.number, bad))
            return
        if what == "options" or (what != "same" and live.may_move):
            new = self.changed(live.config, what, others) or live.config
        if new != live.config:
            live.config, live.index = new, self.descriptor(live.number, new)
            live.overlap = self.pick("overlap")
        self._write_commit(live.index, when)
        live.begin(self.weights, self.rng, self.params.slots)

    def _write_commit(self, index: int, when: str = "idle") -> None:
        idle, background = when == "idle" or self.faulty > 0, when == "in background"
        self.epoch = (self.epoch + self.rng.choice((0, 1, 1, 2))) & 0xFFFF_FFFF
        self.add(Do.COMMIT, region=index, value=self.epoch, idle=idle, background=background)

    def close(self, live: LiveRegion) -> None:
        """Append a write of CTRL.CLOSE of a region, so that the rest of its contributions are
        late.
        """
        loaded = live.overlap == "loaded"  # else requests in flight have too many orders
        background = loaded and self.rng.random() < 0.5
        name = f"REGION[{live.number}].CTRL"
        self.add(Do.SET, name=name, value=1, idle=not loaded, background=background)

    # -- stream -------------------------------------------------------------------------------
    def step(self) -> None:
        """Append the next operation, or a few related ones, by the knob "action"."""
        before = len(self.out)
        action = self.pick("action")
        live = self._next_region()
        if action not in ("contribute", "read", "commit", "close"):
            self._device_step(action, live)
        elif live is not None:
            self._region_step(action, live)
        if self.faulty:
            self._careful(before)

    def _region_step(self, action: str, live: LiveRegion) -> None:
        if action == "commit" or (action == "contribute" and not self._contribute(live)):
            self.commit(live)
        elif action == "read":
            self.read(live)
        elif action == "close":
            self.close(live)

    def _device_step(self, action: str, live: LiveRegion | None) -> None:
        steps: dict[str, Callable[[], object]] = {
            "plain write": lambda: self.plain(write=True),
            "plain read": lambda: self.plain(write=False),
            "odd opcode": lambda: self.odd_opcode(live),
            "odd address": lambda: self.odd_address(live),
            "register": lambda: self.out.extend(self.registers(self.live)),
            "wait": lambda: self.add(Do.WAIT, value=self.rng.choice((1, 5, 20, 100))),
            "drain": lambda: self.add(Do.DRAIN, idle=True),
            "memory": lambda: self.add(Do.MEMORY, memory=self.memory()),
            "faults": self._faults,
        }
        steps[action]()

    def _next_region(self) -> LiveRegion | None:
        """Return the region that the next operation is for, or None without regions.

        A region is served for a burst of operations, by the knob "burst".
        """
        if not self.turn and self.live:
            length = {"1": 1, "2..4": self.rng.randint(2, 4), "5..16": self.rng.randint(5, 16)}
            count = length[self.pick("burst")]
            self.turn = [self.rng.choice(self.live)] * count
        return self.turn.pop() if self.turn else None

    def _contribute(self, live: LiveRegion) -> bool:
        """Append a contribution, or a closing read; return False if the work of the epoch is
        done.
        """
        if live.config.mode is Mode.IDENTITY:
            self.identity(live)
            return self.rng.random() < 0.97
        if live.work:
            self.contribute(live, *live.work.popleft())
        elif live.closing:
            self.closing_read(live, live.closing.popleft())
        else:
            return False
        return True

    # -- errors of the memory -----------------------------------------------------------------
    def _faults(self) -> None:
        """Append an operation that makes memory fail, unless a phase with errors is under way."""
        if self.faulty:
            return
        faults = self.faults(self.live, self.pool)
        if faults is not None:
            self.out.append(faults)
            self.faulty = self.rng.randint(10, 30)
            self.by_rate = faults.read_error_rate + faults.write_error_rate > 0

    def _careful(self, before: int) -> None:
        """Serialize the operations from index `before` on while memory fails, and end that phase in
        time.

        Which of two racing requests met the error is micro-architecture. With an error rate, one
        request per line may be in flight; else each waits until all are answered.
        """
        for index in range(before, len(self.out)):
            one = self.out[index]
            if one.do is not Do.FAULTS:
                alone = not self.by_rate or one.do not in (Do.WRITE, Do.READ)
                self.out[index] = replace(one, idle=alone, limit=1, background=False)
        self.faulty -= 1
        if not self.faulty:
            self.add(Do.FAULTS, idle=True)
            for live in self.live:  # what was lost ends with the epoch: requests may race again
                self._write_commit(live.index)
                live.begin(self.weights, self.rng, self.params.slots)

    def end(self) -> None:
        """Append a last read of up to 8 lines of each aggregating region, and end long
        initialisations.

        A region of more than LONG lines is committed again with one line.
        """
        self.add(Do.FAULTS, idle=True)
        before = len(self.out)
        aggregating = [live for live in self.live if live.config.mode is not Mode.IDENTITY]
        for live in aggregating:
            for line in live.lines[:8]:
                self.closing_read(live, line)
        if self.faulty:
            self.out[before:] = [replace(one, limit=1) for one in self.out[before:]]
        for live in aggregating:
            if live.config.lines > LONG:
                small = replace(live.config, mode=Mode.G_BINARY, lines_log2=0, workers=1)
                self._write_commit(self.descriptor(live.number, small))

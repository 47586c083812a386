# SPDX-License-Identifier: Apache-2.0
"""Generator of scenarios: regions, then a stream of operations, drawn by the weights of the
knobs.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cocotbext.cxl.wire.messages import ReqOp
from models.commit_check import check_commit
from models.line_packing import GATED, Mode
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
    CommitCode,
    RegionConfig,
    planes_kept,
    record_lines,
    records,
    state_lines,
    sum_selectors,
)
from verif.scenario.line_values import lines_of, with_illegal_codes
from verif.scenario.scenario_data import Do, Link, Memory, Operation, Region, Scenario
from verif.scenario.weights import Weights
from verif.scoreboard.register_predictor import COUNTERS
from verif.sequences.line_data import line_for, random_line

# A committed region while a scenario is drawn: lines of its epoch, their data, open work.

HUGE = 1 << 12
"""Lines of a region beyond which nothing is contributed: to initialise more takes too long."""
LIMITS = {"after": 0, "racing": 5, "loaded": 2, "single": 1}
"""Requests in flight on a line, by the choice of the knob "overlap"; 0: any number. The scoreboard
tries all orders of racing requests, so few of them may race with reads or with a commit."""


@dataclass
class LiveRegion:
    """Committed region while a scenario is drawn.

    `index`: its descriptor in the scenario; `work`: (worker, line) still to be contributed.
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
        """Return the number of requests that may be in flight on a line."""
        limit = LIMITS[self.overlap]
        return limit if self.config.mode.low_bit else min(limit, LIMITS["loaded"] + 1)

    @property
    def may_move(self) -> bool:
        """Return False if the data that the region leaves in memory may be one of several."""
        return self.config.mode.low_bit or not self.raced

    def write_limit(self, line: int) -> int:
        """Return the limit of requests in flight for a contribution: few may queue after a read."""
        return LIMITS["loaded"] if not self.limit and line in self.read else self.limit

    def read_limit(self, line: int) -> int:
        """Return the limit of requests in flight for a read: 1 if contributions have no limit."""
        self.read.add(line)
        return self.limit or 1

    def begin(self, weights: Weights, rng: random.Random, slots: int) -> None:
        """Draw the work of a new epoch."""
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
        """Return the data of a worker for a line; draw it together with that of all other
        workers.
        """
        rows = self.data.get(line)
        if rows is None:
            knob = "values_fp32" if self.config.mode is Mode.FP32 else "values"
            numbers = np.random.default_rng(rng.getrandbits(64))
            rows = self.data[line] = lines_of(self.config, weights.pick(rng, knob), numbers)
        return rows[worker]


def _lines(lines: int, weights: Weights, rng: random.Random, slots: int) -> list[int]:
    """Draw the lines of a region that an epoch uses.

    In a huge region they are low, because an eviction waits until the initialiser has passed its
    line.
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


# Draws what surrounds the device: behaviour of memory and link, and errors of the memory.

_LATENCIES = {"1..3": (1, 3), "2..12": (2, 12), "2..40": (2, 40), "100..300": (100, 300)}
_SHARES = {"few": 0.1, "half": 0.5, "all": 1.0}


def draw_memory(weights: Weights, rng: random.Random) -> Memory:
    """Draw latency, stalls and order of the memory."""
    low, high = _LATENCIES[weights.pick(rng, "latency")]
    first = rng.randint(low, high)
    most = {"none": 0.0, "some": 0.3, "heavy": 0.8}[weights.pick(rng, "stalls")]
    aw, w, ar, b, r = (
        round(rng.uniform(0, most), 2) if rng.random() < 0.7 else 0.0 for _ in range(5)
    )
    order = weights.pick(rng, "memory_order")
    return Memory(
        (first, rng.randint(first, high)),
        *(aw, w, ar, b, r),
        reorder=order != "in order",
        interleave=order == "interleaved",
    )


def draw_link(weights: Weights, rng: random.Random) -> Link:
    """Draw packing, gaps, back-pressure and credits of the host."""
    gaps = {"none": 0.0, "some": 0.2, "many": 0.6}[weights.pick(rng, "host_gaps")]
    ready = {"always": 1.0, "often": 0.8, "seldom": 0.3}[weights.pick(rng, "ready")]
    credits = weights.pick(rng, "credits")
    few = credits != "many"
    grants = {"many": (64, 64), "few": (rng.randint(3, 16), rng.randint(3, 8)), "two": (2, 2)}
    plain, data = grants[credits]
    return Link(
        dense=weights.pick(rng, "packing") == "dense",
        empty_weight=rng.choice((0.2, 0.6, 1.5)),
        idle_rate=gaps,
        idle_flit_rate=rng.choice((0.0, 0.1)),
        ready_rate=ready,
        ready_hold=(1, rng.choice((1, 4, 12))),
        grant_plain=plain,
        grant_data=data,
        return_delay=(0, rng.choice((0, 20, 40))) if few else (0, 0),
        return_batch=rng.choice((1, 2)) if credits == "few" else 1,
        ak_in_headers=rng.random() < 0.8,
        credits_in_headers=rng.random() < 0.8,
    )


def draw_faults(
    weights: Weights,
    rng: random.Random,
    hardware: DeviceParams,
    live: Sequence[LiveRegion],
    pool: Sequence[int],
) -> Operation | None:
    """Draw memory lines that fail from now on and lines to be poisoned; return None if the place
    does not exist.
    """
    cnt_w = hardware.cnt_w
    place, kind = weights.pick(rng, "fault_place"), weights.pick(rng, "fault_kind")
    if place == "any access":
        rate = {"few": 0.02, "half": 0.05, "all": 0.1}[weights.pick(rng, "fault_rate")]
        write = rate / 2 if kind == "write error" else 0.0
        read = 0.0 if write else rate
        return Operation(Do.FAULTS, idle=True, read_error_rate=read, write_error_rate=write)
    areas = [
        range(one.config.state_line, one.config.state_line + state_lines(one.config, cnt_w))
        for one in live
    ]
    lines = [line for line in pool if not any(line in area for area in areas)]
    lines = lines if place == "plain" else []
    for one in live:
        config, used = one.config, one.lines[:16]
        if place == "IDENTITY" and config.mode is Mode.IDENTITY:
            lines += [config.state_line + s * config.lines + i for s in range(4) for i in used]
        elif place == "FP32 data" and config.mode is Mode.FP32:
            workers = range(config.workers)
            lines += [config.state_line + w * config.lines + i for w in workers for i in used]
        elif place == "records" and config.mode is Mode.FP32:
            first, distance = records(config, cnt_w)
            lines += [first + distance * i + rng.randrange(distance) for i in used]
        elif place == "records" and config.mode.low_bit:
            size = record_lines(config.most, cnt_w)
            beats = 1 + planes_kept(config.most, cnt_w)
            beat = rng.choice((0, rng.randrange(beats)))
            lines += [config.state_line + i * size + beat for i in used]
    rate = _SHARES[weights.pick(rng, "fault_rate")]
    bad = tuple(line for line in lines[:200] if rng.random() < rate)
    if not bad:
        return None
    return Operation(
        Do.FAULTS,
        idle=True,
        read_errors=bad if kind == "read error" else (),
        write_errors=bad if kind == "write error" else (),
        poisoned=bad if kind == "poison" and place != "records" else (),
        spoilt=bad if kind == "poison" and place == "records" else (),
    )


# Draws register accesses: reads of everything that is compared, and writes that change what the
# device does while traffic runs.

_STATUS = ("STATUS", "DONE", "FALLBACK", "ERR_INFO", "IRQ_STATUS", "LINK_STATE", "ERR_ADDR_LO")
_LEAVES = ("STATUS", "COMPLETE_LINES", "EPOCH")


def register_operations(
    weights: Weights, rng: random.Random, hardware: DeviceParams, live: Sequence[LiveRegion]
) -> list[Operation]:
    """Draw a register access, or a few related ones, by the knob "register"."""
    kind = weights.pick(rng, "register")
    idle, background = rng.random() < 0.4, rng.random() < 0.3

    def write(name: str, value: int, wait: bool = False) -> Operation:
        return Operation(
            Do.SET, name=name, value=value, idle=wait, background=background and not wait
        )

    def get(name: str) -> Operation:
        return Operation(Do.GET, name=name, idle=idle, background=background and not idle)

    if kind in ("status", "counter"):
        return [get(rng.choice(_STATUS if kind == "status" else COUNTERS))]
    if kind == "region":
        number = rng.choice(live).number if live else rng.randrange(hardware.regions)
        return [get(f"REGION[{number}].{rng.choice(_LEAVES)}")]
    if kind == "irq enable":
        return [write("IRQ_ENABLE", rng.getrandbits(7))]
    if kind == "irq clear":
        return [write("IRQ_STATUS", rng.getrandbits(7), idle), get("IRQ_STATUS")]
    if kind.startswith("clear counters"):
        return [Operation(Do.CLEAR, idle=kind.endswith("idle"))]
    if kind == "capacity":
        window = rng.choice((0, 1, 2, rng.randint(3, 255), 256, 300))
        threshold = rng.choice((0, 1, 2, rng.randint(3, 255), 256, max(0, window - 1), window))
        return [write("CAP_WINDOW", window), write("CAP_THRESHOLD", threshold & 0x1FF)]
    if kind == "devload":
        levels = [rng.choice((0, 1, 2, rng.randint(3, 255), 255)) for _ in range(3)]
        return [write("DEVLOAD_THRESHOLD", levels[2] << 16 | levels[1] << 8 | levels[0])]
    if kind == "multi header":
        return [write("CTRL.MULTI_HEADER", rng.getrandbits(1))]
    if kind == "fallback clear":
        return [write("FALLBACK", rng.getrandbits(hardware.regions), idle), get("FALLBACK")]
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


class RegionDraws:
    """Random descriptors for a device; `others`: those committed in other regions."""

    def __init__(self, params: DeviceParams, weights: Weights, rng: random.Random) -> None:
        self.params = params
        self.weights = weights
        self.rng = rng

    # -- whole descriptors --------------------------------------------------------------------
    def region(self, others: Sequence[RegionConfig]) -> RegionConfig | None:
        """Draw a legal descriptor; return None if the memory is used up."""
        for attempt in range(TRIES):
            mode = self.mode()
            workers = self.workers()
            log2 = self.lines_log2() if attempt < TRIES // 2 else self.rng.randrange(3)
            draft = RegionConfig(0, 0, log2, workers, mode, **self.options(workers))
            placed = self.place(draft, others)
            if placed is not None:
                return placed
        return None

    def place(self, draft: RegionConfig, others: Sequence[RegionConfig]) -> RegionConfig | None:
        """Place the descriptor at a legal window and state area."""
        for _ in range(TRIES):
            base = self._window(1 << (draft.lines_log2 + SELECTOR_BITS), others) % ADDRESS_LINES
            state = self._state(draft, others)
            if state is None:
                return None
            placed = replace(draft, base=base << 6, state_base=state << 6)
            if self.legal(placed, others):
                return placed
        return None

    def legal(self, config: RegionConfig, others: Sequence[RegionConfig]) -> bool:
        """Return whether a commit accepts the descriptor."""
        return check_commit(self.params, config, others) is CommitCode.OK

    # -- fields -------------------------------------------------------------------------------
    def mode(self) -> Mode:
        """Draw the mode; in a device with G_TERN5, half of the ternary regions get that mode."""
        mode = Mode[self.weights.pick(self.rng, "mode")]
        if mode is Mode.G_TERNARY and self.params.tern5 and self.rng.random() < 0.5:
            return Mode.G_TERN5
        return mode

    def workers(self) -> int:
        """Draw W by its class."""
        rng, choice = self.rng, self.weights.pick(self.rng, "workers")
        near = {"2^k - 1": -1, "2^k": 0, "2^k + 1": 1}.get(choice)
        if near is not None:
            return min(MAX_WORKERS, max(1, (1 << rng.randint(1, 6)) + near))
        if choice == "4..16":
            return rng.randint(4, 16)
        return rng.randint(1, MAX_WORKERS) if choice == "any" else int(choice)

    def lines_log2(self) -> int:
        """Draw LINES_LOG2 by its class, limited by the memory."""
        low, high = _LINES[self.weights.pick(self.rng, "lines")]
        most = self.params.mem_lines_log2 - 1
        return self.rng.randint(min(low, most), min(high, most))

    def options(self, workers: int) -> dict[str, Any]:
        """Draw threshold, tie, strict, bind with its shift, sign, kept sums, and LD_MASK."""
        rng, pick = self.rng, self.weights.pick
        threshold = {
            "1": 1,
            "inside": rng.randint(1, workers),
            "W": workers,
            "above W": rng.randint(workers + 1, 254),
            "255": 255,
        }[pick(rng, "threshold")]
        mask = {
            "all": 0xFFFF,
            "some": rng.randrange(1, 0x10000),
            "one": 1 << rng.randrange(16),
        }[pick(rng, "ld_mask")]
        return {
            "threshold": threshold,
            "tie_minus": pick(rng, "tie") == "MINUS",
            "strict": self.weights.may(rng, "strict"),
            "bind": self.weights.may(rng, "bind"),
            "bind_shift": int(pick(rng, "bind_shift")),
            "keep_sum": self.weights.may(rng, "keep_sum"),
            "signed": rng.random() < 0.6,
            "ld_mask": mask,
        }

    # -- places -------------------------------------------------------------------------------
    def _window(self, size: int, others: Sequence[RegionConfig]) -> int:
        """Draw the first line of a window; the caller checks that it is free."""
        choice, memory = self.weights.pick(self.rng, "window"), self.params.mem_lines
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

    def _state(self, draft: RegionConfig, others: Sequence[RegionConfig]) -> int | None:
        """Draw the first line of a state area; return None if the area exceeds the memory."""
        size = state_lines(draft, self.params.cnt_w)
        align = record_lines(draft.most, self.params.cnt_w) if draft.mode.low_bit else 1
        last = self.params.mem_lines - size
        if last < 0:
            return None
        choice = self.weights.pick(self.rng, "state")
        start = self.rng.randint(0, last)
        if choice in ("memory start", "memory end"):
            start = 0 if choice == "memory start" else last
        elif choice == "beside another" and others:
            other = self.rng.choice(others)
            behind = other.state_line + state_lines(other, self.params.cnt_w)
            start = self.rng.choice((-(-behind // align) * align, other.state_line - size))
        return min(max(start, 0), last) // align * align

    # -- changes ------------------------------------------------------------------------------
    def changed(
        self, old: RegionConfig, what: str, others: Sequence[RegionConfig]
    ) -> RegionConfig | None:
        """Draw a legal descriptor that differs from `old` in `what` (knob "commit"), on the same
        area if that is legal.
        """
        for _ in range(TRIES):
            new = old
            if what == "options":
                new = replace(old, **self.options(old.workers))
            elif what == "workers":
                new = replace(old, workers=self.workers())
            elif what == "mode":
                new = replace(old, mode=self.mode())
            elif what == "size":
                new = replace(old, lines_log2=self.lines_log2())
            if what == "moved":
                return self.place(new, others)
            align = record_lines(new.most, self.params.cnt_w) if new.mode.low_bit else 1
            new = replace(
                new,
                base=new.base_line // new.window_lines * new.window_lines << 6,
                state_base=new.state_line // align * align << 6,
            )
            if self.legal(new, others):
                return new
        return None

    def refused(self, old: RegionConfig, others: Sequence[RegionConfig]) -> RegionConfig | None:
        """Draw a descriptor like `old` with one or two faults, which a commit must refuse."""
        for _ in range(TRIES):
            bad = old
            for _fault in range(self.rng.choice((1, 1, 2))):
                bad = self._spoilt(bad, others)
            if not self.legal(bad, others):
                return bad
        return None

    def _spoilt(self, config: RegionConfig, others: Sequence[RegionConfig]) -> RegionConfig:
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


class AccessDraws:
    """Random accesses, appended to `out`; `pool`: the lines of ordinary memory in use."""

    def __init__(
        self, params: DeviceParams, weights: Weights, rng: random.Random, out: list[Operation]
    ) -> None:
        self.params = params
        self.weights = weights
        self.rng = rng
        self.out = out
        self.live: Sequence[LiveRegion] = ()
        last = params.mem_lines - 1
        self.pool = [0, 1, last, *(rng.randint(0, last) for _ in range(9))]

    # -- who ----------------------------------------------------------------------------------
    def ldid(self, live: LiveRegion, worker: int | None = None) -> int:
        """Return an LD-ID that may access the line, if there is one."""
        config = live.config
        owner = 16 if worker is None else config.owner(worker)
        if config.bind and owner < 16 and config.ld_mask >> owner & 1:
            return owner
        return self.rng.choice([k for k in range(16) if config.ld_mask >> k & 1])

    def wrong_ldid(self, live: LiveRegion) -> int:
        """Return an LD-ID that may not access the region; any if all may."""
        return self.rng.choice(
            [k for k in range(16) if not live.config.ld_mask >> k & 1] or range(16)
        )

    # -- contributions ------------------------------------------------------------------------
    def contribute(self, live: LiveRegion, worker: int, line: int) -> None:
        """Add a contribution with one of the events of the knob "event"."""
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
        event = self.weights.pick(rng, "event")
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
        limit = min(operation.limit or PARTIAL_LIMIT, PARTIAL_LIMIT)
        return replace(operation, be=self.byte_enables(), limit=limit)

    def byte_enables(self) -> int:
        """Draw byte enables by the knob "byte_enables"."""
        rng = self.rng
        return {
            "none": 0,
            "one": 1 << rng.randrange(64),
            "all": (1 << 64) - 1,
            "half": ((1 << 32) - 1) << rng.choice((0, 32)),
            "mixed": rng.getrandbits(64),
        }[self.weights.pick(rng, "byte_enables")]

    # -- reads --------------------------------------------------------------------------------
    def read(self, live: LiveRegion, line: int | None = None) -> None:
        """Add a read of a line in use, with a selector class of the knob "read"."""
        rng, config = self.rng, live.config
        if line is None:
            line = rng.choice(live.lines)
            if config.lines > HUGE and rng.random() < 0.5:
                line = rng.randrange(config.lines)
        choice = self.weights.pick(rng, "read")
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
        elif config.mode is Mode.FP32:
            if choice in ("raw", "plane"):
                selector = RAW_SELECTOR + rng.randrange(config.workers)
        elif choice in ("plane", "raw"):
            selector = PLANE_SELECTOR + rng.randrange(PLANE_COUNT)
        self.out.append(
            Operation(
                Do.READ,
                region=live.index,
                selector=selector,
                line=line,
                ldid=ldid,
                opcode=int(rng.choice((ReqOp.MEM_RD, ReqOp.MEM_RD, ReqOp.MEM_RD_DATA))),
                limit=live.read_limit(line),
            )
        )

    def closing_read(self, live: LiveRegion, line: int) -> None:
        """Add a read of the result of a finished line, and perhaps of a second selector of it."""
        self.out.append(
            Operation(
                Do.READ,
                region=live.index,
                selector=self._result(live.config),
                line=line,
                ldid=self.ldid(live),
                limit=live.read_limit(line),
            )
        )
        if self.rng.random() < 0.5:
            self.read(live, line)

    def _result(self, config: RegionConfig) -> int:
        """Return a selector that reads the reduced data: of integer codes, any line of their
        sums.
        """
        return self.rng.choice(sum_selectors(config)) if config.mode.bits else 0

    def _forbidden(self, config: RegionConfig) -> int:
        legal = {INFO_SELECTOR, *VIEW_SELECTORS, *(sum_selectors(config) or {0})}
        if config.mode is Mode.FP32:
            legal |= {*range(RAW_SELECTOR, RAW_SELECTOR + config.workers)}
        else:
            legal |= {*range(PLANE_SELECTOR, PLANE_SELECTOR + PLANE_COUNT)}
        edges = [n for n in range(SELECTORS) if n not in legal and {n - 1, n + 1} & legal]
        if self.rng.random() < 0.5:
            return self.rng.choice(edges)
        return self.rng.choice([n for n in range(SELECTORS) if n not in legal])

    # -- memory -------------------------------------------------------------------------------
    def _identity_selector(self) -> int:
        return self.rng.choice((0, 1, 127, 128, 255, self.rng.randrange(256)))

    def identity(self, live: LiveRegion) -> None:
        """Add a read or write of an IDENTITY region."""
        rng, config = self.rng, live.config
        if rng.random() < 0.4:
            self.read(live)
            return
        selector = self._identity_selector()
        bound = config.bind and rng.random() < 0.8
        self._memory_write(
            Operation(
                Do.WRITE,
                region=live.index,
                selector=rng.randrange(16 << config.bind_shift) if bound else selector,
                line=rng.choice(live.lines),
                ldid=self.ldid(live),
                data=random_line(rng).hex(),
                limit=live.limit or PARTIAL_LIMIT,
            )
        )

    def _memory_write(self, operation: Operation) -> None:
        event = self.weights.pick(self.rng, "event")
        if event in ("poison", "resend after poison"):
            operation = replace(operation, poison=True)
        if event == "partial" or self.rng.random() < 0.2:
            operation = self._partial(operation)
        self.out.append(operation)

    def plain(self, write: bool) -> None:
        """Add an access to a line that is, or was, ordinary memory."""
        rng = self.rng
        line, ldid = rng.choice(self.pool), rng.randrange(16)
        # What races on a line that a region may claim, and leave again, cannot be judged later.
        limit = 1 if line in self.pool[:3] else PARTIAL_LIMIT
        if write:
            data = random_line(rng).hex()
            self._memory_write(
                Operation(Do.WRITE, addr=line << 6, ldid=ldid, data=data, limit=limit)
            )
        else:
            self.out.append(Operation(Do.READ, addr=line << 6, ldid=ldid, limit=limit))

    # -- what must be refused -----------------------------------------------------------------
    def odd_opcode(self, live: LiveRegion | None) -> None:
        """Add a request with an opcode that is not a read."""
        rng = self.rng
        where = Operation(Do.REQUEST, addr=rng.choice(self.pool) << 6)
        if live is not None and rng.random() < 0.5:
            where = Operation(Do.REQUEST, region=live.index, line=rng.choice(live.lines))
        self.out.append(
            replace(where, opcode=rng.choice(_ODD_OPCODES), ldid=rng.randrange(16), limit=1)
        )

    def odd_address(self, live: LiveRegion | None) -> None:
        """Add an access next to a window or a state area, with one address bit changed, or outside
        all of them.
        """
        rng = self.rng
        edges = [self.params.mem_lines, self.params.mem_lines - 1]
        if live is not None:
            config = live.config
            size = state_lines(config, self.params.cnt_w)
            state = config.state_line
            edges += [state, state + size - 1, state + size, max(0, state - 1)]
            edges += [config.base_line - 1, config.base_line + config.window_lines]
            edges += [config.base_line ^ 1 << rng.randrange(46) for _ in range(6)]
        addr = (rng.choice(edges) << 6) % (1 << 52)
        ldid = rng.randrange(16)
        if rng.random() < 0.5:
            self.out.append(Operation(Do.READ, addr=addr, ldid=ldid, limit=1))
        else:
            data = random_line(rng).hex()
            self.out.append(Operation(Do.WRITE, addr=addr, ldid=ldid, data=data, limit=1))


LONG = 1 << 8
"""Lines of a region whose area is given up at the end: to initialise more takes too long."""
OPERATIONS = 220
"""Operations of a scenario at scale 1."""


def generate(
    seed: int, hardware: DeviceParams, weights: Weights, operations: int = OPERATIONS
) -> Scenario:
    """Generate the scenario of a seed; equal arguments give equal scenarios."""
    return _Generator(seed, hardware, weights, operations).scenario()


class _Generator:
    def __init__(self, seed: int, hardware: DeviceParams, weights: Weights, count: int) -> None:
        self.seed = seed
        self.hw = hardware
        self.weights = weights
        self.count = count
        self.rng = rng = random.Random(f"scenario {seed}")
        self.draws = RegionDraws(hardware, weights, rng)
        self.regions: list[Region] = []
        self.live: list[LiveRegion] = []
        self.out: list[Operation] = []
        self.access = AccessDraws(self.hw, weights, rng, self.out)
        self.epoch = rng.getrandbits(32)
        self.turn: list[LiveRegion] = []
        self.faulty = 0
        """Operations that are left of a phase with errors of the memory."""
        self.by_rate = False

    def scenario(self) -> Scenario:
        rng, weights = self.rng, self.weights
        memory, link = draw_memory(weights, rng), draw_link(weights, rng)
        background = weights.pick(rng, "background")
        numbers = rng.sample(range(self.hw.regions), self._region_count())
        for number in numbers:
            self.first_commit(number)
        self.access.live = self.live
        while len(self.out) < self.count:
            self.step()
        self.end()
        return Scenario(
            seed=self.seed,
            hardware=self.hw,
            regions=tuple(self.regions),
            operations=tuple(self.out),
            memory=memory,
            link=link,
            background=background,
        )

    def _region_count(self) -> int:
        count = {"1": 1, "2": 2, "3..4": self.rng.randint(3, 4), "all": self.hw.regions}
        return min(self.hw.regions, count[self.weights.pick(self.rng, "regions")])

    # -- commits ------------------------------------------------------------------------------
    def others(self, number: int) -> list[RegionConfig]:
        """Return the descriptors that are committed in other regions."""
        return [live.config for live in self.live if live.number != number]

    def add(self, number: int, config: RegionConfig) -> int:
        """Add a descriptor to the scenario and return its index."""
        self.regions.append(Region(number, config))
        return len(self.regions) - 1

    def next_epoch(self) -> int:
        self.epoch = (self.epoch + self.rng.choice((0, 1, 1, 2))) & 0xFFFF_FFFF
        return self.epoch

    def first_commit(self, number: int) -> None:
        config = self.draws.region(self.others(number))
        if config is None:
            return
        overlap = self.weights.pick(self.rng, "overlap")
        live = LiveRegion(self.add(number, config), number, config, overlap)
        live.begin(self.weights, self.rng, self.hw.slots)
        self.live.append(live)
        self.out.append(Operation(Do.COMMIT, region=live.index, value=self.next_epoch(), idle=True))

    def commit(self, live: LiveRegion) -> None:
        """Commit a region in use, by the knob "commit"."""
        rng = self.rng
        what = self.weights.pick(rng, "commit")
        when = self.weights.pick(rng, "commit_when")
        if live.overlap != "loaded":  # too many orders of what is in flight
            when = "idle"
        others = self.others(live.number)
        new = live.config
        if what == "refused":
            bad = self.draws.refused(live.config, others)
            if bad is not None:
                index = self.add(live.number, bad)
                self._write_commit(index, "idle")
            return
        if what == "options" or (what != "same" and live.may_move):
            new = self.draws.changed(live.config, what, others) or live.config
        if new != live.config:
            live.config = new
            live.index = self.add(live.number, new)
            live.overlap = self.weights.pick(rng, "overlap")
        self._write_commit(live.index, when)
        live.begin(self.weights, rng, self.hw.slots)

    def _write_commit(self, index: int, when: str) -> None:
        idle, background = when == "idle" or self.faulty > 0, when == "in background"
        value = self.next_epoch()
        self.out.append(
            Operation(Do.COMMIT, region=index, value=value, idle=idle, background=background)
        )

    def close(self, live: LiveRegion) -> None:
        """Close the round of a region, so that the rest of its work is late."""
        self.out.append(
            Operation(
                Do.SET,
                name=f"REGION[{live.number}].CTRL",
                value=1,
                idle=live.overlap != "loaded",  # else too many orders of what is in flight
                background=live.overlap == "loaded" and self.rng.random() < 0.5,
            )
        )

    # -- stream -------------------------------------------------------------------------------
    def step(self) -> None:
        """Add the next operation, or a few related ones."""
        before = len(self.out)
        action = self.weights.pick(self.rng, "action")
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
            self.access.read(live)
        elif action == "close":
            self.close(live)

    def _device_step(self, action: str, live: LiveRegion | None) -> None:
        rng, weights, out = self.rng, self.weights, self.out
        if action in ("plain write", "plain read"):
            self.access.plain(write=action == "plain write")
        elif action == "odd opcode":
            self.access.odd_opcode(live)
        elif action == "odd address":
            self.access.odd_address(live)
        elif action == "register":
            out.extend(register_operations(weights, rng, self.hw, self.live))
        elif action == "wait":
            out.append(Operation(Do.WAIT, value=rng.choice((1, 5, 20, 100))))
        elif action == "drain":
            out.append(Operation(Do.DRAIN, idle=True))
        elif action == "memory":
            out.append(Operation(Do.MEMORY, memory=draw_memory(weights, rng)))
        elif action == "faults" and not self.faulty:
            self._faults()

    def _next_region(self) -> LiveRegion | None:
        """Return the region to be served next; regions are served in bursts."""
        if not self.turn and self.live:
            length = {"1": 1, "2..4": self.rng.randint(2, 4), "5..16": self.rng.randint(5, 16)}
            count = length[self.weights.pick(self.rng, "burst")]
            self.turn = [self.rng.choice(self.live)] * count
        return self.turn.pop() if self.turn else None

    def _contribute(self, live: LiveRegion) -> bool:
        """Add a contribution or a closing read; return False if the work of the epoch is done."""
        if live.config.mode is Mode.IDENTITY:
            self.access.identity(live)
            return self.rng.random() < 0.97
        if live.work:
            self.access.contribute(live, *live.work.popleft())
            return True
        if live.closing:
            self.access.closing_read(live, live.closing.popleft())
            return True
        return False

    # -- errors of the memory -----------------------------------------------------------------
    def _faults(self) -> None:
        faults = draw_faults(self.weights, self.rng, self.hw, self.live, self.access.pool)
        if faults is not None:
            self.out.append(faults)
            self.faulty = self.rng.randint(10, 30)
            self.by_rate = faults.read_error_rate + faults.write_error_rate > 0

    def _careful(self, before: int) -> None:
        """Serialize requests while memory fails.

        Which of two racing requests met the error is micro-architecture. With an error rate, one
        request per line may be in flight.
        """
        for index in range(before, len(self.out)):
            one = self.out[index]
            if one.do is not Do.FAULTS:
                alone = not self.by_rate or one.do not in (Do.WRITE, Do.READ)
                self.out[index] = replace(one, idle=alone, limit=1, background=False)
        self.faulty -= 1
        if not self.faulty:
            self.out.append(Operation(Do.FAULTS, idle=True))
            for live in self.live:  # what was lost ends with the epoch: requests may race again
                self._write_commit(live.index, "idle")
                live.begin(self.weights, self.rng, self.hw.slots)

    def end(self) -> None:
        """Read every line once more, and give up areas that take long to initialise."""
        self.out.append(Operation(Do.FAULTS, idle=True))
        before = len(self.out)
        for live in self.live:
            if live.config.mode is not Mode.IDENTITY:
                for line in live.lines[:8]:
                    self.access.closing_read(live, line)
        if self.faulty:
            self.out[before:] = [replace(one, limit=1) for one in self.out[before:]]
        for live in self.live:
            if live.config.lines > LONG and live.config.mode is not Mode.IDENTITY:
                small = replace(live.config, mode=Mode.G_BINARY, lines_log2=0, workers=1)
                index = self.add(live.number, small)
                self.out.append(
                    Operation(Do.COMMIT, region=index, value=self.next_epoch(), idle=True)
                )

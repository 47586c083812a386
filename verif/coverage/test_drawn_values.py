# SPDX-License-Identifier: Apache-2.0
"""Drawn lines for the cover points of values, against a plain statement of each element.

The points count with numpy over a whole line; the statement looks at one element after another.
"""

import struct
from collections import Counter
from fractions import Fraction
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cocotbext.cxl.wire.messages import BE_ALL, M2SRwD, RwdOp
from models.access_decode import Access, Cause, Kind
from models.aggregated_line import AggregatedLine
from models.commit_check import CommitCode
from models.modes import Mode
from models.regions import RegionConfig
from models.register_map import REG_MAP
from verif.coverage.coverage_plan import Judged, class_of, codes
from verif.coverage.engine_points import (
    CountPoints,
    EnginePoints,
    Fp32Points,
    IntPoints,
    Tern5Points,
)
from verif.coverage.test_drawn_link import MODEL, Hits, Sampled, counted, named
from verif.coverage.transaction_points import be_kind, threshold_class, workers_class
from verif.scoreboard.operations import Op

WORKERS = (1, 2, 3, 4, 5, 8, 9)
ZEROS, ONES = bytes(64), b"\xff" * 64


def wanted(*names: tuple[str, ...]) -> Hits:
    """Return hits of bins: each name with its point and the values on the axes, once."""
    return counted(Counter({(point, " x ".join(values)): 1 for point, *values in names}))


def config_of(rng: Random, mode: Mode) -> RegionConfig:
    return RegionConfig(
        1 << 40,
        0,
        2,
        rng.choice(WORKERS),
        mode,
        threshold=rng.choice((1, 2, 3, 4, 5, 200, 255)),
        tie_minus=rng.random() < 0.5,
        strict=rng.random() < 0.5,
        signed=rng.random() < 0.5,
    )


def cells(data: bytes, width: int) -> list[int]:
    """Return the elements of a line."""
    value = int.from_bytes(data, "little")
    return [value >> at & (1 << width) - 1 for at in range(0, 512, width)]


def line_of(rng: Random, *usual: int) -> bytes:
    """Return a drawn line; bytes of `usual` are frequent, and fill whole lines."""
    what = rng.random()
    if what < 0.4:
        return bytes([rng.choice(usual)]) * 64
    if what < 0.7:
        return bytes(rng.choice(usual) for _ in range(64))
    if what < 0.8:
        return bytes(63) + bytes([rng.choice(usual)])
    return rng.randbytes(64)


def test_classes_of_workers_and_thresholds() -> None:
    powers = (4, 8, 16, 32)
    for workers in range(1, 65):
        found = "even" if workers % 2 == 0 else "odd"
        for power in powers:
            near = {power - 1: "2^k-1", power: "2^k", power + 1: "2^k+1"}
            found = near.get(workers, found)
        fixed = {1, 2, 3, 63, 64}
        assert workers_class(workers) == (str(workers) if workers in fixed else found)
        for threshold in range(1, 256):
            below = threshold < workers
            kind = "3..W-1" if below else "W+1..64" if threshold <= 64 else "65..254"
            kind = "W" if threshold == workers else kind
            kind = str(threshold) if threshold in (1, 2, 255) else kind
            assert threshold_class(threshold, workers) == kind
    kinds = {0: "none", BE_ALL: "all", 1: "one", 1 << 63: "one", 3: "mixed", BE_ALL - 1: "mixed"}
    assert {be: be_kind(be) for be in kinds} == kinds


@pytest.mark.parametrize(
    "name", ["LINES", "CLOCKS", "INT_WORKERS", "WORKER_LINES", "ACKS", "REPLAYS"]
)
def test_classes_of_numbers(name: str) -> None:
    for value in range(1, 65 if name == "INT_WORKERS" else 300):
        assert class_of(name, value) == named(value, name)


@pytest.mark.parametrize("mode", [Mode.G_BINARY, Mode.G_TERNARY])
def test_drawn_votes(mode: Mode) -> None:
    rng = Random(1)
    points = CountPoints(MODEL)
    sampled = Sampled(points)
    usual = (0, 255, 0xAA, 0xFF, 0x55) if mode is Mode.G_TERNARY else (0, 255, 1)
    for step in range(150):
        config = config_of(rng, mode)
        m = rng.randrange(config.workers + 1)
        line = AggregatedLine({worker: line_of(rng, *usual) for worker in range(m)})
        if not m:  # an epoch without contributions: the counts say nothing
            points.result(config, SimpleNamespace(contributions=[0]))  # type: ignore[arg-type]
            assert sampled.look() == {}
            continue
        points.result(config, line.reduced(config, 255))
        state = majority if mode is Mode.G_BINARY else nets
        assert sampled.look() == state(config, [*line.data.values()]), (step, config)


def majority(config: RegionConfig, lines: list[bytes]) -> Hits:
    m = len(lines)
    counts = {sum(1 - bit for bit in bits) for bits in zip(*(cells(one, 1) for one in lines))}
    places = {
        "0": 0,
        "1": 1,
        "m-1": m - 1,
        "m": m,
        "half-1": max(count for count in range(m) if 2 * count < m),
        "half+1": min(count for count in range(m + 1) if 2 * count > m),
    }
    if m % 2 == 0:
        places["half"] = m // 2
    parity, tie = "odd" if m % 2 else "even", "MINUS" if config.tie_minus else "PLUS"
    seen = "all" if m == config.workers else "part"
    found = [
        ("majority", name, parity, tie, seen) for name, count in places.items() if count in counts
    ]
    signs = {m: "G_BINARY +", 0: "G_BINARY -"}
    alone = [("unanimous line", signs[one]) for one in counts if one in signs and len(counts) == 1]
    return wanted(*found, *alone)


def net_hits(point: str, config: RegionConfig, m: int, nets: set[int]) -> list[tuple[str, ...]]:
    t = config.threshold
    places = {"min": -m, "-T-1": -t - 1, "-T": -t, "-T+1": -t + 1, "0": 0}
    places |= {"T-1": t - 1, "T": t, "T+1": t + 1, "max": m}
    kind = threshold_class(t, config.workers)
    return [(point, name, kind) for name, net in places.items() if net in nets]


def nets(config: RegionConfig, lines: list[bytes]) -> Hits:
    m = len(lines)
    pairs = {
        (sum(one == 2 for one in votes), sum(one == 3 for one in votes))
        for votes in zip(*(cells(one, 2) for one in lines))
    }
    names = {"some": range(m + 1), "m-1": (m - 1,), "1": (1,), "0": (0,), "m": (m,)}
    share = {count: name for name, counts in names.items() for count in counts}
    found = net_hits("net", config, m, {plus - minus for plus, minus in pairs})
    found += {("plus and minus", share[plus], share[minus]) for plus, minus in pairs}
    signs = {m: "G_TERNARY +", -m: "G_TERNARY -", 0: "G_TERNARY 0"}
    alone = {plus - minus for plus, minus in pairs}
    if len(alone) == 1:
        found += [("unanimous line", signs[net]) for net in alone if net in signs]
    return wanted(*found)


def test_drawn_planes() -> None:
    points = CountPoints(MODEL)
    sampled = Sampled(points)
    contents = {
        ZEROS: "zeros",
        ONES: "ones",
        b"\x01" + bytes(63): "mixed",
        ONES[1:] + b"\x7f": "mixed",
    }
    for plane, (data, content) in enumerate(contents.items()):
        points.plane(Mode.G_TERNARY, plane, data)
        assert sampled.look() == wanted(("plane content", "G_TERNARY", str(plane), content))


# FP32: every addition with exact fractions.

PATTERNS = (
    *(0, 1, 2, 0x7FFFFF, 0x400000, 0x800000, 0x800001, 0xFFFFFF, 0x1000000, 0x1000001),
    *(0x3F800000, 0x3F800001, 0x3FFFFFFF, 0x3F7FFFFF, 0x33800000, 0x33800001, 0x34000000),
    *(0x33000000, 0x33FFFFFF, 0x34400000, 0x40000000, 0x7F000000, 0x7EFFFFFF, 0x7F7FFFFF),
    *(0x73000000, 0x73800000, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0x41200000),
)


def number(bits: int) -> np.float32:
    return np.array([bits], np.uint32).view(np.float32)[0]


def pattern(bits: int) -> str:
    """Return the class of an operand."""
    sign, exponent, fraction = bits >> 31, bits >> 23 & 255, bits & 0x7FFFFF
    if exponent == 255:
        return "nan" if fraction else "-inf" if sign else "+inf"
    if exponent == 0:
        return "subnormal" if fraction else "-0" if sign else "0"
    return "huge" if exponent == 254 else "normal"


def addition(a: int, b: int) -> tuple[int, list[tuple[str, ...]]]:
    """Return the sum of two FP32 bit patterns, and the bins of the addition."""
    with np.errstate(all="ignore"):
        total = int(np.array([number(a) + number(b)], np.float32).view(np.uint32)[0])
    one, two, three = pattern(a), pattern(b), pattern(total)
    size = total & 0x7FFFFFFF
    finite = {"subnormal", "normal", "huge"}
    zeros = {"0", "-0"}
    results = {
        "exact zero of two that cancel": three in zeros and not {one, two} <= zeros,
        "+0 of two zeros": {one, two} <= zeros and three == "0",
        "-0 of two zeros": {one, two} <= zeros and three == "-0",
        "overflow to infinity": three in ("+inf", "-inf") and {one, two} <= finite | zeros,
        "largest number": size == 0x7F7FFFFF and {one, two} <= finite | zeros,
        "infinity stays": three in ("+inf", "-inf") and bool({one, two} & {"+inf", "-inf"}),
        "infinities that cancel": three == "nan" and "nan" not in (one, two),
        "NaN stays": three == "nan" and "nan" in (one, two),
        "two subnormals give a subnormal": three == one == two == "subnormal",
        "two subnormals give a normal": one == two == "subnormal" and three == "normal",
        "normals give a subnormal": three == "subnormal" and {one, two} <= {"normal", "huge"},
        "smallest normal": size == 0x800000,
    }
    hits: list[tuple[str, ...]] = [
        ("FP32 results", name) for name, is_so in results.items() if is_so
    ]
    hits.append(("FP32 operands", one, two))
    if {one, two} <= finite and three in finite | zeros:
        hits.append(("FP32 rounding", rounding(a, b, total), carry(a, b, total)))
    return total, hits


def carry(a: int, b: int, total: int) -> str:
    largest = max(a >> 23 & 255, b >> 23 & 255)
    exponent = total >> 23 & 255
    if exponent > largest:
        return "carry out"
    return {largest: "none", largest - 1: "cancels 1 bit"}.get(exponent, "cancels more")


def rounding(a: int, b: int, total: int) -> str:
    exact = abs(Fraction(float(number(a))) + Fraction(float(number(b))))
    size = total & 0x7FFFFFFF
    value = Fraction(float(number(size)))
    if value == exact:
        return "exact"
    below = size - 1 if value > exact else size  # the neighbours: bit patterns are in order
    low = Fraction(float(number(below)))
    part = (exact - low) / Fraction(2) ** (
        max(below >> 23, 1) - 150
    )  # of the place of its last bit
    if part == Fraction(1, 2):
        return "tie, to even below" if below == size else "tie, to even above"
    return "guard 0, sticky 1" if part < Fraction(1, 2) else "guard 1, sticky 1"


def test_drawn_additions() -> None:
    rng = Random(2)
    points = Fp32Points(MODEL)
    sampled = Sampled(points)
    total: Hits = Counter()
    for _ in range(60):
        lines = [
            [rng.choice(PATTERNS) | rng.randrange(2) << 31 for _ in range(16)]
            if rng.random() < 0.7
            else [0x3F000000 + rng.getrandbits(25) | rng.randrange(2) << 31 for _ in range(16)]
            for _ in range(rng.randrange(5))
        ]
        points.sum(struct.pack("<16I", *line) for line in lines)
        for column in zip(*lines):
            partial = column[0]
            for bits in column[1:]:
                partial, hits = addition(partial, bits)
                total.update((point, " x ".join(values)) for point, *values in hits)
    points.flush()
    assert sampled.look() == counted(total)
    points.flush()
    assert sampled.look() == {}


def test_4096_additions_are_classified_at_once() -> None:
    points = Fp32Points(MODEL)
    sampled = Sampled(points)
    for _ in range(2):
        for count in range(1, 257):
            points.sum([ZEROS, ZEROS])
            found = sampled.look()["FP32 operands", "0 x 0"]
            assert found == (4096 if count == 256 else 0)


# Operations on lines.


def judged(
    config: RegionConfig,
    kind: Kind,
    selector: int,
    before: AggregatedLine,
    key: tuple[int, int] = (0, 0),
    **message: Any,
) -> Judged:
    """Return a judged operation; a contribution is added to the line after it."""
    region, line = key
    access = Access(kind, kind is Kind.CONTRIBUTION, line, region=region, selector=selector)
    after = before.copy()
    msg: Any = None
    if kind is Kind.CONTRIBUTION:
        msg = M2SRwD(message.pop("op", RwdOp.MEM_WR), 0, 0, **message)
        if not msg.poison:
            after.data.setdefault(selector, msg.data)
    return Judged(Op(msg, 0, access, read=msg is None), config, before, after, False, False)


def line_before(rng: Random, config: RegionConfig, *usual: int) -> AggregatedLine:
    """Return a line with contributions of drawn workers; it may be poisoned, or lost."""
    workers = rng.sample(range(config.workers), rng.randrange(config.workers + 1))
    line = AggregatedLine({worker: line_of(rng, *usual) for worker in workers})
    line.poisoned = rng.random() < 0.3
    line.lost = line.poisoned and rng.random() < 0.4
    return line


def seen_of(line: AggregatedLine, config: RegionConfig) -> str:
    return "all" if len(line.data) == config.workers else "some" if line.data else "none"


INTS = {Mode.G_INT4: 4, Mode.G_INT8: 8}


@pytest.mark.parametrize("mode", INTS)
def test_drawn_integer_lines(mode: Mode) -> None:
    rng = Random(3)
    points = IntPoints(MODEL)
    sampled = Sampled(points)
    bits = INTS[mode]
    for step in range(300):
        config = config_of(rng, mode)
        sign = "signed" if config.signed else "unsigned"
        lowest = 1 << bits - 1 if config.signed else 0
        highest = (1 << bits - 1) - 1 if config.signed else (1 << bits) - 1
        ends = [one * (17 if bits == 4 else 1) for one in (lowest, highest)]
        before = line_before(rng, config, 0, *ends, 1)
        if rng.random() < 0.5:
            data = line_of(rng, 0, *ends, *ends, 1)
            worker = rng.randrange(config.workers)
            one = judged(config, Kind.CONTRIBUTION, worker, before, data=data, poison=step % 9 == 0)
            points.judged(one)
            values = cells(one.after.data.get(worker, b""), bits)
            name = codes_name(values, lowest, highest)
            hits = [("integer codes", mode.name, sign, name)] if worker in one.after.data else []
            assert sampled.look() == wanted(*hits), (step, config)
            continue
        selector = rng.choice((8, 12, 15, 16, 17, 19, 31, 32, 33))
        view = "plane" if selector < 16 else "SUM16" if selector < 32 else "SUM8"
        points.judged(judged(config, Kind.SUM, selector, before))
        seen, mark = seen_of(before, config), "poisoned" if before.poisoned else "clean"
        found: list[tuple[str, ...]] = [("integer line", mode.name, view, seen, mark)]
        if view != "plane":
            found.append(("integer view line", mode.name, str(selector)))
        if seen == "all":
            workers = named(config.workers, "INT_WORKERS")
            found.append(("integer view", mode.name, sign, workers, view))
        assert sampled.look() == wanted(*found), (step, config)


def codes_name(values: list[int], lowest: int, highest: int) -> str:
    """Return the bin of the codes of a line, as unsigned numbers."""
    if set(values) == {lowest}:
        return "smallest"
    if set(values) == {0}:
        return "zeros"
    if set(values) == {highest}:
        return "largest"
    if set(values) == {lowest, highest}:
        return "both"
    return "one" if len(values) - values.count(0) == 1 else "any"


def test_integer_selectors_and_commits() -> None:
    points = IntPoints(MODEL)
    sampled = Sampled(points)
    named_ones = {0, 7, 15, 16, 17, 18, 19, 20, 32, 33, 34}
    for mode in INTS:
        for workers in (15, 16, 17):
            config = RegionConfig(0, 0, 0, workers, mode)
            sum8 = "SUM8" if mode is Mode.G_INT4 and workers < 17 else "none"
            for selector in range(36):
                for cause in Cause:
                    for read in (False, True):
                        access = Access(Kind.SUM, not read, 0, cause, 0, selector)
                        points.op(Op(None, 0, access, read=read), config)  # type: ignore[arg-type]
                        counts = cause in (Cause.NONE, Cause.SELECTOR) and selector in named_ones
                        hits = [("integer selector", mode.name, sum8, str(selector))]
                        assert sampled.look() == wanted(*(hits if counts and read else ()))
    for mode in Mode:
        for code in CommitCode:
            points.committed(RegionConfig(0, 0, 0, 2, mode), code)
            name = {
                CommitCode.MODE: f"MODE {mode.value}",
                CommitCode.PLANES: f"PLANES {mode.name}" if mode in INTS else "",
            }.get(code)
            assert sampled.look() == wanted(*([("integer commit", name)] if name else ()))


def test_drawn_packed_lines() -> None:
    rng = Random(4)
    points = Tern5Points(MODEL)
    sampled = Sampled(points)
    for step in range(300):
        config = config_of(rng, Mode.G_TERN5)
        legal = (0, 1, 121, 241, 242)
        before = line_before(rng, config, *legal)
        worker = rng.randrange(config.workers)
        if rng.random() < 0.6:
            data = line_of(rng, *legal, 243, 244, 254, 255)
            poison = rng.random() < 0.3
            one = judged(config, Kind.CONTRIBUTION, worker, before, data=data, poison=poison)
            points.judged(one)
            assert sampled.look() == packed(one, data, worker in before.data, poison), step
            continue
        kind = rng.choice((Kind.RESULT, Kind.PLANE))
        points.judged(judged(config, kind, 0, before))
        view = "vote" if kind is Kind.RESULT else "plane"
        mark = "poisoned" if before.poisoned else "clean"
        hits: list[tuple[str, ...]] = [("G_TERN5 line", view, seen_of(before, config), mark)]
        if view == "vote" and before.data:
            trits = (
                [(0, 1, -1)[byte // 3**place % 3] for byte in data for place in range(5)]
                for data in before.data.values()
            )
            sums = {sum(votes) for votes in zip(*trits)}
            hits += net_hits("G_TERN5 net", config, len(before.data), sums)
        assert sampled.look() == wanted(*hits), step


def packed(one: Judged, data: bytes, again: bool, poison: bool) -> Hits:
    """Return the hits of a contribution of bytes with five elements each."""
    illegal = 5 * sum(byte > 242 for byte in data)
    hits: list[tuple[str, ...]] = []
    if illegal:
        name = str(illegal) if illegal in (5, 320) else "some"
        mark = "duplicate" if again else "poisoned" if poison else "new"
        hits.append(("G_TERN5 illegal elements", name, mark))
    if not again and not poison:
        hits.append(("G_TERN5 workers", workers_class(one.config.workers)))
        own = {0: "0", 242: "242", 243: "243", 255: "255"}
        names = {own.get(byte, "1..241" if byte < 242 else "244..254") for byte in data}
        found = counted_bytes(data)
        return wanted(*hits) + Counter({("G_TERN5 byte", name): found[name] for name in names})
    return wanted(*hits)


def counted_bytes(data: bytes) -> Counter[str]:
    """Return the number of different bytes of a line in each bin."""
    own = {0: "0", 242: "242", 243: "243", 255: "255"}
    return Counter(own.get(byte, "1..241" if byte < 242 else "244..254") for byte in set(data))


def test_refused_commits_of_packed_regions() -> None:
    points = Tern5Points(MODEL)
    sampled = Sampled(points)
    config = RegionConfig(0, 0, 0, 2, Mode.G_TERN5)
    for code in CommitCode:
        points.committed(config, code)
        hits = [("G_TERN5 refused", code.name)] if code.name in ("MODE", "PLANES") else []
        assert sampled.look() == wanted(*hits)


READS = {Kind.RESULT: "result", Kind.PLANE: "part", Kind.RAW: "part", Kind.SUM: "result"}


def test_drawn_operations() -> None:
    """Check operations on a few lines of two regions, with write-backs and commits between."""
    rng = Random(6)
    points = EnginePoints(MODEL)
    sampled = Sampled(points)
    configs = [config_of(rng, mode) for mode in (Mode.G_TERNARY, Mode.FP32, Mode.G_BINARY)]
    places: dict[tuple[int, int], str] = {}
    for step in range(900):
        region, line = rng.randrange(3), rng.randrange(2)
        config, key = configs[region], (region, line)
        what = rng.random()
        if what < 0.1:
            points.write_back(region, line)
            places[key] = "fetched"
        elif what < 0.14:
            configs[region] = config_of(rng, config.mode)
            points.committed(region)
            places = {one: place for one, place in places.items() if one[0] != region}
        else:
            one = operation(rng, config, key)
            place = places.get(key, "never left")
            if place == "fetched":
                places[key] = "back"
            # What counts is the line before: the one after is another in all respects.
            one.after = AggregatedLine(poisoned=not one.before.poisoned, lost=not one.before.lost)
            points.judged(one)
            assert sampled.look() == operated(one, place), (step, one)
        assert sampled.look() == {}


def operation(rng: Random, config: RegionConfig, key: tuple[int, int]) -> Judged:
    before = line_before(rng, config, 0, 0xAA, 0x55, 1)
    worker = rng.randrange(config.workers)
    if rng.random() < 0.6:
        old = before.data.get(worker)
        data = old if old and rng.random() < 0.5 else line_of(rng, 0, 0xAA, 0x55, 1)
        be = rng.choice((0, 1, 2, 3, BE_ALL, BE_ALL - 1))
        partial = config.mode is Mode.FP32 and rng.random() < 0.7
        more: dict[str, Any] = {"op": RwdOp.MEM_WR_PTL, "be": be} if partial else {}
        more |= {"data": data, "poison": rng.random() < 0.3}
        return judged(config, Kind.CONTRIBUTION, worker, before, key, **more)
    return judged(config, rng.choice([*READS]), worker, before, key)


def operated(one: Judged, place: str) -> Hits:
    """Return the hits of an operation on a line whose state is at a place."""
    config, before, mode = one.config, one.before, one.config.mode.name
    seen, kind = len(before.data), one.op.access.kind
    hits: list[tuple[str, ...]] = []
    if before.lost:
        hits.append(("lost line", mode, READS.get(kind, "write"), place))
    if kind is not Kind.CONTRIBUTION:
        if before.poisoned:
            hits.append(("poisoned line", mode, f"read {READS[kind]}", place))
        left = config.workers - seen
        if left:
            share = "none" if not seen else "all but one" if left == 1 else "some"
            strict = "STRICT" if config.strict else "lax"
            hits.append(("early read", mode, READS[kind], strict, share, place))
        return wanted(*hits)
    msg = one.op.msg
    assert isinstance(msg, M2SRwD)
    again, mark = one.op.access.selector in before.data, "poisoned" if msg.poison else "clean"
    if config.mode is Mode.FP32:
        size = {0: "none", 1: "one", 64: "all"}.get(msg.be.bit_count(), "mixed")
        size = size if msg.opcode == RwdOp.MEM_WR_PTL else "whole"
        hits.append(("FP32 store", "again" if again else "first", size, mark))
    else:
        illegal = cells(msg.data, 2).count(1) if config.mode is Mode.G_TERNARY else 0
        if illegal:
            name = str(illegal) if illegal in (1, 256) else "some"
            state = "duplicate" if again else "poisoned" if msg.poison else "new"
            hits.append(("illegal codes", name, state))
        if again:
            same = before.data[one.op.access.selector] == msg.data
            hits.append(("duplicate", mode, "same" if same else "other", mark, place))
    if msg.poison:
        if config.mode is Mode.FP32 or not again:
            order = "after clean" if seen else "first"
            hits.append(("poisoned line", mode, f"poisoned write {order}", place))
        return wanted(*hits)
    if before.poisoned and not again:
        hits.append(("poisoned line", mode, "clean write after poison", place))
    new = "last" if seen == config.workers - 1 else "middle" if seen else "first"
    which = "again" if again else new
    hits.append(("contribution", mode, workers_class(config.workers), which))
    return wanted(*hits)


def test_registers_of_the_engine() -> None:
    points = EnginePoints(MODEL)
    sampled = Sampled(points)
    slots = codes("COUNTERS")
    for name in REG_MAP.expand():
        for value in (0, 1, 6):
            points.register(name, value)
            hits: list[tuple[str, ...]] = [("slots", name)] if name in slots else []
            hits += (
                [("line events", name)]
                if name in (*("DUPLICATE", "ILLEGAL_CODE", "EARLY_READ"),)
                else []
            )
            if re_status(name) and REG_MAP.region_register("STATUS").unpack(value)["SATURATED"]:
                assert value
                hits.append(("line events", "SATURATED"))
            assert sampled.look() == wanted(*(hits if value else ()))
    saturated = REG_MAP.region_register("STATUS").pack(SATURATED=1)
    points.register("REGION[1].STATUS", saturated)
    points.register("STATUS", saturated)
    assert sampled.look() == {("line events", "SATURATED"): 1}


def re_status(name: str) -> bool:
    return name.startswith("REGION[") and name.endswith(".STATUS")

# SPDX-License-Identifier: Apache-2.0
"""Drawn requests, commits and register accesses for the cover points of transactions and regions,
against a plain statement of what each must hit.
"""

import dataclasses
from random import Random

import pytest

from cocotbext.cxl.wire.messages import (
    BE_ALL,
    S2MDRS,
    S2MNDR,
    DevLoad,
    M2SMessage,
    M2SReq,
    M2SRwD,
    ReqOp,
    RwdOp,
)
from models.access_decode import Access, Cause, Kind
from models.aggregated_line import AggregatedLine
from models.commit_check import CommitCode
from models.control_window import REGION_LINE, ControlWindow, pack_line
from models.modes import Mode
from models.parameters import DeviceParams
from models.regions import STATUS_SELECTOR, RegionConfig, state_lines
from models.register_map import REG_MAP
from verif.axi import Resp
from verif.coverage.coverage_plan import Judged
from verif.coverage.region_points import CapacityPoints, EpochPoints, RegionPoints, ViewPoints
from verif.coverage.test_drawn_link import MODEL, Sampled, named
from verif.coverage.test_drawn_values import wanted
from verif.coverage.transaction_points import (
    ControlPoints,
    MemoryPortPoints,
    TransactionPoints,
    threshold_class,
)
from verif.mem.memory_config import FULL_STROBE, MemBeat
from verif.scoreboard.memory_port import Record
from verif.scoreboard.operations import Op
from verif.scoreboard.pending import Commit

Names = list[tuple[str, ...]]
OWN = (Mode.G_INT4, Mode.G_INT8, Mode.G_TERN5)
"""Modes whose cover points are separate."""
COMMON = (Mode.IDENTITY, Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32)
PARAMS = DeviceParams(mem_lines_log2=16)


def draw_config(rng: Random, *modes: Mode) -> RegionConfig:
    return RegionConfig(
        rng.choice((1 << 40, 1 << 41)),
        rng.choice((0, 1 << 18)),
        rng.choice((0, 2, 3)),
        rng.choice((1, 2, 3, 8)),
        rng.choice(modes or tuple(Mode)),
        ld_mask=rng.choice((0, 1, 2, 3, 0xFFFF, 0x7FFF)),
        threshold=rng.choice((1, 2, 3, 100)),
        **{name: rng.random() < 0.4 for name in ("tie_minus", "strict", "bind", "keep_sum")},
        bind_shift=rng.choice((0, 1)),
    )


# Requests.


def draw_op(rng: Random, config: RegionConfig | None) -> Op:
    """Return a drawn request with its response; decoding and message need not fit."""
    line = rng.choice((*(0, 1, 2, 6), (1 << 12) - 1, 1 << 12, 4100, (1 << 16) - 1, 1 << 16))
    line += rng.choice((0, 0, 3, 4, 5, 8))
    ldid, read = rng.randrange(16), rng.random() < 0.5
    msg: M2SMessage
    if read:
        msg = M2SReq(rng.choice((*ReqOp, 12)), 0, 64 * line, ldid=ldid)
    else:
        be = rng.choice((0, 1, 3, BE_ALL, BE_ALL, 1 << 63))
        op = rng.choice((*RwdOp, *RwdOp, 9))
        msg = M2SRwD(op, 0, 64 * line, ldid=ldid, be=be, poison=rng.random() < 0.3)
    cause = rng.choice((Cause.NONE, Cause.NONE, *Cause))
    kind = Kind.REFUSED if cause is not Cause.NONE else rng.choice([*Kind])
    selector = None
    if config is not None:
        w = config.workers
        ends = (w - 1, w, 63 + w, 64 + w)
        selector = rng.choice((*ends, 0, 1, 7, 8, 10, 15, 16, 63, 64, 99, 255))
        selector = rng.choice((8, 9, 15)) if kind is Kind.PLANE else selector
    elif kind is Kind.PLANE:
        kind = Kind.MEMORY
    access = Access(kind, not read, 0, cause, None if config is None else 1, selector)
    one = Op(msg, 0, access, read=read)
    drs = S2MDRS(0, 0, data=bytes(64), poison=rng.random() < 0.5)
    one.response = rng.choice((drs, drs, S2MNDR(0, 0), None))
    one.overlapped, one.commit_raced = rng.random() < 0.3, rng.random() < 0.3
    return one


def area_of(config: RegionConfig) -> range:
    return range(config.state_line, config.state_line + state_lines(config, PARAMS.cnt_w))


def requested(op: Op, config: RegionConfig | None, configs: list[RegionConfig]) -> Names:
    """Return the names that an answered request hits; `configs`: those of all regions."""
    msg, access, way = op.msg, op.access, "read" if op.read else "write"
    known = {one: one.name for one in (*(ReqOp if op.read else RwdOp),)}
    name = known.get(msg.opcode, "reserved")  # type: ignore[call-overload]
    hits: Names = [("opcode", f"{'Req' if op.read else 'RwD'} {name}"), ("ldid", str(msg.ldid))]
    hits += decoded(op, name, config, configs)
    if access.cause is not Cause.NONE:
        return [*hits, ("refusal", f"{way} {access.cause.name}")]
    if access.kind in (Kind.NO_EFFECT, Kind.CONTROL):
        return hits
    mode = config.mode.name if config else "MEMORY"
    what = {
        Kind.PLANE: f"read plane {(access.selector or 8) - 8}",
        Kind.INFO: "read INFO",
        Kind.STATUS: "read STATUS",
        Kind.RESULT: "read result",
        Kind.RAW: "read raw",
        Kind.SUM: "read sum",
    }.get(access.kind, way)
    hits.append(("access", f"{what} {mode}"))
    if isinstance(msg, M2SRwD):
        if msg.poison:
            hits.append(("poison", f"write {mode}"))
        if msg.opcode == RwdOp.MEM_WR_PTL and mode in ("MEMORY", "IDENTITY", "FP32"):
            size = {0: "none", 1: "one", 64: "all"}.get(msg.be.bit_count(), "mixed")
            hits.append(("byte enables", f"{mode} {size}"))
    elif isinstance(op.response, S2MDRS) and op.response.poison:
        hits.append(("poison", f"read {mode}"))
    hits += [("race", f"{way} on line")] if op.overlapped else []
    hits += [("race", f"{way} with commit")] if op.commit_raced else []
    return hits


def decoded(op: Op, name: str, config: RegionConfig | None, configs: list[RegionConfig]) -> Names:
    access, line = op.access, op.msg.addr // 64
    if name not in ("MEM_RD", "MEM_RD_DATA", "MEM_WR", "MEM_WR_PTL"):
        place = "memory"
        if any(line in area_of(one) for one in configs):
            place = "state area"
        place = "unmapped" if line >= 1 << 16 else place
        kind = name if name != "reserved" else "Req reserved" if op.read else "RwD reserved"
        return [("other opcodes", kind, "window" if config else place)]
    if config is None:
        hits: Names = []
        for one in configs:
            area = area_of(one)
            edges = {"before": area[0] - 1, "first": area[0], "last": area[-1]}
            edges["behind"] = area[-1] + 1
            for edge, place_of in edges.items():
                if place_of == line and one.mode not in OWN:
                    way = "read" if op.read else "write"
                    hits.append(("state area edge", way, one.mode.name, edge))
        return hits
    if config.mode in OWN:
        return []
    mode, hits = config.mode.name, []
    refused = {Cause.LD_MASK: "LD_MASK", Cause.BIND: "BIND", Cause.NONE: "allowed"}
    if access.cause in refused:
        hits.append(("LD-ID allowed", name, mode, refused[access.cause]))
    if access.cause is not Cause.LD_MASK:
        w = config.workers
        fixed = (0, 7, 8, 15, 16, 63, 64, 255)
        edges = {**{str(at): at for at in fixed}, "W-1": w - 1, "W": w}
        edges |= {"64+W-1": 64 + w - 1, "64+W": 64 + w}
        named_ones = [edge for edge, at in edges.items() if at == access.selector]
        hits += [("selector edge", name, mode, edge) for edge in named_ones or ["others"]]
    return hits


def test_drawn_requests() -> None:
    rng = Random(1)
    points = TransactionPoints(MODEL)
    sampled = Sampled(points)
    for _ in range(60):
        states = rng.sample((0, 1 << 18, 1 << 20, 1 << 21), 3)
        configs: list[RegionConfig | None] = [
            dataclasses.replace(draw_config(rng, *Mode), state_base=state) for state in states
        ]
        configs[rng.randrange(3)] = None
        points.placed(configs, PARAMS)
        placed = [one for one in configs if one is not None]
        for _ in range(25):
            config = rng.choice((None, *placed))
            op = draw_op(rng, config)
            points.op(op, config)
            assert sampled.look() == wanted(*requested(op, config, placed)), op


def test_an_address_misses_a_window_by_one_bit() -> None:
    points = TransactionPoints(MODEL)
    sampled = Sampled(points)
    for lines_log2 in (0, 3):
        config = RegionConfig(5 << 40, 0, lines_log2, 2, Mode.FP32)
        for bit in range(6, 52):
            points.unmapped(config.base ^ 1 << bit, (None, config))
            first = lines_log2 + 14  # 64 bytes, 256 selectors
            assert sampled.look() == wanted(*([("window bit", str(bit))] if bit >= first else ()))
        for other in (config.base, config.base ^ 3 << 40, config.base ^ (1 << 45 | 1 << 20)):
            points.unmapped(other, (config,))
            assert sampled.look() == {}


# The control window.

OWNERS = (None, 3, 5)


def test_drawn_accesses_of_the_control_window() -> None:
    rng = Random(2)
    points = ControlPoints(MODEL)
    sampled = Sampled(points)
    window = ControlWindow(1 << 45, 1 << 9 | 1 << 2, OWNERS)
    by_name = {one: REG_MAP.region_register(one).address % 64 for one in ("EPOCH", "CTRL")}
    others = [at for at in range(0, 64, 4) if at not in by_name.values()]
    for step in range(1200):
        line = rng.choice((0, 1, 2, 15, 16, 17, 18, 19, 63))
        offsets = rng.choice((others, others[:1], [], [*range(0, 64, 4)], others[:4]))
        words = dict.fromkeys(offsets, 0)
        words |= {at: rng.choice((0, 1, 2, 3)) for at in by_name.values() if rng.random() < 0.5}
        data, be = pack_line(words) if words else (bytes(64), 0)
        whole = rng.random() < 0.1
        addr = window.base + 64 * rng.choice((line, line, 64))
        opcode = RwdOp.MEM_WR if whole else RwdOp.MEM_WR_PTL
        ldid, read, poison = rng.choice((2, 3, 5, 9, 8)), rng.random() < 0.3, rng.random() < 0.3
        msg: M2SMessage = M2SReq(ReqOp.MEM_RD, 0, addr, ldid=ldid)
        if not read:
            be = BE_ALL if whole else be
            msg = M2SRwD(opcode, 0, addr, ldid=ldid, data=data, be=be, poison=poison)
        kind = rng.choice((Kind.CONTROL, Kind.CONTROL, Kind.REFUSED, Kind.MEMORY))
        cause = rng.choice((Cause.PARTIAL, Cause.CONTROL, Cause.UNMAPPED))
        cause = Cause.PARTIAL if read else cause
        op = Op(msg, 0, Access(kind, not read, line, cause), read=read)
        op.windows = (window, window) if step % 7 == 0 else ()
        points.op(op, window)
        assert sampled.look() == wanted(*controlled(op, by_name)), op


def controlled(op: Op, by_name: dict[str, int]) -> Names:
    way, msg, access = "read" if op.read else "write", op.msg, op.access
    if op.windows:
        return [("control race", way)]
    if access.kind is Kind.REFUSED and msg.addr < (1 << 45) + 64 * 64:
        names = {Cause.PARTIAL: "part of a word"}
        if isinstance(msg, M2SRwD):
            names[Cause.CONTROL] = "poisoned" if msg.poison else "LD-ID"
        return [("control refusal", names[access.cause])] if access.cause in names else []
    if access.kind is not Kind.CONTROL:
        return []
    regions = {REGION_LINE + number: owner for number, owner in enumerate(OWNERS)}
    line = "region" if access.line in regions else "device" if access.line in (0, 1) else "none"
    who = "owner" if regions.get(access.line) == msg.ldid else "other"
    who = "manager" if msg.ldid in (2, 9) else who
    hits: Names = [("control access", way, line, who)]
    if not isinstance(msg, M2SRwD):
        return hits
    offsets = [at for at in range(0, 64, 4) if msg.be >> at & 15]
    size = {0: "none", 1: "one", 16: "MemWrPtl all"}.get(len(offsets), "several")
    whole = msg.opcode == RwdOp.MEM_WR
    hits.append(("control words", "MemWr" if whole else size))
    if line == "region":
        commits = by_name["EPOCH"] in offsets
        closes = by_name["CTRL"] in offsets and msg.data[by_name["CTRL"]] & 1
        what = "EPOCH and CLOSE" if commits and closes else "CLOSE" if closes else "neither"
        if commits and not closes:
            what = "EPOCH" if len(offsets) == 1 else "line and EPOCH"
        hits.append(("control commit", what))
    return hits


@pytest.mark.parametrize("first", ["AXI4-Lite", "window"])
@pytest.mark.parametrize("last", ["AXI4-Lite", "window"])
def test_races_of_commits(first: str, last: str) -> None:
    points = ControlPoints(MODEL)
    sampled = Sampled(points)
    one, two = (RegionConfig(1 << 40, 0, 2, workers, Mode.FP32) for workers in (2, 3))
    for changes in (False, True):
        for closing in ("", "first", "last"):
            pair = [
                Commit(one, 1, 0, in_band=way == "window", before=one, after=one, closes=is_close)
                for way, is_close in ((first, closing == "first"), (last, closing == "last"))
            ]
            if changes:
                pair[0 if first == "window" else 1].after = two
            points.raced(*pair)
            name = ("control commit race", last, "another" if changes else "the same")
            if closing:
                order = "CLOSE" if closing == "last" else "commit"
                name = ("control close race", last if closing == "last" else first, order)
            assert sampled.look() == wanted(name)


def test_moves_of_the_control_window() -> None:
    points = ControlPoints(MODEL)
    sampled = Sampled(points)
    register = REG_MAP.expand()["CTRL_WINDOW_LO"]
    for code in CommitCode:
        for name in ("CTRL_WINDOW_LO", "CTRL_WINDOW_HI"):
            for write in (False, True):
                points.register(name, register.pack(CODE=code), write)
                counts = name == "CTRL_WINDOW_LO" and not write
                assert sampled.look() == wanted(*([("control place", code.name)] * counts))


# Beats on the memory port.


def test_drawn_beats() -> None:
    rng = Random(3)
    points = MemoryPortPoints(MODEL)
    sampled = Sampled(points)
    for _ in range(800):
        write, resp, poison = rng.random() < 0.5, rng.choice([*Resp]), rng.random() < 0.4
        strobe = rng.choice((FULL_STROBE, FULL_STROBE - 1, 0)) if write else 0
        clocks, answered = rng.randrange(70), rng.random() < 0.5
        beat = MemBeat(write, 0, 0, 0, strobe, poison, resp, answered, clocks)
        mode = rng.choice((None, *Mode))
        record = Record(0, 0, rng.randrange(9), Mode.FP32, 0) if rng.random() < 0.7 else None
        points.beat(beat, "plane", record, mode)
        way, error = "write" if write else "read", resp in (Resp.SLVERR, Resp.DECERR)
        hits: Names = []
        if answered:
            hits.append(("memory latency", f"{way} plane", named(clocks, "CLOCKS")))
        kind = resp.name if error else "poison" if poison else ""
        if kind:
            hits.append(("memory side-band", f"{way} plane {kind}"))
            if record and mode in (Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32) and not write:
                part = f"plane {record.beat - 1}" if record.beat else "bookkeeping"
                hits.append(("record error", mode.name, part, kind))
        if error:
            hits.append(("memory", f"{way} error"))
        elif write:
            hits.append(("memory", "write full" if strobe == FULL_STROBE else "write partial"))
            hits += [("memory", "write poison")] * poison
        else:
            hits.append(("memory", "read poison" if poison else "read"))
        assert sampled.look() == wanted(*hits), beat


# Regions: commits and lines.


def draw_judged(rng: Random, config: RegionConfig, *kinds: Kind) -> Judged:
    kind = rng.choice(kinds)
    before, after = (
        AggregatedLine(
            dict.fromkeys(rng.sample(range(config.workers), held), bytes(64)),
            poisoned=rng.random() < 0.4,
            lost=rng.random() < 0.4,
            counted_complete=rng.random() < 0.5,
            saturated=rng.random() < 0.5,
            illegal=rng.random() < 0.5,
        )
        for held in (rng.randrange(config.workers + 1), rng.randrange(config.workers + 1))
    )
    selector = rng.randrange(config.workers)
    write = kind is Kind.CONTRIBUTION
    access = Access(kind, write, 0, region=rng.randrange(4), selector=selector)
    msg: M2SMessage = M2SReq(ReqOp.MEM_RD, 0, 0)
    if write:
        msg = M2SRwD(RwdOp.MEM_WR, 0, 0, poison=rng.random() < 0.4)
    op = Op(msg, 0, access, read=not write)
    op.overlapped, op.commit_raced = rng.random() < 0.4, rng.random() < 0.4
    return Judged(op, config, before, after, rng.random() < 0.5, rng.random() < 0.5)


LINES = (Kind.CONTRIBUTION, Kind.CONTRIBUTION, Kind.RESULT, Kind.PLANE, Kind.RAW)


def test_drawn_lines_of_regions() -> None:
    rng = Random(4)
    points = RegionPoints(MODEL)
    sampled = Sampled(points)
    for _ in range(500):
        one = draw_judged(rng, draw_config(rng, *COMMON[1:]), *LINES)
        points.judged(one)
        mode, before, after = one.config.mode.name, one.before, one.after
        events = [
            {
                Kind.CONTRIBUTION: f"write {mode}",
                Kind.RESULT: f"result {mode}",
                Kind.PLANE: "plane",
                Kind.RAW: "raw",
            }[one.op.access.kind]
        ]
        if one.op.access.kind is Kind.CONTRIBUTION:
            events += ["poisoned"] * (after.poisoned > before.poisoned)
            events += ["illegal code"] * (after.illegal > before.illegal)
            if after.counted_complete > before.counted_complete:
                events += ["line complete", "DONE"] if one.done else ["line complete"]
        elif len(before.data) != one.config.workers:
            events.append("early")
        region = str(one.op.access.region)
        assert sampled.look() == wanted(*(("region number", region, name) for name in events))


def test_requests_of_regions() -> None:
    points = RegionPoints(MODEL)
    sampled = Sampled(points)
    shown = ("LD_MASK", "SELECTOR", "BIND", "PARTIAL")
    for region in (None, 0, 3):
        for kind in Kind:
            for cause in Cause:
                for write in (False, True):
                    access = Access(kind, write, 0, cause, region)
                    points.op(Op(M2SReq(ReqOp.MEM_RD, 0, 0), 0, access))
                    name = f"refused {cause.name}" if cause.name in shown else ""
                    if not name and kind is Kind.IDENTITY:
                        name = "write IDENTITY" if write else "read IDENTITY"
                    hits = (
                        [("region number", str(region), name)]
                        if name and region is not None
                        else []
                    )
                    assert sampled.look() == wanted(*hits)
    for code in CommitCode:
        points.committed(2, code)
        name = "commit" if code is CommitCode.OK else "commit refused"
        assert sampled.look() == wanted(("region number", "2", name))
    for place in ("initialiser", "eviction"):
        for write in (False, True):
            points.record(1, place, write)
            name = "initialised" if place == "initialiser" else "write-back"
            assert sampled.look() == wanted(("region number", "1", name if write else "fetched"))


def test_drawn_commits() -> None:
    """Check commits of two regions against the accepted one before, and what a line finds then."""
    rng = Random(5)
    points = EpochPoints(MODEL)
    sampled = Sampled(points)
    old: dict[int, tuple[RegionConfig, int]] = {}
    found: dict[int, str] = {}
    shape = ("workers", "lines_log2", "mode", "base", "state_base")
    names = ("W", "lines", "mode", "window moved", "area moved")
    for step in range(900):
        region = rng.randrange(2)
        config = draw_config(rng, *(rng.choice((COMMON, OWN))))
        if region in old and rng.random() < 0.8:
            new, config = config, old[region][0]
            for name in rng.sample((*shape, "strict", "ld_mask"), rng.choice((0, 1, 1, 2))):
                config = dataclasses.replace(config, **{name: getattr(new, name)})
        number = old[region][1] if region in old else 0
        epoch = rng.choice((number, (number + 1) % 2**32, (number + 2) % 2**32, 0, 2**32 - 1, 7))
        code, busy = rng.choice((0, 0, 0, *CommitCode)), rng.random() < 0.5
        points.committed(region, config, epoch, code, busy)
        hits: Names = [("commit", CommitCode(code).name, "committed" if region in old else "none")]
        if not code:
            before = old.get(region, (None, None))
            hits += accepted(config, epoch, *before)
            hits.append(("commit traffic", "busy" if busy else "quiet"))
            last = before[0]
            changed = [
                text
                for field, text in zip(shape, names, strict=True)
                if last is not None and getattr(last, field) != getattr(config, field)
            ]
            change = "several" if len(changed) > 1 else (changed or ["options"])[0]
            change = "first" if last is None else "same" if last == config else change
            if config.mode not in OWN:
                hits.append(("commit change", change, config.mode.name))
            if last is None or last.state_base != config.state_base:
                found[region] = "new area"
            else:
                kept = {*changed} <= {"window moved"}
                found[region] = "older round" if kept else "other shape"
            old[region] = config, epoch
        assert sampled.look() == wanted(*hits), (step, config)
        if region in old:
            one = draw_judged(rng, config, *LINES)
            one.op.access = dataclasses.replace(one.op.access, region=region)
            points.judged(one)
            what = {Kind.CONTRIBUTION: "write", Kind.RESULT: "result"}
            first = ("first touch", config.mode.name, found[region])
            hits = [(*first, what.get(one.op.access.kind, "part"))]
            touched = one.before.data or one.before.poisoned
            assert sampled.look() == wanted(*(() if touched else hits))


def accepted(
    config: RegionConfig, epoch: int, old: RegionConfig | None, number: int | None
) -> Names:
    """Return the names that an accepted commit hits, but for those of what it changes."""
    name = "other" if number is None else {number: "same", number + 1: "next"}.get(epoch, "other")
    name = {0: "0", 2**32 - 1: "2^32-1"}.get(epoch, name)
    hits: Names = [("epoch number", name)]
    for option in ("tie_minus", "strict", "bind", "keep_sum"):
        hits.append(("options", f"{option} {'1' if getattr(config, option) else '0'}"))
    if config.mode is Mode.G_TERNARY:
        hits.append(("threshold", threshold_class(config.threshold, config.workers)))
    mode = config.mode.name
    if config.mode not in OWN:
        who = {0: "none", 1: "one", 16: "all"}.get(bin(config.ld_mask).count("1"), "some")
        hits.append(("lines", mode, named(config.lines_log2, "LINES")))
        hits.append(("LD mask", mode, who, "BIND" if config.bind else "free"))
        if config.mode is not Mode.IDENTITY:
            hits.append(("workers", mode, str(config.workers)))
    return hits


# Views.


def test_drawn_views() -> None:
    rng = Random(6)
    points = ViewPoints(MODEL)
    sampled = Sampled(points)
    reads = {Kind.RESULT: "result", Kind.SUM: "result", Kind.PLANE: "part", Kind.RAW: "part"}
    reads[Kind.INFO] = "INFO"
    for _ in range(900):
        one = draw_judged(rng, draw_config(rng, *Mode), Kind.CONTRIBUTION, Kind.INFO, *reads)
        points.judged(one)
        op, before, mode, hits = one.op, one.before, one.config.mode.name, list[tuple[str, ...]]()
        left = one.config.workers - len(before.data)
        line = "complete" if not left else "some" if before.data else "untouched"
        if one.closed and isinstance(op.msg, M2SRwD):
            worker = "seen" if op.access.selector in before.data else "new"
            data = "poisoned" if op.msg.poison else "clean"
            hits.append(("late write", mode, worker, data, line))
        elif one.closed:
            strict = "STRICT" if one.config.strict else "lax"
            hits.append(("final read", mode, reads[op.access.kind], strict, line))
        if op.access.kind is Kind.INFO:
            votes = one.config.mode in (Mode.G_BINARY, Mode.G_TERNARY)
            flags = {
                "complete": not left and not before.lost,
                "poisoned": before.poisoned,
                "lost": before.lost,
                "saturated": before.saturated and votes,
                "closed": one.closed,
            }
            hits += [("INFO", mode, name, "1" if is_so else "0") for name, is_so in flags.items()]
            race = "with commit" if op.commit_raced else "racing" if op.overlapped else "alone"
            hits.append(("INFO race", race))
        assert sampled.look() == wanted(*hits), one
    for busy in (False, True):
        points.closed(busy)
        assert sampled.look() == wanted(("close", "busy" if busy else "quiet"))


def test_drawn_writes_of_bound_workers() -> None:
    rng = Random(7)
    points = ViewPoints(MODEL)
    sampled = Sampled(points)
    for _ in range(700):
        config = rng.choice((None, draw_config(rng)))
        op = draw_op(rng, config)
        access = dataclasses.replace(op.access, selector=rng.randrange(8))
        access = dataclasses.replace(
            access, kind=rng.choice((Kind.CONTRIBUTION, Kind.IDENTITY, access.kind))
        )
        op.access, op.msg = access, dataclasses.replace(op.msg, ldid=rng.randrange(4))
        points.op(op, config)
        hits: Names = []
        writes = access.kind in (Kind.CONTRIBUTION, Kind.IDENTITY) or access.cause is Cause.BIND
        if config is not None and config.bind and not op.read and writes:
            owner = access.selector // (2 if config.bind_shift else 1)
            who = "unshifted" if op.msg.ldid == access.selector else "other"
            who = "owner" if op.msg.ldid == owner else who
            hits.append(("bind shift", str(config.bind_shift), who))
        assert sampled.look() == wanted(*hits), op


def test_words_of_status() -> None:
    points = ViewPoints(MODEL)
    sampled = Sampled(points)
    figures = ("complete lines", "done", "FALLBACK", "refused", "late", "poisoned lines")
    for exact in (False, True):
        when = "quiet" if exact else "racing"
        words = [9, 0, 1, 2, 0, 0, 3, *([0] * 9)]
        access = Access(Kind.STATUS, False, 0, region=0, selector=STATUS_SELECTOR)
        points.status(Op(M2SReq(ReqOp.MEM_RD, 0, 0), 0, access), words, exact)
        values = ("0", "more", "more", "0", "0", "more")
        hits = [("STATUS", *pair, when) for pair in zip(figures, values, strict=True)]
        assert sampled.look() == wanted(*hits)
        access = dataclasses.replace(access, selector=STATUS_SELECTOR + 2)
        points.status(Op(M2SReq(ReqOp.MEM_RD, 0, 0), 0, access), [0, 1, 255, 256, 0], exact)
        found, point = sampled.look(), "worker lines"
        names = {"0": 2, "1..255": 2, "256..": 1}
        wanted_words = {(point, f"{access.selector} x {name}"): n for name, n in names.items()}
        assert found == wanted_words


# Capacity.


def test_drawn_loads() -> None:
    rng = Random(8)
    points = CapacityPoints(MODEL)
    sampled = Sampled(points)
    last = ""
    for _ in range(60):
        load = rng.choice([*DevLoad])
        access = Access(Kind.MEMORY, True, 0)
        op = Op(M2SReq(ReqOp.MEM_RD, 0, 0), 0, access, response=S2MNDR(0, 0, devload=load))
        points.op(op)
        hits = [("devload", load.name)] + ([("devload change", last, load.name)] if last else [])
        assert sampled.look() == wanted(*hits)
        last = load.name
        op.response = None
        points.op(op)
        assert sampled.look() == {}


@pytest.mark.parametrize(
    ("name", "point", "fall"),
    [("FALLBACK", "fallback", "cleared"), ("DONE", "done", "ended by a commit")],
)
def test_drawn_bits_of_regions(name: str, point: str, fall: str) -> None:
    rng = Random(9)
    points = CapacityPoints(MODEL)
    sampled = Sampled(points)
    old, ever = set[int](), set[int]()
    for step in range(200):
        new = {bit for bit in range(3) if rng.random() < 0.4}
        points.register(name, sum(1 << bit for bit in new))
        hits: Names = []
        if new - old:
            hits.append((point, "raised again" if ever & (new - old) else "raised"))
            hits += [(point, "raised beside another")] if len(new) > 1 else []
        hits += [(point, fall)] if old - new else []
        assert sampled.look() == wanted(*hits), step
        old, ever = new, ever | new
        if step == 100:  # the other register has other bits
            points.register("DONE" if name == "FALLBACK" else "FALLBACK", 7)
            sampled.look()


def test_drawn_interrupts_and_limits() -> None:
    rng = Random(10)
    points = CapacityPoints(MODEL)
    sampled = Sampled(points)
    registers = REG_MAP.expand()
    fields = [field.name for field in registers["IRQ_STATUS"].fields]
    enabled = 0
    limits = {name: registers[name].reset for name in ("CAP_WINDOW", "CAP_THRESHOLD")}
    for _ in range(600):
        name = rng.choice((*limits, "IRQ_ENABLE", "IRQ_STATUS", "DEVLOAD_THRESHOLD", "EPOCH"))
        hits: Names = []
        if name == "IRQ_STATUS":
            pending = {field: rng.randrange(2) for field in fields}
            points.register(name, registers[name].pack(**pending))
            masks = registers["IRQ_STATUS"].unpack(enabled)
            for field in (field for field in fields if pending[field]):
                hits.append(("interrupt", field, "enabled" if masks[field] else "masked"))
        elif name == "DEVLOAD_THRESHOLD":
            bounds = {f.name: rng.choice((0, 1, 2, 128, 129)) for f in registers[name].fields}
            points.written(name, registers[name].pack(**bounds))
            text = {0: "0", 1: "1", 2: "2..128", 128: "2..128", 129: "above 128"}
            hits = [("devload levels", level, text[bound]) for level, bound in bounds.items()]
        else:
            value = rng.choice((0, 1, 2, 3, 4, 254, 255, 256, 257, 258, 511, 512 + 4))
            points.written(name, value)
            if name == "IRQ_ENABLE":
                enabled = value
            if name in limits:
                limits[name] = value % 512
                hits.append(("capacity limits", *capacity(*limits.values())))
        assert sampled.look() == wanted(*hits), (name, limits)


def capacity(window: int, misses: int) -> tuple[str, str]:
    """Return the bins of a window and of the misses that fill it; 256 are remembered."""
    size = {0: "0", 1: "1", 2: "2", 256: "256"}.get(window, "3..255")
    size = "above 256" if window > 256 else size
    held = min(window, 256)
    if misses > held:
        return size, "above window"
    places = {0: "0", 1: "1", held - 1: "window - 1", held: "window"}
    return size, places.get(misses, "below window")

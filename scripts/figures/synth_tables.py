# SPDX-License-Identifier: Apache-2.0
"""Tables and followed figures of `nf figures synth`, of what was mapped, placed and routed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from scripts.build import yosys
from scripts.build.yosys import Mapped, flip_flops, luts, memory_bits
from scripts.figures import path_names, synth_goals
from scripts.figures.place_and_route import Route
from scripts.figures.result_file import Cell, Column, Table
from scripts.figures.synth_designs import (
    AGGREGATION,
    DATAPATH,
    DESIGNS,
    FP32,
    LOW_BIT,
    PARTS,
    PLAIN,
    SHARED,
    TARGETS,
    WHOLE,
)


def tables_of(target: str, found: Mapping[str, Mapped], clocks: Mapping[str, Route]) -> list[Table]:
    """Designs side by side; parts and modules of the whole; what aggregation adds."""
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
    """Columns of an area. A generic library has no LUTs, and nothing that a memory maps to."""
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
    """Why the clock is not faster."""
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
            modules.update(dict.fromkeys(path_names.explained(here.top, on_it)))
    notes = (
        "From register to register of a design alone: paths to and from its ports do not count. Of "
        "what lies between, the signals that the source has a name for.",
        *synth_goals.beside_slices(clocks),
        *modules,
    )
    return Table(
        f"Critical paths, {TARGETS[target]}, placed and routed",
        *(tuple(Column(name, 1) for name in columns), tuple(rows), notes),
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
            f"beside the {PLAIN} ({base:,} LUTs): the whole has {luts(whole) / base:.2f} times its "
            f"LUTs, the low-bit datapath adds {100 * low_bit / base:.0f} %"
        )
    return Table(
        f"Parts of the whole controller, {TARGETS[target]}",
        *(tuple(map(Column, ("part", *_heads(target)))), tuple(rows), tuple(told)),
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
        if mapped.depth:
            longest = f"{name}, {TARGETS[target]}: longest path, cells"
            out[longest] = max(mapped.depth.values())
    out.update((f"{name}, {TARGETS[target]}: Fmax, MHz", one.mhz) for name, one in clocks.items())
    return out

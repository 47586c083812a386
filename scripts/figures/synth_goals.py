# SPDX-License-Identifier: Apache-2.0
"""What area and clock of the low-bit datapath and of the engine are to reach, and whether they do.

A goal is so many times another figure: one of the same run, or a number that was told with the
goal. Whether it is met is worked out of what the run has measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scripts.figures.place_and_route import Route
from scripts.figures.result_file import Cell, Column, Table
from scripts.figures.synth_designs import (
    EARLIER,
    EARLIER_ENGINE,
    ENGINE,
    FIRST,
    FP32,
    LOW_BIT,
    NARROW_OF,
    TARGETS,
)


@dataclass(frozen=True)
class Goal:
    """``figure`` of a design and target is to be at most, or with ``at_least`` at least, ``times``
    that of ``against``, or so many times ``told``, which stood with the goal."""

    design: str
    target: str
    figure: str
    times: float
    against: str = ""
    told: float = 0.0
    at_least: bool = False

    @property
    def name(self) -> str:
        """The followed figure that is judged."""
        return f"{self.design}, {TARGETS[self.target]}: {self.figure}"

    @property
    def yardstick(self) -> str:
        """The followed figure that it is held against."""
        return f"{self.against}, {TARGETS[self.target]}: {self.figure}"


LUTS, FMAX = "LUTs", "Fmax, MHz"
_DATAPATH_MHZ = 60.0
"""The low-bit datapath of EARLIER, placed and routed, as the goal says; it had no integer sums."""
GOALS = (
    *(Goal(one, "ecp5", LUTS, 0.6, against=FP32) for one in (FIRST, LOW_BIT)),
    *(Goal(one, "ecp5", FMAX, 2.0, told=_DATAPATH_MHZ, at_least=True) for one in (FIRST, LOW_BIT)),
    Goal(ENGINE, "ecp5_short", FMAX, 2.0, against=EARLIER_ENGINE, at_least=True),
)


def goals(
    followed: Mapping[str, float], clocks: Mapping[tuple[str, str], Route]
) -> tuple[Table, ...]:
    """Those goals whose design was measured, each with its verdict, and what bounds a clock that
    misses its own; no table where there is none. ``clocks`` by design and target."""
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


def _verdict(goal: Goal, value: float, wanted: float | None) -> str:
    if wanted is None:
        return "open: what it is held against was not measured"
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


def beside_slices(clocks: Mapping[str, Route]) -> list[str]:
    """What a whole line costs over a slice of it, which has no wires across the part."""
    return [
        f"{clocks[narrow].mhz / clocks[whole].mhz:.2f} times as fast as {whole}: {narrow}. Wires "
        f"take {clocks[narrow].wires_ns:.1f} ns of its path, and {clocks[whole].wires_ns:.1f} ns "
        f"of the whole line's; cells {clocks[narrow].logic_ns:.1f} and "
        f"{clocks[whole].logic_ns:.1f} ns."
        for narrow, whole in NARROW_OF.items()
        if narrow in clocks and whole in clocks
    ]

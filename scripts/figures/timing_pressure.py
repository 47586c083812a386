# SPDX-License-Identifier: Apache-2.0
"""Full credits where the link or the memory port gets narrow: what bounds plain memory, by how many
clocks a mode misses it, and where these are spent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np

from scripts.figures import timing_alone
from scripts.figures import timing_loads as loads
from scripts.figures.result_file import Cell, Column, Table
from scripts.figures.timing_bench import LATENCY, READ, SECOND, Bench, Found
from scripts.figures.timing_loads import MODES, PLAIN, Setting, Stimulus, Timed, exposed
from scripts.figures.timing_stages import in_core
from verif.env.rtl_packages import constant
from verif.mem.memory_timing import MemoryTiming

LINKS = {"x16": 1, "x8": 2, "x4": 4}
"""Clocks of a flit each way."""
BEATS = (1, 2, 4)
"""Clocks of a beat of memory each way."""
SLOWEST = ("x16", 8)
"""A link and a memory where the port is what bounds plain memory."""
FOLLOWED_LINKS = ("x16", "x4")  # where the device bounds the rate, and where the link does
MANY = 1024
"""Lines where rates are measured: filling and emptying the queues is then a small part."""
LINE_SLOTS, FLIT_SLOTS = 5, 4
"""Slots of a line, one of them with its header; slots of a flit."""
_HEAD = f"Full credits, memory latency {LATENCY}"


def _tiled(where: Setting) -> Stimulus:
    """A quarter of the lines, as eight workers write each."""
    return loads.tiles(replace(where, lines=where.lines // 4), 16)


def _read(where: Setting) -> Stimulus:
    """Half of the lines, as eight workers write each before."""
    return loads.results(replace(where, lines=where.lines // 2))


PATTERNS: dict[str, Callable[[Setting], Stimulus]] = {
    "second worker, all misses": SECOND.stimulus,
    "8 workers in tiles of 16 lines": _tiled,
    "result read, 8 workers, all misses": _read,
}


@dataclass(frozen=True)
class Case:
    """What is driven, on which link, and how many clocks memory takes a beat."""

    pattern: str
    link: str
    beat: int

    @property
    def where(self) -> Setting:
        """Lines and device."""
        return Setting(MemoryTiming(LATENCY, self.beat), 8, MANY, flit_clocks=LINKS[self.link])

    @cached_property
    def driven(self) -> Stimulus:
        """The same for every mode."""
        return PATTERNS[self.pattern](self.where)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The first ones of a row."""
        return self.pattern, self.link, self.beat

    @property
    def modes(self) -> list[str]:
        """Those that are measured: an FP32 sum reads a line of every worker."""
        return [name for name in MODES if name != "FP32" or not self.driven.read]

    @property
    def noise(self) -> float:
        """Clocks an access that mean nothing: the first access and the last one may come to a flit
        of the link, or to a beat of memory, in any of its clocks."""
        return 2 * max(LINKS[self.link], self.beat) / len(self.driven.counted)

    @property
    def places(self) -> int:
        """Accesses in the core at most: a place for its response is reserved for each."""
        return constant("DRS_OWED" if self.driven.read else "NDR_OWED")

    def run(self, bench: Bench, name: str) -> Timed:
        """In the mode of that name."""
        return bench.run(name, self.where, self.driven)

    def alone(self, bench: Bench, name: str) -> Timed:
        """The same kind of access in a mode, one at a time."""
        access = READ if self.driven.read else SECOND
        where = replace(timing_alone.setting(access), memory=self.where.memory)
        return bench.run(name, where, access.stimulus(where))


CASES = tuple(
    Case(pattern, *place) for pattern in PATTERNS for place in (*product(LINKS, BEATS), SLOWEST)
)


def under_pressure(bench: Bench, found: Found) -> None:
    """Clocks of every mode in every case, beside what bounds plain memory there."""
    rows: list[tuple[Cell, ...]] = []
    bounds: list[tuple[Cell, ...]] = []
    alone: dict[tuple[bool, int, str], float] = {}  # the link is not in it

    def held_alone(case: Case, name: str) -> float:
        key = bool(case.driven.read), case.beat, name
        if key not in alone:
            alone[key] = held(case.alone(bench, name))
        return alone[key]

    for case in CASES:
        plain = case.run(bench, PLAIN)
        least = limits(case, plain, held_alone(case, PLAIN))
        bound = max(least, key=least.__getitem__)
        bounds.append((*case.cells, *least.values(), bound, plain.clocks_each))
        for name in case.modes:
            came = case.run(bench, name)
            clocks = (came.clocks_each, exposed(came, plain), *beats(came))
            verdict = judged(case, came, plain, held_alone(case, name))
            rows.append((*case.cells, name, *clocks, bound, *verdict))
            if case.link in FOLLOWED_LINKS:
                found.followed[key(case, name)] = round(came.clocks_each, 3)
    found.tables += [_of_bounds(bounds), _of_modes(rows)]


def beats(came: Timed) -> tuple[float, float]:
    """Beats read and written at the memory port, an access."""
    return came.beats_read / came.accesses, came.beats_written / came.accesses


def held(came: Timed) -> float:
    """Clocks for which an access has its place in the core, in the mean; the place is free in the
    clock behind the response."""
    return sum(float(clocks.mean()) for clocks in in_core(came).values()) + 1


def limits(case: Case, came: Timed, alone: float) -> dict[str, float]:
    """Clocks that an access takes at least, by what is narrow; ``alone``: for how many clocks a
    place is held where nothing else is under way: what waits for a port or a link holds it, too."""
    return {
        "link": LINE_SLOTS / FLIT_SLOTS * LINKS[case.link],
        "memory port": max(beats(came)) * case.beat,
        "response places": alone / case.places,
    }


def judged(case: Case, came: Timed, plain: Timed, alone: float) -> tuple[str, str]:
    """Whether a mode takes no clocks more than plain memory, and what bounds it if it does;
    ``alone`` of the mode, as `limits` takes it."""
    if came is plain:
        return "", ""
    over = came.clocks_each - plain.clocks_each
    if over <= case.noise:
        return "met", ""
    first = (filled(case, came) - filled(case, plain)) / came.accesses
    text = f"{first:+.2f} until {case.places} are answered, then {over - first:+.2f}: "
    return f"missed by {over:.2f} clocks", text + _own_bound(case, came, alone)


def _own_bound(case: Case, came: Timed, alone: float) -> str:
    """What a mode itself is bound by, and the clocks that this takes of its own."""
    own, most = limits(case, came, alone), max(beats(came))
    bound = max(reversed(own), key=own.__getitem__)  # of two alike that of the device
    way = "read" if most == beats(came)[0] else "written"
    why = {
        "memory port": f"{most:.2f} beats {way}",
        "response places": f"each held for {alone:.0f} clocks by an access alone",
    }.get(bound, "as plain memory")
    return f"its own bound is {own[bound]:.2f} by {bound} ({why}), {came.clocks_each:.2f} measured"


def filled(case: Case, came: Timed) -> int:
    """Clocks until as many accesses are answered as there are places."""
    return int(np.sort(came.ended)[case.places - 1] - np.min(came.ended - came.each))


def key(case: Case, name: str) -> str:
    """By which the baseline has the clocks of a mode."""
    beat = f", {case.beat} clocks a beat" if case.beat > 1 else ""
    where = f"{case.pattern}, full credits, {case.link}{beat} at {LATENCY}"
    return f"{name}, {where}: clocks an access"


_CASE = (Column("pattern"), Column("link"), Column("clocks a beat of memory"))


def _of_bounds(rows: list[tuple[Cell, ...]]) -> Table:
    return Table(
        f"{_HEAD}: what bounds plain memory, clocks an access",
        (
            *(*_CASE, Column("by the link"), Column("by the memory port")),
            *(Column("by response places"), Column("bound by"), Column("measured")),
        ),
        tuple(rows),
        (
            f"link: {LINE_SLOTS} slots a line, {FLIT_SLOTS} a flit; memory port: beats of the "
            "busier direction; response places: clocks for which an access alone has its place in "
            "the core, divided by the places.",
            "measured: with filling and emptying the queues, once.",
        ),
    )


def _of_modes(rows: list[tuple[Cell, ...]]) -> Table:
    return Table(
        f"{_HEAD}: exposed overhead under bandwidth pressure",
        (
            *(*_CASE, Column("mode"), Column("clocks an access"), Column("exposed %")),
            *(Column("beats read an access"), Column("beats written an access")),
            *(Column("plain memory is bound by"), Column("0 within noise")),
            Column("where the clocks over plain memory are spent"),
        ),
        tuple(rows),
        (
            "A miss reads its record, the bookkeeping line and planes, and writes that of its "
            "victim; an FP32 contribution writes its line besides. The two directions of the "
            "memory port run at the same time.",
            "noise: a flit or a beat of memory, the longer one, at the first access and at the "
            "last. Where response places bound plain memory, neither link nor memory port is "
            "short of bandwidth: what counts is the latency of an access.",
            "Until as many are answered as there are places, few records are fetched at a time, "
            "then one more in some five clocks (nf_fill.sv), unless the memory port is slower. "
            "What is measured beyond a mode's own bound and these first ones is not told apart.",
        ),
    )

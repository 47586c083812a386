# SPDX-License-Identifier: Apache-2.0
"""`nf measure figures timing`: cost of each mode over plain memory, in clocks of the RTL, from one
access at a time to full credits."""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuron_fabric.errors import telling
from scripts.build import bulk_build, registry
from scripts.common.errors import OptionError
from scripts.figures import timing_loads as loads
from scripts.figures.result_file import Cell, Column, Line, Measured, Plot, Table
from scripts.figures.timing_loads import (
    LOW_BIT,
    MODES,
    PLAIN,
    SLOTS,
    Setting,
    Stimulus,
    Timed,
    exposed,
)
from verif.env.rtl_packages import constant
from verif.host.bulk_device import VerilatedModel
from verif.host.c_interface import READS, WRITES, Stage
from verif.mem.memory_timing import MemoryTiming

# What the parts of `nf measure figures timing` share: runs that are kept, and kinds of access.

LATENCY = 300
"""Of the memory, in clocks, where it is not what is varied."""


@dataclass
class Bench:
    """Runs, each kept: a part may ask for one that another has made."""

    model: VerilatedModel
    folder: Path
    done: dict[tuple[str, Setting, Stimulus], Timed] = field(default_factory=dict)

    def run(self, mode: str, setting: Setting, stimulus: Stimulus) -> Timed:
        """One run in the mode of that name."""
        key = (mode, setting, stimulus)
        if key not in self.done:
            self.done[key] = loads.timed(self.model, self.folder, mode, setting, stimulus)
        return self.done[key]

    def exposed(self, mode: str, setting: Setting, stimulus: Stimulus) -> float:
        """Overhead over plain memory in percent."""
        plain = self.run(PLAIN, setting, stimulus)
        return loads.exposed(self.run(mode, setting, stimulus), plain)


@dataclass
class Found:
    """What the parts add to."""

    tables: list[Table] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    followed: dict[str, float] = field(default_factory=dict)


Part = Callable[[Bench, Found], None]


@dataclass(frozen=True)
class Access:
    """A kind of access that misses: workers of the region, and the worker whose contributions are
    counted, all before it done; None: results are read. ``planes``: those that the record has."""

    name: str
    workers: int
    worker: int | None
    planes: int

    def stimulus(self, setting: Setting) -> Stimulus:
        """What is driven."""
        if self.worker is None:
            return loads.results(setting)
        return loads.nth_worker(setting, self.worker)


SECOND = Access("contribution, second of 8 workers", 8, 1, 1)
LAST = Access("contribution, last of 8 workers", 8, 7, 3)
READ = Access("result read, 8 workers", 8, None, 4)
ACCESSES = (
    *(SECOND, LAST, Access("contribution, last of 64 workers", 64, 63, 6)),
    *(READ, Access("result read, 64 workers", 64, None, 7)),
)
FIRST = Access("contribution, first of 8 workers (nothing to fetch)", 8, 0, 0)

SUMS_APART = "FP32 sums are left out: each gathers a line of every worker."


def modes_of(access: Access) -> list[str]:
    """Those that are drawn: an FP32 sum needs a scale of its own."""
    return [name for name in MODES if access.worker is not None or name != "FP32"]


def curve(
    name: str, over: Iterable[float], value: Callable[[float], float], formula: bool = False
) -> Line:
    """A value at each place of an axis."""
    return Line(name, tuple((float(x), value(x)) for x in over), formula)


# Where the clocks of an access are spent, by what the stage probe saw (`nf_stage_probe.sv`).

Clocks = NDArray[np.int64]

IN_ORDER = ("link in", "decode", "unit", "respond", "link out")
"""Parts of an access under load: from the request's flit to the core, to the unit that does it, in
the unit and its memory accesses, to the core's end, to the response's flit."""
UNIT = ("unit, before memory", "memory", "further beats", "unit, after memory")
"""Parts of "unit" where one access is under way at a time: until the first request to memory,
until its first answer, until the last answer, until the unit's answer."""
ALONE = (*IN_ORDER[:2], *UNIT, *IN_ORDER[3:])
LOADED = (*IN_ORDER[:2], "engine", "memory", *IN_ORDER[3:])
"""The parts of `IN_ORDER` with "unit" in two: from an access's first request to memory until its
last answer, and what the unit takes before and behind."""
_NOT_THE_ACCESS = (WRITES + 0, WRITES + 3)
"""Clients of the write port that nobody waits for: evictions and the initialiser of records."""
_GATHER = READS + 2
"""The client that reads the lines of FP32 sums: two sums take turns."""
_TAGS = 1 << 16


def split(timed: Timed) -> dict[str, Clocks]:
    """Clocks of each access by the parts of `IN_ORDER`, int64[n] each; they add up to its own."""
    return _between(IN_ORDER, _marks(timed))


def in_core(timed: Timed) -> dict[str, Clocks]:
    """Those parts of `IN_ORDER` in which an access holds its place in the core."""
    return {name: clocks for name, clocks in split(timed).items() if not name.startswith("link")}


def split_loaded(timed: Timed) -> dict[str, Clocks]:
    """The same by the parts of `LOADED`; FP32 sums by those of `IN_ORDER`, as the lines of two are
    fetched in turns. Memory answers a client in the order in which it asked, and units end their
    accesses in the order of these answers: each access has its share of every client's requests.
    ValueError where this cannot be so."""
    marks, events = _marks(timed), _of_memory(timed)
    whole = _between(IN_ORDER, marks)
    if np.any(events["who"] == _GATHER):
        return whole
    order = np.argsort(marks[3], kind="stable")
    asked, answered = (
        [
            _shares(events["clock"][(events["stage"] == stage) & (events["who"] == who)], order)
            for who in np.unique(events["who"])
        ]
        for stage in (Stage.MEMORY_ASKED, Stage.MEMORY_ANSWERED)
    )
    first = np.min([share[:, 0] for share in asked], axis=0)
    last = np.max([share[:, -1] for share in answered], axis=0)
    if np.any(first < marks[2]) or np.any(last < first) or np.any(marks[3] < last):
        raise ValueError("the requests to memory are not in the order of the accesses")
    inner = {"memory": last - first, "engine": whole["unit"] - (last - first)}
    return {name: (whole | inner)[name] for name in LOADED}


def _shares(clocks: NDArray[Any], order: NDArray[np.int64]) -> Clocks:
    """The clocks of each access, int64[n, share]; ``order``: the accesses in the order of them."""
    if not len(clocks) or len(clocks) % len(order):
        raise ValueError(f"{len(clocks)} events at memory of {len(order)} accesses")
    shares = np.empty((len(order), len(clocks) // len(order)), np.int64)
    shares[order] = clocks.reshape(len(order), -1)
    return shares


def _of_memory(timed: Timed) -> NDArray[Any]:
    """What the probe saw at the memory ports, without what nobody waits for."""
    at_memory = np.isin(timed.passed["stage"], (Stage.MEMORY_ASKED, Stage.MEMORY_ANSWERED))
    return timed.passed[at_memory & ~np.isin(timed.passed["who"], _NOT_THE_ACCESS)]


def split_alone(timed: Timed) -> dict[str, Clocks]:
    """The same by the parts of `ALONE`; accesses that overlap are told apart no more."""
    marks, events = _marks(timed), _of_memory(timed)
    asked, answered = (
        events["clock"][events["stage"] == stage].astype(np.int64)
        for stage in (Stage.MEMORY_ASKED, Stage.MEMORY_ANSWERED)
    )
    inner = np.stack([marks[2]] * 3)
    for n, (first, last) in enumerate(zip(marks[2], marks[3], strict=True)):
        own_asked = asked[(asked >= first) & (asked <= last)]
        own = answered[(answered >= first) & (answered <= last)]
        if len(own_asked) and len(own):
            inner[:, n] = own_asked[0], own[0], own[-1]
    return _between(ALONE, [*marks[:3], *inner, *marks[3:]])


def _between(names: Sequence[str], ends: Sequence[Clocks]) -> dict[str, Clocks]:
    """What lies between each end and the next, by name."""
    return {name: ends[at + 1] - ends[at] for at, name in enumerate(names)}


def _marks(timed: Timed) -> list[Clocks]:
    """Clock of each access at the host, into the core, into its unit, out of it, out of the core,
    at the host; int64[n] each. ValueError when the probe missed one."""
    ended = timed.ended.astype(np.int64)
    out = [ended - timed.each.astype(np.int64)]
    seen: dict[int, dict[int, int]] = defaultdict(dict)
    for event in timed.passed:
        seen[int(event["stage"])].setdefault(int(event["who"]), int(event["clock"]))
    first = next(iter(seen[Stage.CORE_IN]), 0)
    for stage in (Stage.CORE_IN, Stage.UNIT_IN, Stage.UNIT_OUT, Stage.CORE_OUT):
        clocks = [seen[stage].get((first + n) % _TAGS) for n in range(timed.accesses)]
        if None in clocks:
            raise ValueError(f"access {clocks.index(None)} has not passed {stage.name}")
        out.append(np.array(clocks, np.int64))
    return [*out, ended]


def percentiles(clocks: NDArray[Any]) -> tuple[int, int, int, int]:
    """Least, median, 95th of 100 and most."""
    values = np.percentile(clocks, (0, 50, 95, 100), method="lower")
    least, middle, late, most = (int(value) for value in values)
    return least, middle, late, most


# Full credits where the link or the memory port gets narrow: what bounds plain memory, by how
# many clocks a mode misses it, and where these are spent.

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
        where = replace(lone_setting(access), memory=self.where.memory)
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


# Many accesses under way: clocks over load, working set, tile and skew.

OUTSTANDING = (1, 2, 4, 8, 16, 32, 64)
WORKING_SETS = (16, 32, 64, 96, 128, 256, 1024)
TILES = (1, 4, 16, 32, 64, 128, 512)
SKEWS = (0, 4, 16, 32, 64, 128)
_SHOWN = (PLAIN, "IDENTITY", "G_BINARY", "G_TERNARY", "G_INT4", "FP32")
_NOT_SHOWN = (
    "G_INT8 is left out: it lies on G_INT4, as both take the accesses to memory of G_BINARY.",
)
AT = MemoryTiming(LATENCY)
TILED = Setting(AT, 8, lines=TILES[-1])


def over_load(bench: Bench, found: Found) -> None:
    """Clocks an access over the number of accesses that are under way."""
    for access in (LAST, READ):
        lines = [
            curve(name, OUTSTANDING, partial(_at_load, bench, access, name))
            for name in modes_of(access)
        ]
        found.plots.append(
            Plot(
                f"{access.name}, all misses: clocks over load, memory latency {LATENCY}",
                *("accesses under way", "clocks an access", tuple(lines)),
                (SUMS_APART,) if access.worker is None else (),
            )
        )


def over_working_set(bench: Bench, found: Found) -> None:
    """All contributions of eight workers, worker after worker, to more and more lines."""
    shares = [lines / SLOTS for lines in WORKING_SETS]
    lines = [curve(name, shares, partial(_worker_after_worker, bench, name)) for name in _SHOWN]
    found.plots.append(
        Plot(
            f"Worker after worker, 8 workers: clocks over working set, memory latency {LATENCY}",
            *("lines / slots", "clocks a contribution", tuple(lines), _NOT_SHOWN),
        )
    )


def over_tile_and_skew(bench: Bench, found: Found) -> None:
    """All contributions of eight workers in tiles, or each so many lines behind the other."""
    for title, axis, value, unit in (
        ("tile size", TILES, _in_tiles, "lines that a worker writes before the next one"),
        ("worker skew", SKEWS, _behind, "lines that each worker is behind the one before"),
    ):
        lines = [curve(name, axis, partial(value, bench, name)) for name in _SHOWN]
        found.plots.append(
            Plot(
                f"8 workers, {TILED.lines} lines: clocks over {title}, memory latency {LATENCY}",
                *(unit, "clocks a contribution", tuple(lines), _NOT_SHOWN),
            )
        )


def _at_load(bench: Bench, access: Access, name: str, count: float) -> float:
    where = Setting(AT, access.workers, lines=4 * SLOTS, outstanding=int(count))
    return bench.run(name, where, access.stimulus(where)).clocks_each


def _worker_after_worker(bench: Bench, name: str, share: float) -> float:
    where = Setting(AT, 8, lines=int(share * SLOTS))
    return bench.run(name, where, loads.tiles(where, where.lines)).clocks_each


def _in_tiles(bench: Bench, name: str, tile: float) -> float:
    return bench.run(name, TILED, loads.tiles(TILED, int(tile))).clocks_each


def _behind(bench: Bench, name: str, skew: float) -> float:
    return bench.run(name, TILED, loads.skewed(TILED, int(skew))).clocks_each


# Latency of each kind of request with full credits, where every access misses: its distribution,
# by the stages that it passes.

LOADED_ACCESSES = (LAST, READ)
BIN = 20
"""Clocks of a bin of the histograms."""
HEAD = f"Full credits, all misses, memory latency {LATENCY}"
_NOTES = (
    "engine: the engine, the FP32 path or plain memory, without its accesses to memory; memory: "
    "from an access's first request to its last answer.",
    "unit: both, for FP32 sums, as two of them fetch their lines in turns, and wherever requests "
    "to memory cannot be told apart.",
)


def loaded_setting(access: Access) -> Setting:
    """As many accesses under way as credits allow, four times as many lines as slots."""
    return Setting(MemoryTiming(LATENCY), access.workers, lines=4 * SLOTS)


def stages_under_load(bench: Bench, found: Found) -> None:
    """Clocks of each kind of access by stage: percentiles of every mode, and histograms; one for
    all modes that differ in none."""
    rows: list[tuple[Cell, ...]] = []
    for access in LOADED_ACCESSES:
        where = loaded_setting(access)
        same: dict[tuple[Line, ...], list[str]] = {}
        for name in MODES:
            came = bench.run(name, where, access.stimulus(where))
            parts: dict[str, Clocks] = _parts(came) | {"whole": came.each.astype("int64")}
            rows += [(access.name, name, part, *percentiles(parts[part])) for part in parts]
            lines = tuple(histogram(part, clocks) for part, clocks in parts.items())
            same.setdefault(lines, []).append(name)
            key = f"{name}, {access.name}, {where.lines} lines, full credits at {LATENCY}"
            found.followed[f"{key}: clocks an access"] = round(came.clocks_each, 3)
        found.plots += [
            Plot(
                f"{HEAD}: {access.name} by stage, {', '.join(names)}",
                *("clocks", f"% of the accesses, bins of {BIN} clocks", lines),
            )
            for lines, names in same.items()
        ]
    columns = (
        *(Column("access"), Column("mode"), Column("stage")),
        *(Column("least"), Column("median"), Column("95 of 100"), Column("most")),
    )
    found.tables.append(
        Table(f"{HEAD}: clocks of an access by stage", columns, tuple(rows), _NOTES)
    )


def _parts(came: Timed) -> dict[str, Clocks]:
    """By unit as a whole where its accesses to memory cannot be told apart."""
    try:
        return split_loaded(came)
    except ValueError:
        return split(came)


def histogram(name: str, clocks: Clocks) -> Line:
    """Percent of the accesses in each bin, from the first to the last that has some."""
    bins = Counter((clocks // BIN * BIN).tolist())
    places = range(min(bins), max(bins) + BIN, BIN)
    return Line(name, tuple((float(at), 100 * bins[at] / len(clocks)) for at in places))


# One access at a time, each a miss: what every mode adds to plain memory, and where.

LATENCIES = (100, 200, 300, 400, 500, 600)
BOUND = 1.67
"""Exposed overhead in percent that is aimed at where every access misses."""
PLAIN_CLOCKS = 11
"""What an access to plain memory takes beside the latency."""
BEFORE = ("SL",)
"""Stages of the engine before it asks memory; S0 asks in its own clock, as plain memory does."""
BEHIND_WRITE = ("S2",)
"""Stages behind the last beat of a record: S0 issues the fill in the clock of that beat, which goes
past S1; S2 applies the contribution, and the completion leaves."""
BEHIND_READ = (*BEHIND_WRITE, "S3", "S4")
"""The same for a result: S3 and S4 compute half of the vote, or of the sums, each."""


def lone_setting(access: Access, latency: int = LATENCY) -> Setting:
    """One access at a time, twice as many lines as slots."""
    return Setting(MemoryTiming(latency), access.workers, outstanding=1)


def behind(access: Access) -> tuple[str, ...]:
    """Stages of the engine behind the last beat of the record."""
    return BEHIND_READ if access.worker is None else BEHIND_WRITE


def added(access: Access) -> int:
    """Clocks over plain memory: a clock for each stage of the engine before and behind memory, and
    one for each plane, which are the further beats of the record behind its bookkeeping line."""
    return len(BEFORE) + access.planes + len(behind(access))


def formula(access: Access, latency: float) -> float:
    """Exposed overhead in percent."""
    return 100 * added(access) / (latency + PLAIN_CLOCKS)


def one_at_a_time(bench: Bench, found: Found) -> None:
    """Overhead of each mode and kind of access, and the clocks of each part of it."""
    rows: list[tuple[Cell, ...]] = []
    parts: list[tuple[Cell, ...]] = []
    missing: dict[str, list[str]] = defaultdict(list)
    for access in (*ACCESSES, FIRST):
        where = lone_setting(access)
        plain = bench.run(PLAIN, where, access.stimulus(where))
        for name in MODES:
            came = bench.run(name, where, access.stimulus(where))
            over, percent = came.clocks_each - plain.clocks_each, loads.exposed(came, plain)
            missed = over - BOUND / 100 * plain.clocks_each
            word = "met" if missed <= 0 else f"missed by {missed:.1f} clocks"
            lookups = came.hits + came.misses
            rows.append(
                (
                    *(access.name, name, came.clocks_each, over, percent),
                    word if name in LOW_BIT else "",
                    100 * came.misses / lookups if lookups else None,
                )
            )
            parts.append((access.name, name, *_means(came).values()))
            if missed > 0 and name in LOW_BIT:
                missing[where_spent(access, came, plain)].append(name)
            if access is not FIRST:
                found.followed.update(_followed(access, name, came.clocks_each, over))
    head = f"One access at a time, memory latency {LATENCY}"
    columns = (
        *(Column("access"), Column("mode"), Column("clocks", 1), Column("over plain", 1)),
        *(Column("exposed %"), Column(f"<= {BOUND} %"), Column("missed %", 0)),
    )
    found.tables.append(
        Table(
            *(f"{head}: exposed overhead", columns, tuple(rows)),
            (
                "missed %: of the engine's lookups; plain memory and IDENTITY have none.",
                *(f"{', '.join(names)}, {text}" for text, names in missing.items()),
            ),
        )
    )
    found.tables.append(
        Table(
            f"{head}: where the clocks are spent (mean)",
            (Column("access"), Column("mode"), *(Column(one, 1) for one in ALONE)),
            tuple(parts),
            ("further beats: planes behind the bookkeeping line, or lines of an FP32 sum.",),
        )
    )


def where_spent(access: Access, came: Timed, plain: Timed) -> str:
    """What the clocks over plain memory are, as measured, in a sentence."""
    took, base = _means(came), _means(plain)
    more = {name: took[name] - base[name] for name in ALONE}
    before, further, after = (more[name] for name in (UNIT[0], *UNIT[2:]))
    whole = sum(more.values())
    elsewhere = f"{whole - before - further - after:.1f}".replace("-0.0", "0.0")
    return (
        f"{access.name}: {whole:.1f} clocks over plain memory are {before:.1f} before memory "
        f"({', '.join(BEFORE)}), {further:.1f} of further beats (planes of the record), "
        f"{after:.1f} behind the last one ({', '.join(behind(access))}) and {elsewhere} elsewhere."
    )


def _means(came: Timed) -> dict[str, float]:
    return {name: float(clocks.mean()) for name, clocks in split_alone(came).items()}


def _followed(access: Access, name: str, clocks: float, over: float) -> dict[str, float]:
    """What the baseline holds of a row: plain memory's own clocks, of a mode those over it."""
    key = f"{name}, {access.name}, one at a time at {LATENCY}: clocks"
    if name == PLAIN:
        return {key: round(clocks, 2)}
    return {f"{key} over plain memory": round(over, 2)}


def over_latency(bench: Bench, found: Found) -> None:
    """Exposed overhead over the latency of memory, the formula beside it."""
    for access in (LAST, READ):
        lines = [
            curve(name, LATENCIES, partial(_exposed_at, bench, access, name))
            for name in modes_of(access)
            if name != PLAIN
        ]
        text = f"formula: {added(access)} / (latency + {PLAIN_CLOCKS})"
        lines.append(curve(text, LATENCIES, partial(formula, access), formula=True))
        stages = ", ".join((*BEFORE, *behind(access)))
        found.plots.append(
            Plot(
                f"{access.name}, one at a time: exposed overhead over memory latency",
                *("memory latency, clocks", "exposed overhead, %", tuple(lines)),
                (
                    f"The {added(access)} of the formula: a clock each for {stages}, and one for "
                    f"each of {access.planes} planes of the record.",
                    *((SUMS_APART,) if access.worker is None else ()),
                ),
            )
        )


def _exposed_at(bench: Bench, access: Access, name: str, latency: float) -> float:
    where = lone_setting(access, int(latency))
    return bench.exposed(name, where, access.stimulus(where))


HELP = "clocks that each mode adds to plain memory, over latency, load, working set, tile and skew"
PARTS: dict[str, Part] = {
    "one at a time": one_at_a_time,
    "latency": over_latency,
    "load": over_load,
    "stages under load": stages_under_load,
    "working set": over_working_set,
    "tile and skew": over_tile_and_skew,
    "bandwidth": under_pressure,
}
"""What is measured, in this order."""


def _simulator() -> str:
    """The one that gives a library to call, whose clocks are counted here; NfError."""
    name = next(one.name for one in registry.simulators() if one.links_c)
    return registry.choose(name)[0][0]


def _memory() -> str:
    """Of every part, and the others under bandwidth pressure."""
    usual, *others = sorted({case.beat for case in CASES})
    return (
        f"every request is answered after its latency, in order; a beat takes {usual} clock each "
        f"way, under bandwidth pressure also {', '.join(map(str, others))} clocks"
    )


def _link() -> str:
    """The same of the link."""
    (name, usual), *others = LINKS.items()
    narrow = ", ".join(f"{clocks} clocks ({other})" for other, clocks in others)
    return f"a flit takes {usual} clock each way ({name}), under bandwidth pressure also {narrow}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = ", ".join(PARTS)
    parser.add_argument("--only", default="", metavar="TEXT", help=f"parts with it: {names}")


def run(args: argparse.Namespace) -> Measured:
    """Build, drive every part, and what came of it."""
    parts = {name: part for name, part in PARTS.items() if args.only in name}
    if not parts:
        raise OptionError(f"--only {args.only!r}", "no part's name has that", "see --help")
    with telling("nf measure figures: building the design with its stage probe"):
        model = bulk_build.build(_simulator(), stages=True)
    assert isinstance(model, VerilatedModel)
    found = Found()
    with tempfile.TemporaryDirectory(prefix="nf-figures-") as folder:
        bench = Bench(model, Path(folder))
        for name, part in parts.items():
            with telling(f"nf measure figures: {name}"):
                part(bench, found)
    return Measured(
        set_up=(
            ("device", f"nf_controller with its default parameters, {SLOTS} slots; Verilator"),
            ("stimulus", "the same lines in the same order for every mode, at flit level"),
            ("memory", _memory()),
            ("clocks of an access", "from the flit with the request to that with the response"),
            ("exposed overhead", "(T - T_plain) / T_plain, T from first request to last answer"),
            ("link", _link()),
        ),
        tables=tuple(found.tables),
        plots=tuple(found.plots),
        left_out=(
            "banks of the memory: its model has latency, bandwidth and stalls, but no banks",
            "the record initialiser: `nf measure bench misses` measures plain reads beside it",
        ),
        followed=found.followed,
    )

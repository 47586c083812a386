# SPDX-License-Identifier: Apache-2.0
"""`nf measure figures timing`: measures the clocks that each mode adds to plain memory.

Loads reach from one access at a time to full credits; all are driven on the RTL.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.modes import Mode
from models.parameters import DeviceParams
from models.regions import SUM16_SELECTOR, RegionConfig
from models.register_map import REG_MAP
from neuron_fabric.errors import telling
from scripts.benchmarks.bulk_loads import commit, read_block, run_block, write_block
from scripts.build import bulk_build, registry
from scripts.common.errors import OptionError
from scripts.figures.result_file import Cell, Column, Line, Measured, Plot, Table, set_up
from verif.host.bulk_device import VerilatedDevice, VerilatedModel
from verif.host.c_interface import Block, Kind, Stage, register_ops
from verif.mem.memory_timing import MemoryTiming

# Identical accesses in every mode, on the whole controller at flit level, counted in clocks.
#
# A stimulus is a list of (worker, line) pairs: first those that are not counted, then those that
# are. Plain memory takes them as ordinary addresses, one per pair; every other mode as a region
# with that many workers. Each run starts after a reset.

Place = tuple[int, int]
"""Worker, line."""

PLAIN = "plain memory"
MODES: dict[str, Mode | None] = {
    PLAIN: None,
    **{mode.name: mode for mode in sorted(Mode) if not mode.optional},
}
"""Compared modes by name; None: no region."""
LOW_BIT = tuple(name for name, mode in MODES.items() if mode is not None and mode.low_bit)
WINDOWS = 1 << 36
SLOTS = DeviceParams().slots
AT_300 = MemoryTiming(300)
_COUNTERS = [REG_MAP.expand()[name].address for name in ("SLOT_HIT", "SLOT_MISS")]


@dataclass(frozen=True)
class Setting:
    """Setting of a run.

    Attributes:
        memory: Timing of device memory.
        workers: Workers of the region.
        lines: Lines of memory that each worker has.
        outstanding: Maximum number of unanswered accesses; 0: as many as credits allow.
        flit_clocks: Clocks per flit in each direction (1, 2 and 4 represent x16, x8 and x4).
    """

    memory: MemoryTiming = AT_300
    workers: int = 8
    lines: int = 2 * SLOTS
    outstanding: int = 0
    flit_clocks: int = 1


@dataclass(frozen=True)
class Stimulus:
    """Accesses of a run: places written first, then places written (or read) and counted."""

    before: tuple[Place, ...]
    counted: tuple[Place, ...]
    read: bool = False


@dataclass(frozen=True)
class Timed:
    """Measurements of the counted accesses of a run.

    Attributes:
        clocks: Clocks from the first flit to the last answer.
        each: uint64[n], clocks of every access.
        ended: uint64[n], clock of each answer.
        hits: Lookups that hit the slots.
        misses: Lookups that missed the slots.
        beats_read: Beats read from device memory.
        beats_written: Beats written to device memory.
        passed: Events of the stage probe, PASSED[m].
    """

    clocks: int
    each: NDArray[np.uint64]
    ended: NDArray[np.uint64]
    hits: int
    misses: int
    beats_read: int
    beats_written: int
    passed: NDArray[Any]

    @property
    def accesses(self) -> int:
        """Number of counted accesses."""
        return len(self.each)

    @property
    def clocks_each(self) -> float:
        """Clocks divided by accesses."""
        return self.clocks / self.accesses


def exposed(mode: Timed, plain: Timed) -> float:
    """Return the exposed overhead (T_mode - T_plain) / T_plain in percent."""
    return 100 * (mode.clocks - plain.clocks) / plain.clocks


# -- stimuli ------------------------------------------------------------------------------------
def nth_worker(setting: Setting, worker: int) -> Stimulus:
    """Return contributions of one worker (0 is the first) to every line, after those of lower ones.

    With more lines than slots all of them miss the slots, except those of worker 0, which find
    untouched lines.
    """
    lines = range(setting.lines)
    before = [(w, i) for w in range(worker) for i in lines]
    return Stimulus(tuple(before), tuple((worker, i) for i in lines))


def results(setting: Setting) -> Stimulus:
    """Return reads of every line's result, counted after all contributions."""
    lines = range(setting.lines)
    before = [(w, i) for w in range(setting.workers) for i in lines]
    return Stimulus(tuple(before), tuple((0, i) for i in lines), read=True)


def tiles(setting: Setting, tile: int) -> Stimulus:
    """Return contributions of all workers: each in turn writes a tile of lines, then the next tile.

    `tile` is the number of lines of a tile.
    """
    order = [
        (worker, line)
        for at in range(0, setting.lines, tile)
        for worker in range(setting.workers)
        for line in range(at, min(at + tile, setting.lines))
    ]
    return Stimulus((), tuple(order))


# -- a run --------------------------------------------------------------------------------------
def timed(
    model: VerilatedModel, folder: Path, name: str, setting: Setting, stimulus: Stimulus
) -> Timed:
    """Drive a stimulus in the named mode and return its measurements.

    Raises:
        AssertionError: An answer is poisoned.
    """
    mode = MODES[name]
    log2 = (setting.lines - 1).bit_length()
    config = None if mode is None else RegionConfig(WINDOWS, 0, log2, setting.workers, mode)
    with closing(model.open(folder, DeviceParams().mem_lines_log2, 1, setting.memory)) as device:
        assert isinstance(device, VerilatedDevice)
        device.set_flit_clocks(setting.flit_clocks)
        if config is not None:
            commit(device, 0, config, wait=True)
        if stimulus.before:
            run_block(device, write_block(config, _places(stimulus.before, config, setting)))
            _settle(device)
        block = _block(stimulus, config, setting)
        if setting.outstanding:
            order = np.arange(len(block.ops))
            block.ops["after"] = np.maximum(order - setting.outstanding + 1, 0)
        hits, misses = _lookups(device)
        beats = device.figures()
        device.passed()
        clocks = run_block(device, block)
        passed, after = device.passed(), device.figures()
        now_hits, now_misses = _lookups(device)
    return Timed(
        clocks,
        block.clocks(),
        block.ended(),
        now_hits - hits,
        now_misses - misses,
        int(after.memory_reads) - int(beats.memory_reads),
        int(after.memory_writes) - int(beats.memory_writes),
        passed,
    )


def _settle(device: VerilatedDevice) -> None:
    """Wait until device memory is idle: evictions may follow the last answer."""
    block = read_block(None, [(0, 0)] * 4)
    block.ops["after"] = np.arange(len(block.ops))
    run_block(device, block)


def _places(places: Sequence[Place], config: RegionConfig | None, setting: Setting) -> list[Place]:
    """Return (selector, line) pairs for places; without a region consecutive plain lines."""
    if config is not None:
        return list(places)
    return [(0, worker * setting.lines + line) for worker, line in places]


def _block(stimulus: Stimulus, config: RegionConfig | None, setting: Setting) -> Block:
    if not stimulus.read:
        return write_block(config, _places(stimulus.counted, config, setting))
    places = _places(stimulus.counted, config, setting)
    if config is not None and config.mode.bits:  # sums of codes have no selector 0
        places = [(SUM16_SELECTOR, line) for _, line in places]
    return read_block(config, places)


def _lookups(device: VerilatedDevice) -> tuple[int, int]:
    """Return the slot hits and misses that the device has counted."""
    poll = Block.of(register_ops(Kind.REG_READ, [(address, 0) for address in _COUNTERS]))
    device.run(poll)
    return poll.value(0), poll.value(1)


# Shared by all parts: cached runs, and kinds of access.

LATENCY = 300
"""Memory latency in clocks, unless it is varied."""


@dataclass
class Bench:
    """Cache of runs on one model, shared by all parts of the figure."""

    model: VerilatedModel
    folder: Path
    done: dict[tuple[str, Setting, Stimulus], Timed] = field(default_factory=dict)

    def run(self, mode: str, setting: Setting, stimulus: Stimulus) -> Timed:
        """Return the measurements of one run in the named mode, cached."""
        key = (mode, setting, stimulus)
        if key not in self.done:
            self.done[key] = timed(self.model, self.folder, mode, setting, stimulus)
        return self.done[key]

    def exposed(self, mode: str, setting: Setting, stimulus: Stimulus) -> float:
        """Return the exposed overhead of a mode over plain memory in percent."""
        plain = self.run(PLAIN, setting, stimulus)
        return exposed(self.run(mode, setting, stimulus), plain)


@dataclass
class TimingFindings:
    """Collector of tables, plots and followed figures of all parts."""

    tables: list[Table] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    followed: dict[str, float] = field(default_factory=dict)


Part = Callable[[Bench, TimingFindings], None]


@dataclass(frozen=True)
class Access:
    """Kind of access that misses the slots.

    Attributes:
        name: Name in tables.
        workers: Workers of the region.
        worker: Worker whose contributions are counted, after all lower ones; None: results are
            read.
        planes: Count planes of the line's record.
    """

    name: str
    workers: int
    worker: int | None
    planes: int

    def stimulus(self, setting: Setting) -> Stimulus:
        """Return the stimulus of this kind of access."""
        if self.worker is None:
            return results(setting)
        return nth_worker(setting, self.worker)


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
    """Return the modes to compare: an FP32 sum, which reads a line of every worker, is left out."""
    return [name for name in MODES if access.worker is not None or name != "FP32"]


def _curves(
    access: Access,
    settings: Mapping[int, Setting],
    value: Callable[[str, Setting, Stimulus], float],
) -> list[Line]:
    """Return a line of a plot for each mode: the value of its run in each setting, by x."""
    runs = [(float(x), where, access.stimulus(where)) for x, where in settings.items()]
    return [
        Line(name, tuple((x, value(name, where, driven)) for x, where, driven in runs))
        for name in modes_of(access)
    ]


# Clocks of an access by stage, from the stage probe (`nf_stage_probe.sv`).

Clocks = NDArray[np.int64]

IN_ORDER = ("link in", "decode", "unit", "respond", "link out")
"""Parts of an access under load: from the request's flit to the core, to its unit, in the unit with
its memory accesses, to the end of the core, to the response's flit.
"""
_TAGS = 1 << 16


def split(timed: Timed) -> dict[str, Clocks]:
    """Return the clocks of each access in each part of `IN_ORDER`, int64[n]; the parts add up.

    Raises:
        ValueError: The stage probe missed an access.
    """
    seen: dict[int, dict[int, int]] = defaultdict(dict)
    for event in timed.passed:
        seen[int(event["stage"])].setdefault(int(event["who"]), int(event["clock"]))
    first = next(iter(seen[Stage.CORE_IN]), 0)
    ended = timed.ended.astype(np.int64)
    marks = [ended - timed.each.astype(np.int64)]
    for stage in (Stage.CORE_IN, Stage.UNIT_IN, Stage.UNIT_OUT, Stage.CORE_OUT):
        clocks = [seen[stage].get((first + n) % _TAGS) for n in range(timed.accesses)]
        if None in clocks:
            raise ValueError(f"access {clocks.index(None)} has not passed {stage.name}")
        marks.append(np.array(clocks, np.int64))
    marks.append(ended)
    return {name: marks[at + 1] - marks[at] for at, name in enumerate(IN_ORDER)}


def percentiles(clocks: NDArray[Any]) -> tuple[int, int, int, int]:
    """Return minimum, median, 95th percentile and maximum."""
    values = np.percentile(clocks, (0, 50, 95, 100), method="lower")
    least, middle, late, most = (int(value) for value in values)
    return least, middle, late, most


# Full credits with a narrow link or memory port: the clocks by which a mode misses plain memory.

LINKS = {"x16": 1, "x8": 2, "x4": 4}
"""Clocks per flit in each direction."""
BEATS = (1, 2, 4)
"""Clocks per memory beat in each direction."""
SLOWEST = ("x16", 8)
"""Link and memory for which the memory port limits plain memory."""
FOLLOWED_LINKS = ("x16", "x4")  # where the device bounds the rate, and where the link does
MANY = 1024
"""Lines for rate measurements, so that filling and draining the queues is a small part."""
_HEAD = f"Full credits, memory latency {LATENCY}"


def _tiled(where: Setting) -> Stimulus:
    """Return contributions to a quarter of the lines, as 8 workers write each, in 16-line tiles."""
    return tiles(replace(where, lines=where.lines // 4), 16)


def _read(where: Setting) -> Stimulus:
    """Return result reads of half of the lines, since eight workers write each before."""
    return results(replace(where, lines=where.lines // 2))


PATTERNS: dict[str, Callable[[Setting], Stimulus]] = {
    "second worker, all misses": SECOND.stimulus,
    "8 workers in tiles of 16 lines": _tiled,
    "result read, 8 workers, all misses": _read,
}


@dataclass(frozen=True)
class Case:
    """Stimulus, link width, and clocks per beat of device memory, measured with full credits."""

    pattern: str
    link: str
    beat: int

    @property
    def where(self) -> Setting:
        """Setting of the runs."""
        return Setting(MemoryTiming(LATENCY, self.beat), 8, MANY, flit_clocks=LINKS[self.link])

    @cached_property
    def driven(self) -> Stimulus:
        """Stimulus, which is the same for every mode."""
        return PATTERNS[self.pattern](self.where)

    @property
    def noise(self) -> float:
        """Uncertainty in clocks per access.

        The first and the last access meet a flit of the link or a beat of memory in any of its
        clocks.
        """
        return 2 * max(LINKS[self.link], self.beat) / len(self.driven.counted)


CASES = tuple(
    Case(pattern, *place) for pattern in PATTERNS for place in (*product(LINKS, BEATS), SLOWEST)
)


def under_pressure(bench: Bench, found: TimingFindings) -> None:
    """Measure the clocks of every mode with narrow links and memory ports, and add the table."""
    rows: list[tuple[Cell, ...]] = []
    for case in CASES:
        plain = bench.run(PLAIN, case.where, case.driven)
        for name in modes_of(READ if case.driven.read else SECOND):
            came = bench.run(name, case.where, case.driven)
            clocks = came.clocks_each, exposed(came, plain)
            beats = came.beats_read / came.accesses, came.beats_written / came.accesses
            verdict = judged(case, came, plain)
            rows.append((case.pattern, case.link, case.beat, name, *clocks, *beats, verdict))
            if case.link in FOLLOWED_LINKS:
                found.followed[key(case, name)] = round(came.clocks_each, 3)
    columns = (
        *("pattern", "link", "clocks a beat of memory", "mode", "clocks an access", "exposed %"),
        *("beats read an access", "beats written an access", "0 within noise"),
    )
    notes = (
        "A miss reads its record, the bookkeeping line and planes, and writes that of its victim; "
        "an FP32 contribution writes its line besides. The two directions of the memory port run "
        "at the same time.",
        "noise: a flit or a beat of memory, the longer one, at the first access and at the last.",
    )
    title = f"{_HEAD}: exposed overhead under bandwidth pressure"
    found.tables.append(Table.of(title, columns, rows, notes))


def judged(case: Case, came: Timed, plain: Timed) -> str:
    """Return "met" if a mode takes no more clocks than plain memory within noise, else the excess.

    "" for plain memory itself.
    """
    over = came.clocks_each - plain.clocks_each
    if came is plain:
        return ""
    return "met" if over <= case.noise else f"missed by {over:.2f} clocks"


def key(case: Case, name: str) -> str:
    """Return the name of a mode's clocks per access in the baseline."""
    beat = f", {case.beat} clocks a beat" if case.beat > 1 else ""
    where = f"{case.pattern}, full credits, {case.link}{beat} at {LATENCY}"
    return f"{name}, {where}: clocks an access"


# Many outstanding accesses: clocks over load.

OUTSTANDING = (1, 2, 4, 8, 16, 32, 64)


def over_load(bench: Bench, found: TimingFindings) -> None:
    """Measure clocks per access over the number of outstanding accesses, and add the plots."""
    for access in (LAST, READ):
        loads = {n: replace(loaded_setting(access), outstanding=n) for n in OUTSTANDING}
        lines = _curves(access, loads, lambda *run: bench.run(*run).clocks_each)
        found.plots.append(
            Plot(
                f"{access.name}, all misses: clocks over load, memory latency {LATENCY}",
                *("accesses under way", "clocks an access", tuple(lines)),
                (SUMS_APART,) if access.worker is None else (),
            )
        )


# Latency of each kind of request with full credits, if every access misses, by stage.

LOADED_ACCESSES = (LAST, READ)
HEAD = f"Full credits, all misses, memory latency {LATENCY}"


def loaded_setting(access: Access) -> Setting:
    """Return a setting with full credits and four times as many lines as slots."""
    return Setting(MemoryTiming(LATENCY), access.workers, lines=4 * SLOTS)


def stages_under_load(bench: Bench, found: TimingFindings) -> None:
    """Measure percentiles of the clocks of each access and mode, by stage; add the table."""
    rows: list[tuple[Cell, ...]] = []
    for access in LOADED_ACCESSES:
        where = loaded_setting(access)
        for name in MODES:
            came = bench.run(name, where, access.stimulus(where))
            parts = {**split(came), "whole": came.each.astype(np.int64)}
            rows += [(access.name, name, part, *percentiles(parts[part])) for part in parts]
            key = f"{name}, {access.name}, {where.lines} lines, full credits at {LATENCY}"
            found.followed[f"{key}: clocks an access"] = round(came.clocks_each, 3)
    columns = ("access", "mode", "stage", "least", "median", "95 of 100", "most")
    title = f"{HEAD}: clocks of an access by stage"
    found.tables.append(Table.of(title, columns, rows))


# One access at a time, each a miss: clocks that every mode adds to plain memory.

LATENCIES = (100, 200, 300, 400, 500, 600)
BOUND = 1.67
"""Goal for the exposed overhead in percent if every access misses."""
PLAIN_CLOCKS = 11
"""Clocks of an access to plain memory in addition to the latency."""
BEFORE = ("SL",)
"""Stages of the engine before the memory request; S0 requests in its own clock, as plain memory
does.
"""
BEHIND_WRITE = ("S2",)
"""Stages after the last beat of a record: S0 issues the fill in the clock of that beat, bypassing
S1; S2 applies the contribution, and the completion leaves.
"""
BEHIND_READ = (*BEHIND_WRITE, "S3", "S4")
"""The same for a result: S3 and S4 each compute half of the vote or the sums."""


def lone_setting(access: Access, latency: int = LATENCY) -> Setting:
    """Return a setting with one access at a time and twice as many lines as slots."""
    return Setting(MemoryTiming(latency), access.workers, outstanding=1)


def behind(access: Access) -> tuple[str, ...]:
    """Return the names of the engine's stages after the last beat of the record."""
    return BEHIND_READ if access.worker is None else BEHIND_WRITE


def added(access: Access) -> int:
    """Return the expected clocks of an access over plain memory, by the formula.

    One per stage of the engine before and after memory, and one per plane, the further beats of the
    record.
    """
    return len(BEFORE) + access.planes + len(behind(access))


def formula(access: Access, latency: float) -> float:
    """Return the exposed overhead in percent that the formula predicts at a memory latency."""
    return 100 * added(access) / (latency + PLAIN_CLOCKS)


def one_at_a_time(bench: Bench, found: TimingFindings) -> None:
    """Measure the overhead of each mode and kind of access, one access at a time; add the table."""
    rows: list[tuple[Cell, ...]] = []
    for access in (*ACCESSES, FIRST):
        where = lone_setting(access)
        plain = bench.run(PLAIN, where, access.stimulus(where))
        for name in MODES:
            came = bench.run(name, where, access.stimulus(where))
            over, percent = came.clocks_each - plain.clocks_each, exposed(came, plain)
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
            key = f"{name}, {access.name}, one at a time at {LATENCY}: clocks"
            if access is not FIRST and name == PLAIN:
                found.followed[key] = round(came.clocks_each, 2)
            elif access is not FIRST:
                found.followed[f"{key} over plain memory"] = round(over, 2)
    columns = (
        *(Column("access"), Column("mode"), Column("clocks", 1), Column("over plain", 1)),
        *(Column("exposed %"), Column(f"<= {BOUND} %"), Column("missed %", 0)),
    )
    title = f"One access at a time, memory latency {LATENCY}: exposed overhead"
    note = "missed %: of the engine's lookups; plain memory and IDENTITY have none."
    found.tables.append(Table(title, columns, tuple(rows), (note,)))


def over_latency(bench: Bench, found: TimingFindings) -> None:
    """Measure exposed overhead over memory latency; add plots with the formula."""
    for access in (LAST, READ):
        settings = {latency: lone_setting(access, latency) for latency in LATENCIES}
        lines = [one for one in _curves(access, settings, bench.exposed) if one.name != PLAIN]
        text = f"formula: {added(access)} / (latency + {PLAIN_CLOCKS})"
        points = tuple((float(x), formula(access, x)) for x in LATENCIES)
        lines.append(Line(text, points, formula=True))
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


HELP = "clocks that each mode adds to plain memory, over latency and load"
PARTS: dict[str, Part] = {
    "one at a time": one_at_a_time,
    "latency": over_latency,
    "load": over_load,
    "stages under load": stages_under_load,
    "bandwidth": under_pressure,
}
"""Parts of the measurement, in order."""


def simulator() -> str:
    """Return the name of the simulator that can be built as a library; NfError if not installed."""
    name = next(one.name for one in registry.simulators() if one.links_c)
    return registry.choose(name)[0][0]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = ", ".join(PARTS)
    parser.add_argument("--only", default="", metavar="TEXT", help=f"parts with it: {names}")


def run(args: argparse.Namespace) -> Measured:
    """Build the model, measure every selected part, and return tables, plots and figures."""
    parts = {name: part for name, part in PARTS.items() if args.only in name}
    if not parts:
        raise OptionError(f"--only {args.only!r}", "no part's name has that", "see --help")
    with telling("nf measure figures: building the design with its stage probe"):
        model = bulk_build.build(simulator(), stages=True)
    assert isinstance(model, VerilatedModel)
    found = TimingFindings()
    with tempfile.TemporaryDirectory(prefix="nf-figures-") as folder:
        bench = Bench(model, Path(folder))
        for name, part in parts.items():
            with telling(f"nf measure figures: {name}"):
                part(bench, found)
    beat, *beats = sorted({case.beat for case in CASES})
    (link, flit), *narrow = LINKS.items()
    return Measured(
        set_up=set_up(
            "timing",
            slots=SLOTS,
            beat=beat,
            beats=", ".join(map(str, beats)),
            flit=flit,
            link=link,
            narrow=", ".join(f"{clocks} clocks ({name})" for name, clocks in narrow),
        ),
        tables=tuple(found.tables),
        plots=tuple(found.plots),
        left_out=(
            "banks of the memory: its model has latency, bandwidth and stalls, but no banks",
            "the record initialiser: `nf measure bench misses` measures plain reads while it runs",
        ),
        followed=found.followed,
    )

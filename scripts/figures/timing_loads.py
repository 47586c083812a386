# SPDX-License-Identifier: Apache-2.0
"""Identical accesses in every mode, on the whole controller at flit level, counted in clocks.

A stimulus is a list of (worker, line) pairs: first those that are not counted, then those that are.
Plain memory takes them as ordinary addresses, one per pair; every other mode as a region with that
many workers. Each run starts after a reset.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.line_packing import Mode
from models.nf_regs import REG_MAP
from models.parameters import DeviceParams
from models.regions import SUM16_SELECTOR, RegionConfig
from scripts.benchmarks.miss_loads import commit, read_block, run_block, write_block
from verif.host.bulk_device import VerilatedDevice, VerilatedModel
from verif.host.c_interface import Block, Kind, register_ops
from verif.mem.memory_timing import MemoryTiming

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
        outstanding: maximum number of unanswered accesses; 0: as many as credits allow.
        flit_clocks: clocks per flit in each direction (1, 2 and 4 represent x16, x8 and x4).
    """

    memory: MemoryTiming = AT_300
    workers: int = 8
    lines: int = 2 * SLOTS
    outstanding: int = 0
    flit_clocks: int = 1


@dataclass(frozen=True)
class Stimulus:
    """Places that are written first, then those that are written (or read) and counted."""

    before: tuple[Place, ...]
    counted: tuple[Place, ...]
    read: bool = False


@dataclass(frozen=True)
class Timed:
    """Measurements of the counted accesses.

    Attributes:
        clocks: from the first flit to the last answer.
        each: uint64[n], clocks of every access.
        ended: clock of each answer.
        hits: lookups that hit the slots.
        misses: lookups that missed the slots.
        passed: events of the stage probe, PASSED[m].
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
        """Return the number of counted accesses."""
        return len(self.each)

    @property
    def clocks_each(self) -> float:
        """Return clocks divided by accesses."""
        return self.clocks / self.accesses


def exposed(mode: Timed, plain: Timed) -> float:
    """Return (T_mode - T_plain) / T_plain in percent."""
    return 100 * (mode.clocks - plain.clocks) / plain.clocks


# -- stimuli ------------------------------------------------------------------------------------
def nth_worker(setting: Setting, worker: int) -> Stimulus:
    """Return contributions of one worker (0 is the first) to every line, after all workers before
    it.

    With more lines than slots all of them miss, except those of worker 0, who finds untouched
    lines.
    """
    lines = range(setting.lines)
    before = [(w, i) for w in range(worker) for i in lines]
    return Stimulus(tuple(before), tuple((worker, i) for i in lines))


def results(setting: Setting) -> Stimulus:
    """Return reads of every line's result, after all contributions."""
    lines = range(setting.lines)
    before = [(w, i) for w in range(setting.workers) for i in lines]
    return Stimulus(tuple(before), tuple((0, i) for i in lines), read=True)


def tiles(setting: Setting, tile: int) -> Stimulus:
    """Return all contributions: each worker in turn writes a tile of lines, then the next tile."""
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
    """Drive a stimulus in the named mode. Raise AssertionError if an answer is poisoned."""
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
    """Wait until memory is idle: evictions may follow the last answer."""
    block = read_block(None, [(0, 0)] * 4)
    block.ops["after"] = np.arange(len(block.ops))
    run_block(device, block)


def _places(places: Sequence[Place], config: RegionConfig | None, setting: Setting) -> list[Place]:
    """Return (selector, line) pairs; ordinary addresses are consecutive."""
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
    """Return the hits and misses that the device has counted."""
    poll = Block.of(register_ops(Kind.REG_READ, [(address, 0) for address in _COUNTERS]))
    device.run(poll)
    return poll.value(0), poll.value(1)

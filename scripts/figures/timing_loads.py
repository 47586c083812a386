# SPDX-License-Identifier: Apache-2.0
"""The same accesses in every mode, on the whole controller at flit level, counted in clocks.

A stimulus is a list of (worker, line) pairs: those that come before, which are not counted, and
those that are. Plain memory takes them as ordinary addresses, one a pair; every other mode as a
region of so many workers. Each run begins with a device that has just been reset.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
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
"""What is measured side by side, by name; None: no region."""
LOW_BIT = tuple(name for name, mode in MODES.items() if mode is not None and mode.low_bit)
WINDOWS = 1 << 36
SLOTS = DeviceParams().slots
AT_300 = MemoryTiming(300)
_COUNTERS = [REG_MAP.expand()[name].address for name in ("SLOT_HIT", "SLOT_MISS")]


@dataclass(frozen=True)
class Setting:
    """``outstanding``: accesses that are not answered, at most; 0: as many as credits allow.
    ``flit_clocks``: a flit takes so many clocks each way (1, 2 and 4 stand for x16, x8 and x4)."""

    memory: MemoryTiming = AT_300
    workers: int = 8
    lines: int = 2 * SLOTS
    outstanding: int = 0
    flit_clocks: int = 1

    def at(self, latency: int) -> Setting:
        """The same with another latency of the memory."""
        return replace(self, memory=self.memory.at(latency))


@dataclass(frozen=True)
class Stimulus:
    """Places written before, then those that are written (or read) and counted."""

    before: tuple[Place, ...]
    counted: tuple[Place, ...]
    read: bool = False


@dataclass(frozen=True)
class Timed:
    """What the counted accesses took: ``clocks`` from the first flit to the last answer, ``each``
    uint64[n] of every access; lookups that hit and missed the slots; beats at the memory port;
    ``passed``: what the stage probe saw, PASSED[m]; ``ended``: clock of each answer."""

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
        """How many were counted."""
        return len(self.each)

    @property
    def clocks_each(self) -> float:
        """Clocks divided by accesses."""
        return self.clocks / self.accesses


def exposed(mode: Timed, plain: Timed) -> float:
    """(T_mode - T_plain) / T_plain in percent."""
    return 100 * (mode.clocks - plain.clocks) / plain.clocks


# -- stimuli ------------------------------------------------------------------------------------
def nth_worker(setting: Setting, worker: int) -> Stimulus:
    """Contributions of one worker (0 is the first) to every line, the workers before it done. With
    more lines than slots none finds its line on chip, but those of worker 0, who finds a line that
    nobody has touched."""
    lines = range(setting.lines)
    before = [(w, i) for w in range(worker) for i in lines]
    return Stimulus(tuple(before), tuple((worker, i) for i in lines))


def results(setting: Setting) -> Stimulus:
    """Reads of every line's result, all contributions done."""
    lines = range(setting.lines)
    before = [(w, i) for w in range(setting.workers) for i in lines]
    return Stimulus(tuple(before), tuple((0, i) for i in lines), read=True)


def tiles(setting: Setting, tile: int) -> Stimulus:
    """All contributions: each worker in turn writes a tile of lines, then the next tile."""
    order = [
        (worker, line)
        for at in range(0, setting.lines, tile)
        for worker in range(setting.workers)
        for line in range(at, min(at + tile, setting.lines))
    ]
    return Stimulus((), tuple(order))


def skewed(setting: Setting, skew: int) -> Stimulus:
    """All contributions: the workers take turns line by line, each so many lines behind the one
    before it."""
    steps = range(setting.lines + skew * (setting.workers - 1))
    order = [
        (worker, step - worker * skew)
        for step in steps
        for worker in range(setting.workers)
        if 0 <= step - worker * skew < setting.lines
    ]
    return Stimulus((), tuple(order))


# -- a run --------------------------------------------------------------------------------------
def timed(
    model: VerilatedModel, folder: Path, name: str, setting: Setting, stimulus: Stimulus
) -> Timed:
    """Drive a stimulus in the mode of that name; AssertionError when an answer is poisoned."""
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
    """Wait until memory has nothing to do: evictions are on their way behind the last answer."""
    block = read_block(None, [(0, 0)] * 4)
    block.ops["after"] = np.arange(len(block.ops))
    run_block(device, block)


def _places(places: Sequence[Place], config: RegionConfig | None, setting: Setting) -> list[Place]:
    """(selector, line) pairs; ordinary addresses are one behind the other."""
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
    """Hits and misses that the device has counted."""
    poll = Block.of(register_ops(Kind.REG_READ, [(address, 0) for address in _COUNTERS]))
    device.run(poll)
    return poll.value(0), poll.value(1)

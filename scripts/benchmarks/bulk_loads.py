# SPDX-License-Identifier: Apache-2.0
"""Loads of bulk transport and their clocks: each runs on a device that has just been reset."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from models.line_packing import LINE_BYTES
from models.modes import Mode
from models.parameters import DeviceParams
from models.regions import RegionConfig
from models.register_map import REG_MAP
from neuron_fabric.capacity.cost_model import TILE
from scripts.build import registry
from scripts.common.arguments import up_to
from scripts.common.paths import BUILD
from scripts.run.replay_simulators import Simulators
from verif.host.bulk_device import BulkDevice, BulkModel
from verif.host.c_interface import POISON, Block, Kind, operations, register_ops
from verif.mem.memory_timing import MemoryTiming
from verif.replay.bulk.epoch_block import commit_ops

Place = tuple[int, int]
"""Selector (worker), line."""
Beside = Literal["nothing", "initialiser", "contributions", "votes"]

HIT_LINES, HIT_WORKERS = 16, (16, 48)
ONES = 200
"""Accesses that are measured one at a time."""
SCATTERED = 512
"""Lines of the stream in a drawn order."""
LEAST_LINES = 1024
"""Lines a worker: so many that ONES of them are the worker's own and cannot all be in slots."""
LARGE_LOG2 = 18
"""Lines of the region whose initialiser is in the way: its state is the upper half of memory."""
LATE = 32
"""Clocks of a block after its last answer."""
_STATUS = REG_MAP.expand()["STATUS"]
_INIT_BUSY = _STATUS.field("INIT_BUSY")
_MEMORY = DeviceParams().mem_lines
_PLAIN = _MEMORY // 4
"""First line of plain memory; state areas of what is measured are below."""
_WINDOWS = 1 << 36


@dataclass(frozen=True)
class BulkLoads:
    """Loads over ``lines`` memory lines a worker, on simulated devices with a given memory timing.

    Each method makes a device of ``model``, drives one load and returns its clocks or a rate.
    """

    model: BulkModel
    folder: Path
    memory: MemoryTiming
    lines: int

    def hits(self, write: bool) -> float:
        """Return lines a clock of contributions (`write`) or votes on lines that are all in slots.

        It is what more workers add: without the first answer's latency, in whole periods of the
        packing.
        """
        few, many = (self._hits(write, workers) for workers in HIT_WORKERS)
        return (HIT_WORKERS[1] - HIT_WORKERS[0]) * HIT_LINES / (many - few)

    def _hits(self, write: bool, workers: int) -> int:
        config = self._region(Mode.G_BINARY, 64, HIT_LINES)
        rest = [(w, i) for w in range(1, workers) for i in range(HIT_LINES)]
        made = write_block(config, rest) if write else read_block(config, [(0, i) for _, i in rest])
        return self._clocks(config, _worker(0, HIT_LINES), made)

    def stream(self, tile: int = TILE) -> float:
        """Return lines a clock of contributions: 8 workers write a tile in turn, then the next."""
        return 8 * self.lines / self.bucket(Mode.G_BINARY, 8, (), tile)

    def scattered(self) -> float:
        """Return clocks a contribution of 8 workers to 512 lines, in an order drawn with seed 1."""
        config = self._region(Mode.G_BINARY, 8, SCATTERED)
        places = [(worker, line) for worker in range(8) for line in range(SCATTERED)]
        order = np.random.default_rng(1).permutation(len(places))
        made = write_block(config, [places[at] for at in order])
        return self._clocks(config, [], made) / len(places)

    def bucket(self, mode: Mode, workers: int, read: Sequence[int], tile: int = TILE) -> int:
        """Return the clocks of a bucket, driven in tiles of lines.

        Args:
            mode: Mode of the region.
            workers: Number of workers, which all contribute to each line.
            read: Selectors of each line that each worker reads after the contributions of the next
                tile.
            tile: Lines of a tile.
        """
        config = self._region(mode, workers, self.lines)
        places = self._tiles(range(workers), tile)
        made = [write_block(config, places)]
        turn = [2 * (line // tile) for _, line in places]
        if read:
            places = self._tiles([selector for _ in range(workers) for selector in read], tile)
            made.append(read_block(config, places))
            turn += [2 * (line // tile) + 3 for _, line in places]
        order = np.argsort(turn, kind="stable")
        ops = np.concatenate([one.ops for one in made])[order]
        return self._clocks(config, [], Block.of(ops, made[0].sent, len(made[-1].got)))

    def commit(self) -> int:
        """Return the clocks of a commit with the writes of its descriptor's registers."""
        with closing(self._device()) as device:
            before = device.figures().cycles
            commit(device, 0, self._region(Mode.G_BINARY, 8, self.lines), wait=False)
            return device.figures().cycles - before - LATE

    def read_once(self) -> float:
        """Return clocks a line of reading votes of lines that all have been written and evicted."""
        config = self._region(Mode.G_BINARY, 8, self.lines)
        made = read_block(config, _worker(0, self.lines))
        return self._clocks(config, self._tiles(range(8), TILE), made) / self.lines

    def plain(self, write: bool) -> float:
        """Return clocks a line of writes or reads of ordinary memory."""
        made = (write_block if write else read_block)(None, _worker(0, self.lines))
        return self._clocks(None, [], made) / self.lines

    def misses(self, mode: Mode, workers: int, first: bool = False) -> float:
        """Return clocks a line of contributions that all miss the slots.

        With ``first`` no worker has contributed to these lines in this epoch.
        """
        config, before = self._region(mode, workers, self.lines), _worker(0, self.lines)
        made = write_block(config, before if first else _worker(1, self.lines))
        return self._clocks(config, [] if first else before, made) / self.lines

    def alone(self, mode: Mode, workers: int, first: bool = False) -> float:
        """Return the median clocks of a write at the link, one write at a time.

        With ``first`` no worker has contributed to these lines in this epoch.
        """
        config = self._region(mode, workers, self.lines)
        block = write_block(config, _worker(0 if first else 1, ONES))
        block.ops["after"] = np.arange(ONES)
        self._clocks(config, [] if first else _worker(0, self.lines), block)
        return float(np.median(block.clocks()))

    def plain_read(self, beside: Beside) -> float:
        """Return the clocks of the slowest plain read, one at a time, with another stream.

        The other stream runs in parallel (see `Beside`).
        """
        return float(self._beside(beside, one_at_a_time=True).clocks()[:ONES].max())

    def plain_rate(self, beside: Beside) -> float:
        """Return clocks a line of plain reads with full credits, parallel to another stream."""
        ended = self._beside(beside, one_at_a_time=False).ended()[:ONES]
        skip = ONES // 4  # the queues fill up
        return float(ended[-1] - ended[skip]) / (ONES - 1 - skip)

    def _clocks(self, config: RegionConfig | None, before: list[Place], block: Block) -> int:
        """Return the clocks of a block on a new device, after contributions to `before`."""
        with closing(self._device(config)) as device:
            if before:
                run_block(device, write_block(config, before))
            return run_block(device, block)

    def _beside(self, beside: Beside, one_at_a_time: bool) -> Block:
        """Run plain reads in parallel with another stream.

        Returns:
            The block, which begins with the ONES plain reads.
        """
        reads = read_block(None, _worker(0, ONES))
        if one_at_a_time:
            reads.ops["after"] = np.arange(ONES)
        config, every = self._region(Mode.G_BINARY, 8, self.lines), _worker(0, self.lines)
        with closing(self._device(config)) as device:
            run_block(device, write_block(config, every))
            if beside == "nothing":
                run_block(device, reads)
                return reads
            if beside == "initialiser":  # and what the host writes to its region meanwhile
                large = RegionConfig(
                    *(1 << 40, _MEMORY // 2 * LINE_BYTES, LARGE_LOG2, 1, Mode.G_BINARY)
                )
                commit(device, 1, large, wait=False)
                other = write_block(large, every)
            elif beside == "contributions":
                other = write_block(config, [(w, i) for w in range(1, 8) for _, i in every])
            else:
                other = read_block(config, every * 7)
                other.ops["line"] = len(reads.got) + np.arange(len(other.got))
            both = Block.of(
                np.concatenate([reads.ops, other.ops]),
                other.sent,
                len(reads.got) + len(other.got),
                beside=len(reads.ops),
            )
            run_block(device, both)
            return both

    def _region(self, mode: Mode, workers: int, lines: int) -> RegionConfig:
        return RegionConfig(_WINDOWS, 0, (lines - 1).bit_length(), workers, mode)

    def _device(self, config: RegionConfig | None = None) -> BulkDevice:
        device = self.model.open(self.folder, DeviceParams().mem_lines_log2, 1, self.memory)
        if config is not None:
            commit(device, 0, config, wait=True)
        return device

    def _tiles(self, selectors: Sequence[int], tile: int) -> list[Place]:
        return [
            (selector, line)
            for at in range(0, self.lines, tile)
            for selector in selectors
            for line in range(at, min(at + tile, self.lines))
        ]


def add_device(parser: argparse.ArgumentParser, lines: int) -> None:
    """Add `--sim` and `--lines`, with that many lines a worker by default."""
    sims, number = registry.names(), up_to(1 << 14, first=LEAST_LINES)
    parser.add_argument("--sim", choices=sims, default=sims[0], help="simulator")
    text = f"lines a worker ({lines})"
    parser.add_argument("--lines", type=number, default=lines, metavar="N", help=text)


@contextmanager
def benches(sim: str) -> Iterator[Callable[[MemoryTiming, int], BulkLoads]]:
    """Context that builds the design.

    Its value is a function that returns the BulkLoads for a memory timing and a number of lines a
    worker.
    """
    files = BUILD / "bench" / "misses"
    model = Simulators(files=files, command="nf measure").bulk(sim, {})
    with tempfile.TemporaryDirectory(prefix="nf-bench-") as folder:
        yield lambda memory, lines: BulkLoads(model, Path(folder), memory, lines)


def _worker(worker: int, lines: int) -> list[Place]:
    return [(worker, line) for line in range(lines)]


def _addresses(config: RegionConfig | None, places: list[Place]) -> NDArray[Any]:
    """Return the byte addresses of (selector, line) pairs; without a region in plain memory."""
    pairs = np.array(places, np.uint64)
    if config is None:
        return (np.uint64(_PLAIN) + pairs[:, 1]) * np.uint64(LINE_BYTES)
    offset = (pairs[:, 0] << np.uint64(config.lines_log2)) + pairs[:, 1]
    return np.uint64(config.base) + offset * np.uint64(LINE_BYTES)


def write_block(config: RegionConfig | None, places: list[Place]) -> Block:
    """Return operations that write to each (worker, line), with 64 random lines of data in turn."""
    sent = np.random.default_rng(1).integers(0, 256, (64, LINE_BYTES), np.uint8)
    ops = operations(len(places), Kind.WRITE)
    ops["address"] = _addresses(config, places)
    ops["line"] = np.arange(len(places)) % len(sent)
    return Block.of(ops, sent)


def read_block(config: RegionConfig | None, places: list[Place]) -> Block:
    ops = operations(len(places), Kind.READ)
    ops["address"] = _addresses(config, places)
    ops["line"] = np.arange(len(places))
    return Block.of(ops, got_lines=len(places))


def run_block(device: BulkDevice, block: Block) -> int:
    """Drive a block and return its clocks; raise AssertionError if an answer is poisoned."""
    before = device.figures().cycles
    device.run(block)
    if (block.answers & POISON).any() and block.ops["kind"][0] <= Kind.READ:
        raise AssertionError("an answer is poisoned: this measures nothing")
    return device.figures().cycles - before - LATE


def commit(device: BulkDevice, region: int, config: RegionConfig, wait: bool) -> None:
    """Commit a region, and with ``wait`` poll until its records are initialised."""
    device.run(Block.of(commit_ops(region, config, 1)))
    while wait:
        poll = Block.of(register_ops(Kind.REG_READ, [(_STATUS.address, 0)]))
        device.run(poll)
        wait = bool(_INIT_BUSY.extract(poll.value(0)))

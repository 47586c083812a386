# SPDX-License-Identifier: Apache-2.0
"""RTL in a simulator as the device of a reducer server, over the bulk transport; all results
checked.

Each of the modes of a job (three at most) has two regions, used alternately: contributions carry no
epoch, so the lines of a round must be read before the next round writes to the same place. A job
with other modes than the last restarts the device. A bucket that is larger than a region is split
into rounds. Lines on which some workers abstain form separate rounds, with a region for the workers
that contribute: a region has no notion of an abstaining worker.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.line_packing import LINE_BYTES, U8
from models.modes import Mode, Tie, elements_per_line
from models.parameters import DeviceParams
from models.regions import MAX_WORKERS, RegionConfig
from models.register_map import REG_MAP
from neuron_fabric.capture import TensorSpec
from neuron_fabric.errors import CaptureError
from verif.host.bulk_device import BulkDevice, BulkFault, BulkModel, DeviceGone, IcarusModel
from verif.host.c_interface import Block, Kind, register_ops
from verif.replay.bulk.epoch_block import EpochBlock, LinePlaces
from verif.replay.epoch import EpochLines
from verif.replay.line_check import judge
from verif.replay.options import EPOCH_LINES_LOG2, ReplayOptions
from verif.replay.plan import Extent, Placement, Plan, RegionUse, log2_up, one_size, selectors
from verif.serve.served_bucket import OF_VOTES, Counts, ServedBucket, Stretch
from verif.serve.served_device import DeviceError, DeviceLost, put

IN_TURN = 2
OPEN_S, ROUND_S = 20.0, 10.0
"""Seconds on a busy machine to start a simulator, and for commits and registers of a round in a
separate process. Without this allowance a slow simulator is killed for every bucket and never
starts.
"""
CAP_MOST = 256
"""Largest window of the device's capacity check: contributions among which it counts misses."""
SEVERE = 3
"""DevLoad code of severe overload."""
_ADDRESS = {name: REG_MAP.expand()[name].address for name in ("CAP_WINDOW", "CAP_THRESHOLD")}
_FALLBACK = REG_MAP.expand()["FALLBACK"].address


@dataclass(frozen=True)
class FallbackLimit:
    """Limit of the device's capacity check (`nf serve --capacity MISSES/WINDOW`).

    A region raises FALLBACK at more than ``misses`` slot misses among its last ``window``
    contributions.
    """

    misses: int
    window: int

    def __post_init__(self) -> None:
        """Raise ValueError unless 0 <= misses < window <= CAP_MOST."""
        if not 0 <= self.misses < self.window <= CAP_MOST:
            what = f"{self.misses} misses of {self.window} contributions"
            raise ValueError(f"{what}: there are 1 to {CAP_MOST}, and fewer misses")


Indexed = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Lines with equally many contributors: their indices int64[n] among the lines of a worker in the
bucket, and the contributors int64[workers, n]: worker w of the region is who[w, i] for line i."""


def place(
    params: DeviceParams, workers: int, of_job: tuple[Mode, ...] = OF_VOTES
) -> dict[Mode, tuple[RegionConfig, ...]]:
    """Return two regions per mode of a job, as large as the device's memory allows.

    Args:
        params: Parameters of the device.
        workers: Number of workers of the job.
        of_job: Modes of the job.

    Raises:
        DeviceError: Too many workers or modes, or one line per mode does not fit.
    """
    placement = Placement(params, workers, Tie.PLUS, 1)
    modes = [mode for mode in of_job for _ in range(IN_TURN)]
    if workers > min(MAX_WORKERS, params.cnt_max):
        what = f"counters of {params.cnt_w} bits and regions of {MAX_WORKERS}"
        raise DeviceError(f"{workers} workers: the device has {what}; use fewer workers")
    if len(modes) > params.regions:
        raise DeviceError(
            f"{len(of_job)} routes take {len(modes)} regions, the device has {params.regions}; "
            f"use one with REGIONS={len(modes)}"
        )
    with suppress(CaptureError):  # a line of a single mode does not fit
        configs = one_size(modes, placement, EPOCH_LINES_LOG2)
        if configs is not None:
            return {mode: configs[n * IN_TURN : (n + 1) * IN_TURN] for n, mode in enumerate(of_job)}
    least = sum(placement.area(mode, 0) for mode in modes)
    raise DeviceError(
        f"no room: a line of each route takes {least} lines of memory with {workers} workers, the "
        f"device has {params.mem_lines}; use one with MEM_LINES_LOG2={log2_up(least)}"
    )


def rounds(bucket: ServedBucket, size: int) -> Iterator[tuple[int, dict[Mode, Indexed]]]:
    """Split a bucket into rounds of at most ``size`` lines per mode, one epoch of the device each.

    Lines of a round have equally many contributors; lines without any are left out.

    Yields:
        Number of workers that contribute to each line, and the lines by mode.
    """
    split = {stretch.mode: _by_number(stretch, len(bucket.sent)) for stretch in bucket.stretches}
    for workers in sorted({m for groups in split.values() for m in groups if m}, reverse=True):
        groups = {mode: own[workers] for mode, own in split.items() if workers in own}
        for first in range(0, max(len(lines) for lines, _ in groups.values()), size):
            at = slice(first, first + size)
            now = {m: (lines[at], who[:, at]) for m, (lines, who) in groups.items()}
            yield workers, {mode: one for mode, one in now.items() if len(one[0])}


def _by_number(stretch: Stretch, workers: int) -> dict[int, Indexed]:
    """Group the lines of a stretch by the number of their contributors."""
    if stretch.present is None:
        who = np.repeat(np.arange(workers)[:, None], len(stretch.lines), axis=1)
        return {workers: (stretch.lines, who)}
    out = {}
    number = stretch.present.sum(axis=0)
    for m in np.unique(number):
        chosen = number == m
        ranks = np.argsort(~stretch.present[:, chosen], axis=0, kind="stable")[:m]
        out[int(m)] = (stretch.lines[chosen], ranks)
    return out


def _places(bucket: ServedBucket, parts: dict[Mode, Indexed]) -> LinePlaces:
    """Return the indices of a round's lines in the shared memory, for a device that reads it."""
    room = bucket.sent.shape[1]
    at = [(who * room + lines).reshape(-1) for lines, who in parts.values()]
    return LinePlaces(bucket.sent.reshape(-1, LINE_BYTES), np.concatenate(at))


class RtlDevice:
    """Device of a server that reduces by the RTL in a simulator, and checks every result.

    The driver, the reducers and the counters must agree; see `ServedDevice`.
    """

    def __init__(
        self,
        model: BulkModel,
        folder: Path,
        simulator: str,
        workers: int,
        options: ReplayOptions | None = None,
        capacity: FallbackLimit | None = None,
        apart: bool = False,
    ) -> None:
        """Start the simulator.

        Args:
            model: Design, built for bulk replay with the parameters of ``options``.
            folder: Folder for files of the simulator.
            simulator: Name of the simulator.
            workers: Number of workers of a job.
            options: Parameters of the device, seed and memory timing.
            capacity: Limit above which regions raise FALLBACK; None: never.
            apart: Send all lines of a worker before those of the next one; see `EpochBlock.of`.

        Raises:
            DeviceError: The device does not start, or has no room.
        """
        self._options = options or ReplayOptions()
        self.params, self._simulator = self._options.device, simulator
        self._model, self._folder = model, folder
        self._piped = isinstance(model, IcarusModel)  # a separate and slow process
        self._apart = apart
        self._workers = workers
        self._modes: tuple[Mode, ...] = OF_VOTES
        self._place()
        self._epoch = self._turn = 0
        self._capacity = capacity
        self._device: BulkDevice | None = None
        try:
            self._opened()
        except BulkFault as fault:
            raise DeviceError(self._line(fault)) from None

    def _place(self) -> None:
        self._regions = place(self.params, self._workers, self._modes)
        self._size = min(own[0].lines for own in self._regions.values())

    @property
    def name(self) -> str:
        """Kind of the device with its simulator, for example "rtl (verilator)", for messages."""
        return f"rtl ({self._simulator})"

    def reduce(self, bucket: ServedBucket) -> Counts:
        """Reduce a bucket in rounds and return the device's counters; see `ServedDevice`.

        A bucket with modes that the regions lack restarts the device with other regions.
        """
        counts = Counts()
        for stretch in bucket.stretches:
            bucket.got[:, stretch.lines] = 0
        if not self._has(bucket):  # regions of a running device cannot be moved
            self.close()
            self._modes = bucket.modes
            self._place()
        try:
            before = self._opened().figures()
            for workers, parts in rounds(bucket, self._size):
                self._drive(bucket, workers, parts)
                counts.rounds += 1
                counts.fallback |= self._fallen()
            after = self._opened().figures()
        except DeviceGone as gone:
            self.close()
            raise DeviceLost(self._line(gone)) from None
        except BulkFault as fault:
            raise DeviceError(self._line(fault)) from None
        counts.cycles = after.cycles - before.cycles
        loads = [now - then for now, then in zip(after.devload, before.devload)]
        counts.answers, counts.severe = sum(loads), loads[SEVERE]
        return counts

    def seconds(self, bucket: ServedBucket) -> float:
        """Return the time limit of a bucket in seconds, with a start of the device if needed."""
        rest = 0.0 if self._device is not None and self._has(bucket) else OPEN_S
        slow = ROUND_S + bucket.contributions / 20
        return rest + (slow if self._piped else bucket.contributions / 2000)

    def interrupt(self) -> None:
        """Kill the simulator; see `ServedDevice`."""
        if self._device is not None:
            self._device.interrupt()

    def close(self) -> None:
        """Close the simulator, if it runs; see `ServedDevice`."""
        device, self._device = self._device, None
        if device is not None:
            device.close()

    def _has(self, bucket: ServedBucket) -> bool:
        """Return True if the present regions have the modes of the bucket's job."""
        return set(bucket.modes) <= set(self._modes)

    def _opened(self) -> BulkDevice:
        """Return the running device; start a simulator if there is none or the last one died.

        Raises:
            DeviceGone: The simulator ended during its start.
            BulkFault: It failed in another way.
        """
        if self._device is None:
            log2, seed = self.params.mem_lines_log2, self._options.seed
            self._device = self._model.open(self._folder, log2, seed, self._options.memory)
            if self._capacity is not None:
                words = (self._capacity.window, self._capacity.misses)
                writes = list(zip(_ADDRESS.values(), words, strict=True))
                self._device.run(Block.of(register_ops(Kind.REG_WRITE, writes)))
        return self._device

    def _fallen(self) -> int:
        """Return 1 if a region raised FALLBACK since the last call, else 0; clear the flags."""
        if self._capacity is None:
            return 0
        device, poll = self._opened(), Block.of(register_ops(Kind.REG_READ, [(_FALLBACK, 0)]))
        device.run(poll)
        regions = poll.value(0)
        if regions:  # write 1 to clear
            device.run(Block.of(register_ops(Kind.REG_WRITE, [(_FALLBACK, regions)])))
        return int(regions != 0)

    def _drive(self, bucket: ServedBucket, workers: int, parts: dict[Mode, Indexed]) -> None:
        """Drive a round through the device, check its results, and store them in the bucket.

        Raises:
            DeviceError: A line differs from the reducers, or a counter is wrong.
        """
        device = self._opened()
        work = self._work(bucket, workers, parts)
        places = None if self._piped else _places(bucket, parts)
        block = EpochBlock.of(work, self._options.seed, places, self._apart)
        device.run(block.block)
        mismatch = judge(work).first
        if mismatch is not None:
            raise DeviceError(self._line(mismatch.text))
        for text in block.problems():
            raise DeviceError(self._line(text))
        for (mode, (lines, _)), got in zip(parts.items(), work.got):
            put(bucket, lines, mode, got)

    def _work(self, bucket: ServedBucket, workers: int, parts: dict[Mode, Indexed]) -> EpochLines:
        self._epoch += 1
        self._turn ^= 1
        uses = tuple(
            self._use(bucket, mode, workers, len(lines)) for mode, (lines, _) in parts.items()
        )
        sent = tuple(bucket.sent[who, lines] for lines, who in parts.values())
        size = sum(use.lines * len(use.selectors) for use in uses)
        returned: U8 = np.zeros((size, LINE_BYTES), np.uint8)
        plan = Plan(self.params, workers, ())
        return EpochLines(bucket.step, self._epoch, self._epoch, plan, uses, sent, returned)

    def _use(self, bucket: ServedBucket, mode: Mode, workers: int, count: int) -> RegionUse:
        whole = self._regions[mode][self._turn]
        config = replace(whole, workers=workers, lines_log2=log2_up(count))
        spec = TensorSpec(f"of bucket {bucket.bucket}", (count * elements_per_line(mode),))
        region = self._modes.index(mode) * IN_TURN + self._turn
        chosen = selectors(mode, config, self.params)
        return RegionUse(region, config, (Extent(spec, 0, count),), mode, chosen)

    def _line(self, text: object) -> str:
        return f"{self._simulator}: {' '.join(str(text).split())[:600]}"

# SPDX-License-Identifier: Apache-2.0
"""Bulk transport of a replay: epochs as blocks through the C++ host, and the cause of a wrong
line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cocotbext.cxl.wire.messages import DevLoad
from models.regions import PLANE_SELECTOR, SUM16_SELECTOR
from neuron_fabric.output import write_text
from verif.coverage.cover_model import FUNCTIONAL, CoverModel
from verif.coverage.device_coverage import NfCoverage
from verif.host.bulk_device import BulkDevice, BulkFault, BulkModel
from verif.host.c_interface import ANSWERED, DEVLOAD_SHIFT, Figures, Kind
from verif.replay.bulk.epoch_block import EpochBlock, epoch_operations
from verif.replay.bulk.localize import localize
from verif.replay.epoch import Key
from verif.replay.line_check import Mismatch
from verif.replay.runner import Driven, ReplayStop, Transport
from verif.replay.stimulus_file import Stimulus

STIMULUS_FILE = "stimulus.json"
METRICS_FILE = "metrics.json"
"""Functional coverage, in the format of a test of the runner."""


class EpochFault(BulkFault):
    """Fault of the device while an epoch was driven; ``block`` is the epoch."""

    def __init__(self, block: EpochBlock, fault: BulkFault) -> None:
        work = block.work
        super().__init__(f"step {work.step} round {work.number}: {fault}")
        self.block = block


@dataclass
class BulkTransport(Transport):
    """Bulk transport of a replay; devices are opened by ``model``.

    Attributes:
        model: Compiled RTL.
        ahead: Whether the device is simulated on a second core, while the next epoch is prepared
            and the last one judged.
        coverage: Functional coverage of all devices.
        again: Returns the command that drives a stimulus, to be printed; None: nothing is printed.
        adopted: Numbers of the pieces that other processes drove.
    """

    model: BulkModel
    ahead: bool = True
    """Simulate on a second core: prepare the next epoch and judge the last one meanwhile."""
    coverage: CoverModel = field(default_factory=lambda: NfCoverage().model)
    again: Callable[[Path], str] | None = None
    """Returns the printed command that drives a stimulus; None: nothing is printed."""
    adopted: set[int] = field(default_factory=set)
    """Numbers of the pieces that other processes drove."""
    _last: EpochBlock | None = None

    def __post_init__(self) -> None:
        self.build_seconds = self.model.build_seconds

    def session(self, keys: Sequence[Key]) -> Generator[Driven, None, None]:
        """Drive epochs in order on a fresh device; see `Transport.session`.

        A fault of the device leaves a stimulus file with the transactions of the epoch.
        """
        options, coverage = self.replay.options, NfCoverage()  # hits of one device
        blocks = (EpochBlock.of(self.replay.epoch(key), options.seed) for key in keys)
        try:
            with closing(self._fresh()) as device:
                drive = stream if self.ahead else one_by_one
                with closing(drive(device, blocks)) as done:
                    for block, cycles in done:
                        self._last = block
                        yield Driven(block.work, block.figures(cycles), block.problems())
                        _sample(coverage, block)
                _sample_memory(coverage, device.figures())
        except EpochFault as fault:
            note = _one_line(fault)
            operations = epoch_operations(fault.block)
            stimulus = Stimulus(note, options.parameters, options.seed, operations, options.memory)
            self._leave(stimulus)
            raise ReplayStop(note) from None
        except BulkFault as fault:  # before the first epoch
            raise ReplayStop(_one_line(fault)) from None
        finally:
            self.coverage.add(coverage.finished().hits())

    def _fresh(self) -> BulkDevice:
        options = self.replay.options
        log2, seed = options.device.mem_lines_log2, options.seed
        return self.model.open(self.folder, log2, seed, options.memory)

    def stop(self, driven: Driven, found: Mismatch | None) -> None:
        """Search for the worker of a wrong line, write a stimulus file, and raise ReplayStop.

        See `Transport.stop`.
        """
        if found is None:
            raise ReplayStop("; ".join(driven.problems[:3]))
        assert self._last is not None
        cause, stimulus = localize(found, self._last, self._fresh, self.replay.options)
        if stimulus is not None:
            self._leave(stimulus)
        raise ReplayStop(f"{found.text}; {cause}")

    def _leave(self, stimulus: Stimulus) -> None:
        stimulus.write(self.folder / STIMULUS_FILE)

    def finish(self) -> None:
        """Write functional coverage, and add the command that drives a stimulus to the hints."""
        path = self.folder / STIMULUS_FILE
        if self.faults and path.is_file() and self.again is not None:
            self.hints.append(f"at signal level: {self.again(path)} --waves")
        metrics = {FUNCTIONAL: self.coverage.hits()}
        write_text(self.folder / METRICS_FILE, json.dumps(metrics, indent=1))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:600]


# -- epochs through a device: while one is simulated, the last is judged, the next is prepared ----
def stream(
    device: BulkDevice, blocks: Iterable[EpochBlock]
) -> Generator[tuple[EpochBlock, int], None, None]:
    """Drive epochs in order, and yield each with its number of cycles.

    While one is simulated in a second thread, the iterable is read one epoch ahead. An exception of
    the iterable, of the device or of the consumer ends the stream, and interrupts the epoch in
    progress if the device supports it.
    """
    with ThreadPoolExecutor(1, "simulator") as pool:
        try:
            started: tuple[EpochBlock, Future[int]] | None = None
            for block in blocks:
                finished = (started[0], started[1].result()) if started is not None else None
                started = block, pool.submit(_run, device, block)
                if finished is not None:
                    yield finished
            if started is not None:
                yield started[0], started[1].result()
        except BaseException:
            device.interrupt()
            raise


def one_by_one(
    device: BulkDevice, blocks: Iterable[EpochBlock]
) -> Generator[tuple[EpochBlock, int], None, None]:
    """Drive epochs in order on one core, and yield each with its number of cycles."""
    try:
        for block in blocks:
            yield block, _run(device, block)
    except BaseException:
        device.interrupt()
        raise


def _run(device: BulkDevice, block: EpochBlock) -> int:
    """Drive one epoch, and return its number of cycles.

    Raises:
        EpochFault: The device has a fault.
    """
    before = device.figures().cycles
    try:
        device.run(block.block)
    except BulkFault as fault:
        raise EpochFault(block, fault) from None
    return device.figures().cycles - before


# -- functional coverage: the bins of the environment, filled an epoch at a time ----------------
def _sample(coverage: NfCoverage, done: EpochBlock) -> None:
    """Count the coverage bins that a driven epoch hits."""
    ops, answers, plan = done.block.ops, done.block.answers, done.work.plan
    hit = coverage.model.hit
    kinds = ops["kind"]
    link = kinds <= Kind.READ
    hit("opcode", "RwD MEM_WR", times=int((kinds == Kind.WRITE).sum()))
    hit("opcode", "Req MEM_RD", times=int((kinds == Kind.READ).sum()))
    for ldid, hits in enumerate(np.bincount(ops["ldid"][link], minlength=16)):
        hit("ldid", str(ldid), times=int(hits))
    loads = (answers[link] & ~ANSWERED) >> np.uint64(DEVLOAD_SHIFT) & np.uint64(3)
    for load, hits in enumerate(np.bincount(loads.astype(np.int64), minlength=4)):
        hit("devload", DevLoad(load).name, times=int(hits))
    for use in done.work.uses:
        mode = use.config.mode
        coverage.epoch.committed(use.region, use.config, done.work.epoch, 0, busy=False)
        hit("access", f"write {mode.name}", times=use.lines * plan.workers)
        for selector in use.selectors:
            plane = f"plane {selector - PLANE_SELECTOR}"
            what = plane if selector < SUM16_SELECTOR else "sum"
            what = what if selector else "result"
            hit("access", f"read {what} {mode.name}", times=use.lines)
    for name in ("SLOT_HIT", "SLOT_MISS", "EVICTION"):
        hit("slots", name, times=done.value(name))


def _sample_memory(coverage: NfCoverage, figures: Figures) -> None:
    """Count the coverage bins of the memory port, from the counters of a device at its end."""
    coverage.model.hit("memory", "read", times=figures.memory_reads)
    coverage.model.hit("memory", "write full", times=figures.memory_writes)
    coverage.model.hit("memory", "write partial", times=figures.memory_partial_writes)
    coverage.model.hit("memory", "write poison", times=figures.memory_poisoned_writes)

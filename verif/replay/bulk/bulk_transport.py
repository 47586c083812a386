# SPDX-License-Identifier: Apache-2.0
"""Bulk transport of a replay: epochs as blocks through the C++ host, and the cause of a wrong
line.
"""

import json
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cocotbext.cxl.wire.messages import DevLoad
from models.line_packing import LINE_BYTES, U8
from models.regions import PLANE_SELECTOR, SUM16_SELECTOR
from neuron_fabric.output import write_text
from verif.coverage.cover_model import FUNCTIONAL, CoverModel
from verif.coverage.device_coverage import NfCoverage
from verif.host.bulk_device import BulkDevice, BulkFault, BulkModel
from verif.host.c_interface import ANSWERED, DEVLOAD_SHIFT, OP, Block, Figures, Kind
from verif.replay.bulk.epoch_block import EpochBlock, commit_ops, commits, epoch_operations
from verif.replay.epoch import LDIDS, Key
from verif.replay.line_check import Mismatch, expected_lines, first_value, judge
from verif.replay.plan import Lines
from verif.replay.runner import Driven, ReplayStop, Transport
from verif.replay.stimulus_file import CommitOperation, Operation, Read, Stimulus, Write

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
    """

    model: BulkModel
    ahead: bool = True
    """Simulate on a second core: prepare the next epoch and judge the last one meanwhile."""
    coverage: CoverModel = field(default_factory=lambda: NfCoverage().model)
    again: Callable[[Path], str] | None = None
    """Returns the printed command that drives a stimulus; None: nothing is printed."""
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
        except BulkFault as fault:
            note = " ".join(str(fault).split())[:600]
            if isinstance(fault, EpochFault):  # not before the first epoch
                self._leave(note, epoch_operations(fault.block))
            raise ReplayStop(note) from None
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
        cause, operations = localize(found, self._last, self._fresh)
        if operations:
            self._leave(f"{cause}; {found.text}", operations)
        raise ReplayStop(f"{found.text}; {cause}")

    def _leave(self, note: str, operations: Sequence[Operation]) -> None:
        options = self.replay.options
        stimulus = Stimulus(note, options.parameters, options.seed, operations, options.memory)
        stimulus.write(self.folder / STIMULUS_FILE)

    def finish(self) -> None:
        """Write functional coverage, and add the command that drives a stimulus to the hints."""
        path = self.folder / STIMULUS_FILE
        if self.faults and path.is_file() and self.again is not None:
            self.hints.append(f"at signal level: {self.again(path)} --waves")
        metrics = {FUNCTIONAL: self.coverage.hits()}
        write_text(self.folder / METRICS_FILE, json.dumps(metrics, indent=1))


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


# -- localization of a fault: the contribution that caused a wrong line, and a stimulus for it -----
# The line alone is driven through a fresh device, one contribution at a time in the order of the
# epoch, and read back after each: the first wrong response names the worker. If the line alone is
# right, the whole epoch is driven again and becomes the stimulus.

Open = Callable[[], BulkDevice]


def localize(found: Mismatch, block: EpochBlock, open_device: Open) -> tuple[str, list[Operation]]:
    """Search for the cause of a wrong line; this drives the RTL again.

    Args:
        found: The wrong line.
        block: Its epoch.
        open_device: Opens a fresh device.

    Returns:
        A text, which names the worker if known, and the transactions of a stimulus; none if a fresh
        device shows no fault.
    """
    alone = _line_alone(found, block, open_device)
    if alone is not None:
        return alone
    missing = _absent(found)
    who = f"worker {missing}: its contribution is missing" if missing is not None else ""
    if _recurs(block, open_device):
        return who or "no single worker explains it", epoch_operations(block)
    rest = "a fresh device gives the right line: it depends on what went before the round"
    return f"{who}{'; ' if who else ''}{rest}", []


def arrival(found: Mismatch, block: EpochBlock) -> list[int]:
    """Return the workers of a wrong line in the order in which their contributions were sent."""
    config, ops = found.work.uses[found.use].config, block.block.ops
    step = LINE_BYTES << config.lines_log2
    offset = ops["address"].astype(np.int64) - (config.base + found.line * LINE_BYTES)
    mine = (ops["kind"] == Kind.WRITE) & (offset >= 0) & (offset % step == 0)
    return [int(worker) for worker in offset[mine] // step if worker < config.workers]


def _expected(found: Mismatch, present: list[int]) -> Lines:
    """Return the expected content of a wrong line if only the workers ``present`` had
    contributed.
    """
    work, use = found.work, found.work.uses[found.use]
    sent = work.sent[found.use][:, found.line : found.line + 1]
    mask = np.zeros((len(sent), 1), np.bool_)
    mask[present] = True
    return expected_lines(sent, use, work.plan.params, mask)


def _line_alone(
    found: Mismatch, block: EpochBlock, open_device: Open
) -> tuple[str, list[Operation]] | None:
    """Drive the contributions to the wrong line alone, and read it after each.

    Returns:
        Text of the fault, and the transactions up to the first wrong response; None if all are
        right.
    """
    work, line, use = found.work, found.line, found.work.uses[found.use]
    config, order, chosen = use.config, arrival(found, block), use.selectors
    operations: list[Operation] = list(commits(block))
    wanted = [_expected(found, order[:count]) for count in range(1, len(order) + 1)]
    for worker, want in zip(order, wanted):
        data = work.sent[found.use][worker, line].tobytes()
        operations.append(Write(config.address(worker, line), worker % LDIDS, data))
        operations += [
            Read(config.address(selector, line), line % min(LDIDS, config.workers), one.tobytes())
            for selector, one in zip(chosen, want.stack[:, 0])
        ]
    try:
        got = _drive(operations, open_device)
    except BulkFault as fault:
        return f"line alone: {fault}", operations
    per_read = got.reshape(len(order), len(chosen), LINE_BYTES)
    for count, (worker, want) in enumerate(zip(order, wanted), start=1):
        own = Lines(chosen, per_read[count - 1][:, None])
        if not own.differ(want).any():
            continue
        what, element, values = first_value(use.route, own, want, 0)
        text = (
            f"worker {worker}, line {line} of region {use.region}, element {element}: after its "
            f"contribution, number {count} of the line, {what} is {values[0]}, not {values[1]}"
        )
        last = len(operations) - (len(order) - count) * (1 + len(chosen))
        return text, operations[:last]
    return None


def _drive(operations: list[Operation], open_device: Open) -> U8:
    """Drive operations in order on a fresh device; return the lines read, uint8[n, 64].

    Each waits until all operations before it are answered: the device promises no order between
    overlapping requests to a line, and a later contribution must not change an earlier read.
    """
    parts: list[NDArray[Any]] = []
    sent: list[U8] = []
    reads = 0
    for one in operations:
        if isinstance(one, CommitOperation):
            parts.append(commit_ops(one.region, one.config, one.epoch))
            continue
        op = np.zeros(1, OP)
        op["address"], op["ldid"] = one.address, one.ldid
        op["after"] = sum(len(part) for part in parts)
        if isinstance(one, Write):
            op["kind"], op["line"] = Kind.WRITE, len(sent)
            sent.append(np.frombuffer(one.data, np.uint8))
        else:
            op["kind"], op["line"] = Kind.READ, reads
            reads += 1
        parts.append(op)
    block = Block.of(np.concatenate(parts), np.stack(sent), reads)
    with closing(open_device()) as device:
        device.run(block)
    return block.got


def _absent(found: Mismatch) -> int | None:
    """Return the only worker whose missing contribution explains the wrong line, or None."""
    got = found.work.got[found.use].stack[:, found.line]
    everybody = list(range(found.work.plan.workers))
    suspects = []
    for worker in everybody:
        want = _expected(found, [w for w in everybody if w != worker])
        if np.array_equal(got, want.stack[:, 0]):
            suspects.append(worker)
    return suspects[0] if len(suspects) == 1 else None


def _recurs(block: EpochBlock, open_device: Open) -> bool:
    """Return whether a fresh device fails in the epoch as well: by a wrong line, or by a fault."""
    own = block.block
    again = Block.of(own.ops, own.sent, len(own.got))
    fresh = open_device()
    try:
        with closing(fresh):
            fresh.run(again)
    except BulkFault:
        return True
    own.got[:] = again.got
    return judge(block.work).wrong > 0

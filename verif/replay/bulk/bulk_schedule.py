# SPDX-License-Identifier: Apache-2.0
"""Bulk executor of schedules: a pool of RTL devices in threads, with all ranks of a collective.

A collective runs in phases. In each phase every device gets one block, with a queue for each stream
that can run and one for its signals; the queues take turns on the link, as hosts do at a switch. A
stream that needs data of the present phase in the host, to add or to send it on, waits for the next
phase. Within a phase the order between streams is that of their signals: an operation after a
`Wait` is sent when what the signals release has been answered on the same device. Every device has
the places and regions that its data need, so this is the order that data depend on; between devices
there is no order within a phase. The clocks of a collective are the sum over its phases of the
slowest device.

A `Signal` n is a contribution of zeros to line n of the bell region of device n mod D. A `Wait` is
one read of INFO of that line, sent when the signals have been answered; its epoch and bitmap are
checked. `Close` and `Commit` are register accesses before the other operations of a phase. Bells
are committed, and `DONE` is given, between collectives; their clocks do not count.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.line_packing import LINE_BYTES, U8
from models.pool_oracle import reduced, selector
from models.regions import INFO_SELECTOR, STATUS_SELECTOR
from neuron_fabric.collectives import schedule as sched
from neuron_fabric.collectives.schedule import Adder
from verif.host.c_interface import ANSWERED, POISON, Block, Kind, operations
from verif.replay.bulk.bulk_pool import BulkPool, PoolError

LATE = 32
"""Clocks of a block after its last answer."""
Counts = NDArray[np.int64]
"""Number of operations of each queue of a device."""
_ZEROS: U8 = np.zeros((1, LINE_BYTES), np.uint8)


@dataclass
class PoolRun:
    """Outcome of a collective.

    Attributes:
        outputs: "out" buffer of each rank, uint8[n, 64].
        clocks: Sum over the phases of the slowest device.
        phases: Number of phases.
        operations: Writes and reads of all devices.
        slots: Slots of flits in the busier direction, of all devices.
        memory: Lines read from memory or written, whichever are more, of all devices.
    """

    outputs: list[U8]
    clocks: int = 0
    phases: int = 0
    operations: int = 0
    slots: int = 0
    memory: int = 0


class _Work:
    """Operations of a device in the present phase, and places of their results."""

    def __init__(self, queues: int) -> None:
        self.registers: list[Block] = []
        self.count: Counts = np.zeros(queues, np.int64)
        self.reads: list[tuple[int, U8]] = []
        """First line of "got", and part of a buffer that it fills."""
        self.polls: list[tuple[int, int, int, str]] = []
        """Line of "got", epoch, bitmap that it must include, and description."""
        self._ops: list[Any] = []
        self._sent: list[U8] = []
        self._sent_lines = self._got_lines = 0
        self._needs: dict[bytes, int] = {}

    def write(self, queue: int, first: int, lines: U8, ldid: int, needs: Counts) -> None:
        """Append writes of consecutive lines, from byte address ``first``."""
        self._add(Kind.WRITE, queue, first, self._send(lines), len(lines), ldid, needs)

    def read(
        self, queue: int, first: int, count: int, ldid: int, needs: Counts, light: bool = False
    ) -> int:
        """Append reads, and return the line of "got" that the first one fills."""
        at, self._got_lines = self._got_lines, self._got_lines + count
        self._add(Kind.READ, queue, first, at, count, ldid, needs, light)
        return at

    def blocks(self) -> list[Block]:
        """Return the blocks of operations: register accesses, then all others."""
        if not self._ops:
            return self.registers
        ops, sent = np.concatenate(self._ops), np.concatenate(self._sent)
        return [*self.registers, Block.of(ops, sent, self._got_lines, queues=len(self.count))]

    def _send(self, lines: U8) -> int:
        at, self._sent_lines = self._sent_lines, self._sent_lines + len(lines)
        self._sent.append(lines.copy())
        return at

    def _add(
        self,
        kind: Kind,
        queue: int,
        first: int,
        line: int,
        count: int,
        ldid: int,
        needs: Counts,
        light: bool = False,
    ) -> None:
        words = needs.astype("<u4").tobytes()
        if words not in self._needs:
            lines = np.frombuffer(words + bytes(-len(words) % LINE_BYTES), np.uint8)
            self._needs[words] = self._send(lines.reshape(-1, LINE_BYTES))
        ops = operations(count, kind)
        ops["address"] = first + np.arange(count, dtype=np.uint64) * np.uint64(LINE_BYTES)
        ops["line"] = np.arange(line, line + count)
        ops["after"] = self._needs[words]
        ops["ldid"], ops["queue"], ops["light"] = ldid, queue, light
        self._ops.append(ops)
        self.count[queue] += count


class _Stream:
    """Stream of a rank, and what its next operation needs on each device."""

    def __init__(self, number: int, rank: int, ops: Sequence[sched.Op], devices: int) -> None:
        self.number, self.rank, self.ops, self.at = number, rank, ops, 0
        self.needs: list[Counts] = [np.zeros(0, np.int64)] * devices
        self.written: list[dict[tuple[type[sched.Op], int], int]] = [{} for _ in range(devices)]
        """Operations of the stream up to its last write of a line, by kind of write and line."""


def run_schedule(pool: BulkPool, inputs: Sequence[U8]) -> PoolRun:
    """Run the schedule of a pool once.

    Args:
        pool: The pool.
        inputs: "in" buffer of each rank, uint8[n, 64].

    Returns:
        Outputs, clocks and counters.

    Raises:
        PoolError: A device answered wrongly, or streams wait for each other.
    """
    run = _Execution(pool, inputs)
    run.all_phases()
    run.check_status()
    pool.finish()
    return run.found


class _Execution:
    """One run of the schedule of a pool: buffers, streams, and the blocks of the present phase."""

    def __init__(self, pool: BulkPool, inputs: Sequence[U8]) -> None:
        self.pool, self.plan = pool, pool.schedule
        plan = self.plan
        self.buffers: list[dict[sched.Buffer, U8]] = [
            {
                sched.Buffer.IN: np.asarray(own),
                sched.Buffer.OUT: np.zeros(
                    (plan.size(rank, sched.Buffer.OUT), LINE_BYTES), np.uint8
                ),
                sched.Buffer.SCRATCH: np.zeros((plan.scratch, LINE_BYTES), np.uint8),
            }
            for rank, own in enumerate(inputs)
        ]
        self.coming = [
            {buffer: np.zeros(len(lines), np.bool_) for buffer, lines in own.items()}
            for own in self.buffers
        ]
        """Lines of each buffer that the present phase fills."""
        every = [(rank, one.ops) for rank, own in enumerate(plan.streams) for one in own]
        self.streams = [_Stream(n, *one, plan.devices) for n, one in enumerate(every)]
        self.given: dict[tuple[int, int], list[Counts]] = {}
        """Operations that a signal releases on each device, by rank and number."""
        self.found = PoolRun([own[sched.Buffer.OUT] for own in self.buffers])
        self._begin()

    def all_phases(self) -> None:
        """Run phases until all streams have ended."""
        while any(one.at < len(one.ops) for one in self.streams):
            moved = True
            while moved:
                moved = max([self._advance(one) for one in self.streams])
            self._phase()

    def _begin(self) -> None:
        """Begin a phase: nothing is in it that an operation could wait for."""
        queues, devices = 2 * len(self.streams), range(self.plan.devices)
        self.works = [_Work(queues) for _ in devices]
        for stream in self.streams:
            stream.needs = [np.zeros(queues, np.int64) for _ in devices]
            stream.written = [{} for _ in devices]
        nothing = [np.zeros(queues, np.int64) for _ in devices]
        self.given = dict.fromkeys(self.given, nothing)
        for own in self.coming:
            for lines in own.values():
                lines[:] = False

    # -- building a phase -----------------------------------------------------------------------
    def _advance(self, stream: _Stream) -> bool:
        """Append the operations of a stream that the phase can have; return True for any."""
        start = stream.at
        while stream.at < len(stream.ops) and self._can(stream.rank, stream.ops[stream.at]):
            self._append(stream, stream.ops[stream.at])
            stream.at += 1
        return stream.at > start

    def _can(self, rank: int, op: sched.Op) -> bool:
        """Return True if an operation can be appended to the present phase."""
        if isinstance(op, sched.Wait):
            return bool(op.back) or all((other, op.number) in self.given for other in op.ranks)
        sources: tuple[sched.Place, ...] = ()
        if isinstance(op, sched.Write | sched.Contribute | sched.Copy):
            sources = (op.source,)
        elif isinstance(op, sched.Add):
            sources = op.sources
        else:
            return True
        coming = self.coming[rank]
        return not any(coming[at.buffer][at.line : at.line + op.count].any() for at in sources)

    def _append(self, stream: _Stream, op: sched.Op) -> None:
        rank, pool = stream.rank, self.pool
        if isinstance(op, sched.Write):
            self._write(stream, op, pool.plain(op.line))
        elif isinstance(op, sched.Contribute):
            self._write(stream, op, pool.route(rank, op.line))
        elif isinstance(op, sched.Read):
            self._read(stream, op, pool.plain(op.line))
        elif isinstance(op, sched.Result):
            self._read(stream, op, pool.route(selector(self.plan, op.view), op.line))
        elif isinstance(op, sched.Signal):
            self._signal(stream, op.number)
        elif isinstance(op, sched.Wait):
            self._wait(stream, op)
        elif isinstance(op, sched.Ready):
            what = f"region of {self.plan.route}"
            self._poll(stream, op.device, pool.route(INFO_SELECTOR, 0), pool.number + 1, 0, what)
        elif isinstance(op, sched.Close | sched.Commit):
            ops = pool.shut() if isinstance(op, sched.Close) else pool.turn_over()
            self.works[op.device].registers.append(Block.of(ops))
        elif isinstance(op, sched.Copy):
            self._lines(rank, op.target, op.count)[:] = self._lines(rank, op.source, op.count)
        else:
            self._sum(rank, op)

    def _write(self, stream: _Stream, op: sched.Write | sched.Contribute, first: int) -> None:
        lines = self._lines(stream.rank, op.source, op.count)
        ldid, needs = self.pool.ldid(stream.rank), stream.needs[op.device]
        work = self.works[op.device]
        work.write(stream.number, first, lines, ldid, needs)
        for n in range(op.count):
            stream.written[op.device][type(op), op.line + n] = int(work.count[stream.number])

    def _read(self, stream: _Stream, op: sched.Read | sched.Result, first: int) -> None:
        """Append reads; a rank does not signal to itself, so they need its writes of the lines."""
        work, to = self.works[op.device], op.target
        ldid, needs = self.pool.ldid(stream.rank), stream.needs[op.device].copy()
        kind, written = (
            sched.Contribute if isinstance(op, sched.Result) else sched.Write,
            stream.written[op.device],
        )
        own = max(written.get((kind, op.line + n), 0) for n in range(op.count))
        needs[stream.number] = max(needs[stream.number], own)
        line = work.read(stream.number, first, op.count, ldid, needs, light=True)
        work.reads.append((line, self._lines(stream.rank, to, op.count)))
        self.coming[stream.rank][to.buffer][to.line : to.line + op.count] = True

    def _signal(self, stream: _Stream, number: int) -> None:
        """Append a signal: it is sent when the writes of its stream before it are answered.

        It has a queue for itself, since what follows it in its stream does not wait for it.
        """
        released = [needs.copy() for needs in stream.needs]
        for needs, work in zip(released, self.works, strict=True):
            needs[stream.number] = work.count[stream.number]
        at, address = self.pool.bell(stream.rank, number)
        queue, ldid = len(self.streams) + stream.number, self.pool.ldid(stream.rank)
        self.works[at].write(queue, address, _ZEROS, ldid, released[at])
        released[at][queue] = self.works[at].count[queue]
        self.given[stream.rank, number] = released

    def _wait(self, stream: _Stream, op: sched.Wait) -> None:
        """Poll a bell; what follows is sent after all that the signals release."""
        for rank in () if op.back else op.ranks:
            both = zip(stream.needs, self.given[rank, op.number], strict=True)
            stream.needs = [np.maximum(own, more) for own, more in both]
        at, address = self.pool.bell(INFO_SELECTOR, op.number, op.back)
        bitmap = sum(1 << rank for rank in op.ranks)
        what = f"signal {op.number} for rank {stream.rank}"
        self._poll(stream, at, address, self.pool.number + 1 - op.back, bitmap, what)

    def _poll(
        self, stream: _Stream, device: int, address: int, epoch: int, bitmap: int, what: str
    ) -> None:
        """Read INFO of a line; what follows on the device is sent after the answer."""
        work, needs = self.works[device], stream.needs[device]
        line = work.read(stream.number, address, 1, self.pool.ldid(stream.rank), needs)
        work.polls.append((line, epoch, bitmap, f"device {device}, {what}"))
        stream.needs[device] = needs.copy()
        stream.needs[device][stream.number] = work.count[stream.number]

    def _sum(self, rank: int, op: sched.Add) -> None:
        sources = np.stack([self._lines(rank, one, op.count) for one in op.sources])
        for layer, lines in enumerate(reduced(sources, self.plan.route, self.plan.views)):
            to = sched.Place(op.target.buffer, op.target.line + layer * self.plan.lines)
            self._lines(rank, to, op.count)[:] = lines

    def _lines(self, rank: int, place: sched.Place, count: int) -> U8:
        return self.buffers[rank][place.buffer][place.line : place.line + count]

    # -- running it -----------------------------------------------------------------------------
    def _phase(self) -> None:
        """Run the blocks of the present phase, check them and fill the buffers."""
        every = {n: work.blocks() for n, work in enumerate(self.works)}
        blocks = {n: own for n, own in every.items() if own}
        if not blocks:
            for one in self.streams:
                if one.at < len(one.ops):
                    raise PoolError(f"rank {one.rank} waits for ever: {one.ops[one.at]}")
            return
        before = self.pool.figures()
        self.pool.run_phase(blocks)
        after = self.pool.figures()
        spent = [np.subtract(*both) for both in zip(after, before, strict=True)]
        found = self.found
        found.clocks += max(int(spent[n][0]) - LATE * len(own) for n, own in blocks.items())
        found.slots += int(sum(one[1] for one in spent))
        found.memory += int(sum(one[2] for one in spent))
        found.phases += 1
        for number, own in blocks.items():
            self._fill(number, own[-1])
        self._begin()

    def _fill(self, number: int, block: Block) -> None:
        """Check the answers of a device, and fill the buffers."""
        work = self.works[number]
        self.found.operations += int(work.count.sum())
        _check_answers(number, block)
        for line, epoch, bitmap, what in work.polls:
            _check_info(what, block.got[line], epoch, bitmap)
        for line, target in work.reads:
            target[:] = block.got[line : line + len(target)]

    def check_status(self) -> None:
        """Check that no contribution of this collective was refused or late."""
        regions = [self.pool.bell(STATUS_SELECTOR, 0)[1]]
        if self.plan.adder is Adder.DEVICE:
            regions.append(self.pool.route(STATUS_SELECTOR, 0))
        ops = operations(len(regions), Kind.READ)
        ops["address"], ops["line"] = regions, np.arange(len(regions))
        blocks = {n: [Block.of(ops, got_lines=len(regions))] for n in range(self.plan.devices)}
        self.pool.run_phase(blocks)
        for number, (block,) in blocks.items():
            refused, late, poisoned = block.got.view("<u4")[:, 4:7].sum(axis=0)
            if refused or late or poisoned:
                what = f"{refused} refused, {late} late contributions, {poisoned} poisoned lines"
                raise PoolError(f"device {number}: {what}")


def _check_answers(number: int, block: Block) -> None:
    if not (block.answers & ANSWERED).all():
        raise PoolError(f"device {number}: an operation was not answered")
    poisoned = (block.ops["kind"] == Kind.READ) & (block.answers & POISON != 0)
    if poisoned.any():
        first = int(block.ops[int(np.flatnonzero(poisoned)[0])]["address"])
        raise PoolError(f"device {number}: {poisoned.sum()} reads are poisoned, first {first:#x}")


def _check_info(what: str, line: U8, epoch: int, bitmap: int) -> None:
    """Check epoch and bitmap of an INFO line."""
    got, _, low, high = (int(word) for word in line[:16].view("<u4"))
    ranks = low | high << 32
    if got != epoch or bitmap & ~ranks:
        raise PoolError(f"{what}: epoch {got}, ranks {ranks:#x}, not epoch {epoch}, {bitmap:#x}")

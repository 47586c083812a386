# SPDX-License-Identifier: Apache-2.0
"""C interface of the bulk host; `generated_sources` makes the C declarations from it.

A block is an array of operations, done in order: writes and reads of lines over the CXL link, and
register accesses over AXI4-Lite. A write or read is sent as soon as credits allow and the
operations before `after` have been answered. A register access waits until all earlier operations
have been answered, and all later operations wait for it. The first `beside` operations of a block
can form a second stream, as from another host; the streams do not wait for each other.

A block with `queues` is the traffic of that many hosts on a switch. Each queue is sent in
order; the queues take turns, message by message. `after` is then the first of the lines of `sent`
that hold uint32[queues]: the operation waits until that many operations of each queue are done. An
operation is done when it and those before it in its queue are answered; those that are `light` need
no answer. Such a block has no register accesses.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_uint8, c_uint32, c_uint64
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.line_packing import LINE_BYTES, U8


class Kind(IntEnum):
    """Kinds of operations of a block."""

    WRITE = 0
    READ = 1
    REG_WRITE = 2
    REG_READ = 3


class HostOp(ctypes.Structure):
    """Operation of a block, as C structure.

    Fields:
        address: Byte address of the line or register.
        line: Line of `CBlock.sent` that a write carries, line of `CBlock.got` that a read fills, or
            value of a register write.
        after: A write or read waits until the first `after` operations are answered.
        kind: A `Kind`.
        ldid: LD-ID of a write or read.
        queue: Queue of the operation, in a block with queues.
        light: Nonzero: no operation waits for the answer, in a block with queues.
    """

    _fields_ = (
        ("address", c_uint64),
        ("line", c_uint32),
        ("after", c_uint32),
        ("kind", c_uint8),
        ("ldid", c_uint8),
        ("queue", c_uint8),
        ("light", c_uint8),
        ("unused", c_uint8 * 4),
    )


OP = np.dtype(HostOp)

ANSWERED = np.uint64(1 << 63)
"""Set in every answer, with POISON, DevLoad and cycles of a response, or the value of a
register."""
POISON = np.uint64(1)
DEVLOAD_SHIFT = 1
CLOCKS_SHIFT = 8
"""Cycles from the flit of a request to that of its response, at most MAX_CLOCKS."""
MAX_CLOCKS = (1 << 24) - 1
ENDED_SHIFT = 32
"""Cycle of the response, as counted by the figures, modulo MAX_ENDED + 1."""
MAX_ENDED = (1 << 31) - 1


class CBlock(ctypes.Structure):
    """Block as C structure, with pointers to its arrays.

    `sent` and `got` hold lines of 64 bytes, `answers` one word per operation; see `Block`.
    """

    _fields_ = (
        ("ops", POINTER(HostOp)),
        ("sent", POINTER(c_uint8)),
        ("got", POINTER(c_uint8)),
        ("answers", POINTER(c_uint64)),
        ("count", c_uint32),
        ("sent_lines", c_uint32),
        ("got_lines", c_uint32),
        ("beside", c_uint32),
        ("queues", c_uint32),
    )


class Figures(ctypes.Structure):
    """Counters of the host since the device was opened, as C structure.

    Flits include control flits; data flits are all-data flits. Slots are valid headers and data, by
    position (slot 0, others) and format. `devload` counts responses by DevLoad level.
    """

    _fields_ = (
        ("cycles", c_uint64),
        ("flits_to_device", c_uint64),
        ("flits_from_device", c_uint64),
        ("data_flits_to_device", c_uint64),
        ("data_flits_from_device", c_uint64),
        ("slots_to_device", c_uint64 * 8 * 2),
        ("slots_from_device", c_uint64 * 8 * 2),
        ("devload", c_uint64 * 4),
        ("memory_reads", c_uint64),
        ("memory_writes", c_uint64),
        ("memory_partial_writes", c_uint64),
        ("memory_poisoned_writes", c_uint64),
    )
    cycles: int
    flits_to_device: int
    flits_from_device: int


FIGURES_BYTES = 512
"""Bytes for the figures in front of the arrays, if a block is in shared memory (VPI module)."""


class CMemory(ctypes.Structure):
    """Timing of device memory as C structure; see `verif.mem.memory_timing.MemoryTiming`."""

    _fields_ = (("latency", c_uint32), ("beat", c_uint32), ("stall", c_uint32))


class Stage(IntEnum):
    """Stages that an access passes in the core, in order, for the stage probe.

    At the memory stages `PassedEvent.who` is a client of the memory port.
    """

    CORE_IN = 0
    UNIT_IN = 1
    MEMORY_ASKED = 2
    MEMORY_ANSWERED = 3
    UNIT_OUT = 4
    CORE_OUT = 5


READS, WRITES = 0, 16
"""First numbers of the clients of the read and the write port in `PassedEvent.who`."""


class PassedEvent(ctypes.Structure):
    """Event of the stage probe, as C structure: `who` passes `stage` in cycle `clock`.

    `who` is the tag of an access, or the number of a client of the memory port; cycles are those of
    `Figures.cycles`.
    """

    _fields_ = (("clock", c_uint64), ("stage", c_uint32), ("who", c_uint32))


PASSED = np.dtype(PassedEvent)


@dataclass(frozen=True)
class Block:
    """Block of operations for the bulk host, with room for their answers.

    Attributes:
        ops: OP[n].
        sent: uint8[k, 64], data of writes.
        got: uint8[m, 64], filled by reads.
        answers: uint64[n]: POISON, DevLoad and cycles of a response, or the value of a register.
        beside: Number of the first operations that form a second stream.
        queues: Number of queues; 0 for operations in the order of ``ops``.
    """

    ops: NDArray[Any]
    sent: U8
    got: U8
    answers: NDArray[np.uint64]
    beside: int = 0
    queues: int = 0

    @staticmethod
    def of(
        ops: NDArray[Any],
        sent: U8 | None = None,
        got_lines: int = 0,
        beside: int = 0,
        queues: int = 0,
    ) -> Block:
        """Return a block of operations OP[n] with zeros as answers.

        Args:
            ops: Operations.
            sent: Data of writes, uint8 of any shape with whole lines; None for no write.
            got_lines: Number of lines that are read.
            beside: Number of the first operations that form a second stream.
            queues: Number of queues.
        """
        return Block(
            ops,
            np.zeros((0, LINE_BYTES), np.uint8) if sent is None else sent.reshape(-1, LINE_BYTES),
            np.zeros((got_lines, LINE_BYTES), np.uint8),
            np.zeros(len(ops), np.uint64),
            beside,
            queues,
        )

    def as_c(self) -> CBlock:
        """Return the C structure that points to the arrays of this block, which must outlive it.

        Raises:
            ValueError: An array is not contiguous.
        """
        arrays: tuple[NDArray[Any], ...] = (self.ops, self.sent, self.got, self.answers)
        if not all(array.flags.c_contiguous for array in arrays):
            raise ValueError("the core takes contiguous arrays")
        kinds: list[Any] = [field[1] for field in CBlock._fields_]
        pointers = [array.ctypes.data_as(kind) for array, kind in zip(arrays, kinds)]
        lengths = len(self.ops), len(self.sent), len(self.got)
        return CBlock(*pointers, *lengths, self.beside, self.queues)

    def value(self, index: int) -> int:
        """Return the value that the register read `ops[index]` returned."""
        return int(self.answers[index] & ~ANSWERED)

    def clocks(self) -> NDArray[np.uint64]:
        """Return the cycles from request to response of each operation, uint64[n] in order of
        `ops`.

        They are at most MAX_CLOCKS. Entries of register accesses have no meaning.
        """
        return (self.answers >> np.uint64(CLOCKS_SHIFT)) & np.uint64(MAX_CLOCKS)

    def ended(self) -> NDArray[np.uint64]:
        """Return the cycle of the response to each CXL write and read, uint64[n] in order of `ops`.

        Cycles are `Figures.cycles` modulo MAX_ENDED + 1. Register accesses and operations without a
        response have 0.
        """
        return (self.answers >> np.uint64(ENDED_SHIFT)) & np.uint64(MAX_ENDED)


def operations(count: int, kind: Kind) -> NDArray[Any]:
    """Return ``count`` operations OP[count] of one kind, with all other fields 0."""
    ops = np.zeros(count, OP)
    ops["kind"] = kind
    return ops


def register_ops(kind: Kind, accesses: list[tuple[int, int]]) -> NDArray[Any]:
    """Return register accesses of one kind as OP[n], from pairs (byte address, value)."""
    ops = operations(len(accesses), kind)
    for op, (address, value) in zip(ops, accesses):
        op["address"], op["line"] = address, value
    return ops

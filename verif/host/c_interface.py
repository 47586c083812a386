# SPDX-License-Identifier: Apache-2.0
"""The C interface of the host for both languages: `generated_sources` makes the C declarations.

A block is an array of operations, done in order: writes and reads of lines over the CXL link, and
register accesses over AXI4-Lite. A write or a read leaves as soon as credits allow, and when every
operation before `after` has been answered. A register access waits until everything before it has
been answered, and nothing behind it starts before it has been answered itself. The first
`beside` operations of a block may be a stream of their own, as of another host: neither stream
waits for the other.
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
    """What an operation does."""

    WRITE = 0
    READ = 1
    REG_WRITE = 2
    REG_READ = 3


class Op(ctypes.Structure):
    """One operation. `address` is the byte address of a line or of a register; `line` the line of
    `CBlock.sent` that a write carries, the line of `CBlock.got` that a read fills, or the value of
    a register write. A write or a read waits for the first `after` answers."""

    _fields_ = (
        ("address", c_uint64),
        ("line", c_uint32),
        ("after", c_uint32),
        ("kind", c_uint8),
        ("ldid", c_uint8),
        ("unused", c_uint8 * 6),
    )


OP = np.dtype(Op)

ANSWERED = np.uint64(1 << 63)
"""Set in every answer, beside POISON, the DevLoad and the clocks of a response, or the value of a
register."""
POISON = np.uint64(1)
DEVLOAD_SHIFT = 1
CLOCKS_SHIFT = 8
"""Clocks from the flit of a request to that of its response; MAX_CLOCKS stands for more."""
MAX_CLOCKS = (1 << 24) - 1
ENDED_SHIFT = 32
"""The clock of the response, as the figures count them; MAX_ENDED and then 0 again."""
MAX_ENDED = (1 << 31) - 1


class CBlock(ctypes.Structure):
    """Pointers into the arrays of a block: `sent` and `got` hold lines of 64 bytes, `answers` one
    word an operation."""

    _fields_ = (
        ("ops", POINTER(Op)),
        ("sent", POINTER(c_uint8)),
        ("got", POINTER(c_uint8)),
        ("answers", POINTER(c_uint64)),
        ("count", c_uint32),
        ("sent_lines", c_uint32),
        ("got_lines", c_uint32),
        ("beside", c_uint32),
    )


class Figures(ctypes.Structure):
    """What the host has counted since the device was opened. Flits include control flits; data
    flits are all-data flits; slots are valid headers and data, by position (slot 0, others) and
    format."""

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
"""Room for the figures before the arrays, where a block lies in shared memory (VPI module)."""


class CMemory(ctypes.Structure):
    """How fast the memory is: see `verif.mem.memory_timing.MemoryTiming`."""

    _fields_ = (("latency", c_uint32), ("beat", c_uint32), ("stall", c_uint32))


class Stage(IntEnum):
    """What an access passes in the core, in order; of the memory, `who` is a client of its port."""

    CORE_IN = 0
    UNIT_IN = 1
    MEMORY_ASKED = 2
    MEMORY_ANSWERED = 3
    UNIT_OUT = 4
    CORE_OUT = 5


READS, WRITES = 0, 16
"""Clients of the read port and of the write port, in the numbers of `PassedEvent.who`."""


class PassedEvent(ctypes.Structure):
    """`who` passes `stage` at a clock, as the figures count them: an access by its tag, a client of
    the memory by its number."""

    _fields_ = (("clock", c_uint64), ("stage", c_uint32), ("who", c_uint32))


PASSED = np.dtype(PassedEvent)


@dataclass(frozen=True)
class Block:
    """``ops`` OP[n]; ``sent`` uint8[k, 64] is written from, ``got`` uint8[m, 64] is read into;
    ``answers`` uint64[n]: POISON, DevLoad and clocks of a response, or the value of a register
    read. ``beside``: how many of the first operations are a stream of their own."""

    ops: NDArray[Any]
    sent: U8
    got: U8
    answers: NDArray[np.uint64]
    beside: int = 0

    @staticmethod
    def of(ops: NDArray[Any], sent: U8 | None = None, got_lines: int = 0, beside: int = 0) -> Block:
        """A block with room for what comes back."""
        return Block(
            ops,
            np.zeros((0, LINE_BYTES), np.uint8) if sent is None else sent.reshape(-1, LINE_BYTES),
            np.zeros((got_lines, LINE_BYTES), np.uint8),
            np.zeros(len(ops), np.uint64),
            beside,
        )

    def as_c(self) -> CBlock:
        """The block as the core takes it; the arrays must outlive what is done with it."""
        arrays: tuple[NDArray[Any], ...] = (self.ops, self.sent, self.got, self.answers)
        if not all(array.flags.c_contiguous for array in arrays):
            raise ValueError("the core takes contiguous arrays")
        kinds: list[Any] = [field[1] for field in CBlock._fields_]
        pointers = [array.ctypes.data_as(kind) for array, kind in zip(arrays, kinds)]
        return CBlock(*pointers, len(self.ops), len(self.sent), len(self.got), self.beside)

    def value(self, index: int) -> int:
        """What the register read at that place returned."""
        return int(self.answers[index] & ~ANSWERED)

    def clocks(self) -> NDArray[np.uint64]:
        """What each write and read took, uint64[n]."""
        return (self.answers >> np.uint64(CLOCKS_SHIFT)) & np.uint64(MAX_CLOCKS)

    def ended(self) -> NDArray[np.uint64]:
        """The clock at which each write and read was answered, uint64[n]."""
        return (self.answers >> np.uint64(ENDED_SHIFT)) & np.uint64(MAX_ENDED)


def operations(count: int, kind: Kind) -> NDArray[Any]:
    """``count`` operations of one kind, all else 0."""
    ops = np.zeros(count, OP)
    ops["kind"] = kind
    return ops


def register_ops(kind: Kind, accesses: list[tuple[int, int]]) -> NDArray[Any]:
    """Register accesses from (byte address, value) pairs."""
    ops = operations(len(accesses), kind)
    for op, (address, value) in zip(ops, accesses):
        op["address"], op["line"] = address, value
    return ops

# SPDX-License-Identifier: Apache-2.0
"""The device as Python sees it: blocks in, results out, whichever simulator runs the RTL."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from verif.replay.bulk.block import Block

MEMORY_LATENCY = 3
"""Clocks from a request at the memory port to its answer (kLatency of verif/host/memory.h)."""


class BulkFault(Exception):
    """The device broke a rule of a port, or an assertion in the RTL fired; the first, in words."""


class Figures(ctypes.Structure):
    """What the core has counted since the device was opened (nf_figures)."""

    _fields_ = (
        ("cycles", ctypes.c_uint64),
        ("flits_to_device", ctypes.c_uint64),
        ("flits_from_device", ctypes.c_uint64),
        ("data_flits_to_device", ctypes.c_uint64),
        ("data_flits_from_device", ctypes.c_uint64),
        ("slots_to_device", ctypes.c_uint64 * 8 * 2),
        ("slots_from_device", ctypes.c_uint64 * 8 * 2),
        ("devload", ctypes.c_uint64 * 4),
        ("memory_reads", ctypes.c_uint64),
        ("memory_writes", ctypes.c_uint64),
        ("memory_partial_writes", ctypes.c_uint64),
        ("memory_poisoned_writes", ctypes.c_uint64),
    )
    cycles: int
    flits_to_device: int
    flits_from_device: int


class BulkDevice(Protocol):
    """A reset device with its link up."""

    def run(self, block: Block) -> None:
        """Does every operation of a block; BulkFault. Other threads of Python run meanwhile."""

    def interrupt(self) -> None:
        """End a run in another thread, as soon as that can be; `close` comes next."""

    def figures(self) -> Figures:
        """What has been counted so far."""

    def close(self) -> None:
        """Gives everything back; the device is of no use afterwards."""


class CBlock(ctypes.Structure):
    """nf_block: pointers into the arrays of a block."""

    _fields_ = (
        ("ops", ctypes.c_void_p),
        ("sent", ctypes.c_void_p),
        ("got", ctypes.c_void_p),
        ("answers", ctypes.c_void_p),
        ("count", ctypes.c_uint32),
        ("sent_lines", ctypes.c_uint32),
        ("got_lines", ctypes.c_uint32),
        ("unused", ctypes.c_uint32),
    )


def c_block(block: Block) -> CBlock:
    """The block as the core takes it; it must outlive what is done with it."""
    return CBlock(
        _address(block.ops),
        _address(block.sent),
        _address(block.got),
        _address(block.answers),
        len(block.ops),
        len(block.sent),
        len(block.got),
    )


class VerilatedDevice:
    """The verilated controller in this process; the core works in the block's own arrays."""

    def __init__(self, library: Path, mem_lines_log2: int, seed: int) -> None:
        """BulkFault when the link does not come up."""
        self._library = _declared(ctypes.CDLL(str(library)))
        self._device = self._library.nf_open(mem_lines_log2, seed & 0xFFFFFFFF)
        try:
            self._raise_fault()
        except BulkFault:
            self.close()
            raise

    def run(self, block: Block) -> None:
        """See BulkDevice."""
        if self._library.nf_run(self._device, ctypes.byref(c_block(block))):
            self._raise_fault()

    def _raise_fault(self) -> None:
        text = self._library.nf_fault(self._device).decode(errors="replace")
        if text:
            raise BulkFault(text)

    def interrupt(self) -> None:
        """See BulkDevice; a round of the verilated model takes seconds at most."""

    def figures(self) -> Figures:
        """See BulkDevice."""
        out = Figures()
        self._library.nf_read_figures(self._device, ctypes.byref(out))
        return out

    def close(self) -> None:
        """See BulkDevice."""
        if self._device:
            self._library.nf_close(self._device)
            self._device = None


def _declared(library: ctypes.CDLL) -> ctypes.CDLL:
    pointer, word = ctypes.c_void_p, ctypes.c_uint32
    for name, result, arguments in (
        ("nf_open", pointer, (word, word)),
        ("nf_run", ctypes.c_int, (pointer, pointer)),
        ("nf_fault", ctypes.c_char_p, (pointer,)),
        ("nf_read_figures", None, (pointer, pointer)),
        ("nf_close", None, (pointer,)),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _address(array: NDArray[np.generic]) -> int:
    if not array.flags.c_contiguous:
        raise ValueError("the core takes contiguous arrays")
    return array.ctypes.data

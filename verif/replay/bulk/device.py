# SPDX-License-Identifier: Apache-2.0
"""The device as Python sees it: blocks in, results out, whichever simulator runs the RTL."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from verif.host.c_interface import MEMORY_LATENCY, CBlock, Figures
from verif.replay.bulk.block import Block

__all__ = ["MEMORY_LATENCY", "BulkDevice", "BulkFault", "Figures", "VerilatedDevice", "c_block"]


class BulkFault(Exception):
    """The device broke a rule of a port, or an assertion in the RTL fired; the first, in words."""


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


def c_block(block: Block) -> CBlock:
    """The block as the core takes it; it must outlive what is done with it."""
    arrays: tuple[NDArray[Any], ...] = (block.ops, block.sent, block.got, block.answers)
    if not all(array.flags.c_contiguous for array in arrays):
        raise ValueError("the core takes contiguous arrays")
    kinds: list[Any] = [field[1] for field in CBlock._fields_]
    pointers = [array.ctypes.data_as(kind) for array, kind in zip(arrays, kinds)]
    return CBlock(*pointers, len(block.ops), len(block.sent), len(block.got))


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

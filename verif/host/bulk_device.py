# SPDX-License-Identifier: Apache-2.0
"""The device under the C++ host, as Python sees it: blocks in, results out, whichever simulator
runs the RTL. Verilator: in this process. Icarus: in a process of its own, blocks through shared
memory, one line of text each way."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from models.line_packing import LINE_BYTES
from verif.host.c_interface import FIGURES_BYTES, PASSED, Block, CMemory, Figures
from verif.mem.memory_timing import USUAL_MEMORY, MemoryTiming

Start = Callable[..., "subprocess.Popen[bytes]"]
"""(command, both outputs, cwd, env, pass_fds) -> a process that ends when this one does."""


class BulkFault(Exception):
    """The device broke a rule of a port, or an assertion in the RTL fired; the first, in words."""


class DeviceGone(BulkFault):
    """Somebody has killed the simulator: the device is not to blame."""


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


class BulkModel(Protocol):
    """The RTL compiled for bulk replay."""

    @property
    def build_seconds(self) -> float:
        """What the build took; 0 when it was there."""

    def open(
        self, folder: Path, mem_lines_log2: int, seed: int, memory: MemoryTiming = USUAL_MEMORY
    ) -> BulkDevice:
        """A reset device with its link up; a simulator process leaves its log in ``folder``."""


# -- Verilator ----------------------------------------------------------------------------------
@dataclass(frozen=True)
class VerilatedModel:
    """A library; ``unchecked`` is the same without the checks of the host, to measure what they
    cost. ``build_seconds``: what this call waited; ``took_seconds``: what the build took once."""

    library: Path
    unchecked: Path
    build_seconds: float
    took_seconds: float

    def open(
        self, folder: Path, mem_lines_log2: int, seed: int, memory: MemoryTiming = USUAL_MEMORY
    ) -> BulkDevice:
        """See BulkModel."""
        return VerilatedDevice(self.library, mem_lines_log2, seed, memory)


class VerilatedDevice:
    """The verilated controller in this process; the core works in the block's own arrays."""

    def __init__(
        self,
        library: Path,
        mem_lines_log2: int,
        seed: int,
        memory: MemoryTiming = USUAL_MEMORY,
    ) -> None:
        """BulkFault when the link does not come up."""
        self._library = ctypes.CDLL(str(library))
        self._library.nf_open.restype = ctypes.c_void_p
        self._library.nf_fault.restype = ctypes.c_char_p
        word = ctypes.c_uint32
        timing = CMemory(memory.latency, memory.beat, memory.stall)
        device = self._library.nf_open(
            word(mem_lines_log2), word(seed & 0xFFFFFFFF), ctypes.byref(timing)
        )
        self._device: ctypes.c_void_p | None = ctypes.c_void_p(device)
        try:
            self._raise_fault()
        except BulkFault:
            self.close()
            raise

    def run(self, block: Block) -> None:
        """See BulkDevice."""
        if self._library.nf_run(self._device, ctypes.byref(block.as_c())):
            self._raise_fault()

    def set_flit_clocks(self, clocks: int) -> None:
        """A narrower link from now on: one flit in so many clocks, each way."""
        self._library.nf_set_flit_clocks(self._device, ctypes.c_uint32(clocks))

    def passed(self) -> NDArray[Any]:
        """PASSED[n]: what the stage probe has seen since it was asked last, in its order; nothing
        without the probe."""
        nothing = ctypes.c_uint32(0)
        count = self._library.nf_take_passed(self._device, None, nothing)
        out = np.zeros(count, PASSED)
        pointer = ctypes.c_void_p(out.ctypes.data)
        self._library.nf_take_passed(self._device, pointer, ctypes.c_uint32(count))
        return out

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


# -- Icarus -------------------------------------------------------------------------------------
@dataclass(frozen=True)
class IcarusModel:
    """A command that loads the design and the VPI module; ``start`` makes a process of it."""

    command: tuple[str, ...]
    build_seconds: float
    took_seconds: float
    start: Start

    def open(
        self, folder: Path, mem_lines_log2: int, seed: int, memory: MemoryTiming = USUAL_MEMORY
    ) -> BulkDevice:
        """See BulkModel."""
        log = folder / "simulator.log"
        return IcarusDevice(self.command, log, mem_lines_log2, seed, self.start, memory)


class IcarusDevice:
    """A simulator process with the VPI module; what it prints goes to ``log``."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        mem_lines_log2: int,
        seed: int,
        start: Start,
        memory: MemoryTiming = USUAL_MEMORY,
        record: Path | None = None,
    ) -> None:
        """BulkFault when the link does not come up. ``record``: a file for the inputs of every
        clock since the reset, most significant byte first."""
        self._log = log
        self._memory = os.memfd_create("nf-bulk")
        os.ftruncate(self._memory, FIGURES_BYTES + mmap.PAGESIZE)
        self._map = mmap.mmap(self._memory, 0)
        commands_in, commands_out = os.pipe()
        answers_in, answers_out = os.pipe()
        files = (commands_in, answers_out, self._memory)
        timing = (memory.latency, memory.beat, memory.stall)
        numbers = ",".join(map(str, (*files, mem_lines_log2, seed & 0xFFFFFFFF, *timing)))
        recorded = {} if record is None else {"NF_BULK_RECORD": str(record)}
        with log.open("ab") as out:
            more = {"NF_BULK": numbers, **recorded}
            self._process = start(command, out, cwd=".", more=more, pass_fds=files)
        os.close(commands_in)
        os.close(answers_out)
        self._commands = os.fdopen(commands_out, "w", buffering=1, encoding="utf-8")
        self._answers = os.fdopen(answers_in, "r", encoding="utf-8")
        try:
            self._await()
        except BaseException:
            self.interrupt()
            self.close()
            raise

    def run(self, block: Block) -> None:
        """See BulkDevice."""
        sizes = (block.ops.nbytes, block.answers.nbytes, block.sent.nbytes, block.got.nbytes)
        total = FIGURES_BYTES + sum(sizes)
        if total > len(self._map):
            os.ftruncate(self._memory, total)
            self._map.close()
            self._map = mmap.mmap(self._memory, 0)
        at = FIGURES_BYTES
        self._map[at : at + sizes[0]] = block.ops.tobytes()
        at += sizes[0]
        answers = at
        at += sizes[1]
        self._map[at : at + sizes[2]] = block.sent.tobytes()
        at += sizes[2]
        counts = (len(block.ops), len(block.sent), len(block.got), block.beside)
        with contextlib.suppress(BrokenPipeError):  # it has ended, which is seen next
            self._commands.write(f"run {' '.join(map(str, counts))}\n")
        self._await()
        block.answers[:] = np.frombuffer(self._map[answers : answers + sizes[1]], np.uint64)
        got = np.frombuffer(self._map[at : at + sizes[3]], np.uint8)
        block.got[:] = got.reshape(-1, LINE_BYTES)

    def _await(self) -> None:
        text = self._answers.readline().strip()
        if not text:
            try:
                code = self._process.wait(10)
            except subprocess.TimeoutExpired:
                code = 0
            if -code in (signal.SIGKILL, signal.SIGTERM):
                raise DeviceGone(f"the simulator was ended by {signal.Signals(-code).name}")
            raise BulkFault(f"the simulator ended: {_last_line(self._log)}")
        if text != "ok":
            raise BulkFault(text)

    def figures(self) -> Figures:
        """See BulkDevice."""
        return Figures.from_buffer_copy(self._map[: ctypes.sizeof(Figures)])

    def interrupt(self) -> None:
        """See BulkDevice."""
        self._process.kill()

    def close(self) -> None:
        """See BulkDevice."""
        if self._commands.closed:
            return
        with contextlib.suppress(BrokenPipeError):
            self._commands.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answers.close()
        self._map.close()
        os.close(self._memory)


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace", encoding="utf-8").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), f"see {log}")

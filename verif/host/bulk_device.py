# SPDX-License-Identifier: Apache-2.0
"""Device with the C++ host, for Python: runs blocks of operations in either simulator.

Verilator runs in this process. Icarus runs in a separate process; blocks are in shared memory, and
one line of text is sent each way.
"""

import contextlib
import ctypes
import mmap
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from models.line_packing import LINE_BYTES
from verif.host.c_interface import FIGURES_BYTES, PASSED, Block, CMemory, Figures
from verif.mem.memory_timing import USUAL_MEMORY, MemoryTiming

Start = Callable[..., "subprocess.Popen[bytes]"]
"""(command, both outputs, cwd, env, pass_fds) -> process that ends with this one."""


class BulkFault(Exception):
    """Fault of the device in a bulk run: a broken rule of a port, or a failed assertion of the RTL.

    The text is that of the first fault.
    """


class DeviceGone(BulkFault):
    """Loss of the simulator process by SIGKILL or SIGTERM, which is not the device's fault."""


class BulkDevice(Protocol):
    """Interface of a simulated device after reset, with its link up."""

    def run(self, block: Block) -> None:
        """Do all operations of a block and fill its answers; other Python threads run meanwhile.

        Raises:
            BulkFault: The device broke a rule, or an assertion failed.
        """

    def interrupt(self) -> None:
        """Abort a run in another thread as soon as possible; afterwards only `close` may be
        called.
        """

    def figures(self) -> Figures:
        """Return the counters of the host since the device was opened."""

    def close(self) -> None:
        """Release all resources: library or simulator process."""


class BulkModel(Protocol):
    """Interface of the RTL compiled for bulk runs in one simulator."""

    @property
    def build_seconds(self) -> float:
        """Return the seconds that the build took in this call; 0 if it was cached."""

    def open(
        self, folder: Path, mem_lines_log2: int, seed: int, memory: MemoryTiming = USUAL_MEMORY
    ) -> BulkDevice:
        """Open a device after reset, with its link up.

        Args:
            folder: Folder for the log of a simulator process.
            mem_lines_log2: Size of the device memory in lines, as power of two.
            seed: Seed of all draws of the host.
            memory: Timing of the device memory.
        """


# -- Verilator ----------------------------------------------------------------------------------
@dataclass(frozen=True)
class VerilatedModel:
    """Controller compiled by Verilator, as shared library.

    Attributes:
        library: File of the library.
        build_seconds: Seconds that this call waited for the build; 0 if it was cached.
    """

    library: Path
    build_seconds: float

    def open(
        self, folder: Path, mem_lines_log2: int, seed: int, memory: MemoryTiming = USUAL_MEMORY
    ) -> BulkDevice:
        """Open a device in this process; see `BulkModel.open`."""
        return VerilatedDevice(self.library, mem_lines_log2, seed, memory)


class VerilatedDevice:
    """Verilated controller in this process; the C++ host works in the arrays of a block."""

    def __init__(
        self, library: Path, mem_lines_log2: int, seed: int, memory: MemoryTiming = USUAL_MEMORY
    ) -> None:
        """Load the library and open a device; see `BulkModel.open`.

        Raises:
            BulkFault: The link does not come up.
        """
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
        """Do all operations of a block; see `BulkDevice.run`."""
        if self._library.nf_run(self._device, ctypes.byref(block.as_c())):
            self._raise_fault()

    def set_flit_clocks(self, clocks: int) -> None:
        """Narrow the link: at most one flit per ``clocks`` cycles in each direction."""
        self._library.nf_set_flit_clocks(self._device, ctypes.c_uint32(clocks))

    def passed(self) -> NDArray[Any]:
        """Return the events of the stage probe since the last call, PASSED[n] in order.

        Empty if the library was built without the probe.
        """
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
        """Do nothing: an epoch takes the verilated model a few seconds at most."""

    def figures(self) -> Figures:
        """Return the counters of the host since the device was opened."""
        out = Figures()
        self._library.nf_read_figures(self._device, ctypes.byref(out))
        return out

    def close(self) -> None:
        """Delete the device, if it is open; the library stays loaded."""
        if self._device:
            self._library.nf_close(self._device)
            self._device = None


# -- Icarus -------------------------------------------------------------------------------------
@dataclass(frozen=True)
class IcarusModel:
    """Controller compiled for Icarus, with the VPI module of the host.

    Attributes:
        command: Command line that loads both.
        build_seconds: Seconds that this call waited for the build; 0 if it was cached.
        start: Starts a command as a process.
    """

    command: tuple[str, ...]
    build_seconds: float
    start: Start

    def open(
        self, folder: Path, mem_lines_log2: int, seed: int, memory: MemoryTiming = USUAL_MEMORY
    ) -> BulkDevice:
        """Start a simulator process with a device; its log is `folder`/simulator.log
        (`BulkModel.open`).
        """
        log = folder / "simulator.log"
        return IcarusDevice(self.command, log, mem_lines_log2, seed, self.start, memory)


class IcarusDevice:
    """Icarus process with the VPI module; blocks are passed in shared memory."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        mem_lines_log2: int,
        seed: int,
        start: Start,
        memory: MemoryTiming = USUAL_MEMORY,
    ) -> None:
        """Start the simulator process; see `BulkModel.open`.

        Args:
            command: Command line that loads design and VPI module.
            log: File to which the output of the process is appended.
            mem_lines_log2: Size of the device memory in lines, as power of two.
            seed: Seed of all draws of the host.
            start: Starts a command as a process.
            memory: Timing of the device memory.

        Raises:
            BulkFault: The link does not come up.
        """
        self._log = log
        self._memory = os.memfd_create("nf-bulk")
        os.ftruncate(self._memory, FIGURES_BYTES + mmap.PAGESIZE)
        self._map = mmap.mmap(self._memory, 0)
        commands_in, commands_out = os.pipe()
        answers_in, answers_out = os.pipe()
        files = (commands_in, answers_out, self._memory)
        timing = (memory.latency, memory.beat, memory.stall)
        numbers = ",".join(map(str, (*files, mem_lines_log2, seed & 0xFFFFFFFF, *timing)))
        with log.open("ab") as out:
            self._process = start(command, out, cwd=".", more={"NF_BULK": numbers}, pass_fds=files)
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
        """Do all operations of a block; see `BulkDevice.run`."""
        arrays: tuple[NDArray[Any], ...] = (block.ops, block.answers, block.sent, block.got)
        ends = list(accumulate((array.nbytes for array in arrays), initial=FIGURES_BYTES))
        if ends[-1] > len(self._map):
            os.ftruncate(self._memory, ends[-1])
            self._map.close()
            self._map = mmap.mmap(self._memory, 0)
        ops, answers, sent, got = (slice(*ends[at : at + 2]) for at in range(len(arrays)))
        self._map[ops] = block.ops.tobytes()
        self._map[sent] = block.sent.tobytes()
        counts = (len(block.ops), len(block.sent), len(block.got), block.beside, block.queues)
        with contextlib.suppress(BrokenPipeError):  # the process has ended: `_await` reports it
            self._commands.write(f"run {' '.join(map(str, counts))}\n")
        self._await()
        block.answers[:] = np.frombuffer(self._map[answers], np.uint64)
        block.got[:] = np.frombuffer(self._map[got], np.uint8).reshape(-1, LINE_BYTES)

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
        """Return the counters of the host since the device was opened."""
        return Figures.from_buffer_copy(self._map[: ctypes.sizeof(Figures)])

    def interrupt(self) -> None:
        """Kill the simulator process."""
        self._process.kill()

    def close(self) -> None:
        """End the simulator process, killing it after 10 seconds, and release its memory."""
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

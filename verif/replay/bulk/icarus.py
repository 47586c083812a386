# SPDX-License-Identifier: Apache-2.0
"""The device in a process of Icarus: blocks through shared memory, one line of text each way."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Protocol

import numpy as np

from models.formats import LINE_BYTES
from verif.host.c_interface import FIGURES_BYTES
from verif.replay.bulk.block import Block
from verif.replay.bulk.device import BulkFault, Figures


class Child(Protocol):
    """A process that has been started."""

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code; subprocess.TimeoutExpired after that many seconds."""

    def kill(self) -> None:
        """End it at once."""


Start = Callable[[Sequence[str], IO[bytes], Mapping[str, str], Sequence[int]], Child]
"""(command, both outputs, environment, open files) -> a process that ends when this one does."""


def start(
    command: Sequence[str], out: IO[bytes], env: Mapping[str, str], files: Sequence[int]
) -> Child:
    """A plain process: what runs under `nf` is started by the runner, which ends it."""
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=subprocess.STDOUT,
        pass_fds=files,
        env=env,
    )


class IcarusDevice:
    """A simulator process with the VPI module; what it prints goes to ``log``."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        mem_lines_log2: int,
        seed: int,
        record: Path | None = None,
        start: Start = start,
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
        numbers = ",".join(map(str, (*files, mem_lines_log2, seed & 0xFFFFFFFF)))
        recorded = {} if record is None else {"NF_BULK_RECORD": str(record)}
        with log.open("ab") as out:
            env = {**os.environ, "NF_BULK": numbers, **recorded}
            self._process = start(command, out, env, files)
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
        self._commands.write(f"run {len(block.ops)} {len(block.sent)} {len(block.got)}\n")
        self._await()
        block.answers[:] = np.frombuffer(self._map[answers : answers + sizes[1]], np.uint64)
        got = np.frombuffer(self._map[at : at + sizes[3]], np.uint8)
        block.got[:] = got.reshape(-1, LINE_BYTES)

    def _await(self) -> None:
        text = self._answers.readline().strip()
        if not text:
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

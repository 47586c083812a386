# SPDX-License-Identifier: Apache-2.0
"""The RTL as it was compiled, and how it is started: in this process, or in the simulator's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from verif.replay.bulk.device import BulkDevice, VerilatedDevice
from verif.replay.bulk.icarus import IcarusDevice, Start, start


class BulkModel(Protocol):
    """The RTL compiled for bulk replay."""

    @property
    def build_seconds(self) -> float:
        """What the build took; 0 when it was there."""

    def open(self, folder: Path, mem_lines_log2: int, seed: int) -> BulkDevice:
        """A reset device with its link up; a simulator process leaves its log in ``folder``."""


@dataclass(frozen=True)
class VerilatedModel:
    """A library; ``bare`` is a program of the same model without Python and without checks.

    ``build_seconds``: what this call waited; ``took_seconds``: what the build took once.
    """

    library: Path
    bare: Path
    build_seconds: float
    took_seconds: float

    def open(self, folder: Path, mem_lines_log2: int, seed: int) -> BulkDevice:
        """See BulkModel."""
        return VerilatedDevice(self.library, mem_lines_log2, seed)


@dataclass(frozen=True)
class IcarusModel:
    """A command that loads the design and the VPI module; ``start`` makes a process of it."""

    command: tuple[str, ...]
    build_seconds: float
    took_seconds: float
    start: Start = start

    def open(self, folder: Path, mem_lines_log2: int, seed: int) -> BulkDevice:
        """See BulkModel."""
        log = folder / "simulator.log"
        return IcarusDevice(self.command, log, mem_lines_log2, seed, start=self.start)

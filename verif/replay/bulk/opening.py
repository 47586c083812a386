# SPDX-License-Identifier: Apache-2.0
"""Opens a device on what the simulator offers: a library in this process, or another process."""

from __future__ import annotations

from pathlib import Path

from verif.replay.backend import BulkModel
from verif.replay.bulk.device import BulkDevice, VerilatedDevice
from verif.replay.bulk.icarus import IcarusDevice


def open_device(model: BulkModel, folder: Path, mem_lines_log2: int, seed: int) -> BulkDevice:
    """A reset device with its link up; a simulator process leaves its log in ``folder``."""
    if model.library is not None:
        return VerilatedDevice(model.library, mem_lines_log2, seed)
    return IcarusDevice(model.command, folder / "simulator.log", mem_lines_log2, seed)

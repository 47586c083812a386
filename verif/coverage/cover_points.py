# SPDX-License-Identifier: Apache-2.0
"""What must have been seen, sampled from judged operations, commits, registers and memory beats.

The points lie in a file for each feature; here they are composed into one model, and what the
monitors and the scoreboard say goes to those who want it.
"""

from __future__ import annotations

from models.regions import RegionConfig
from verif.coverage.capacity_points import CapacityPoints
from verif.coverage.cover_model import CoverModel
from verif.coverage.engine_points import EnginePoints
from verif.coverage.epoch_points import EpochPoints
from verif.coverage.memory_port_points import MemoryPortPoints
from verif.coverage.transaction_points import TransactionPoints
from verif.mem.memory_config import MemBeat
from verif.scoreboard.operations import Op


class NfCoverage:
    """Sampling methods; the environment calls them."""

    def __init__(self) -> None:
        model = self.model = CoverModel()
        self.transaction = TransactionPoints(model)
        self.engine = EnginePoints(model)
        self.epoch = EpochPoints(model)
        self.memory_port = MemoryPortPoints(model)
        self.capacity = CapacityPoints(model)

    def op(self, op: Op, config: RegionConfig | None) -> None:
        """An answered operation."""
        self.transaction.op(op, config)
        self.capacity.op(op)

    def committed(self, config: RegionConfig, code: int, busy: bool) -> None:
        """A commit was decided."""
        self.epoch.committed(config, code, busy)

    def beat(self, beat: MemBeat, place: str) -> None:
        """A beat on the device-memory port; `place`: as `MemoryPort.place` names it."""
        self.memory_port.beat(beat, place)

    def register(self, name: str, value: int) -> None:
        """A register was read."""
        self.engine.register(name, value)
        self.capacity.register(name, value)

# SPDX-License-Identifier: Apache-2.0
"""What a replay needs of the runner. The runner hands it in: nothing here imports it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from neuron_fabric.text import LineError

if TYPE_CHECKING:
    from verif.replay.bulk.device import BulkDevice


@dataclass(frozen=True)
class Outcome:
    """What came of one simulator process; ``cause`` and ``log`` are texts to show."""

    passed: bool
    cause: str
    log: str
    waves: str | None
    seconds: float
    build_seconds: float


@dataclass(frozen=True)
class SimulationJob:
    """One test of a module of the bench, to be built and run; whatever it leaves in ``folder``."""

    simulator: str
    module: str
    test: str
    folder: Path
    env: Mapping[str, str]
    parameters: Mapping[str, int]
    seed: int
    timeout_s: float
    waves: bool
    rerun: str


class BulkError(LineError):
    """The RTL does not compile for bulk replay; the first error line."""


class BulkModel(Protocol):
    """The RTL compiled for bulk replay."""

    @property
    def build_seconds(self) -> float:
        """What the build took; 0 when it was there."""

    def open(self, folder: Path, mem_lines_log2: int, seed: int) -> BulkDevice:
        """A reset device with its link up; a simulator process leaves its log in ``folder``."""


class Backend(Protocol):
    """The runner, as `scripts.cli.replay` makes it and tests play it."""

    def simulators(self, wanted: str) -> tuple[Sequence[str], str | None]:
        """Simulators for verilator, icarus or both, and a line to show if one is left out."""

    def workspace(self, name: str) -> Path:
        """An empty folder for the files of a replay."""

    def simulate(self, job: SimulationJob) -> Outcome:
        """Builds if needed, runs, never raises for a failing test."""

    def bulk(self, simulator: str, parameters: Mapping[str, int]) -> BulkModel:
        """Builds for bulk replay if needed; BulkError when it does not build."""

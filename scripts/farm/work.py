# SPDX-License-Identifier: Apache-2.0
"""Work items for cluster workers: a cocotb run, a piece of a bulk replay, a proof.

A work item is pickled here and unpickled in a process on a worker, which calls its `run`. Dask
pickles arguments as well, so this adds no trust. Imports that only one kind of work needs stay in
its `run`: they would slow down the start of every server process.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from scripts.build.build_cache import build_directory
from scripts.common import folder_locks, tool_versions
from scripts.common.paths import RUNS
from scripts.common.records import SOLVER, FailureKind, RunRecord, RunSpec, Verdict
from scripts.run import run_folders, simulate

if TYPE_CHECKING:
    from scripts.prove.proof import Proof
    from verif.replay.bulk.piece_result import Result
    from verif.replay.job import Piece, Replay


def versions() -> dict[str, str]:
    """Return the versions of Python and cocotb, which must be equal to build and to run."""
    python = ".".join(str(part) for part in sys.version_info[:2])
    return {"Python": python, "cocotb": tool_versions.package_version("cocotb") or "none"}


class Work(Protocol):
    """Work item: what a worker does for a RunSpec."""

    def run(self, spec: RunSpec, build: Path) -> RunRecord:
        """Do the work on the worker and return the record.

        Any exception becomes an infrastructure failure of this run.

        Args:
            spec: The run.
            build: Folder of the build that was sent.
        """


@dataclass(frozen=True)
class CocotbRun:
    """Work item that runs the cocotb tests of a RunSpec."""

    def run(self, spec: RunSpec, build: Path) -> RunRecord:
        """Link the build into the build cache, where `simulate.run` finds it; run the tests."""
        directory, _ = build_directory(spec.build)
        directory.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):  # an earlier run had the same build
            directory.symlink_to(build)
        return simulate.run(spec)


@dataclass(frozen=True)
class PieceRun:
    """Work item that drives a piece of a bulk replay.

    Attributes:
        replay: Replay with the lines of that piece alone.
        piece: The piece.
        identity: Identity of the replay, to which the piece's journal is bound.
    """

    replay: Replay
    piece: Piece
    identity: Mapping[str, Any]

    def run(self, spec: RunSpec, build: Path) -> RunRecord:
        """Drive the piece, and write lines, figures and faults to the run folder."""
        from scripts.build import bulk_build
        from verif.replay.bulk.bulk_transport import BulkTransport
        from verif.replay.bulk.piece_result import drive_piece, read_result

        folder = folder_locks.folder(RUNS) / spec.id
        run_folders.empty(folder)
        model = bulk_build.found(spec.build.sim, build)
        done = BulkTransport(self.replay, spec.build.sim, folder, model)
        drive_piece(done, self.piece, self.identity)
        return piece_record(spec, folder, read_result(folder))


@dataclass(frozen=True)
class ProofRun:
    """Work item that executes a proof, perhaps with the edits of a mutant.

    ``shown_as`` is the name of the build in the record; "" for the default.
    """

    proof: Proof
    shown_as: str = ""

    def run(self, spec: RunSpec, build: Path) -> RunRecord:
        """Execute the proof; it needs no build."""
        from scripts.prove import proving

        return proving.run(self.proof, folder_locks.folder(RUNS), self.shown_as)


def piece_record(spec: RunSpec, folder: Path, result: Result) -> RunRecord:
    """Return the record of a piece whose process ended in order; it fails with the first fault."""
    cause = " ".join(next(iter([*result.faults, *result.refused]), "").split())[:300]
    verdict = Verdict(not cause, FailureKind.MISMATCH if cause else None, cause)
    return simulate.record_of(spec, folder, verdict)


def not_run(spec: RunSpec, cause: str, runs: Path) -> RunRecord:
    """Return the record of a run or proof that could not be done, an infrastructure failure."""
    if spec.build.sim == SOLVER:
        from scripts.prove import proving

        return proving.not_tried(spec, cause, runs)
    return simulate.infrastructure(spec, cause, runs)

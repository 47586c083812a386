# SPDX-License-Identifier: Apache-2.0
"""A piece of a bulk replay as a run: what a worker gets of it, and the record of what came."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.build import bulk_build
from scripts.common import run_folders
from scripts.common.paths import RUNS
from scripts.common.records import FailureKind, RunRecord, RunSpec, Verdict
from scripts.run import evidence, simulate
from verif.replay.bulk.bulk_transport import BulkTransport
from verif.replay.bulk.worker_process import Result, drive_apart, read_result
from verif.replay.job import Piece, Replay


@dataclass(frozen=True)
class Parcel:
    """What travels to a worker: a replay that has the lines of one piece, and what the piece's
    journal is bound to. Dask hands on what Python pickles, and so does this."""

    replay: Replay
    piece: Piece
    identity: Mapping[str, Any]

    def pack(self) -> bytes:
        """As bytes."""
        return pickle.dumps(self)


def serve(spec: RunSpec, build: Path, parcel: Path) -> RunRecord:
    """On a worker: drive the piece that was sent, with the build that was."""
    folder = run_folders.folder(RUNS) / spec.id
    evidence.empty(folder)
    sent: Parcel = pickle.loads(parcel.read_bytes())
    model = bulk_build.found(spec.build.sim, build)
    done = BulkTransport(sent.replay, spec.build.sim, folder, model)
    drive_apart(done, sent.piece, sent.identity)
    return record(spec, folder, read_result(folder))


def record(spec: RunSpec, folder: Path, result: Result) -> RunRecord:
    """What came of a piece whose process has ended in order."""
    cause = " ".join(next(iter([*result.faults, *result.refused]), "").split())[:300]
    verdict = Verdict(not cause, FailureKind.MISMATCH if cause else None, cause)
    return simulate.record_of(spec, folder, verdict)

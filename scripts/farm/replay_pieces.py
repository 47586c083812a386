# SPDX-License-Identifier: Apache-2.0
"""Pieces of a bulk replay, driven in parallel on many cores or machines.

A piece is some epochs of the replay, and a run like any other. On this machine it runs in a fork of
this process, which has capture and model in memory. A worker of a farm receives the lines
(synthetic ones are drawn there) and the build. In both cases only this process adds the results to
the replay (`piece_result.adopt`). A piece whose process or worker dies is driven once more. A
wrong piece ends the replay; of several, the first in the order of the pieces is reported, whatever
the number of jobs.
"""

from __future__ import annotations

import contextlib
import queue
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from neuron_fabric.errors import say
from scripts.build import bulk_build
from scripts.common import process
from scripts.common.records import FILELIST, TOP, BuildSpec, FailureKind, RunRecord, RunSpec
from scripts.farm.cluster import Farm
from scripts.farm.work import PieceRun, piece_record
from scripts.run import fork_client, fork_server, run_folders, simulate
from scripts.run.fork_client import Server, ServerError
from scripts.run.schedule import run_all
from verif.replay.bulk.bulk_transport import BulkTransport
from verif.replay.bulk.piece_result import adopt, drive_piece, read_result, shipped
from verif.replay.job import Piece
from verif.replay.runner import Came, OnLines, Transport, in_turn

DrivePiece = Callable[[RunSpec, Piece], RunRecord]
"""Drives a piece in another process and leaves its files in the run folder."""


@dataclass
class Pieces:
    """Executor of the pieces of a replay in ``jobs`` forks of this process or on a cluster.

    `farm` is the connection to the cluster; None for forks. It is a `runner.Spread`.
    """

    jobs: int
    farm: Farm | None = None

    def __call__(
        self,
        done: Transport,
        pieces: Sequence[Piece],
        came: Came,
        progress: OnLines,
    ) -> None:
        """Drive all pieces and add their results to the replay; see `runner.Spread`.

        Args:
            done: Transport that collects the results.
            pieces: Pieces in order.
            came: Called with each piece whose results were added.
            progress: Called with the number of lines of each such piece.

        Raises:
            KeyboardInterrupt: Interrupted; results that had arrived are kept.
        """
        jobs = self.farm.slots if self.farm else min(self.jobs, len(pieces))
        if not isinstance(done, BulkTransport) or (self.farm is None and jobs < 2):
            in_turn(done, pieces, came, progress)
            return
        done.replay.settle()
        identity = done.replay.identity(done.simulator)

        def added(piece: Piece, record: RunRecord) -> None:
            """Add the results of a piece to the replay."""
            adopt(done, piece, done.folder / record.id, identity)
            progress(done.replay.writes(piece.keys))
            came(piece)

        if self.farm is not None:
            self.farm.resume()
            drive = partial(_away, done, self.farm, identity)
            _drive_all(done, pieces, drive, added, jobs, self.farm.end)
            return
        with contextlib.closing(_Forks(done, pieces, identity, jobs)) as forks:
            _drive_all(done, pieces, forks.drive, added, jobs, process.kill_all)


def _drive_all(
    done: BulkTransport,
    pieces: Sequence[Piece],
    drive: DrivePiece,
    added: Callable[[Piece, RunRecord], None],
    jobs: int,
    end: Callable[[], None],
) -> None:
    """Drive all pieces, or those before the first wrong one, whose result is added, too.

    Args:
        done: Transport that collects the results.
        pieces: Pieces in order.
        drive: Drives one piece in another process.
        added: Adds the results of a piece to the replay.
        jobs: Pieces at a time.
        end: Ends all pieces in progress.
    """
    by_id = {_spec(done, piece).id: piece for piece in pieces}
    failed: dict[int, RunRecord] = {}
    interrupted = threading.Event()

    def run(spec: RunSpec) -> RunRecord:
        """Drive a piece and return its record; repeat it once after an infrastructure failure.

        It runs in a thread, and raises CancelledError if an earlier piece has failed.
        """
        piece = by_id[spec.id]
        if any(number < piece.number for number in list(failed)):
            raise CancelledError
        record = drive(spec, piece)
        if record.kind is FailureKind.INFRASTRUCTURE:
            process.check_stopping()
            say(f"nf replay: shard {piece.number} once more: {record.cause}", file=sys.stderr)
            record = drive(spec, piece)
        return record

    def take(record: RunRecord) -> None:
        if not record.passed:
            failed[by_id[record.id].number] = record
            return
        added(by_id[record.id], record)
        shutil.rmtree(done.folder / record.id, ignore_errors=True)

    specs = [_spec(done, piece) for piece in pieces]
    run_all(specs, jobs, take, run, end=end, interrupted=interrupted)
    if interrupted.is_set():
        raise KeyboardInterrupt
    if failed:
        number, record = min(failed.items(), key=lambda one: one[0])
        if record.kind is FailureKind.INFRASTRUCTURE:
            done.kind = str(record.kind)
            done.fault(f"shard {number}: {record.cause}; log: {record.log}")
        else:
            added(by_id[record.id], record)


def _spec(done: BulkTransport, piece: Piece) -> RunSpec:
    options = done.replay.options
    parameters = tuple(sorted(options.parameters.items()))
    build = BuildSpec(done.simulator, TOP, FILELIST, parameters=parameters)
    return RunSpec(build, "replay", (f"shard-{piece.number:05d}",), options.seed)


# -- here ---------------------------------------------------------------------------------------
class _Forks:
    """Pool of fork servers, one per job, made before any thread exists.

    Each forks a child per piece.
    """

    def __init__(
        self, done: BulkTransport, pieces: Sequence[Piece], identity: Mapping[str, Any], jobs: int
    ) -> None:
        self._done, self._identity = done, identity
        self._pieces = {piece.number: piece for piece in pieces}
        self._idle: queue.SimpleQueue[Server] = queue.SimpleQueue()
        for _ in range(jobs):
            self._idle.put(fork_client.fork(self._child))

    def close(self) -> None:
        """End the idle servers."""
        while not self._idle.empty():
            self._idle.get().close()

    def drive(self, spec: RunSpec, piece: Piece) -> RunRecord:
        """Drive a piece in a child of a fork server and return its record; see DrivePiece."""
        folder = self._done.folder / spec.id
        run_folders.empty(folder)
        server = self._idle.get()
        try:
            code = server.run({"piece": piece.number, "folder": str(folder)}).returncode
        except ServerError as error:
            server.close()
            process.check_stopping()
            self._idle.put(fork_client.fork(self._child))
            return simulate.infrastructure(spec, str(error), folder.parent)
        self._idle.put(server)
        process.check_stopping()
        if code:
            cause = f"its process ended with {_ending(code)}"
            return simulate.infrastructure(spec, cause, folder.parent)
        return piece_record(spec, folder, read_result(folder))

    def _child(self, request: dict[str, Any]) -> None:
        folder, done = Path(request["folder"]), self._done
        fork_server.write_to(str(folder / "run.log"))
        own = BulkTransport(done.replay, done.simulator, folder, done.model)
        drive_piece(own, self._pieces[request["piece"]], self._identity)


def _ending(code: int) -> str:
    try:
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"
    except ValueError:
        return f"signal {-code}"


# -- on the workers of a farm -------------------------------------------------------------------
def _away(
    done: BulkTransport, farm: Farm, identity: Mapping[str, Any], spec: RunSpec, piece: Piece
) -> RunRecord:
    """Drive a piece on a cluster worker, which gets its lines and the build; see DrivePiece."""
    work = PieceRun(shipped(done.replay, piece), piece, identity)
    record = farm.send(spec, work, bulk_build.directory_of(done.model), done.folder)
    if record.kind is FailureKind.INFRASTRUCTURE:
        return record
    return piece_record(spec, done.folder / spec.id, read_result(done.folder / spec.id))

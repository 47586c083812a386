# SPDX-License-Identifier: Apache-2.0
"""The pieces of a bulk replay on many cores and machines: each is a run like any other.

Here a piece is a fork of this process: capture and model are there already. On the workers of a
farm it gets its lines sent (synthetic ones are drawn there), and the build as every run does.
Whatever drives it, what a piece leaves becomes part of the replay in this process alone
(`apart.adopt`). One whose process or worker dies is driven again. A wrong one ends the replay;
where there are several, the first of them is told, however many jobs there were.
"""

from __future__ import annotations

import queue
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuron_fabric.errors import say
from scripts.build import bulk_build
from scripts.common import process
from scripts.common.records import FILELIST, TOP, BuildSpec, FailureKind, RunRecord, RunSpec
from scripts.farm import piece_run
from scripts.farm.cluster import Farm
from scripts.farm.piece_run import Parcel
from scripts.farm.schedule import run_all
from scripts.run import evidence, forkserver, simulate, zygote
from scripts.run.forkserver import Server, ServerError
from verif.replay.bulk.bulk_transport import BulkTransport
from verif.replay.bulk.worker_process import adopt, drive_apart, read_result, shipped
from verif.replay.job import Piece
from verif.replay.runner import Came, OnLines, in_turn
from verif.replay.transport import Transport

Apart = Callable[[RunSpec, Piece], RunRecord]
"""Drives a piece in another process, and brings everything that it leaves to the run's folder."""


@dataclass
class Pieces:
    """A `drive.Spread` over ``jobs`` forks of this process, or over a farm."""

    jobs: int
    farm: Farm | None = None

    def __call__(
        self,
        done: Transport,
        pieces: Sequence[Piece],
        came: Came,
        progress: OnLines,
    ) -> None:
        """See Spread. KeyboardInterrupt when it was ended: what had come is kept."""
        jobs = self.farm.slots if self.farm else min(self.jobs, len(pieces))
        if not isinstance(done, BulkTransport) or (self.farm is None and jobs < 2):
            in_turn(done, pieces, came, progress)
            return
        done.replay.settle()
        many = _Many(done, pieces, came, progress)
        with ExitStack() as stack:
            if self.farm is None:
                forks = _Forks(done, pieces, many.identity)
                stack.callback(forks.close)
                forks.open(jobs)
                many.run(forks.drive, jobs, process.kill_all)
            else:
                self.farm.resume()
                away = _Away(done, self.farm, many.identity)
                many.run(away.drive, jobs, self.farm.end)


class _Many:
    """Hands out the pieces in their order, and takes what comes."""

    def __init__(
        self,
        done: BulkTransport,
        pieces: Sequence[Piece],
        came: Came,
        progress: OnLines,
    ) -> None:
        self._done, self._came, self._progress = done, came, progress
        self.identity = done.replay.identity(done.simulator)
        self._pieces = {_spec(done, piece).id: piece for piece in pieces}
        self._failed: dict[int, RunRecord] = {}

    def run(self, apart: Apart, jobs: int, end: Callable[[], None]) -> None:
        """All of them, or those before the first that is wrong."""
        done, interrupted = self._done, threading.Event()
        specs = [_spec(done, piece) for piece in self._pieces.values()]

        def runner(spec: RunSpec) -> RunRecord:
            return self._run(apart, spec)

        run_all(specs, jobs, self._take, runner, end=end, interrupted=interrupted)
        if interrupted.is_set():
            raise KeyboardInterrupt
        if not self._failed:
            return
        number = min(self._failed)
        record = self._failed[number]
        if record.kind is FailureKind.INFRASTRUCTURE:
            done.kind = str(record.kind)
            done.fault(f"shard {number}: {record.cause}; log: {record.log}")
            return
        self._adopt(record)

    def _run(self, apart: Apart, spec: RunSpec) -> RunRecord:
        """In a thread of its own: once, and once more where nothing is known about the piece."""
        piece = self._pieces[spec.id]
        if any(number < piece.number for number in list(self._failed)):
            raise CancelledError
        record = apart(spec, piece)
        if record.kind is FailureKind.INFRASTRUCTURE:
            process.check_stopping()
            say(f"nf replay: shard {piece.number} once more: {record.cause}", file=sys.stderr)
            record = apart(spec, piece)
        return record

    def _take(self, record: RunRecord) -> None:
        if not record.passed:
            self._failed[self._pieces[record.id].number] = record
            return
        self._adopt(record)
        shutil.rmtree(self._done.folder / record.id, ignore_errors=True)

    def _adopt(self, record: RunRecord) -> None:
        piece = self._pieces[record.id]
        adopt(self._done, piece, self._done.folder / record.id, self.identity)
        self._progress(self._done.replay.writes(piece.keys))
        self._came(piece)


def _spec(done: BulkTransport, piece: Piece) -> RunSpec:
    options = done.replay.options
    parameters = tuple(sorted(options.parameters.items()))
    build = BuildSpec(done.simulator, TOP, FILELIST, parameters=parameters)
    return RunSpec(build, "replay", (f"shard-{piece.number:05d}",), options.seed)


# -- here ---------------------------------------------------------------------------------------
class _Forks:
    """Servers that were forked before there was any thread; each forks a child for a piece."""

    def __init__(
        self, done: BulkTransport, pieces: Sequence[Piece], identity: Mapping[str, Any]
    ) -> None:
        self._done, self._identity = done, identity
        self._pieces = {piece.number: piece for piece in pieces}
        self._idle: queue.SimpleQueue[Server] = queue.SimpleQueue()

    def open(self, jobs: int) -> None:
        """Fork the servers: as many pieces are driven at once."""
        for _ in range(jobs):
            self._idle.put(forkserver.fork(self._child))

    def close(self) -> None:
        """End them."""
        while not self._idle.empty():
            self._idle.get().close()

    def drive(self, spec: RunSpec, piece: Piece) -> RunRecord:
        """See Apart."""
        folder = self._done.folder / spec.id
        evidence.empty(folder)
        server = self._idle.get()
        try:
            code = server.run({"piece": piece.number, "folder": str(folder)}).returncode
        except ServerError as error:
            server.close()
            process.check_stopping()
            self._idle.put(forkserver.fork(self._child))
            return simulate.infrastructure(spec, str(error), folder.parent)
        self._idle.put(server)
        process.check_stopping()
        if code:
            cause = f"its process ended with {_ending(code)}"
            return simulate.infrastructure(spec, cause, folder.parent)
        return piece_run.record(spec, folder, read_result(folder))

    def _child(self, request: dict[str, Any]) -> None:
        folder, done = Path(request["folder"]), self._done
        zygote.write_to(str(folder / "run.log"))
        own = BulkTransport(done.replay, done.simulator, folder, done.model)
        drive_apart(own, self._pieces[request["piece"]], self._identity)


def _ending(code: int) -> str:
    try:
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"
    except ValueError:
        return f"signal {-code}"


# -- on the workers of a farm -------------------------------------------------------------------
@dataclass(frozen=True)
class _Away:
    """Sends a piece with what it needs."""

    done: BulkTransport
    farm: Farm
    identity: Mapping[str, Any]

    def drive(self, spec: RunSpec, piece: Piece) -> RunRecord:
        """See Apart."""
        done = self.done
        parcel = Parcel(shipped(done.replay, piece), piece, self.identity).pack()
        record = self.farm.send(spec, bulk_build.directory_of(done.model), parcel, done.folder)
        if record.kind is FailureKind.INFRASTRUCTURE:
            return record
        return piece_run.record(spec, done.folder / spec.id, read_result(done.folder / spec.id))

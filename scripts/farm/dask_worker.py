# SPDX-License-Identifier: Apache-2.0
"""What runs inside a Dask worker. It travels there as it is, so it may import nothing of the
project but `bundle`, which travels along: Python, and Dask, are all that it finds.

A worker unpacks bundles below its own folder and hands each run to a server process (`remote.py` of
the unpacked sources), one a thread, which it keeps for the next run. When the worker dies, however,
its servers read the end of their input and end every simulator.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from distributed import Worker, get_worker
from distributed.diagnostics.plugin import WorkerPlugin

from scripts.farm.bundle import of_results, unpack

_WAIT_S = 120.0  # for a bundle that is still on its way to a worker that has just joined


class Unpack(WorkerPlugin):  # type: ignore[misc]
    """Brings one bundle to every worker, also to those that join later."""

    def __init__(self, digest: str, data: bytes) -> None:
        self.digest = digest
        self.data = data

    def setup(self, worker: Worker) -> None:
        """Called by Dask in the worker."""
        folder = _place(worker, self.digest)
        if not folder.is_dir():
            half = folder.with_suffix(f".{os.getpid()}")
            unpack(self.data, half)
            half.rename(folder)
        self.data = b""

    def teardown(self, worker: Worker) -> None:
        """Called by Dask in the worker: remove it, unless another command still needs it."""
        if not any(getattr(p, "digest", "") == self.digest for p in worker.plugins.values()):
            shutil.rmtree(_place(worker, self.digest), ignore_errors=True)


class Session(WorkerPlugin):  # type: ignore[misc]
    """The servers of one `nf` command on a worker; all end when it is taken away."""

    def __init__(self) -> None:
        self.idle: list[subprocess.Popen[str]] = []
        self.all: list[subprocess.Popen[str]] = []

    def setup(self, worker: Worker) -> None:
        """Called by Dask in the worker."""
        self.lock = threading.Lock()

    def teardown(self, worker: Worker) -> None:
        """Called by Dask in the worker: end every server, and with it its simulators."""
        with self.lock:
            servers, self.all = self.all, []
        for server in servers:
            _end(server)

    def ask(self, sources: Path, request: dict[str, Any]) -> dict[str, Any]:
        """One request, one answer, from an idle server or a new one."""
        with self.lock:
            server = self.idle.pop() if self.idle else _start(sources)
            if server not in self.all:
                self.all.append(server)
        assert server.stdin is not None
        assert server.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            server.stdin.write(json.dumps(request) + "\n")
            server.stdin.flush()
        line = server.stdout.readline()
        if not line:
            _end(server)
            raise RuntimeError(f"the process that serves runs on {os.uname().nodename} ended")
        with self.lock:
            self.idle.append(server)
        answer: dict[str, Any] = json.loads(line)
        return answer


def _start(sources: Path) -> subprocess.Popen[str]:
    with (sources / "remote.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "scripts.farm.remote"],
            cwd=sources,
            env=_environment(sources),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            encoding="utf-8",
            start_new_session=True,
        )


def _environment(sources: Path) -> dict[str, str]:
    """The worker's, but for what would lead out of the unpacked sources or drop assertions; the
    runs get what `tool_environment` allows of it."""
    out = ("NF_", "PYTHON")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(out)}
    return {**kept, "PYTHONPATH": str(sources)}


def _end(server: subprocess.Popen[str]) -> None:
    for pipe in (server.stdin, server.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    try:
        server.wait(timeout=5)  # it ends its simulators
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _place(worker: Worker, digest: str) -> Path:
    return Path(worker.local_directory, "nf", digest)


@contextlib.contextmanager
def _file(worker: Worker, parcel: bytes | None) -> Iterator[str]:
    """A file that holds a parcel as long as it is needed; "" for none."""
    if parcel is None:
        yield ""
        return
    path = _place(worker, f"parcel-{uuid.uuid4().hex}")
    try:
        path.write_bytes(parcel)
        yield str(path)
    finally:
        path.unlink(missing_ok=True)


def run(session: str, request: dict[str, Any], parcel: bytes | None) -> tuple[str, bytes]:
    """One run in a worker: its record as JSON, and its folder as compressed tar.

    `request` names the bundles `sources` (the project), `root` (the design's, "" when it is the
    same) and `build`, and gives the `spec`, the `versions` that the build was made with, and the
    `inputs` (see `cluster.inputs`). What a piece of a replay needs besides is its `parcel`.
    """
    worker = get_worker()
    needed = [name for name in (request["sources"], request["root"], request["build"]) if name]
    late = time.monotonic() + _WAIT_S
    while session not in worker.plugins or not all(_place(worker, n).is_dir() for n in needed):
        if time.monotonic() > late:
            raise RuntimeError(f"no bundle came to {os.uname().nodename} in {_WAIT_S:.0f} s")
        time.sleep(0.05)
    sources = _place(worker, request["sources"])
    folders = {name: str(_place(worker, request[name])) for name in ("root", "build")}
    folders["root"] = folders["root"] if request["root"] else str(sources)
    with _file(worker, parcel) as path:
        answer = worker.plugins[session].ask(sources, {**request, **folders, "parcel": path})
    folder = Path(answer["folder"])
    try:
        files = of_results(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return json.dumps(answer["record"]), files

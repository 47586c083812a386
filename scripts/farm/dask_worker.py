# SPDX-License-Identifier: Apache-2.0
"""Code that runs inside a Dask worker.

It is pickled by value, so it imports only Dask and `bundle`, which is pickled by value as well. The
worker unpacks bundles below its own folder and passes each run to a server process
(`worker_server.py` of the unpacked sources), one per thread, which is reused. If the worker dies,
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
from pathlib import Path
from typing import Any

from distributed import Worker, get_worker
from distributed.diagnostics.plugin import WorkerPlugin

from scripts.farm.bundle import of_results, unpack

_WAIT_S = 120.0  # for a bundle to reach a worker that has just joined


class Unpack(WorkerPlugin):  # type: ignore[misc]
    """Plugin that unpacks one bundle on every worker, including those that join later."""

    def __init__(self, digest: str, data: bytes) -> None:
        self.digest = digest
        self.data = data

    def setup(self, worker: Worker) -> None:
        """Unpack the bundle; called by Dask in the worker."""
        folder = _place(worker, self.digest)
        if not folder.is_dir():
            half = folder.with_suffix(f".{os.getpid()}")
            unpack(self.data, half)
            half.rename(folder)
        self.data = b""

    def teardown(self, worker: Worker) -> None:
        """Remove the folder unless another command uses it; called by Dask in the worker."""
        if not any(getattr(p, "digest", "") == self.digest for p in worker.plugins.values()):
            shutil.rmtree(_place(worker, self.digest), ignore_errors=True)


class Session(WorkerPlugin):  # type: ignore[misc]
    """Plugin that holds the server processes of one `nf` command on a worker, one per thread.

    Removal of the plugin ends them.
    """

    def __init__(self) -> None:
        self.servers: dict[int, subprocess.Popen[str]] = {}

    def teardown(self, worker: Worker) -> None:
        """End every server and its simulators; called by Dask in the worker."""
        for server in [*self.servers.values()]:
            _end(server)

    def ask(self, sources: Path, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request to the server process of this thread, started if needed.

        Returns:
            Its answer.

        Raises:
            RuntimeError: The server process ended.
        """
        me = threading.get_ident()
        server = self.servers[me] = self.servers.get(me) or _start(sources)
        assert server.stdin is not None
        assert server.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            server.stdin.write(json.dumps(request) + "\n")
            server.stdin.flush()
        line = server.stdout.readline()
        if not line:
            _end(self.servers.pop(me))
            raise RuntimeError(f"the process that serves runs on {os.uname().nodename} ended")
        answer: dict[str, Any] = json.loads(line)
        return answer


def _start(sources: Path) -> subprocess.Popen[str]:
    with (sources / "remote.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "scripts.farm.worker_server"],
            cwd=sources,
            env=_environment(sources),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            encoding="utf-8",
            start_new_session=True,
        )


def _environment(sources: Path) -> dict[str, str]:
    """Return the environment for a server process: that of the worker without NF_* and PYTHON*.

    Those could name other sources or disable assertions. `tool_environment` then selects what the
    runs get.
    """
    out = ("NF_", "PYTHON")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(out)}
    return {**kept, "PYTHONPATH": str(sources)}


def _end(server: subprocess.Popen[str]) -> None:
    for pipe in (server.stdin, server.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    try:
        server.wait(timeout=5)  # time to end its simulators
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _place(worker: Worker, digest: str) -> Path:
    return Path(worker.local_directory, "nf", digest)


def run(session: str, request: dict[str, Any], work: bytes) -> tuple[str, bytes]:
    """Do one piece of work in a worker.

    Args:
        session: Name of the `Session` plugin of the command.
        request: The digests of the bundles `sources` (the project), `root` (of the design, "" if
            the same) and `build` ("" for none), the `spec`, the `versions` that the build was made
            with, and the `inputs` (see `cluster.inputs`).
        work: Pickled `work.Work`.

    Returns:
        The record as JSON, and the run folder as a bundle.
    """
    worker = get_worker()
    needed = [name for name in (request["sources"], request["root"], request["build"]) if name]
    late = time.monotonic() + _WAIT_S
    while session not in worker.plugins or not all(_place(worker, n).is_dir() for n in needed):
        if time.monotonic() > late:
            raise RuntimeError(f"no bundle came to {os.uname().nodename} in {_WAIT_S:.0f} s")
        time.sleep(0.05)
    sources = _place(worker, request["sources"])
    paths = {
        "root": str(_place(worker, request["root"]) if request["root"] else sources),
        "build": str(_place(worker, request["build"])) if request["build"] else "",
    }
    file = _place(worker, f"work-{uuid.uuid4().hex}")
    try:
        file.write_bytes(work)
        answer = worker.plugins[session].ask(sources, {**request, **paths, "work": str(file)})
    finally:
        file.unlink(missing_ok=True)
    folder = Path(answer["folder"])
    try:
        files = of_results(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return json.dumps(answer["record"]), files

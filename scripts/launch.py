# SPDX-License-Identifier: Apache-2.0
"""Workers of a data-parallel training on this machine, as torchrun starts them.

Each gets RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, which
`init_process_group` reads. When one fails the others, which would wait for it for ever, are ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scripts import process

GRACE_SECONDS = 5.0
_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Failed:
    """The worker that failed first; ``returncode`` is negative for a signal."""

    rank: int
    returncode: int

    def __str__(self) -> str:
        if self.returncode < 0:
            return f"worker {self.rank} was ended by signal {-self.returncode}"
        return f"worker {self.rank} ended with code {self.returncode}"


def run_workers(
    command: Sequence[str], workers: int, env: Mapping[str, str] = os.environ
) -> Failed | None:
    """Run ``command`` in every worker until all are done; None when all ended with 0."""
    shared = {
        "OMP_NUM_THREADS": "1",  # as torchrun: so many workers share the cores
        **env,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
        "WORLD_SIZE": str(workers),
        "LOCAL_WORLD_SIZE": str(workers),
    }
    running: list[subprocess.Popen[bytes]] = []
    with process.handling(_leave, signal.SIGTERM, signal.SIGHUP):
        try:
            for rank in range(workers):
                running.append(
                    subprocess.Popen(
                        list(command),
                        env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                        stdin=subprocess.DEVNULL,
                        start_new_session=True,
                    )
                )
            return _first_failure(running)
        finally:
            _end(running)


def _leave(number: int) -> None:
    """For a signal that would end this process at once: the workers, in sessions of their own,
    would stay."""
    raise SystemExit(128 + number)


def _first_failure(running: Sequence[subprocess.Popen[bytes]]) -> Failed | None:
    while True:
        codes = [worker.poll() for worker in running]
        for rank, code in enumerate(codes):
            if code:
                return Failed(rank, code)
        if None not in codes:
            return None
        time.sleep(_POLL_SECONDS)


def _end(running: Sequence[subprocess.Popen[bytes]]) -> None:
    """End what still runs, with all that it has started: first kindly."""
    _signal([worker for worker in running if worker.poll() is None], signal.SIGTERM)
    until = time.monotonic() + GRACE_SECONDS
    for worker in running:
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.wait(max(0.0, until - time.monotonic()))
    _signal(running, signal.SIGKILL)
    for worker in running:
        worker.wait()


def _signal(workers: Sequence[subprocess.Popen[bytes]], number: signal.Signals) -> None:
    for worker in workers:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(worker.pid, number)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

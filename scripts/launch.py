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


def _first_failure(running: Sequence[subprocess.Popen[bytes]]) -> Failed | None:
    while True:
        codes = [process.poll() for process in running]
        for rank, code in enumerate(codes):
            if code:
                return Failed(rank, code)
        if None not in codes:
            return None
        time.sleep(_POLL_SECONDS)


def _end(running: Sequence[subprocess.Popen[bytes]]) -> None:
    """End what still runs, with all that it has started: first kindly."""
    _signal([process for process in running if process.poll() is None], signal.SIGTERM)
    until = time.monotonic() + GRACE_SECONDS
    for process in running:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, until - time.monotonic()))
    _signal(running, signal.SIGKILL)
    for process in running:
        process.wait()


def _signal(processes: Sequence[subprocess.Popen[bytes]], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

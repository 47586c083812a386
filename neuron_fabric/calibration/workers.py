# SPDX-License-Identifier: Apache-2.0
"""Workers of a training on this machine: a process each, with what `init_process_group` reads."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Mapping, Sequence

GRACE_SECONDS = 5
_POLL_SECONDS = 0.05
_HERE = "127.0.0.1"


def run_workers(command: Sequence[str], workers: int, env: Mapping[str, str]) -> str | None:
    """Run ``command`` in every worker until all are done; None when all ended with 0, else one line
    about the one that failed first: the others are ended."""
    with socket.socket() as probe:
        probe.bind((_HERE, 0))
        port = str(probe.getsockname()[1])
    started: list[subprocess.Popen[bytes]] = []
    try:
        for rank in range(workers):
            place = {
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(workers),
                "LOCAL_WORLD_SIZE": str(workers),
                "MASTER_ADDR": _HERE,
                "MASTER_PORT": port,
            }
            full = {"OMP_NUM_THREADS": "1", **env, **place}  # so many workers share the cores
            started.append(
                subprocess.Popen(
                    [*command], env=full, stdin=subprocess.DEVNULL, start_new_session=True
                )
            )
        return _first_failure(started)
    finally:
        _end(started)


def _first_failure(started: Sequence[subprocess.Popen[bytes]]) -> str | None:
    while True:
        codes = [one.poll() for one in started]
        for rank, code in enumerate(codes):
            if code:
                how = f"ended with code {code}" if code > 0 else f"was ended by signal {-code}"
                return f"worker {rank} {how}"
        if all(code == 0 for code in codes):
            return None
        time.sleep(_POLL_SECONDS)


def _end(started: Sequence[subprocess.Popen[bytes]]) -> None:
    """Kindly first."""
    for one in started:
        if one.poll() is None:
            one.terminate()
    end = time.monotonic() + GRACE_SECONDS
    for one in started:
        try:
            one.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()

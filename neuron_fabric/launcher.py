# SPDX-License-Identifier: Apache-2.0
"""Launcher for the workers of a data-parallel training on this machine.

Each worker is a process with the variables that `init_process_group` reads, in a separate process
group, so that its children can be ended with it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

GRACE_SECONDS = 5
"""Time from SIGTERM to SIGKILL."""
_POLL_SECONDS = 0.05
_HERE = "127.0.0.1"


def run_workers(
    command: Sequence[str],
    workers: int,
    env: Mapping[str, str],
    watch: Callable[[int], None] = lambda pid: None,
) -> str | None:
    """Run one command in every worker until all have ended, or one has failed.

    Args:
        command: program and arguments, the same for all workers.
        workers: number of workers.
        env: environment; RANK, WORLD_SIZE, MASTER_ADDR and the like are added.
        watch: called with the process id of each worker that is started.

    Returns:
        None if all workers ended with 0, else one line about the first that failed. The others are
        ended then.
    """
    failure = run_ranks([command] * workers, {**env, **meeting_point()}, watch)
    return failure and f"worker {failure[0]} {failure[1]}"


def meeting_point(address: str = _HERE) -> dict[str, str]:
    """Return MASTER_ADDR and MASTER_PORT for `init_process_group`: an address and a free port."""
    with socket.socket() as probe:
        probe.bind((_HERE, 0))
        return {"MASTER_ADDR": address, "MASTER_PORT": str(probe.getsockname()[1])}


def run_ranks(
    commands: Sequence[Sequence[str]],
    env: Mapping[str, str],
    watch: Callable[[int], None] = lambda pid: None,
    logs: Path | None = None,
) -> tuple[int, str] | None:
    """Run a command for each rank until all have ended; the first failure ends the others.

    Args:
        commands: program and arguments of each rank.
        env: environment; RANK, LOCAL_RANK, WORLD_SIZE and LOCAL_WORLD_SIZE are added.
        watch: called with the process id of each rank that is started.
        logs: folder in which ``log-N`` gets the output of rank N; None: that of this process.

    Returns:
        None if all ranks ended with 0, else the rank that failed first, and a text how.
    """
    started: list[subprocess.Popen[bytes]] = []
    size = str(len(commands))
    try:
        for n, command in enumerate(commands):
            rank = {"RANK": str(n), "LOCAL_RANK": str(n)}
            rank |= {"WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
            log = contextlib.nullcontext() if logs is None else (logs / f"log-{n}").open("wb")
            with log as output:
                started.append(
                    subprocess.Popen(
                        [*command],
                        env={"OMP_NUM_THREADS": "1", **env, **rank},  # they share the cores
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=output and subprocess.STDOUT,
                        start_new_session=True,
                    )
                )
            watch(started[-1].pid)
        return _first_failure(started)
    finally:
        _end(started)


def _first_failure(started: Sequence[subprocess.Popen[bytes]]) -> tuple[int, str] | None:
    while True:
        codes = [one.poll() for one in started]
        for rank, code in enumerate(codes):
            if code:
                how = f"ended with code {code}" if code > 0 else f"was ended by signal {-code}"
                return rank, how
        if all(code == 0 for code in codes):
            return None
        time.sleep(_POLL_SECONDS)


def _end(started: Sequence[subprocess.Popen[bytes]]) -> None:
    """End the process groups of all workers: SIGTERM, then SIGKILL for the rest."""
    _signal([one for one in started if one.poll() is None], signal.SIGTERM)
    end = time.monotonic() + GRACE_SECONDS
    for one in started:
        with contextlib.suppress(subprocess.TimeoutExpired):
            one.wait(max(0.0, end - time.monotonic()))
    _signal(started, signal.SIGKILL)
    for one in started:
        one.wait()


def _signal(started: Sequence[subprocess.Popen[bytes]], number: signal.Signals) -> None:
    for one in started:
        with contextlib.suppress(ProcessLookupError):  # no process of the group is left
            os.killpg(one.pid, number)

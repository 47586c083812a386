# SPDX-License-Identifier: Apache-2.0
"""Workers of a data-parallel training on this machine, as torchrun starts them.

Each gets RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, which
`init_process_group` reads. When one fails the others, which would wait for it for ever, are ended.
They belong to a guard (`launch_guard`), which ends them too when this process is killed.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.common import process
from scripts.common.errors import NfError
from scripts.run import launch_guard

GRACE_SECONDS = 5.0


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
    """Run ``command`` in every worker until all are done; None when all ended with 0.

    NfError when somebody has ended the guard, and so the workers.
    """
    shared = {
        "OMP_NUM_THREADS": "1",  # as torchrun: so many workers share the cores
        **env,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
        "WORLD_SIZE": str(workers),
        "LOCAL_WORLD_SIZE": str(workers),
    }
    with process.handling(_leave, signal.SIGTERM, signal.SIGHUP):
        return _guarded({"command": list(command), "workers": workers}, shared)


def _guarded(job: dict[str, object], env: Mapping[str, str]) -> Failed | None:
    """Start the guard and wait for what it says; it is gone, with the workers, at the end."""
    heard, said = os.pipe()
    with open(heard, "rb") as answer:
        try:
            guard = subprocess.Popen(
                [sys.executable, "-I", str(Path(launch_guard.__file__).resolve())],
                env=dict(env),
                stdin=subprocess.PIPE,
                start_new_session=True,
                pass_fds=(said,),
            )
        finally:
            os.close(said)
        assert guard.stdin is not None
        try:
            line = json.dumps({**job, "grace": GRACE_SECONDS, "said": said})
            guard.stdin.write(f"{line}\n".encode())
            guard.stdin.flush()
            text = answer.read()
        finally:
            guard.terminate()
            guard.wait()
            guard.stdin.close()
    words = [json.loads(line) for line in text.splitlines()]
    if not words or isinstance(words[-1], int):
        launch_guard.signal_groups(words, signal.SIGKILL)  # what the workers have started
        raise NfError(
            f"the workers' guard (process {guard.pid}) has ended with code {guard.returncode}, and "
            "with it the workers."
        )
    failed = words[-1]
    return None if failed is None else Failed(*failed)


def _leave(number: int) -> None:
    """For a signal that would end this process at once: the guard is given time to be kind."""
    raise SystemExit(128 + number)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

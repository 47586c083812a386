# SPDX-License-Identifier: Apache-2.0
"""Child processes that can always be ended: each in its own group, each known until it is gone."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_live: set[int] = set()
_lock = threading.Lock()
_stopping = threading.Event()


class Interrupted(Exception):
    """Raised in a worker whose process was ended by `kill_all`."""


@dataclass(frozen=True)
class Finished:
    """How a process ended; `returncode` is negative for a signal, as in subprocess."""

    returncode: int
    timed_out: bool
    seconds: float


def _kill_group(pid: int) -> None:
    """End the whole group: a simulator may have started helpers of its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def run_logged(
    command: Sequence[str],
    log: Path,
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
    append: bool = False,
) -> Finished:
    """Run a command with both outputs in `log`; after `timeout_s` seconds kill its whole group."""
    if _stopping.is_set():
        raise Interrupted
    start = time.monotonic()
    with log.open("ab" if append else "wb") as out:
        process = subprocess.Popen(
            list(command),
            cwd=cwd,
            env=dict(env) if env is not None else None,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        with _lock:
            _live.add(process.pid)
        timed_out = False
        try:
            process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            _kill_group(process.pid)  # also what the process left behind
            process.wait()
            with _lock:
                _live.discard(process.pid)
    if _stopping.is_set():
        raise Interrupted
    return Finished(process.returncode, timed_out, time.monotonic() - start)


def kill_all() -> None:
    """End every process started here and refuse new ones. For Ctrl-C."""
    _stopping.set()
    with _lock:
        pids = list(_live)
    for pid in pids:
        _kill_group(pid)

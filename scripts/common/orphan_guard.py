# SPDX-License-Identifier: Apache-2.0
"""A small process that outlives this one by a moment, and ends what it has left running.

No handler runs when a process is killed by SIGKILL. The guard reads a pipe that nobody else has:
one line for each process that is started or gone. At the end of the pipe its owner is dead.
"""

from __future__ import annotations

import atexit
import contextlib
import signal
import subprocess
import sys
import threading

# Processes by number: the signal, and whether it goes to the whole group.
_PROGRAM = """
import os, sys
live = {}
for line in sys.stdin.buffer:
    pid, number, group = map(int, line.split())
    live[pid] = number, group
    if not number:
        del live[pid]
for pid, (number, group) in live.items():
    try:
        (os.killpg if group else os.kill)(pid, number)
    except OSError:
        pass
"""
_lock = threading.Lock()
_guard: subprocess.Popen[bytes] | None = None


def watch(pid: int, *, group: bool = True) -> None:
    """End that group should this process die; ``group`` False: ask that one process to end."""
    _say(pid, signal.SIGKILL if group else signal.SIGTERM, group)


def forget(pid: int) -> None:
    """Stop watching a process that has ended."""
    if _guard is not None:
        _say(pid, 0, False)


def _say(pid: int, number: int, group: bool) -> None:
    global _guard
    with _lock:
        if _guard is None:
            _guard = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,  # Ctrl-C is not for it
            )
        assert _guard.stdin is not None
        with contextlib.suppress(OSError):  # somebody has killed it: as if there were none
            _guard.stdin.write(f"{pid} {int(number)} {int(group)}\n".encode())
            _guard.stdin.flush()


@atexit.register
def _end() -> None:
    global _guard
    with _lock:
        guard, _guard = _guard, None
    if guard is not None and guard.stdin is not None:
        with contextlib.suppress(OSError):
            guard.stdin.close()
        guard.wait()

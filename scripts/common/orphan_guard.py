# SPDX-License-Identifier: Apache-2.0
"""Guard process that ends the children of `nf` when `nf` itself has died.

No handler runs when a process is killed by SIGKILL. The guard reads a pipe that only `nf` holds
open: one line for each child that is started or gone. At the end of the pipe `nf` is dead, and the
guard sends each remaining child its signal.
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
    """Have the guard end a process if this process dies.

    Args:
        pid: Number of the process or, with ``group``, of its process group.
        group: True sends SIGKILL to the whole group; False sends SIGTERM to the one process.
    """
    _say(pid, signal.SIGKILL if group else signal.SIGTERM, group)


def forget(pid: int) -> None:
    """Tell the guard that a process has ended, so that its number is not signalled later."""
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

# SPDX-License-Identifier: Apache-2.0
"""Server inside a started simulator, which forks one child for each requested run.

cocotb calls `serve` before its other entry points (PYGPI_USERS names it first). The design is
loaded, Python has started, time is 0, no test is known. A child cannot distinguish this from a
direct start: the same command line, and its environment, folder, log and process group. It returns
from `serve`, and cocotb starts as usual. `fork_client.py` is the client.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import os
import pkgutil
import signal
import sys
from multiprocessing.connection import Connection, wait
from typing import Any

from scripts.run import cocotb_private

FD = "NF_FORK_FD"
PRELOAD = "NF_FORK_PRELOAD"
_PR_SET_PDEATHSIG = 1


def serve() -> None:
    """Fork a child for every request, and return in the children only.

    Each child has taken over the folder, log and environment of its run.
    """
    # Nothing here may open a file that a child would share, except the socket.
    connection = Connection(int(os.environ[FD]))
    os.close(os.pidfd_open(os.getpid()))  # Linux 5.3; without it there is no server, see _wait
    libc = ctypes.CDLL(None)
    atexit.register(_end_here, libc, os.getpid())  # registered first, so called last
    for name in os.environ[PRELOAD].split():
        with contextlib.suppress(ImportError):  # the bench that needs it will say so
            pkgutil.resolve_name(f"{name}:")
    cocotb_private.rewrite_assertions()
    gc.freeze()  # a collection in a child would copy every page
    libc.fflush(None)  # or each child would write it again
    greeting = os.pread(1, os.fstat(1).st_size, 0)  # what a simulator says at its start
    request = children(connection)
    _end_at_exit(libc)
    _become(request, greeting)


def children(connection: Connection) -> dict[str, Any]:
    """Fork a child for each request; send its process number and, when it ends, its exit status.

    It returns in the children only.

    Returns:
        The request of this child, which has a separate process group and ends with its parent.
    """
    server = os.getpid()
    connection.send({"ready": server})
    while True:
        try:
            request: dict[str, Any] = connection.recv()
        except (EOFError, OSError):  # the runner is gone
            os._exit(0)
        pid = os.fork()
        if pid == 0:
            end_with_parent(server)
            connection.close()
            with contextlib.suppress(OSError):
                os.setpgid(0, 0)
            return request
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)  # here too: the group exists before anybody hears of it
        connection.send({"pid": pid})
        status, used_ms = _wait(pid, connection)
        connection.send({"status": status, "used_ms": used_ms})


def end_with_parent(parent: int) -> None:
    """Have the kernel kill this process when the thread of process ``parent`` that made it ends.

    If the parent ended before the kernel was asked, exit at once.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def write_to(log: str, greeting: bytes = b"") -> None:
    """Redirect stdout and stderr of this process to a new file that begins with ``greeting``."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
    os.write(file, greeting)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)


def _become(request: dict[str, Any], greeting: bytes) -> None:
    """Take over folder, log and environment of one run, in a forked child."""
    os.chdir(request["cwd"])
    write_to(request["log"], greeting)
    wanted: dict[str, str] = request["env"]
    for name in set(os.environ) - set(wanted):
        del os.environ[name]
    os.environ.update(wanted)


def _end_at_exit(libc: ctypes.CDLL) -> None:
    """Have exit() flush all buffers and end the process before older exit handlers run.

    These handlers belong to the parent: Verilator's would wait for a thread that no child has.
    """
    for function in (libc._exit, libc.fcloseall):  # called last to first
        libc.on_exit(ctypes.cast(function, ctypes.c_void_p), None)


def _end_here(libc: ctypes.CDLL, server: int) -> None:
    """End a child whose tests are over before Python's clean-up, which takes half of its time.

    A simulation that ended in any other way continues to its real exit code. Nothing happens in the
    server itself.
    """
    if os.getpid() != server and cocotb_private.tests_are_over():
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        libc.fcloseall()
        os._exit(0)


def _wait(pid: int, connection: Connection) -> tuple[int, int]:
    """Wait for a child; return its exit code and its processor time in milliseconds.

    If the runner is gone, the child and this process are ended.
    """
    handle = os.pidfd_open(pid)
    if connection in wait([handle, connection]):  # nobody sends meanwhile: it is the end
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)
        os._exit(0)
    os.close(handle)
    _, status, used = os.wait4(pid, 0)
    return os.waitstatus_to_exitcode(status), round(1000 * (used.ru_utime + used.ru_stime))

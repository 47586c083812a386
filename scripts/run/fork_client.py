# SPDX-License-Identifier: Apache-2.0
"""Client of fork servers: a run is a fork of a started simulator, so that start-up is paid once.

A server (`fork_server.py`, inside the simulator) belongs to one command line and one environment;
only the variables of `cocotb_private.PER_RUN`, and those that begin with NF_, may differ between
its children. It serves one run at a time, so the pool holds one server a job and messages need no
sorting. Everything on the command line (Verilator's seed of reset values, plusargs) is right in
every child by construction. If no server can be started, the caller starts the simulator directly:
that is no failure.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import sys
import tempfile
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from scripts.common import cpu_time, process
from scripts.common.process import Finished
from scripts.run import cocotb_private, fork_server

# Packages that nearly every testbench imports. Each run imports the project's own code itself, so
# that an edit takes effect at once.
PRELOAD = (*cocotb_private.PRELOAD, "numpy", "pyuvm", "cocotbext.axi")
_USERS = ("scripts.run.fork_server:serve", *cocotb_private.ENTRY_POINTS)
_START_S = 60.0
_IDLE = 16  # servers kept for later runs; the least recently used one is closed first

Key = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]


class ServerError(Exception):
    """A server did not start or died; the result of its run is unknown."""


class Server:
    """Client of a server process that forks a child for each request (`fork_server.children`)."""

    def __init__(self, connection: Connection, pid: int) -> None:
        """Wait until the server process reports that it is ready.

        Args:
            connection: Connection to it.
            pid: Its number.

        Raises:
            ServerError: It does not report within 60 s.
        """
        self._connection = connection
        self.pid = pid
        try:
            self._read(_START_S)["ready"]
        except (ServerError, TimeoutError) as error:
            self.close()
            process.check_stopping()
            raise ServerError("the server did not start") from error

    def run(
        self, request: dict[str, Any], timeout_s: float | None = None, log: Path | None = None
    ) -> Finished:
        """Have the server fork a child for a request, and wait for the child to end.

        Args:
            request: Dictionary that the child receives.
            timeout_s: Limit in seconds of processor time, with the further limits of `cpu_time`;
                applies only with `log`.
            log: File to which the child writes, watched for progress.

        Raises:
            ServerError: The server has died.
        """
        begin = time.monotonic()
        try:
            self._connection.send(request)
        except OSError as error:
            raise ServerError("the server is gone") from error
        pid = self._read(_START_S)["pid"]
        process.watch(pid)
        why = ""
        try:
            if timeout_s and log:
                why, _ = cpu_time.watch(pid, timeout_s, log, self._connection.poll)
            if why:
                process.end_group(pid, self._connection.poll)
            end = self._read(_START_S if why else None)
        finally:
            process.kill_group(pid)  # also processes that the child left running
            process.forget(pid)
        seconds, used = time.monotonic() - begin, end["used_ms"] / 1000
        return Finished(end["status"], bool(why), seconds, used, why)

    def close(self) -> None:
        """Kill the server, and with it a child that still runs."""
        self._connection.close()
        process.kill_group(self.pid)
        self.reap()
        process.forget(self.pid)

    def reap(self) -> None:
        """Wait for the end of the server process."""
        os.waitpid(self.pid, 0)

    def _read(self, seconds: float | None) -> dict[str, int]:
        """Wait for a message of the server and return it.

        Args:
            seconds: Time to wait; None for ever.

        Raises:
            TimeoutError: No message came.
            ServerError: The server has died.
        """
        try:
            if self._connection.poll(seconds):
                message: dict[str, int] = self._connection.recv()
                return message
        except (OSError, EOFError) as error:
            raise ServerError("the server is gone") from error
        raise TimeoutError


def fork(work: Callable[[dict[str, Any]], None]) -> Server:
    """Fork this process into a server that forks a child for each request.

    Each child calls ``work`` with the request, and ends with exit code 0, or with 1 if that raises.
    The calling process must have no threads: a lock that one of them holds stays locked in the
    fork.

    Returns:
        The client of the server.
    """
    ours, theirs = Pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        theirs.close()
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        process.watch(pid)
        return Server(ours, pid)
    code = 1
    try:
        fork_server.end_with_parent(parent)
        with contextlib.suppress(OSError):
            os.setpgid(0, 0)  # Ctrl-C is for the parent
        ours.close()
        gc.freeze()
        work(fork_server.children(theirs))
        code = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


class _Simulator(Server):
    """Client of a server that runs inside a simulator, ready to fork runs."""

    def __init__(self, command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> None:
        ours, theirs = Pipe()
        extra = {
            fork_server.FD: str(theirs.fileno()),
            fork_server.PRELOAD: " ".join(PRELOAD),
            "PYGPI_USERS": ",".join(_USERS),
        }
        with theirs, tempfile.TemporaryFile() as out:
            self._process = process.start(
                command,
                out,
                cwd=cwd,  # pytest's settings depend on it
                env={**env, **extra},
                pass_fds=(theirs.fileno(),),
            )
        super().__init__(ours, self._process.pid)

    def reap(self) -> None:
        """Wait for the end of the simulator."""
        self._process.wait()


_idle: OrderedDict[_Simulator, Key] = OrderedDict()
_refused: set[Key] = set()  # commands for which no server started
_lock = threading.Lock()


def run_logged(
    command: Sequence[str],
    log: Path,
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout_s: float | None = None,
    append: bool = False,
) -> Finished:
    """Run a simulator command as `process.run_logged` does, but as a fork of a server if possible.

    A server of the same command and environment is reused or started; without one the command is
    started directly.
    """
    process.check_stopping()
    with contextlib.suppress(ServerError):
        server = _take(command, cwd, env)
        try:
            request = {"cwd": str(cwd), "log": str(log), "env": dict(env)}
            finished = server.run(request, timeout_s, log)
        except (ServerError, TimeoutError, ValueError) as error:
            server.close()
            process.check_stopping()
            raise ServerError(str(error)) from error
        except BaseException:
            server.close()
            raise
        _give_back(server, _key(command, cwd, env))
        process.check_stopping()
        return finished
    return process.run_logged(command, log, cwd=cwd, env=env, timeout_s=timeout_s, append=append)


def _key(command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Key:
    own = cocotb_private.PER_RUN
    shared = ((k, v) for k, v in env.items() if k not in own and not k.startswith("NF_"))
    return (str(cwd.parent), *command), tuple(sorted(shared))


def _take(command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> _Simulator:
    key = _key(command, cwd, env)
    with _lock:
        for server, has in _idle.items():
            if has == key:
                del _idle[server]
                return server
        if key in _refused:
            raise ServerError("no server could be had for this command")
    try:
        return _Simulator(command, cwd, env)
    except (ServerError, OSError) as error:
        with _lock:
            _refused.add(key)
        raise ServerError(str(error)) from error


def _give_back(server: _Simulator, key: Key) -> None:
    with _lock:
        _idle[server] = key
        surplus = _idle.popitem(last=False)[0] if len(_idle) > _IDLE else None
    if surplus:
        surplus.close()


def close_all() -> None:
    """Kill every idle server."""
    with _lock:
        servers = list(_idle)
        _idle.clear()
    for server in servers:
        server.close()


atexit.register(close_all)
# A forked copy of the runner must not talk to servers of the original.
os.register_at_fork(after_in_child=_idle.clear)

# SPDX-License-Identifier: Apache-2.0
"""Child processes, each the leader of a group, which are tracked and can always be ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from scripts.common import cpu_time, orphan_guard, tool_environment
from scripts.common.paths import ROOT

_live: set[int] = set()
_lock = threading.Lock()
_stopping = threading.Event()
LIMIT_SIGNAL = signal.SIGUSR1
"""Sent to a group that has reached its time limit; it ends a process that does not handle it."""
_GRACE_S = 2.0  # in which a group that reached its time limit may write its last line


class Interrupted(Exception):
    """Raised in a worker thread after `kill_all`, when it starts a process or waits for one."""


def resume() -> None:
    """Allow new processes again after `kill_all`, once everything that it ended is gone."""
    _stopping.clear()


@dataclass(frozen=True)
class Finished:
    """Result of a process that has ended.

    Attributes:
        returncode: Exit code; negative for a signal, as in subprocess.
        timed_out: Whether a limit of `cpu_time` ended it.
        seconds: Wall-clock time.
        used: Processor time in seconds; None if it was not measured.
        why: The limit that ended it, with values; "" for none.
    """

    returncode: int
    timed_out: bool
    seconds: float
    used: float | None = None  # processor time in seconds, where it is known
    why: str = ""  # which limit ended it, with values


def kill_group(pid: int) -> None:
    """Send SIGKILL to a process group, if it exists: a simulator may have started helpers."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def end_group(pid: int, came: Callable[[float], bool]) -> None:
    """End a group that has reached its time limit; a simulation first logs the time that it has
    reached (`cocotb_private.prepare`). SIGTERM would not do: Icarus then ends the simulation, and
    cocotb reports a failure of each test that did not run.

    Args:
        pid: number of the group.
        came: waits for at most the given seconds and returns whether the group has ended.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, LIMIT_SIGNAL)
    came(_GRACE_S)
    kill_group(pid)


def check_stopping() -> None:
    """Raise Interrupted if `kill_all` was called, and `resume` was not since."""
    if _stopping.is_set():
        raise Interrupted


class Child(subprocess.Popen[bytes]):
    """A Popen in a separate process group, which the orphan guard ends if this process dies."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait as Popen does, then stop tracking the process."""
        code = super().wait(timeout)
        forget(self.pid)
        return code

    def kill(self) -> None:
        """Send SIGKILL to the process group, helpers of the process included."""
        kill_group(self.pid)


def start(
    command: Sequence[str],
    out: IO[bytes],
    *,
    cwd: Path | str,
    env: Mapping[str, str] | None = None,
    more: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
) -> Child:
    """Start a command in a separate process group and track it; do not wait for it.

    Args:
        command: Program and arguments.
        out: Open file for stdout and stderr; stdin is empty.
        cwd: Its folder.
        env: Its whole environment; by default that of every tool (`tool_environment`).
        more: Variables added to the default environment.
        pass_fds: File descriptors that it inherits.

    Raises:
        Interrupted: `kill_all` was called.
    """
    with _lock:  # `kill_all` either sees this process or keeps it from starting
        check_stopping()
        process = Child(
            list(command),
            cwd=cwd,
            env=tool_environment.tools(more) if env is None else dict(env),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=pass_fds,
        )
        _live.add(process.pid)
        orphan_guard.watch(process.pid)
    return process


def watch(pid: int) -> None:
    """Track a process group that another process has started for us (a forked simulation).

    If `kill_all` was called before, the group is killed at once.
    """
    with _lock:
        _live.add(pid)
        orphan_guard.watch(pid)
        if _stopping.is_set():
            kill_group(pid)


def forget(pid: int) -> None:
    """Stop tracking a process group that has ended."""
    with _lock:
        _live.discard(pid)
    orphan_guard.forget(pid)


def run_logged(
    command: Sequence[str],
    log: Path,
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    more: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
    append: bool = False,
) -> Finished:
    """Run a command to its end with stdout and stderr in the file `log`.

    Processes of its group that it left running are killed.

    Args:
        command: Program and arguments.
        log: File to overwrite, or to extend with `append`.
        cwd: Its folder.
        env: Its whole environment; by default that of every tool (`tool_environment`).
        more: Variables added to the default environment.
        timeout_s: Limit in seconds of processor time, with the further limits of `cpu_time`. None:
            no limit, and `used` of the result is None.
        append: Whether to keep the content of the log.

    Raises:
        Interrupted: `kill_all` was called meanwhile.
    """
    begin = time.monotonic()
    used, why = None, ""
    with log.open("ab" if append else "wb") as out:
        process = start(command, out, cwd=cwd, env=env, more=more)
        try:
            if timeout_s is None:
                process.wait()
            else:
                ended = partial(cpu_time.leader_ended, process.pid)
                why, used = cpu_time.watch(process.pid, timeout_s, log, ended)
                if why:
                    end_group(process.pid, ended)
        finally:
            kill_group(process.pid)  # also processes that it left running
            process.wait()
    check_stopping()
    return Finished(process.returncode, bool(why), time.monotonic() - begin, used, why)


def captured(
    command: Sequence[str | Path],
    *,
    cwd: Path | str = ROOT,
    env: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
    shell: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a short command to its end, without input, and capture stdout and stderr as text.

    A non-zero exit code is no error here.

    Args:
        command: The words, or one line with `shell`.
        cwd: Its folder; by default the root of the project.
        env: Its environment; by default that of this process.
        timeout_s: Limit of wall-clock time in seconds; subprocess.TimeoutExpired after it.
        shell: Whether a shell reads the command.
    """
    return subprocess.run(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=timeout_s,
        shell=shell,
        check=False,
    )


def cores() -> int:
    """Return the number of cores that this process may use.

    A container or a batch job may have fewer than its machine.
    """
    return len(os.sched_getaffinity(0))


def kill_all() -> None:
    """Kill every tracked process group and refuse new processes until `resume`."""
    _stopping.set()
    with _lock:
        pids = list(_live)
    for pid in pids:
        kill_group(pid)

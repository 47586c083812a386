# SPDX-License-Identifier: Apache-2.0
"""Child processes that can always be ended: each in a separate group, each tracked until it is
gone."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from neuron_fabric.errors import say
from scripts.common import cpu_time, orphan_guard, tool_environment
from scripts.common.paths import ROOT

_live: set[int] = set()
_lock = threading.Lock()
_stopping = threading.Event()
INTERRUPTED, INTERRUPT_CODE = "nf: interrupted", 128 + signal.SIGINT
_PATIENCE_S = 1.0
LIMIT_SIGNAL = signal.SIGUSR1
"""Sent to a group that has reached its time limit; it ends a process that does not handle it."""
_GRACE_S = 2.0  # in which a group that reached its time limit may write its last line
_interrupted: float | None = None  # when Ctrl-C came
_said = False


class Terminated(BaseException):
    """SIGTERM or SIGHUP arrived; the argument is its number.

    Not a SystemExit: cocotb's runners raise that, and callers catch it.
    """


class Interrupted(Exception):
    """Raised in a worker whose process was ended by `kill_all`."""


def resume() -> None:
    """Allow processes again, once everything that `kill_all` ended is gone."""
    _stopping.clear()


@dataclass(frozen=True)
class Finished:
    """End of a process; `returncode` is negative for a signal, as in subprocess."""

    returncode: int
    timed_out: bool
    seconds: float
    used: float | None = None  # processor time in seconds, where it is known
    why: str = ""  # which limit ended it, with values


def kill_group(pid: int) -> None:
    """End the whole group: a simulator may have started helper processes."""
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
    """Raise Interrupted once `kill_all` was called."""
    if _stopping.is_set():
        raise Interrupted


class Child(subprocess.Popen[bytes]):
    """A process in a separate group, which ends with this process in any case."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait as Popen does; a process that has ended is no longer tracked."""
        code = super().wait(timeout)
        forget(self.pid)
        return code

    def kill(self) -> None:
        """Kill the process group, helpers of the process included."""
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
    """Start a tracked command in a separate group, with both outputs in `out`.

    Its environment is ``env``, or that of every tool (`tool_environment`) with ``more`` added.
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
    """Watch a process group that another process has started for us (a forked simulation)."""
    with _lock:
        _live.add(pid)
        orphan_guard.watch(pid)
        if _stopping.is_set():
            kill_group(pid)


def forget(pid: int) -> None:
    """Stop watching a process group that has ended."""
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
    """Run a command with both outputs in `log`.

    With `timeout_s`, the limits of `cpu_time` end its whole group, and `used` is known.
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
    """Run a short command to its end, without input, and capture both outputs as text.

    Args:
        command: the words, or one line with `shell`.
        cwd: its folder; by default the root of the project.
        env: its environment; by default that of this process.
        timeout_s: limit in seconds; subprocess.TimeoutExpired after it.
        shell: whether a shell reads the command.
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


@contextlib.contextmanager
def handling(handle: Callable[[int], None], *numbers: signal.Signals) -> Iterator[None]:
    """Let these signals call `handle` inside the context, in the main thread only.

    Under `nohup`, SIGHUP stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    heard = [number for number in numbers if not (nohup and number is signal.SIGHUP)]
    old = {number: signal.signal(number, lambda one, _frame: handle(one)) for number in heard}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def interrupt(*_: object) -> None:
    """Handle Ctrl-C.

    The first one raises KeyboardInterrupt, so that running work is ended in order. More within a
    second are the same key press; a later one ends this process at once, and the orphan guard
    ends the others.
    """
    global _interrupted
    now = time.monotonic()
    if _interrupted is None:
        _interrupted = now
        raise KeyboardInterrupt
    if now - _interrupted > _PATIENCE_S:
        if not _said:
            os.write(2, f"{INTERRUPTED}\n".encode())
        os._exit(INTERRUPT_CODE)


def interrupted() -> int:
    """Report the interrupt once, and return the exit code."""
    global _said
    _said = True
    say(INTERRUPTED, file=sys.stderr)
    return INTERRUPT_CODE


def deaf_at_exit() -> None:
    """Ignore Ctrl-C at exit: Python removes its handlers before it ends, and another Ctrl-C
    would then be a raw signal instead of an exit code."""
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def ended_in_order() -> Iterator[None]:
    """Let Ctrl-C (however often), SIGTERM and SIGHUP end the whole command with its exit code,
    after everything that runs was ended."""
    global _interrupted, _said
    here = threading.current_thread() is threading.main_thread()
    old = signal.getsignal(signal.SIGINT) if here else signal.SIG_IGN
    _interrupted, _said = None, False
    with handling(_leave, signal.SIGTERM, signal.SIGHUP):
        if old is not signal.SIG_IGN:  # so a shell starts what runs in the background
            signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            if old is not signal.SIG_IGN and _interrupted is None:
                signal.signal(signal.SIGINT, old)


def _leave(number: int) -> None:
    raise Terminated(number)


def cores() -> int:
    """Return the number of cores of this process: a container or a batch job has fewer than its
    machine."""
    return len(os.sched_getaffinity(0))


def kill_all() -> None:
    """End every tracked process and refuse new ones, after Ctrl-C."""
    _stopping.set()
    with _lock:
        pids = list(_live)
    for pid in pids:
        kill_group(pid)

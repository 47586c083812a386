# SPDX-License-Identifier: Apache-2.0
"""Child processes, each the leader of a group, which are tracked and can always be ended."""

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
_interrupted: float | None = None  # when Ctrl-C came
_said = False


class Terminated(BaseException):
    """Raised in the main thread on SIGTERM or SIGHUP; the argument is the number of the signal.

    Not a SystemExit: cocotb's runners raise that, and callers catch it.
    """


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


@contextlib.contextmanager
def handling(handle: Callable[[int], None], *numbers: signal.Signals) -> Iterator[None]:
    """Have signals call `handle` with their number inside the context; then restore the handlers.

    Outside the main thread nothing is changed. Under `nohup`, SIGHUP stays ignored.
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
    """Handle Ctrl-C (SIGINT).

    The first one raises KeyboardInterrupt, so that running work is ended in order. More within a
    second are the same key press; a later one ends this process at once, and the orphan guard ends
    the others.
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
    """Print "nf: interrupted" to stderr and return the exit code 130."""
    global _said
    _said = True
    say(INTERRUPTED, file=sys.stderr)
    return INTERRUPT_CODE


def deaf_at_exit() -> None:
    """Register an exit handler that ignores Ctrl-C.

    Python removes its signal handlers before it ends, and another Ctrl-C would then end the process
    by a signal instead of an exit code.
    """
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def ended_in_order() -> Iterator[None]:
    """Context of a whole command: turn signals into exceptions, so that its work is ended in order.

    Ctrl-C, however often, raises KeyboardInterrupt once (see `interrupt`); SIGTERM and SIGHUP raise
    Terminated.
    """
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

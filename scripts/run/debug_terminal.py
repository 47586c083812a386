# SPDX-License-Identifier: Apache-2.0
"""Simulation in the foreground, on a pseudo-terminal, for pdb (`nf run --pdb`).

Keys of the user's terminal are copied to the simulator, and its output is copied back and into the
log, so the verdict is judged as that of any other run. There is no fork
server and no time limit.
"""

from __future__ import annotations

import fcntl
import os
import pty
import selectors
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from scripts.common import interrupt, process
from scripts.common.errors import NfError
from scripts.common.process import Finished
from scripts.run import cocotb_private

ENVIRONMENT = ((cocotb_private.DEBUG, "1"),)
"""Variables of the run: a test that fails opens pdb at the exception."""
_CHUNK = 1 << 16


def check() -> None:
    """Raise NfError if this command has no terminal for pdb."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise NfError("--pdb needs a terminal; run the command in one, without a pipe.")


def run_logged(
    command: Sequence[str],
    log: Path,
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout_s: float | None = None,
    append: bool = False,
) -> Finished:
    """Run a simulator command as `process.run_logged` does, but on this terminal.

    Args:
        command: Program and arguments.
        log: File for a copy of the output.
        cwd: Its folder.
        env: Its whole environment.
        timeout_s: Ignored: a person at a prompt has no time limit.
        append: Whether to keep the content of the log.
    """
    begin = time.monotonic()
    process.check_stopping()
    # The child leads a session that owns the pseudo-terminal, so Ctrl-C interrupts the simulation.
    pid, ours = pty.fork()
    if pid == 0:
        try:
            os.chdir(cwd)
            os.execvpe(command[0], [*command], dict(env))
        finally:
            os._exit(127)
    process.watch(pid)
    try:
        with log.open("ab" if append else "wb") as out, _raw(sys.stdin), _follow_size(ours):
            _copy_size(ours)
            _copy(ours, out)
    finally:
        process.kill_group(pid)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        process.forget(pid)
        os.close(ours)
    return Finished(code, False, time.monotonic() - begin)


def _copy(ours: int, log: IO[bytes]) -> None:
    """Copy keys to the pseudo-terminal and its output to stdout and ``log`` until its end."""
    keys, screen = sys.stdin.fileno(), sys.stdout.fileno()
    with selectors.DefaultSelector() as ready:
        ready.register(ours, selectors.EVENT_READ)
        ready.register(keys, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                try:
                    data = os.read(key.fd, _CHUNK)
                except OSError:  # the simulation has ended
                    return
                if key.fd == ours:
                    os.write(screen, data)
                    log.write(data.replace(b"\r\n", b"\n"))
                    log.flush()
                elif data:
                    os.write(ours, data)
                else:  # the user's terminal is gone
                    ready.unregister(keys)


@contextmanager
def _raw(keyboard: Any) -> Iterator[None]:
    """Send each key at once, and Ctrl-C as a key, until the block ends."""
    before = termios.tcgetattr(keyboard)
    try:
        tty.setraw(keyboard, termios.TCSADRAIN)
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def _follow_size(ours: int) -> Any:
    return interrupt.handling(lambda _: _copy_size(ours), signal.SIGWINCH)


def _copy_size(ours: int) -> None:
    size = fcntl.ioctl(sys.stdout.fileno(), termios.TIOCGWINSZ, bytes(8))
    fcntl.ioctl(ours, termios.TIOCSWINSZ, size)

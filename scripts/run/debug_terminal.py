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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from scripts.common import interrupt, process
from scripts.common.errors import NfError
from scripts.common.process import Finished
from scripts.run import cocotb_private

ENVIRONMENT = ((cocotb_private.DEBUG, "1"),)
"""Variables of the run: a test that fails opens pdb at the exception."""
# A session leader that opens a terminal becomes its owner, so Ctrl-C interrupts the simulation.
_ON_TERMINAL = ("sh", "-c", 'exec "$@" <>"$0" >&0 2>&0')
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
    ours, theirs = pty.openpty()
    try:
        words = [*_ON_TERMINAL, os.ttyname(theirs), *command]
        with log.open("ab" if append else "wb") as out, open(os.devnull, "wb") as nowhere:
            _copy_size(ours)
            child = process.start(words, nowhere, cwd=cwd, env=env)
            try:
                # While it lives, `theirs` stays open: without it, a read fails until sh opens it.
                with _raw(sys.stdin), _follow_size(ours):
                    _copy(ours, out, lambda: child.poll() is not None)
            finally:
                child.kill()
                child.wait()
    finally:
        os.close(ours)
        os.close(theirs)
    return Finished(child.returncode, False, time.monotonic() - begin)


def _copy(ours: int, log: IO[bytes], ended: Callable[[], bool]) -> None:
    """Copy keys to the pseudo-terminal and its output to stdout and ``log`` until ``ended``."""
    keys, screen = sys.stdin.fileno(), sys.stdout.fileno()
    with selectors.DefaultSelector() as ready:
        ready.register(ours, selectors.EVENT_READ)
        ready.register(keys, selectors.EVENT_READ)
        last = False
        while True:
            found = [key.fd for key, _ in ready.select(timeout=0.1)]
            if keys in found:
                pressed = os.read(keys, _CHUNK)
                os.write(ours, pressed)
                if not pressed:  # the user's terminal is gone
                    ready.unregister(keys)
            if ours in found:
                data = os.read(ours, _CHUNK)
                os.write(screen, data)
                log.write(data.replace(b"\r\n", b"\n"))
                log.flush()
            elif last:
                return
            last = ended()


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

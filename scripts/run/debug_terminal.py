# SPDX-License-Identifier: Apache-2.0
"""Simulation in the foreground, on a pseudo-terminal, for pdb (`nf run --pdb`).

Keys of the user's terminal are copied to the simulator, and its output is copied back and into the
log, so the verdict is judged as that of any other run. There is no fork server and no time limit.
"""

from __future__ import annotations

import os
import pty
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from scripts.common import process
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
    outer = dict(os.environ)
    leaders = set[int]()
    with log.open("ab" if append else "wb") as out:

        def read(terminal: int) -> bytes:
            # The simulator leads a session that owns the terminal, so Ctrl-C interrupts it alone.
            if not leaders and (pid := os.tcgetpgrp(terminal)):  # 0: it has ended
                leaders.add(pid)
                process.watch(pid)
            data = os.read(terminal, _CHUNK)
            out.write(data.replace(b"\r\n", b"\n"))
            out.flush()
            return data

        try:
            # The child takes its environment from here: as arguments, other users could see it.
            os.environ.clear()
            os.environ.update(env)
            status = pty.spawn(["env", "-C", str(cwd), *command], read)
        finally:
            os.environ.clear()
            os.environ.update(outer)
            for pid in leaders:
                process.kill_group(pid)
                process.forget(pid)
    return Finished(os.waitstatus_to_exitcode(status), False, time.monotonic() - begin)

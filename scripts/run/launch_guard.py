# SPDX-License-Identifier: Apache-2.0
"""Starts the workers of `launch.py` and ends them: a program of its own, so that they end even
where the launcher is killed by a signal that it cannot catch.

stdin is the leash. The launcher writes a line of JSON on it (command, workers, grace, said) and
keeps it open: at its end, which the system brings about however the launcher dies, everything is
killed at once. SIGTERM ends the workers kindly. Lines of JSON go to the descriptor ``said``: the
process number of each worker as it starts, and what came of them: null, or [rank, return code] of
the one that failed first. Workers die with this process too (PR_SET_PDEATHSIG, on Linux). It
imports nothing of the project, so that it starts fast.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

_POLL_SECONDS = 0.05
_PR_SET_PDEATHSIG = 1


class Guard:
    """The workers of one launch."""

    def __init__(self, said: int) -> None:
        self.said = said
        self.running: list[subprocess.Popen[bytes]] = []
        self.asked = False
        signal.signal(signal.SIGTERM, self._ask)

    def run(self, command: Sequence[str], workers: int, grace: float) -> tuple[int, int] | None:
        """Start ``workers`` times ``command``; (rank, return code) of the first that fails. None
        when all ended with 0, and when the end was asked for. ``grace`` in seconds."""
        try:
            for rank in range(workers):
                if not self.asked:
                    self.running.append(_start(command, rank))
                    self.say(self.running[-1].pid)
            return self._first_failure()
        finally:
            self._end(grace)

    def say(self, what: object) -> None:
        """A line to the launcher, if it is there."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self.said, f"{json.dumps(what)}\n".encode())

    def _ask(self, *_: object) -> None:
        self.asked = True

    def _first_failure(self) -> tuple[int, int] | None:
        while not self.asked and not _leash_ended(_POLL_SECONDS):
            codes = [worker.poll() for worker in self.running]
            for rank, code in enumerate(codes):
                if code:
                    return rank, code
            if None not in codes:
                return None
        return None

    def _end(self, grace: float) -> None:
        """End what still runs, with all that it has started: first kindly, if there is anybody
        who waits for that."""
        alive = [worker for worker in self.running if worker.poll() is None]
        signal_groups([worker.pid for worker in alive], signal.SIGTERM)
        until = time.monotonic() + grace
        while any(worker.poll() is None for worker in alive) and time.monotonic() < until:
            if _leash_ended(_POLL_SECONDS):
                break
        signal_groups([worker.pid for worker in self.running], signal.SIGKILL)
        for worker in self.running:
            worker.wait()


def _start(command: Sequence[str], rank: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        list(command),
        env={**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=_dies_with(os.getpid()),  # safe: this process has one thread
    )


def _dies_with(parent: int) -> Callable[[], None]:
    prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None

    def tie() -> None:
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before: no signal will come
            os._exit(1)

    return tie


def _leash_ended(wait: float) -> bool:
    """Whether the launcher is gone; looks for at most ``wait`` seconds."""
    return bool(select.select([0], [], [], wait)[0])


def signal_groups(groups: Sequence[int], number: signal.Signals) -> None:
    """To every process of these process groups; one that is gone is passed over."""
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)


def _first_line() -> bytes:
    """Nothing behind it is read: `select` must see the end."""
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(0, 1)
        if not piece:
            raise SystemExit(1)  # the launcher died before it had said anything
        line += piece
    return line


def main() -> None:
    job = json.loads(_first_line())
    guard = Guard(job["said"])
    guard.say(guard.run(job["command"], job["workers"], job["grace"]))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Budget of processor time in seconds, shared by all programs of one proof or of syntheses."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from scripts.common import process
from scripts.common.errors import NfError
from scripts.common.paths import ROOT


class UsedUp(NfError):
    """Error of a proof whose budget of processor time is used up without a result."""


class Budget:
    """Runner of programs, which limits the sum of their processor time.

    Several threads may share it.

    Attributes:
        limit_s: The budget in seconds.
        used: Seconds used by the programs run so far.
    """

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self.used = 0.0
        self._lock = threading.Lock()

    @property
    def left(self) -> float:
        """The seconds that are not used yet."""
        return self.limit_s - self.used

    def take(self, seconds: float) -> None:
        """Add used seconds."""
        with self._lock:
            self.used += seconds

    def run(
        self, command: Sequence[str], log: Path, more: Mapping[str, str] | None = None
    ) -> process.Finished:
        """Run a program until it ends or the rest of the budget is used up, then add its time.

        A program without a measured processor time counts with its wall-clock time.

        Args:
            command: Program and arguments; it runs in the root of the repository.
            log: File that is overwritten with stdout and stderr.
            more: Variables in addition to the environment of every tool.

        Returns:
            The end of the process; `timed_out` if the budget (or a limit of `cpu_time`) ended it.
        """
        left = max(0.001, self.left)
        done = process.run_logged(command, log, cwd=ROOT, more=more, timeout_s=left)
        self.take(done.seconds if done.used is None else done.used)
        return done

# SPDX-License-Identifier: Apache-2.0
"""Budget of processor time in seconds for the programs of a proof, a synthesis or several."""

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
    """Runner of programs one after the other, which limits the sum of their processor time.

    Attributes:
        limit_s: The budget in seconds.
        used: Seconds used by the programs run so far.
    """

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self.used = 0.0

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
        left = max(0.001, self.limit_s - self.used)
        done = process.run_logged(command, log, cwd=ROOT, more=more, timeout_s=left)
        self.used += done.seconds if done.used is None else done.used
        return done


class SharedBudget:
    """Budget of processor time in seconds, shared by several threads; ``used`` is spent."""

    def __init__(self, effort_s: float) -> None:
        self._most, self.used = effort_s, 0.0
        self._lock = threading.Lock()

    def left(self, limit_s: float) -> float:
        """Return the seconds that a run with limit `limit_s` may use; 0 if less than 1 s."""
        with self._lock:
            left = min(limit_s, self._most - self.used)
        return left if left >= 1.0 else 0.0

    def take(self, seconds: float) -> None:
        """Add spent seconds."""
        with self._lock:
            self.used += seconds

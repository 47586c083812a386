# SPDX-License-Identifier: Apache-2.0
"""Budget in seconds of processor time, over all programs of a proof or a synthesis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from scripts.common import process
from scripts.common.errors import NfError
from scripts.common.paths import ROOT


class UsedUp(NfError):
    """The budget is used up without a result."""


class Budget:
    """Runner of programs that adds their processor time to ``used``."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self.used = 0.0

    def run(
        self, command: Sequence[str], log: Path, more: Mapping[str, str] | None = None
    ) -> process.Finished:
        """Run a program until it ends or the budget is used up; both its outputs go to ``log``."""
        left = max(0.001, self.limit_s - self.used)
        done = process.run_logged(command, log, cwd=ROOT, more=more, timeout_s=left)
        self.used += done.seconds if done.used is None else done.used
        return done

# SPDX-License-Identifier: Apache-2.0
"""What a proof may cost: seconds of processor time, of all programs that it starts together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from scripts.common import process
from scripts.common.errors import NfError
from scripts.common.paths import ROOT


class UsedUp(NfError):
    """What a proof may cost is used up, and it came to no end."""


class Budget:
    """Starts programs, and keeps account of their processor time in ``used``."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self.used = 0.0

    def run(
        self, command: Sequence[str], log: Path, more: Mapping[str, str] | None = None
    ) -> process.Finished:
        """Run a program to its end, or to that of what is left; both its outputs are in ``log``."""
        left = self.limit_s - self.used
        done = process.run_logged(command, log, cwd=ROOT, more=more, timeout_s=left)
        self.used += done.used or 0.0
        return done

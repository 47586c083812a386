# SPDX-License-Identifier: Apache-2.0
"""How far a replay is: one line that moves on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from neuron_fabric.progress_bar import ProgressBar, clock, filled
from neuron_fabric.text import say

_TERMINAL_SECONDS, _PLAIN_SECONDS = 0.2, 30.0


class Progress:
    """Counts contribution lines; ``done`` of ``total`` were there before this run."""

    def __init__(self, total: int, done: int = 0, out: TextIO | None = None) -> None:
        self._out = out or sys.stderr
        self._bar = ProgressBar(self._out)
        self._total, self._done, self._before = total, done, done
        self._start = self._last = time.monotonic()

    def add(self, lines: int) -> None:
        """Some more lines are done."""
        self._done += lines
        now = time.monotonic()
        if now - self._last >= (_TERMINAL_SECONDS if self._bar.live else _PLAIN_SECONDS):
            self._last = now
            self._show(now)

    def finish(self) -> None:
        """Leaves the terminal's line empty."""
        self._bar.clear()

    def text(self, now: float) -> str:
        """What is shown at a moment."""
        speed = (self._done - self._before) / max(now - self._start, 1e-9)
        share = self._done / max(self._total, 1)
        left = (self._total - self._done) / speed if speed else 0.0
        return (
            f"{filled(share)} {share:4.0%} {self._done:,} of {self._total:,} lines, "
            f"{speed:,.0f} lines/s, {clock(left)} left"
        )

    def _show(self, now: float) -> None:
        if self._bar.live:
            self._bar.draw(self.text(now))
        else:
            say(self.text(now), file=self._out, flush=True)

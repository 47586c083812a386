# SPDX-License-Identifier: Apache-2.0
"""Progress bar: one line of a terminal that is redrawn."""

from __future__ import annotations

from typing import TextIO

WIDTH = 24


class ProgressBar:
    """Line of a terminal that is redrawn; if `out` is no terminal, nothing is drawn.

    `live` says whether it is one.
    """

    def __init__(self, out: TextIO) -> None:
        self.out = out
        self.live = out.isatty()

    def draw(self, text: str) -> None:
        """Replace the line by ``text``."""
        self._write(f"\r\x1b[K{text}")

    def clear(self) -> None:
        """Clear the line for other output."""
        self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        if self.live:
            self.out.write(text)
            self.out.flush()


def filled(share: float, empty: str = " ") -> str:
    """Return a bar of `#` in brackets, filled by a share from 0 to 1."""
    full = int(WIDTH * share)
    return f"[{'#' * full}{empty * (WIDTH - full)}]"


def clock(seconds: float) -> str:
    """Return a time in seconds as text: 1:05 or 2:00:13."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"

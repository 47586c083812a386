# SPDX-License-Identifier: Apache-2.0
"""A progress bar: one line of a terminal that is drawn again and again."""

from __future__ import annotations

from typing import TextIO

WIDTH = 24


class ProgressBar:
    """Draws over its own line; `live` is False where `out` is no terminal, and nothing is drawn."""

    def __init__(self, out: TextIO) -> None:
        self.out = out
        self.live = out.isatty()

    def draw(self, text: str) -> None:
        """Replace what the line shows."""
        self._write(f"\r\x1b[K{text}")

    def clear(self) -> None:
        """Leave an empty line, for whatever is printed next."""
        self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        if self.live:
            self.out.write(text)
            self.out.flush()


def filled(share: float, empty: str = " ") -> str:
    """The bar at a share from 0 to 1, in brackets."""
    full = int(WIDTH * share)
    return f"[{'#' * full}{empty * (WIDTH - full)}]"


def clock(seconds: float) -> str:
    """Seconds as 1:05 or 2:00:13."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"

# SPDX-License-Identifier: Apache-2.0
"""What came of a replay on one simulator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from models.formats import U8
from verif.replay.epoch import Key
from verif.replay.journal import Journal, Record


@dataclass
class Kept:
    """What came back, in memory: signal-level replays are small."""

    records: dict[Key, Record] = field(default_factory=dict)
    _lines: dict[Key, U8] = field(default_factory=dict)

    def append(self, key: Key, figures: Mapping[str, int], lines: U8) -> None:
        """See `Journal`."""
        self._lines[key] = lines

    def lines(self, key: Key) -> U8:
        """See `Journal`."""
        return self._lines[key]

    def close(self, delete: bool = False) -> None:
        """See `Journal`."""


@dataclass
class Simulated:
    """What came of one simulator; lines are a worker's, ``figures`` those of each step."""

    simulator: str
    kept: Journal | Kept | None
    folder: Path = Path()
    """What it leaves."""
    kind: str = ""
    figures: dict[int, Counter[str]] = field(default_factory=dict)
    lines: int = 0
    writes: int = 0
    wrong: Counter[int] = field(default_factory=Counter)
    """Lines that differ, by step."""
    faults: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    build_seconds: float = 0.0
    seconds: float = 0.0

    def cycles(self, step: int) -> int:
        """Clocks of a step."""
        return self.figures[step]["cycles"]

    def fault(self, *texts: str) -> None:
        """Remember what was wrong."""
        self.faults += [" ".join(text.split()) for text in texts]

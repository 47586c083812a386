# SPDX-License-Identifier: Apache-2.0
"""Interface between a replay and a simulator: drive epochs, return them with their answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from models.line_packing import U8
from verif.replay.check import Mismatch
from verif.replay.epoch import EpochLines, Key
from verif.replay.job import Piece, Replay
from verif.replay.journal import Journal, JournalRecord


class ReplayStop(Exception):
    """No more epochs can be driven on this simulator; the text is the reason."""


@dataclass(frozen=True)
class Driven:
    """Epoch that went through the device.

    ``figures``: ``cycles`` from the first commit to the last answer, and the counters of
    `check.COST`. If only whole steps are measured, the last epoch of the step has them.
    ``problems``: errors reported by registers and answers; empty if there are none.
    """

    work: EpochLines
    figures: Counter[str] = field(default_factory=Counter)
    problems: Sequence[str] = ()


@dataclass
class Kept:
    """Returned lines in memory, for signal-level replays, which are small; interface of
    `Journal`."""

    records: dict[Key, JournalRecord] = field(default_factory=dict)
    _lines: dict[Key, U8] = field(default_factory=dict)

    def append(self, key: Key, figures: Mapping[str, int], lines: U8) -> None:
        """Keep the lines of an epoch."""
        self._lines[key] = lines

    def lines(self, key: Key) -> U8:
        """Return the lines of an epoch."""
        return self._lines[key]

    def close(self, delete: bool = False) -> None:
        """Do nothing."""


@dataclass
class Transport:
    """Simulator with the built design, and the results of its epochs. Files of runs go to
    ``folder``; lines are counted per worker."""

    replay: Replay
    simulator: str
    folder: Path
    kept: Journal | Kept | None = field(default=None, init=False)
    """Store of returned lines."""
    figures: dict[int, Counter[str]] = field(default_factory=dict, init=False)
    """Figures by step."""
    cycles: Counter[int] = field(default_factory=Counter, init=False)
    """Cycles by number of the piece."""
    lines: int = field(default=0, init=False)
    writes: int = field(default=0, init=False)
    wrong: Counter[int] = field(default_factory=Counter, init=False)
    """Number of wrong lines by step."""
    notes: list[str] = field(default_factory=list, init=False)
    """Lines to print after a session."""
    faults: list[str] = field(default_factory=list, init=False)
    kind: str = field(default="mismatch", init=False)
    """FailureKind of the faults, as in the record of a run."""
    hints: list[str] = field(default_factory=list, init=False)
    """Next steps, printed after a failed replay."""
    build_seconds: float = field(default=0.0, init=False)
    """Seconds of the build; 0 if it was cached."""
    seconds: float = field(default=0.0, init=False)
    peak: float = field(default=0.0, init=False)
    """Peak memory in MiB of other processes that drove a part."""

    def fault(self, *texts: str) -> None:
        """Add faults."""
        self.faults += [" ".join(text.split()) for text in texts]

    def count(self, piece: Piece, step: int, figures: Mapping[str, int]) -> None:
        """Add the figures of an epoch."""
        self.figures.setdefault(step, Counter()).update(figures)
        self.cycles[piece.number] += figures["cycles"]

    def session(self, keys: Sequence[Key]) -> Generator[Driven, None, None]:
        """Drive epochs in order on a device after reset. Raise ReplayStop if it cannot continue."""
        raise NotImplementedError

    def stop(self, driven: Driven, found: Mismatch | None) -> None:
        """Handle an epoch with problems or a wrong line, ``found`` being the first. Raise
        ReplayStop unless the other epochs are wanted."""

    def finish(self) -> None:
        """Finish after the last epoch."""

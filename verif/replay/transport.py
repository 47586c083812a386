# SPDX-License-Identifier: Apache-2.0
"""What a replay needs of a simulator: epochs in, the same epochs with their answers out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from models.line_packing import U8
from verif.replay.check import Mismatch, Reduce, reduced
from verif.replay.epoch import EpochLines, Key
from verif.replay.job import Piece, Replay
from verif.replay.journal import Journal, Record


class ReplayStop(Exception):
    """Nothing more can be driven on this simulator; the text says why."""


@dataclass(frozen=True)
class Driven:
    """An epoch that went through the device.

    ``figures``: ``cycles``, from the first commit to the last answer, and the counters of
    `check.COST`. Where only a whole step is measured, they come with its last epoch.
    ``problems``: what registers and answers say beside the lines; an empty list on a good run.
    """

    work: EpochLines
    figures: Counter[str] = field(default_factory=Counter)
    problems: Sequence[str] = ()


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
class Transport:
    """A simulator with the design built for it, and what came of its epochs. What a run leaves goes
    to ``folder``; lines are a worker's."""

    replay: Replay
    simulator: str
    folder: Path
    reduce: Reduce = field(default_factory=lambda: reduced, init=False)
    """How its lines are judged."""
    kept: Journal | Kept | None = field(default=None, init=False)
    """What remembers the lines that came back."""
    figures: dict[int, Counter[str]] = field(default_factory=dict, init=False)
    """By step."""
    cycles: Counter[int] = field(default_factory=Counter, init=False)
    """By number of the piece."""
    lines: int = field(default=0, init=False)
    writes: int = field(default=0, init=False)
    wrong: Counter[int] = field(default_factory=Counter, init=False)
    """Lines that differ, by step."""
    notes: list[str] = field(default_factory=list, init=False)
    """To be shown after a session."""
    faults: list[str] = field(default_factory=list, init=False)
    kind: str = field(default="mismatch", init=False)
    """What kind of failure that was, in the words of a run's record."""
    hints: list[str] = field(default_factory=list, init=False)
    """Shown at the end of a replay that failed: what to do next."""
    build_seconds: float = field(default=0.0, init=False)
    """What the build has taken; 0 when it was there."""
    seconds: float = field(default=0.0, init=False)
    peak: float = field(default=0.0, init=False)
    """Largest memory of another process that has driven a part of it, in MiB."""

    def fault(self, *texts: str) -> None:
        """Remember what was wrong."""
        self.faults += [" ".join(text.split()) for text in texts]

    def count(self, piece: Piece, step: int, figures: Mapping[str, int]) -> None:
        """An epoch of a step has these figures."""
        self.figures.setdefault(step, Counter()).update(figures)
        self.cycles[piece.number] += figures["cycles"]

    def session(self, keys: Sequence[Key]) -> Generator[Driven, None, None]:
        """Drive those epochs in order on a device that has just been reset. ReplayStop."""
        raise NotImplementedError

    def stop(self, driven: Driven, found: Mismatch | None) -> None:
        """Called for each epoch with problems or with a wrong line, of which ``found`` is the
        first. Raises ReplayStop unless the rest is wanted."""

    def finish(self) -> None:
        """Everything that will be driven has been."""

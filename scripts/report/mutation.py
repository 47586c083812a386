# SPDX-License-Identifier: Apache-2.0
"""Last mutation score (`nf mutate --sample`, `--all`) for the report: by module and operator, and
every surviving mutant as a diff of the source.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from scripts.common import data
from scripts.common.paths import BUILD

SCORE = BUILD / "mutation" / "score.json"


@dataclass(frozen=True)
class Score:
    """Counts of mutants. Mutants that are proved equivalent or waived do not count in the ratio."""

    name: str
    killed: int = 0
    alive: int = 0
    equivalent: int = 0
    waived: int = 0

    @property
    def judged(self) -> int:
        """Return the mutants that could be killed: the base of the ratio."""
        return self.killed + self.alive

    @property
    def percent(self) -> float:
        """Return the killed ones in percent of those that could be killed; 100 if there are
        none.
        """
        return 100.0 * self.killed / self.judged if self.judged else 100.0

    def __str__(self) -> str:
        out = f"{self.killed} of {self.judged} killed ({self.percent:.1f} %)"
        out += f", {self.equivalent} proved equivalent" if self.equivalent else ""
        return out + (f", {self.waived} waived" if self.waived else "")


@dataclass(frozen=True)
class Living:
    """Mutant that no test killed.

    Attributes:
        tests: tests that executed it.
        text: reason of its waiver.
        waves: waves of one of the tests without and with the mutant, if requested.
    """

    id: str
    place: str
    diff: str
    tests: tuple[str, ...]
    text: str = ""
    waves: tuple[str, ...] = ()


@dataclass(frozen=True)
class Mutation:
    """Result of one command. `kinds` counts kills by the kind of red run."""

    command: str
    when: str
    seconds: float
    overall: Score
    modules: tuple[Score, ...]
    operators: tuple[Score, ...]
    kinds: tuple[tuple[str, int], ...]
    alive: tuple[Living, ...]
    waived: tuple[Living, ...]


def write(found: Mutation, path: Path = SCORE) -> None:
    """Write a score for later reports."""
    data.keep(path, found)


def read(path: Path = SCORE) -> Mutation | None:
    """Return the last score, or None if there is none that can be read."""
    return data.kept(path, Mutation)

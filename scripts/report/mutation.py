# SPDX-License-Identifier: Apache-2.0
"""The last mutation score (`nf mutate --sample`, `--all`) for the report: by module, by operator,
and every mutant that lives as a diff of the source."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from neuron_fabric import output
from neuron_fabric.data import DataError, read_json
from neuron_fabric.typed import typed
from scripts.common.paths import BUILD

SCORE = BUILD / "mutation" / "score.json"


@dataclass(frozen=True)
class Score:
    """Counts of some mutants. What is proved equivalent or waived does not count in the ratio."""

    name: str
    killed: int = 0
    alive: int = 0
    equivalent: int = 0
    waived: int = 0

    @property
    def judged(self) -> int:
        """Mutants that could be killed: what the ratio is of."""
        return self.killed + self.alive

    @property
    def percent(self) -> float:
        """Killed of those that could be; 100 where there are none."""
        return 100.0 * self.killed / self.judged if self.judged else 100.0

    def __str__(self) -> str:
        out = f"{self.killed} of {self.judged} killed ({self.percent:.1f} %)"
        out += f", {self.equivalent} proved equivalent" if self.equivalent else ""
        return out + (f", {self.waived} waived" if self.waived else "")


@dataclass(frozen=True)
class Living:
    """A mutant that no test killed. `tests` ran over it; `text` is the reason of its waiver;
    `waves` are files of one of the tests without the mutant and with it, where asked for."""

    id: str
    place: str
    diff: str
    tests: tuple[str, ...]
    text: str = ""
    waves: tuple[str, ...] = ()


@dataclass(frozen=True)
class Mutation:
    """What one command found. `kinds` counts kills by how the red run ended."""

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
    """Keep a score for the reports that follow."""
    path.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(path, json.dumps(asdict(found), indent=1))


def read(path: Path = SCORE) -> Mutation | None:
    """The last score; None where there is none that can be read."""
    try:
        return typed(Mutation, read_json(path))
    except (OSError, DataError):
        return None

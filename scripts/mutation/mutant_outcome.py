# SPDX-License-Identifier: Apache-2.0
"""What became of a mutant, and the file that remembers it from one command to the next.

`build/mutation/results.jsonl` holds one JSON object a line, the last of an id counts. An outcome
holds as long as its key does: the mutant, the source of its module with the packages, and the bench
of the test that killed it (of all tests, for one that lives).
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from neuron_fabric.data import DataError, as_object, parse_json, read_text
from neuron_fabric.typed import typed
from scripts.common.errors import NfError
from scripts.common.paths import BUILD, shown

FOLDER = BUILD / "mutation"
RESULTS = FOLDER / "results.jsonl"


class State(StrEnum):
    """What is known of a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"  # a test would have seen a difference where it stands, none did
    UNSEEN = "unseen"  # it makes no difference where it stands in any test
    EQUIVALENT = "equivalent"  # proved
    WAIVED = "waived"  # verif/mutation_waivers.yaml says why


ALIVE = (State.SURVIVED, State.UNSEEN)


@dataclass(frozen=True)
class Outcome:
    """`test` and `build` are those of the kill; `tests` those that ran over the mutant (`test
    build` each), `seconds` what they took together. `kind` and `cause` are those of the red run."""

    id: str
    file: str
    module: str
    operator: str
    line: int
    diff: str
    state: State
    key: str
    test: str = ""
    build: str = ""
    kind: str = ""
    cause: str = ""
    tests: tuple[str, ...] = ()
    seconds: float = 0.0
    note: str = ""  # text of the waiver, or how it was proved equivalent


class Store:
    """The outcomes of all commands so far."""

    def __init__(self, path: Path = RESULTS) -> None:
        self._path = path
        self.folder = path.parent
        self._lock = threading.Lock()
        self._known: dict[str, Outcome] = {}
        # By module and `test build`; the module "" stands for all of them.
        self.kills: Counter[tuple[str, str]] = Counter()
        self.tries: Counter[tuple[str, str]] = Counter()
        for outcome in self._read():
            self._note(outcome)

    def _read(self) -> Iterable[Outcome]:
        try:
            text = read_text(self._path)
        except FileNotFoundError:
            return
        except (OSError, DataError) as error:
            raise NfError(f"cannot read {shown(self._path)}: {error}.") from error
        for line in text.splitlines():
            try:
                yield typed(Outcome, as_object(parse_json(line)))
            except DataError:
                continue  # the end of a command that was killed, or of an older version

    def _note(self, outcome: Outcome) -> None:
        self._known[outcome.id] = outcome
        for module in (outcome.module, ""):
            self.tries.update((module, name) for name in outcome.tests)
            if outcome.state is State.KILLED:
                self.kills[module, f"{outcome.test} {outcome.build}"] += 1

    def get(self, id: str) -> Outcome | None:
        """The last outcome of a mutant."""
        return self._known.get(id)

    def add(self, outcome: Outcome) -> None:
        """Remember an outcome, on disk at once."""
        with self._lock:
            self._note(outcome)
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(outcome)) + "\n")

    def chance(self, module: str, name: str, meant: int = 0) -> float:
        """How likely a test kills a mutant of a module that it sees; never 0, never 1.

        By what it did to mutants of this module; where these are few, of any module. `meant`:
        mutants written by hand, of this module, that it is there to catch.
        """
        any_module = (self.kills["", name] + 0.5) / (self.tries["", name] + 1.0)
        kills = self.kills[module, name] + 2 * any_module + meant
        return kills / (self.tries[module, name] + 2 + meant)

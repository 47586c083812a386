# SPDX-License-Identifier: Apache-2.0
"""Outcomes of source mutants: the file that keeps them between commands, waivers, the score.

`build/mutation/results.jsonl` holds one JSON object a line; the last of an id counts. An outcome
holds as long as its key does: the mutant, the source of its module with the packages, and the
Python code of the test that killed it (of all tests, for one that lives).
"""

from __future__ import annotations

import json
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from operator import attrgetter
from pathlib import Path
from typing import Annotated

from neuron_fabric.data import DataError, as_object, parse_json, read_text
from neuron_fabric.typed import typed
from scripts.common.data import at_least, like, load_list
from scripts.common.errors import NfError
from scripts.common.paths import BUILD, ROOT, shown
from scripts.mutation.source_mutant import SourceMutant
from scripts.report.mutation import Living, Mutation, Score

FOLDER = BUILD / "mutation"
RESULTS = FOLDER / "results.jsonl"


class State(StrEnum):
    """State of a mutant after its tests."""

    KILLED = "killed"
    SURVIVED = "survived"  # a test would have seen a difference where it stands, none did
    UNSEEN = "unseen"  # it makes no difference where it stands in any test
    EQUIVALENT = "equivalent"  # proved
    WAIVED = "waived"  # verif/mutation_waivers.yaml says why


ALIVE = (State.SURVIVED, State.UNSEEN)


@dataclass(frozen=True)
class MutantOutcome:
    """Outcome of one mutant.

    `test` and `build` are those of the kill; `tests` are those that ran on the mutant (`test build`
    each), `seconds` their total processor time. `kind` and `cause` are those of the failed run.
    `key` is a hash of everything that the outcome depends on. Other fields as in `SourceMutant`.
    """

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
    """Outcomes of all commands so far, read from and appended to a file.

    `kills` and `tries` count, by module and `test build`, mutants killed and tried.
    """

    def __init__(self, path: Path = RESULTS) -> None:
        self._path = path
        self.folder = path.parent
        self._lock = threading.Lock()
        self._known: dict[str, MutantOutcome] = {}
        # By module and `test build`; the module "" stands for all of them.
        self.kills: Counter[tuple[str, str]] = Counter()
        self.tries: Counter[tuple[str, str]] = Counter()
        for outcome in self._read():
            self._note(outcome)

    def _read(self) -> Iterable[MutantOutcome]:
        try:
            text = read_text(self._path)
        except FileNotFoundError:
            return
        except (OSError, DataError) as error:
            raise NfError(f"cannot read {shown(self._path)}: {error}.") from error
        for line in text.splitlines():
            try:
                yield typed(MutantOutcome, as_object(parse_json(line)))
            except DataError:
                continue  # the end of a command that was killed, or of an older version

    def _note(self, outcome: MutantOutcome) -> None:
        self._known[outcome.id] = outcome
        for module in (outcome.module, ""):
            self.tries.update((module, name) for name in outcome.tests)
            if outcome.state is State.KILLED:
                self.kills[module, f"{outcome.test} {outcome.build}"] += 1

    def get(self, id: str) -> MutantOutcome | None:
        """Return the last outcome of a mutant, or None."""
        return self._known.get(id)

    def add(self, outcome: MutantOutcome) -> None:
        """Add an outcome, and append it to the file at once."""
        with self._lock:
            self._note(outcome)
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(outcome)) + "\n")

    def chance(self, module: str, name: str, meant: int = 0) -> float:
        """Estimate the probability, between 0 and 1, that a test kills a mutant that it sees.

        The estimate uses the kills of mutants of this module; where these are few, of any module.

        Args:
            module: Module of the mutant.
            name: Test, as `test build`.
            meant: Number of listed mutants of this module that the test must catch.
        """
        any_module = (self.kills["", name] + 0.5) / (self.tries["", name] + 1.0)
        kills = self.kills[module, name] + 2 * any_module + meant
        return kills / (self.tries[module, name] + 2 + meant)


WAIVERS = ROOT / "verif" / "mutation_waivers.yaml"


@dataclass(frozen=True)
class MutationWaiver:
    """Mutant that may live, by its id in `nf mutate --list --all`, with the reason."""

    id: Annotated[str, like(r"^[a-z]\w*\.[a-z]+\.[0-9a-f]{8}(\.\d+)?$")]
    reason: Annotated[str, at_least(20)]


def read_waivers(path: Path = WAIVERS) -> dict[str, str]:
    """Read `verif/mutation_waivers.yaml`: reason by id of the mutant.

    The last entry of a duplicate counts.
    """
    return {one.id: one.reason for one in load_list(path, "waivers", MutationWaiver)}


def unmatched_waivers(waived: Mapping[str, str], mutants: Iterable[SourceMutant]) -> list[str]:
    """Return an error line for each waiver of a mutant that does not exist."""
    known = {mutant.id for mutant in mutants}
    return [
        f"{shown(WAIVERS)}: there is no mutant {id} (`nf mutate --list --all`)"
        for id in waived
        if id not in known
    ]


def needless_waivers(waived: Mapping[str, str], outcomes: Iterable[MutantOutcome]) -> list[str]:
    """Return an error line for each waiver of a mutant that was killed or proved equivalent."""
    out = []
    for outcome in outcomes:
        if outcome.id in waived and outcome.state in (State.KILLED, State.EQUIVALENT):
            how = f"{outcome.test} kills it" if outcome.test else "it is proved equivalent"
            out.append(f"{shown(WAIVERS)}: {outcome.id} needs no waiver: {how}")
    return out


def score_of(outcomes: Iterable[MutantOutcome], name: str = "all") -> Score:
    """Return the score of outcomes: the numbers of killed, live, equivalent and waived mutants.

    `name` is the name of the group.
    """
    states = [outcome.state for outcome in outcomes]
    return Score(
        name,
        states.count(State.KILLED),
        sum(state in ALIVE for state in states),
        states.count(State.EQUIVALENT),
        states.count(State.WAIVED),
    )


def scores_by(
    outcomes: Iterable[MutantOutcome], key: Callable[[MutantOutcome], str]
) -> list[Score]:
    """Return the score of each group of outcomes with an equal `key`, the worst first."""
    groups: dict[str, list[MutantOutcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[key(outcome)].append(outcome)
    scores = [score_of(group, name) for name, group in groups.items()]
    return sorted(scores, key=lambda score: (score.percent, -score.alive, score.name))


def kill_kinds(outcomes: Iterable[MutantOutcome]) -> dict[str, int]:
    """Count the killed mutants by failure kind of the killing run, most frequent first."""
    killed = Counter(one.kind for one in outcomes if one.state is State.KILLED)
    return dict(killed.most_common())


def cost(outcomes: Iterable[MutantOutcome]) -> tuple[float, int]:
    """Return the sum of the processor seconds of all runs, and their number."""
    some = list(outcomes)
    return sum(one.seconds for one in some), sum(len(one.tests) for one in some)


def summary(outcomes: Sequence[MutantOutcome], command: str, when: str, seconds: float) -> Mutation:
    """Return the summary of the outcomes for the report.

    Args:
        outcomes: Outcomes.
        command: Command line.
        when: Date and time as text.
        seconds: Duration of the command.
    """
    return Mutation(
        command=command,
        when=when,
        seconds=round(seconds, 1),
        overall=score_of(outcomes),
        modules=tuple(scores_by(outcomes, attrgetter("module"))),
        operators=tuple(scores_by(outcomes, attrgetter("operator"))),
        kinds=tuple(kill_kinds(outcomes).items()),
        alive=tuple(_living(one) for one in outcomes if one.state in ALIVE),
        waived=tuple(_living(one) for one in outcomes if one.state is State.WAIVED),
    )


def _living(outcome: MutantOutcome) -> Living:
    place = f"{outcome.file}:{outcome.line}"
    return Living(outcome.id, place, outcome.diff, outcome.tests, outcome.note)

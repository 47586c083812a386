# SPDX-License-Identifier: Apache-2.0
"""How many mutants died: by module, by operator, over all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter

from scripts.mutation.mutant_outcome import ALIVE, Outcome, State
from scripts.report.mutation import Living, Mutation, Score


def total(outcomes: Iterable[Outcome], name: str = "all") -> Score:
    """The score of some outcomes."""
    states = [outcome.state for outcome in outcomes]
    return Score(
        name,
        states.count(State.KILLED),
        sum(state in ALIVE for state in states),
        states.count(State.EQUIVALENT),
        states.count(State.WAIVED),
    )


def by(outcomes: Iterable[Outcome], key: Callable[[Outcome], str]) -> list[Score]:
    """The scores of groups, the worst first."""
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[key(outcome)].append(outcome)
    scores = [total(group, name) for name, group in groups.items()]
    return sorted(scores, key=lambda score: (score.percent, -score.alive, score.name))


def kinds(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """Kills by what the red run ended of (mismatch, assertion, crash, time-out)."""
    out: dict[str, int] = defaultdict(int)
    for outcome in outcomes:
        if outcome.state is State.KILLED:
            out[outcome.kind] += 1
    return dict(sorted(out.items(), key=lambda item: -item[1]))


def cost(outcomes: Iterable[Outcome]) -> tuple[float, int]:
    """Seconds of all runs together, and how many."""
    some = list(outcomes)
    return sum(one.seconds for one in some), sum(len(one.tests) for one in some)


def summary(outcomes: Sequence[Outcome], command: str, when: str, seconds: float) -> Mutation:
    """All of it, for the report."""
    return Mutation(
        command=command,
        when=when,
        seconds=round(seconds, 1),
        overall=total(outcomes),
        modules=tuple(by(outcomes, attrgetter("module"))),
        operators=tuple(by(outcomes, attrgetter("operator"))),
        kinds=tuple(kinds(outcomes).items()),
        alive=tuple(_living(one) for one in outcomes if one.state in ALIVE),
        waived=tuple(_living(one) for one in outcomes if one.state is State.WAIVED),
    )


def _living(outcome: Outcome) -> Living:
    place = f"{outcome.file}:{outcome.line}"
    return Living(outcome.id, place, outcome.diff, outcome.tests, outcome.note)

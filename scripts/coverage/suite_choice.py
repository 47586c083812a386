# SPDX-License-Identifier: Apache-2.0
"""Choice of what a suite runs by its worth: mutants killed and bins reached for the time spent.

A place is a test on a build. A place leaves if the others of the suite kill each of its mutants,
reach each of its bins and run its test; the longest leave first. A place joins if it kills mutants
that the suite does not; the most kills a second join first (greedy set cover, see `rank`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from scripts.build import registry
from scripts.plan.discover import TestCase
from scripts.plan.run_order import Memory
from scripts.plan.testplan import Options, Plan, expand, of_suite

Place = tuple[str, str]  # test id, build
Marks = Mapping[Place, Collection[object]]
_LEAST_S = 0.1  # of a place: a test of no measured time must not be infinitely good


@dataclass(frozen=True)
class SuiteChange:
    """A place that joins a suite, with the mutants that the suite did not kill; or one that leaves.

    Attributes:
        place: Test id and build.
        seconds: Its time.
        kills: Mutants that only the suite with it kills.
    """

    place: Place
    seconds: float
    kills: tuple[str, ...] = ()

    @property
    def why(self) -> str:
        """Reason of the change."""
        if not self.kills:
            return "the others kill its mutants, reach its bins and run its test"
        return f"kills {len(self.kills)} more: {', '.join(self.kills)}"


def leaving(suite: Mapping[Place, float], kills: Marks, bins: Marks) -> list[SuiteChange]:
    """Return the places that a suite can do without, the longest first.

    Args:
        suite: Seconds of its places.
        kills: Killed mutants by place.
        bins: Reached bins by place; a place without an entry was not measured, and stays.
    """
    kinds = {"kill": kills, "bin": bins, "test": {place: [place[0]] for place in suite}}
    worth = {
        place: {(kind, mark) for kind, marks in kinds.items() for mark in marks.get(place, ())}
        for place in suite
    }
    left = Counter(mark for marks in worth.values() for mark in marks)
    out = []
    for place in sorted(suite, key=lambda one: (-suite[one], one)):
        if place in bins and all(left[mark] > 1 for mark in worth[place]):
            left.subtract(worth[place])
            out.append(SuiteChange(place, suite[place]))
    return out


def joining(
    suite: Iterable[Place], others: Mapping[Place, float], kills: Mapping[Place, Collection[str]]
) -> list[SuiteChange]:
    """Return the places that add kills to a suite, the most new ones a second first.

    Args:
        suite: Its places.
        others: Seconds of the places that may join.
        kills: Killed mutants by place.
    """
    have = {mutant for place in suite for mutant in kills.get(place, ())}
    out: list[SuiteChange] = []
    while True:
        new = {place: {*kills.get(place, ())} - have for place in others}
        best = max(
            (place for place in others if new[place]),
            key=lambda one: (len(new[one]) / max(others[one], _LEAST_S), one),
            default=None,
        )
        if best is None:
            return out
        have |= new[best]
        out.append(SuiteChange(best, others[best], tuple(sorted(new[best]))))


def places(
    plan: Plan, name: str, tests: Sequence[TestCase], memory: Memory
) -> dict[Place, dict[str, float | None]]:
    """Return the places of a suite, with the seconds of its runs there by simulator.

    Args:
        plan: Testplan.
        name: Name of the suite.
        tests: All tests.
        memory: Durations of earlier runs; those that never ran have None.
    """
    suite = plan.suite(name)
    options = replace(Options(tuple(registry.names()), (1,)).of_suite(suite), group=False)
    out: dict[Place, dict[str, float | None]] = defaultdict(dict)
    for spec in expand(plan, of_suite(plan, suite, tests), options):
        place = spec.name.partition("/")[0], spec.build_name
        out[place][spec.build.sim] = memory.seconds(spec)
    return out

# SPDX-License-Identifier: Apache-2.0
"""Chooses the next run from what the runs so far have hit.

A way of running is a test, a length (how much of its usual traffic), and for a test that draws by
the knobs whether it is aimed. Each way is worth what its last runs brought a cycle; the one that is
worth most goes next. What a way brings only falls as bins close, so an old figure is never too
low for long: a way that looks best and is not is found out by one run.

An aimed run draws an open bin that names its test, and takes those that are like it; the weights of
the choices that their words ask for (`verif.scenario.aims`) are raised. A point toward which runs
were aimed in vain is drawn less and less.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from verif.coverage.cover_model import BETWEEN, Hits

Bin = tuple[str, str]  # point, bin
Weights = dict[str, dict[str, float]]
Floats = npt.NDArray[np.float64]
Aims = Callable[[str, str], Iterable[tuple[str, str]]]  # point, bin: knobs and choices

ALL, LIKE = "all", "like"
AIMED_LENGTHS = (1.0, 0.25, 3.0)  # of a test that draws by the knobs; the first is tried first
LENGTHS = (0.25, 1.0)  # of others
_PULL = 0.9  # share of a knob's draws that follow the aims when all bins have one
_NEW = (
    1.1  # what a way that was not tried is worth of the best way of its test, or of tests like it
)
_HOPE = 0.25  # share of the open bins that name a test, which its first run is taken to bring ...
_FIRST = 5000  # ... in so many cycles
_CHANCE = 0.1  # of the runs take any way: one that was unlucky once is not lost
_LATE = 0.5  # how much the last run counts in what a way is worth


@dataclass(frozen=True)
class Goal:
    """A bin to be hit `at_least` times, and the test that is meant to do so."""

    bin: Bin
    at_least: int
    test: str


@dataclass(frozen=True)
class Way:
    """How to run; `length` is a factor on the traffic, `aim` says how many bins a run is aimed at:
    none, all open ones that name the test, or those that are like one of them."""

    test: str
    length: float = 1.0
    aim: str = ""


@dataclass(frozen=True)
class Choice:
    """What to run next. `weights` is empty for those of the test; `target`: point and bin."""

    way: Way
    weights: Weights
    target: Bin | None = None


class Progress:
    """Hits so far against the goals."""

    def __init__(self, goals: Sequence[Goal]) -> None:
        self.goals = tuple(goals)
        self.number = {goal.bin: n for n, goal in enumerate(self.goals)}
        self.wanted = np.array([goal.at_least for goal in self.goals], np.float64)
        self.hits = np.zeros(len(self.goals))
        self.cycles = 0

    def row(self, hits: Hits) -> Floats:
        """Hits of a run by goal."""
        out = np.zeros(len(self.goals))
        for point, bins in hits.items():
            for name, times in bins.items():
                n = self.number.get((point, name))
                if n is not None:
                    out[n] = times
        return out

    def add(self, row: Floats, cycles: int) -> Floats:
        """Count a run; the hits that it brought to each open goal, as a share of what it wanted."""
        before = np.minimum(self.hits, self.wanted)
        self.hits += row
        self.cycles += cycles
        gains: Floats = (np.minimum(self.hits, self.wanted) - before) / self.wanted
        return gains

    @property
    def open(self) -> npt.NDArray[np.bool_]:
        return self.hits < self.wanted

    @property
    def closed(self) -> int:
        """Goals that were reached."""
        return int((~self.open).sum())


class Policy:
    """Learns from runs; see the module."""

    def __init__(
        self,
        progress: Progress,
        tests: Mapping[str, Mapping[str, Mapping[str, float]]],
        aims: Aims,
        rng: random.Random,
    ) -> None:
        """`tests` are those to choose from, each with the weights that it draws by; {}: none."""
        self.progress, self.tests, self.aims, self.rng = progress, tests, aims, rng
        self.ways = {test: list(_ways(test, bool(knobs))) for test, knobs in tests.items()}
        self._worth: dict[Way, float] = {}  # recent gain a cycle
        self._vain: Counter[str] = Counter()  # by point: aimed runs in a row that did not help it
        self._members: dict[str, list[int]] = defaultdict(list)  # goals of each point
        for n, goal in enumerate(progress.goals):
            self._members[goal.bin[0]].append(n)

    # ---- learning

    def add(self, choice: Choice, row: Floats, cycles: int) -> float:
        """A run of a choice ended with these hits (`Progress.row`); what it brought."""
        gains = self.progress.add(row, cycles)
        gain = float(gains.sum())
        now = gain / max(cycles, 1)
        self._worth[choice.way] = _LATE * now + (1 - _LATE) * self._worth.get(choice.way, now)
        if choice.target is not None:
            point = choice.target[0]
            helped = gains[self._members[point]].any()
            self._vain[point] = 0 if helped else self._vain[point] + 1
        return gain

    # ---- choosing

    def next(self) -> Choice:
        """The next run."""
        targets = {test: self._targets(test) for test in self.tests}
        ways = [
            way
            for test, some in self.ways.items()
            for way in some
            if bool(way.aim) == bool(targets[test] and self.tests[test])
        ]
        if self.rng.random() < _CHANCE:
            way = self.rng.choice(ways)
        else:
            way = max(ways, key=self._promise)  # the first of equals
        some, base = targets[way.test], self.tests[way.test]
        if not way.aim:
            return Choice(way, {})
        if way.aim == ALL:
            return Choice(way, self._toward(base, [(p, one) for p in some for one in some[p]]))
        point = self.rng.choices(
            list(some), [len(bins) / (1 + self._vain[p]) ** 2 for p, bins in some.items()]
        )[0]
        target = self.rng.choice(some[point])
        alike = [(point, one) for one in some[point] if _alike(one, target)]
        return Choice(way, self._toward(base, alike), (point, target))

    def _targets(self, test: str) -> dict[str, list[str]]:
        """Open bins that name the test, by point."""
        out: dict[str, list[str]] = defaultdict(list)
        for n in np.flatnonzero(self.progress.open):
            goal = self.progress.goals[n]
            if goal.test == test:
                out[goal.bin[0]].append(goal.bin[1])
        return out

    def _promise(self, way: Way) -> float:
        """What a way is worth, or is taken to be."""
        if way in self._worth:
            return self._worth[way]
        tried = [self._worth[one] for one in self.ways[way.test] if one in self._worth]
        if tried:
            return _NEW * max(tried)
        if self.tests[way.test]:
            alike = [worth for one, worth in self._worth.items() if self.tests[one.test]]
            return _NEW * max(alike, default=1.0)
        named = sum(map(len, self._targets(way.test).values()))
        return _HOPE * (named + 1) / _FIRST

    def _toward(self, base: Mapping[str, Mapping[str, float]], bins: Sequence[Bin]) -> Weights:
        """Weights by which the choices that bins ask for are drawn more often than by default."""
        votes: dict[str, Counter[str]] = defaultdict(Counter)
        asking: Counter[str] = Counter()  # bins that ask for any choice of a knob
        for point, name in bins:
            asked = list(self.aims(point, name))
            asking.update({knob for knob, _ in asked})
            for knob, choice in asked:
                votes[knob][choice] += 1
        out: Weights = {}
        for knob, counts in votes.items():
            pull = _PULL * asking[knob] / len(bins)
            usual, asked_for = sum(base[knob].values()), sum(counts.values())
            out[knob] = {
                choice: round((1 - pull) * weight / usual + pull * counts[choice] / asked_for, 4)
                for choice, weight in base[knob].items()
            }
        return out


def _ways(test: str, knobs: bool) -> Iterable[Way]:
    if not knobs:
        yield from (Way(test, length) for length in LENGTHS)
        return
    yield from (Way(test, 1.0, ALL), Way(test))
    yield from (Way(test, length, LIKE) for length in AIMED_LENGTHS)


def _alike(one: str, other: str) -> bool:
    """True when at least half of the axis values of two bins are the same."""
    a, b = one.split(BETWEEN), other.split(BETWEEN)
    return len(a) == len(b) and 2 * sum(map(str.__eq__, a, b)) >= len(a)

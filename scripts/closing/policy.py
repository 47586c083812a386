# SPDX-License-Identifier: Apache-2.0
"""Chooses the next run from what the runs so far have hit.

A way of running is a test with a length (a factor on its usual traffic), and for a test that draws
by the knobs an aim: all open bins that name the test, or those of one point (where a test that
does not draw by the knobs is named, the first one that does can be aimed at it). The way that is
worth most a cycle goes next. One that draws by the knobs is worth what its last runs brought: that
only falls as bins close, so a way that looks best and is not is found out by one run. Another does
much the same again: what its last run hit and is still wanted counts, and open bins that name it,
less after each run. A way that was not tried is taken for a good one.

An aimed run raises the weights of the choices that the words of its bins ask for
(`verif.scenario.aims`). Toward a point it takes an open bin by chance, and those that are like it.
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

ALL = "all"
LENGTHS = (0.25, 1.0)  # of a test that does not draw by the knobs
_PULL = 0.9  # share of a knob's draws that follow the aims when all bins have one
_NEW = 1.1  # what a test by the knobs that was not tried is worth of the best one
_HOPE = 3e-4  # gain a cycle for each open bin that a way that was not tried is meant to hit
_SHARE = 0.5  # of the open bins that name a test, which a run of it may close
_CHANCE = 0.05  # of the runs take any way: one that was unlucky once is not lost
_LATE = 0.5  # how much the last run counts in what a way is worth


@dataclass(frozen=True)
class Goal:
    """A bin to be hit `at_least` times, and the test that is meant to do so."""

    bin: Bin
    at_least: int
    test: str


@dataclass(frozen=True)
class Way:
    """How to run; `length` is a factor on the traffic, `aim` a point, ALL of the test's, or ""."""

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

    def add(self, row: Floats, cycles: int) -> float:
        """Count a run; the hits that it brought to open goals, as shares of what they wanted."""
        before = np.minimum(self.hits, self.wanted)
        self.hits += row
        self.cycles += cycles
        return float(((np.minimum(self.hits, self.wanted) - before) / self.wanted).sum())

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
        self.steered = next((test for test, knobs in tests.items() if knobs), "")
        self._worth: dict[Way, float] = {}  # recent gain a cycle
        self._last: dict[Way, tuple[Floats, int]] = {}  # hits and cycles of the last run
        self._runs: Counter[str] = Counter()

    # ---- learning

    def add(self, choice: Choice, row: Floats, cycles: int) -> float:
        """A run of a choice ended with these hits (`Progress.row`); what it brought."""
        gain = self.progress.add(row, cycles)
        now = gain / max(cycles, 1)
        self._last[choice.way] = row, max(cycles, 1)
        self._runs[choice.way.test] += 1
        self._worth[choice.way] = _LATE * now + (1 - _LATE) * self._worth.get(choice.way, now)
        return gain

    # ---- choosing

    def next(self) -> Choice:
        """The next run."""
        ways = self._ways()
        if self.rng.random() < _CHANCE:
            way = self.rng.choice(list(ways))
        else:
            best = max((way for way in ways if self.tests[way.test]), key=self._known, default=None)
            most = self._known(best) if best else 0.0
            way = max(ways, key=lambda way: self._promise(way, len(ways[way]), most))
        bins = ways[way]
        if not way.aim:
            return Choice(way, {})
        target = self.rng.choice(bins)
        if way.aim != ALL:
            bins = [one for one in bins if _alike(one[1], target[1])]
        return Choice(way, self._toward(self.tests[way.test], bins), target)

    def _ways(self) -> dict[Way, list[Bin]]:
        """All ways there are now, each with the open bins that it is meant to hit."""
        named: dict[str, list[Bin]] = {test: [] for test in self.tests}
        out: dict[Way, list[Bin]] = defaultdict(list)
        for n in np.flatnonzero(self.progress.open):
            goal = self.progress.goals[n]
            if goal.test in named:
                named[goal.test].append(goal.bin)
            test = goal.test if self.tests.get(goal.test) else self.steered
            if test and any(self.aims(*goal.bin)):
                out[Way(test, aim=goal.bin[0])].append(goal.bin)
        for test, bins in named.items():
            if self.tests[test] and bins:
                out[Way(test, aim=ALL)] = bins
            else:
                lengths = LENGTHS[-1:] if self.tests[test] else LENGTHS
                out |= {Way(test, length): bins for length in lengths}
        return out

    def _known(self, way: Way) -> float:
        return self._worth.get(way, 0.0)

    def _promise(self, way: Way, bins: int, most: float) -> float:
        """What a way is worth, or is taken to be; `most`: the best of those by the knobs."""
        if not self.tests[way.test]:
            return self._again(way, bins)
        if way in self._worth:
            return self._worth[way]
        return max(
            _HOPE * bins, _NEW * most if self.tests[way.test] and way.aim in ("", ALL) else 0.0
        )

    def _again(self, way: Way, bins: int) -> float:
        """What a test that does not draw by the knobs is worth: it does much the same again, so the
        hits of its last run count where they are still wanted; open bins that name it count less
        after each run that left them open."""
        left = bins / (1 + self._runs[way.test]) ** 2
        if way not in self._last:
            return _HOPE * left
        row, cycles = self._last[way]
        progress = self.progress
        wanted = np.minimum(row, np.maximum(progress.wanted - progress.hits, 0)) / progress.wanted
        return (float(wanted.sum()) + _SHARE * left) / cycles

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


def _alike(one: str, other: str) -> bool:
    """True when at least half of the axis values of two bins are the same."""
    a, b = one.split(BETWEEN), other.split(BETWEEN)
    return len(a) == len(b) and 2 * sum(map(str.__eq__, a, b)) >= len(a)

# SPDX-License-Identifier: Apache-2.0
"""Chooses the next test and its constraint weights from what the runs so far have hit.

Each run draws its scenario by a profile: for each knob a distribution over its choices. The policy
counts, for each bin and each choice, hits per cycle under profiles that favour the choice. Toward
an open bin it multiplies the weights of the choices under which the bin, or bins like it, came more
often than on average. Two bins of a cross are alike that differ in one axis value: so a bin that
was never hit borrows from its neighbours. Noise on every profile keeps the statistics apart; it is
also what makes the first runs, which know nothing, differ more than plain seeds do (swarm testing).

Tests compete by what they promise: the share of the missing hits of open bins that their runs
brought a cycle, and, before a test was tried, the bins that name it as theirs (a bandit with
optimism).
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from verif.coverage.cover_model import BETWEEN, Hits

Bin = tuple[str, str]  # point, bin
Weights = dict[str, dict[str, float]]
Floats = npt.NDArray[np.float64]

_ELITE = 0.6  # of the runs toward a bin begin with the weights that brought it most often so far
_FAR = 4.0  # logarithm of the largest factor on a weight
_NOISE = 0.5  # standard deviation of the logarithm of each weight
_PULL = 1.0  # exponent of a choice's lift
_MOST = 2.5  # logarithm of the largest lift that counts
_LIKE = 0.25  # what a hit of a neighbour counts for a bin
_TARGET = 0.7  # of a profile toward one bin; the rest toward all that are open
_TRY = 0.1  # of the runs use a strategy that does not pay best just now
_FADE = 0.4  # how much the last run counts in what a strategy pays
_NEVER = 0.05  # hits that every bin is given to begin with, a knob choice


@dataclass(frozen=True)
class Goal:
    """A bin to be hit `at_least` times, and the test that is meant to do so."""

    bin: Bin
    at_least: int
    test: str


@dataclass(frozen=True)
class Choice:
    """What to run next. `weights` is empty for the defaults; `target` is "" when exploring."""

    test: str
    weights: Weights
    target: str
    strategy: str = ""


# While nearly everything is open, the defaults bring most a cycle; at the end only aim does. What
# each pays now decides.
PLAIN, FREE, AIMED = STRATEGIES = ("plain", "free", "aimed")


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
        knobs: Mapping[str, Mapping[str, float]],
        tests: Mapping[str, bool],
        rng: random.Random,
    ) -> None:
        """`tests` are those to choose from; True: it draws by the knobs."""
        self.progress, self.rng = progress, rng
        self.knobs = {name: dict(weights) for name, weights in knobs.items() if len(weights) > 1}
        self.columns = [(knob, choice) for knob, some in self.knobs.items() for choice in some]
        base = np.array([self.knobs[k][c] for k, c in self.columns])
        self._log_base = np.log(np.maximum(base, 1e-3))
        self.tests = dict(tests)
        goals = len(progress.goals)
        self._hits = np.zeros((goals, len(self.columns)))  # by goal and choice, neighbours included
        self._cycles = np.zeros(len(self.columns))
        self._alike = _neighbours([goal.bin for goal in progress.goals])
        self._rows: dict[str, list[tuple[Floats, int]]] = defaultdict(list)
        self._pays: dict[str, float] = {}  # by strategy: recent gain a cycle
        self._tried = np.ones(goals)  # how often each goal was the target
        self._best = np.zeros(goals)  # the largest rate of a run, by goal, neighbours included
        self._elite = np.tile(self._log_base, (goals, 1))  # its weights

    # ---- learning

    def add(self, choice: Choice, row: Floats, cycles: int) -> float:
        """A run of a choice ended with these hits (`Progress.row`)."""
        gain = self.progress.add(row, cycles)
        self._rows[choice.test].append((row, max(cycles, 1)))
        if choice.strategy:
            now = gain / max(cycles, 1)
            before = self._pays.get(choice.strategy, now)
            self._pays[choice.strategy] = (1 - _FADE) * before + _FADE * now
        if self.tests.get(choice.test):
            shares = self._shares(choice.weights)
            seen = np.minimum(row, self.progress.wanted)  # a burst of one bin is one event
            spread = seen + _LIKE * (self._alike @ seen)
            self._hits += np.outer(spread, shares)
            self._cycles += shares * cycles
            rate = spread / max(cycles, 1)
            better = rate > self._best
            self._best[better] = rate[better]
            self._elite[better] = np.log(np.maximum(self._table(choice.weights), 1e-3))
        return gain

    def _table(self, weights: Weights) -> Floats:
        """Weights of all choices, the defaults where nothing is said."""
        return np.array([weights.get(k, {}).get(c, self.knobs[k][c]) for k, c in self.columns])

    def _shares(self, weights: Weights) -> Floats:
        """Probability of each choice of each knob."""
        table = self._table(weights)
        sums: dict[str, float] = defaultdict(float)
        for (knob, _), weight in zip(self.columns, table, strict=True):
            sums[knob] += weight
        shares: Floats = table / np.array([sums[knob] for knob, _ in self.columns])
        return shares

    # ---- choosing

    def next(self) -> Choice:
        """The next run. No goal may be left open by a caller that asks."""
        test = self._test()
        if not self.tests[test]:
            return Choice(test, {}, "")
        open_goals = np.flatnonzero(self.progress.open)
        strategy = self._strategy()
        if not len(open_goals) or strategy == PLAIN:
            return Choice(test, {}, "", PLAIN)
        if strategy == FREE:
            return Choice(test, self._profile(self._log_base, 2 * _NOISE), "", FREE)
        odds = 1 / self._tried[open_goals]
        target = self.rng.choices(open_goals.tolist(), odds.tolist())[0]
        self._tried[target] += 1
        lift = _TARGET * self._lift([target]) + (1 - _TARGET) * self._lift(open_goals)
        goal = self.progress.goals[target]
        start = self._elite[target] if self.rng.random() < _ELITE else self._log_base
        return Choice(
            test, self._profile(start + _PULL * lift, _NOISE), " / ".join(goal.bin), AIMED
        )

    def _strategy(self) -> str:
        """Aims as often as there are closed bins among all, sooner where the others pay less."""
        for strategy in STRATEGIES:
            if strategy not in self._pays:
                return strategy
        others = max(self._pays[PLAIN], self._pays[FREE])
        share = self.progress.closed / len(self.progress.goals)
        if self._pays[AIMED] > others or self.rng.random() < max(share, _TRY):
            return AIMED
        if self.rng.random() < _TRY:
            return self.rng.choice(STRATEGIES)
        return PLAIN if self._pays[PLAIN] >= self._pays[FREE] else FREE

    def _test(self) -> str:
        """The test that promises most of the open bins a cycle."""
        missing = np.where(self.progress.open, 1 / self.progress.wanted, 0.0)
        left = np.maximum(self.progress.wanted - self.progress.hits, 0)
        named: dict[str, int] = defaultdict(int)
        for n in np.flatnonzero(self.progress.open):
            named[self.progress.goals[n].test] += 1
        best, most = [], -1.0
        for test in self.tests:
            runs = self._rows[test][-8:]
            cycles = sum(c for _, c in runs)
            brought = sum(float((np.minimum(row, left) * missing).sum()) for row, _ in runs)
            # Unknown tests are assumed to bring their own bins; a test that was tried shrinks.
            promise = (brought + 0.5 * named[test] / (1 + len(runs)) + 1e-3) / (cycles + 5000)
            if promise > most:
                best, most = [test], promise
            elif promise == most:
                best.append(test)
        return self.rng.choice(best)

    def _lift(self, goals: Iterable[int]) -> Floats:
        """Logarithm of how much more often the goals come under each choice."""
        some = list(goals)
        rate = (self._hits[some] + _NEVER) / (self._cycles + 1)
        mean = (self._hits[some].sum(axis=1) + _NEVER) / (self._cycles.sum() + 1)
        found: Floats = np.clip(np.log(rate / mean[:, None]), -_MOST, _MOST).mean(axis=0)
        return found

    def _profile(self, logs: Floats, noise: float) -> Weights:
        """Weights of these logarithms, with noise, in bounds around the defaults."""
        out: Weights = defaultdict(dict)
        for n, (knob, choice) in enumerate(self.columns):
            moved = logs[n] - self._log_base[n] + self.rng.gauss(0, noise)
            moved = min(max(moved, -_FAR), _FAR)
            out[knob][choice] = float(f"{math.exp(self._log_base[n] + moved):.3g}")
        return dict(out)


def _neighbours(bins: Sequence[Bin]) -> Floats:
    """1 where two bins of one point differ in one axis value, shared out among the neighbours."""
    out = np.zeros((len(bins), len(bins)))
    groups: dict[tuple[str, int], list[int]] = defaultdict(list)
    for n, (point, name) in enumerate(bins):
        groups[point, name.count(BETWEEN)].append(n)
    for (_, axes), members in groups.items():
        values = np.array([bins[n][1].split(BETWEEN) for n in members])
        if axes:
            for at, n in enumerate(members):
                alike = (values != values[at]).sum(axis=1) == 1
                out[n, np.array(members)[alike]] = 1
    sums: Floats = out.sum(axis=1, keepdims=True)
    return out / np.maximum(sums, 1)

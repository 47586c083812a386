# SPDX-License-Identifier: Apache-2.0
"""Coverage closure: choice of runs toward open coverage bins, compared with plain random seeds.

Both strategies start with the same hits and choose from the same tests. Plain random draws a test
uniformly, with its default weights, its usual length and a seed that was not used before. `nf
close` stops when `patience` runs gain nothing.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from scripts.closing.curve import ClosureCurve
from scripts.common.records import RunRecord, RunSpec
from scripts.coverage.merged import Merger, hits_of
from verif.coverage.cover_model import BETWEEN, Hits
from verif.scenario.weights import VARIABLE

# Selection of the next run (a multi-armed bandit with optimistic initial values).
#
# A variant is a test with a length (a factor on its usual traffic) and, for a test that draws by
# weights, an aim: all open bins that name the test, or those of one point. If a bin names a test
# without weights, the first test with weights can be aimed at it. The variant with the highest
# expected gain a cycle runs next. For a test with weights that is the gain of its last runs: it
# only falls as bins close, so one run corrects an overestimate. A test without weights does much
# the same each time: hits of its last run count where they are still wanted, and open bins that
# name it count less after each run. An untried variant gets an optimistic value.
#
# An aimed run raises the weights of the choices that its bins name (`verif.scenario.weights`).
# For a point, it draws one open bin and takes all similar ones.

Bin = tuple[str, str]  # point, bin
Weights = dict[str, dict[str, float]]
Floats = npt.NDArray[np.float64]
Aims = Callable[[str, str], Iterable[tuple[str, str]]]  # point, bin: knobs and choices

ALL = "all"
LENGTHS = (0.25, 1.0)  # of a test that does not draw by the knobs
_PULL = 0.9  # share of draws that follow the aims when all bins have one
_NEW = 1.1  # value of an untried test with weights, relative to the best one
_HOPE = 3e-4  # assumed gain a cycle for each open bin that an untried variant is meant to hit
_SHARE = 0.5  # of the open bins that name a test, assumed to be closed by one run of it
_CHANCE = 0.05  # of the runs take a random variant, so that one unlucky run excludes none
_LATE = 0.5  # weight of the last run in the value of a variant


@dataclass(frozen=True)
class BinGoal:
    """A bin to be hit `at_least` times, and the test that is meant to hit it."""

    bin: Bin
    at_least: int
    test: str


@dataclass(frozen=True)
class RunVariant:
    """A kind of run: a test, a factor on its amount of traffic, and an aim.

    The aim is the name of a coverage point, ALL open bins that name the test, or "" for none.
    """

    test: str
    length: float = 1.0
    aim: str = ""


@dataclass(frozen=True)
class NextRun:
    """The run to start next.

    Attributes:
        variant: Test, length and aim.
        weights: Weights of choices by knob; empty for the test's own.
        target: Open bin (point, bin) that was drawn from those of the aim; None without an aim.
    """

    variant: RunVariant
    weights: Weights
    target: Bin | None = None


class BinProgress:
    """Hits of coverage bins so far, compared with the goals.

    Attributes:
        goals: Bins to close.
        number: Index of a goal by its bin.
        wanted: Hits required, by goal.
        hits: Hits so far, by goal.
        cycles: Simulated cycles so far.
    """

    def __init__(self, goals: Sequence[BinGoal]) -> None:
        self.goals = tuple(goals)
        self.number = {goal.bin: n for n, goal in enumerate(self.goals)}
        self.wanted = np.array([goal.at_least for goal in self.goals], np.float64)
        self.hits = np.zeros(len(self.goals))
        self.cycles = 0

    def row(self, hits: Hits) -> Floats:
        """Return the hits of one run as an array indexed like `goals`; other bins are ignored."""
        out = np.zeros(len(self.goals))
        for point, bins in hits.items():
            for name, times in bins.items():
                n = self.number.get((point, name))
                if n is not None:
                    out[n] = times
        return out

    def add(self, row: Floats, cycles: int) -> float:
        """Add the hits and cycles of one run.

        Returns:
            Its gain: the sum over the goals of the new hits up to the wanted number, divided by
            that number.
        """
        before = np.minimum(self.hits, self.wanted)
        self.hits += row
        self.cycles += cycles
        return float(((np.minimum(self.hits, self.wanted) - before) / self.wanted).sum())

    @property
    def open(self) -> npt.NDArray[np.bool_]:
        return self.hits < self.wanted

    @property
    def closed(self) -> int:
        """Number of goals whose bins have been hit as often as wanted."""
        return int((~self.open).sum())


class Policy:
    """Selection of runs that learns from the results of earlier runs (a multi-armed bandit).

    The comment at the top of the module explains the idea.
    """

    def __init__(
        self,
        progress: BinProgress,
        tests: Mapping[str, Mapping[str, Mapping[str, float]]],
        aims: Aims,
        rng: random.Random,
    ) -> None:
        """Start without results of runs.

        Args:
            progress: Goals and hits; updated by `add`.
            tests: For each test, the default weights of choices by knob from which it draws; {} for
                a test that does not draw by weights.
            aims: Returns the (knob, choice) pairs that lead to a bin.
            rng: Source of random choices.
        """
        self.progress, self.tests, self.aims, self.rng = progress, tests, aims, rng
        self.steered = next((test for test, knobs in tests.items() if knobs), "")
        self._worth: dict[RunVariant, float] = {}  # recent gain a cycle
        self._last: dict[RunVariant, tuple[Floats, int]] = {}  # hits and cycles of the last run
        self._runs: Counter[str] = Counter()

    # ---- learning

    def add(self, choice: NextRun, row: Floats, cycles: int) -> float:
        """Add a finished run to the progress and to the value of its variant.

        Args:
            choice: The run.
            row: Its hits, as `BinProgress.row` returns them.
            cycles: Its simulated cycles.

        Returns:
            Its gain (see `BinProgress.add`).
        """
        gain = self.progress.add(row, cycles)
        now = gain / max(cycles, 1)
        self._last[choice.variant] = row, max(cycles, 1)
        self._runs[choice.variant.test] += 1
        self._worth[choice.variant] = _LATE * now + (1 - _LATE) * self._worth.get(
            choice.variant, now
        )
        return gain

    # ---- choosing

    def next(self) -> NextRun:
        """Choose the variant with the highest expected gain a cycle; 5 % of choices are random."""
        variants = self._variants()
        if self.rng.random() < _CHANCE:
            variant = self.rng.choice(list(variants))
        else:
            known = (self._worth.get(one, 0.0) for one in variants if self.tests[one.test])
            most = max(known, default=0.0)
            variant = max(variants, key=lambda one: self._promise(one, len(variants[one]), most))
        bins = variants[variant]
        if not variant.aim:
            return NextRun(variant, {})
        target = self.rng.choice(bins)
        if variant.aim != ALL:
            bins = [one for one in bins if _alike(one[1], target[1])]
        return NextRun(variant, self._toward(self.tests[variant.test], bins), target)

    def _variants(self) -> dict[RunVariant, list[Bin]]:
        """Return all variants that may run next, each with the open bins that it should hit."""
        named: dict[str, list[Bin]] = {test: [] for test in self.tests}
        out: dict[RunVariant, list[Bin]] = defaultdict(list)
        for n in np.flatnonzero(self.progress.open):
            goal = self.progress.goals[n]
            if goal.test in named:
                named[goal.test].append(goal.bin)
            test = goal.test if self.tests.get(goal.test) else self.steered
            if test and any(self.aims(*goal.bin)):
                out[RunVariant(test, aim=goal.bin[0])].append(goal.bin)
        for test, bins in named.items():
            if self.tests[test] and bins:
                out[RunVariant(test, aim=ALL)] = bins
            else:
                lengths = LENGTHS[-1:] if self.tests[test] else LENGTHS
                out |= {RunVariant(test, length): bins for length in lengths}
        return out

    def _promise(self, variant: RunVariant, bins: int, most: float) -> float:
        """Estimate the gain a cycle of a variant.

        Args:
            variant: Kind of run.
            bins: Number of open bins that it is meant to hit.
            most: Largest known value of a test with weights.
        """
        if not self.tests[variant.test]:
            return self._again(variant, bins)
        if variant in self._worth:
            return self._worth[variant]
        return max(_HOPE * bins, _NEW * most if variant.aim in ("", ALL) else 0.0)

    def _again(self, variant: RunVariant, bins: int) -> float:
        """Estimate the gain a cycle of a test without weights, which does much the same each time.

        Hits of its last run count where they are still wanted; open bins that name it count less
        after each run that left them open.
        """
        left = bins / (1 + self._runs[variant.test]) ** 2
        if variant not in self._last:
            return _HOPE * left
        row, cycles = self._last[variant]
        progress = self.progress
        wanted = np.minimum(row, np.maximum(progress.wanted - progress.hits, 0)) / progress.wanted
        return (float(wanted.sum()) + _SHARE * left) / cycles

    def _toward(self, base: Mapping[str, Mapping[str, float]], bins: Sequence[Bin]) -> Weights:
        """Return weights that draw the choices asked for by `bins` more often than the defaults do.

        Args:
            base: Default weights of choices by knob.
            bins: Open bins to aim at.
        """
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
    """Return whether two cross bins agree in at least half of their axis values."""
    a, b = one.split(BETWEEN), other.split(BETWEEN)
    return len(a) == len(b) and 2 * sum(map(str.__eq__, a, b)) >= len(a)


Execute = Callable[[Sequence[RunSpec]], list[RunRecord]]
SCALE = "NF_SCALE"
CLOCK_NS = 2  # of nearly every bench
CLOSE_SEED, PLAIN_SEED, SEEDS = 1, 500_001, 1_000_000  # seeds of the two never meet
_SETS = 2_000  # of SEEDS each: a seed of a run has 31 bits


@dataclass(frozen=True)
class ClosingLimits:
    """Stopping conditions of coverage closure.

    Attributes:
        runs: Number of runs of `nf close`.
        minutes: Limit of builds and runs together.
        patience: Consecutive runs without gain after which the search stops.
        plain: Plain random seeds may spend this multiple of the cycles of `nf close`; 0 leaves them
            out.
        jobs: Parallel runs.
        seed: Determines the seeds of all runs.
    """

    runs: int = 200
    minutes: float = 60.0
    patience: int = 25
    plain: float = 4.0
    jobs: int = 1
    seed: int = 1


class SeedStrategy(ClosureCurve):
    """One of the two strategies, and its results so far.

    Attributes:
        progress: Hits and goals.
        merger: Merged coverage of its passed runs.
        red: Records of failed runs.
        runs: Number of runs, failed ones included.
    """

    def __init__(self, name: str, goals: Sequence[BinGoal], before: Hits) -> None:
        """Start with the hits of earlier runs."""
        self.progress, self.merger = BinProgress(goals), Merger()
        self.progress.add(self.progress.row(before), 0)
        super().__init__(name, start=self.progress.closed)
        self.red: list[RunRecord] = []
        self.runs = 0


class Closing:
    """Run of both strategies, `nf close` and plain random seeds, over the same simulated cycles."""

    def __init__(
        self,
        goals: Sequence[BinGoal],
        policy: Callable[[BinProgress], Policy],
        specs: Mapping[str, RunSpec],
        execute: Execute,
        limits: ClosingLimits,
        before: Hits | None = None,
        say: Callable[[str], None] = lambda text: None,
        end: float | None = None,
    ) -> None:
        """Prepare the search.

        Args:
            goals: Bins to close.
            policy: Makes the selection policy.
            specs: A run of each test by name; seed and weights are set later.
            execute: Executes runs; it may return fewer records after the end of the time.
            limits: Stopping conditions.
            before: Hits to start with.
            say: Prints a line of progress.
            end: End of the command's time, on the monotonic clock.
        """
        self.close = SeedStrategy("nf close", goals, before or {})
        self.plain = SeedStrategy("plain random seeds", goals, before or {})
        self.policy = policy(self.close.progress)
        self.specs, self.execute, self.limits, self.say = specs, execute, limits, say
        self._end = time.monotonic() + 60 * limits.minutes if end is None else end
        self._seeds = SEEDS * (limits.seed % _SETS)
        self._red_rounds = 0  # of plain seeds, one after the other
        self._draw = random.Random(f"plain random {limits.seed}")

    def run(self) -> None:
        """Run both strategies until their limits; the results are in `close` and `plain`."""
        idle = 0
        limits, close = self.limits, self.close
        while close.progress.closed < len(close.progress.goals):
            late = time.monotonic() > self._end
            if late or close.runs >= limits.runs or idle >= limits.patience:
                break
            idle = 0 if self._closing() else idle + limits.jobs
            if limits.plain:  # in step, so that an interrupted run compares as well
                self._plain(close.progress.cycles, math.inf)
        cycles, _ = close.reached(close.bins) or (0, 0)
        self._plain(limits.plain * cycles, close.progress.closed)

    def _closing(self) -> bool:
        """Execute `jobs` runs chosen by the policy, in parallel; return whether any had a gain."""
        choices = [self.policy.next() for _ in range(self.limits.jobs)]
        specs = [
            with_choice(self.specs[choice.variant.test], seed, choice)
            for seed, choice in enumerate(choices, self._seeds + CLOSE_SEED + self.close.runs)
        ]
        came = {record.id: record for record in self.execute(specs)}
        gains = []
        for spec, choice in zip(specs, choices, strict=True):
            record = came.get(spec.id)
            row = self._count(self.close, record)
            if row is not None and record is not None:
                gain = self.policy.add(choice, row, cycles_of(record))
                self._point(self.close)
                gains.append(gain)
                self.say(self._told(choice, gain))
        return any(gains)

    def _plain(self, cycles: float, bins: float) -> None:
        """Run plain random seeds up to a number of cycles or of closed bins.

        They stop earlier when the time is over, or when the last runs (five times the number of
        tests) had no cycle, since all failed.
        """
        progress = self.plain.progress
        while (
            progress.closed < bins
            and progress.cycles < cycles
            and time.monotonic() <= self._end
            and self._red_rounds < 5 * len(self.specs)
        ):
            first = self._seeds + PLAIN_SEED + self.plain.runs
            specs = [
                with_choice(self.specs[self._draw.choice(list(self.specs))], first + number)
                for number in range(self.limits.jobs)
            ]
            before = progress.cycles
            for record in self.execute(specs):
                row = self._count(self.plain, record)
                if row is not None:
                    progress.add(row, cycles_of(record))
                    self._point(self.plain)
            self._red_rounds = self._red_rounds + 1 if progress.cycles == before else 0

    def _count(self, arm: SeedStrategy, record: RunRecord | None) -> Floats | None:
        """Return the hits of a passed run as a row; None for a failed or missing one.

        A failed run is kept in `arm.red`, and its hits count for nothing.
        """
        arm.runs += 1
        if record is None:
            return None
        if not record.passed:
            arm.red.append(record)
            return None
        arm.merger.record(record)
        return arm.progress.row(hits_of(record))

    def _point(self, arm: SeedStrategy) -> None:
        arm.points.append((arm.progress.cycles, arm.progress.closed))

    def _told(self, choice: NextRun, gain: float) -> str:
        progress = self.close.progress
        variant = choice.variant
        length = f" x {variant.length:g}" if variant.length != 1 else ""
        toward = f" toward {variant.aim}" if variant.aim else ""
        if choice.target and variant.aim == choice.target[0]:
            toward += f" / {choice.target[1]}"
        return (
            f"{progress.cycles:>9,} cycles  {progress.closed:4} of {len(progress.goals)} bins"
            f"  +{gain:.1f}  {variant.test}{length}{toward}"
        )


def cycles_of(record: RunRecord) -> int:
    """Return the simulated cycles of a run, estimated from its simulated time if not counted."""
    return record.cycles or round(record.sim_time_ns / CLOCK_NS)


def with_choice(spec: RunSpec, seed: int, choice: NextRun | None = None) -> RunSpec:
    """Return the run with a seed, and with the weights and the length of a choice as variables."""
    env = dict(spec.env)
    if choice is not None and choice.weights:
        env[VARIABLE] = json.dumps(choice.weights, separators=(",", ":"))
    if choice is not None and choice.variant.length != 1:
        env[SCALE] = f"{float(env.get(SCALE, 1)) * choice.variant.length:g}"
    return replace(spec, seed=seed, env=tuple(sorted(env.items())))

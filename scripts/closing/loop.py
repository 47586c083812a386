# SPDX-License-Identifier: Apache-2.0
"""Runs tests toward open bins until nothing improves, and plain random seeds beside them.

Both start with the same hits and choose from the same tests: plain random draws a test, each as
likely as another, with its default weights, its usual length and a seed that was not used before.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from scripts.closing.curve import Line, Point
from scripts.closing.policy import Choice, Floats, Goal, Policy, Progress
from scripts.common.records import RunRecord, RunSpec
from scripts.coverage.merged import Merger, hits_of
from verif.coverage.cover_model import Hits
from verif.scenario.weights import VARIABLE

Execute = Callable[[Sequence[RunSpec]], list[RunRecord]]
SCALE = "NF_SCALE"
CLOCK_NS = 2  # of nearly every bench
CLOSE_SEED, PLAIN_SEED, SEEDS = 1, 500_001, 1_000_000  # seeds of the two never meet
_SETS = 2_000  # of SEEDS each: a seed of a run has 31 bits


@dataclass(frozen=True)
class Limits:
    """When to stop. `minutes` is for builds and runs together. `patience`: runs of `nf close` in a
    row that bring nothing. `plain` times the cycles of `nf close` is what plain seeds may spend to
    come as far; 0 leaves them out. `seed` sets those of all runs."""

    runs: int = 200
    minutes: float = 60.0
    patience: int = 25
    plain: float = 4.0
    jobs: int = 1
    seed: int = 1


@dataclass
class Arm:
    """One way of choosing, and what came of it."""

    name: str
    progress: Progress
    merger: Merger = field(default_factory=Merger)
    points: list[Point] = field(default_factory=list)
    red: list[RunRecord] = field(default_factory=list)
    useful: list[tuple[RunSpec, Choice, float]] = field(default_factory=list)
    runs: int = 0
    start: int = 0  # bins that were closed before

    def line(self) -> Line:
        return Line(self.name, tuple(self.points), self.start)


class Closing:
    """The two arms, step by step."""

    def __init__(
        self,
        goals: Sequence[Goal],
        policy: Callable[[Progress], Policy],
        specs: Mapping[str, RunSpec],
        execute: Execute,
        limits: Limits,
        before: Hits | None = None,
        say: Callable[[str], None] = lambda text: None,
        end: float | None = None,
    ) -> None:
        """`specs`: a run of each test, seed and weights to be set; `before`: hits to begin with;
        `end`: when the time of the command is over, by the monotonic clock. `execute` may return
        fewer records than runs then."""
        self.close, self.plain = (
            Arm(name, Progress(goals)) for name in ("nf close", "plain random seeds")
        )
        for arm in (self.close, self.plain):
            arm.progress.add(arm.progress.row(before or {}), 0)
            arm.start = arm.progress.closed
        self.policy = policy(self.close.progress)
        self.specs, self.execute, self.limits, self.say = specs, execute, limits, say
        self._end = time.monotonic() + 60 * limits.minutes if end is None else end
        self._seeds = SEEDS * (limits.seed % _SETS)
        self._red_rounds = 0  # of plain seeds, one after the other
        self._draw = random.Random(f"plain random {limits.seed}")

    def run(self) -> None:
        """Both arms to their end."""
        idle = 0
        limits = self.limits
        while self.close.progress.closed < len(self.close.progress.goals):
            late = time.monotonic() > self._end
            if late or self.close.runs >= limits.runs or idle >= limits.patience:
                break
            idle = 0 if self._closing() else idle + limits.jobs
            while (
                limits.plain
                and self.plain.progress.cycles < self.close.progress.cycles
                and self._plain_may()
            ):
                self._plain()  # in step, so that an interrupted run compares as well
        cycles, _ = self.close.line().reached(self.close.line().bins) or (0, 0)
        most = limits.plain * cycles
        while (
            self.plain.progress.closed < self.close.progress.closed
            and self.plain.progress.cycles < most
            and self._plain_may()
        ):
            self._plain()

    def _closing(self) -> bool:
        """One round of chosen runs; whether any brought something."""
        choices = [self.policy.next() for _ in range(self.limits.jobs)]
        specs = []
        for number, choice in enumerate(choices):
            seed = self._seeds + CLOSE_SEED + self.close.runs + number
            specs.append(with_choice(self.specs[choice.way.test], seed, choice))
        came = {record.id: record for record in self.execute(specs)}
        gains = []
        for spec, choice in zip(specs, choices, strict=True):
            record = came.get(spec.id)
            row = self._count(self.close, record)
            if row is not None and record is not None:
                gain = self.policy.add(choice, row, cycles_of(record))
                self._point(self.close)
                gains.append(gain)
                if gain:
                    self.close.useful.append((spec, choice, gain))
                self.say(self._told(choice, gain))
        return any(gains)

    def _plain_may(self) -> bool:
        """Whether time is left, and not all tests are red again and again: they take no cycles."""
        return time.monotonic() <= self._end and self._red_rounds < 5 * len(self.specs)

    def _plain(self) -> None:
        specs = []
        for number in range(self.limits.jobs):
            test = self._draw.choice(list(self.specs))
            seed = self._seeds + PLAIN_SEED + self.plain.runs + number
            specs.append(with_choice(self.specs[test], seed))
        before = self.plain.progress.cycles
        for record in self.execute(specs):
            row = self._count(self.plain, record)
            if row is not None:
                self.plain.progress.add(row, cycles_of(record))
                self._point(self.plain)
        self._red_rounds = self._red_rounds + 1 if self.plain.progress.cycles == before else 0

    def _count(self, arm: Arm, record: RunRecord | None) -> Floats | None:
        """The hits of a green run; a red one counts for nothing, and is kept."""
        arm.runs += 1
        if record is None:
            return None
        if not record.passed:
            arm.red.append(record)
            return None
        arm.merger.record(record)
        return arm.progress.row(hits_of(record))

    def _point(self, arm: Arm) -> None:
        arm.points.append((arm.progress.cycles, arm.progress.closed))

    def _told(self, choice: Choice, gain: float) -> str:
        progress = self.close.progress
        way = choice.way
        length = f" x {way.length:g}" if way.length != 1 else ""
        toward = f" toward {way.aim}" if way.aim else ""
        if choice.target and way.aim == choice.target[0]:
            toward += f" / {choice.target[1]}"
        return (
            f"{progress.cycles:>9,} cycles  {progress.closed:4} of {len(progress.goals)} bins"
            f"  +{gain:.1f}  {way.test}{length}{toward}"
        )


def cycles_of(record: RunRecord) -> int:
    """Simulated cycles; no run is for nothing, also where the bench does not count them."""
    return record.cycles or round(record.sim_time_ns / CLOCK_NS)


def with_choice(spec: RunSpec, seed: int, choice: Choice | None = None) -> RunSpec:
    """The run with a seed, and the weights and the length of a choice."""
    env = dict(spec.env)
    if choice is not None and choice.weights:
        env[VARIABLE] = json.dumps(choice.weights, separators=(",", ":"))
    if choice is not None and choice.way.length != 1:
        env[SCALE] = f"{float(env.get(SCALE, 1)) * choice.way.length:g}"
    return replace(spec, seed=seed, env=tuple(sorted(env.items())))

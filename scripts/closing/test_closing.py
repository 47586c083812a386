# SPDX-License-Identifier: Apache-2.0
"""Tests of the policy of `nf close` on a made-up design whose bins need rare combinations."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from scripts.closing import curve, loop
from scripts.closing.curve import ClosureCurve
from scripts.closing.loop import (
    PLAIN_SEED,
    SEEDS,
    BinGoal,
    BinProgress,
    Closing,
    ClosingLimits,
    Execute,
    NextRun,
    Policy,
    RunVariant,
)
from scripts.common.records import BuildSpec, FailureKind, RunRecord, RunSpec
from scripts.conftest import RECORD
from scripts.coverage.functional_coverage import Bin
from verif.coverage.cover_model import BETWEEN, FUNCTIONAL

KNOBS = {
    "mode": {"a": 4.0, "b": 4.0, "c": 2.0, "d": 0.5},
    "size": {"small": 8.0, "middle": 3.0, "large": 0.5, "huge": 0.2},
    "event": {"none": 12.0, "poison": 0.5, "twice": 0.7, "lost": 0.2},
    **{f"other{n}": {"x": 1.0, "y": 1.0, "z": 2.0} for n in range(12)},
}
CROSS = [
    f"{mode} x {size} x {event}"
    for mode in KNOBS["mode"]
    for size in KNOBS["size"]
    for event in KNOBS["event"]
]
GOALS = [BinGoal(("cross", name), 10, "test_scenario::mixed") for name in CROSS]
SPEC = RunSpec(BuildSpec("icarus", "top", "top.f"), "verif.tests.test_scenario", ("mixed",))


def simulate(spec: RunSpec) -> RunRecord:
    """Return the record of a fake run: 60 operations of 10 cycles, and 400 cycles of overhead.

    Mode and size are drawn once a run for each of two regions.
    """
    rng = random.Random(spec.seed)
    env = dict(spec.env)
    given = json.loads(env.get("NF_WEIGHTS", "{}"))
    operations = round(60 * float(env.get("NF_SCALE", "1")))

    def draw(knob: str) -> str:
        weights = {**KNOBS[knob], **given.get(knob, {})}
        return str(rng.choices(list(weights), list(weights.values()))[0])

    regions = [(draw("mode"), draw("size")) for _ in range(2)]
    hits = Counter(
        f"{' x '.join(rng.choice(regions))} x {draw('event')}" for _ in range(operations)
    )
    return replace(
        RECORD,
        id=spec.id,
        seed=spec.seed,
        cycles=400 + 10 * operations,
        metrics={FUNCTIONAL: {"cross": hits}},
    )


def execute(specs: Sequence[RunSpec]) -> list[RunRecord]:
    return [simulate(spec) for spec in specs]


def aims(_point: str, name: str) -> set[tuple[str, str]]:
    """Return the (knob, choice) pairs that a bin is named after."""
    return {(knob, choice) for knob, choice in zip(KNOBS, name.split(BETWEEN), strict=False)}


def closing_of(seed: int, limits: ClosingLimits, run: Execute = execute) -> Closing:
    rng = random.Random(seed)
    return Closing(
        GOALS,
        lambda progress: Policy(progress, {"test_scenario::mixed": KNOBS}, aims, rng),
        {"test_scenario::mixed": SPEC},
        run,
        limits,
    )


def closing(seed: int, limits: ClosingLimits, run: Execute = execute) -> Closing:
    made = closing_of(seed, limits, run)
    made.run()
    return made


@pytest.mark.parametrize("seed", [1, 2])
def test_takes_a_third_of_the_cycles_of_plain_seeds(seed: int) -> None:
    found = closing(seed, ClosingLimits(runs=150, patience=100, plain=8))
    ours, plain = found.close, found.plain
    assert ours.bins >= 55
    costs = curve.costs(ours, plain)
    assert costs is not None
    assert costs[2][0] >= 3 * costs[1][0], costs


def noting(seen: list[RunSpec], red: range = range(0)) -> Execute:
    """Return an `execute` function that appends the runs to `seen`; those with seeds `red` fail."""

    def run(specs: Sequence[RunSpec]) -> list[RunRecord]:
        seen.extend(specs)
        return [
            replace(record, passed=False, kind=FailureKind.MISMATCH)
            if record.seed in red
            else record
            for record in execute(specs)
        ]

    return run


@pytest.mark.parametrize("seed", [1, 20261122, 2**31 - 1])  # `nf nightly` takes the date
def test_plain_seeds_are_the_tests_as_they_are(seed: int) -> None:
    """Check that plain random seeds use tests unchanged, with seeds below 2^31 and never shared."""
    seen: list[RunSpec] = []
    found = closing(1, ClosingLimits(runs=5, plain=1, seed=seed), noting(seen))
    plain = [spec for spec in seen if spec.seed % SEEDS >= PLAIN_SEED]
    assert len(plain) == found.plain.runs > 0
    assert {spec.env for spec in plain} == {SPEC.env}
    assert len({spec.seed for spec in seen}) == len(seen)
    assert max(spec.seed for spec in seen) < 1 << 31


def test_stops_when_nothing_improves() -> None:
    """Check that the search stops after `patience` runs without gain; failed runs have none."""
    found = closing(1, ClosingLimits(runs=500, patience=7, plain=0), noting([], range(1 << 31)))
    assert (found.close.runs, len(found.close.red), found.close.progress.cycles) == (7, 7, 0)
    assert curve.costs(found.close, found.plain) is None


@pytest.mark.parametrize(("many", "least", "most"), [(1, 1, 1), (PLAIN_SEED - 1, 1, 199)])
def test_red_plain_seeds(monkeypatch: pytest.MonkeyPatch, many: int, least: int, most: int) -> None:
    """Check that plain random seeds go on after a failed run, and stop if every run fails.

    After one failed run (`many` = 1) the plain seeds continue. If all of their runs fail, they stop
    after fewer than 200, before the time limit. In both cases `nf close` itself makes its 20 runs.
    """
    clock = itertools.count(step=1)
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    first = SEEDS + PLAIN_SEED
    limits = ClosingLimits(runs=20, plain=1, patience=20, minutes=60.0)
    found = closing(1, limits, noting([], range(first, first + many)))
    assert least <= len(found.plain.red) <= most
    assert found.close.runs == 20


def test_no_round_begins_after_the_end_of_the_command() -> None:
    """Check that nothing runs if the time is over before the search: planning and builds count."""
    made = closing_of(1, ClosingLimits(minutes=60.0))
    made._end = 0.0
    made.run()
    assert made.close.runs == made.plain.runs == 0


def test_a_ratio_is_of_equal_bins() -> None:
    """Check the ratio of cycles for the same number of bins, which may be reached within a run."""
    ours = ClosureCurve("nf close", [(100, 1), (200, 2), (300, 4), (400, 9)])
    plain = ClosureCurve("plain random seeds", [(400, 1), (800, 2), (1200, 3), (1600, 3)])
    assert curve.comparison(ours, plain) == (
        "4.8 times fewer cycles for 3 bins: nf close took 250 (3 runs), plain random seeds "
        "1,200 (3 runs)"
    )
    worse = curve.comparison(replace(plain, name="nf close"), replace(ours, name="plain"))
    assert worse.startswith("4.8 times more cycles for 3 bins")


def test_one_long_run_is_no_comparison() -> None:
    """Check that strategies are not compared if one needed fewer than 3 runs.

    Before, 6 bins of a short run and 20 of a long one gave "4.6 times fewer cycles".
    """
    ours, plain = ClosureCurve("nf close", [(2_000, 6)]), ClosureCurve("plain", [(9_200, 20)])
    assert plain.reached(6) == (2760, 1)
    assert curve.comparison(ours, plain) == (
        "no comparison: both need 3 runs for the same bins, but nf close closed 6 in 1 run, plain "
        "closed 20 in 1 run"
    )
    before = ClosureCurve("nf close", [(100, 7), (200, 7), (300, 7)], start=7)
    assert curve.costs(before, replace(before, points=[(100, 7), (200, 8), (300, 9)])) is None
    assert curve.costs(ours, ClosureCurve("plain")) is None


def test_page_is_offline_and_escaped(tmp_path: Path) -> None:
    lines = [ClosureCurve("<close>", [(100, 3)]), ClosureCurve("plain", [(100, 2)])]
    left = [Bin("p", "<b>", "", 0, test="test_x::y", at_least=10)]
    text = curve.page(lines, ["1 & 2"], 9, left)
    assert "<b>&lt;b&gt;" not in text
    assert "&lt;close&gt;" in text
    assert "http" not in text.replace("http-equiv", "")


SHORT, LONG = "test_short::all", "test_long::all"


def policy(goals: Sequence[BinGoal], tests: dict[str, dict[str, dict[str, float]]]) -> Policy:
    return Policy(BinProgress(goals), tests, aims, random.Random(1))


def test_takes_the_test_that_brings_most_a_cycle() -> None:
    goals = [BinGoal(("p", str(n)), 1, test) for test in (SHORT, LONG) for n in range(20)]
    made = policy(goals, {SHORT: {}, LONG: {}})
    taken = Counter()  # type: Counter[str]
    for _ in range(60):
        choice = made.next()
        taken[choice.variant.test] += 1
        row = np.zeros(len(goals))
        row[sum(taken.values()) % len(goals)] = 1
        made.add(choice, row, 100 if choice.variant.test == SHORT else 50_000)
    assert taken[SHORT] > 4 * taken[LONG]
    assert taken[LONG]  # it was tried


def test_aims_at_bins_that_are_open_and_at_what_they_ask_for() -> None:
    made = policy(GOALS, {"test_scenario::mixed": KNOBS})
    row = made.progress.row({"cross": {name: 10 for name in CROSS if not name.startswith("d x")}})
    made.progress.add(row, 1)
    for _ in range(30):
        choice = made.next()
        mode = choice.weights["mode"]
        assert mode["d"] > 0.9 * sum(mode.values())  # no other mode is open
        assert "other0" not in choice.weights  # nobody asks for it
        assert choice.target is None or choice.target[1].startswith("d x")
        made.add(choice, np.zeros(len(GOALS)), 1000)


def test_a_point_that_nothing_helps_is_taken_less() -> None:
    bins = [("helped", "a x small"), ("never", "a x small")]
    goals = [BinGoal(one, 10_000, "test_scenario::mixed") for one in bins]
    made = policy(goals, {"test_scenario::mixed": KNOBS})
    taken = Counter()  # type: Counter[str]
    for _ in range(200):
        choice = made.next()
        taken[choice.variant.aim] += 1
        made.add(choice, np.array([choice.variant.aim == "helped", 0.0]), 1000)
    assert taken["helped"] > 10 * taken["never"] > 0


def test_a_scenario_is_aimed_at_points_of_other_tests_where_aims_are_known() -> None:
    goals = [BinGoal(("known", "a x small"), 1, SHORT), BinGoal(("unknown", ""), 1, SHORT)]
    tests: dict[str, dict[str, dict[str, float]]] = {SHORT: {}, "test_scenario::mixed": KNOBS}
    made = Policy(
        BinProgress(goals),
        tests,
        lambda point, name: aims(point, name) if point == "known" else set(),
        random.Random(1),
    )
    taken = set()
    for _ in range(100):
        choice = made.next()
        taken.add((choice.variant.test, choice.variant.aim))
        made.add(choice, np.zeros(2), 1000)
    assert taken >= {(SHORT, ""), ("test_scenario::mixed", "known")}
    assert taken <= {(SHORT, ""), ("test_scenario::mixed", ""), ("test_scenario::mixed", "known")}


def test_length_and_weights_are_those_of_the_run() -> None:
    choice = NextRun(RunVariant("test_scenario::mixed", 0.25), {"mode": {"a": 1.0}})
    env = dict(loop.with_choice(replace(SPEC, env=(("NF_SCALE", "2"),)), 7, choice).env)
    assert env == {"NF_SCALE": "0.5", "NF_WEIGHTS": '{"mode":{"a":1.0}}'}


def test_no_run_is_for_nothing() -> None:
    assert loop.cycles_of(replace(RECORD, cycles=None, sim_time_ns=90.0)) == 45
    assert loop.cycles_of(replace(RECORD, cycles=7, sim_time_ns=90.0)) == 7


def test_an_interrupted_closing_keeps_its_runs() -> None:
    left = iter(range(10))

    def until_interrupted(specs: Sequence[RunSpec]) -> list[RunRecord]:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return execute(specs)

    made = closing_of(1, ClosingLimits(plain=1), until_interrupted)
    with pytest.raises(KeyboardInterrupt):
        made.run()
    assert made.close.points
    assert made.plain.points
    assert made.close.merger.result().runs

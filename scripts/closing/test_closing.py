# SPDX-License-Identifier: Apache-2.0
"""The policy of `nf close` on a made-up design, whose bins need rare choices to come together."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts.closing import curve, loop
from scripts.closing.curve import Line
from scripts.closing.loop import PLAIN_SEED, Closing, Limits
from scripts.closing.policy import Goal, Policy
from scripts.common.records import BuildSpec, FailureKind, RunRecord, RunSpec
from scripts.conftest import RECORD
from verif.coverage.cover_model import FUNCTIONAL

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
GOALS = [Goal(("cross", name), 10, "test_scenario::mixed") for name in CROSS]
SPEC = RunSpec(BuildSpec("icarus", "top", "top.f"), "verif.tests.test_scenario", ("mixed",))


def simulate(spec: RunSpec) -> RunRecord:
    """60 operations; mode and size are drawn once a run, as a scenario draws its regions."""
    rng = random.Random(spec.seed)
    given = json.loads(dict(spec.env).get("NF_WEIGHTS", "{}"))

    def draw(knob: str) -> str:
        weights = {**KNOBS[knob], **given.get(knob, {})}
        return str(rng.choices(list(weights), list(weights.values()))[0])

    regions = [(draw("mode"), draw("size")) for _ in range(2)]
    hits = Counter(f"{' x '.join(rng.choice(regions))} x {draw('event')}" for _ in range(60))
    return replace(
        RECORD, id=spec.id, seed=spec.seed, cycles=1000, metrics={FUNCTIONAL: {"cross": hits}}
    )


def execute(specs: Sequence[RunSpec]) -> list[RunRecord]:
    return [simulate(spec) for spec in specs]


def closing(seed: int, limits: Limits, run: object = execute) -> Closing:
    rng = random.Random(seed)
    made = Closing(
        GOALS,
        lambda progress: Policy(progress, KNOBS, {"test_scenario::mixed": True}, rng),
        {"test_scenario::mixed": SPEC},
        run,  # type: ignore[arg-type]
        limits,
    )
    made.run()
    return made


@pytest.mark.parametrize("seed", [1, 2])
def test_takes_a_third_of_the_cycles_of_plain_seeds(seed: int) -> None:
    found = closing(seed, Limits(runs=150, patience=100, plain=8))
    ours, plain = found.close.line(), found.plain.line()
    assert ours.bins >= 55
    ratio = curve.ratio(ours, plain)
    assert ratio is not None
    assert ratio.value >= 3, str(ratio)


def test_stops_when_nothing_improves() -> None:
    def nothing(specs: Sequence[RunSpec]) -> list[RunRecord]:
        return [replace(simulate(spec), metrics={}) for spec in specs]

    found = closing(1, Limits(runs=500, patience=7, plain=0), nothing)
    assert found.close.runs == 7
    assert found.close.line().bins == 0
    assert curve.ratio(found.close.line(), found.plain.line()) is None


def test_red_runs_count_for_nothing() -> None:
    def red(specs: Sequence[RunSpec]) -> list[RunRecord]:
        return [replace(simulate(spec), passed=False, kind=FailureKind.MISMATCH) for spec in specs]

    found = closing(1, Limits(runs=5, plain=1), red)
    assert (len(found.close.red), found.close.progress.cycles) == (5, 0)


def test_plain_seeds_that_are_all_red_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def half(specs: Sequence[RunSpec]) -> list[RunRecord]:
        green = [simulate(spec) for spec in specs]
        if specs[0].seed < PLAIN_SEED:
            return green
        return [replace(run, passed=False, kind=FailureKind.MISMATCH) for run in green]

    clock = itertools.count()
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    found = closing(1, Limits(runs=5, plain=1), half)
    assert found.close.points
    assert 0 < len(found.plain.red) < 200


def test_ratio_of_plain_seeds_that_never_came_so_far() -> None:
    ours = Line("close", ((100, 3), (200, 9)))
    plain = Line("plain", ((100, 2), (500, 3), (900, 3)))
    assert str(curve.ratio(ours, plain)) == (
        "at least 4.5 times fewer cycles for 9 bins: nf close took 200, plain random seeds did not "
        "come there in 900"
    )
    same = curve.same_bins(ours, plain)
    assert same is not None
    assert (same.bins, same.closed, same.plain) == (3, 100, 500)


def test_page_is_offline_and_escaped(tmp_path: Path) -> None:
    lines = [Line("<close>", ((100, 3),)), Line("plain", ((100, 2),))]
    left = [curve.OpenBin("p", "<b>", 0, 10, "test_x::y")]
    text = curve.page(lines, ["1 & 2"], 9, left)
    assert "<b>&lt;b&gt;" not in text
    assert "&lt;close&gt;" in text
    assert "http" not in text.replace("http-equiv", "")

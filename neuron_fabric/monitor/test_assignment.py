# SPDX-License-Identifier: Apache-2.0
"""Laws of the assignment of routes while training, each with a twin that must fail."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neuron_fabric import bits
from neuron_fabric.codec import Route
from neuron_fabric.monitor import Controller, StepReport, states
from neuron_fabric.monitor import log as monitor_log
from neuron_fabric.monitor.bench import LocalGroup, small_profile, small_region
from neuron_fabric.monitor.job_plan import plan_of
from neuron_fabric.monitor.log import replay
from neuron_fabric.monitor.test_controller import WORLD, ranks
from neuron_fabric.monitor.test_monitor_log import checked_kinds
from neuron_fabric.profile.profile_types import FULL, Assign, PhaseRoute, Rule

SIZES = {"a": 9000, "b": 7000, "c": 5000, "d": 3000}
CODES = {"warmup": FULL, "steady": PhaseRoute(Route.G_INT8, feedback=True)}
RULE = Rule(routes=(Route.G_INT4, Route.G_INT8), assign=Assign(budget=0.5, every=20))
REGIONS = [small_region(name, size, phases=CODES) for name, size in SIZES.items()]
PROFILE = replace(small_profile(REGIONS), rule=RULE)
PLAN = plan_of(PROFILE, warmup=6, world=8)
OURS: dict[str, Any] = {"profile": PROFILE, "plan": PLAN}
INT8_BITS = 24
"""Bits of an element, sent and received."""


def report(one: Controller, step: int, rank: int = 0, bad: str = "") -> StepReport:
    """Return a report with drawn errors, which differ by rank and step; region ``bad`` fails."""
    draw = np.random.default_rng((step, rank))
    errors = {
        name: {"G_INT4": 0.1 * draw.lognormal(), "G_INT8": 3e-4 * draw.lognormal()}
        for name in SIZES
    }
    cosines = {name: (0.0 if name == bad else 0.9, 1.0, 1.0) for name in one.samples()}
    return StepReport(step, cosines=cosines, errors=errors if one.errors() else {})


def trained(
    steps: int, one: Controller | None = None, first: int = 0, bad: str = ""
) -> Iterator[dict[str, str]]:
    """Train one rank from step ``first`` on; yield the routes of each step."""
    one = one or Controller(PROFILE, LocalGroup(1).rank(0), plan=PLAN)
    for step in range(first, steps):
        yield {name: how.route.value for name, how in one.routes().items()}
        one.step_end(report(one, step, bad=bad))
    one.routes()


def test_all_ranks_decide_alike_over_a_thousand_steps(tmp_path: Path) -> None:
    """Check that ranks with different errors have the same routes in every step.

    The log holds the assignments, fits its schema, and is replayed with the same decisions.
    """
    seen: dict[int, list[dict[str, PhaseRoute]]] = {rank: [] for rank in range(WORLD)}

    def noted(one: Controller, step: int, rank: int) -> StepReport:
        seen[rank].append(one.routes())
        return report(one, step, rank)

    controllers, ends = ranks(1000, report=noted, folder=tmp_path, **OURS)
    assert ends == [""] * WORLD
    assert seen[0] == seen[1] == seen[2]
    assert len({str(one) for one in seen[0]}) > 5
    made = controllers[0].decisions
    assert made == controllers[2].decisions
    assert {one.signal for one in made if one.source.startswith("G_")} == {"error"}
    assert "assignment" in checked_kinds(tmp_path)
    [segment], left_out = monitor_log.read(tmp_path / monitor_log.NAME)
    assert not left_out
    assert replay(segment).differs is None


def test_a_rank_with_other_routes_is_found() -> None:
    """Twin: a rank whose routes differ after an assignment ends the training."""

    def other_routes(one: Controller) -> None:
        regions = tuple(replace(each, route="FP32") for each in one.state.regions)
        one._state = replace(one.state, regions=regions)

    _, ends = ranks(20, other_routes, report, at=6, **OURS)
    assert all("states of the ranks differ since step 5: rank 1 " in end for end in ends)


def costs(folder: Path) -> list[tuple[float, float, int]]:
    """Train 300 steps; return error, bound and bytes of each assignment in the log."""
    one = Controller(PROFILE, LocalGroup(1).rank(0), plan=PLAN, folder=folder)
    list(trained(300, one))
    one.close()
    lines = map(json.loads, (folder / monitor_log.NAME).read_text("utf-8").splitlines())
    made = [each for each in lines if each["kind"] == "assignment"]
    assert len(made) > 10
    return [(each["error"], each["limit"], each["bytes"]) for each in made]


def test_assignments_keep_the_budget_and_save_bytes(tmp_path: Path) -> None:
    most = sum(SIZES.values()) * INT8_BITS / 8
    for error, limit, sent in costs(tmp_path):
        assert error <= limit
        assert most / 2 <= sent < most  # between G_INT4 everywhere and the profile's routes


def test_the_cheapest_routes_exceed_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twin: routes that are chosen by cost alone."""

    def cheapest(layers: list[bits.Layer], _: float) -> bits.Assignment:
        return {one.name: min(one.options, key=lambda o: one.options[o].cost) for one in layers}

    monkeypatch.setattr(states, "lgreco", cheapest)
    assert any(error > limit for error, limit, _ in costs(tmp_path))


def test_a_region_below_its_floor_returns_to_fp32() -> None:
    """Check that the monitor demotes a region whose assigned route fails, and the others stay."""
    one = Controller(PROFILE, LocalGroup(1).rank(0), plan=PLAN)
    list(trained(90, one))
    assert one.state.regions[3].route == "G_INT4"
    last = list(trained(110, one, 90, bad="d"))[-1]
    assert last["d"] == "FP32" != last["b"]
    assert one.state.regions[3].status == states.Status.DEMOTED


@pytest.mark.parametrize("kept", [True, False], ids=["resumed", "twin: without its routes"])
def test_a_checkpoint_continues_with_the_routes(kept: bool) -> None:
    whole = list(trained(120))
    first = Controller(PROFILE, LocalGroup(1).rank(0), plan=PLAN)
    list(trained(30, first))
    values = json.loads(json.dumps(first.state_dict()))
    assert any(one["route"] == "G_INT4" for one in values["state"]["regions"])
    if not kept:
        for one in values["state"]["regions"]:
            one["route"] = ""
    second = Controller(PROFILE, LocalGroup(1).rank(0), plan=PLAN)
    second.load_state_dict(values)
    assert (list(trained(120, second, 30)) == whole[30:]) is kept


def test_feedback_is_that_of_the_profile() -> None:
    one = Controller(PROFILE, LocalGroup(1).rank(0), plan=PLAN)
    list(trained(20, one))
    how = next(how for how in one.routes().values() if how.route == Route.G_INT4)
    assert how.feedback
    assert one.shadows()["a"].route == one.routes()["a"].route


def test_no_errors_are_measured_without_a_budget() -> None:
    for rule in (replace(RULE, assign=None), replace(RULE, assign=Assign(every=0))):
        plan = plan_of(replace(PROFILE, rule=rule), warmup=6)
        one = Controller(PROFILE, LocalGroup(1).rank(0), plan=plan)
        assert {seen["a"] for seen in trained(60, one)} == {"FP32", "G_INT8"}
        assert not plan.candidates
    off = plan_of(replace(PROFILE, monitor={"off": ["error"]}), warmup=6)
    assert not off.candidates

# SPDX-License-Identifier: Apache-2.0
"""The controller on several ranks: threads, each with its own state."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neuron_fabric.capacity.cost_model import low_seconds
from neuron_fabric.capacity.substrate import shipped
from neuron_fabric.codec import Route
from neuron_fabric.errors import MonitorError
from neuron_fabric.monitor import Controller, ReducerCounters, StepReport
from neuron_fabric.monitor import log as monitor_log
from neuron_fabric.monitor.bench import LocalGroup, SmallProfile, SmallRegion
from neuron_fabric.monitor.consensus import (
    Codec,
    agreed,
    both_ends,
    field_names,
    least_of,
    others,
)
from neuron_fabric.monitor.job_plan import Limits, costs_of, plan_of
from neuron_fabric.monitor.states import Decision

PROFILE = SmallProfile((SmallRegion("head", 900), SmallRegion("body", 5000)))
PLAN = plan_of(PROFILE, warmup=6)
WORLD = 3
Change = Callable[[int, Controller, int], None]


def seen(rank: int, step: int, samples: frozenset[str], **values: Any) -> StepReport:
    """Rank ``rank``'s own loss, and cosines that all ranks have."""
    return StepReport(
        step,
        losses=2.0 + 0.01 * rank + 0.001 * (step % 7),
        cosines=dict.fromkeys(samples, (0.6, 1.0, 1.0)),
        norms={name: (1.0, 1.0 if name in samples else None) for name in ("head", "body")},
        agreements={"head": 0.04 - 0.01 * rank},
        **values,
    )


def ranks(
    steps: int, change: Change = lambda *_: None, folder: Path | None = None
) -> tuple[list[Controller], list[str]]:
    """Run ``steps`` steps on all ranks; their controllers, and what ended each of them."""
    group, ends = LocalGroup(WORLD), [""] * WORLD
    made = [
        Controller(PROFILE, group.rank(n), rank=n, world=WORLD, folder=folder, plan=PLAN)
        for n in range(WORLD)
    ]

    def work(rank: int) -> None:
        one = made[rank]
        try:
            for step in range(steps):
                change(rank, one, step)
                one.routes()
                one.step_end(seen(rank, step, one.samples()))
            one.routes()
        except MonitorError as error:
            ends[rank] = str(error)

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(WORLD)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return made, ends


def test_all_ranks_take_the_same_routes(tmp_path: Path) -> None:
    made, ends = ranks(40, folder=tmp_path)
    assert ends == [""] * WORLD
    assert len({one.digest for one in made}) == 1
    assert made[0].decisions == made[2].decisions != []
    assert {name: one.route for name, one in made[1].routes().items()} == {
        "head": "G_BINARY",
        "body": "G_BINARY",
    }
    [log] = tmp_path.iterdir()  # rank 0 alone writes
    [segment], left_out = monitor_log.read(log)
    assert not left_out
    at = segment.run.fields.index("head.agreement")
    value, worker = least_of(segment.steps[3].vector[at])
    assert (round(value or 0.0, 6), worker) == (0.02, 2)
    assert segment.steps[3].loss == pytest.approx(2.01 + 0.003, abs=1e-5)  # the ranks' mean


def other_window(rank: int, one: Controller, step: int) -> None:
    if rank == 1 and step == 5:
        signals = one.state.signals
        recent = (*signals.loss.recent[:-1], 9.0)
        one._state = replace(
            one.state, signals=replace(signals, loss=replace(signals.loss, recent=recent))
        )


def other_profile(rank: int, one: Controller, step: int) -> None:
    if rank == 1 and step == 5:
        one.plan = replace(one.plan, limits=Limits(drop=0.31))
        one._plan_digest += 1  # as it would have been made from the start


def other_state(rank: int, one: Controller, step: int) -> None:
    if rank == 1 and step == 5:
        one._state = replace(one.state, until=77)


@pytest.mark.parametrize("change", [other_window, other_profile, other_state])
def test_a_rank_that_differs_ends_all_within_two_steps(change: Change) -> None:
    made, ends = ranks(20, change)
    assert len(set(ends)) == 1
    assert "step 5: states of the ranks differ since step 4: rank 1 against the others" in ends[0]
    assert "give all ranks one profile" in ends[0]
    assert all(one._state.step <= 6 for one in made)


def test_without_the_digest_it_would_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: what another window does shows nowhere else for a long time."""
    monkeypatch.setattr("neuron_fabric.monitor.controller.agreed", lambda ends: True)
    made, ends = ranks(20, other_window)
    assert ends == [""] * WORLD
    assert len({one.digest for one in made}) == 2


def test_who_differs() -> None:
    assert agreed(both_ends(7))
    assert not agreed(np.maximum(both_ends(7), both_ends(8)))
    assert others([5, 5, 6, 5]) == (2,)
    assert others([5, 6]) == (0, 1)  # of two nobody knows


def test_resumed_is_as_if_never_interrupted(tmp_path: Path) -> None:
    def train(first: int, last: int, saved: Mapping[str, Any] | None) -> Controller:
        one = Controller(PROFILE, LocalGroup(1).rank(0), folder=tmp_path, plan=PLAN)
        if saved:
            one.load_state_dict(saved)
        for step in range(first, last):
            bad = {"nonfinite": 1} if 62 < step < 70 else {}
            one.step_end(seen(0, step, one.samples(), **bad))
        return one

    whole = train(0, 200, None)
    cut = train(0, 64, None)
    resumed = train(64, 200, cut.state_dict())
    assert resumed.digest == whole.digest
    assert cut.decisions + resumed.decisions == whole.decisions
    assert any(one.target == "FALLBACK" for one in resumed.decisions)


def test_a_checkpoint_is_of_any_world() -> None:
    one = Controller(PROFILE, LocalGroup(1).rank(0), plan=PLAN)
    one.step_end(seen(0, 0, frozenset()))
    other = Controller(PROFILE, LocalGroup(2).rank(1), rank=1, world=2, plan=PLAN)
    other.load_state_dict(one.state_dict())
    assert other.state == one.state


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "of version 2"),
        ({"plan": 1}, "of another profile"),
        ({"state": {"mode": "HAPPY"}}, "state.mode: 'HAPPY' is not one of"),
        ({"state": 3}, "is not an object"),
    ],
)
def test_a_bad_checkpoint_is_one_line(change: dict[str, Any], words: str) -> None:
    one = Controller(PROFILE, LocalGroup(1).rank(0), plan=PLAN)
    values = one.state_dict()
    state = change.pop("state", None)
    if isinstance(state, dict):
        state = {**values["state"], **state}
    values |= change | ({"state": state} if state else {})
    with pytest.raises(MonitorError) as caught:
        one.load_state_dict(values)
    assert words in str(caught.value)


def test_steps_follow_each_other() -> None:
    one = Controller(PROFILE, LocalGroup(1).rank(0), plan=PLAN)
    with pytest.raises(ValueError, match="step 3 after step -1"):
        one.step_end(StepReport(3))
    for rank, world in ((1, 1), (-1, 2), (0, 1 << 15)):
        with pytest.raises(ValueError, match="ranks"):
            Controller(PROFILE, LocalGroup(1).rank(0), rank=rank, world=world, plan=PLAN)


def test_a_mismatch_ends_the_run(tmp_path: Path) -> None:
    one = Controller(PROFILE, LocalGroup(1).rank(0), folder=tmp_path, plan=PLAN)
    one.step_end(seen(0, 0, frozenset(), reducer=ReducerCounters(mismatch=1)))
    with pytest.raises(MonitorError, match="step 0: lines of the reducer differ from the shadow"):
        one.routes()
    [segment], _ = monitor_log.read(tmp_path / monitor_log.NAME)
    assert "shadow check" in str(segment.end)


def test_the_last_step_is_in_the_log(tmp_path: Path) -> None:
    one = Controller(PROFILE, LocalGroup(1).rank(0), folder=tmp_path, plan=PLAN)
    for step in range(3):
        one.step_end(seen(0, step, frozenset()))
    one.close()
    [segment], _ = monitor_log.read(tmp_path / monitor_log.NAME)
    assert [each.step for each in segment.steps] == [0, 1, 2]
    assert segment.end == "closed"


def test_losses_that_are_none() -> None:
    """NaN and infinity count as non-finite; a step without `observe` as nothing."""
    one = Controller(PROFILE, LocalGroup(1).rank(0), plan=PLAN)
    for step, loss in enumerate((float("nan"), float("inf"), None, 1.5)):
        one.step_end(StepReport(step, losses=loss))
    assert one.state.signals.loss.recent == (1.5,)
    assert one.state.signals.nonfinite.steps == (0, 1)


def test_a_world_of_one_has_no_margin() -> None:
    one = Controller(PROFILE, LocalGroup(1).rank(0), plan=PLAN)
    one.step_end(StepReport(0, margins={"head": (900, 900)}))
    assert one.state.regions[0].signals.margin.value == 0


def test_ten_regions_are_less_than_64_numbers() -> None:
    wide = SmallProfile(tuple(SmallRegion(f"r{n}", 1000) for n in range(10)))
    codec = Codec(plan_of(wide), 4, 0)
    assert codec.lengths == (59, 69)
    assert len(field_names(plan_of(wide))) == 69
    assert len(codec.least(StepReport(0))) == 10  # beside the digest


def test_the_device_rejects_and_admits_again() -> None:
    """FALLBACK of the device: FP32 from the next step, for 200 steps, then doubled."""
    one = Controller(PROFILE, LocalGroup(1).rank(0), plan=PLAN)
    for step in range(700):
        hit = ReducerCounters(fallback=step in (50, 300))
        one.step_end(seen(0, step, one.samples(), reducer=hit))
        if step == 50:
            assert {each.route for each in one.routes().values()} == {"FP32"}
    one.routes()
    head = [(each.step, each.target) for each in one.decisions if each.region == "head"]
    assert head[1:] == [(50, "rejected"), (250, "admitted"), (300, "rejected")]  # till 700


def test_a_device_that_does_not_pay_is_rejected_at_the_end_of_the_warmup() -> None:
    """And admitted again when the network gets slower: 8 steps later, and not at the next 200."""
    known = shipped().coefficients
    costs = costs_of(PROFILE, known, 8)
    assert costs["body"].seconds == low_seconds(known, Route.G_BINARY, 5000, 8).total
    plan = plan_of(PROFILE, warmup=6, costs=costs)
    one = Controller(PROFILE, LocalGroup(1).rank(0), plan=plan)
    for step in range(450):
        link = {"link_latency": 0.0, "link_mib": 1e-5 if step < 300 else 1e-2}
        one.step_end(seen(0, step, one.samples(), seconds=link))
    one.routes()
    body = [(each.step, each.target) for each in one.decisions if each.region == "body"]
    assert body == [(5, "LOW"), (5, "rejected"), (307, "admitted")]
    assert targets(one.decisions) == ["PARTIAL", "LOWBIT"]


def test_recovery_uses_its_own_routes() -> None:
    one = Controller(PROFILE, LocalGroup(1).rank(0), plan=PLAN)
    used: dict[int, str] = {}
    for step in range(200):
        used[step] = str(one.routes()["body"].route)
        lost = ReducerCounters(lost=int(step == 30))
        one.step_end(seen(0, step, one.samples(), reducer=lost))
    order = list(dict.fromkeys(used.values()))
    assert order == ["FP32", "G_BINARY", "G_TERNARY"]
    assert used[30] == "G_BINARY"
    assert {used[step] for step in range(31, 81)} == {"FP32"}  # the cool-down
    assert used[199] == "G_BINARY"
    assert targets(one.decisions) == ["LOWBIT", "FALLBACK", "RECOVERY", "LOWBIT"]


def targets(decisions: list[Decision]) -> list[str]:
    return [one.target for one in decisions if not one.region]

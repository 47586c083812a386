# SPDX-License-Identifier: Apache-2.0
"""Tests of the controller: agreement of ranks, checkpoints, and the exact steps of transitions.

`ranks` runs several ranks as threads; `trained` runs one rank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neuron_fabric.capacity.cost_model import low_seconds
from neuron_fabric.capacity.profile_costs import Cost, costs_of, measured_costs
from neuron_fabric.capacity.substrate import shipped
from neuron_fabric.codec import Route
from neuron_fabric.errors import MonitorError
from neuron_fabric.monitor import Controller, ReducerCounters, StepReport
from neuron_fabric.monitor import log as monitor_log
from neuron_fabric.monitor.bench import LocalGroup, small_profile, small_region
from neuron_fabric.monitor.consensus import (
    Codec,
    agreed,
    both_ends,
    field_names,
    least_of,
    minority_ranks,
)
from neuron_fabric.monitor.job_plan import plan_of
from neuron_fabric.monitor.log import replay
from neuron_fabric.monitor.signals import Reason, random_margin, region_reading
from neuron_fabric.monitor.thresholds import Thresholds, on_grid
from neuron_fabric.profile.draft_profile import DROP
from neuron_fabric.profile.profile_types import FULL, Floor, PhaseRoute, Rule

SIZES = {"head": 900, "body": 5000, "tail": 2000}
PROFILE = small_profile([small_region(name, size) for name, size in SIZES.items()])
PLAN = plan_of(PROFILE, warmup=6)
JUDGED = replace(
    PLAN, regions=tuple(replace(one, cost=Cost(1e-3, 1 << 20)) for one in PLAN.regions)
)
"""The plan with a modelled cost of each region."""
WORLD = 3
Change = Callable[[Controller], None]
Report = Callable[[Controller, int, int], StepReport]
Words = Callable[[Controller, int], Mapping[str, Any]]


def single(**given: Any) -> Controller:
    """Return the controller of a training with one rank."""
    return Controller(PROFILE, LocalGroup(1).rank(0), **{"plan": PLAN, **given})


def trained(
    steps: int, words: Words, one: Controller | None = None, first: int = 0, **made: Any
) -> Controller:
    """Run steps ``first`` to ``steps`` - 1 of one rank; return its controller.

    All measurements are good, except for the fields of the report that ``words(controller, step)``
    gives.

    Args:
        steps: End of the steps.
        words: See above.
        one: Controller to continue with; None for a new one.
        first: First step.
        made: Arguments of a new controller.
    """
    one = one or single(**made)
    for step in range(first, steps):
        cosines = dict.fromkeys(one.samples(), (0.6, 1.0, 1.0))
        changed = dict(words(one, step))
        cosines |= {name: both for name, both in changed.pop("cosines", {}).items() if both}
        one.step_end(StepReport(step, cosines=cosines, **changed))
    one.routes()
    return one


def of(one: Controller, region: str) -> list[tuple[int, str]]:
    """Return (step, target) of all decisions on a region, or on the job ("")."""
    return [(each.step, each.target) for each in one.decisions if each.region == region]


def targets(one: Controller) -> list[str]:
    """Return the states that the job entered, in order."""
    return [target for _, target in of(one, "")]


def small_auto(host: float, cosine: float) -> tuple[Controller, set[str]]:
    """Train 150 steps by a profile as "auto" drafts; return the controller and the routes used.

    Args:
        host: Measured time of the host's work for a MiB; that of the network is 10 ms.
        cosine: Sampled cosine of each region.
    """
    low = {"warmup": FULL, "steady": PhaseRoute(Route.G_INT8)}
    regions = [small_region(name, size, phases=low) for name, size in SIZES.items()]
    profile = replace(small_profile(regions), rule=Rule(drop=DROP))
    costs = measured_costs(profile, 8)
    plan = plan_of(profile, warmup=20, unverified=True, costs=costs)
    used: set[str] = set()

    def words(one: Controller, _: int) -> Mapping[str, Any]:
        used.update(str(how.route) for how in one.routes().values())
        sampled = dict.fromkeys(one.samples(), (cosine, 1.0, 1.0))
        seconds = {"link_latency": 0.0, "link_mib": 1e-2, "host_mib": host}
        return {"seconds": seconds, "cosines": sampled}

    one = Controller(profile, LocalGroup(1).rank(0), plan=plan)
    return trained(150, words, one), used


def test_auto_admits_at_the_floor_of_the_rule() -> None:
    limits = plan_of(replace(small_profile([]), rule=Rule(drop=DROP))).limits
    assert on_grid(limits.good) == on_grid(Floor().other)


@pytest.mark.parametrize(
    ("host", "cosine", "low"),
    [
        (0.0, 0.80, True),
        (0.0, 0.799, False),
        (0.0, 0.2, False),
        (3.9e-3, 0.99, True),
        (4.4e-3, 0.99, False),
        (1.0, 0.99, False),
    ],
)
def test_auto_admits_by_cosine_and_time(host: float, cosine: float, low: bool) -> None:
    """Check both limits of "auto": a cosine of 0.80, and T_low of 80 % of T_fp32.

    The codes take 37.5 to 40 % of the bytes, so the host may take 40 % of the network's 10 ms.
    """
    one, used = small_auto(host, cosine)
    assert ("G_INT8" in used) is low
    assert (targets(one)[-1] == "LOWBIT") is low


def lost_once(one: Controller, step: int) -> Mapping[str, Any]:
    """Return report fields that lose a bucket in step 30, for `trained`."""
    return {"reducer": ReducerCounters(lost=int(step == 30))}


def network(mib: float) -> Mapping[str, Any]:
    """Return report fields of a network that takes ``mib`` seconds per MiB, for `trained`."""
    return {"seconds": {"link_latency": 0.0, "link_mib": mib}}


def plain(one: Controller, step: int, rank: int) -> StepReport:
    """Return a report of good measurements, which differ by rank."""
    cosines = dict.fromkeys(one.samples(), (0.6, 1.0, 1.0))
    loss, agreements = 2.0 + 0.01 * rank + 0.001 * (step % 7), {"head": 0.04 - 0.01 * rank}
    return StepReport(step, loss, cosines=cosines, agreements=agreements)


def ranks(
    steps: int, change: Change = lambda _: None, report: Report = plain, at: int = 5, **given: Any
) -> tuple[list[Controller], list[str]]:
    """Run the controllers of WORLD ranks, a thread each, and return them with their errors.

    Args:
        steps: Number of training steps; a rank stops at its first MonitorError.
        change: Called with the controller of rank 1 before step ``at`` (the first step is 0), to
            make it differ from the others.
        report: Makes the report of a rank in a step.
        at: Step of the change.
        given: Arguments of the controllers.

    Returns:
        The controllers, and the message of each rank's MonitorError, "" for none.
    """
    group, given = LocalGroup(WORLD), {"profile": PROFILE, "plan": PLAN, **given}
    made = [
        Controller(all_reduce=group.rank(n), rank=n, world=WORLD, **given) for n in range(WORLD)
    ]

    def work(rank: int) -> str:
        one = made[rank]
        try:
            for step in range(steps):
                if rank == 1 and step == at:
                    change(one)
                    one.routes()
                one.step_end(report(one, step, rank))
            one.close()
        except MonitorError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(WORLD) as pool:
        return made, list(pool.map(work, range(WORLD)))


def test_all_ranks_take_the_same_routes(tmp_path: Path) -> None:
    made, ends = ranks(40, folder=tmp_path)
    assert ends == [""] * WORLD
    assert len({one.digest for one in made}) == 1
    assert made[0].decisions == made[2].decisions != []
    assert {one.route for one in made[1].routes().values()} == {"G_BINARY"}
    [log] = tmp_path.iterdir()  # rank 0 alone writes
    [segment], left_out = monitor_log.read(log)
    assert not left_out
    at = segment.run.fields.index("head.agreement")
    value, worker = least_of(segment.steps[3].vector[at])
    assert (round(value or 0.0, 6), worker) == (0.02, 2)
    assert segment.steps[3].loss == pytest.approx(2.01 + 0.003, abs=1e-5)  # the ranks' mean


def other_window(one: Controller) -> None:
    signals = one.state.signals
    loss = replace(signals.loss, recent=(*signals.loss.recent[:-1], 9.0))
    one._state = replace(one.state, signals=replace(signals, loss=loss))


def other_profile(one: Controller) -> None:
    one.plan = replace(one.plan, limits=Thresholds(drop=0.31))
    one._plan_digest += 1  # as it would have been made from the start


def other_state(one: Controller) -> None:
    one._state = replace(one.state, until=77)


@pytest.mark.parametrize("change", [other_window, other_profile, other_state])
def test_a_rank_that_differs_ends_all_within_two_steps(change: Change) -> None:
    made, ends = ranks(20, change)
    assert len(set(ends)) == 1
    assert "step 5: states of the ranks differ since step 4: rank 1 against the others" in ends[0]
    assert "give all ranks one profile" in ends[0]
    assert all(one._state.step <= 6 for one in made)


def test_without_the_digest_it_would_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a rank with another state stays undetected without the digest (negative twin)."""
    monkeypatch.setattr("neuron_fabric.monitor.controller.agreed", lambda ends: True)
    made, ends = ranks(20, other_window)
    assert ends == [""] * WORLD
    assert len({one.digest for one in made}) == 2


def test_who_differs() -> None:
    assert agreed(both_ends(7))
    assert not agreed(np.maximum(both_ends(7), both_ends(8)))
    assert minority_ranks([5, 5, 6, 5]) == (2,)
    assert minority_ranks([5, 6]) == (0, 1)  # of two nobody knows


def test_resumed_is_as_if_never_interrupted() -> None:
    def bad(one: Controller, step: int) -> Mapping[str, Any]:
        return {"nonfinite": int(62 < step < 70)}

    whole, cut = trained(200, bad), trained(64, bad)
    resumed = single()
    resumed.load_state_dict(cut.state_dict())
    trained(200, bad, resumed, 64)
    assert resumed.digest == whole.digest
    assert cut.decisions + resumed.decisions == whole.decisions
    assert any(one.target == "FALLBACK" for one in resumed.decisions)


def test_a_checkpoint_is_of_any_world() -> None:
    one = trained(1, lambda one, step: {})
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
    one = single()
    values = one.state_dict()
    if isinstance(state := change.get("state"), dict):
        change = {"state": {**values["state"], **state}}
    with pytest.raises(MonitorError, match=words):
        one.load_state_dict({**values, **change})


def test_steps_follow_each_other() -> None:
    one = single()
    with pytest.raises(ValueError, match="step 3 after step -1"):
        one.step_end(StepReport(3))
    for rank, world in ((1, 1), (-1, 2), (0, 1 << 15)):
        with pytest.raises(ValueError, match="ranks"):
            Controller(PROFILE, LocalGroup(1).rank(0), rank=rank, world=world, plan=PLAN)


def test_a_mismatch_ends_the_run(tmp_path: Path) -> None:
    one = single(folder=tmp_path)
    one.step_end(StepReport(0, reducer=ReducerCounters(mismatch=1)))
    with pytest.raises(MonitorError, match="step 0: lines of the reducer differ from the shadow"):
        one.routes()
    [segment], _ = monitor_log.read(tmp_path / monitor_log.NAME)
    assert "shadow check" in str(segment.end)


def test_losses_that_are_none() -> None:
    """Check that NaN and infinity count as non-finite, and a step without `observe` as nothing."""
    one = single()
    for step, loss in enumerate((float("nan"), float("inf"), None, 1.5)):
        one.step_end(StepReport(step, losses=loss))
    assert one.state.signals.loss.recent == (1.5,)
    assert one.state.signals.nonfinite.steps == (0, 1)


def test_a_world_of_one_has_no_margin() -> None:
    one = single()
    one.step_end(StepReport(0, margins={"head": (900, 900)}))
    assert one.state.regions[0].signals.margin.value == 0


def test_ten_regions_are_less_than_64_numbers() -> None:
    wide = small_profile(tuple(small_region(f"r{n}", 1000) for n in range(10)))
    codec = Codec(plan_of(wide), 4, 0)
    assert codec.lengths == (59, 69)
    assert len(field_names(plan_of(wide))) == 69
    assert len(codec.least(StepReport(0))) == 10  # without the digest


def test_the_device_rejects_and_admits_again() -> None:
    """Check the FALLBACK bit of the device: FP32 from the next step for 200 steps, then 400."""

    def hit(one: Controller, step: int) -> Mapping[str, Any]:
        assert step != 51 or {each.route for each in one.routes().values()} == {"FP32"}
        return {"reducer": ReducerCounters(fallback=step in (50, 300))}

    head = of(trained(700, hit), "head")
    assert head[1:] == [(50, "rejected"), (250, "admitted"), (300, "rejected")]  # till 700


def test_a_device_that_does_not_pay_is_rejected_at_the_end_of_the_warmup() -> None:
    """Check that a region is rejected on a fast network, and admitted once the network is slow.

    It is admitted 8 steps after the change, not at step 400, the next regular judgement.
    """
    known = shipped().coefficients
    costs = costs_of(PROFILE, known, 8)
    assert costs["body"].seconds == low_seconds(known, Route.G_BINARY, 5000, 8).total
    plan = plan_of(PROFILE, warmup=6, costs=costs)
    one = trained(450, lambda _, step: network(1e-5 if step < 300 else 1e-2), plan=plan)
    assert of(one, "body") == [(5, "LOW"), (5, "rejected"), (307, "admitted")]
    assert targets(one) == ["PARTIAL", "LOWBIT"]


def test_recovery_uses_its_own_routes() -> None:
    used: dict[int, str] = {}

    def lost(one: Controller, step: int) -> Mapping[str, Any]:
        used[step] = str(one.routes()["body"].route)
        return lost_once(one, step)

    one = trained(200, lost)
    assert list(dict.fromkeys(used.values())) == ["FP32", "G_BINARY", "G_TERNARY"]
    assert used[30] == "G_BINARY"
    assert {used[step] for step in range(31, 81)} == {"FP32"}  # the cool-down
    assert used[199] == "G_BINARY"
    assert targets(one) == ["LOWBIT", "FALLBACK", "RECOVERY", "LOWBIT"]


def test_a_region_of_low_rank_is_whole_in_warmup_and_fallback() -> None:
    phases = {"warmup": FULL, "steady": replace(FULL, low_rank=4)}
    profile = small_profile([*PROFILE.regions, small_region("low", 3000, phases)])
    used: dict[int, PhaseRoute] = {}

    def lost(one: Controller, step: int) -> Mapping[str, Any]:
        used[step] = one.routes()["low"]
        return lost_once(one, step)

    plan = plan_of(profile, warmup=6)
    trained(200, lost, Controller(profile, LocalGroup(1).rank(0), plan=plan))
    assert [used[step].low_rank for step in (0, 5, 6, 30, 31, 80, 199)] == [0, 0, 4, 4, 0, 0, 4]


def test_fallbacks_double_and_the_fourth_is_for_good() -> None:
    one = trained(900, lambda one, step: {"reducer": ReducerCounters(lost=1)})
    assert of(one, "") == [
        (5, "LOWBIT"),
        (10, "FALLBACK"),
        (60, "RECOVERY"),
        (65, "FALLBACK"),
        (165, "RECOVERY"),
        (170, "FALLBACK"),
        (370, "RECOVERY"),
        (375, "LOCKED_FP32"),
    ]
    assert one.decisions[-1].step == 375


def test_demotions_double_and_the_fourth_is_for_good() -> None:
    """Check the cool-downs of a region whose cosine is bad whenever it is low-bit: 50, 100, 200.

    The fourth demotion locks it.
    """

    def bad(one: Controller, step: int) -> Mapping[str, Any]:
        low = one.routes()["head"].route == "G_BINARY" and "head" in one.samples()
        return {"cosines": {"head": (0.05, 1.0, 1.0) if low else None}}

    one = trained(900, bad)
    demoted = [step for step, target in of(one, "head") if target in ("DEMOTED", "LOCKED")]
    probed = [step for step, target in of(one, "head") if target == "PROBE"]
    assert [b - a for a, b in zip(demoted, probed, strict=False)] == [50, 100, 200]
    assert of(one, "head")[-1] == (demoted[3], "LOCKED")
    assert of(one, "body") == of(one, "tail") == [(5, "LOW")]


def test_recovery_takes_the_largest_region_first() -> None:
    """Check that after a fallback regions return one at a time, the largest first.

    Each is probed in FP32 until two samples are good.
    """
    used: dict[int, set[str]] = {}

    def lost(one: Controller, step: int) -> Mapping[str, Any]:
        used[step] = {name for name, how in one.routes().items() if how.route != "FP32"}
        return lost_once(one, step)

    one = trained(200, lost)
    assert of(one, "body") == [(5, "LOW"), (85, "PROBE"), (95, "LOW")]
    assert of(one, "tail") == [(5, "LOW"), (100, "PROBE"), (110, "LOW")]
    assert of(one, "head") == [(5, "LOW"), (115, "PROBE"), (125, "LOW")]
    assert used[95] == set()
    assert used[96] == {"body"}


def test_a_worker_against_the_others_keeps_a_region_out() -> None:
    """Check that a bad agreement of a worker keeps a region in FP32 although its cosine is good."""

    def flipped(one: Controller, step: int) -> Mapping[str, Any]:
        voted = one.routes()["body"].route != "FP32" or "body" in one.samples()
        return {"agreements": {"body": -0.2} if voted and step > 20 else {}}

    found = {}
    for off in ((), (Reason.AGREEMENT,)):
        plan = replace(PLAN, off=off)
        made = Controller(PROFILE, LocalGroup(2).rank(0), world=2, plan=plan)
        made._all_reduce = lambda values, op: lambda: values
        found[bool(off)] = of(trained(700, flipped, made), "body")
    assert found[True] == [(5, "LOW")]
    assert found[False][:2] == [(5, "LOW"), (24, "DEMOTED")]
    back = [target for _, target in found[False][1:]]
    assert "LOW" not in back
    assert back[-1] == "LOCKED"


def test_a_region_is_sampled_at_its_admission() -> None:
    due: dict[int, frozenset[str]] = {}

    def nothing(one: Controller, step: int) -> Mapping[str, Any]:
        due[step] = one.samples()
        return {}

    trained(60, nothing)
    assert due[6] == due[50] == set(SIZES)
    assert due[7] == due[49] == due[51] == set()


def test_devload_rejects_as_fallback_does() -> None:
    """Check that regions are rejected if over a tenth of a step's answers have DevLoad severe."""
    shares = {40: 9, 50: 11}

    def busy(_: Controller, step: int) -> Mapping[str, Any]:
        return {"reducer": ReducerCounters(answers=100, severe=shares.get(step, 0))}

    one = trained(260, busy)
    assert of(one, "head") == [(5, "LOW"), (50, "rejected"), (250, "admitted")]


def test_between_admit_and_drop_nothing_changes() -> None:
    """Check the hysteresis of T_low / T_fp32: 0.9 neither admits nor rejects a region."""
    ratios = {0: 0.5, 100: 0.9, 500: 0.96, 700: 0.9, 900: 0.79}

    def link(one: Controller, step: int) -> Mapping[str, Any]:
        return network(1e-3 / ratios[max(start for start in ratios if start <= step)])

    one = trained(1100, link, plan=JUDGED)
    assert of(one, "body") == [(5, "LOW"), (600, "rejected"), (1000, "admitted")]


@pytest.mark.parametrize(
    ("factor", "steps", "judged"), [(0.4, 8, 227), (0.4, 7, 400), (0.6, 99, 400), (2.5, 8, 227)]
)
def test_a_network_that_moves_is_judged_at_once(factor: float, steps: int, judged: int) -> None:
    """Check when capacity is judged: after 8 steps of a network more than twice as fast or slow.

    Otherwise it is judged every 200 steps.
    """
    seen: list[int] = []

    def link(one: Controller, step: int) -> Mapping[str, Any]:
        seen.append(one.state.judged)
        return network(1e-3 * (factor if 220 <= step < 220 + steps else 1.0))

    trained(402, link, plan=JUDGED)
    assert sorted(set(seen))[:4] == [-1, 5, 200, judged]


def test_the_clock_of_rank_0_alone_counts() -> None:
    codecs = [Codec(PLAN, 3, rank) for rank in range(3)]
    seconds = [{"link_latency": 1e-3 * 2**n, "link_mib": 0.5 + n} for n in range(3)]
    reports = [StepReport(0, seconds=one) for one in seconds]
    sums = np.sum([one.encode(of) for one, of in zip(codecs, reports, strict=True)], axis=0)
    got = codecs[2].decode(0, sums.tolist())
    assert got.link_latency == pytest.approx(1e-3, abs=1e-9)
    assert got.link_mib == 0.5


def test_random_signs_have_no_margin() -> None:
    elements = 100_000
    sums = round(8 * elements * random_margin(8)), elements
    found = region_reading(StepReport(0, margins={"a": sums}), "a", 8)
    assert found.margin == pytest.approx(0.0, abs=1e-4)


def test_a_resumed_run_is_replayed_from_its_state(tmp_path: Path) -> None:
    """Check that a run resumed from a checkpoint in a cool-down has equal decisions in a replay."""
    first = trained(60, lost_once, folder=tmp_path)
    kept = first.state_dict()
    first.close()
    second = single(folder=tmp_path)
    second.load_state_dict(kept)
    trained(200, lost_once, second, 60)
    second.close()
    segments, _ = monitor_log.read(tmp_path / monitor_log.NAME)
    assert segments[1].decisions
    assert replay(segments[1]).decisions == segments[1].decisions

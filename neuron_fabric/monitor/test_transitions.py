# SPDX-License-Identifier: Apache-2.0
"""When transitions come, to the step: cool-downs that double, locks, who comes back first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neuron_fabric.monitor import Controller, ReducerCounters, StepReport
from neuron_fabric.monitor import log as monitor_log
from neuron_fabric.monitor.bench import LocalGroup, small_profile, small_region
from neuron_fabric.monitor.consensus import Codec, random_margin, region_reading
from neuron_fabric.monitor.job_plan import Cost, Signal, plan_of
from neuron_fabric.monitor.log import replay

SIZES = {"head": 900, "body": 5000, "tail": 2000}
PROFILE = small_profile(tuple(small_region(name, size) for name, size in SIZES.items()))
PLAN = plan_of(PROFILE, warmup=6)
Words = Callable[[Controller, int], Mapping[str, Any]]


def trained(
    steps: int, words: Words, one: Controller | None = None, first: int = 0, **made: Any
) -> Controller:
    """One rank's controller after steps in which all is well but for ``words`` of the report."""
    one = one or Controller(PROFILE, LocalGroup(1).rank(0), plan=PLAN, **made)
    for step in range(first, steps):
        cosines = dict.fromkeys(one.samples(), (0.6, 1.0, 1.0))
        changed = dict(words(one, step))
        cosines |= {name: both for name, both in changed.pop("cosines", {}).items() if both}
        one.step_end(StepReport(step, cosines=cosines, **changed))
    one.routes()
    return one


def of(one: Controller, region: str) -> list[tuple[int, str]]:
    """Step and target of a region's decisions, or of the job's ("")."""
    return [(each.step, each.target) for each in one.decisions if each.region == region]


def test_fallbacks_double_and_the_fourth_is_for_good() -> None:
    one = trained(900, lambda one, step: {"reducer": ReducerCounters(lost=1)})
    assert of(one, "") == [
        *((5, "LOWBIT"), (10, "FALLBACK"), (60, "RECOVERY")),
        *((65, "FALLBACK"), (165, "RECOVERY"), (170, "FALLBACK")),
        *((370, "RECOVERY"), (375, "LOCKED_FP32")),
    ]
    assert one.decisions[-1].step == 375


def test_demotions_double_and_the_fourth_is_for_good() -> None:
    """The head's cosine is bad whenever its votes are used, and good beside FP32."""

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
    """One at a time, each after two good samples, for which FP32 is used."""
    used: dict[int, set[str]] = {}

    def lost_once(one: Controller, step: int) -> Mapping[str, Any]:
        low = {name for name, how in one.routes().items() if how.route != "FP32"}
        used[step] = low
        return {"reducer": ReducerCounters(lost=int(step == 30))}

    one = trained(200, lost_once)
    assert of(one, "body") == [(5, "LOW"), (85, "PROBE"), (95, "LOW")]
    assert of(one, "tail") == [(5, "LOW"), (100, "PROBE"), (110, "LOW")]
    assert of(one, "head") == [(5, "LOW"), (115, "PROBE"), (125, "LOW")]
    assert used[95] == set()
    assert used[96] == {"body"}


def test_a_worker_against_the_others_keeps_a_region_out() -> None:
    """Its cosine is good all the time: without the signal the body comes back in between."""

    def flipped(one: Controller, step: int) -> Mapping[str, Any]:
        voted = one.routes()["body"].route != "FP32" or "body" in one.samples()
        return {"agreements": {"body": -0.2} if voted and step > 20 else {}}

    found = {}
    for off in ((), (Signal.AGREEMENT,)):
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
    """More than a tenth of a step's answers."""

    def severe(one: Controller, step: int) -> Mapping[str, Any]:
        share = {40: 9, 50: 11}.get(step, 0)
        return {"reducer": ReducerCounters(answers=100, severe=share)}

    one = trained(260, severe)
    assert of(one, "head") == [(5, "LOW"), (50, "rejected"), (250, "admitted")]


def test_between_admit_and_drop_nothing_changes() -> None:
    """The network's MiB takes 1 ms; T_low by the step: a ratio of 0.9 changes neither."""
    ratios = {0: 0.5, 100: 0.9, 500: 0.96, 700: 0.9, 900: 0.79}
    plan = replace(
        PLAN, regions=tuple(replace(one, cost=Cost(1e-3, 1 << 20)) for one in PLAN.regions)
    )

    def link(one: Controller, step: int) -> Mapping[str, Any]:
        ratio = ratios[max(start for start in ratios if start <= step)]
        return {"seconds": {"link_latency": 0.0, "link_mib": 1e-3 / ratio}}

    one = trained(1100, link, Controller(PROFILE, LocalGroup(1).rank(0), plan=plan))
    assert of(one, "body") == [(5, "LOW"), (600, "rejected"), (1000, "admitted")]


@pytest.mark.parametrize(
    ("factor", "steps", "judged"), [(0.4, 8, 227), (0.4, 7, 400), (0.6, 99, 400), (2.5, 8, 227)]
)
def test_a_network_that_moves_is_judged_at_once(factor: float, steps: int, judged: int) -> None:
    """By more than twice, either way, 8 steps running; else at the next 200."""
    plan = replace(
        PLAN, regions=tuple(replace(one, cost=Cost(1e-3, 1 << 20)) for one in PLAN.regions)
    )
    seen: list[int] = []

    def link(one: Controller, step: int) -> Mapping[str, Any]:
        seen.append(one.state.judged)
        mib = 1e-3 * (factor if 220 <= step < 220 + steps else 1.0)
        return {"seconds": {"link_latency": 0.0, "link_mib": mib}}

    trained(402, link, Controller(PROFILE, LocalGroup(1).rank(0), plan=plan))
    assert sorted(set(seen))[:4] == [-1, 5, 200, judged]


def test_the_clock_of_rank_0_alone_counts() -> None:
    codecs = [Codec(PLAN, 3, rank) for rank in range(3)]
    summed = np.sum(
        [
            one.encode(StepReport(0, seconds={"link_latency": 1e-3 * 2**n, "link_mib": 0.5 + n}))
            for n, one in enumerate(codecs)
        ],
        axis=0,
    )
    got = codecs[2].decode(0, summed.tolist())
    assert got.link_latency == pytest.approx(1e-3, abs=1e-9)
    assert got.link_mib == 0.5


def test_random_signs_have_no_margin() -> None:
    elements = 100_000
    sums = round(8 * elements * random_margin(8)), elements
    found = region_reading(StepReport(0, margins={"a": sums}), "a", 8)
    assert found.margin == pytest.approx(0.0, abs=1e-4)


def test_a_resumed_run_is_replayed_from_its_state(tmp_path: Path) -> None:
    """Interrupted in the cool-down: what comes after it is told by the state alone."""

    def lost_once(one: Controller, step: int) -> Mapping[str, Any]:
        return {"reducer": ReducerCounters(lost=int(step == 30))}

    first = trained(60, lost_once, folder=tmp_path)
    kept = first.state_dict()
    first.close()
    second = Controller(PROFILE, LocalGroup(1).rank(0), plan=PLAN, folder=tmp_path)
    second.load_state_dict(kept)
    trained(200, lost_once, second, 60)
    second.close()
    segments, _ = monitor_log.read(tmp_path / monitor_log.NAME)
    assert segments[1].decisions
    assert replay(segments[1]).decisions == segments[1].decisions

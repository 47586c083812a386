# SPDX-License-Identifier: Apache-2.0
"""Tests of the laws of the monitor, each with a twin that violates it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neuron_fabric.capacity.profile_costs import Cost
from neuron_fabric.monitor import Controller, ReducerCounters, StepReport
from neuron_fabric.monitor import log as monitor_log
from neuron_fabric.monitor.bench import LocalGroup, small_profile, small_region
from neuron_fabric.monitor.consensus import Codec, digest_of, least_of
from neuron_fabric.monitor.job_plan import Plan, RegionPlan, plan_of
from neuron_fabric.monitor.log import replay
from neuron_fabric.monitor.signals import Gate, Reading
from neuron_fabric.monitor.states import (
    Decision,
    JobState,
    Mode,
    Status,
    advance,
    samples_due,
    start,
)
from neuron_fabric.monitor.thresholds import Thresholds

NAMES = ("head", "body", "tail")
LIMITS = Thresholds(cooldown=8, cooldown_most=64, band_count=5, lock_within=400, sample_every=10)
PLAN = Plan(
    tuple(
        RegionPlan(name, 1000 * (n + 1), n != 1, 0.2, 0.05, Cost(1e-3, 1 << 20))
        for n, name in enumerate(NAMES)
    ),
    warmup=10,
    limits=LIMITS,
)
PROFILE = small_profile(tuple(small_region(name, 1000 * (n + 1)) for n, name in enumerate(NAMES)))
QUICK = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
Walk = list[tuple[JobState, list[Decision]]]
SEEDS = st.integers(0, 2**32 - 1)


def report(draw: np.random.Generator, step: int, samples: Sequence[str]) -> StepReport:
    """Return a report of one rank with random measurements, most of them plausible."""
    rare = draw.random() < 0.05
    scale = 10.0 ** draw.integers(-30, 30) if draw.random() < 0.02 else 1.0
    return StepReport(
        step,
        losses=None if draw.random() < 0.1 else float(draw.normal(2, 0.1) * (9 if rare else 1)),
        norms={name: (float(draw.random()) * scale, float(draw.random())) for name in NAMES},
        cosines={name: (float(draw.normal(0.4, 0.2)), 1.0, 1.0) for name in samples},
        margins={name: (int(draw.integers(0, 4000)), 1000) for name in NAMES},
        nonfinite=int(draw.random() < 0.02),
        saturation={name: float(draw.random() ** 4) for name in NAMES},
        agreements={name: float(draw.normal(0, 0.05)) for name in NAMES if draw.random() < 0.9},
        reducer=ReducerCounters(
            lost=int(draw.random() < 0.005), fallback=bool(draw.random() < 0.02)
        ),
        seconds={"link_latency": 1e-4, "link_mib": float(draw.choice([1e-4, 1e-3, 1e-2]))},
    )


def walk(seed: int, steps: int = 300, plan: Plan = PLAN) -> Walk:
    """Run the state machine over random reports; return state and decisions after each step."""
    draw, codec, state = np.random.default_rng(seed), Codec(plan, 4, 0), start(plan)
    out = []
    for step in range(steps):
        names = [plan.regions[number].name for number in samples_due(plan, state)]
        told = report(draw, step, names)
        got = codec.decode(step, [*codec.encode(told).tolist(), *codec.least(told).tolist()])
        state, decided = advance(plan, state, got)
        out.append((state, list(decided)))
    return out


# L3: the same state on every rank, whatever each of them has seen, in any order.
@given(SEEDS, st.permutations(range(4)))
@QUICK
def test_ranks_decide_the_same(seed: int, order: list[int]) -> None:
    assert differing_ranks(seed, order, lambda rank, own, summed: summed) == 0


def test_a_rank_that_reads_its_own_loss_differs() -> None:
    def own_loss(rank: int, own: list[int], summed: list[int]) -> list[int]:
        return [own[0], *summed[1:]]

    def own_agreement(rank: int, own: list[int], summed: list[int]) -> list[int]:
        return [*summed[:-3], *own[-3:]]

    for read in (own_loss, own_agreement):
        assert any(differing_ranks(seed, range(4), read) for seed in range(5))


Read = Callable[[int, list[int], list[int]], list[int]]


def differing_ranks(seed: int, order: Sequence[int], read: Read) -> int:
    """Run four ranks with different reports; return how many end in another state than rank 0.

    Args:
        seed: Seed of the reports.
        order: Ranks in the order in which vectors are added; others follow.
        read: Function (rank, its own vector, the reduced vector) that returns the vector that the
            rank decodes.
    """
    draws = [np.random.default_rng((seed, rank)) for rank in range(4)]
    codecs = [Codec(PLAN, 4, rank) for rank in range(4)]
    walked = [start(PLAN)] * 4
    for step in range(120):
        names = [PLAN.regions[number].name for number in samples_due(PLAN, walked[0])]
        told = [report(draw, step, names) for draw in draws]
        own, least = (
            [getattr(codec, what)(one) for codec, one in zip(codecs, told, strict=True)]
            for what in ("encode", "least")
        )
        for rank in range(4):
            turn = order[rank:] if rank % 2 else order  # every rank adds in another order
            rest = [one for one in range(4) if one not in turn]
            summed = sum((own[one] for one in [*turn, *rest]), np.zeros_like(own[0])).tolist()
            ends = functools.reduce(np.maximum, (least[one] for one in [*turn, *rest])).tolist()
            alone = [*own[rank].tolist(), *least[rank].tolist()]
            got = codecs[rank].decode(step, read(rank, alone, summed + ends))
            walked[rank], _ = advance(PLAN, walked[rank], got)
    return sum(digest_of(state) != digest_of(walked[0]) for state in walked)


# L11: decisions are a function of the log.
@given(SEEDS)
@settings(QUICK, max_examples=10)
def test_replay_gives_the_decisions_of_the_run(tmp_path: Path, seed: int) -> None:
    segment = logged(tmp_path, seed)
    assert segment.decisions
    assert replay(segment).decisions == segment.decisions


def test_replay_of_another_log_gives_others(tmp_path: Path) -> None:
    segment = logged(tmp_path, 1)
    [at] = [n for n, one in enumerate(segment.run.fields) if one == "loss"]
    changed = [
        replace(one, vector=tuple(v + (9 << 20) * (n == at) for n, v in enumerate(one.vector)))
        if one.step > 60
        else one
        for one in segment.steps
    ]
    segment.steps = changed
    assert replay(segment).decisions != segment.decisions


def logged(folder: Path, seed: int) -> monitor_log.Segment:
    """Run 200 steps, interrupted and resumed in the middle; return their log as one segment."""
    draw, group, path = np.random.default_rng(seed), LocalGroup(1), folder / monitor_log.NAME
    path.unlink(missing_ok=True)
    kept: dict[str, Any] = {}
    for first in (0, 100):
        one = Controller(PROFILE, group.rank(0), folder=folder, plan=PLAN)
        if first:
            one.load_state_dict(kept)
        for step in range(first, first + 100):
            one.step_end(report(draw, step, sorted(one.samples())))
        kept = one.state_dict()
        one.close()
    segments, left_out = monitor_log.read(path)
    assert not left_out
    assert [len(one.steps) for one in segments] == [100, 100]
    whole = segments[0]
    assert segments[1].run.state is not None
    whole.steps += segments[1].steps  # resumed is as if never interrupted
    whole.decisions += segments[1].decisions
    return whole


# Hysteresis: what lies between the two thresholds changes nothing.
@given(st.booleans(), st.integers(1, 5), st.lists(st.floats(0.31, 0.49), max_size=40))
def test_between_the_thresholds_nothing_changes(bad: bool, count: int, values: list[float]) -> None:
    gate = Gate(bad)
    for value in values:
        gate = gate.read(value < 0.3, value > 0.5, count)
        assert gate.bad == bad


def test_one_threshold_flaps() -> None:
    gate, seen = Gate(), set()
    for value in (0.39, 0.41) * 3:
        gate = gate.read(value < 0.4, value >= 0.4, 1)
        seen.add(gate.bad)
    assert seen == {False, True}


@given(st.integers(1, 6), st.lists(st.booleans(), max_size=60))
def test_a_gate_turns_after_as_many_in_a_row(count: int, beyond: list[bool]) -> None:
    gate, row = Gate(), 0
    for one in beyond:
        before = gate.bad
        row = row + 1 if one != before else 0  # readings against what the gate says now
        gate = gate.read(one, not one, count)
        assert (gate.bad != before) == (row == count)
        row = 0 if gate.bad != before else row


# No transition within `hold` steps of the last.
@given(SEEDS)
@QUICK
def test_transitions_keep_their_distance(seed: int) -> None:
    assert least_distance(walk(seed)) >= LIMITS.hold


def test_without_hold_they_do_not() -> None:
    hasty = replace(PLAN, limits=replace(LIMITS, hold=1))
    assert min(least_distance(walk(seed, plan=hasty)) for seed in range(5)) < LIMITS.hold


def least_distance(walked: Walk) -> int:
    steps = sorted({one.step for _, decided in walked for one in decided})
    return min((b - a for a, b in pairwise(steps)), default=1 << 30)


# Cool-downs at most double, and warm-up is at most twice as long.
@given(SEEDS)
@QUICK
def test_cooldowns_at_most_double(seed: int) -> None:
    assert not too_long(walk(seed), LIMITS)


def test_a_cooldown_that_trebles_is_seen() -> None:
    def trebled(walked: Walk) -> Walk:
        return [
            (replace(state, cooldown=3 ** len(state.fallbacks) * LIMITS.cooldown), decided)
            for state, decided in walked
        ]

    assert any(too_long(trebled(walk(seed)), LIMITS) for seed in range(5))


def too_long(walked: Walk, limits: Thresholds) -> list[str]:
    out, last = [], 0
    for state, decided in walked:
        for one in decided:
            if one.target == Mode.FALLBACK:
                allowed = min(max(2 * last, limits.cooldown), limits.cooldown_most)
                if state.cooldown > allowed or state.until - one.step > allowed:
                    out.append(f"{one.step}: {state.cooldown} after {last}")
                last = state.cooldown
            if one.source == Mode.FP32_WARMUP and one.step >= 2 * PLAN.warmup:
                out.append(f"{one.step}: end of the warm-up")
        for region in state.regions:
            most = limits.cooldown << max(region.demotions - 1, 0)
            if region.status == Status.DEMOTED and region.until - region.since > most:
                out.append(f"{state.step}: demoted until {region.until}")
    return out


@given(SEEDS)
@QUICK
def test_what_is_not_eligible_or_locked_never_gets_low_bit(seed: int) -> None:
    locked = False
    for state, _ in walk(seed):
        assert state.regions[1].status == Status.FP32
        assert not locked or state.mode == Mode.LOCKED_FP32
        locked = state.mode == Mode.LOCKED_FP32
        probing = [one for one in state.regions if one.status == Status.PROBE]
        assert len(probing) <= 1


@given(st.integers(1, 64), st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=64))
def test_the_fixed_point_keeps_the_mean(world: int, losses: list[float]) -> None:
    """Check that the agreed loss is the ranks' mean within 2^-20; large values are clipped.

    They never reach the count.
    """
    losses = losses[:world]
    codecs = [Codec(PLAN, world, rank) for rank in range(len(losses))]
    summed = sum(
        (one.encode(StepReport(0, losses=x)) for one, x in zip(codecs, losses, strict=True)),
        np.zeros(codecs[0].length, dtype=np.int64),
    )
    got = codecs[0].decode(0, summed.tolist())
    most = (2.0**47 - 1) / world / 2**20
    cut = [min(max(one, -most), most) for one in losses]
    assert got.loss == pytest.approx(sum(cut) / len(cut), abs=2**-20, rel=1e-12)
    assert got == Reading(0, got.regions, loss=got.loss)


@given(st.lists(st.none() | st.floats(-9, 9), min_size=2, max_size=64))
def test_the_least_and_whose_it_is(values: list[float | None]) -> None:
    """Check that the agreed minimum is right within 2^-24, with its rank, without absent ranks."""
    told = [{} if one is None else {"head": one, "tail": -1e300} for one in values]
    codecs = [Codec(PLAN, len(values), rank) for rank in range(len(values))]
    reports = [StepReport(0, agreements=one) for one in told]
    ends = [codec.least(one) for codec, one in zip(codecs, reports, strict=True)]
    least = [least_of(int(one)) for one in np.max(ends, axis=0)]
    here = [(one, rank) for rank, one in enumerate(values) if one is not None]
    assert least[1] == (None, -1)
    if not here:
        assert least[0] == least[2] == (None, -1)
        return
    value, worker = least[0]
    assert value == pytest.approx(min(here)[0], abs=2**-24)
    assert values[worker] == pytest.approx(value, abs=2**-23)
    assert least[2][1] == here[0][1]


def test_plan_of_a_profile() -> None:
    profile = small_profile(
        (
            small_region("a", 10),
            small_region("b", 10, phases={}),
            small_region(
                "c",
                10,
                measured={"steady": {"G_BINARY": {"vote": {"margin": (0.1, 0.3)}}}},
            ),
        ),
        monitor={"drop": 0.4, "off": ["margin"]},
    )
    plan = plan_of(profile, warmup=7)
    assert [one.eligible for one in plan.regions] == [True, False, True]
    assert [one.margin for one in plan.regions] == [None, None, 0.1]
    assert (plan.warmup, plan.limits.drop, plan.off) == (7, 0.4, ("margin",))

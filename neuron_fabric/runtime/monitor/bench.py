# SPDX-License-Identifier: Apache-2.0
"""How soon the monitor finds injected faults, and how often it cries wolf (`monitor bench`).

The trainings are made up (`traces`): the figures say what the thresholds do on signals of plausible
size, not what they do on a training of yours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from neuron_fabric.errors import MonitorError
from neuron_fabric.runtime.monitor.controller import Controller
from neuron_fabric.runtime.monitor.job_plan import Cost, Plan
from neuron_fabric.runtime.monitor.limits import Signal
from neuron_fabric.runtime.monitor.local_group import (
    PHASES,
    LocalGroup,
    Route,
    SmallProfile,
    SmallRegion,
)
from neuron_fabric.runtime.monitor.plan_of import plan_of
from neuron_fabric.runtime.monitor.states import Decision, Mode, Status
from neuron_fabric.runtime.monitor.traces import FAULTS, REGIONS, Trace

__all__ = ["ALARMS", "FAULTS", "bench_lines", "found", "trained"]

STEPS = 500
AT = 251  # just behind a sample, the next is 49 steps away
WARMUP = 50
ALARMS = frozenset(
    {Status.DEMOTED, Status.LOCKED, Mode.FALLBACK, Mode.LOCKED_FP32, "rejected", "ended"}
)
"""What a healthy training must not see."""
MOST_FALSE = 1e-4  # a step
_MEASURED = {"steady": {"G_BINARY": {"vote": {"margin": [0.05, 0.4], "saturation": [0.0, 0.1]}}}}
_FP32 = dict.fromkeys(PHASES, Route("FP32"))


@dataclass(frozen=True)
class Found:
    """The first alarm after a fault: what was decided, and how many steps after it."""

    decision: Decision
    after: int


def profile(low_bit: bool = True) -> SmallProfile:
    """Three regions, all with low-bit routes or none."""
    phases = PHASES if low_bit else _FP32
    return SmallProfile(tuple(SmallRegion(*one, phases, _MEASURED) for one in REGIONS.items()))


def trained(
    seed: int,
    fault: str = "",
    off: Sequence[Signal] = (),
    *,
    low_bit: bool = True,
    steps: int = STEPS,
    folder: Path | None = None,
) -> list[Decision]:
    """The decisions of one made-up training. A run that the monitor ends has one more: `ended`."""
    used, trace = profile(low_bit), Trace(seed, fault, AT, steps)
    plan: Plan = replace(
        plan_of(
            used, warmup=WARMUP, costs={name: Cost(1e-4, 4 * n) for name, n in REGIONS.items()}
        ),
        off=tuple(off),
    )
    one = Controller(used, LocalGroup(1).rank(0), world=trace.workers, folder=folder, plan=plan)
    step = 0
    try:
        for step in range(steps):
            one.step_end(trace.report(step, one.routes(), one.samples()))
        one.routes()
    except MonitorError:
        ended = Decision(step - 1, "", one.decisions[-1].target, "ended", Signal.REDUCER, 1.0, 0.0)
        return [*one.decisions, ended]
    one.close()
    return one.decisions


def found(decisions: Sequence[Decision]) -> Found | None:
    """The first alarm from `AT` on."""
    alarms = [one for one in decisions if one.step >= AT and one.target in ALARMS]
    return Found(alarms[0], alarms[0].step - AT) if alarms else None


def bench_lines(
    seed: int, healthy: int, off: Sequence[Signal] = (), fault: str | None = None
) -> tuple[list[str], bool]:
    """The table, and whether every fault was found in time with few enough false alarms."""
    out = [
        "made-up trainings (not recorded ones); faults begin at step 251 of 500,",
        "just behind a sample: the next is at 300",
    ]
    if off:
        out.append(f"without {', '.join(off)}")
    good = True
    for name in [fault] if fault else FAULTS:
        one, its = found(trained(seed, name, off)), FAULTS[name]
        in_time = one is not None and one.after <= its.within
        if one is None:
            said = "NOT FOUND" if its.within else "not found, as the thresholds are"
        else:
            late = "" if in_time or not its.within else f"  LATE, {its.within} at most"
            said = f"{one.after:4} steps  {one.decision.signal:11} {one.decision.target}{late}"
        good &= in_time or not its.within
        out.append(f"  {name:16} {said:45} {its.words}")
    wrong: list[str] = []
    for number in range(healthy):
        decided = trained(seed + 1 + number, "", off, low_bit=number % 4 != 0)
        wrong += [
            f"  false alarm: run {number} step {one.step} {one.region or 'job'} {one.signal} "
            f"{one.value:.3g}, limit {one.limit:.3g}"
            for one in decided
            if one.target in ALARMS
        ]
    if healthy:
        out += wrong[:10]
        out.append(
            f"  {healthy} healthy runs, {healthy * STEPS:,} steps: {len(wrong)} false alarms"
        )
        good &= len(wrong) <= max(1.0, MOST_FALSE * healthy * STEPS)
    return out, good

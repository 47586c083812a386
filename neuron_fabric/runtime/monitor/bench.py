# SPDX-License-Identifier: Apache-2.0
"""How soon the monitor finds injected faults, and how often it cries wolf (`monitor bench`).

The trainings are made up (`traces`): the figures say what the thresholds do on signals of plausible
size, not what they do on a training of yours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from neuron_fabric.errors import MonitorError
from neuron_fabric.runtime.monitor.consensus import Codec, Vector
from neuron_fabric.runtime.monitor.controller import Controller
from neuron_fabric.runtime.monitor.job_plan import Cost, Plan
from neuron_fabric.runtime.monitor.limits import Signal
from neuron_fabric.runtime.monitor.local_group import (
    PHASES,
    Route,
    SmallProfile,
    SmallRegion,
)
from neuron_fabric.runtime.monitor.plan_of import plan_of
from neuron_fabric.runtime.monitor.states import Decision, Mode, Status
from neuron_fabric.runtime.monitor.traces import CREEP, FAULTS, REGIONS, Trace, level

__all__ = ["ALARMS", "FAULTS", "bench_lines", "found", "trained"]

STEPS = 500
AT = 251  # just behind a sample, the next is 49 steps away
WARMUP = 50
ALARMS = frozenset(
    {Status.DEMOTED, Status.LOCKED, Mode.FALLBACK, Mode.LOCKED_FP32, "rejected", "ended"}
)
"""What a healthy training must not see."""
MOST_FALSE = 1e-4  # a step
HISTORY = 100  # losses before a fault, by which a test may know where they stood
_SHARES = {"margin": [0.05, 0.4], "saturation": [0.0, 0.1]}
_MEASURED = {"steady": {"G_BINARY": {"vote": _SHARES, "net": _SHARES}}}
_PHASES = {"stem": {**PHASES, "steady": Route(decode="net")}}
_FP32 = dict.fromkeys(PHASES, Route("FP32"))


@dataclass(frozen=True)
class Found:
    """The first alarm after a fault: what was decided, and how many steps after it."""

    decision: Decision
    after: int


def profile(low_bit: bool = True) -> SmallProfile:
    """Three regions, all with low-bit routes or none; of the stem the counts come back."""
    return SmallProfile(
        tuple(
            SmallRegion(name, size, _PHASES.get(name, PHASES) if low_bit else _FP32, _MEASURED)
            for name, size in REGIONS.items()
        )
    )


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
    codecs = [Codec(plan, trace.workers, rank) for rank in range(1, trace.workers)]

    def beside(values: Vector, sums: int) -> Callable[[], Vector]:
        """Rank 0's numbers; of what is the least, all ranks'."""
        told = [one.least(its) for one, its in zip(codecs, trace.others, strict=True)]
        own, least = np.split(values, [sums + 2])  # behind both ends of the digest
        values = np.concatenate([own, np.max([least, *told], axis=0)])
        return lambda: values

    one = Controller(used, beside, world=trace.workers, folder=folder, plan=plan)
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
    seed: int,
    healthy: int,
    off: Sequence[Signal] = (),
    fault: str | None = None,
    seeds: int = 3,
) -> tuple[list[str], bool]:
    """The table, and whether every fault was found in time in the trainings of all ``seeds`` from
    ``seed`` on, with few enough false alarms."""
    out = [
        f"made-up trainings (not recorded ones); faults begin at step {AT} of {STEPS}, just behind",
        f"a sample: the next is at 300; steps until one is found: least, most of {seeds} seeds",
    ]
    if off:
        out.append(f"without {', '.join(off)}")
    good = True
    for name in [fault] if fault else FAULTS:
        line, in_time = _fault_line(
            name, [found(trained(seed + n, name, off)) for n in range(seeds)]
        )
        out.append(line)
        good &= in_time
        if name == "divergence":
            noises = sorted(Trace(seed + n, name, AT, STEPS).noise for n in range(seeds))
            ends = [soonest(noises[0]), soonest(noises[-1])]
            out.append(
                f"{'':19}{ends[0]:4} {ends[1]:4} steps at the soonest, by any test for which a "
                f"loss that does not rise is healthy (noise {noises[0]:.1%} to {noises[-1]:.1%})"
            )
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


def _healthy(after: int) -> float:
    return level(AT + after, STEPS)


def non_rising(means: Sequence[float]) -> list[float]:
    """What is nearest to ``means``, by least squares, of all that never rises."""
    pools: list[tuple[float, int]] = []
    for mean in means:
        pool = (mean, 1)
        while pools and pools[-1][0] < pool[0]:
            (a, n), (b, k) = pools.pop(), pool
            pool = ((a * n + b * k) / (n + k), n + k)
        pools.append(pool)
    return [mean for mean, count in pools for _ in range(count)]


def soonest(noise: float, before: Callable[[int], float] = _healthy) -> int:
    """Steps that a test of the loss needs to see `divergence`, if every loss that does not rise is
    healthy and it has one false alarm in 10,000 steps: until the mean log of the likelihood ratio
    to the healthy losses that are nearest is that of 10,000, which Wald's inequality asks of any
    test. It may know the noise, the fault and when it began, but not where the loss would be now.
    ``before``: the mean loss so many steps after the fault began, if there were none."""
    means = [before(n) for n in range(-HISTORY, 0)]
    for after in range(STEPS):
        means.append(before(after) * CREEP**after)
        off = zip(means, non_rising(means), strict=True)
        told = math.fsum(((a - b) / (noise * a)) ** 2 for a, b in off) / 2
        if told >= math.log(1 / MOST_FALSE):
            return after
    return STEPS


def _fault_line(name: str, alarms: Sequence[Found | None]) -> tuple[str, bool]:
    """What is said of a fault, and whether each of its trainings had its alarm in time."""
    its, seen = FAULTS[name], [one for one in alarms if one is not None]
    missed = len(alarms) - len(seen)
    in_time = not missed and all(one.after <= its.within for one in seen)
    if not seen:
        said = "NOT FOUND"
    else:
        after = sorted(one.after for one in seen)
        ways = dict.fromkeys((one.decision.signal, one.decision.target) for one in seen)
        by, to = (" ".join(dict.fromkeys(words)) for words in zip(*ways, strict=True))
        said = f"{after[0]:4} {after[-1]:4} steps  {by:11} {to}"
        said += f"  NOT FOUND {missed} times" if missed else ""
        said += "" if in_time or missed else f"  LATE, {its.within} at most"
    return f"  {name:16} {said:45} {its.words}", in_time

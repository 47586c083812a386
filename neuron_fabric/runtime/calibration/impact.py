# SPDX-License-Identifier: Apache-2.0
"""What a region alone does to the loss, from the end of the warm-up on.

A script cannot be asked to go on from a checkpoint that it knows nothing of. But FP32 is the same
bit for bit each time: the training is begun anew with the same seed, all regions but one stay in
FP32, and so it stands at the end of its warm-up where the others stood. It is ended after 50 steps
more. The mean loss of these less that of the training in FP32 counts in units of the spread that
three trainings in FP32 have, each with another seed (of the weights too: a script has one).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from neuron_fabric.profile.profile_file import write_profile
from neuron_fabric.profile.profile_types import (
    FULL,
    STEADY,
    WARMUP,
    PhaseRoute,
    Phases,
    Profile,
    Region,
    Warmup,
)
from neuron_fabric.runtime.calibration.calibration_job import CalibrationError, Job
from neuron_fabric.runtime.calibration.row_file import warmup_of
from neuron_fabric.runtime.monitor import log
from neuron_fabric.runtime.monitor.limits import Signal
from neuron_fabric.runtime.monitor.recorded import readings
from neuron_fabric.text import say

STEPS = 50
MOST = 2.0
"""Spreads that a region may cost."""
SEEDS = 3
OFF = [str(one) for one in Signal if one != Signal.SCHEDULE]
"""No signal moves a region while it is looked at."""


class Runs(Protocol):
    """As `calibrating.Trainings`."""

    base: Path

    def run(self, job: Job, seed: int) -> Any: ...


def vetoed(profile: Profile, steps: int, seed: int, runs: Runs) -> Profile:
    """The profile with the impact of every low-bit region, and those in FP32 that cost too much.

    CalibrationError where no loss is observed."""
    warm = warmup_of(profile.phases.warmup.steps, steps)
    full = [_loss(profile, None, warm, seed + n, runs) for n in range(SEEDS)]
    spread = statistics.stdev(full) if all(map(math.isfinite, full)) else math.nan
    if not spread > 0:
        what = (
            f"losses of {SEEDS} trainings in FP32 with other seeds are {', '.join(map(str, full))}"
        )
        todo = "let the script take its seed from NF_SEED, and train without NaN"
        raise CalibrationError("--impact", what, todo)
    regions = []
    for region in profile.regions:
        if region.low_bit:
            cost = _loss(profile, region.name, warm, seed, runs) - full[0]
            region = judged(region, cost / spread)
        regions.append(region)
    return replace(profile, regions=tuple(regions), verified=False)


def judged(region: Region, impact: float) -> Region:
    """The region with its impact, in spreads; in FP32 where it is too much."""
    say(f"  {region.name}: loss impact {impact:+.2f} spreads")
    steady = region.phases[STEADY]
    measured: dict[str, Any] = {
        phase: {route: dict(decodes) for route, decodes in routes.items()}
        for phase, routes in region.measured.items()
    }
    found: Mapping[str, Any] = measured[STEADY][steady.route.value][steady.decode]
    if math.isfinite(impact):
        found = {**found, "loss_impact": (impact, impact)}
    measured[STEADY][steady.route.value][steady.decode] = found
    phases: Mapping[str, PhaseRoute] = region.phases
    if impact > MOST:
        why = f"loss impact {impact:.1f} spreads > {MOST:g}"
        phases = {WARMUP: FULL, STEADY: replace(FULL, why=why)}
    return replace(region, phases=phases, measured=measured)


def alone(profile: Profile, name: str | None, warm: int) -> Profile:
    """All but one region in FP32, which goes low-bit after ``warm`` steps whatever is seen."""
    regions = tuple(
        one if one.name == name else replace(one, phases={WARMUP: FULL, STEADY: FULL})
        for one in profile.regions
    )
    return replace(
        profile,
        regions=regions,
        verified=True,
        phases=Phases(Warmup(float(warm))),
        monitor={"off": OFF, "warmup_falls": 1e6},
    )


def _loss(profile: Profile, name: str | None, warm: int, seed: int, runs: Runs) -> float:
    """Mean loss of the steps that follow the warm-up; infinite where one was not finite: the log
    has no such loss, but counts it."""
    candidate = runs.base / "alone.toml"
    write_profile(alone(profile, name, warm), candidate)
    trained = runs.run(Job(profile=str(candidate), stop=warm + STEPS), seed)
    if trained.failed is not None:
        what = f"the training of seed {seed} failed: {trained.failed}"
        raise CalibrationError("--impact", what, "see what it has said above")
    segments, _ = log.read(log.find(trained.folder))
    steps = [one for segment in segments for one in readings(segment) if one.step >= warm]
    if any(one.loss is None and one.nonfinite for one in steps):
        return math.inf
    losses = [one.loss for one in steps if one.loss is not None]
    if not losses:
        todo = "call rt.observe(loss) after each backward"
        raise CalibrationError("--impact", "the script has observed no loss", todo)
    return statistics.fmean(losses)

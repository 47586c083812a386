# SPDX-License-Identifier: Apache-2.0
"""Closing the loop: trainings by a profile beside trainings in FP32, and what is given up until
they are near enough.

The rule judges gradients, step by step; what a training makes of them, its optimizer above all,
shows in its metric alone.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from neuron_fabric.profile.profile_types import (
    FULL,
    STEADY,
    WARMUP,
    Profile,
    Reference,
    Region,
    Spread,
)
from neuron_fabric.runtime.calibration.calibration_job import CalibrationError

ROUNDS = 4
"""Regions that are given up, one a round, before the calibration is."""
SEEDS = 3
Better = Literal["higher", "lower", "either"]


@dataclass(frozen=True)
class Bar:
    """How far the metric's mean may be from FP32's. ``within`` None: the larger of 1 % of it and
    two of its standard deviations. ``better``: values on that side of FP32's are never too far."""

    within: float | None = None
    better: Better = "either"

    def band(self, fp32: Spread) -> float:
        """How far."""
        if self.within is not None:
            return self.within
        return max(0.01 * abs(fp32.mean), 2 * fp32.std)

    def passed(self, fp32: Spread, found: Spread) -> bool:
        """Whether a mean is near enough; not for NaN."""
        off = found.mean - fp32.mean
        if math.isnan(off):
            return False
        sides = {"either": abs(off), "higher": -off, "lower": off}
        return sides[self.better] <= self.band(fp32)


@dataclass(frozen=True)
class Verification:
    """``profile``: as it is left, verified or not. ``table``: the metric, seed by seed, of FP32 and
    of each round."""

    profile: Profile
    fp32: Spread
    table: Sequence[tuple[str, Sequence[float]]]


def verify(
    profile: Profile,
    metric: str,
    full: Sequence[float],
    again: Callable[[Profile], Sequence[float]],
    bar: Bar,
    keep: Callable[[Profile], None],
    tell: Callable[[str], None],
) -> Verification:
    """Trainings by the profile (``again``) until they are near those in FP32 (``full``), or too
    much is given up. ``keep`` gets every profile on the way, ``tell`` a line for each region.

    CalibrationError where FP32 is not finite.
    """
    fp32, table = spread(full), [("FP32", full)]
    if math.isnan(fp32.mean):
        what = f"{metric} of the trainings in FP32 is not finite"
        raise CalibrationError("calibrate", what, "choose other arguments for the script")
    profile = replace(profile, reference=Reference(metric, fp32))
    keep(profile)
    for number in range(ROUNDS + 1):
        values = again(profile)
        table.append((f"round {number + 1}", values))
        found = spread(values)
        if bar.passed(fp32, found):
            profile = replace(profile, verified=True, reference=Reference(metric, fp32, found))
            keep(profile)
            break
        worst = weakest(profile)
        if number == ROUNDS or worst is None:
            break
        tell(f"{metric} {found.mean:.4f} against {fp32.mean:.4f} in FP32: {worst.name} in FP32")
        why = f"verification missed, cosine {cosine_of(worst):.3f} least above its floor"
        profile = demoted(profile, worst.name, why)
        keep(profile)
        if weakest(profile) is None:
            break
    return Verification(profile, fp32, table)


def spread(values: Sequence[float]) -> Spread:
    """NaN where a value is not finite."""
    if not all(map(math.isfinite, values)):
        return Spread(math.nan, math.nan)
    return Spread(statistics.fmean(values), statistics.stdev(values))


def demoted(profile: Profile, name: str, why: str) -> Profile:
    """The profile with a region in FP32."""
    phases = {WARMUP: FULL, STEADY: replace(FULL, why=why)}
    regions = [
        dataclasses.replace(one, phases=phases) if one.name == name else one
        for one in profile.regions
    ]
    return replace(profile, regions=tuple(regions), verified=False)


def cosine_of(region: Region) -> float:
    """The least of the region's route."""
    steady = region.phases[STEADY]
    return region.measured[STEADY][steady.route.value][steady.decode]["cosine"][0]


def above(profile: Profile, region: Region) -> float:
    """How far the region's cosine is above the floor of its route: floors differ, so cosines of
    different routes cannot be compared."""
    return cosine_of(region) - profile.rule.floor.of(region.phases[STEADY].route)


def weakest(profile: Profile) -> Region | None:
    """The low-bit region that is least above its floor."""
    low = [one for one in profile.regions if one.low_bit]
    return min(low, key=lambda one: above(profile, one)) if low else None

# SPDX-License-Identifier: Apache-2.0
"""Verification of a profile by whole trainings, and the regions that are given up until it passes.

The rule judges gradients, step by step; what a training makes of them, its optimizer above all,
shows in its metric alone. A training with the profile and one in FP32 with the same seed draw the
same batches and start from the same weights, so their difference is judged and not their means:
the 95 % interval of its mean (Student's t) has to lie within the tolerance (non-inferiority). A
profile is thus verified by evidence that it is near, not by the lack of evidence that it is not.
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
T975 = (4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""Student's t at 97.5 % for 2 to 9 degrees of freedom: `SEEDS` to `MOST_SEEDS` seeds."""
MOST_SEEDS = SEEDS + len(T975) - 1
Better = Literal["higher", "lower", "either"]


@dataclass(frozen=True)
class Paired:
    """Differences of two groups of trainings, seed by seed.

    ``half``: half the width of the 95 % interval of their mean, which is also the smallest
    difference that so many seeds could have shown. Both are NaN where a value is not finite.
    """

    mean: float
    half: float
    seeds: int

    @staticmethod
    def of(full: Sequence[float], values: Sequence[float]) -> Paired:
        """Return those of ``values`` less ``full``."""
        off = spread([b - a for a, b in zip(full, values, strict=True)])
        n = len(values)
        return Paired(off.mean, T975[n - SEEDS] * off.std / math.sqrt(n), n)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the mean."""
        return self.mean - self.half, self.mean + self.half

    def lines(self, fp32: Spread) -> list[str]:
        """Return what the seeds have shown, and a warning where they can show little."""
        low, high = self.interval
        share = f" ({self.half / abs(fp32.mean):.2%} of FP32's mean)" if fp32.mean else ""
        out = [
            f"difference by seed: mean {self.mean:+.4g}, 95 % interval {low:+.4g} to {high:+.4g}",
            f"smallest damage that {self.seeds} seeds could have shown: {self.half:.4g}{share}",
        ]
        if not self.half <= SHARE * abs(fp32.mean):
            out.append(f"warning: that is above {SHARE:.0%} of the metric; more --seeds show less")
        return out


SHARE = 0.01
"""Tolerance, and resolution without a warning, as a share of the metric."""


@dataclass(frozen=True)
class Bar:
    """How far a profile may be from FP32.

    ``within``: the tolerance; None: 1 % of FP32's mean. ``better``: differences to that side are
    never too large. ``means``: judge the mean difference alone, not its 95 % interval.
    """

    within: float | None = None
    better: Better = "either"
    means: bool = False

    def band(self, fp32: Spread) -> float:
        """Return the tolerance."""
        return self.within if self.within is not None else SHARE * abs(fp32.mean)

    def near(self, fp32: Spread, *offs: float) -> bool:
        """Return whether differences are within the tolerance; NaN is not."""
        sides = {"either": 0.0, "higher": -1.0, "lower": 1.0}
        side = sides[self.better]
        return all((side * off if side else abs(off)) <= self.band(fp32) for off in offs)

    def passed(self, fp32: Spread, found: Paired) -> bool:
        """Return whether the profile is verified."""
        return self.near(fp32, *([found.mean] if self.means else found.interval))


@dataclass(frozen=True)
class Verification:
    """``profile``: as it is left, verified or not. ``table``: the metric, seed by seed, of FP32 and
    of each round. ``paired``: the differences of the last round."""

    profile: Profile
    fp32: Spread
    table: Sequence[tuple[str, Sequence[float]]]
    paired: Paired


def verify(
    profile: Profile,
    metric: str,
    full: Sequence[float],
    again: Callable[[Profile], Sequence[float]],
    bar: Bar,
    keep: Callable[[Profile], None],
    tell: Callable[[str], None],
) -> Verification:
    """Train by the profile (``again``) until it passes against FP32 (``full``, the same seeds), or
    too much is given up. ``keep`` gets every profile on the way, ``tell`` a line for each region.

    A region is given up where the mean difference is beyond the tolerance. Where the interval
    alone is, a region less would not make it narrower: the seeds are too few.

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
        found, paired = spread(values), Paired.of(full, values)
        if bar.passed(fp32, paired):
            reference = Reference(metric, fp32, found, paired.interval)
            profile = replace(profile, verified=True, reference=reference)
            keep(profile)
            break
        worst = weakest(profile)
        if number == ROUNDS or worst is None or bar.near(fp32, paired.mean):
            break
        tell(f"{metric} {found.mean:.4f} against {fp32.mean:.4f} in FP32: {worst.name} in FP32")
        why = f"verification missed, cosine {cosine_of(worst):.3f} least above its floor"
        profile = demoted(profile, worst.name, why)
        keep(profile)
        if weakest(profile) is None:
            break
    return Verification(profile, fp32, table, paired)


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

# SPDX-License-Identifier: Apache-2.0
"""Verification of a profile by whole trainings, and the routes that are given up on the way.

The rule judges gradients step by step; their effect on a training, above all by its optimizer,
shows only in the metric. A training with the profile and one in FP32 with the same seed draw the
same batches and start from the same weights, so that their difference is judged and not their
means: the 95 % interval of the mean difference (Student's t) must lie within the tolerance
(non-inferiority test). A profile is thus verified by evidence that it is near FP32, not by a lack
of evidence that it is not.

A region whose votes are given up uses integer codes of 8 bits, if they were measured and pass their
floor: they have no bias, and less than half the bytes of FP32. It uses FP32 if they fail, too.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from neuron_fabric.calibration.calibration_job import CalibrationError
from neuron_fabric.codec.routes import Route
from neuron_fabric.profile.profile_types import (
    FULL,
    Phase,
    PhaseRoute,
    Profile,
    Reference,
    Region,
    Spread,
)

ROUNDS = 6
"""Greatest number of routes that are given up, one a round."""
SEEDS = 3
T975 = (4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""Student's t at 97.5 % for 2 to 9 degrees of freedom: `SEEDS` to `MOST_SEEDS` seeds."""
MOST_SEEDS = SEEDS + len(T975) - 1
Better = Literal["higher", "lower", "either"]


@dataclass(frozen=True)
class Paired:
    """Differences between two groups of trainings with the same seeds, seed by seed.

    Attributes:
        mean: Mean difference.
        half: Half the width of its 95 % interval, the smallest difference that the seeds could
            show. Both are NaN if a value is not finite.
        seeds: Number of seeds.
    """

    mean: float
    half: float
    seeds: int

    @staticmethod
    def of(full: Sequence[float], values: Sequence[float]) -> Paired:
        """Return the statistics of the differences ``values`` - ``full``, seed by seed."""
        off = spread([b - a for a, b in zip(full, values, strict=True)])
        n = len(values)
        return Paired(off.mean, T975[n - SEEDS] * off.std / math.sqrt(n), n)

    @property
    def interval(self) -> tuple[float, float]:
        """Return the 95 % interval of the mean difference, (low, high)."""
        return self.mean - self.half, self.mean + self.half

    def lines(self, fp32: Spread) -> list[str]:
        """Return the result as lines of text, with a warning if the resolution is too low.

        ``fp32`` is the mean and deviation of the metric in FP32.
        """
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
    """Criterion of a verification: accepted distance of a profile's metric from FP32.

    Attributes:
        within: Tolerance in units of the metric; None for 1 % of the mean of FP32.
        better: Side of FP32 on which every difference is accepted.
        means: Whether to judge the mean difference instead of its 95 % interval.
    """

    within: float | None = None
    better: Better = "either"
    means: bool = False

    def band(self, fp32: Spread) -> float:
        """Return the tolerance in units of the metric."""
        return self.within if self.within is not None else SHARE * abs(fp32.mean)

    def near(self, fp32: Spread, *offs: float) -> bool:
        """Return whether all differences ``offs`` are within the tolerance; NaN is not."""
        sides = {"either": 0.0, "higher": -1.0, "lower": 1.0}
        side = sides[self.better]
        return all((side * off if side else abs(off)) <= self.band(fp32) for off in offs)

    def passed(self, fp32: Spread, found: Paired) -> bool:
        """Return whether differences ``found`` meet the criterion of a verified profile."""
        return self.near(fp32, *([found.mean] if self.means else found.interval))


@dataclass(frozen=True)
class Verification:
    """Result of a verification.

    Attributes:
        profile: The profile, verified or not.
        fp32: Metric of the trainings in FP32.
        table: (name, metric by seed): of FP32, and of the trainings of each round.
        paired: Differences of the last round.
    """

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
    """Compare trainings by the profile with those in FP32; give up routes until it passes.

    After a round in which the mean difference exceeds the tolerance, the weakest low-bit region
    gets a route of more bits (`safer`), at most `ROUNDS` times. If only the interval exceeds it,
    another route would not make it narrower: the seeds are too few, and the verification ends.

    Args:
        profile: Profile made by the rule.
        metric: Name of the metric.
        full: Metric of the trainings in FP32, by seed.
        again: Function that trains with a profile and the same seeds, and returns the metrics.
        bar: Accepted distance.
        keep: Receives every profile on the way.
        tell: Receives a line for each route that is given up.

    Raises:
        CalibrationError: The metric of FP32 is not finite.
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
        why = f"verification missed, cosine {cosine_of(worst):.3f} least above its floor"
        other = safer(profile, worst, why)
        route = other.phases[Phase.STEADY].route
        tell(f"{metric} {found.mean:.4f} against {fp32.mean:.4f} in FP32: {worst.name} in {route}")
        regions = tuple(other if one is worst else one for one in profile.regions)
        profile = replace(profile, regions=regions, verified=False)
        keep(profile)
        if weakest(profile) is None:
            break
    return Verification(profile, fp32, table, paired)


def spread(values: Sequence[float]) -> Spread:
    """Return mean and standard deviation of two or more values; NaN if one is not finite."""
    if not all(map(math.isfinite, values)):
        return Spread(math.nan, math.nan)
    return Spread(statistics.fmean(values), statistics.stdev(values))


def cosine_of(region: Region) -> float:
    """Return the lowest cosine measured for the region's route in the steady phase."""
    steady = region.phases[Phase.STEADY]
    return region.measured[Phase.STEADY][steady.route.value][steady.measured_as]["cosine"][0]


def weakest(profile: Profile) -> Region | None:
    """Return the low-bit region with the least margin of its cosine above the floor of its route.

    Regions with votes come first. None if no region is low-bit. Floors differ, so cosines of
    different routes cannot be compared.
    """

    def above(region: Region) -> tuple[bool, float]:
        route = region.phases[Phase.STEADY].route
        return route.codes, cosine_of(region) - profile.rule.floor.of(route)

    return min((one for one in profile.regions if one.low_bit), key=above, default=None)


def safer(profile: Profile, region: Region, why: str) -> Region:
    """Return a low-bit region with the next route of more bits: G_INT8 after votes, else FP32.

    ``why`` is the reason to show.
    """
    codes = region.measured[Phase.STEADY].get(Route.G_INT8.value, {}).get("vote")
    votes = region.phases[Phase.STEADY].route.votes
    if votes and codes and codes["cosine"][0] >= profile.rule.floor.of(Route.G_INT8):
        coded = PhaseRoute(Route.G_INT8, why=why)
        return replace(region, phases={Phase.WARMUP: FULL, Phase.STEADY: coded})
    return in_fp32(region, why)


def in_fp32(region: Region, why: str = "") -> Region:
    """Return the profile region with route FP32 in all phases; ``why`` is the reason to show."""
    return replace(region, phases={Phase.WARMUP: FULL, Phase.STEADY: replace(FULL, why=why)})

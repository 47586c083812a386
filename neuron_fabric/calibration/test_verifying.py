# SPDX-License-Identifier: Apache-2.0
"""Verification: the order of the regions that are given up, and its end."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")

from neuron_fabric.calibration.calibrating import (
    MOST_SEEDS,
    SEEDS,
    T975,
    Bar,
    Better,
    Paired,
    Verification,
    spread,
    verify,
    weakest,
)
from neuron_fabric.codec import Route
from neuron_fabric.profile import Kind, PhaseRoute, Profile, Region
from neuron_fabric.profile.profile_types import FULL, ModelId, Spread


def region(name: str, route: Route, cosine: float) -> Region:
    measured = {"steady": {route.value: {"vote": {"cosine": (cosine, 0.9)}}}}
    phases = {"warmup": FULL, "steady": PhaseRoute(route)}
    return Region(name, Kind.LINEAR, (f"{name}.*",), 4096, phases, measured)


PROFILE = Profile(
    "p",
    ModelId("", 8192),
    (region("one", Route.G_BINARY, 0.54), region("two", Route.G_TERNARY, 0.56)),
)


def test_floors_differ() -> None:
    """Check that 0.56 is weaker than 0.54: it is only 0.01 above its floor, not 0.09."""
    first = weakest(PROFILE)
    assert first is not None
    assert first.name == "two"


def test_rounds_until_it_is_near() -> None:
    """Check that each profile on the way is kept, and only the last one is verified."""
    kept: list[tuple[bool, list[str]]] = []
    told: list[str] = []

    def keep(profile: Profile) -> None:
        kept.append((profile.verified, [one.name for one in profile.regions if one.low_bit]))

    def again(profile: Profile) -> list[float]:
        off = 0.1 * any(one.name == "two" and one.low_bit for one in profile.regions)
        return [one + off for one in full]

    full = [2.9, 3.0, 3.1]
    found = verify(PROFILE, "bits", full, again, Bar(0.05), keep, told.append)
    assert kept == [(False, ["one", "two"]), (False, ["one"]), (True, ["one"])]
    assert told == ["bits 3.1000 against 3.0000 in FP32: two in FP32"]
    assert [name for name, _ in found.table] == ["FP32", "round 1", "round 2"]
    assert found.profile.verified
    assert found.profile.reference is not None
    assert found.profile.reference.verified == spread(full)
    why = "verification missed, cosine 0.560 least above its floor"
    assert found.profile.region("two").phases["steady"].why == why


@pytest.mark.parametrize(
    ("better", "off", "passed"),
    [
        *(("either", 0.11, False), ("either", -0.11, False), ("either", 0.09, True)),
        *(("lower", -0.5, True), ("lower", 0.11, False), ("higher", -0.11, False)),
        *(("higher", 0.5, True), ("either", math.nan, False), ("lower", math.nan, False)),
    ],
)
def test_near_enough(better: Better, off: float, passed: bool) -> None:
    fp32 = Spread(3.0, 0.02)
    for bar in (Bar(0.10, better), Bar(0.10, better, means=True)):
        assert bar.passed(fp32, Paired(off, 0.0, 3)) is passed


@pytest.mark.parametrize(
    ("better", "half", "passed"),
    [("either", 0.04, True), ("either", 0.06, False), ("lower", 0.06, True), ("higher", 0.06, 0)],
)
def test_the_interval_is_judged(better: Better, half: float, passed: bool) -> None:
    """Check that the end of the interval around -0.05 decides, unless only means count."""
    fp32, found = Spread(3.0, 0.02), Paired(-0.05, half, 3)
    assert Bar(0.10, better).passed(fp32, found) is bool(passed)
    assert Bar(0.10, better, means=True).passed(fp32, found)


def test_the_tolerance_without_a_wish() -> None:
    """Check the default tolerance: 1 % of the metric, whatever the standard deviation of FP32."""
    assert Bar().band(Spread(3.0, 0.5)) == pytest.approx(0.03)
    assert Bar().band(Spread(-3.0, 0.01)) == pytest.approx(0.03)
    assert math.isnan(spread([1.0, math.inf]).mean)


def judged(full: list[float], *rounds: list[float], bar: Bar | None = None) -> Verification:
    """Return a verification in which the trainings with the profile reach these values."""
    values = iter(rounds)
    keep, tell = (lambda profile: None), (lambda text: None)
    return verify(PROFILE, "accuracy", full, lambda _: next(values), bar or Bar(), keep, tell)


def test_worse_on_every_seed_is_not_verified() -> None:
    """Check that a damage below the standard deviation of FP32 (10 points) is detected by pairs."""
    worse = [79.0, 87.0, 99.0]
    found = judged([80.0, 90.0, 100.0], worse, worse, worse)
    assert not found.profile.verified
    assert found.paired.mean == pytest.approx(-5 / 3)
    assert found.paired.interval == pytest.approx((-4.536, 1.202), abs=1e-3)
    assert found.paired.lines(found.fp32) == [
        "difference by seed: mean -1.667, 95 % interval -4.535 to +1.202",
        "smallest damage that 3 seeds could have shown: 2.869 (3.19% of FP32's mean)",
        "warning: that is above 1% of the metric; more --seeds show less",
    ]


def test_what_the_seeds_cannot_show_is_not_verified() -> None:
    """Check equal means of differing seeds: no region is given up, and more seeds are
    conclusive."""
    found = judged([90.0, 90.0, 90.0], [91.0, 89.0, 90.0])
    assert not found.profile.verified
    assert len(found.table) == 2
    assert all(one.low_bit for one in found.profile.regions)
    ten = judged([90.0] * 10, [90.5, 89.5] * 5)
    assert ten.profile.verified
    assert ten.profile.reference is not None
    assert ten.profile.reference.difference == pytest.approx((-0.377, 0.377), abs=1e-3)
    assert "warning" not in "".join(ten.paired.lines(ten.fp32))
    by_means = judged([90.0, 90.0, 90.0], [91.0, 89.0, 90.0], bar=Bar(means=True))
    assert by_means.profile.verified


def test_pairs_are_of_one_seed() -> None:
    """Check that variation which the seeds share is not counted as noise."""
    assert judged([80.0, 90.0, 100.0], [80.1, 90.0, 100.1]).profile.verified
    assert not judged([80.0, 90.0, 100.0], *[[100.1, 80.1, 90.0]] * 3).profile.verified


def test_students_t() -> None:
    """Check the quantiles by Simpson's rule over the upper tail of the density to 1,000."""

    def above(t: float, degrees: int) -> float:
        factor = math.gamma((degrees + 1) / 2) / math.gamma(degrees / 2)
        factor /= math.sqrt(degrees * math.pi)
        ends = [math.log(t) + n * math.log(1000 / t) / 1000 for n in range(1001)]
        values = [
            math.exp(x) * (1 + math.exp(2 * x) / degrees) ** (-(degrees + 1) / 2) for x in ends
        ]
        weights = [1, *([4, 2] * 500)[:-1], 1]
        return (
            factor
            * math.fsum(map(math.prod, zip(weights, values, strict=True)))
            * (ends[1] - ends[0])
            / 3
        )

    assert (SEEDS, MOST_SEEDS) == (3, 10)
    for degrees, t in enumerate(T975, 2):
        assert above(t, degrees) == pytest.approx(0.025, abs=2e-5)

# SPDX-License-Identifier: Apache-2.0
"""What verification gives up, and when it is content; `test_calibrating` runs it with a script."""

from __future__ import annotations

import math

import pytest

from neuron_fabric.codec import Route
from neuron_fabric.profile import Kind, PhaseRoute, Profile, Region
from neuron_fabric.profile.profile_types import FULL, ModelId, Spread
from neuron_fabric.runtime.calibration.verifying import Bar, Better, spread, verify, weakest


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
    """0.54 is 0.09 above the floor of one bit, 0.56 only 0.01 above that of two."""
    first = weakest(PROFILE)
    assert first is not None
    assert first.name == "two"


def test_rounds_until_it_is_near() -> None:
    """Each profile on the way is kept, and is not verified before it was near enough."""
    kept: list[tuple[bool, list[str]]] = []
    told: list[str] = []

    def keep(profile: Profile) -> None:
        kept.append((profile.verified, [one.name for one in profile.regions if one.low_bit]))

    def again(profile: Profile) -> list[float]:
        return [3.0 + 0.1 * any(one.name == "two" and one.low_bit for one in profile.regions)] * 3

    found = verify(PROFILE, "bits", [2.9, 3.0, 3.1], again, Bar(0.05), keep, told.append)
    assert kept == [(False, ["one", "two"]), (False, ["one"]), (True, ["one"])]
    assert told == ["bits 3.1000 against 3.0000 in FP32: two in FP32"]
    assert [name for name, _ in found.table] == ["FP32", "round 1", "round 2"]
    assert found.profile.verified
    assert found.profile.reference is not None
    assert found.profile.reference.verified == Spread(3.0, 0.0)
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
    assert Bar(0.10, better).passed(fp32, Spread(3.0 + off, 0.0)) is passed


def test_the_band_without_a_wish() -> None:
    """The larger of 1 % and two standard deviations."""
    assert Bar().band(Spread(3.0, 0.02)) == pytest.approx(0.04)
    assert Bar().band(Spread(-3.0, 0.01)) == pytest.approx(0.03)
    assert math.isnan(spread([1.0, math.inf]).mean)

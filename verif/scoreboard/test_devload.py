# SPDX-License-Identifier: Apache-2.0
"""Tests of the DevLoad rule against a plain history of drawn requests, thresholds and flags."""

import random
from types import SimpleNamespace
from typing import Any

import pytest

from cocotbext.cxl.wire.messages import DevLoad
from verif.scoreboard.devload import RESET_THRESHOLDS, DevLoadRule


def stated(occupancy: int, thresholds: tuple[int, ...]) -> DevLoad:
    """Return the worst level of which the threshold is reached; 0 switches a level off."""
    found = DevLoad.LIGHT
    for name, least in zip(("OPTIMAL", "MODERATE", "SEVERE"), thresholds, strict=True):
        if least and occupancy >= least:
            found = DevLoad[name]
    return found


def request(start: int, rng: random.Random) -> Any:
    """Return a request: with an effect or not, to a region or to none."""
    access = SimpleNamespace(region=rng.choice((None, 0)))
    return SimpleNamespace(start=start, inert=rng.random() < 0.5, access=access)


@pytest.mark.parametrize("seed", range(20))
def test_levels_follow_occupancy_and_thresholds(seed: int) -> None:
    """Check that each occupancy since the request counts, with all thresholds in force since."""
    rng, rule = random.Random(seed), DevLoadRule()
    flight: list[Any] = []
    counts: list[tuple[int, int]] = []  # of each request: its time, and the number in flight
    sets: list[tuple[tuple[int, ...], int]] = [(RESET_THRESHOLDS, 1000)]  # with the time of the end
    for now in range(1, 120):
        act = rng.randrange(7)
        if act < 3:
            rule.request(now)
            flight.append(request(now, rng))
            counts.append((now, len(flight)))
        elif act < 5 and flight:
            op = flight.pop(rng.randrange(len(flight)))
            most = max(number for time, number in counts if time >= op.start)
            force = [one for one, end in sets if end >= op.start]
            levels = {stated(n, one) for one in force for n in range(1, most + 1)}
            assert rule.levels(op) == levels
            found = {one for one in DevLoad if rule.check(op, rng.choice((None, 0)), one) is None}
            assert found == levels
            rule.answered()
        elif act == 5:
            sets.append((tuple(rng.choice((0, *range(1, 8))) for _ in range(3)), 1000))
            rule.thresholds_begin(*sets[-1][0])
        else:
            rule.thresholds_end(now)
            sets[:-1] = [(one, min(end, now)) for one, end in sets[:-1]]


def allowed(
    op: Any, region: int | None, shown: dict[int, int], calm: dict[int, int], cap: bool
) -> set[DevLoad]:
    """Return the levels of a response while all thresholds are 0.

    Args:
        op: Request.
        region: Region of its address, or None.
        shown: Regions in FALLBACK, and when a read has shown it.
        calm: The same of regions that are not.
        cap: Whether the capacity check was ever on.
    """
    never = 1000
    belongs = not op.inert or op.access.region == 0
    if region is not None and op.start > shown.get(region, never) and belongs:
        return {DevLoad.MODERATE}
    known = region is None or op.start > calm.get(region, never)
    return {DevLoad.LIGHT, *((DevLoad.MODERATE,) if not known and (cap or region in shown) else ())}


@pytest.mark.parametrize("seed", range(30))
def test_a_region_in_fallback_is_known_from_reads(seed: int) -> None:
    """Check the levels of a region that a read of FALLBACK has shown, and that may have changed.

    Other regions, and the time before such a read, allow both once the capacity check was on.
    """
    rng, rule = random.Random(seed), DevLoadRule()
    rule.thresholds_begin(0, 0, 0)
    rule.thresholds_end(0)
    flight: list[Any] = []
    risks, risked, cap, shown, calm = 0, False, False, dict[int, int](), dict[int, int]()
    reading = -1, 0
    for now in range(1, 120):
        act = rng.choice(["request", "answer", "answer", "clear", "limits", "read", "read"])
        if act == "request":
            risky = rng.random() < 0.3
            rule.request(now, risky)
            flight.append(request(now, rng))
            risked, risks = risked or risky, risks + risky
            calm = {} if risky else calm
        elif act == "answer" and flight:
            op, region = flight.pop(rng.randrange(len(flight))), rng.choice((None, 0, 1))
            want = allowed(op, region, shown, calm, cap)
            assert {one for one in DevLoad if rule.check(op, region, one) is None} == want
            rule.answered()
            risked = risked and bool(flight)  # the effect may show while others are in flight
        elif act == "clear":
            bits = rng.choice((0, 0, 1, 2, 3))
            rule.clear_fallback(bits)
            shown = {region: time for region, time in shown.items() if not bits >> region & 1}
        elif act == "limits" and rng.random() < 0.1:
            limits = rng.choice(((0, 0), (4, 4), (4, 3)))
            rule.set_capacity(*limits)
            cap |= limits == (4, 3)
        elif act == "read" and reading[0] < 0:
            reading = 10**6 if risked else risks, rule.fallback_begin()
        elif act == "read":
            bits = rng.randrange(4)
            rule.saw_fallback(now, bits, 2, reading[1])
            for region in (0, 1):
                if bits >> region & 1:
                    shown.setdefault(region, now)
                elif reading[0] == risks:
                    calm.setdefault(region, now)
            reading = -1, 0

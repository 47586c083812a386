# SPDX-License-Identifier: Apache-2.0
"""Tests of the signals at their thresholds: bad at the count, good beyond the outer threshold."""

from __future__ import annotations

import math
from typing import Any

import pytest

from neuron_fabric.data import DataError
from neuron_fabric.monitor import Controller, ReducerCounters, StepReport
from neuron_fabric.monitor.bench import LocalGroup, small_profile, small_region
from neuron_fabric.monitor.consensus import Codec
from neuron_fabric.monitor.job_plan import plan_of
from neuron_fabric.monitor.signals import (
    Bad,
    Cosine,
    Events,
    JobSignals,
    Loss,
    Reading,
    Reason,
    RegionReading,
    RegionSignals,
    random_margin,
    region_reading,
)
from neuron_fabric.monitor.thresholds import SHARE_BITS, Thresholds, thresholds_of

LIMITS = Thresholds()
NOISE = [0.002 * (37 * n % 101 - 50) for n in range(101)]
NONE: frozenset[Reason] = frozenset()


def losses(*values: float, loss: Loss | None = None) -> Loss:
    out = loss or Loss()
    for value in values:
        out = out.read(LIMITS, value)
    return out


def steady(steps: int = 100) -> Loss:
    """Return the signal after losses around 2 whose median absolute deviation is 0.05."""
    return losses(*(2 + NOISE[n % len(NOISE)] for n in range(steps)))


def test_a_spike_is_three_in_a_row() -> None:
    limit = 2 + 6 * 1.4826 * 0.05
    for above, bad in ((limit + 0.03, True), (limit - 0.03, False)):
        assert not losses(above, above, loss=steady()).spike.bad
        assert losses(above, above, above, loss=steady()).spike.bad == bad
        assert not losses(above, above, 2.0, above, above, loss=steady()).spike.bad
    high = losses(9.0, 9.0, 9.0, loss=steady())
    between = 2 + 5 * 1.4826 * 0.05  # of the two thresholds
    assert losses(*[between] * 5, loss=high).spike.bad
    assert not losses(2.0, 2.0, 2.0, loss=high).spike.bad
    near: Any = pytest.approx(limit, abs=0.03)
    assert high.bad(LIMITS, NONE) == Bad(Reason.LOSS_SPIKE, 9.0, near)
    assert high.bad(LIMITS, frozenset({Reason.LOSS_SPIKE})) is None


def test_a_short_history_tells_nothing() -> None:
    assert not losses(*[99.0] * 3, loss=steady(LIMITS.loss_least - 3)).spike.bad


def test_a_flat_loss_may_move_a_little() -> None:
    flat = losses(*[1.0] * 60)
    assert not losses(*[1.005] * 5, loss=flat).spike.bad
    assert losses(*[1.01] * 5, loss=flat).spike.bad


def test_a_drift_takes_forty_steps_of_means() -> None:
    up = [2.5 + NOISE[n % 101] for n in range(200)]  # above the best mean by 25 % and 8 sigma
    first = next(n for n in range(200) if losses(*up[: n + 1], loss=steady()).drift.bad)
    assert LIMITS.drift_count <= first <= LIMITS.drift_count + LIMITS.mean_window
    little = [2.1 + NOISE[n % 101] for n in range(200)]  # 5 %
    assert not losses(*little, loss=steady()).drift.bad
    assert losses(*up, loss=steady()).admitted().best is None


def rising(share: float, steps: int, noise: float = 1.0) -> list[float]:
    """Return losses around 2 that rise by ``share`` in 40 steps, with noise."""
    shaken = [noise * NOISE[37 * n % 101] for n in range(steps)]
    return [2 * (1 + share * n / 40) + one for n, one in enumerate(shaken)]


def test_a_line_that_rises() -> None:
    """Check when a rising loss is bad: more than 10 % in the window and 4 standard errors, 3 times.

    It is good again below 5 %.
    """
    window, count = LIMITS.slope_window, LIMITS.slope_count
    assert not losses(*rising(0.2, window + count - 2)).slope.bad
    bad = losses(*rising(0.2, window + count - 1))
    near: Any = pytest.approx(0.2, abs=0.03)
    assert bad.bad(LIMITS, NONE) == Bad(Reason.LOSS_SLOPE, near, LIMITS.slope_in)
    assert bad.bad(LIMITS, frozenset({Reason.LOSS_SLOPE})) is None
    assert not losses(*rising(0.08, 200)).slope.bad
    assert not losses(*rising(0.2, window + count - 1, noise=12.0)).slope.bad  # nothing but noise
    top = rising(0.2, window + count - 1)[-1]
    assert not losses(*[top] * 60, loss=bad).slope.bad


def test_a_line_begins_with_low_bit() -> None:
    """Check that a difference between losses before and after the start of low-bit is no trend."""
    step = [*rising(0.0, 60), *(one + 0.5 for one in rising(0.0, 60))]
    assert any(losses(*step[:n]).slope.bad for n in range(61, 90))
    before = losses(*step[:60]).admitted()
    assert not any(losses(*step[60:n], loss=before).slope.bad for n in range(61, 121))


def test_warmup_goes_on_while_the_loss_falls() -> None:
    assert losses(*(4 * 0.97**n for n in range(60))).falls(LIMITS)
    assert not losses(*(4 * 0.995**n for n in range(60))).falls(LIMITS)
    assert not losses(*(4 * 0.5**n for n in range(39))).falls(LIMITS)  # two windows are needed


def test_the_mean_of_cosines_and_one_alone() -> None:
    good = Cosine().read(LIMITS, 0.6)
    assert not good.read(LIMITS, 0.11).gate.bad  # mean 0.355
    assert good.read(LIMITS, 0.11).read(LIMITS, 0.2).gate.bad  # mean 0.28
    at_once = good.read(LIMITS, 0.09)
    assert at_once.gate.bad
    assert at_once.why(LIMITS).limit == LIMITS.floor
    between = at_once.read(LIMITS, 0.32)
    assert between.gate.bad
    assert not between.read(LIMITS, 0.6).gate.bad
    assert good.read(LIMITS, None) == good
    assert good.read(LIMITS, 0.5).good == 2
    assert good.read(LIMITS, 0.34).good == 0


Values = tuple[str, float, float, float, int, float | None]
LEVELS: dict[str, Values] = {
    "the norm": ("norm", 2.1, 1.8, 1.5, LIMITS.norm_count, None),
    "a norm that is too small": ("norm", -2.1, -1.8, -1.5, LIMITS.norm_count, None),
    "a worker against the others": ("agreement", -0.051, -0.03, -0.019, LIMITS.against_count, None),
    "a margin": ("margin", 0.019, 0.03, 0.041, LIMITS.margin_count, 0.2),
    "a quarter of the profile's margin": ("margin", 0.009, 0.02, 0.031, LIMITS.margin_count, 0.04),
    "saturation": ("saturation", 0.51, 0.45, 0.39, 1, 0.1),
    "saturation without a profile": ("saturation", 0.51, 0.45, 0.39, 1, None),
    "four times the profile's saturation": ("saturation", 0.81, 0.7, 0.63, 1, 0.2),
}
"""Signal, a value beyond its limit, one between both limits, a good one, count, profile's value."""


@pytest.mark.parametrize("values", LEVELS.values(), ids=LEVELS)
def test_a_level_is_bad_at_its_count_and_good_beyond_the_outer_limit(values: Values) -> None:
    """Check a signal's hysteresis: bad after enough values in a row, good after enough good ones.

    A value between the limits interrupts the row, and a missing value does not.
    """
    name, beyond, between, good, count, profile = values

    def after(*read: float | None, one: RegionSignals | None = None) -> RegionSignals:
        out = one or RegionSignals()
        for value in read:
            got = RegionReading(reference=0.0, worker=3, **{name: value})  # type: ignore[arg-type]
            out = out.read(LIMITS, got, profile, profile)
        return out

    row = [beyond] * (count - 1)
    for fine in ([good] * 10, row, [*row, between, *row]):
        assert after(*fine).bad(LIMITS, NONE) is None
    bad = after(*row, None, beyond)
    why = bad.bad(LIMITS, NONE)
    assert why is not None
    assert (why.signal, why.value) == (name, beyond)
    assert why.worker == (3 if name == "agreement" else -1)
    assert bad.bad(LIMITS, frozenset({Reason(name)})) is None
    assert after(*[between] * 9, one=bad).bad(LIMITS, NONE) is not None
    assert after(*[good] * count, one=bad).bad(LIMITS, NONE) is None


def test_what_has_no_reference_is_not_judged() -> None:
    """Check that a norm before the first sample, or a margin without a reference, is not bad."""
    one = RegionSignals()
    for _ in range(10):
        one = one.read(LIMITS, RegionReading(norm=9.0, margin=-0.5), None, None)
    assert one.bad(LIMITS, NONE) is None


def test_a_spike_in_a_loss_that_falls() -> None:
    """Check that a spike of 6 times is found in a loss that falls to a tenth in 100 steps.

    Among all these losses, 6 times the last one would be no spike. It is so in `nf train check
    pairs100`.
    """
    falling = [4.0 * 0.977**n * (1 + NOISE[n] / 4) for n in range(100)]
    loss = losses(*falling)
    assert not loss.spike.bad
    assert not losses(falling[-1] * 1.2, falling[-1] * 1.2, loss=loss).spike.run
    high = 6 * falling[-1]
    assert high < 4.0
    assert losses(high, high, high, loss=loss).spike.bad


def test_three_steps_of_a_hundred() -> None:
    def after(*steps: int) -> bool:
        one = Events()
        for step in range(max(steps) + 1):
            one = one.read(LIMITS, step, step in steps)
        return one.bad(LIMITS)

    assert after(5, 60, 104)
    assert not after(5, 60, 105)
    assert not after(5, 60)


def test_units_of_a_report() -> None:
    assert random_margin(8) == pytest.approx(0.2734, abs=1e-4)
    report = StepReport(
        0,
        cosines={"a": (3.0, 4.0, 9.0), "b": (1.0, 0.0, 1.0), "c": (0.0, 1.0, 0.0)},
        norms={"a": (16.0, 4.0), "b": (math.nan, None)},
        margins={"a": (8 * 100, 100), "b": (0, 0)},
    )
    a, b, c = (region_reading(report, name, 8) for name in "abc")
    assert a == RegionReading(0.5, 2.0, 1.0, 1.0)
    assert b == RegionReading()
    assert c.cosine == 0.0  # a decoded gradient of zeros points nowhere


def test_gradients_that_shrink_are_no_fault() -> None:
    """Check that a norm that falls between samples demotes no region (`nf train check digits`).

    The FP32 norm is sampled again before a region would be demoted.
    """
    profile = small_profile((small_region("a", 1000),))
    one = Controller(profile, LocalGroup(1).rank(0), plan=plan_of(profile, warmup=5))
    samples = []
    for step in range(120):
        due = one.samples()
        samples += [step] if due else []
        square = 0.8 ** max(0, step - 20)
        cosines = dict.fromkeys(due, (0.6, 1.0, 1.0))
        norms = {"a": (square, square if due else None)}
        one.step_end(StepReport(step, cosines=cosines, norms=norms))
    one.routes()
    assert not [each for each in one.decisions if each.signal == Reason.NORM]
    # None for nothing: 13 steps of 0.8 make a norm of a quarter, and two come in their time.
    assert sum(step > 20 for step in samples) <= 99 // 13 + 2


def test_a_norm_that_is_wrong_everywhere_is_the_jobs() -> None:
    """Check that one region of bad norm is demoted, but most low-bit elements cause FALLBACK."""
    profile = small_profile(tuple(small_region(name, 1000) for name in "abc"))
    for wrong, where in (("a", "a"), ("abc", "")):
        one = Controller(profile, LocalGroup(1).rank(0), plan=plan_of(profile, warmup=5))
        for step in range(60):
            due, norms = one.samples(), {}
            for name in "abc":
                scale = 256.0 if step > 20 and name in wrong else 1.0
                norms[name] = scale, 1.0 if name in due else None
            cosines = dict.fromkeys(due, (0.6, 1.0, 1.0))
            one.step_end(StepReport(step, cosines=cosines, norms=norms))
        one.routes()
        first = next(each for each in one.decisions if each.signal == Reason.NORM)
        target = "DEMOTED" if where else "FALLBACK"
        assert (first.step, first.region, first.target) == (28, where, target)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"drop": "x"}, "monitor.drop: 'x' is not a number"),
        ({"drop": 0}, "monitor.drop is 0"),
        ({"drop": 3.0}, "monitor.drop is 3.0, must be above 0, and 1 at most"),
        ({"saturation_in": 50.0}, "monitor.saturation_in is 50.0"),
        ({"spike_in": 1e10}, "must be above 0, and 1,000,000,000 at most"),
        ({"norm_out": 9}, "monitor.norm_out is 9"),
        ({"speed": 1}, "field 'speed' is not known"),
    ],
)
def test_bad_thresholds_are_one_line(values: dict[str, object], words: str) -> None:
    with pytest.raises(DataError) as caught:
        thresholds_of(values)
    assert words in str(caught.value)
    assert thresholds_of({"drop": 0.25}).good == pytest.approx(0.30)


@pytest.mark.parametrize("world", [1, 3, 64])
@pytest.mark.parametrize("tenths", [1, 7, 10**6])
def test_exactly_a_tenth_severe(world: int, tenths: int) -> None:
    """Check that a share of exactly 10 % DevLoad severe is accepted, and one answer more is not."""
    for more, bad in ((-1, False), (0, False), (1, True)):
        counters = ReducerCounters(answers=10 * tenths, severe=tenths + more)
        one = Codec(plan_of(small_profile(())), world, 0).encode(StepReport(0, reducer=counters))
        reading = Codec(plan_of(small_profile(())), world, 0).decode(0, (one * world).tolist())
        assert JobSignals().read(LIMITS, reading).device == bad, (world, tenths, more)


def test_exactly_the_limit() -> None:
    """Check signals at each limit of 1 % to 99 %, and one fixed-point unit below and above it."""
    unit = 1 / (1 << SHARE_BITS)
    for tenth in range(1, 100):
        limit = tenth / 100
        arrived = round(limit / unit) * unit
        severe = Thresholds(severe=limit)
        drop = Thresholds(drop=limit, readmit=1.0, floor=limit / 2)
        floor = Thresholds(drop=limit, readmit=1.0, floor=limit)
        margin = Thresholds(margin_in=limit, margin_out=1.0, margin_share=100.0, margin_count=1)
        full = Thresholds(saturation_in=limit, saturation_out=limit / 2)
        for offset in (-1, 0, 1):
            value = arrived + offset * unit
            region = RegionReading(cosine=value, margin=value, saturation=value)
            assert JobSignals().read(severe, Reading(0, (), severe=value)).device == (offset > 0)
            for limits in (drop, floor):
                assert Cosine().read(limits, value).gate.bad == (offset < 0)
            read = RegionSignals().read(margin, region, 1.0, None)
            assert read.margin.gate.bad == (offset < 0)
            read = RegionSignals().read(full, region, None, None)
            assert read.saturation.gate.bad == (offset > 0)

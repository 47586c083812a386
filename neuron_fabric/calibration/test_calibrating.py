# SPDX-License-Identifier: Apache-2.0
"""Tests of the calibration on the results of made-up trainings, and of the command `calibrate`:
refused arguments, and a training of two real workers."""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")

import numpy as np

from neuron_fabric import __main__ as command
from neuron_fabric.calibration import calibrate_command, calibrating
from neuron_fabric.calibration.calibrating import Asked, Trainings, calibrate
from neuron_fabric.calibration.calibration_job import (
    CALIBRATE,
    NAMES,
    ROWS,
    SEED,
    About,
    CalibrationError,
    Job,
    Report,
    RowWriter,
    checked_metrics,
    job_of,
    read_report,
    read_rows,
    write_job,
    write_report,
)
from neuron_fabric.calibration.shadow_run import shadow_sums
from neuron_fabric.calibration.verification import (
    MOST_SEEDS,
    ROUNDS,
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
from neuron_fabric.capacity.cost_model import Device
from neuron_fabric.capacity.substrate import shipped, write_substrate
from neuron_fabric.codec import Route
from neuron_fabric.data import read_object
from neuron_fabric.errors import CaptureError, ProfileError
from neuron_fabric.launcher import run_workers
from neuron_fabric.monitor import log
from neuron_fabric.monitor.signals import Reading
from neuron_fabric.profile import Kind, Parameter, PhaseRoute, Profile, Region, read_profile
from neuron_fabric.profile.profile_command import run as profile_verb
from neuron_fabric.profile.profile_types import FULL, Floor, ModelId, Spread, ValidFor, warmup_of
from neuron_fabric.profile.route_rule import apply_rule, codes_that_pass
from neuron_fabric.profile.samples import Samples, Way, read_samples, samples_path, write_samples
from neuron_fabric.tests.ddp.shadow_cases import naive_statistics
from neuron_fabric.tests.python_process import ROOT, run_python
from neuron_fabric.typed import typed

COSINES = {"first.weight": 0.50, "second.weight": 0.60, "head.weight": 0.10, "tiny": 0.9}
CODES = {"G_INT4": 0.85, "G_INT8": 0.99}
STEPS, EVERY = 40, 4
VALID = ValidFor((4, 4), (8, 8), 2, "SGD()", True, "bfloat16")


def parameters() -> tuple[Parameter, ...]:
    kinds = (Kind.LINEAR, Kind.CONV, Kind.HEAD, Kind.BIAS)
    return tuple(
        Parameter(name, (8 if name == "tiny" else 4096,), "float32", True, kind, 0, (name,))
        for name, kind in zip(COSINES, kinds, strict=True)
    )


def put_rows(folder: Path, steps: int, about_steps: int | None = STEPS) -> None:
    """Write the measurements of a made-up training of ``steps`` steps to ``folder``.

    The cosines are COSINES for the vote of G_BINARY, CODES for integer codes, and 0.2 otherwise.
    """
    routes = ("G_BINARY", "G_TERNARY", *CODES)
    about = About(4, EVERY, routes, parameters(), about_steps, VALID)
    rows = RowWriter(folder, about)
    for step in range(0, steps, EVERY):
        found: dict[tuple[str, str, str], dict[str, float]] = {}
        for name, cosine in COSINES.items():
            for route, decode in about.ways:
                least = cosine if (route, decode) == ("G_BINARY", "vote") else 0.2
                least = CODES.get(route, least)
                sums = dict.fromkeys(NAMES, 1.0) | {"dot": least, "zeros": 0.0}
                if name != "tiny":
                    found[name, route, decode] = sums
        rows.put(step, found)
    rows.close()


@dataclass
class Script:
    """Stand-in for a training script, called as `Trainings` calls one.

    Attributes:
        metric: Function of the seed and the low-bit regions that gives the reported accuracy.
        stop: Step at which the sampled training fails.
        interrupt: Whether it raises KeyboardInterrupt.
        silent: Whether it writes no report.
        same: Whether all trainings report the same weights.
        ran: (seed, low-bit regions; None in FP32) of each training.
        jobs: Job of each training.
    """

    metric: Callable[[int, frozenset[str]], float]
    stop: int | None = None
    interrupt: bool = False
    silent: bool = False
    same: bool = False
    ran: list[tuple[int, frozenset[str] | None]] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)

    def __call__(self, folder: Path, seed: int) -> str | None:
        job = typed(Job, read_object(folder / "job.json"))
        self.jobs.append(job)
        low: frozenset[str] | None = None
        if job.profile is not None:
            profile = read_profile(Path(job.profile))
            assert profile.verified  # else every region would have to pass PROBE first
            low = frozenset(one.name for one in profile.regions if one.low_bit)
        self.ran.append((seed, low))
        if job.every:
            put_rows(folder, self.stop or STEPS)
            if self.interrupt:
                raise KeyboardInterrupt
            if self.stop:
                return "worker 1 was ended by signal 9"
        if not self.silent:
            metrics = {"accuracy": self.metric(seed, low or frozenset()), "other": 1.0}
            weights = "same" if self.same else f"{seed} {low}"
            write_report(folder, Report(metrics, STEPS, weights))
        return None


def calibrated(tmp_path: Path, script: Script, **words: Any) -> tuple[int, Profile]:
    base = Path(tempfile.mkdtemp(dir=tmp_path))
    out = tmp_path / "p.toml"
    code = calibrate(Asked(out, 4, EVERY, **words), Trainings(base, script))
    return code, read_profile(out)


def rule_again(path: Path, **given: Any) -> int:
    """Run `nf train profile rule` on a profile, writing to the same file; return the exit code."""
    unset = dict.fromkeys(("shrink", "routes", "protect", "assign"))
    words = {"floor": [], **unset, **given}
    return profile_verb(argparse.Namespace(what="rule", profile=path, out=path, **words))


def good(seed: int, low: frozenset[str]) -> float:
    return 0.9 + 0.001 * seed


def test_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, measured = Script(good), ("G_BINARY", "G_INT8")
    code, profile = calibrated(tmp_path, script, measured=measured)
    assert (code, script.jobs[0].routes) == (0, measured)
    assert profile.verified
    both = frozenset({"linear.0", "conv.0"})
    assert script.ran == [*((1, None), (2, None), (3, None)), *((1, both), (2, both), (3, both))]
    assert profile.reference is not None
    assert profile.reference.metric == "accuracy"
    assert profile.reference.fp32.mean == pytest.approx(0.902)
    assert profile.reference.verified is not None
    head = profile.region("head").phases["steady"]
    assert (head.route, head.why) == (Route.FP32, "G_BINARY net: cosine 0.200 < 0.45")
    assert profile.phases.warmup.steps == 0.1  # the script told `attach` its steps
    assert profile.valid_for == VALID
    out = capsys.readouterr().out
    assert "round 1         0.9010    0.9020    0.9030    0.9020" in out
    assert "difference by seed: mean +0, 95 % interval +0 to +0" in out
    assert profile.reference.difference == (0, 0)
    assert out.endswith(f"wrote {tmp_path}/p.toml, verified\n")


def test_the_rule_again_without_training(tmp_path: Path) -> None:
    calibrated(tmp_path, Script(good), verify=False)
    path = tmp_path / "p.toml"
    samples = read_samples(samples_path(path))
    assert samples.steps["warmup"].tolist() == [0]  # 4 steps of 40
    assert samples.steps["steady"].tolist() == list(range(4, STEPS, EVERY))
    assert rule_again(path, floor=[("G_BINARY", 0.55)]) == 0
    changed = read_profile(path)
    assert changed.region("linear.0").phases["steady"].route == Route.FP32
    assert changed.region("conv.0").phases["steady"].route == Route.G_BINARY


def test_codes_are_measured_and_chosen_where_they_are_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check that the rule chooses integer codes only if its routes name them.

    They are then used where no vote passes, and 4 bits before 8.
    """
    calibrated(tmp_path, Script(good), verify=False)
    out = capsys.readouterr().out
    assert "nf train profile rule --routes`):\n  head: G_INT4 would pass, cosine 0.850\n" in out
    path = tmp_path / "p.toml"
    found = read_profile(path).region("head").measured["steady"]["G_INT8"]["vote"]
    assert found["cosine"] == pytest.approx((0.99, 0.99))
    assert "margin" not in found or found["margin"][0] > 0
    routes = (Route.G_BINARY, Route.G_INT8, Route.G_INT4)
    assert rule_again(path, routes=routes) == 0
    changed = read_profile(path)
    assert changed.rule.routes == routes
    assert changed.region("conv.0").phases["steady"].route == Route.G_BINARY
    head = changed.region("head").phases
    assert (head["steady"].route, head["steady"].why) == (Route.G_INT4, "cosine 0.850 >= 0.80")
    assert (head["steady"].shrink, head["recovery"].route) == (1, Route.G_INT8)
    assert not codes_that_pass(changed)
    again = replace(changed, rule=replace(changed.rule, floor=Floor(other=0.995)))
    assert not codes_that_pass(apply_rule(again, read_samples(samples_path(path))))
    put = replace(read_samples(samples_path(path)), sums={})
    write_samples(put, samples_path(path))
    with pytest.raises(ProfileError, match="G_BINARY, G_INT4, G_INT8: not measured; calibrate"):
        rule_again(path, routes=routes)


def test_what_is_protected_is_chosen(tmp_path: Path) -> None:
    """Check that `protect` decides which kinds get votes, in a calibration and in a later rule."""
    cosines = {**COSINES, "head.weight": 0.7}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "COSINES", cosines)
        for protect, wanted in (((), Route.G_BINARY), ((Kind.HEAD,), Route.FP32)):
            _, profile = calibrated(tmp_path, Script(good), verify=False, protect=protect)
            assert profile.rule.protect == protect
            assert profile.region("head").phases["steady"].route == wanted
    path = tmp_path / "p.toml"
    assert rule_again(path, protect=(Kind.CONV,)) == 0
    routes = {one.name: one.phases["steady"].route for one in read_profile(path).regions}
    assert (routes["head"], routes["conv.0"]) == (Route.G_BINARY, Route.FP32)


def test_too_few_seeds_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    noise = (0.005, -0.004, 0.001)
    script = Script(lambda seed, low: good(seed, low) + noise[seed - 1] * bool(low))
    assert calibrated(tmp_path, script)[0] == 1
    text = "3 seeds cannot show that accuracy is within 0.00902 of FP32; give more --seeds"
    assert text in capsys.readouterr().out


@pytest.mark.parametrize("codes", [0.9, 0.7])
def test_six_routes_are_given_up_at_most(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], codes: float
) -> None:
    """Check that a verification that never passes gives up the votes of six regions, then ends.

    That is seven rounds of three trainings after the three in FP32. The six regions use codes of 8
    bits if these pass their floor of 0.8, else FP32.
    """
    kinds = [one for one in Kind if one not in (Kind.ATTENTION, Kind.REST)]
    script = Script(lambda seed, low: good(seed, low) - 0.3 * bool(low))
    many = tuple(Parameter(one, (2048,), "float32", True, one, 0, (one,)) for one in kinds)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "parameters", lambda: many)
        patch.setitem(globals(), "COSINES", {one: 0.5 + n / 50 for n, one in enumerate(kinds)})
        patch.setitem(CODES, "G_INT8", codes)
        code, profile = calibrated(tmp_path, script, protect=())
    assert (code, profile.verified) == (1, False)
    assert "not verified: accuracy is not within 0.00902 of FP32" in capsys.readouterr().out
    assert len(script.ran) == 3 + 3 * (ROUNDS + 1)
    routes = {one.name: one.phases["steady"].route for one in profile.regions}
    given_up = [name for name, route in routes.items() if not route.votes]
    assert given_up == ["head", "embedding", "norm", "bias", "conv.0", "linear.0"]
    passed = codes > 0.8
    assert {routes[one] for one in given_up} == {Route.G_INT8 if passed else Route.FP32}
    low = [7] * (ROUNDS + 1) if passed else [7, 6, 5, 4, 3, 2, 1]
    assert [len(low or ()) for _, low in script.ran[3::3]] == low


@pytest.mark.parametrize("interrupt", [False, True])
def test_stopped_early(tmp_path: Path, interrupt: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Check that a training that fails or is interrupted gives a usable profile, not verified."""
    code, profile = calibrated(tmp_path, Script(good, stop=17, interrupt=interrupt))
    assert code == 1
    assert not profile.verified
    ran = profile.calibration
    assert ran is not None
    assert (ran.steps, ran.samples, ran.stopped_early) == (17, 5, True)
    assert profile.region("conv.0").phases["steady"].route == Route.G_BINARY
    samples = read_samples(samples_path(tmp_path / "p.toml"))
    assert samples.steps["steady"].tolist() == [4, 8, 12, 16]
    why = "interrupted" if interrupt else "worker 1 was ended by signal 9"
    said = f"stopped early ({why}) after 17 steps; usable, not verified"
    assert said in capsys.readouterr().out


def test_stopped_before_the_first_sample(tmp_path: Path) -> None:
    def nothing(folder: Path, seed: int) -> str:
        return "worker 0 ended with code 2"

    (tmp_path / "runs").mkdir()
    with pytest.raises(CalibrationError, match="nothing was measured; does the script call att"):
        calibrate(Asked(tmp_path / "p.toml", 4), Trainings(tmp_path / "runs", nothing))
    assert not (tmp_path / "p.toml").exists()


def test_a_cut_row_is_left_out(tmp_path: Path) -> None:
    put_rows(tmp_path, 12)
    path = tmp_path / ROWS
    path.write_bytes(path.read_bytes()[:-5])
    _, steps, sums = read_rows(tmp_path)
    assert steps.tolist() == [0, 4]
    assert sums.shape == (2, 12 + len(CODES), len(NAMES), 4)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(CalibrationError, match="no sample was taken"):
        read_rows(tmp_path)
    (tmp_path / "about.json").write_text("{", encoding="utf-8")
    with pytest.raises(CalibrationError, match="is damaged"):
        read_rows(tmp_path)


def test_what_the_script_has_to_do(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match=r"reported no metric; call rt.report"):
        calibrated(tmp_path, Script(good, silent=True))
    assert not read_profile(tmp_path / "p.toml").verified  # but it is there
    with pytest.raises(CalibrationError, match="gave the same weights; let the script take"):
        calibrated(tmp_path, Script(good, same=True))
    with pytest.raises(CalibrationError, match="'loss' was not reported, but accuracy, other"):
        calibrated(tmp_path, Script(good), metric="loss")
    assert calibrated(tmp_path, Script(good), metric="other")[0] == 0


def test_shrink_is_chosen(tmp_path: Path) -> None:
    for shrink, wanted in (("fit", 0.5), ("one", 1.0)):
        _, profile = calibrated(tmp_path, Script(good), verify=False, shrink=shrink)
        assert profile.rule.shrink == shrink
        assert profile.region("linear.0").phases["steady"].shrink == wanted


def test_nothing_low_bit_nothing_to_verify(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "COSINES", dict.fromkeys(COSINES, 0.1))
        script = Script(good)
        code, profile = calibrated(tmp_path, script)
    assert (code, profile.verified, len(script.ran)) == (0, False, 1)


def test_a_warmup_of_steps_that_the_script_does_not_tell(tmp_path: Path) -> None:
    script = Script(good)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "put_rows", lambda at, n, put=put_rows: put(at, n, None))
        _, profile = calibrated(tmp_path, script, verify=False, warmup=0.2)
    assert profile.phases.warmup.steps == 8
    assert [warmup_of(*one) for one in ((0.1, 200), (0.1, 10), (7, 10), (0, 9))] == [20, 3, 7, 3]


@pytest.mark.parametrize(("dear", "shown"), [(0.03, "3.0"), (math.inf, "inf")])
def test_impact_is_a_veto(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dear: float, shown: str
) -> None:
    """Check that a region with a loss impact of 3 standard deviations uses FP32; 1 is accepted."""
    costs = {None: 0.0, "linear.0": dear, "conv.0": 0.01}
    asked: list[tuple[str | None, int]] = []

    def loss(profile: Profile, name: str | None, warm: int, seed: int, runs: Any) -> float:
        asked.append((name, seed))
        assert warm == 4
        low = [one.name for one in calibrating.isolated(profile, name, warm).regions if one.low_bit]
        assert low == [name] * (name is not None)
        return 2.0 + 0.01 * (seed - 1) + costs[name]

    monkeypatch.setattr(calibrating, "_loss", loss)
    _, profile = calibrated(tmp_path, Script(good), impact=True, verify=False)
    assert asked == [(None, 1), (None, 2), (None, 3), ("linear.0", 1), ("conv.0", 1)]
    steady = profile.region("linear.0").phases["steady"]
    assert (steady.route, steady.why) == (Route.FP32, f"loss impact {shown} spreads > 2")
    assert profile.region("conv.0").phases["steady"].route == Route.G_BINARY
    found = profile.region("conv.0").measured["steady"]["G_BINARY"]["vote"]
    assert found["loss_impact"] == pytest.approx((1, 1))


@pytest.mark.parametrize("full", [[2.0, 2.0, 2.0], [2.0, math.inf, 2.0]])
def test_no_impact_without_a_spread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: list[float]
) -> None:
    """Check that equal or infinite losses of the FP32 trainings are refused as a reference.

    Equal ones would accept or refuse any region.
    """
    losses = iter([*full, 9.0, 9.0])
    monkeypatch.setattr(calibrating, "_loss", lambda *_: next(losses))
    with pytest.raises(CalibrationError, match=r"FP32 with other seeds are 2.0, .*NF_SEED"):
        calibrated(tmp_path, Script(good), impact=True, verify=False)


def test_a_loss_that_is_not_finite_counts() -> None:
    """Check mean_loss: the mean after the warm-up, infinite if a loss was NaN or infinite.

    The log holds such a loss as a count only.
    """

    def mean(*losses: float | None, nonfinite: float = 0.0) -> float:
        steps = [Reading(4 + n, (), loss=one) for n, one in enumerate(losses)]
        before = Reading(3, (), loss=9.0)
        return calibrating.mean_loss([before, *steps, Reading(9, (), nonfinite=nonfinite)], 4)

    assert mean(1.0, 2.0, None) == 1.5
    assert mean(1.0, nonfinite=2.0) == math.inf
    with pytest.raises(CalibrationError, match=r"observed no loss; call rt.observe\(loss\)"):
        mean()


# Verification: the order of the routes that are given up, and its end.


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
    """Check that the weakest region is the one nearest its floor: 0.56 is, by 0.01, before 0.54."""
    first = weakest(PROFILE)
    assert first is not None
    assert first.name == "two"


def test_votes_then_codes_then_fp32() -> None:
    """Check that all votes are given up before the first codes, whatever the margins are."""
    coded = {Route.G_INT8.value: {"vote": {"cosine": (0.81, 0.9)}}}
    both = replace(
        PROFILE,
        regions=tuple(
            replace(one, measured={"steady": {**one.measured["steady"], **coded}})
            for one in PROFILE.regions
        ),
    )
    routes: list[list[str]] = []

    def again(profile: Profile) -> list[float]:
        routes.append([str(one.phases["steady"].route) for one in profile.regions])
        return [one + 1 for one in full]

    full = [2.9, 3.0, 3.1]
    verify(both, "bits", full, again, Bar(0.05), lambda profile: None, lambda text: None)
    assert routes == [
        *(["G_BINARY", "G_TERNARY"], ["G_BINARY", "G_INT8"], ["G_INT8", "G_INT8"]),
        *(["FP32", "G_INT8"],),
    ]


def test_rounds_until_it_is_near() -> None:
    """Check a verification that passes in round 2: all profiles are written, the last verified."""
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
    ("better", "off", "half", "passed"),
    [
        *(("either", 0.11, 0, False), ("either", -0.11, 0, False), ("either", 0.09, 0, True)),
        *(("lower", -0.5, 0, True), ("lower", 0.11, 0, False), ("higher", -0.11, 0, False)),
        *(("higher", 0.5, 0, True), ("either", math.nan, 0, False), ("lower", math.nan, 0, False)),
        *(("either", -0.05, 0.04, True), ("either", -0.05, 0.06, False)),
        *(("lower", -0.05, 0.06, True), ("higher", -0.05, 0.06, False)),
    ],
)
def test_near_enough(better: Better, off: float, half: float, passed: bool) -> None:
    """Check that the far end of the interval around a difference decides, unless means count."""
    fp32, found = Spread(3.0, 0.02), Paired(off, half, 3)
    assert Bar(0.10, better).passed(fp32, found) is passed
    assert Bar(0.10, better, means=True).passed(fp32, found) is (passed or half > 0)


def test_the_tolerance_without_a_wish() -> None:
    """Check the default tolerance: 1 % of the metric, whatever the standard deviation of FP32."""
    assert Bar().band(Spread(3.0, 0.5)) == pytest.approx(0.03)
    assert Bar().band(Spread(-3.0, 0.01)) == pytest.approx(0.03)
    assert math.isnan(spread([1.0, math.inf]).mean)


def judged(full: list[float], *rounds: list[float], bar: Bar | None = None) -> Verification:
    """Return a verification with made-up metrics: of FP32, and of the profile in each round."""
    values = iter(rounds)
    keep, tell = (lambda profile: None), (lambda text: None)
    return verify(PROFILE, "accuracy", full, lambda _: next(values), bar or Bar(), keep, tell)


def test_worse_on_every_seed_is_not_verified() -> None:
    """Check that damage below the standard deviation of FP32 (10 points) prevents verification."""
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
    """Check that equal means with too few seeds are not verified, and no region is moved to FP32.

    With ten seeds, or judged by means, the profile is verified.
    """
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


def test_a_metric_that_is_not_finite_is_refused() -> None:
    with pytest.raises(CalibrationError, match="accuracy of the trainings in FP32 is not finite"):
        judged([math.inf, 1.0, 1.0])


def test_pairs_are_of_one_seed() -> None:
    """Check that values are compared seed by seed: variation that the seeds share is not noise."""
    assert judged([80.0, 90.0, 100.0], [80.1, 90.0, 100.1]).profile.verified
    assert not judged([80.0, 90.0, 100.0], *[[100.1, 80.1, 90.0]] * 3).profile.verified


def test_students_t() -> None:
    stats = pytest.importorskip("scipy.stats", reason="scipy comes with scikit-learn")
    assert (SEEDS, MOST_SEEDS) == (3, 10)
    for degrees, t in enumerate(T975, 2):
        assert t == round(stats.t.ppf(0.975, degrees), 3)


# Files of jobs and reports; a damaged file gives one line.


def test_reports_and_jobs(tmp_path: Path) -> None:
    assert job_of({}) is None
    with pytest.raises(CalibrationError, match=r"job.json cannot be read \(No such file"):
        job_of({"NF_CALIBRATE": str(tmp_path)})
    write_job(tmp_path, Job(every=3))
    assert job_of({"NF_CALIBRATE": str(tmp_path)}) == (tmp_path, Job(every=3))
    (tmp_path / "job.json").write_text('{"every": "x"}', encoding="utf-8")
    with pytest.raises(CalibrationError, match="every: 'x' is not an integer"):
        job_of({"NF_CALIBRATE": str(tmp_path)})
    assert read_report(tmp_path) is None
    write_report(tmp_path, Report({"a": math.nan, "b": 1.0}, 3, "x"))
    found = read_report(tmp_path)
    assert found is not None
    assert math.isnan(found.metrics["a"])
    assert replace(found, metrics={}) == Report({}, 3, "x")
    (tmp_path / "report.json").write_text(json.dumps({"metrics": 1}), encoding="utf-8")
    with pytest.raises(CalibrationError, match="is damaged"):
        read_report(tmp_path)
    assert checked_metrics({"a": np.float32(1), "b": 2}) == {"a": 1.0, "b": 2.0}
    with pytest.raises(CalibrationError, match="no metric is given"):
        checked_metrics({})
    with pytest.raises(CalibrationError, match="a is a str; give it a number"):
        checked_metrics({"a": "much"})
    with pytest.raises(CalibrationError, match="a is a int; give it a number"):
        checked_metrics({"a": 10**400})
    with pytest.raises(CalibrationError, match="a is a Tensor; give it a number"):
        checked_metrics({"a": torch.ones(2)})


# Statistics of a shadow without a training; `tests/ddp/shadow_cases.py` has those of trainings.


def test_what_is_not_finite_has_no_cosine() -> None:
    x = np.ones(4, np.float32)
    bad = np.array([1, np.nan, 1, 1], np.float32)
    for m, d, norm in ((bad, x, 1.0), (x, bad, 1.0), (x, x, np.inf)):
        assert not any(shadow_sums(m, d, x, 2, np.array([norm, 0.0, 8.0])).values())


def test_means_of_a_region() -> None:
    """Check a region's statistics: ratios of sums over its tensors, then means over the samples."""
    sent = np.random.default_rng(2).standard_normal((2, 4, 2, 500)).astype(np.float32)
    naive = partial(naive_statistics, route="G_BINARY", decode="vote")
    ids = np.zeros(1000, np.intp)
    each = [[naive(x, ids=ids[:500]) for x in s.transpose(1, 0, 2)] for s in sent]
    whole = [naive(s.reshape(4, 1000), ids=ids) for s in sent]
    way = Way("steady", "G_BINARY", "vote")
    sums = {name: np.array([[one[name] for one in row] for row in each]) for name in NAMES}
    samples = Samples(4, ("a", "b"), (500, 500), {"steady": np.arange(2)}, {way: sums})
    found = samples.statistics(way, [0, 1], [np.ones(2, bool)])
    for name, wanted in {
        "gate": [1.0, 1.0],
        "snr": [3 * one["mean2"] / one["noise2"] for one in whole],
        "moment4": [1000 * one["mean4"] / one["mean2"] ** 2 for one in whole],
        "agreement": [one["agree"] / 1000 for one in whole],
        "weighted_agreement": [one["weighted"] / one["mean1"] for one in whole],
    }.items():
        assert found[name][0] == pytest.approx(np.mean(wanted), rel=1e-5)
    # Random signs: no margin that the monitor could judge by.
    assert ("margin" in found) == (np.mean([one["margin"] for one in whole]) > 0)


# The command, and a training of two real workers.

TRAINING = """
import os, sys
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from neuron_fabric import attach

torch.set_num_threads(1)
dist.init_process_group("gloo")
seed = int(os.environ["NF_SEED"])
torch.manual_seed(seed)
net = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 20))
model = DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rt = attach(model, "a missing profile", steps=12, optimizer=optimizer)
torch.manual_seed(10 * seed + dist.get_rank())
for step in range(12):
    if step == int(sys.argv[1]):
        rt.close()
        sys.exit(3)
    loss = model(torch.randn(8, 32)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    rt.observe(loss)
    optimizer.step()
rt.report(loss=loss)
rt.close()
del model, rt
dist.destroy_process_group()
"""


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    calibrate_command.add_arguments(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--every", "0"], "--every: '0' is not a whole number from 1 to 1000000"),
        (["--workers", "-3"], "--workers: '-3' is not a whole number from 1 to 1000000"),
        (["--within", "nan"], "--within: 'nan' is not a number of at least 0"),
        (["--seeds", "2"], "--seeds: '2' is not a whole number from 3 to 10"),
        (["--seeds", "11"], "--seeds: '11' is not a whole number from 3 to 10"),
        (["--warmup", "much"], "--warmup: 'much' is not a number of at least 0"),
        (["--better", "more"], "--better: invalid choice: 'more'"),
        (["--routes", "G_INT4,FP32"], "'G_INT4,FP32' is no list of routes: G_BINARY,G_TERNARY,"),
        (["--protect", "head,heads"], "'head,heads' is neither none nor kinds: head,embedding,"),
        (["--protect", "head,head"], "'head,head' is neither none nor kinds: head,"),
        (["--routes", "G_INT4,G_INT4"], "'G_INT4,G_INT4' is no list of routes"),
    ],
)
def test_a_wrong_word(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        command.main(["calibrate", "--out", "p.toml", *words, "--", "x.py"])
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


def test_what_cannot_be_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that impossible requests are refused before any training is started."""

    def never(*_: object) -> None:
        raise AssertionError

    script = tmp_path / "x.py"
    script.touch()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    run, out = calibrate_command.run, str(tmp_path / "p.toml")
    with pytest.raises(CalibrationError, match="there is no such script; give a file of Python"):
        run(parsed("--out", out, "--", str(tmp_path / "y.py")), never)
    with pytest.raises(CalibrationError, match="256, and a count of votes holds 255; take fewer"):
        run(parsed("--out", out, "--workers", "256", "--", str(script)), never)
    with pytest.raises(CaptureError, match="its folder does not exist"):
        run(parsed("--out", str(tmp_path / "no" / "p.toml"), "--", str(script)), never)
    samples_path(out).mkdir()
    with pytest.raises(CaptureError, match=r"p.calibration.safetensors: is a folder"):
        run(parsed("--out", out, "--", str(script)), never)
    samples_path(out).rmdir()
    monkeypatch.setenv("NF_CAPTURE_DIR", str(tmp_path))
    with pytest.raises(CalibrationError, match="would all write into its folder; unset it"):
        run(parsed("--out", out, "--", str(script)), never)
    monkeypatch.delenv("NF_CAPTURE_DIR")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CalibrationError, match="torch is not installed"):
        run(parsed("--out", out, "--", str(script)), never)


def test_routes_are_those_of_the_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Check that routes that a device lacks are neither measured nor chosen, and are named."""
    path = tmp_path / "s.toml"
    routes = (Route.FP32, Route.G_BINARY, Route.G_INT4)
    write_substrate(path, replace(shipped(), device=Device(routes=routes)))
    of_device = calibrate_command.of_device
    votes = (Route.G_BINARY, Route.G_TERNARY)
    codes = (Route.G_INT4, Route.G_INT8)
    assert of_device(None, None) == (votes, (*votes, *codes))
    assert of_device(None, codes) == (codes, (*votes, *codes))
    assert not capsys.readouterr().out
    assert of_device(path, None) == (votes[:1], routes[1:])
    assert "left out, as the device of" in (said := capsys.readouterr().out)
    assert said.endswith("has not got it: G_TERNARY, G_INT8\n")
    assert of_device(path, codes[:1]) == (codes[:1], routes[1:])
    with pytest.raises(CalibrationError, match=r"G_INT4, G_INT8: the device of .* has FP32, G_B"):
        of_device(path, codes)
    write_substrate(path, replace(shipped(), device=Device(routes=(Route.FP32, Route.G_INT4))))
    with pytest.raises(CalibrationError, match=r"G_BINARY, G_TERNARY: the device .* name routes"):
        of_device(path, None)


@pytest.mark.nightly("30 s; test_train_check calibrates with eight workers in every change")
def test_real_workers(tmp_path: Path) -> None:
    """Check the calibration of a training that completes, and of one that ends at step 9.

    The profile that the script names is ignored.
    """
    script, out = tmp_path / "train.py", tmp_path / "p.toml"
    script.write_text(TRAINING, encoding="utf-8")
    words = [*("-m", "neuron_fabric", "calibrate", "--out", str(out), "--workers", "2")]
    words += ["--every", "3", "--no-verify", "--", str(script)]
    for stop, code, steps in (("99", 0, 12), ("9", 1, 7)):
        done = run_python(*words, stop)
        assert done.returncode == code, done.stderr[-2000:]
        ran = read_profile(out).calibration
        assert ran is not None
        assert (ran.steps, ran.stopped_early) == (steps, bool(code))
        assert samples_path(out).is_file()
        assert read_profile(out).valid_for == ValidFor((2, 2), (8, 8), 1, "SGD()", None, "off")
    assert "stopped early (worker " in done.stdout
    assert "ended with code 3) after 7 steps; usable, not verified" in done.stdout
    head = read_profile(out).region("head")
    assert head.match == ("2.weight", "2.bias")
    _impact(out, script, tmp_path)


def _impact(out: Path, script: Path, tmp_path: Path) -> None:
    """Check that trainings to measure the loss impact are equal up to the end of the warm-up.

    They stop after the steps that are needed.
    """

    def start(folder: Path, seed: int) -> str | None:
        env = {**os.environ, CALIBRATE: str(folder), SEED: str(seed)}
        env["PYTHONPATH"] = str(ROOT)
        return run_workers([sys.executable, str(script), "99"], 2, env)

    profile = read_profile(out)
    first, *rest = profile.regions
    assert first.elements == 32 * 64
    low = replace(first, phases={**first.phases, "steady": PhaseRoute(Route.G_BINARY)})
    profile = replace(profile, regions=(low, *rest))
    base = tmp_path / "impact"
    base.mkdir()
    runs = Trainings(base, start)
    with mock.patch.object(calibrating, "STEPS", 4):
        losses = [calibrating._loss(profile, name, 4, 1, runs) for name in (None, first.name)]
    assert losses[0] != losses[1]
    seen = []
    for run in runs.done:
        [segment], _ = log.read(log.find(run.folder))
        assert [one.step for one in segment.steps] == list(range(8))  # of 12
        assert run.report is None
        seen.append([one.loss for one in segment.steps])
    assert seen[0][:5] == seen[1][:5]  # of five losses none has seen a low-bit step
    assert seen[0][6:] != seen[1][6:]

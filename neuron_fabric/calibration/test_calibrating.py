# SPDX-License-Identifier: Apache-2.0
"""Calibration over the results of made-up trainings."""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")

from neuron_fabric.calibration import calibrating
from neuron_fabric.calibration.calibrating import (
    ROUNDS,
    ROWS,
    About,
    Asked,
    Bar,
    Better,
    RowWriter,
    Trainings,
    calibrate,
    read_rows,
    warmup_of,
)
from neuron_fabric.calibration.calibration_job import (
    CalibrationError,
    Job,
    Report,
    write_report,
)
from neuron_fabric.calibration.shadow_router import NAMES
from neuron_fabric.codec import Route
from neuron_fabric.data import read_object
from neuron_fabric.errors import ProfileError
from neuron_fabric.monitor import log
from neuron_fabric.monitor.signals import Reading
from neuron_fabric.profile import Kind, Parameter, Profile, read_profile
from neuron_fabric.profile.profile_command import run as profile_verb
from neuron_fabric.profile.profile_file import parse_profile, profile_text
from neuron_fabric.profile.profile_types import Floor, ValidFor
from neuron_fabric.profile.rule import apply_rule, codes_that_pass
from neuron_fabric.profile.samples import read_samples, samples_path, write_samples
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
    """Write samples with these cosines for the vote of G_BINARY, `CODES` for codes, and 0.2
    otherwise."""
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
    """Training script; ``metric`` is a function of the seed and the low-bit regions."""

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
    """Run `nf train profile rule` on a profile and write the result to the same file."""
    words = {"floor": [], "shrink": None, "routes": None, "protect": None} | given
    return profile_verb(argparse.Namespace(what="rule", profile=path, out=path, **words))


def good(seed: int, low: frozenset[str]) -> float:
    return 0.9 + 0.001 * seed


def test_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = Script(good)
    code, profile = calibrated(tmp_path, script)
    assert code == 0
    assert profile.verified
    both = frozenset({"linear.0", "conv.0"})
    assert script.ran == [
        *((1, None), (2, None), (3, None)),
        *((1, both), (2, both), (3, both)),
    ]
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
    """Check that codes are used where no vote passes, and 4 bits before 8, since a vote costs
    less."""
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
    """Check the protected kinds in a calibration and in a later application of the rule."""
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


def test_nothing_is_good_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def metric(seed: int, low: frozenset[str]) -> float:
        return good(seed, low) - 0.3 * bool(low)

    code, profile = calibrated(tmp_path, Script(metric))
    assert (code, profile.verified) == (1, False)
    assert not any(one.low_bit for one in profile.regions)
    assert profile.reference is not None
    assert profile.reference.verified is None
    out = capsys.readouterr().out
    assert "round 2" in out
    assert "not verified: accuracy is not within 0.00902 of FP32" in out


def test_four_regions_are_given_up_at_most(tmp_path: Path) -> None:
    """Check for five rounds of three trainings after the three in FP32."""
    kinds = [one for one in Kind if one not in (Kind.ATTENTION, Kind.REST)]
    script = Script(lambda seed, low: good(seed, low) - 0.3 * bool(low))
    many = tuple(Parameter(one, (2048,), "float32", True, one, 0, (one,)) for one in kinds)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "parameters", lambda: many)
        patch.setitem(globals(), "COSINES", {one: 0.5 + n / 50 for n, one in enumerate(kinds)})
        code, profile = calibrated(tmp_path, script, protect=())
    assert code == 1
    assert len(script.ran) == 3 + 3 * (ROUNDS + 1)
    assert [len(low or ()) for _, low in script.ran[3::3]] == [7, 6, 5, 4, 3]
    given_up = [one.name for one in profile.regions if not one.low_bit]
    assert given_up == ["head", "embedding", "norm", "bias"]


def test_more_seeds_show_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Check a difference of noise: three seeds cannot show that it is small, eight can."""
    noise = (0.005, -0.004, 0.001, -0.003, 0.004, -0.002, 0.003, -0.004)
    script = Script(lambda seed, low: good(seed, low) + noise[seed - 1] * bool(low))
    code, profile = calibrated(tmp_path, script)
    assert (code, profile.verified) == (1, False)
    assert all(profile.region(name).low_bit for name in ("linear.0", "conv.0"))
    out = capsys.readouterr().out
    assert "warning: that is above 1% of the metric; more --seeds show less" in out
    assert "3 seeds cannot show that accuracy is within 0.00902 of FP32; give more --seeds" in out
    script.ran.clear()
    code, profile = calibrated(tmp_path, script, seeds=8)
    assert (code, profile.verified) == (0, True)
    assert [seed for seed, _ in script.ran] == [*range(1, 9), *range(1, 9)]


def test_no_number_is_good_enough(tmp_path: Path) -> None:
    sides: tuple[Better, ...] = ("either", "higher", "lower")
    for better in sides:
        script = Script(lambda seed, low: math.nan if low else good(seed, low))
        assert calibrated(tmp_path, script, bar=Bar(better=better))[0] == 1
    with pytest.raises(CalibrationError, match="accuracy of the trainings in FP32 is not finite"):
        calibrated(tmp_path, Script(lambda seed, low: math.inf))


@pytest.mark.parametrize("interrupt", [False, True])
def test_stopped_early(tmp_path: Path, interrupt: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Check that an interrupted training is usable, by the announced steps or those seen."""
    code, profile = calibrated(tmp_path, Script(good, stop=17, interrupt=interrupt))
    assert code == 1
    assert not profile.verified
    ran = profile.calibration
    assert ran is not None
    assert (ran.steps, ran.samples, ran.stopped_early) == (17, 5, True)
    assert profile.region("conv.0").phases["steady"].route == Route.G_BINARY
    assert read_samples(samples_path(tmp_path / "p.toml")).steps["steady"].tolist() == [
        4,
        8,
        12,
        16,
    ]
    why = "interrupted" if interrupt else "worker 1 was ended by signal 9"
    said = f"stopped early ({why}) after 17 steps; usable, not verified"
    assert said in capsys.readouterr().out


def test_stopped_before_the_first_sample(tmp_path: Path) -> None:
    def nothing(folder: Path, seed: int) -> str:
        return "worker 0 ended with code 2"

    (tmp_path / "runs").mkdir()
    with pytest.raises(
        CalibrationError, match=r"nothing was measured; does the script call attach"
    ):
        calibrate(Asked(tmp_path / "p.toml", 4), Trainings(tmp_path / "runs", nothing))
    assert not (tmp_path / "p.toml").exists()


def test_a_cut_row_is_left_out(tmp_path: Path) -> None:
    put_rows(tmp_path, 12)
    path = tmp_path / ROWS
    path.write_bytes(path.read_bytes()[:-5])
    _, steps, sums = read_rows(tmp_path)
    assert steps.tolist() == [0, 4]
    assert sums.shape == (2, 4 + len(CODES), len(NAMES), 4)
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
    with pytest.raises(
        CalibrationError, match="gave the same weights; let the script take its seed"
    ):
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


def test_impact_is_a_veto(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that three standard deviations of FP32 are too much, one is not."""
    costs = {None: 0.0, "linear.0": 0.03, "conv.0": 0.01}
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
    assert (steady.route, steady.why) == (Route.FP32, "loss impact 3.0 spreads > 2")
    assert profile.region("conv.0").phases["steady"].route == Route.G_BINARY
    found = profile.region("conv.0").measured["steady"]["G_BINARY"]["vote"]
    assert found["loss_impact"] == pytest.approx((1, 1))


@pytest.mark.parametrize("full", [[2.0, 2.0, 2.0], [2.0, math.inf, 2.0]])
def test_no_impact_without_a_spread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: list[float]
) -> None:
    """Check that equal losses of the seeds are refused: they would accept any region."""
    losses = iter([*full, 9.0, 9.0])
    monkeypatch.setattr(calibrating, "_loss", lambda *_: next(losses))
    with pytest.raises(CalibrationError, match=r"FP32 with other seeds are 2.0, .*NF_SEED"):
        calibrated(tmp_path, Script(good), impact=True, verify=False)


def test_a_loss_that_is_not_finite_is_a_veto(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that a loss which is not finite counts; the log holds it as a count only."""

    def of(step: int, loss: float | None, nonfinite: float = 0.0) -> Reading:
        return Reading(step, (), loss=loss, nonfinite=nonfinite)

    steps = {
        None: [of(4, 2.0), of(5, 2.0)],
        "linear.0": [of(4, 2.0), of(5, None, 2.0)],
        "conv.0": [of(4, 2.0, 1.0), of(5, None)],
    }
    runs = iter([(None, 0.0), (None, 0.01), (None, 0.02), ("linear.0", 0.0), ("conv.0", 0.0)])

    def readings(_: Any) -> list[Reading]:
        name, more = next(runs)
        return [
            replace(one, loss=one.loss + more if one.loss is not None else None)
            for one in steps[name]
        ]

    trained = SimpleNamespace(failed=None, folder=tmp_path)
    monkeypatch.setattr(log, "find", lambda folder: folder)
    monkeypatch.setattr(log, "read", lambda _: ([None], 0))
    monkeypatch.setattr(calibrating, "readings", readings)
    _, profile = calibrated(tmp_path, Script(good), verify=False, warmup=4)
    runs_of: Any = SimpleNamespace(base=tmp_path, run=lambda *_: trained)
    found = calibrating.veto_by_loss(profile, 20, 1, runs_of)
    steady = found.region("linear.0").phases["steady"]
    assert (steady.route, steady.why) == (Route.FP32, "loss impact inf spreads > 2")
    assert parse_profile(profile_text(found), "again")
    assert found.region("conv.0").phases["steady"].route == Route.G_BINARY

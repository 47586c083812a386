# SPDX-License-Identifier: Apache-2.0
"""From trainings to a verified profile: what is run, what is compared, what is given up.

Nothing here knows how a training is started: `Train` does one, by a job in a folder.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from neuron_fabric.codec.routes import Route
from neuron_fabric.profile.draft import draft
from neuron_fabric.profile.profile_file import write_profile
from neuron_fabric.profile.profile_types import (
    STEADY,
    Calibration,
    Kind,
    Phases,
    Profile,
    Rule,
    Steady,
    Warmup,
)
from neuron_fabric.profile.rule import apply_rule, passed_over
from neuron_fabric.profile.samples import Samples, samples_path, write_samples
from neuron_fabric.runtime.calibration.calibration_job import (
    CalibrationError,
    Job,
    Report,
    read_report,
    write_job,
)
from neuron_fabric.runtime.calibration.impact import vetoed
from neuron_fabric.runtime.calibration.row_file import read_rows, samples_of, warmup_of
from neuron_fabric.runtime.calibration.verifying import SEEDS, Bar, Verification, verify
from neuron_fabric.text import say


@dataclass(frozen=True)
class Asked:
    """What a calibration is to do. ``bar``, ``seeds``: what verification asks for. ``shrink``,
    ``routes`` and ``protect``: as `Rule` has them. ``measured``: routes that run beside FP32; None:
    all."""

    out: Path
    workers: int
    every: int = 5
    seed: int = 1
    warmup: float = 0.10
    windows: int = 3
    metric: str | None = None
    bar: Bar = field(default_factory=Bar)
    verify: bool = True
    impact: bool = False
    shrink: Literal["fit", "one"] = "fit"
    routes: tuple[Route, ...] = Rule().routes
    protect: tuple[Kind, ...] = Rule().protect
    measured: tuple[str, ...] | None = None
    seeds: int = SEEDS


@dataclass(frozen=True)
class Trained:
    """One training: None in ``failed`` where it ended well."""

    folder: Path
    report: Report | None
    failed: str | None


Start = Callable[[Path, int], str | None]
"""Run the script by the job in a folder, with a seed; None, or one line why it failed."""


@dataclass
class Trainings:
    """Trainings of one script, each in a folder of its own below ``base``."""

    base: Path
    start: Start
    done: list[Trained] = field(default_factory=list)

    def run(self, job: Job, seed: int) -> Trained:
        """One more, which may fail. KeyboardInterrupt passes."""
        folder = self.base / f"{len(self.done):03d}"
        folder.mkdir()
        self.done.append(Trained(folder, None, "stopped"))
        write_job(folder, job)
        failed = self.start(folder, seed)
        self.done[-1] = Trained(folder, read_report(folder), failed)
        return self.done[-1]

    def reported(self, job: Job, seed: int) -> Report:
        """One more, to its report. CalibrationError where there is none."""
        trained = self.run(job, seed)
        if trained.failed is not None:
            what = f"the training of seed {seed} failed: {trained.failed}"
            raise CalibrationError("calibrate", what, "see what it has said above")
        if trained.report is None:
            raise _no_report()
        return trained.report


def calibrate(asked: Asked, trainings: Trainings) -> int:
    """The exit code: 0 the profile is as good as was asked for, 1 it is not, or was stopped early.

    CalibrationError, ProfileError. The profile appears whole, unverified first.
    """
    stopped = False
    try:
        first = trainings.run(Job(every=asked.every, routes=asked.measured), asked.seed)
    except KeyboardInterrupt:
        first, stopped = trainings.done[-1], True
    profile, samples = made(asked, first)
    early = first.failed is not None or stopped
    calibration = profile.calibration
    assert calibration is not None
    if early:
        why = "interrupted" if stopped else first.failed
        profile = replace(profile, calibration=replace(calibration, stopped_early=True))
    write_samples(samples, samples_path(asked.out))
    write_profile(profile, asked.out)
    say(*told(profile))
    if early:
        say(f"stopped early ({why}) after {calibration.steps} steps; usable, not verified")
        return 1
    if asked.impact:
        profile = vetoed(profile, calibration.steps, asked.seed, trainings)
        write_profile(profile, asked.out)
    if not asked.verify:
        say(f"wrote {asked.out}, not verified")
        return 0
    if not any(one.low_bit for one in profile.regions):
        say(f"wrote {asked.out}: no region is low-bit, so there is nothing to verify")
        return 0
    if first.report is None:
        raise _no_report()
    return _verify(asked, profile, first.report, trainings)


def made(asked: Asked, trained: Trained) -> tuple[Profile, Samples]:
    """The profile by the rule from what a training has measured, not verified."""
    about, steps, sums = read_rows(trained.folder)
    seen = int(steps[-1]) + 1
    total = max(seen, trained.report.steps if trained.report else 0)
    whole = total if trained.report else max(total, about.steps or 0)
    warm = warmup_of(asked.warmup, whole)
    samples = samples_of(about, steps, sums, warm)
    ends = tuple(round((n + 1) / asked.windows, 4) for n in range(asked.windows))
    # A script that does not tell `attach` its steps has no share of them.
    share = asked.warmup if about.steps is not None or asked.warmup >= 1 else float(warm)
    profile = replace(
        draft(asked.out.stem, about.parameters, about.valid_for),
        phases=Phases(Warmup(share), Steady(ends)),
        rule=Rule(shrink=asked.shrink, routes=asked.routes, protect=asked.protect),
        calibration=Calibration(asked.seed, total, len(steps), about.every),
    )
    return apply_rule(profile, samples), samples


def told(profile: Profile) -> list[str]:
    """Regions, routes and why; and which could go by integer codes, if the rule had them."""
    lines = []
    for one in profile.regions:
        steady = one.phases[STEADY]
        words = [steady.route.value] + [steady.decode] * steady.route.votes
        lines.append(f"  {one.name:14}{one.elements:11,}  {' '.join(words):16}  {steady.why}")
    if over := passed_over(profile):
        lines += ["not chosen from (--routes, or `nf profile rule --routes`):"]
        lines += [f"  {one}" for one in over]
    return lines


def _no_report() -> CalibrationError:
    todo = "call rt.report(accuracy=...) at its end, or give --no-verify"
    return CalibrationError("calibrate", "the script has reported no metric", todo)


def _verify(asked: Asked, profile: Profile, first: Report, trainings: Trainings) -> int:
    metric = asked.metric or next(iter(first.metrics))
    seeds = [asked.seed + n for n in range(asked.seeds)]
    full = [first, *(trainings.reported(Job(), seed) for seed in seeds[1:])]
    _check_seeds(full)

    def again(by: Profile) -> list[float]:
        candidate = trainings.base / "candidate.toml"
        write_profile(replace(by, verified=True), candidate)
        job = Job(profile=str(candidate))
        return [_value(trainings.reported(job, seed), metric) for seed in seeds]

    values = [_value(one, metric) for one in full]
    found = verify(
        *(profile, metric, values, again, asked.bar),
        keep=lambda one: write_profile(one, asked.out),
        tell=say,
    )
    say(*_shown(metric, seeds, found.table), *found.paired.lines(found.fp32))
    if found.profile.verified:
        say(f"wrote {asked.out}, verified")
        return 0
    say(f"wrote {asked.out}, not verified: {_why_not(metric, asked, found)}")
    return 1


def _why_not(metric: str, asked: Asked, found: Verification) -> str:
    band = f"within {asked.bar.band(found.fp32):.4g} of FP32"
    if not asked.bar.near(found.fp32, found.paired.mean):
        return f"{metric} is not {band}"
    return (
        f"{asked.seeds} seeds cannot show that {metric} is {band}; give more --seeds, or --within"
    )


def _check_seeds(full: Sequence[Report]) -> None:
    if len({one.weights for one in full}) == 1:
        what = f"{len(full)} trainings with other seeds gave the same weights"
        raise CalibrationError("calibrate", what, "let the script take its seed from NF_SEED")


def _value(report: Report, metric: str) -> float:
    if metric not in report.metrics:
        known = ", ".join(report.metrics)
        raise CalibrationError(
            "--metric", f"{metric!r} was not reported, but {known}", "choose one"
        )
    return report.metrics[metric]


def _shown(
    metric: str, seeds: Sequence[int], table: Sequence[tuple[str, Sequence[float]]]
) -> Iterator[str]:
    yield f"{metric:12}" + "".join(f"{f'seed {seed}':>10}" for seed in seeds) + f"{'mean':>10}"
    for name, values in table:
        cells = "".join(f"{one:10.4f}" for one in (*values, statistics.fmean(values)))
        yield f"{name:12}{cells}"

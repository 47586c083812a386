# SPDX-License-Identifier: Apache-2.0
"""Calibration from the first training to a verified profile.

The module does not start trainings itself: `Trainings` writes the job of each to a folder and calls
a given function.
"""

from __future__ import annotations

import copy
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from neuron_fabric.calibration.calibration_job import (
    CalibrationError,
    Job,
    Report,
    read_report,
    read_rows,
    samples_of,
    write_job,
)
from neuron_fabric.calibration.verification import SEEDS, Bar, Verification, in_fp32, verify
from neuron_fabric.codec.routes import Route
from neuron_fabric.errors import say
from neuron_fabric.monitor import log
from neuron_fabric.monitor.recordings import readings
from neuron_fabric.monitor.signals import Reading, Reason
from neuron_fabric.profile.draft_profile import draft
from neuron_fabric.profile.profile_file import write_profile
from neuron_fabric.profile.profile_types import (
    Assign,
    Calibration,
    Kind,
    Phase,
    Phases,
    Profile,
    Region,
    Rule,
    Steady,
    Warmup,
    warmup_of,
)
from neuron_fabric.profile.route_rule import apply_rule, codes_that_pass
from neuron_fabric.profile.samples import Samples, samples_path, write_samples

# Loss impact of a single region, from the end of the warm-up on.
#
# A script cannot resume from a checkpoint that it does not know. But training in FP32 is
# deterministic: a training with the same seed, in which all other regions stay in FP32, reaches the
# same state at the end of its warm-up. It is ended 50 steps later. The impact is the mean loss of
# these steps minus that of the training in FP32, in units of the standard deviation over three
# trainings in FP32 with other seeds (of the weights too, since a script has one seed).

STEPS = 50
MOST = 2.0
"""Greatest accepted loss impact, in standard deviations."""
IMPACT_SEEDS = 3
OFF = [str(one) for one in Reason if one != Reason.SCHEDULE]
"""Signals that are switched off, so that no region moves during the measurement."""


def veto_by_loss(profile: Profile, steps: int, seed: int, runs: Trainings) -> Profile:
    """Measure the loss impact of every low-bit region; return the profile, not verified, with it.

    Regions with an impact above `MOST` use FP32 in it.

    Args:
        profile: Profile made by the rule.
        steps: Steps of the whole training.
        seed: Seed of the compared trainings.
        runs: Trainings of the script.

    Raises:
        CalibrationError: The script observes no loss, or its losses do not depend on the seed.
    """
    warm = warmup_of(profile.phases.warmup.steps, steps)
    full = [_loss(profile, None, warm, seed + n, runs) for n in range(IMPACT_SEEDS)]
    spread = statistics.stdev(full) if all(map(math.isfinite, full)) else math.nan
    if not spread > 0:
        losses = ", ".join(map(str, full))
        what = f"losses of {IMPACT_SEEDS} trainings in FP32 with other seeds are {losses}"
        todo = "let the script take its seed from NF_SEED, and train without NaN"
        raise CalibrationError("--impact", what, todo)
    regions = []
    for region in profile.regions:
        if region.low_bit:
            cost = _loss(profile, region.name, warm, seed, runs) - full[0]
            region = judged(region, cost / spread)
        regions.append(region)
    return replace(profile, regions=tuple(regions), verified=False)


def judged(region: Region, impact: float) -> Region:
    """Return the region with its loss impact in standard deviations, and print it.

    The region uses FP32 if the impact is above `MOST`.
    """
    say(f"  {region.name}: loss impact {impact:+.2f} spreads")
    steady = region.phases[Phase.STEADY]
    measured: Any = copy.deepcopy(region.measured)
    if math.isfinite(impact):
        measured[Phase.STEADY][steady.route.value][steady.measured_as]["loss_impact"] = (
            impact,
            impact,
        )
    region = replace(region, measured=measured)
    why = f"loss impact {impact:.1f} spreads > {MOST:g}"
    return in_fp32(region, why) if impact > MOST else region


def isolated(profile: Profile, name: str | None, warm: int) -> Profile:
    """Return the profile with only region ``name`` low-bit; all others use FP32 (None: all do).

    The region becomes low-bit after ``warm`` steps, since the monitor's signals are off.
    """
    regions = tuple(one if one.name == name else in_fp32(one) for one in profile.regions)
    return replace(
        profile,
        regions=regions,
        verified=True,
        phases=Phases(Warmup(float(warm))),
        monitor={"off": OFF, "warmup_falls": 1e6},
    )


def _loss(profile: Profile, name: str | None, warm: int, seed: int, runs: Trainings) -> float:
    """Train with only region ``name`` low-bit; return the mean loss of the 50 steps after warm-up.

    It is infinity if a loss was not finite, which the monitor log only counts.
    """
    candidate = runs.base / "alone.toml"
    write_profile(isolated(profile, name, warm), candidate)
    trained = runs.run(Job(profile=str(candidate), stop=warm + STEPS), seed)
    if trained.failed is not None:
        what = f"the training of seed {seed} failed: {trained.failed}"
        raise CalibrationError("--impact", what, "see its output above")
    segments, _ = log.read(log.find(trained.folder))
    return mean_loss([one for segment in segments for one in readings(segment)], warm)


def mean_loss(steps: Sequence[Reading], warm: int) -> float:
    """Return the mean of the observed losses from step ``warm`` on; infinity if one was not finite.

    Raises:
        CalibrationError: No loss was observed.
    """
    after = [one for one in steps if one.step >= warm]
    if any(one.loss is None and one.nonfinite for one in after):
        return math.inf
    losses = [one.loss for one in after if one.loss is not None]
    if not losses:
        todo = "call rt.observe(loss) after each backward"
        raise CalibrationError("--impact", "the script has observed no loss", todo)
    return statistics.fmean(losses)


@dataclass(frozen=True)
class Asked:
    """Settings of a calibration, from the command line.

    ``shrink``, ``routes``, ``protect`` and ``assign`` are those of `Rule`; ``measured`` names the
    routes that the first training measures, None for all.
    """

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
    assign: Assign | None = None
    measured: tuple[str, ...] | None = None
    seeds: int = SEEDS


@dataclass(frozen=True)
class Trained:
    """Finished training: its folder, its report if any, and why it failed (None: it did not)."""

    folder: Path
    report: Report | None
    failed: str | None


Start = Callable[[Path, int], str | None]
"""Function that runs the script by the job in a folder, with a seed; it returns None, or one
line about the failure."""


@dataclass
class Trainings:
    """Trainings of one script, each in a separate folder below ``base``."""

    base: Path
    start: Start
    done: list[Trained] = field(default_factory=list)

    def run(self, job: Job, seed: int) -> Trained:
        """Run a training, which may fail; return its result.

        KeyboardInterrupt is not caught; the last entry of ``done`` then says "stopped".
        """
        folder = self.base / f"{len(self.done):03d}"
        folder.mkdir()
        self.done.append(Trained(folder, None, "stopped"))
        write_job(folder, job)
        failed = self.start(folder, seed)
        self.done[-1] = Trained(folder, read_report(folder), failed)
        return self.done[-1]

    def reported(self, job: Job, seed: int) -> Report:
        """Run a training and return its report.

        Raises:
            CalibrationError: The training failed or wrote no report.
        """
        trained = self.run(job, seed)
        if trained.failed is not None:
            what = f"the training of seed {seed} failed: {trained.failed}"
            raise CalibrationError("calibrate", what, "see its output above")
        if trained.report is None:
            raise _no_report()
        return trained.report


def calibrate(asked: Asked, trainings: Trainings) -> int:
    """Calibrate: measure a training, choose routes, measure loss impacts, verify, as ``asked``.

    The profile is written after each part, first unverified.

    Returns:
        Exit code: 0 if the profile is as good as requested, 1 if it is not or was stopped early.

    Raises:
        CalibrationError: A training fails or does not cooperate.
        ProfileError: The profile cannot be written.
    """
    stopped = False
    try:
        first = trainings.run(Job(every=asked.every, routes=asked.measured), asked.seed)
    except KeyboardInterrupt:
        first, stopped = trainings.done[-1], True
    profile, samples = profile_by_rule(asked, first)
    early = first.failed is not None or stopped
    calibration = profile.calibration
    assert calibration is not None
    if early:
        why = "interrupted" if stopped else first.failed
        profile = replace(profile, calibration=replace(calibration, stopped_early=True))
    write_samples(samples, samples_path(asked.out))
    write_profile(profile, asked.out)
    say(*summary_lines(profile))
    if early:
        say(f"stopped early ({why}) after {calibration.steps} steps; usable, not verified")
        return 1
    if asked.impact:
        profile = veto_by_loss(profile, calibration.steps, asked.seed, trainings)
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


def profile_by_rule(asked: Asked, trained: Trained) -> tuple[Profile, Samples]:
    """Return the profile that the rule makes from a training's measurements, and its samples.

    The profile is not verified.
    """
    about, steps, sums = read_rows(trained.folder)
    seen = int(steps[-1]) + 1
    total = max(seen, trained.report.steps if trained.report else 0)
    whole = total if trained.report else max(total, about.steps or 0)
    warm = warmup_of(asked.warmup, whole)
    samples = samples_of(about, steps, sums, warm)
    ends = tuple(round((n + 1) / asked.windows, 4) for n in range(asked.windows))
    # Without the number of steps, `attach` cannot use a share of them.
    share = asked.warmup if about.steps is not None or asked.warmup >= 1 else float(warm)
    profile = replace(
        draft(asked.out.stem, about.parameters, about.valid_for),
        phases=Phases(Warmup(share), Steady(ends)),
        rule=Rule(
            shrink=asked.shrink, routes=asked.routes, protect=asked.protect, assign=asked.assign
        ),
        calibration=Calibration(asked.seed, total, len(steps), about.every),
    )
    return apply_rule(profile, samples), samples


def summary_lines(profile: Profile) -> list[str]:
    """Return lines of text: regions with routes and reasons, and regions that codes could serve.

    The latter are regions in which integer codes would pass the rule but are not among its routes.
    """
    lines = []
    for one in profile.regions:
        steady = one.phases[Phase.STEADY]
        words = [steady.route.value] + [steady.decode] * steady.route.votes
        lines.append(f"  {one.name:14}{one.elements:11,}  {' '.join(words):16}  {steady.why}")
    if over := codes_that_pass(profile):
        lines += ["not chosen from (--routes, or `nf train profile rule --routes`):"]
        lines += [f"  {one}" for one in over]
    return lines


def _no_report() -> CalibrationError:
    todo = "call rt.report(accuracy=...) at its end, or give --no-verify"
    return CalibrationError("calibrate", "the script has reported no metric", todo)


def _verify(asked: Asked, profile: Profile, first: Report, trainings: Trainings) -> int:
    metric = asked.metric or next(iter(first.metrics))
    seeds = [asked.seed + n for n in range(asked.seeds)]
    full = [first, *(trainings.reported(Job(), seed) for seed in seeds[1:])]
    if len({one.weights for one in full}) == 1:
        what = f"{len(full)} trainings with other seeds gave the same weights"
        raise CalibrationError("calibrate", what, "let the script take its seed from NF_SEED")

    def again(by: Profile) -> list[float]:
        candidate = trainings.base / "candidate.toml"
        write_profile(replace(by, verified=True), candidate)
        job = Job(profile=str(candidate))
        return [_value(trainings.reported(job, seed), metric) for seed in seeds]

    values = [_value(one, metric) for one in full]
    keep = partial(write_profile, path=asked.out)
    found = verify(profile, metric, values, again, asked.bar, keep, tell=say)
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


def _value(report: Report, metric: str) -> float:
    if metric not in report.metrics:
        what = f"{metric!r} was not reported, but {', '.join(report.metrics)}"
        raise CalibrationError("--metric", what, "choose one")
    return report.metrics[metric]


def _shown(
    metric: str, seeds: Sequence[int], table: Sequence[tuple[str, Sequence[float]]]
) -> Iterator[str]:
    yield f"{metric:12}" + "".join(f"{f'seed {seed}':>10}" for seed in seeds) + f"{'mean':>10}"
    for name, values in table:
        cells = "".join(f"{one:10.4f}" for one in (*values, statistics.fmean(values)))
        yield f"{name:12}{cells}"

# SPDX-License-Identifier: Apache-2.0
"""From trainings to a verified profile: what is run, what is compared, what is given up.

Nothing here knows how a training is started: `Train` does one, by a job in a folder.
"""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from neuron_fabric.calibration.calibration_job import (
    CalibrationError,
    Job,
    Report,
    read_report,
    write_job,
)
from neuron_fabric.calibration.shadow_router import NAMES
from neuron_fabric.codec.routes import Route
from neuron_fabric.data import DataError, read_object
from neuron_fabric.errors import say
from neuron_fabric.monitor import log
from neuron_fabric.monitor.bench import readings
from neuron_fabric.monitor.job_plan import Signal
from neuron_fabric.output import write_text
from neuron_fabric.profile.draft import draft
from neuron_fabric.profile.model_sketch import Parameter
from neuron_fabric.profile.profile_file import write_profile
from neuron_fabric.profile.profile_types import (
    FULL,
    STEADY,
    WARMUP,
    Calibration,
    Kind,
    PhaseRoute,
    Phases,
    Profile,
    Reference,
    Region,
    Rule,
    Spread,
    Steady,
    ValidFor,
    Warmup,
)
from neuron_fabric.profile.rule import apply_rule, passed_over
from neuron_fabric.profile.samples import Samples, Way, samples_path, write_samples
from neuron_fabric.typed import typed

# What a calibration has measured, as it goes: a header, and a row of float64 for every sample.
#
# A training that is stopped, or killed, leaves all rows that were whole; `read_rows` makes
# samples of them, which `neuron_fabric.profile.samples` keeps.

ABOUT, ROWS = "about.json", "rows.f64"
DECODES = ("vote", "net")
LEAST_WARMUP = 3
"""As `attach`: DDP makes its buckets anew after the first step."""
F64 = NDArray[np.float64]


@dataclass(frozen=True)
class About:
    """``steps``: of the whole training, where the script has said it. ``valid_for``: conditions of
    the training, as far as they were told or seen."""

    workers: int
    every: int
    routes: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    steps: int | None = None
    valid_for: ValidFor = field(default_factory=ValidFor)

    @property
    def ways(self) -> list[tuple[str, str]]:
        """Route and decode, in the order of a row; integer codes have one decoding alone."""
        return [
            (route, decode)
            for route in self.routes
            for decode in (("vote",) if Route(route).codes else DECODES)
        ]

    @property
    def trained(self) -> list[Parameter]:
        """The parameters of a row, in their order."""
        return [one for one in self.parameters if one.trainable]


class RowWriter:
    """Rank 0's. OSError."""

    def __init__(self, folder: Path, about: About) -> None:
        values = dataclasses.asdict(about)
        write_text(folder / ABOUT, json.dumps(values))
        self._shape = (len(about.ways), len(NAMES), len(about.trained))
        self._ways = {way: n for n, way in enumerate(about.ways)}
        self._places = {one.name: n for n, one in enumerate(about.trained)}
        self._file: BinaryIO = (folder / ROWS).open("wb", buffering=0)

    def put(self, step: int, found: Mapping[tuple[str, str, str], Mapping[str, float]]) -> None:
        """A sample: sums by parameter, route and decode."""
        row = np.zeros(self._shape, np.float64)
        for (name, route, decode), sums in found.items():
            row[self._ways[route, decode], :, self._places[name]] = [sums[one] for one in NAMES]
        self._file.write(np.concatenate([[float(step)], row.reshape(-1)]).tobytes())

    def close(self) -> None:
        self._file.close()


def read_rows(folder: Path) -> tuple[About, NDArray[np.int64], F64]:
    """Header, steps int64[n], and sums float64[n, ways, sums, parameters]; what was cut is left
    out. CalibrationError where nothing was measured."""
    todo = "does the script call attach(model) of neuron_fabric.hook, and train"
    try:
        about = typed(About, read_object(folder / ABOUT))
        data = np.frombuffer((folder / ROWS).read_bytes(), np.uint8)
    except FileNotFoundError:
        raise CalibrationError("calibrate", "nothing was measured", todo) from None
    except (OSError, DataError) as error:
        raise CalibrationError(folder, f"is damaged ({error})", "calibrate again") from None
    shape = (len(about.ways), len(NAMES), len(about.trained))
    width = 1 + int(np.prod(shape))
    whole = data.size // (8 * width)
    if whole == 0:
        raise CalibrationError("calibrate", "no sample was taken", todo)
    rows = data[: whole * 8 * width].view(np.float64).reshape(whole, width)
    return about, rows[:, 0].astype(np.int64), rows[:, 1:].reshape(whole, *shape)


def warmup_of(warmup: float, steps: int) -> int:
    """Steps in FP32 of a training of ``steps``, as `attach` counts them."""
    return max(LEAST_WARMUP, round(warmup * steps) if warmup < 1 else round(warmup))


def samples_of(about: About, steps: NDArray[np.int64], sums: F64, warmup: int) -> Samples:
    """By phase: warm-up is the first ``warmup`` steps."""
    phases = {WARMUP: steps < warmup, STEADY: steps >= warmup}
    trained: Sequence[Parameter] = about.trained
    found = {
        Way(phase, route, decode): {
            name: np.ascontiguousarray(sums[inside, n, k]) for k, name in enumerate(NAMES)
        }
        for phase, inside in phases.items()
        if inside.any()
        for n, (route, decode) in enumerate(about.ways)
    }
    return Samples(
        about.workers,
        tuple(one.name for one in trained),
        tuple(one.elements for one in trained),
        {phase: steps[inside] for phase, inside in phases.items() if inside.any()},
        found,
    )


# What a region alone does to the loss, from the end of the warm-up on.
#
# A script cannot be asked to go on from a checkpoint that it knows nothing of. But FP32 is the
# same bit for bit each time: the training is begun anew with the same seed, all regions but one
# stay in FP32, and so it stands at the end of its warm-up where the others stood. It is ended
# after 50 steps more. The mean loss of these less that of the training in FP32 counts in units of
# the spread that three trainings in FP32 have, each with another seed (of the weights too: a
# script has one).

STEPS = 50
MOST = 2.0
"""Spreads that a region may cost."""
IMPACT_SEEDS = 3
OFF = [str(one) for one in Signal if one != Signal.SCHEDULE]
"""No signal moves a region while it is looked at."""


class Runs(Protocol):
    """As `calibrating.Trainings`."""

    base: Path

    def run(self, job: Job, seed: int) -> Any: ...


def vetoed(profile: Profile, steps: int, seed: int, runs: Runs) -> Profile:
    """The profile with the impact of every low-bit region, and those in FP32 that cost too much.

    CalibrationError where no loss is observed."""
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
    """The region with its impact, in spreads; in FP32 where it is too much."""
    say(f"  {region.name}: loss impact {impact:+.2f} spreads")
    steady = region.phases[STEADY]
    measured: dict[str, Any] = {
        phase: {route: dict(decodes) for route, decodes in routes.items()}
        for phase, routes in region.measured.items()
    }
    found: Mapping[str, Any] = measured[STEADY][steady.route.value][steady.decode]
    if math.isfinite(impact):
        found = {**found, "loss_impact": (impact, impact)}
    measured[STEADY][steady.route.value][steady.decode] = found
    phases: Mapping[str, PhaseRoute] = region.phases
    if impact > MOST:
        why = f"loss impact {impact:.1f} spreads > {MOST:g}"
        phases = {WARMUP: FULL, STEADY: replace(FULL, why=why)}
    return replace(region, phases=phases, measured=measured)


def alone(profile: Profile, name: str | None, warm: int) -> Profile:
    """All but one region in FP32, which goes low-bit after ``warm`` steps whatever is seen."""
    regions = tuple(
        one if one.name == name else replace(one, phases={WARMUP: FULL, STEADY: FULL})
        for one in profile.regions
    )
    return replace(
        profile,
        regions=regions,
        verified=True,
        phases=Phases(Warmup(float(warm))),
        monitor={"off": OFF, "warmup_falls": 1e6},
    )


def _loss(profile: Profile, name: str | None, warm: int, seed: int, runs: Runs) -> float:
    """Mean loss of the steps that follow the warm-up; infinite where one was not finite: the log
    has no such loss, but counts it."""
    candidate = runs.base / "alone.toml"
    write_profile(alone(profile, name, warm), candidate)
    trained = runs.run(Job(profile=str(candidate), stop=warm + STEPS), seed)
    if trained.failed is not None:
        what = f"the training of seed {seed} failed: {trained.failed}"
        raise CalibrationError("--impact", what, "see what it has said above")
    segments, _ = log.read(log.find(trained.folder))
    steps = [one for segment in segments for one in readings(segment) if one.step >= warm]
    if any(one.loss is None and one.nonfinite for one in steps):
        return math.inf
    losses = [one.loss for one in steps if one.loss is not None]
    if not losses:
        todo = "call rt.observe(loss) after each backward"
        raise CalibrationError("--impact", "the script has observed no loss", todo)
    return statistics.fmean(losses)


# Verification of a profile by whole trainings, and the regions that are given up until it passes.
#
# The rule judges gradients, step by step; what a training makes of them, its optimizer above all,
# shows in its metric alone. A training with the profile and one in FP32 with the same seed draw
# the same batches and start from the same weights, so their difference is judged and not their
# means: the 95 % interval of its mean (Student's t) has to lie within the tolerance (non-
# inferiority). A profile is thus verified by evidence that it is near, not by the lack of
# evidence that it is not.

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

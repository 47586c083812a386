# SPDX-License-Identifier: Apache-2.0
"""Calibration from the first training to a verified profile.

The module does not start trainings itself: `Trainings` writes the job of each to a folder and calls
a given function.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from neuron_fabric.calibration.calibration_job import (
    CalibrationError,
    Job,
    Report,
    read_report,
    write_job,
)
from neuron_fabric.codec.routes import Route
from neuron_fabric.data import DataError, read_object
from neuron_fabric.errors import say
from neuron_fabric.monitor import log
from neuron_fabric.monitor.recordings import readings
from neuron_fabric.monitor.signals import Reading, Signal
from neuron_fabric.output import write_text
from neuron_fabric.profile.draft_profile import draft
from neuron_fabric.profile.model_sketch import Parameter
from neuron_fabric.profile.profile_file import write_profile
from neuron_fabric.profile.profile_types import (
    FULL,
    STEADY,
    WARMUP,
    Calibration,
    Kind,
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
from neuron_fabric.profile.route_rule import apply_rule, codes_that_pass
from neuron_fabric.profile.samples import MORE, SUMS, Samples, Way, samples_path, write_samples
from neuron_fabric.typed import typed

# Measurements of a training: a header, and a row of float64 for each sample. A training that is
# stopped or killed leaves all rows that were whole.

ABOUT, ROWS = "about.json", "rows.f64"
DECODES = ("vote", "net")
NAMES = (*SUMS, *MORE)
"""Statistics of a row, see `shadow_run`."""
LEAST_WARMUP = 3
"""First step with an effect, as in `attach`: DDP rebuilds its buckets after the first step."""
F64 = NDArray[np.float64]


@dataclass(frozen=True)
class About:
    """Header of the measurements.

    Attributes:
        workers: Number of workers.
        every: Steps between samples.
        routes: Routes that were measured.
        parameters: Parameters of the model.
        steps: Steps of the whole training, if the script has announced them.
        valid_for: Conditions of the training that are known.
    """

    workers: int
    every: int
    routes: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    steps: int | None = None
    valid_for: ValidFor = field(default_factory=ValidFor)

    @property
    def ways(self) -> list[tuple[str, str]]:
        """Return (route, decode) in the order of a row; integer codes have one decoding, "vote"."""
        return [
            (route, decode)
            for route in self.routes
            for decode in (("vote",) if Route(route).codes else DECODES)
        ]

    @property
    def trained(self) -> list[Parameter]:
        """Return the trainable parameters, in the order of a row."""
        return [one for one in self.parameters if one.trainable]


class RowWriter:
    """Writer of the measurements, used on rank 0; its constructor and methods raise OSError."""

    def __init__(self, folder: Path, about: About) -> None:
        write_text(folder / ABOUT, json.dumps(dataclasses.asdict(about)))
        self._about = about
        self._file: BinaryIO = (folder / ROWS).open("wb", buffering=0)

    def put(self, step: int, found: Mapping[tuple[str, str, str], Mapping[str, float]]) -> None:
        """Append the row of a sample.

        Args:
            step: Training step.
            found: Statistics (see `shadow_run`) by parameter, route and decode; 0 is written for
                those that are missing.
        """
        row = [
            found[key][name] if (key := (one.name, *way)) in found else 0.0
            for way in self._about.ways
            for name in NAMES
            for one in self._about.trained
        ]
        self._file.write(np.array([step, *row], np.float64).tobytes())

    def close(self) -> None:
        self._file.close()


def read_rows(folder: Path) -> tuple[About, NDArray[np.int64], F64]:
    """Read the measurements of a training, without a last row that was cut off.

    Returns:
        Header, steps int64[n], and sums float64[n, ways, statistics, parameters].

    Raises:
        CalibrationError: Nothing was measured, or the files are damaged.
    """
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


def warmup_of(warmup: float, steps: int | None) -> int:
    """Return the number of warm-up steps (in FP32) of a training of ``steps``; at least 3.

    ``warmup`` is a number of steps, or a share of ``steps`` if it is below 1; a share of None
    counts as 0.
    """
    return max(LEAST_WARMUP, round(warmup * (steps or 0)) if warmup < 1 else round(warmup))


def samples_of(about: About, steps: NDArray[np.int64], sums: F64, warmup: int) -> Samples:
    """Return the samples of a training by phase; its first ``warmup`` steps are the warm-up.

    Args:
        about: Header of the measurements.
        steps: Step of each sample, int64[n].
        sums: Statistics float64[n, ways, statistics, parameters].
        warmup: Number of warm-up steps.
    """
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
OFF = [str(one) for one in Signal if one != Signal.SCHEDULE]
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
    steady = region.phases[STEADY]
    measured: Any = copy.deepcopy(region.measured)
    if math.isfinite(impact):
        measured[STEADY][steady.route.value][steady.decode]["loss_impact"] = (impact, impact)
    region = replace(region, measured=measured)
    why = f"loss impact {impact:.1f} spreads > {MOST:g}"
    return in_fp32(region, why) if impact > MOST else region


def in_fp32(region: Region, why: str = "") -> Region:
    """Return the profile region with route FP32 in all phases; ``why`` is the reason to show."""
    return replace(region, phases={WARMUP: FULL, STEADY: replace(FULL, why=why)})


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


# Verification of a profile by whole trainings, and the regions that are given up on the way.
#
# The rule judges gradients step by step; their effect on a training, above all by its optimizer,
# shows only in the metric. A training with the profile and one in FP32 with the same seed draw the
# same batches and start from the same weights, so that their difference is judged and not their
# means: the 95 % interval of the mean difference (Student's t) must lie within the tolerance
# (non-inferiority test). A profile is thus verified by evidence that it is near FP32, not by a lack
# of evidence that it is not.

ROUNDS = 4
"""Greatest number of regions that are given up, one a round."""
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
    """Compare trainings by the profile with those in FP32; move regions to FP32 until it passes.

    After a round in which the mean difference exceeds the tolerance, the weakest low-bit region is
    set to FP32, at most `ROUNDS` times. If only the interval exceeds it, one low-bit region less
    would not make it narrower: the seeds are too few, and the verification ends.

    Args:
        profile: Profile made by the rule.
        metric: Name of the metric.
        full: Metric of the trainings in FP32, by seed.
        again: Function that trains with a profile and the same seeds, and returns the metrics.
        bar: Accepted distance.
        keep: Receives every profile on the way.
        tell: Receives a line for each region that is set to FP32.

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
        tell(f"{metric} {found.mean:.4f} against {fp32.mean:.4f} in FP32: {worst.name} in FP32")
        why = f"verification missed, cosine {cosine_of(worst):.3f} least above its floor"
        regions = tuple(in_fp32(one, why) if one is worst else one for one in profile.regions)
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
    steady = region.phases[STEADY]
    return region.measured[STEADY][steady.route.value][steady.decode]["cosine"][0]


def weakest(profile: Profile) -> Region | None:
    """Return the low-bit region with the least margin of its cosine above the floor of its route.

    None if no region is low-bit. Floors differ, so cosines of different routes cannot be compared.
    """

    def above(region: Region) -> float:
        return cosine_of(region) - profile.rule.floor.of(region.phases[STEADY].route)

    return min((one for one in profile.regions if one.low_bit), key=above, default=None)


@dataclass(frozen=True)
class Asked:
    """Settings of a calibration, from the command line.

    ``shrink``, ``routes`` and ``protect`` are those of `Rule`; ``measured`` names the routes that
    the first training measures, None for all.
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
        rule=Rule(shrink=asked.shrink, routes=asked.routes, protect=asked.protect),
        calibration=Calibration(asked.seed, total, len(steps), about.every),
    )
    return apply_rule(profile, samples), samples


def summary_lines(profile: Profile) -> list[str]:
    """Return lines of text: regions with routes and reasons, and regions that codes could serve.

    The latter are regions in which integer codes would pass the rule but are not among its routes.
    """
    lines = []
    for one in profile.regions:
        steady = one.phases[STEADY]
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

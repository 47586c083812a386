# SPDX-License-Identifier: Apache-2.0
"""Measurements of a step, and the signals of the monitor, each with a window and two thresholds
(spec: runtime section 4.1).

Every class is an immutable value; ``read`` returns the next one. Readings are the same on every
rank, and the arithmetic is limited to +, -, *, / and square roots of float64, which IEEE 754 rounds
correctly. Signals are therefore the same on every rank and machine. `region_reading` alone computes
values of one rank, before the ranks agree.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from statistics import fmean, median

from neuron_fabric.codec.routes import Route
from neuron_fabric.monitor.thresholds import Thresholds, on_grid

_MAD = 1.4826  # MAD times this is the standard deviation of normal noise
_FLAT = 1e-3  # share of the median: least noise that is assumed of a constant loss


class Reason(StrEnum):
    """Reason of a decision: the signal of the monitor that was bad."""

    LOSS_SPIKE = "loss_spike"
    LOSS_SLOPE = "loss_slope"
    LOSS_DRIFT = "loss_drift"
    NORM = "norm"
    COSINE = "cosine"
    MARGIN = "margin"
    SATURATION = "saturation"
    AGREEMENT = "agreement"
    NONFINITE = "nonfinite"
    REDUCER = "reducer"
    CAPACITY = "capacity"
    ERROR = "error"  # of an assignment of routes, as a share of the squared norm
    SCHEDULE = "schedule"  # a region's turn or the end of a period: no threshold


@dataclass(frozen=True)
class ReducerCounters:
    """Events at the reducer in one step (differences, not totals).

    Attributes:
        fallback: FALLBACK bit of the device.
        answers: Answers of the device.
        severe: Answers with DevLoad severe.
        poison: Poisoned answers.
        duplicates: Answers that were received twice.
        late: Answers after the time-out.
        mismatch: Lines that differ from the shadow check.
        lost: Buckets without a result, which were reduced in FP32.
    """

    fallback: bool = False
    answers: int = 0
    severe: int = 0
    poison: int = 0
    duplicates: int = 0
    late: int = 0
    mismatch: int = 0
    lost: int = 0


@dataclass(frozen=True)
class StepReport:
    """Measurements of one rank in one step, complete after its last bucket.

    Mappings are keyed by profile region, unless stated; regions without a measurement are left out.

    | field | holds |
    |---|---|
    | ``losses`` | this rank's loss; None: not observed |
    | ``norms`` | squared norms: of the decoded gradient; of the FP32 mean, None between samples |
    | ``cosines`` | of a sample, reduced over the ranks: <m, d>, squared norms of m and of d |
    | ``margins`` | sum of abs(2c - W) over the inspected lines, and their elements |
    | ``nonfinite`` | tensors that held a NaN or an infinity on any rank |
    | ``saturation`` | share of the inspected elements with one decoded sign for 32 steps |
    | ``agreements`` | from `sampling.Agreements`: this rank's, which differs from the others' |
    | ``bytes`` | by route: sent, received |
    | ``errors`` | by route: squared error on this rank's gradient, as a share of its squared norm |
    | ``closed`` | rounds that were closed: bucket, and the late ranks |
    | ``seconds`` | time by part; `link_*` fit a line to FP32 all-reduces; `host_mib`: host's work |
    """

    step: int
    losses: float | None = None
    norms: Mapping[str, tuple[float, float | None]] = field(default_factory=dict)
    cosines: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    margins: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    nonfinite: int = 0
    saturation: Mapping[str, float] = field(default_factory=dict)
    reducer: ReducerCounters = field(default_factory=ReducerCounters)
    bytes: Mapping[Route, tuple[int, int]] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    agreements: Mapping[str, float] = field(default_factory=dict)
    errors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    closed: Sequence[tuple[int, tuple[int, ...]]] = ()


@dataclass(frozen=True)
class RegionReading:
    """Values of one profile region in one step, agreed by all ranks; None if not measured.

    Attributes:
        cosine: Cosine of the FP32 mean and the decoded gradient, if sampled.
        norm: log2 of the norm of the decoded gradient.
        reference: log2 of the norm of the FP32 mean, if sampled.
        margin: Vote margin, 0 for random signs and 1 for unanimous votes.
        saturation: Share of elements with the same decoded sign for 32 steps.
        agreement: Least agreement of a worker with the vote.
        worker: Rank of that worker, -1 for none.
        errors: Relative squared error of each candidate of the plan's assignment, mean of the
            ranks.
    """

    cosine: float | None = None
    norm: float | None = None
    reference: float | None = None
    margin: float | None = None
    saturation: float | None = None
    agreement: float | None = None
    worker: int = -1
    errors: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class Reading:
    """Values of one step, agreed by all ranks; means over the ranks that measured them.

    Attributes:
        step: Number of the step.
        regions: Values of the regions, in the order of the plan.
        loss: Mean loss; None if no rank has observed one.
        nonfinite: Tensors or losses with a NaN or infinity.
        fallback: FALLBACK bit of the device.
        severe: Share of the answers with DevLoad severe.
        faults: Poison, duplicates and late answers of the reducer.
        lost: Buckets without a result.
        mismatch: Lines that differ from the shadow check.
        link_latency: Latency of an FP32 all-reduce on rank 0, in seconds.
        link_mib: Time of one MiB of it, in seconds.
        host_mib: Host's work on rank 0 for one MiB of FP32 gradients in low-bit, in seconds.
    """

    step: int
    regions: tuple[RegionReading, ...]
    loss: float | None = None
    nonfinite: float = 0.0
    fallback: bool = False
    severe: float = 0.0
    faults: float = 0.0
    lost: float = 0.0
    mismatch: float = 0.0
    link_latency: float | None = None
    link_mib: float | None = None
    host_mib: float | None = None


def region_reading(report: StepReport, region: str, world: int) -> RegionReading:
    """Return one rank's measurements of a profile region, in the units of the signals.

    ``world`` is the number of ranks; None for signals that were not measured.
    """
    norm = report.norms.get(region)
    return RegionReading(
        cosine=_cosine(report.cosines.get(region)),
        norm=_log2_norm(norm[0]) if norm else None,
        reference=_log2_norm(norm[1]) if norm else None,
        margin=_scaled_margin(report.margins.get(region), world),
        saturation=report.saturation.get(region),
    )


def _cosine(sums: tuple[float, float, float] | None) -> float | None:
    """Return the cosine <m, d> / (|m| |d|) from <m, d>, <m, m>, <d, d>.

    0 for a decoded gradient d of zeros; None for a mean m of zeros, or without finite sums.
    """
    if sums is None or not all(map(math.isfinite, sums)) or sums[1] <= 0:
        return None
    dot, mean, decoded = sums
    if decoded <= 0:
        return 0.0
    return min(max(dot / (math.sqrt(mean) * math.sqrt(decoded)), -1.0), 1.0)


def _log2_norm(square: float | None) -> float | None:
    if square is None or not math.isfinite(square) or square < 0:
        return None
    return math.log2(square) / 2 if square > 0 else -1024.0


def random_margin(world: int) -> float:
    """Return the mean of abs(2c - W) / W for random signs of W = ``world`` workers.

    c is the number of + signs. It is 0.2734 for W = 8.
    """
    total = sum(abs(2 * c - world) * math.comb(world, c) for c in range(world + 1))
    return total / (world << world)


def _scaled_margin(sums: tuple[int, int] | None, world: int) -> float | None:
    """Return the vote margin, scaled to 0 for random signs and 1 for unanimous votes.

    ``sums`` are the sum of abs(plus - minus) and the number of elements; None if there are none.
    """
    if sums is None or sums[1] <= 0 or world < 2:
        return None
    least = random_margin(world)
    return (sums[0] / (sums[1] * world) - least) / (1 - least)


@dataclass(frozen=True)
class Gate:
    """Hysteresis of a signal that is good or bad.

    It becomes bad after ``count`` consecutive readings beyond the inner threshold, and good again
    after as many within the outer threshold. Readings between the two reset the count. ``run`` is
    the number of consecutive readings that call for a change.
    """

    bad: bool = False
    run: int = 0

    def read(self, beyond: bool, within: bool, count: int) -> Gate:
        """Return the gate after one reading.

        Args:
            beyond: Whether the reading is beyond the inner threshold.
            within: Whether it is within the outer threshold; excludes ``beyond``.
            count: Consecutive readings that change the state.
        """
        if not (within if self.bad else beyond):
            return Gate(self.bad, 0)
        run = self.run + 1
        return Gate(not self.bad, 0) if run >= count else Gate(self.bad, run)


@dataclass(frozen=True)
class Bad:
    """Reason of a bad signal: its value, the limit that was passed, and the rank of the outlier.

    ``worker`` is -1 if there is no outlier.
    """

    signal: Reason
    value: float
    limit: float
    worker: int = -1


@dataclass(frozen=True)
class Loss:
    """Signal of the loss: spikes above the median, drift above the best mean, a rising trend."""

    recent: tuple[float, ...] = ()
    spike: Gate = Gate()
    drift: Gate = Gate()
    best: float | None = None
    noise: float = 0.0  # standard deviation of the losses in the window of the best mean
    band: int = 0  # consecutive losses below the outer threshold of a spike
    limit: float | None = None
    since: int = 0  # losses since the start of low-bit, at most `slope_window`
    rise: float = 0.0  # rise of the trend line over its window, relative to the mean
    slope: Gate = Gate()

    def read(self, limits: Thresholds, loss: float | None) -> Loss:
        """Return the signal after the loss of one step; unchanged for None."""
        if loss is None:
            return self
        spike, band, limit = self.spike, self.band + 1, None
        if len(self.recent) >= limits.loss_least:
            middle, noise = _middle(self.recent)
            now, least = _middle(self.recent[-limits.spike_window :])
            outer = middle + limits.spike_out * noise
            limit = min(middle + limits.spike_in * noise, now + limits.spike_in * least)
            spike = spike.read(loss > limit, loss <= min(limit, outer), limits.spike_count)
            band = band if loss <= outer else 0
        recent = (*self.recent, loss)[-limits.loss_window :]
        since = min(self.since + 1, limits.slope_window)
        moved = replace(self, recent=recent, spike=spike, band=band, limit=limit, since=since)
        return moved._means(limits)._line(limits)

    def _means(self, limits: Thresholds) -> Loss:
        last = self.recent[-limits.mean_window :]
        if len(last) < limits.mean_window:
            return self
        mean = fmean(last)
        if self.best is None or mean < self.best:
            noise = math.sqrt(fmean([(one - mean) * (one - mean) for one in last]))
            return replace(self, best=mean, noise=noise, drift=Gate())
        rise, sigma = mean - self.best, limits.drift_sigma * self.noise
        beyond = rise > max(limits.drift_in * abs(self.best), sigma)
        within = rise <= max(limits.drift_out * abs(self.best), sigma / 2)
        return replace(self, drift=self.drift.read(beyond, within, limits.drift_count))

    def _line(self, limits: Thresholds) -> Loss:
        """Fit a line by least squares through the last `slope_window` losses.

        The trend is bad if the line rises by more than `slope_in` of the mean within the window,
        and its slope exceeds `slope_sigma` times its own standard error, so that noise alone is no
        trend. Only losses since the start of low-bit count: a difference from those before is no
        trend.
        """
        size = limits.slope_window
        if self.since < size or len(self.recent) < size:
            return self
        last = self.recent[-size:]
        mean, middle, spread = fmean(last), (size - 1) / 2, size * (size * size - 1) / 12
        slope = math.fsum((n - middle) * one for n, one in enumerate(last)) / max(spread, 1.0)
        rest = [one - mean - slope * (n - middle) for n, one in enumerate(last)]
        error = math.sqrt(
            math.fsum(one * one for one in rest) / max(size - 2, 1) / max(spread, 1.0)
        )
        rise, most = size * slope, abs(mean)
        beyond = slope > limits.slope_sigma * error and rise > limits.slope_in * most
        gate = self.slope.read(beyond, rise <= limits.slope_out * most, limits.slope_count)
        return replace(self, rise=rise / most if most else 0.0, slope=gate)

    def admitted(self) -> Loss:
        """Return the signal at the start of a low-bit state: best mean and trend start again.

        The recent losses are kept.
        """
        fresh = replace(self, spike=Gate(), drift=Gate(), best=None, noise=0.0, band=0)
        return replace(fresh, since=0, rise=0.0, slope=Gate())

    def falls(self, limits: Thresholds) -> bool:
        """Return whether the mean loss fell by more than `warmup_falls` in the last two windows."""
        window = limits.mean_window
        if len(self.recent) < 2 * window:
            return False
        before, now = fmean(self.recent[-2 * window : -window]), fmean(self.recent[-window:])
        return before - now > limits.warmup_falls * abs(before)

    def bad(self, limits: Thresholds, off: frozenset[Reason]) -> Bad | None:
        """Return why the loss is bad, or None: spike first, then slope, then drift.

        Signals in ``off`` are ignored.
        """
        last = self.recent[-1] if self.recent else 0.0
        if self.spike.bad and Reason.LOSS_SPIKE not in off:
            return Bad(Reason.LOSS_SPIKE, last, self.limit or 0.0)
        if self.slope.bad and Reason.LOSS_SLOPE not in off:
            return Bad(Reason.LOSS_SLOPE, self.rise, limits.slope_in)
        if self.drift.bad and Reason.LOSS_DRIFT not in off:
            return Bad(Reason.LOSS_DRIFT, last, self.best or 0.0)
        return None


@dataclass(frozen=True)
class NormRatio:
    """Signal of the norm: log2 of the decoded norm over the FP32 norm of the last sample."""

    reference: float | None = None
    ratio: float = 0.0
    gate: Gate = Gate()

    def read(self, limits: Thresholds, norm: float | None, reference: float | None) -> NormRatio:
        """Return the signal after a step.

        Args:
            limits: Thresholds.
            norm: log2 of the decoded norm, None if not measured.
            reference: log2 of the FP32 norm, None in steps without a sample.
        """
        known = reference if reference is not None else self.reference
        if norm is None or known is None:
            return self if reference is None else replace(self, reference=known)
        ratio = norm - known
        beyond, within = math.log2(limits.norm_in), math.log2(limits.norm_out)
        gate = self.gate.read(abs(ratio) > beyond, abs(ratio) <= within, limits.norm_count)
        return NormRatio(known, ratio, gate)

    @property
    def fresh(self) -> bool:
        """Return whether the limit was first passed in this step: a new sample is needed."""
        return self.gate.run == 1 and not self.gate.bad


@dataclass(frozen=True)
class Cosine:
    """Signal of the sampled cosine of FP32 mean and decoded gradient: EMA(1/2) and last sample."""

    ema: float | None = None
    last: float = 0.0
    good: int = 0  # consecutive samples that are good enough for an admission
    gate: Gate = Gate()

    def read(self, limits: Thresholds, cosine: float | None) -> Cosine:
        """Return the signal after a step; ``cosine`` is None in a step without a sample."""
        if cosine is None:
            return self
        ema = cosine if self.ema is None else (self.ema + cosine) / 2
        beyond = ema < on_grid(limits.drop) or cosine < on_grid(limits.floor)
        good = on_grid(limits.good)
        gate = self.gate.read(beyond, not beyond and ema >= good, 1)
        return Cosine(ema, cosine, self.good + 1 if cosine >= good else 0, gate)

    def why(self, limits: Thresholds) -> Bad:
        """Return the value that was too small, last sample or EMA, with its limit."""
        if self.last < on_grid(limits.floor):
            return Bad(Reason.COSINE, self.last, limits.floor)
        return Bad(Reason.COSINE, self.ema or 0.0, limits.drop)


@dataclass(frozen=True)
class Level:
    """Signal of a share that is bad on one side of a limit: vote margin or sign saturation."""

    value: float = 0.0
    limit: float = 0.0
    gate: Gate = Gate()


@dataclass(frozen=True)
class Agreement:
    """Signal of the least agreement of a worker with the vote, and that worker's rank.

    It is 0 for random votes, 1 for unanimous votes, below 0 for a worker that votes against the
    others.
    """

    value: float = 0.0
    worker: int = -1
    gate: Gate = Gate()

    def read(self, limits: Thresholds, value: float | None, worker: int) -> Agreement:
        """Return the signal after a step; ``value`` is None if no votes were compared."""
        if value is None:
            return self
        against, fine = value < on_grid(-limits.against_in), value >= on_grid(-limits.against_out)
        return Agreement(value, worker, self.gate.read(against, fine, limits.against_count))


@dataclass(frozen=True)
class RegionSignals:
    """All signals of one profile region.

    The limits of margin and saturation also depend on the calibrated values.
    """

    norm: NormRatio = NormRatio()
    cosine: Cosine = Cosine()
    margin: Level = Level()
    saturation: Level = Level()
    agreement: Agreement = Agreement()

    def read(
        self, limits: Thresholds, got: RegionReading, margin: float | None, saturation: float | None
    ) -> RegionSignals:
        """Return the signals after a step.

        Args:
            limits: Thresholds.
            got: Values of the region in the step.
            margin: Least margin of the calibration, None if not measured.
            saturation: Greatest saturation of the calibration, None if not measured.
        """
        found = (
            self.norm.read(limits, got.norm, got.reference),
            self.cosine.read(limits, got.cosine),
            _margin(self.margin, limits, got.margin, margin),
            _saturation(self.saturation, limits, got.saturation, saturation),
            self.agreement.read(limits, got.agreement, got.worker),
        )
        same = self.norm, self.cosine, self.margin, self.saturation, self.agreement
        return self if all(map(operator.is_, found, same)) else RegionSignals(*found)

    def bad(self, limits: Thresholds, off: frozenset[Reason]) -> Bad | None:
        """Return why the region is bad, or None.

        The first of cosine, norm, agreement, margin, saturation counts; signals in ``off`` are
        ignored.
        """
        ratio, margin, full, one = self.norm, self.margin, self.saturation, self.agreement
        if self.cosine.gate.bad and Reason.COSINE not in off:
            return self.cosine.why(limits)
        if ratio.gate.bad and Reason.NORM not in off:
            limit = math.copysign(math.log2(limits.norm_in), ratio.ratio)
            return Bad(Reason.NORM, ratio.ratio, limit)
        if one.gate.bad and Reason.AGREEMENT not in off:
            return Bad(Reason.AGREEMENT, one.value, -limits.against_in, one.worker)
        if margin.gate.bad and Reason.MARGIN not in off:
            return Bad(Reason.MARGIN, margin.value, margin.limit)
        if full.gate.bad and Reason.SATURATION not in off:
            return Bad(Reason.SATURATION, full.value, full.limit)
        return None


def _margin(old: Level, limits: Thresholds, value: float | None, profile: float | None) -> Level:
    if value is None or profile is None:  # zeros and closed gates lower a margin too
        return old
    limit = min(limits.margin_in, limits.margin_share * profile)
    outer = limit + limits.margin_out - limits.margin_in
    below, good = value < on_grid(limit), value >= on_grid(outer)
    return Level(value, limit, old.gate.read(below, good, limits.margin_count))


def _saturation(
    old: Level, limits: Thresholds, value: float | None, profile: float | None
) -> Level:
    if value is None:
        return old
    limit = max(limits.saturation_in, limits.saturation_times * (profile or 0.0))
    outer = limit * limits.saturation_out / limits.saturation_in
    above, good = value > on_grid(limit), value <= on_grid(outer)
    gate = old.gate.read(above, good, limits.saturation_count)
    return Level(value, limit, gate)


@dataclass(frozen=True)
class Events:
    """Signal of events that are tolerated if rare; ``steps`` are those of recent events."""

    steps: tuple[int, ...] = ()

    def read(self, limits: Thresholds, step: int, happened: bool) -> Events:
        """Return the signal after a step, with the events of the last `event_window` steps."""
        first = step - limits.event_window + 1
        kept = tuple(one for one in self.steps if one >= first)
        return Events((*kept, step) if happened else kept)

    def bad(self, limits: Thresholds) -> bool:
        """Return whether at least `nonfinite_count` events are in the window."""
        return len(self.steps) >= limits.nonfinite_count


@dataclass(frozen=True)
class JobSignals:
    """All signals of the job.

    ``lost`` (a bucket without a result) and ``device`` (the device calls for FP32) stay set until
    the state machine has acted on them.
    """

    loss: Loss = field(default_factory=Loss)
    nonfinite: Events = Events()
    faults: Events = Events()
    lost: bool = False
    device: bool = False  # FALLBACK bit, or DevLoad severe too often
    severe: float = 0.0

    def read(self, limits: Thresholds, got: Reading) -> JobSignals:
        """Return the signals after the agreed values of a step."""
        return JobSignals(
            self.loss.read(limits, got.loss),
            self.nonfinite.read(limits, got.step, got.nonfinite > 0),
            self.faults.read(limits, got.step, got.faults > 0),
            self.lost or got.lost > 0,
            self.device or got.fallback or got.severe > on_grid(limits.severe),
            got.severe,
        )

    def settled(self) -> JobSignals:
        """Return the signals once all of them have been acted on: only the recent losses stay."""
        return JobSignals(self.loss.admitted())

    def bad(self, limits: Thresholds, off: frozenset[Reason]) -> Bad | None:
        """Return why the job is bad, or None: the first of reducer, non-finite values, loss.

        Signals in ``off`` are ignored.
        """
        if Reason.REDUCER not in off:
            if self.lost:
                return Bad(Reason.REDUCER, 1.0, 1.0)
            if self.faults.bad(limits):
                return Bad(Reason.REDUCER, len(self.faults.steps), limits.nonfinite_count)
        if self.nonfinite.bad(limits) and Reason.NONFINITE not in off:
            return Bad(Reason.NONFINITE, len(self.nonfinite.steps), limits.nonfinite_count)
        return self.loss.bad(limits, off)


def _middle(values: Sequence[float]) -> tuple[float, float]:
    """Return the median, and the standard deviation estimated from the median absolute deviation.

    The deviation is at least 0.1 % of the median.
    """
    middle = median(values)
    spread = median([abs(one - middle) for one in values])
    return middle, max(_MAD * spread, _FLAT * abs(middle))

# SPDX-License-Identifier: Apache-2.0
"""Signals of the monitor, each with its window and its two thresholds (spec: runtime 4.1).

Every class is a value: ``read`` gives the next one. Readings are the same on every rank, and the
arithmetic is +, -, *, / and square root of float64 alone, so what follows is the same too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from neuron_fabric.monitor.job_plan import Signal, Thresholds, on_grid

_MAD = 1.4826  # times MAD: the standard deviation of normal noise
_FLAT = 1e-3  # of the median: a loss without any noise still may move as much


@dataclass(frozen=True)
class RegionReading:
    """What the ranks have agreed on of one region in one step; None: nothing was looked at.

    ``norm`` and ``reference`` are log2 of the norms of the decoded and of the FP32 gradient;
    ``agreement`` is the least of all workers', and ``worker`` whose it is.
    """

    cosine: float | None = None
    norm: float | None = None
    reference: float | None = None
    margin: float | None = None
    saturation: float | None = None
    agreement: float | None = None
    worker: int = -1


@dataclass(frozen=True)
class Reading:
    """What the ranks have agreed on of one step; regions in the plan's order.

    ``severe`` is a share of answers, ``faults`` counts poison, duplicates and late answers, and the
    link's seconds are rank 0's: latency of an FP32 all-reduce, and a MiB of it.
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


@dataclass(frozen=True)
class Gate:
    """Hysteresis: bad after ``count`` readings beyond the inner threshold in a row, good again
    after as many within the outer one. What lies between the two changes nothing."""

    bad: bool = False
    run: int = 0

    def read(self, beyond: bool, within: bool, count: int) -> Gate:
        """The gate after one reading, which is not both ``beyond`` and ``within``."""
        if not (within if self.bad else beyond):
            return Gate(self.bad, 0)
        run = self.run + 1
        return Gate(not self.bad, 0) if run >= count else Gate(self.bad, run)


@dataclass(frozen=True)
class Bad:
    """Why something is bad: the signal, its value, the limit that it has passed, and whose it is
    where one worker stands out (-1: nobody's)."""

    signal: Signal
    value: float
    limit: float
    worker: int = -1


@dataclass(frozen=True)
class Loss:
    """Spikes above the medians of the last losses, drifts above their best mean, and lines through
    them that rise."""

    recent: tuple[float, ...] = ()
    spike: Gate = Gate()
    drift: Gate = Gate()
    best: float | None = None
    noise: float = 0.0  # standard deviation of the losses of the best mean
    band: int = 0  # losses in a row that are no spike by the outer threshold
    limit: float | None = None
    since: int = 0  # losses since low-bit began, as many as are needed
    rise: float = 0.0  # of the line, within its window and of its mean
    slope: Gate = Gate()

    def read(self, limits: Thresholds, loss: float | None) -> Loss:
        """The signal after the loss of one step."""
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
        mean = _mean(last)
        if self.best is None or mean < self.best:
            noise = math.sqrt(_mean([(one - mean) * (one - mean) for one in last]))
            return replace(self, best=mean, noise=noise, drift=Gate())
        rise, sigma = mean - self.best, limits.drift_sigma * self.noise
        beyond = rise > max(limits.drift_in * abs(self.best), sigma)
        within = rise <= max(limits.drift_out * abs(self.best), sigma / 2)
        return replace(self, drift=self.drift.read(beyond, within, limits.drift_count))

    def _line(self, limits: Thresholds) -> Loss:
        """The line of least squares through the losses of the window, once they are all of now."""
        size = limits.slope_window
        if self.since < size or len(self.recent) < size:
            return self
        last = self.recent[-size:]
        mean, middle, spread = _mean(last), (size - 1) / 2, size * (size * size - 1) / 12
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
        """As low-bit begins again: the best mean is that since then, and so is the line."""
        fresh = replace(self, spike=Gate(), drift=Gate(), best=None, noise=0.0, band=0)
        return replace(fresh, since=0, rise=0.0, slope=Gate())

    def falls(self, limits: Thresholds) -> bool:
        """Whether the loss still falls by more than `warmup_falls` from window to window."""
        window = limits.mean_window
        if len(self.recent) < 2 * window:
            return False
        before, now = _mean(self.recent[-2 * window : -window]), _mean(self.recent[-window:])
        return before - now > limits.warmup_falls * abs(before)

    def bad(self, limits: Thresholds, off: frozenset[Signal]) -> Bad | None:
        """Why the loss is bad, if it is: the first of spike, slope, drift."""
        last = self.recent[-1] if self.recent else 0.0
        if self.spike.bad and Signal.LOSS_SPIKE not in off:
            return Bad(Signal.LOSS_SPIKE, last, self.limit or 0.0)
        if self.slope.bad and Signal.LOSS_SLOPE not in off:
            return Bad(Signal.LOSS_SLOPE, self.rise, limits.slope_in)
        if self.drift.bad and Signal.LOSS_DRIFT not in off:
            return Bad(Signal.LOSS_DRIFT, last, self.best or 0.0)
        return None


@dataclass(frozen=True)
class NormRatio:
    """The decoded norm against the FP32 norm at the last sample, in log2."""

    reference: float | None = None
    ratio: float = 0.0
    gate: Gate = Gate()

    def read(self, limits: Thresholds, norm: float | None, reference: float | None) -> NormRatio:
        """The signal after a step; ``reference`` at samples only."""
        known = reference if reference is not None else self.reference
        if norm is None or known is None:
            return replace(self, reference=known)
        ratio = norm - known
        beyond, within = math.log2(limits.norm_in), math.log2(limits.norm_out)
        gate = self.gate.read(abs(ratio) > beyond, abs(ratio) <= within, limits.norm_count)
        return NormRatio(known, ratio, gate)

    @property
    def fresh(self) -> bool:
        """Whether it has gone beyond its limit in this step: a new reference is wanted."""
        return self.gate.run == 1 and not self.gate.bad


@dataclass(frozen=True)
class Cosine:
    """The sampled cosine of the mean gradient and the decoded one: EMA(1/2), and the last."""

    ema: float | None = None
    last: float = 0.0
    good: int = 0  # samples in a row that admit
    gate: Gate = Gate()

    def read(self, limits: Thresholds, cosine: float | None) -> Cosine:
        """The signal after a step; None: no sample."""
        if cosine is None:
            return self
        ema = cosine if self.ema is None else (self.ema + cosine) / 2
        beyond = ema < on_grid(limits.drop) or cosine < on_grid(limits.floor)
        good = on_grid(limits.good)
        gate = self.gate.read(beyond, not beyond and ema >= good, 1)
        return Cosine(ema, cosine, self.good + 1 if cosine >= good else 0, gate)

    def why(self, limits: Thresholds) -> Bad:
        """The value that was too small, and its limit."""
        if self.last < on_grid(limits.floor):
            return Bad(Signal.COSINE, self.last, limits.floor)
        return Bad(Signal.COSINE, self.ema or 0.0, limits.drop)


@dataclass(frozen=True)
class Level:
    """A share that is bad on one side of a limit: vote margin, update saturation."""

    value: float = 0.0
    limit: float = 0.0
    gate: Gate = Gate()


@dataclass(frozen=True)
class Agreement:
    """How often the votes of the worker that agrees least are those that came back: 0 is what
    random votes of all give, 1 is one voice, and below 0 somebody is against the others."""

    value: float = 0.0
    worker: int = -1
    gate: Gate = Gate()

    def read(self, limits: Thresholds, value: float | None, worker: int) -> Agreement:
        """The signal after a step; None: nobody has voted."""
        if value is None:
            return self
        against, fine = value < on_grid(-limits.against_in), value >= on_grid(-limits.against_out)
        return Agreement(value, worker, self.gate.read(against, fine, limits.against_count))


@dataclass(frozen=True)
class RegionSignals:
    """All of one region. ``margin`` and ``saturation`` are judged against the profile's too."""

    norm: NormRatio = NormRatio()
    cosine: Cosine = Cosine()
    margin: Level = Level()
    saturation: Level = Level()
    agreement: Agreement = Agreement()

    def read(
        self, limits: Thresholds, got: RegionReading, margin: float | None, saturation: float | None
    ) -> RegionSignals:
        """After a step; ``margin`` and ``saturation`` are the profile's, None: not measured."""
        return RegionSignals(
            self.norm.read(limits, got.norm, got.reference),
            self.cosine.read(limits, got.cosine),
            _margin(self.margin, limits, got.margin, margin),
            _saturation(self.saturation, limits, got.saturation, saturation),
            self.agreement.read(limits, got.agreement, got.worker),
        )

    def bad(self, limits: Thresholds, off: frozenset[Signal]) -> Bad | None:
        """Why the region is bad, if it is: the first of cosine, norm, agreement, margin,
        saturation."""
        ratio, margin, full, one = self.norm, self.margin, self.saturation, self.agreement
        if self.cosine.gate.bad and Signal.COSINE not in off:
            return self.cosine.why(limits)
        if ratio.gate.bad and Signal.NORM not in off:
            limit = math.copysign(math.log2(limits.norm_in), ratio.ratio)
            return Bad(Signal.NORM, ratio.ratio, limit)
        if one.gate.bad and Signal.AGREEMENT not in off:
            return Bad(Signal.AGREEMENT, one.value, -limits.against_in, one.worker)
        if margin.gate.bad and Signal.MARGIN not in off:
            return Bad(Signal.MARGIN, margin.value, margin.limit)
        if full.gate.bad and Signal.SATURATION not in off:
            return Bad(Signal.SATURATION, full.value, full.limit)
        return None


def _margin(old: Level, limits: Thresholds, value: float | None, profile: float | None) -> Level:
    if value is None or profile is None:  # zeros and closed gates have a margin of their own
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
    """Steps with something that may happen now and then, but not often."""

    steps: tuple[int, ...] = ()

    def read(self, limits: Thresholds, step: int, happened: bool) -> Events:
        """After a step: those of the last `event_window` steps."""
        first = step - limits.event_window + 1
        kept = tuple(one for one in self.steps if one >= first)
        return Events((*kept, step) if happened else kept)

    def bad(self, limits: Thresholds) -> bool:
        """Too often."""
        return len(self.steps) >= limits.nonfinite_count


@dataclass(frozen=True)
class JobSignals:
    """What concerns the whole job. ``lost`` and ``device`` stay until they have been acted on."""

    loss: Loss = field(default_factory=Loss)
    nonfinite: Events = Events()
    faults: Events = Events()
    lost: bool = False
    device: bool = False  # FALLBACK bit, or DevLoad severe too often
    severe: float = 0.0

    def read(self, limits: Thresholds, got: Reading) -> JobSignals:
        """After a step."""
        return JobSignals(
            self.loss.read(limits, got.loss),
            self.nonfinite.read(limits, got.step, got.nonfinite > 0),
            self.faults.read(limits, got.step, got.faults > 0),
            self.lost or got.lost > 0,
            self.device or got.fallback or got.severe > on_grid(limits.severe),
            got.severe,
        )

    def settled(self) -> JobSignals:
        """Once all of it has been acted on: what is left are the losses."""
        return JobSignals(self.loss.admitted())

    def bad(self, limits: Thresholds, off: frozenset[Signal]) -> Bad | None:
        """Why the job is bad, if it is: the first of reducer, non-finite, loss."""
        if Signal.REDUCER not in off:
            if self.lost:
                return Bad(Signal.REDUCER, 1.0, 1.0)
            if self.faults.bad(limits):
                return Bad(Signal.REDUCER, len(self.faults.steps), limits.nonfinite_count)
        if self.nonfinite.bad(limits) and Signal.NONFINITE not in off:
            return Bad(Signal.NONFINITE, len(self.nonfinite.steps), limits.nonfinite_count)
        return self.loss.bad(limits, off)


def _middle(values: Sequence[float]) -> tuple[float, float]:
    """The median, and the standard deviation that the median distance from it stands for."""
    middle = _median(values)
    spread = _median([abs(one - middle) for one in values])
    return middle, max(_MAD * spread, _FLAT * abs(middle))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)  # exact: no version of Python sums otherwise


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2

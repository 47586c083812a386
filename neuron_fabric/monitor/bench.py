# SPDX-License-Identifier: Apache-2.0
"""Benchmark of the monitor (`nf train monitor bench`): detection times and rate of false alarms.

A detection time is the number of steps until an injected fault is detected. Trainings are synthetic
(`Trace`) or recorded. Results of synthetic trainings show the thresholds on signals of plausible
size, not on the user's training.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neuron_fabric.capacity.profile_costs import Cost
from neuron_fabric.codec.routes import Route
from neuron_fabric.errors import MonitorError
from neuron_fabric.hook.monitor_samples import Agreements
from neuron_fabric.monitor.consensus import AllReduce, Codec, Vector, reduced
from neuron_fabric.monitor.controller import Controller
from neuron_fabric.monitor.job_plan import Plan, plan_of
from neuron_fabric.monitor.log import Segment
from neuron_fabric.monitor.recordings import decided, noise_of, readings, with_loss
from neuron_fabric.monitor.signals import Reason, ReducerCounters, StepReport, random_margin
from neuron_fabric.monitor.states import Decision, Mode, Status
from neuron_fabric.profile.profile_types import (
    FULL,
    Kind,
    Measured,
    ModelId,
    Phase,
    PhaseRoute,
    Profile,
    Region,
)

# Ranks in one process: an all-reduce and small profiles for tests and the bench.

_SECONDS = 20.0


class LocalGroup:
    """All-reduce among ``world`` ranks in one process, each a thread.

    If a rank is missing in a reduction, the others get a BrokenBarrierError.
    """

    def __init__(self, world: int) -> None:
        self._vectors: dict[int, Vector] = {}
        self._all = threading.Barrier(world, timeout=_SECONDS)

    def rank(self, rank: int) -> AllReduce:
        """Return the all-reduce function of one rank, see `consensus.AllReduce`."""

        def start(values: Vector, sums: int) -> Callable[[], Vector]:
            self._vectors[rank] = values.copy()

            def result() -> Vector:
                self._all.wait()
                found = reduced(np.stack(list(self._vectors.values())), sums)
                self._all.wait()  # no rank starts the next reduction before all have read this one
                return found

            return result

        return start


PHASES: Mapping[str, PhaseRoute] = {
    Phase.WARMUP: FULL,
    Phase.STEADY: PhaseRoute(Route.G_BINARY),
    Phase.RECOVERY: PhaseRoute(Route.G_TERNARY, "net"),
}


def small_region(
    name: str,
    elements: int,
    phases: Mapping[str, PhaseRoute] = PHASES,
    measured: Measured | None = None,
) -> Region:
    """Return a profile region for tests and the bench; by default low-bit when steady."""
    return Region(name, Kind.REST, (), elements, phases, measured or {})


def small_profile(
    regions: Sequence[Region], monitor: Mapping[str, object] | None = None, name: str = "small"
) -> Profile:
    """Return a profile of the given regions, for no model."""
    return Profile(name, ModelId("", 0), tuple(regions), monitor=monitor or {})


# Synthetic trainings. Workers' gradients are drawn around a mean whose direction turns slowly and
# whose share in them falls, as in a training. Signs are voted on and decoded as by the hook, and
# all signals are computed from that. Faults are injected at their origin: gradients, votes, scales,
# losses or counters. A fault of the low-bit path affects only regions that are low-bit at that
# time.

F64 = npt.NDArray[np.float64]
DRAWN = 512
"""Elements that are drawn of each region, whatever its size."""
REGIONS: Mapping[str, int] = {"head": 9_700, "conv": 32_256, "stem": 11_000}


@dataclass(frozen=True)
class Fault:
    """Fault that the bench injects into a synthetic training.

    Attributes:
        words: Description.
        within: Steps within which it must be detected; 0 if the thresholds tolerate it.
        region: Region that it affects, "" for the job.
        workers: Workers of its training.
    """

    words: str
    within: int = 25
    region: str = ""
    workers: int = 4


_ONE_SAMPLE = 55  # 50 steps between samples, and the least distance of transitions
FAULTS: Mapping[str, Fault] = {
    "bad_head": Fault("softmax head: the vote always says +", _ONE_SAMPLE, "head"),
    "scale_x16": Fault("decoded 16 times too large", 25, "conv"),
    "scale_16th": Fault("decoded 16 times too small", 25, "conv"),
    "flipped_worker": Fault("one worker of two has the wrong sign", 25, "conv", 2),
    "flipped_of_8": Fault("one worker of eight has the wrong sign", 25, "conv", 8),
    "flipped_vote": Fault("the vote has the wrong sign", 25, "conv"),
    "stuck_votes": Fault("the same votes in every step", 25, "conv"),
    "drift_of_zeros": Fault("gradients become zeros, which vote +", _ONE_SAMPLE, "stem"),
    "mixed_lines": Fault("workers' lines belong to different places", 25, "stem"),
    "loss_spike": Fault("the loss jumps to 6 times for 10 steps"),
    "divergence": Fault("the loss creeps up, 1 % a step, while it fell (25 asked)", 65),
    "nonfinite": Fault("a NaN in every second step"),
    "lost": Fault("a bucket without a result"),
    "late": Fault("late answers in every step"),
    "device_fallback": Fault("the device raises FALLBACK"),
    "mismatch": Fault("lines differ from the shadow check"),
    "fast_link": Fault("the FP32 network gets 20 times faster"),
}


HEALTHY = Fault("nothing")
CREEP = 1.01


def level(step: int, steps: int) -> float:
    """Return the mean of a healthy loss in step ``step`` of ``steps``."""
    return float(0.3 + 4.0 * np.exp(-4 * step / steps))


class Trace:
    """Synthetic training that computes the step reports; ``fault`` begins at step ``at``."""

    def __init__(self, seed: int, fault: str = "", at: int = 251, steps: int = 500) -> None:
        self._draw = np.random.default_rng(seed)
        self._fault, self._at, self._steps = fault, at, steps
        self.workers = FAULTS.get(fault, HEALTHY).workers
        self._mean = {name: self._unit() for name in REGIONS}
        self._stuck = {name: np.sign(self._unit()) for name in REGIONS}
        self.noise = float(self._draw.uniform(0.03, 0.08))
        """Standard deviation of a loss, relative to its mean."""
        self._run = {name: np.zeros(DRAWN) for name in REGIONS}
        self._sign = {name: np.zeros(DRAWN) for name in REGIONS}
        self._agreements: list[dict[str, float]] = [{} for _ in range(self.workers)]
        self.others: list[StepReport] = []
        """Reports of the other ranks for the last step: their agreements."""

    def report(self, step: int, routes: Mapping[str, Any], samples: frozenset[str]) -> StepReport:
        """Return the report of rank 0 for a step with the given routes and samples."""
        norms, cosines, margins, full = {}, {}, {}, {}
        low_bytes = fp32_bytes = 0
        voted = set()
        for name, elements in REGIONS.items():
            low = str(routes[name].route) != Route.FP32
            fp32_bytes += 0 if low else 4 * elements
            low_bytes += elements // 8 if low else 0
            if not low and name not in samples:
                continue
            net = str(routes[name].decode) == "net"
            mean, decoded, codes = self._reduced(step, name, low, net)
            counts = (codes > 0).sum(axis=0)
            self._agree(name, codes, np.sign(decoded))
            voted.add(name)
            square = float(mean @ mean)
            norms[name] = (float(decoded @ decoded), square if name in samples else None)
            if name in samples:
                cosines[name] = (float(mean @ decoded), square, float(decoded @ decoded))
            if low and net:
                margins[name] = (int(np.abs(2 * counts - self.workers).sum()), DRAWN)
            if low:
                full[name] = self._saturation(name, np.sign(decoded))
        told = [{name: one[name] for name in voted} for one in self._agreements]
        self.others = [StepReport(step, agreements=one) for one in told[1:]]
        faster = 20 if self._is("fast_link", step) else 1
        return StepReport(
            step,
            losses=self._loss(step, bool(low_bytes)),
            norms=norms,
            cosines=cosines,
            margins=margins,
            nonfinite=int(self._is("nonfinite", step) and step % 2 == 0),
            saturation=full,
            reducer=self._reducer(step, bool(low_bytes)),
            bytes={
                Route.FP32: (fp32_bytes * 3 // 2, fp32_bytes * 3 // 2),
                Route.G_BINARY: (low_bytes, low_bytes),
            },
            seconds={"link_latency": 1e-4 / faster, "link_mib": 1e-2 / faster},
            agreements=told[0],
        )

    def _is(self, fault: str, step: int) -> bool:
        return self._fault == fault and step >= self._at

    def _unit(self) -> F64:
        drawn = self._draw.standard_normal(DRAWN)
        return drawn / np.sqrt(drawn @ drawn)

    def _gradients(self, step: int, name: str) -> F64:
        """Return the gradients of all workers, float64[workers, DRAWN].

        The share of their mean falls from 1.2 to 0.4 times the noise during the training.
        """
        turned = self._mean[name] + 0.1 * self._unit()
        mean = self._mean[name] = turned / np.sqrt(turned @ turned)
        noise = self._draw.standard_normal((self.workers, DRAWN)) / np.sqrt(DRAWN)
        part = 1.2 - 0.8 * min(step / self._steps, 1.0)
        if self._fault == "bad_head" and name == "head" and step >= self._at:
            # Samples of one class: large and negative.
            rare = self._draw.random((self.workers, DRAWN)) < 0.12
            head: F64 = 0.18 * np.where(rare, -0.88, 0.12) + 0.01 * noise
            return head
        drawn: F64 = part * mean + noise
        if self._fault == "drift_of_zeros" and name == FAULTS[self._fault].region:
            share = min(max(step - self._at, 0) / 20, 1.0) * 0.97
            drawn[self._draw.random(drawn.shape) < share] = 0.0
        return drawn

    def _reduced(self, step: int, name: str, low: bool, net: bool) -> tuple[F64, F64, F64]:
        """Return FP32 mean, decoded vote (float64[DRAWN] each), and votes float64[workers, DRAWN].

        The fault is injected if it affects this region, and the region is low-bit (``low``).
        ``net``: decode from counts.
        """
        drawn = self._gradients(step, name)
        mean: F64 = drawn.mean(axis=0)
        codes = drawn.copy()
        wrong = low and FAULTS.get(self._fault, HEALTHY).region == name and step >= self._at
        if wrong and self._fault in ("flipped_worker", "flipped_of_8"):
            codes[0] = -codes[0]
        if wrong and self._fault == "mixed_lines":
            codes = np.stack([np.roll(one, 64 * n) for n, one in enumerate(codes)])
        votes = np.where(codes >= 0, 1.0, -1.0)
        counted = votes.sum(axis=0)
        vote = counted / self.workers if net else np.where(counted >= 0, 1.0, -1.0)
        scale = float(np.abs(drawn).mean())
        if wrong:
            vote = {"flipped_vote": -vote, "stuck_votes": self._stuck[name]}.get(self._fault, vote)
            scale *= {"scale_x16": 16.0, "scale_16th": 1 / 16}.get(self._fault, 1.0)
        return mean, scale * vote, votes

    def _agree(self, name: str, votes: F64, vote: F64) -> None:
        """Update each worker's running agreement with the vote, as `sampling.Agreements` does."""
        random = random_margin(self.workers)
        for own, running in zip(votes, self._agreements, strict=True):
            product = own * vote
            share = float((product > 0).sum() / max(1, np.count_nonzero(product)))
            running[name] = Agreements.running_mean(running.get(name, 0.0), share, random)

    def _saturation(self, name: str, sign: F64) -> float:
        self._run[name] = np.where(sign == self._sign[name], self._run[name] + 1, 0)
        self._sign[name] = sign
        return float((self._run[name] >= 32).mean())

    def _loss(self, step: int, low: bool) -> float:
        loss = level(step, self._steps)
        if self._is("loss_spike", step) and step < self._at + 10:
            loss *= 6
        if self._is("divergence", step) and low:
            loss *= CREEP ** (step - self._at)
        return float(loss * (1 + self.noise * self._draw.standard_normal()))

    def _reducer(self, step: int, low: bool) -> ReducerCounters:
        if not low:
            return ReducerCounters()
        return ReducerCounters(
            fallback=self._fault == "device_fallback" and step == self._at,
            answers=100,
            severe=int(self._draw.integers(0, 3)),
            late=int(self._is("late", step)),
            mismatch=int(self._is("mismatch", step)),
            lost=int(self._fault == "lost" and step == self._at),
        )


STEPS = 500
AT = 251  # 1 step after a sample: the next one follows 49 steps later
WARMUP = 50
ALARMS = frozenset(
    {Status.DEMOTED, Status.LOCKED, Mode.FALLBACK, Mode.LOCKED_FP32, "rejected", "ended"}
)
"""Decisions that a healthy training must not cause."""
MOST_FALSE = 1e-4  # false alarms a step
HISTORY = 100  # losses before a fault that an optimal test may know
_SHARES = {"margin": (0.05, 0.4), "saturation": (0.0, 0.1)}
_MEASURED: Measured = {Phase.STEADY: {"G_BINARY": {"vote": _SHARES, "net": _SHARES}}}
_PHASES = {"stem": {**PHASES, Phase.STEADY: PhaseRoute(Route.G_BINARY, "net")}}
_FP32 = dict.fromkeys(PHASES, FULL)


@dataclass(frozen=True)
class Found:
    """First alarm after an injected fault; ``after``: number of steps from fault to alarm."""

    decision: Decision
    after: int


def profile(low_bit: bool = True) -> Profile:
    """Return a profile with the three regions of `REGIONS`, with low-bit routes or all in FP32.

    The region "stem" is decoded from counts.
    """
    return small_profile(
        [
            small_region(name, size, _PHASES.get(name, PHASES) if low_bit else _FP32, _MEASURED)
            for name, size in REGIONS.items()
        ]
    )


def trained(
    seed: int,
    fault: str = "",
    off: Sequence[Reason] = (),
    *,
    low_bit: bool = True,
    steps: int = STEPS,
    folder: Path | None = None,
) -> list[Decision]:
    """Run a synthetic training with a controller; return all decisions.

    If the monitor ends the run, the last decision is one with the target `ended`.

    Args:
        seed: Seed of the training.
        fault: Injected fault, "" for none.
        off: Signals that are ignored.
        low_bit: Whether the profile has low-bit routes.
        steps: Length of the training.
        folder: Folder for a log.
    """
    used, trace = profile(low_bit), Trace(seed, fault, AT, steps)
    costs = {name: Cost(1e-4, 4 * n) for name, n in REGIONS.items()}
    plan: Plan = replace(plan_of(used, warmup=WARMUP, costs=costs), off=tuple(off))
    codecs = [Codec(plan, trace.workers, rank) for rank in range(1, trace.workers)]

    def beside(values: Vector, sums: int) -> Callable[[], Vector]:
        """Return a function that returns rank 0's sums, and the minima over all ranks.

        The bench passes this as the all-reduce of the controller of rank 0. ``sums`` + 2 leading
        numbers are left as they are; the others are the minima of the synthetic ranks.
        """
        told = [one.least(its) for one, its in zip(codecs, trace.others, strict=True)]
        own, least = np.split(values, [sums + 2])  # after both ends of the digest
        values = np.concatenate([own, np.max([least, *told], axis=0)])
        return lambda: values

    one = Controller(used, beside, world=trace.workers, folder=folder, plan=plan)
    step = 0
    try:
        for step in range(steps):
            one.step_end(trace.report(step, one.routes(), one.samples()))
        one.routes()
    except MonitorError:
        ended = Decision(step - 1, "", one.decisions[-1].target, "ended", Reason.REDUCER, 1.0, 0.0)
        return [*one.decisions, ended]
    one.close()
    return one.decisions


def found(decisions: Sequence[Decision], at: int = AT) -> Found | None:
    """Return the first alarm from step ``at`` on, at which a fault begins, or None."""
    after = [one for one in alarms(decisions) if one.step >= at]
    return Found(after[0], after[0].step - at) if after else None


def bench_lines(
    seed: int,
    healthy: int,
    off: Sequence[Reason] = (),
    fault: str | None = None,
    seeds: int = 3,
) -> tuple[list[str], bool]:
    """Inject faults into synthetic trainings; return the table of detections and the verdict.

    The verdict is True if all faults were detected in time, with few enough false alarms.

    Args:
        seed: First seed.
        healthy: Number of healthy runs.
        off: Signals that are ignored.
        fault: The only fault; by default all.
        seeds: Trainings for each fault.
    """
    out = [
        f"synthetic trainings (not recorded ones); faults begin at step {AT} of {STEPS}, 1 step",
        f"after a sample: the next is at 300; steps until detection: least, most of {seeds} seeds",
    ]
    out += [f"without {', '.join(off)}"] * bool(off)
    good = True
    for name in [fault] if fault else FAULTS:
        line, in_time = _fault_line(
            name, [found(trained(seed + n, name, off)) for n in range(seeds)]
        )
        out.append(line)
        good &= in_time
        if name == "divergence":
            noises = sorted(Trace(seed + n, name, AT, STEPS).noise for n in range(seeds))
            ends = [soonest(noises[0]), soonest(noises[-1])]
            out.append(
                f"{'':19}{ends[0]:4} {ends[1]:4} steps at the soonest, by any test for which a "
                f"loss that does not rise is healthy (noise {noises[0]:.1%} to {noises[-1]:.1%})"
            )
    wrong: list[str] = []
    for number in range(healthy):
        decided = trained(seed + 1 + number, "", off, low_bit=number % 4 != 0)
        wrong += false_alarms(f"run {number}", decided)
    if healthy:
        line, few = _judged(healthy, healthy * STEPS, wrong)
        out += [*wrong[:10], line]
        good &= few
    return out, good


def alarms(decided: Sequence[Decision]) -> list[Decision]:
    """Return the decisions that a healthy training must not cause, see `ALARMS`."""
    return [one for one in decided if one.target in ALARMS]


def false_alarms(run: str, decided: Sequence[Decision]) -> list[str]:
    """Return a line of text for each alarm among the decisions of a healthy run called ``run``."""
    return [
        f"  false alarm: {run} step {one.step} {one.region or 'job'} {one.signal} "
        f"{one.value:.3g}, limit {one.limit:.3g}"
        for one in alarms(decided)
    ]


def _judged(runs: int, steps: int, wrong: Sequence[str]) -> tuple[str, bool]:
    """Return a line about healthy runs, and whether they have few enough false alarms.

    Accepted are `MOST_FALSE` per step, and one in any case.
    """
    line = f"  {runs} healthy runs, {steps:,} steps: {len(wrong)} false alarms"
    return line, len(wrong) <= max(1.0, MOST_FALSE * steps)


def non_rising(means: Sequence[float]) -> list[float]:
    """Return the non-increasing sequence with the least squared distance from ``means``.

    It is computed by the pool-adjacent-violators algorithm.
    """
    pools: list[tuple[float, int]] = []
    for mean in means:
        pool = (mean, 1)
        while pools and pools[-1][0] < pool[0]:
            (a, n), (b, k) = pools.pop(), pool
            pool = ((a * n + b * k) / (n + k), n + k)
        pools.append(pool)
    return [mean for mean, count in pools for _ in range(count)]


def soonest(noise: float, before: Callable[[int], float] | None = None) -> int:
    """Return a lower bound for the steps that any test needs to detect `divergence`.

    The test may know the noise, the fault and its start, but not the healthy loss of the present
    step; every loss that does not rise counts as healthy, and one false alarm in 10,000 steps is
    allowed. By Wald's inequality the mean log likelihood ratio between the losses and the nearest
    healthy losses must then reach log 10,000.

    Args:
        noise: Relative standard deviation of a loss.
        before: Healthy mean loss so many steps after the start of the fault; by default that of a
            synthetic training.
    """
    before = before or (lambda after: level(AT + after, STEPS))
    means = [before(n) for n in range(-HISTORY, 0)]
    for after in range(STEPS):
        means.append(before(after) * CREEP**after)
        off = zip(means, non_rising(means), strict=True)
        told = math.fsum(((a - b) / (noise * a)) ** 2 for a, b in off) / 2
        if told >= math.log(1 / MOST_FALSE):
            return after
    return STEPS


def _fault_line(name: str, runs: Sequence[Found | None]) -> tuple[str, bool]:
    """Return the table row of a fault, and whether it was detected in time in all its trainings."""
    its, seen = FAULTS[name], [one for one in runs if one is not None]
    missed = len(runs) - len(seen)
    in_time = not missed and all(one.after <= its.within for one in seen)
    if not seen:
        said = "NOT FOUND"
    else:
        after = sorted(one.after for one in seen)
        by = " ".join(dict.fromkeys(one.decision.signal for one in seen))
        to = " ".join(dict.fromkeys(one.decision.target for one in seen))
        said = f"{after[0]:4} {after[-1]:4} steps  {by:11} {to}"
        said += f"  NOT FOUND {missed} times" if missed else ""
        said += "" if in_time or missed else f"  LATE, {its.within} at most"
    return f"  {name:16} {said:45} {its.words}", in_time


# Bench of recorded trainings: false alarms, and faults injected into their losses.


SPACE = 60
"""Steps between the injection and the end of a recording, and before the injection."""
_PLACES = 5
_BESIDE = 10  # losses on either side that are averaged


_FAULTS: Mapping[str, Callable[[Sequence[float]], list[float]]] = {
    "loss_spike": lambda levels: [6.0 if n < 10 else 1.0 for n in range(SPACE)],
    "divergence": lambda levels: [CREEP ** (n + 1) * levels[0] / levels[n] for n in range(SPACE)],
}
"""Factors on the losses from the injection on: a spike of 6 times for 10 steps, and a level that
rises by 1 % a step with the noise of the training."""


def recorded_lines(
    runs: Mapping[str, Segment], off: Sequence[Reason] = ()
) -> tuple[list[str], bool]:
    """Test the default thresholds on recorded trainings; return lines of text and the verdict.

    The lines name each false alarm, and for each training the detection times of faults injected
    into its losses. The verdict is True if there are few enough false alarms; detection times are
    not judged, since they depend on the noise of a training.
    """
    out = [f"{len(runs)} recorded trainings, by the thresholds of now"]
    out += [f"without {', '.join(off)}"] * bool(off)
    wrong: list[str] = []
    for name, segment in runs.items():
        wrong += false_alarms(name, decided(segment, off))
    line, few = _judged(len(runs), sum(len(one.steps) for one in runs.values()), wrong)
    out += [*wrong, line]
    out.append("faults put into their losses: steps until one is found, least to most")
    for name, segment in runs.items():
        if words := _faults(segment, off):
            out.append(f"  {name:44} {words}")
    return out, few


def _faults(segment: Segment, off: Sequence[Reason]) -> str:
    last = len(segment.steps) - SPACE
    first = min(segment.run.plan.warmup + SPACE, last)
    if first < SPACE // 2:
        return ""
    places = sorted({first + n * (last - first) // (_PLACES - 1) for n in range(_PLACES)})
    noise = noise_of(segment)
    words = [f"noise {noise:5.1%}"]
    levels = levels_of(segment)
    for fault, factors in _FAULTS.items():
        runs = [(with_loss(segment, at, factors(levels[at : at + SPACE])), at) for at in places]
        ends = [found(decided(run, off), at) for run, at in runs]
        after = sorted(one.after for one in ends if one is not None)
        said = f"{after[0]:3} {after[-1]:3}" if after else "  -   -"
        missed = f" ({len(ends) - len(after)} of {len(ends)} not)" * (len(after) < len(ends))
        words.append(f"{fault} {said}{missed}")
    if noise:
        words.append(f"at the soonest {soonest(noise, lambda _: 1.0)}")
    return "  ".join(words)


def levels_of(segment: Segment) -> list[float]:
    """Return for each step the mean of up to 21 losses around it; 1.0 if none was observed."""
    known = [one.loss for one in readings(segment)]
    out = []
    for n in range(len(known)):
        near = [one for one in known[max(0, n - _BESIDE) : n + _BESIDE + 1] if one is not None]
        out.append(sum(near) / len(near) if near else 1.0)
    return out

# SPDX-License-Identifier: Apache-2.0
"""How soon the monitor finds injected faults, and how often it cries wolf (`monitor bench`).

The trainings are made up (`traces`): the figures say what the thresholds do on signals of plausible
size, not what they do on a training of yours.
"""

from __future__ import annotations

import itertools
import json
import lzma
import math
import statistics
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neuron_fabric.codec.routes import Route
from neuron_fabric.errors import MonitorError
from neuron_fabric.hook.sampling import Agreements
from neuron_fabric.monitor import log
from neuron_fabric.monitor.consensus import (
    COUNT_BIT,
    JOB_FIELDS,
    AllReduce,
    Codec,
    Vector,
    random_margin,
    reduced,
)
from neuron_fabric.monitor.controller import Controller
from neuron_fabric.monitor.job_plan import Cost, Limits, Plan, Signal, plan_of
from neuron_fabric.monitor.log import Segment, Step, plain, replay
from neuron_fabric.monitor.signals import Reading
from neuron_fabric.monitor.states import Decision, Mode, Status
from neuron_fabric.monitor.step_report import ReducerCounters, StepReport
from neuron_fabric.output import NewFile

# Ranks in one process: an `all_reduce` for tests and the bench, and small profiles for them.

_SECONDS = 20.0


class LocalGroup:
    """``world`` ranks, as threads or one after the other: the n-th call of every rank is one
    reduction. Waiting for a rank that never comes ends with TimeoutError."""

    def __init__(self, world: int) -> None:
        self.world = world
        self._calls = [0] * world
        self._given: dict[int, list[tuple[Vector, int]]] = {}
        self._changed = threading.Condition()

    def rank(self, rank: int) -> AllReduce:
        """The `all_reduce` of one rank."""
        return partial(self._start, rank)

    def _start(self, rank: int, values: Vector, sums: int) -> _Wait:
        with self._changed:
            number = self._calls[rank]
            self._calls[rank] += 1
            self._given.setdefault(number, []).append((values.copy(), sums))
            self._changed.notify_all()
        return _Wait(self, number)

    def result(self, number: int) -> Vector:
        """What the ranks' vectors of one reduction give."""
        with self._changed:
            if not self._changed.wait_for(
                lambda: len(self._given[number]) == self.world,
                0.0 if threading.active_count() == 1 else _SECONDS,
            ):
                raise TimeoutError(f"reduction {number}: a rank has not come")
            vectors = [vector for vector, _ in self._given[number]]
            [sums] = {sums for _, sums in self._given[number]}
        return reduced(np.stack(vectors), sums)


@dataclass(frozen=True)
class _Wait:
    group: LocalGroup
    number: int

    def __call__(self) -> Vector:
        return self.group.result(self.number)


@dataclass(frozen=True)
class WatchedRoute:
    """What the monitor looks at of a profile's `PhaseRoute`."""

    route: str = "G_BINARY"
    decode: str = "vote"


PHASES: Mapping[str, WatchedRoute] = {
    "warmup": WatchedRoute("FP32"),
    "steady": WatchedRoute(),
    "recovery": WatchedRoute("G_TERNARY", "net"),
}


@dataclass(frozen=True)
class SmallRegion:
    """A region with low-bit routes; ``measured`` as in a profile."""

    name: str
    elements: int
    phases: Mapping[str, WatchedRoute] = field(default_factory=lambda: PHASES)
    measured: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class SmallProfile:
    """A profile of a few regions."""

    regions: tuple[SmallRegion, ...]
    monitor: Mapping[str, object] = field(default_factory=dict)
    name: str = "small"
    fingerprint: str = ""


# Synthetic trainings for the monitor's bench: made up, not recorded.
#
# Workers' gradients are drawn around a mean whose direction turns slowly and whose share in them
# falls, as in a training; signs are voted on and decoded as the runtime does, and all signals are
# computed from that. Faults are put in where they would arise: into gradients, votes, scales,
# losses or counters, and only what is low-bit at the time is touched by a fault of the low-bit
# path.

F64 = npt.NDArray[np.float64]
DRAWN = 512
"""Elements that are drawn of each region, whatever its size."""
REGIONS: Mapping[str, int] = {"head": 9_700, "conv": 32_256, "stem": 11_000}


@dataclass(frozen=True)
class Fault:
    """What goes wrong, in words; the steps within which it has to be found (0: the thresholds let
    it pass), the region that it concerns ("" for the job), and the workers of its training."""

    words: str
    within: int = 25
    region: str = ""
    workers: int = 4


_ONE_SAMPLE = 55  # 50 steps between samples, and the distance of transitions
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
    """The mean of a healthy loss."""
    return float(0.3 + 4.0 * np.exp(-4 * step / steps))


class Trace:
    """One training of made-up gradients; ``fault`` begins at step ``at``."""

    def __init__(self, seed: int, fault: str = "", at: int = 251, steps: int = 500) -> None:
        self._draw = np.random.default_rng(seed)
        self._fault, self._at, self._steps = fault, at, steps
        self.workers = FAULTS.get(fault, HEALTHY).workers
        self._mean = {name: self._unit() for name in REGIONS}
        self._stuck = {name: np.sign(self._unit()) for name in REGIONS}
        self.noise = float(self._draw.uniform(0.03, 0.08))
        """Standard deviation of a loss, of its mean."""
        self._run = {name: np.zeros(DRAWN) for name in REGIONS}
        self._sign = {name: np.zeros(DRAWN) for name in REGIONS}
        self._agreements: list[dict[str, float]] = [{} for _ in range(self.workers)]
        self.others: list[StepReport] = []
        """What the other ranks tell of the last step: their agreements."""

    def report(self, step: int, routes: Mapping[str, Any], samples: frozenset[str]) -> StepReport:
        """What rank 0 tells of a step in which the regions took ``routes``."""
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
        """float64[workers, DRAWN]: the mean's part falls from 1.2 to 0.4 times the noise."""
        turned = self._mean[name] + 0.1 * self._unit()
        mean = self._mean[name] = turned / np.sqrt(turned @ turned)
        noise = self._draw.standard_normal((self.workers, DRAWN)) / np.sqrt(DRAWN)
        part = 1.2 - 0.8 * min(step / self._steps, 1.0)
        if self._fault == "bad_head" and name == "head" and step >= self._at:
            rare = (
                self._draw.random((self.workers, DRAWN)) < 0.12
            )  # one class's own samples: large, -
            head: F64 = 0.18 * np.where(rare, -0.88, 0.12) + 0.01 * noise
            return head
        drawn: F64 = part * mean + noise
        if self._fault == "drift_of_zeros" and name == FAULTS[self._fault].region:
            share = min(max(step - self._at, 0) / 20, 1.0) * 0.97
            drawn[self._draw.random(drawn.shape) < share] = 0.0
        return drawn

    def _reduced(self, step: int, name: str, low: bool, net: bool) -> tuple[F64, F64, F64]:
        """The FP32 mean, the decoded vote, and each worker's votes."""
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
        """As `sampling.Agreements` does."""
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


# Signals of real trainings, recorded: a monitor's log without times and bytes, compressed.
#
# What the ranks have agreed on in every step is all that the state machine reads, so a recording
# shows what today's thresholds would do to that training, up to their first decision that
# differs; and how near each signal came to its limit. A fault of the loss can be put into it:
# what came next in the training is not known then, but no more is asked than when it is found.

SUFFIX = ".jsonl.xz"
RECORDED = "recorded"
"""Why a recording ends. It holds no decisions: without times, some of them could not be made."""
_TIMES = ("link_latency", "link_mib")
_LOSS = list(JOB_FIELDS).index("loss")


def name_of(run: Path) -> str:
    """`CHECK-VARIANT-SEED-REDUCER` of a folder of `nf train check`; of a recording, its own."""
    if run.name.endswith(SUFFIX):
        return run.name.removesuffix(SUFFIX)
    folder = run if run.is_dir() else run.parent
    return f"{folder.parent.name}-{folder.name}"


def record(run: Path, folder: Path) -> Path:
    """Write the recording of a run into ``folder``. MonitorError, OSError."""
    segments, _ = log.read(log.find(run))
    lines = [json.dumps(one, separators=(",", ":")) for one in _records(segments)]
    path = folder / f"{name_of(run)}{SUFFIX}"
    text = "".join(f"{one}\n" for one in lines).encode()
    if len(text) > log.MOST_PLAIN:
        what = f"makes a recording of {len(text):,} bytes without compression"
        raise MonitorError(run, what, f"record a run of {log.MOST_PLAIN:,} bytes at most")
    data = lzma.compress(text, preset=9)
    with NewFile(path, path.with_name(f".{path.name}.new")) as file:
        file.put(data)
    return path


def _records(segments: Sequence[Segment]) -> Iterator[dict[str, object]]:
    for segment in segments:
        yield {"kind": "run", **plain(replace(segment.run, about={}))}
        times = [n for n, one in enumerate(segment.run.fields) if one in _TIMES]
        for step in segment.steps:
            vector = [0 if n in times else one for n, one in enumerate(step.vector)]
            yield {"kind": "step", "step": step.step, "vector": vector, "mode": step.mode}
        yield {"kind": "end", "why": RECORDED}


def recordings(folder: Path) -> dict[str, Segment]:
    """By name, the recordings of a folder. MonitorError where there is none."""
    paths = sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []
    if not paths:
        what = f"holds no recordings (*{SUFFIX})"
        raise MonitorError(folder, what, "make them by `nf train monitor record RUN --out FOLDER`")
    return {path.name.removesuffix(SUFFIX): log.read(path)[0][0] for path in paths}


def decided(
    segment: Segment, off: Sequence[Signal] = (), limits: Limits | None = None
) -> list[Decision]:
    """What ``limits`` (the defaults) decide over the signals of a recording, whatever the training
    had switched off."""
    plan = replace(segment.run.plan, limits=limits or Limits(), off=tuple(off))
    return replay(segment, plan).decisions


def with_loss(segment: Segment, at: int, factors: Sequence[float]) -> Segment:
    """The recording with its losses from step ``at`` on times ``factors``; it ends with these."""
    steps = [one for one in segment.steps if one.step < at + len(factors)]
    made = [_louder(one, factors[one.step - at]) if one.step >= at else one for one in steps]
    return replace(segment, steps=made)


def _louder(step: Step, factor: float) -> Step:
    number = step.vector[_LOSS]
    count = (number + (1 << (COUNT_BIT - 1))) >> COUNT_BIT
    value = round((number - (count << COUNT_BIT)) * factor)
    vector = list(step.vector)
    vector[_LOSS] = (count << COUNT_BIT) + value
    return replace(step, vector=tuple(vector))


def readings(segment: Segment) -> list[Reading]:
    """What the ranks have agreed on in every step. MonitorError where it is of other regions."""
    codec = Codec(segment.run.plan, segment.run.world, 0)
    if len(segment.run.fields) not in codec.lengths:
        what = "the log's numbers are of other regions than its plan"
        raise MonitorError("signals", what, "the log is damaged, or of another version")
    return [codec.decode(one.step, one.vector) for one in segment.steps]


def noise_of(segment: Segment) -> float:
    """Standard deviation of a loss beside the one before it, of their mean: what a slope hides
    in. Of the last 100 steps."""
    found = [one.loss for one in readings(segment)[-100:] if one.loss is not None]
    steps = [(b - a) / ((a + b) / 2) for a, b in itertools.pairwise(found) if a + b > 0]
    return statistics.pstdev(steps) / math.sqrt(2) if len(steps) > 1 else 0.0


@dataclass(frozen=True)
class Seen:
    """A signal of a region over a run: its values in order, and whose the least ones were."""

    region: str
    signal: Signal
    values: tuple[float, ...]
    limit: str
    workers: tuple[int, ...] = ()


def seen(segment: Segment) -> list[Seen]:
    """Every signal of every region that anything is known of."""
    limits, out = segment.run.plan.limits, []
    every = readings(segment)
    for number, region in enumerate(segment.run.plan.regions):
        own = [one.regions[number] for one in every]
        known: float | None = None
        ratios = []
        for one in own:
            known = one.reference if one.reference is not None else known
            if one.norm is not None and known is not None:
                ratios.append(2.0 ** min(max(one.norm - known, -99.0), 99.0))
        agreed = [(one.agreement, one.worker) for one in own if one.agreement is not None]
        norm = f"{1 / limits.norm_in:g} to {limits.norm_in:g}"
        rows = [
            (Signal.COSINE, [one.cosine for one in own], f">= {limits.drop:g}"),
            (Signal.NORM, ratios, norm),
            (Signal.MARGIN, [one.margin for one in own], f">= {limits.margin_in:g}"),
            (Signal.SATURATION, [one.saturation for one in own], f"<= {limits.saturation_in:g}"),
            (Signal.AGREEMENT, [one for one, _ in agreed], f">= {-limits.against_in:g}"),
        ]
        for signal, values, limit in rows:
            there = tuple(one for one in values if one is not None)
            whose = tuple(worker for _, worker in agreed) if signal == Signal.AGREEMENT else ()
            if there:
                out.append(Seen(region.name, signal, there, limit, whose))
    return out


def seen_lines(name: str, segment: Segment) -> list[str]:
    """A run's signals as a table: how near each came to its limit."""
    run = segment.run
    low = ", ".join(run.plan.regions[n].name for n in run.plan.eligible) or "none"
    out = [f"{name}: {len(segment.steps)} steps, {run.world} workers; low-bit: {low}"]
    for one in seen(segment):
        least, most = min(one.values), max(one.values)
        middle = statistics.median(one.values)
        whose = ""
        if one.workers:
            first = max(set(one.workers), key=one.workers.count)
            whose = f"  worker {first} in {one.workers.count(first) / len(one.workers):.0%}"
        out.append(
            f"  {one.region:14}{one.signal:11}{len(one.values):6} steps  {least:8.3f} "
            f"{middle:8.3f} {most:8.3f}  limit {one.limit}{whose}"
        )
    return out


__all__ = ["ALARMS", "FAULTS", "bench_lines", "found", "trained"]

STEPS = 500
AT = 251  # just behind a sample, the next is 49 steps away
WARMUP = 50
ALARMS = frozenset(
    {Status.DEMOTED, Status.LOCKED, Mode.FALLBACK, Mode.LOCKED_FP32, "rejected", "ended"}
)
"""What a healthy training must not see."""
MOST_FALSE = 1e-4  # a step
HISTORY = 100  # losses before a fault, by which a test may know where they stood
_SHARES = {"margin": [0.05, 0.4], "saturation": [0.0, 0.1]}
_MEASURED = {"steady": {"G_BINARY": {"vote": _SHARES, "net": _SHARES}}}
_PHASES = {"stem": {**PHASES, "steady": WatchedRoute(decode="net")}}
_FP32 = dict.fromkeys(PHASES, WatchedRoute("FP32"))


@dataclass(frozen=True)
class Found:
    """The first alarm after a fault: what was decided, and how many steps after it."""

    decision: Decision
    after: int


def profile(low_bit: bool = True) -> SmallProfile:
    """Three regions, all with low-bit routes or none; of the stem the counts come back."""
    return SmallProfile(
        tuple(
            SmallRegion(name, size, _PHASES.get(name, PHASES) if low_bit else _FP32, _MEASURED)
            for name, size in REGIONS.items()
        )
    )


def trained(
    seed: int,
    fault: str = "",
    off: Sequence[Signal] = (),
    *,
    low_bit: bool = True,
    steps: int = STEPS,
    folder: Path | None = None,
) -> list[Decision]:
    """The decisions of one made-up training. A run that the monitor ends has one more: `ended`."""
    used, trace = profile(low_bit), Trace(seed, fault, AT, steps)
    plan: Plan = replace(
        plan_of(
            used, warmup=WARMUP, costs={name: Cost(1e-4, 4 * n) for name, n in REGIONS.items()}
        ),
        off=tuple(off),
    )
    codecs = [Codec(plan, trace.workers, rank) for rank in range(1, trace.workers)]

    def beside(values: Vector, sums: int) -> Callable[[], Vector]:
        """Rank 0's numbers; of what is the least, all ranks'."""
        told = [one.least(its) for one, its in zip(codecs, trace.others, strict=True)]
        own, least = np.split(values, [sums + 2])  # behind both ends of the digest
        values = np.concatenate([own, np.max([least, *told], axis=0)])
        return lambda: values

    one = Controller(used, beside, world=trace.workers, folder=folder, plan=plan)
    step = 0
    try:
        for step in range(steps):
            one.step_end(trace.report(step, one.routes(), one.samples()))
        one.routes()
    except MonitorError:
        ended = Decision(step - 1, "", one.decisions[-1].target, "ended", Signal.REDUCER, 1.0, 0.0)
        return [*one.decisions, ended]
    one.close()
    return one.decisions


def found(decisions: Sequence[Decision]) -> Found | None:
    """The first alarm from `AT` on."""
    alarms = [one for one in decisions if one.step >= AT and one.target in ALARMS]
    return Found(alarms[0], alarms[0].step - AT) if alarms else None


def bench_lines(
    seed: int,
    healthy: int,
    off: Sequence[Signal] = (),
    fault: str | None = None,
    seeds: int = 3,
) -> tuple[list[str], bool]:
    """The table, and whether every fault was found in time in the trainings of all ``seeds`` from
    ``seed`` on, with few enough false alarms."""
    out = [
        f"made-up trainings (not recorded ones); faults begin at step {AT} of {STEPS}, just behind",
        f"a sample: the next is at 300; steps until one is found: least, most of {seeds} seeds",
    ]
    if off:
        out.append(f"without {', '.join(off)}")
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
        wrong += [
            f"  false alarm: run {number} step {one.step} {one.region or 'job'} {one.signal} "
            f"{one.value:.3g}, limit {one.limit:.3g}"
            for one in decided
            if one.target in ALARMS
        ]
    if healthy:
        out += wrong[:10]
        out.append(
            f"  {healthy} healthy runs, {healthy * STEPS:,} steps: {len(wrong)} false alarms"
        )
        good &= len(wrong) <= max(1.0, MOST_FALSE * healthy * STEPS)
    return out, good


def _healthy(after: int) -> float:
    return level(AT + after, STEPS)


def non_rising(means: Sequence[float]) -> list[float]:
    """What is nearest to ``means``, by least squares, of all that never rises."""
    pools: list[tuple[float, int]] = []
    for mean in means:
        pool = (mean, 1)
        while pools and pools[-1][0] < pool[0]:
            (a, n), (b, k) = pools.pop(), pool
            pool = ((a * n + b * k) / (n + k), n + k)
        pools.append(pool)
    return [mean for mean, count in pools for _ in range(count)]


def soonest(noise: float, before: Callable[[int], float] = _healthy) -> int:
    """Steps that a test of the loss needs to see `divergence`, if every loss that does not rise is
    healthy and it has one false alarm in 10,000 steps: until the mean log of the likelihood ratio
    to the healthy losses that are nearest is that of 10,000, which Wald's inequality asks of any
    test. It may know the noise, the fault and when it began, but not where the loss would be now.
    ``before``: the mean loss so many steps after the fault began, if there were none."""
    means = [before(n) for n in range(-HISTORY, 0)]
    for after in range(STEPS):
        means.append(before(after) * CREEP**after)
        off = zip(means, non_rising(means), strict=True)
        told = math.fsum(((a - b) / (noise * a)) ** 2 for a, b in off) / 2
        if told >= math.log(1 / MOST_FALSE):
            return after
    return STEPS


def _fault_line(name: str, alarms: Sequence[Found | None]) -> tuple[str, bool]:
    """What is said of a fault, and whether each of its trainings had its alarm in time."""
    its, seen = FAULTS[name], [one for one in alarms if one is not None]
    missed = len(alarms) - len(seen)
    in_time = not missed and all(one.after <= its.within for one in seen)
    if not seen:
        said = "NOT FOUND"
    else:
        after = sorted(one.after for one in seen)
        ways = dict.fromkeys((one.decision.signal, one.decision.target) for one in seen)
        by, to = (" ".join(dict.fromkeys(words)) for words in zip(*ways, strict=True))
        said = f"{after[0]:4} {after[-1]:4} steps  {by:11} {to}"
        said += f"  NOT FOUND {missed} times" if missed else ""
        said += "" if in_time or missed else f"  LATE, {its.within} at most"
    return f"  {name:16} {said:45} {its.words}", in_time


# The bench over recorded trainings: false alarms, and faults put into their losses.


SPACE = 60
"""Steps that a fault has until a recording ends, and those before it with a loss."""
_PLACES = 5
_BESIDE = 10  # losses either way that make a level


def _spike(levels: Sequence[float]) -> list[float]:
    """6 times as much for 10 steps."""
    return [6.0 if n < 10 else 1.0 for n in range(SPACE)]


def _divergence(levels: Sequence[float]) -> list[float]:
    """1 % more a step, from the level where it began: the noise alone is the training's."""
    return [CREEP ** (n + 1) * levels[0] / levels[n] for n in range(SPACE)]


_FAULTS: Mapping[str, Callable[[Sequence[float]], list[float]]] = {
    "loss_spike": _spike,
    "divergence": _divergence,
}


def alarms(found: Sequence[Decision]) -> list[Decision]:
    """What a healthy training must not see."""
    return [one for one in found if one.target in ALARMS]


def recorded_lines(
    runs: Mapping[str, Segment], off: Sequence[Signal] = ()
) -> tuple[list[str], bool]:
    """A line for each false alarm and for each training's faults; whether there are few enough
    false alarms. Faults are not judged: how late one is seen hangs on a training's noise."""
    out = [f"{len(runs)} recorded trainings, by the thresholds of now"]
    if off:
        out.append(f"without {', '.join(off)}")
    wrong: list[str] = []
    for name, segment in runs.items():
        wrong += [
            f"  false alarm: {name} step {one.step} {one.region or 'job'} {one.signal} "
            f"{one.value:.3g}, limit {one.limit:.3g}"
            for one in alarms(decided(segment, off))
        ]
    steps = sum(len(one.steps) for one in runs.values())
    out += [*wrong, f"  {len(runs)} healthy runs, {steps:,} steps: {len(wrong)} false alarms"]
    out.append("faults put into their losses: steps until one is found, least to most")
    for name, segment in runs.items():
        if words := _faults(segment, off):
            out.append(f"  {name:44} {words}")
    return out, len(wrong) <= max(1.0, MOST_FALSE * steps)


def _faults(segment: Segment, off: Sequence[Signal]) -> str:
    last = len(segment.steps) - SPACE
    first = min(segment.run.plan.warmup + SPACE, last)
    if first < SPACE // 2:
        return ""
    places = sorted({first + n * (last - first) // (_PLACES - 1) for n in range(_PLACES)})
    noise = noise_of(segment)
    words = [f"noise {noise:5.1%}"]
    levels = levels_of(segment)
    for fault, factors in _FAULTS.items():
        after = [
            _after(with_loss(segment, at, factors(levels[at : at + SPACE])), at, off)
            for at in places
        ]
        found = sorted(one for one in after if one is not None)
        said = f"{found[0]:3} {found[-1]:3}" if found else "  -   -"
        missed = f" ({len(after) - len(found)} of {len(after)} not)" * (len(found) < len(after))
        words.append(f"{fault} {said}{missed}")
    if noise:
        words.append(f"at the soonest {soonest(noise, lambda _: 1.0)}")
    return "  ".join(words)


def levels_of(segment: Segment) -> list[float]:
    """Of each step, the mean of the losses beside it."""
    known = [one.loss for one in readings(segment)]
    out = []
    for n in range(len(known)):
        near = [one for one in known[max(0, n - _BESIDE) : n + _BESIDE + 1] if one is not None]
        out.append(sum(near) / len(near) if near else 1.0)
    return out


def _after(segment: Segment, at: int, off: Sequence[Signal]) -> int | None:
    found = [one.step - at for one in alarms(decided(segment, off)) if one.step >= at]
    return found[0] if found else None

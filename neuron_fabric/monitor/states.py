# SPDX-License-Identifier: Apache-2.0
"""State machine of a job and its regions (spec: runtime section 4.2).

`advance` is a pure function of the state and one agreed reading. All ranks read the same numbers,
so all ranks reach the same state without further messages.

Invariants: two transitions are at least `hold` steps apart, of the job or of any region; several
transitions of one step are allowed. A bad signal is kept until the machine has acted on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from neuron_fabric.bits import Assignment, Layer, Option, cost_of, error_of, lgreco, settle
from neuron_fabric.capacity.cost_model import admits
from neuron_fabric.codec.routes import Route
from neuron_fabric.monitor.job_plan import Plan
from neuron_fabric.monitor.signals import Bad, Gate, JobSignals, Reading, Reason, RegionSignals
from neuron_fabric.monitor.thresholds import Thresholds, on_grid
from neuron_fabric.profile.profile_types import Phase

BY_MODEL = -1
"""Value of `RegionState.rejected` while the capacity model rejects the region."""


class Mode(StrEnum):
    """State of a job; in FP32_WARMUP, FALLBACK and LOCKED_FP32 all regions use FP32."""

    FP32_WARMUP = "FP32_WARMUP"
    LOWBIT = "LOWBIT"
    PARTIAL = "PARTIAL"
    FALLBACK = "FALLBACK"
    RECOVERY = "RECOVERY"
    LOCKED_FP32 = "LOCKED_FP32"


class Status(StrEnum):
    """State of a profile region; only in LOW it is low-bit.

    In PROBE the region uses FP32 and a low-bit reduction runs in parallel as a shadow.
    """

    FP32 = "FP32"
    PROBE = "PROBE"
    LOW = "LOW"
    DEMOTED = "DEMOTED"
    LOCKED = "LOCKED"


RUNNING = (Mode.LOWBIT, Mode.PARTIAL, Mode.RECOVERY)
"""States of the job in which a region may be low-bit."""


@dataclass(frozen=True)
class RegionState:
    """State of one profile region in the monitor.

    Attributes:
        status: Current state.
        since: Step of the last transition.
        until: First step after the cool-down of DEMOTED.
        demotions: Number of demotions so far.
        rejected: 0, the step until which capacity rejects the region, or `BY_MODEL`.
        rejections: Consecutive rejections by the device.
        route: Route of the last assignment, "" for that of the profile.
        signals: Windows of the region's signals.
    """

    status: Status = Status.FP32
    since: int = 0
    until: int = 0
    demotions: int = 0
    rejected: int = 0
    rejections: int = 0
    route: str = ""
    signals: RegionSignals = field(default_factory=RegionSignals)


@dataclass(frozen=True)
class Assigned:
    """Assignment of routes to regions by the errors of one step; the routes are in `RegionState`.

    Attributes:
        step: Step of the errors; -1 before the first assignment.
        error: Mean over the elements of their relative squared error.
        limit: Bound of that error.
        bits: Bits of a step, sent and received by a rank.
    """

    step: int = -1
    error: float = 0.0
    limit: float = 0.0
    bits: float = 0.0


@dataclass(frozen=True)
class JobState:
    """State of the job in the monitor, with those of its regions.

    Attributes:
        regions: States of the regions, in the order of the plan.
        step: Last step that was read.
        mode: Current state.
        since: Step of the last transition of the job or a region.
        until: End of the cool-down.
        cooldown: Length of the last cool-down in steps.
        fallbacks: Steps of the recent fallbacks.
        judged: Step of the last capacity decision, -1 before the first.
        link: Latency plus time of one MiB on the network at that step, in seconds.
        moved: Consecutive steps since then in which the network differed by `link_moved` or more.
        assigned: Last assignment of routes.
        signals: Windows of the job's signals.
    """

    regions: tuple[RegionState, ...]
    step: int = -1
    mode: Mode = Mode.FP32_WARMUP
    since: int = 0
    until: int = 0
    cooldown: int = 0
    fallbacks: tuple[int, ...] = ()
    judged: int = -1
    link: float | None = None
    moved: int = 0
    assigned: Assigned = Assigned()
    signals: JobSignals = field(default_factory=JobSignals)


@dataclass(frozen=True)
class Decision:
    """One transition of the job or a region from ``source`` to ``target``, and its reason.

    ``region`` is "" for the job. The reason is a signal with its value and limit.
    """

    step: int
    region: str
    source: str
    target: str
    signal: str
    value: float
    limit: float
    worker: int = -1  # rank of the outlier, -1 for none


def start(plan: Plan) -> JobState:
    """Return the state before the first step."""
    return JobState(tuple(RegionState() for _ in plan.regions))


def phase_of(plan: Plan, state: JobState, number: int) -> Phase:
    """Return the phase whose route region ``number`` uses in the next step.

    WARMUP (FP32) unless the region may be low-bit, or factored, now; then RECOVERY or STEADY.
    """
    region = state.regions[number]
    low = plan.regions[number].eligible and region.status == Status.LOW and not region.rejected
    if not (low or plan.regions[number].factored) or state.mode not in RUNNING:
        return Phase.WARMUP
    return Phase.RECOVERY if state.mode == Mode.RECOVERY else Phase.STEADY


def samples_due(plan: Plan, state: JobState) -> tuple[int, ...]:
    """Return the numbers of the regions whose cosine is sampled in the next step.

    In a low-bit state all eligible regions are sampled every `sample_every` steps. A region is also
    sampled at its admission; while it is in PROBE every `probe_every` steps, as are all eligible
    regions in the second half of the warm-up; and when its norm has just passed the limit. The last
    rule avoids false alarms: the FP32 norm of the last sample may be up to 50 steps old, and
    gradients may shrink by the limit in that time, so the norm is compared with a new reference
    first.
    """
    step, limits = state.step + 1, plan.limits
    probes = step % limits.probe_every == 0
    if state.mode == Mode.LOCKED_FP32:
        return ()
    if step % limits.sample_every == 0 and state.mode in RUNNING:
        return plan.eligible
    if state.mode == Mode.FP32_WARMUP:
        return plan.eligible if step >= plan.warmup // 2 and probes else ()

    def due(region: RegionState) -> bool:
        if region.status == Status.LOW:
            return region.since == step - 1 or region.signals.norm.fresh
        return region.status == Status.PROBE and probes

    return tuple(number for number in plan.eligible if due(state.regions[number]))


def errors_due(plan: Plan, state: JobState) -> bool:
    """Return whether the errors of all candidates are measured in the next step.

    They are measured where an assignment may follow: at the end of the warm-up, and `every` steps
    after the last assignment, once the last transition is `hold` steps ago.
    """
    step = state.step + 1
    if plan.assign is None or state.mode not in (*RUNNING, Mode.FP32_WARMUP):
        return False
    if state.mode == Mode.FP32_WARMUP:
        return step + 1 >= plan.warmup
    since = max(state.since + plan.limits.hold, state.assigned.step + plan.assign.every)
    return step >= since


def assignment(plan: Plan, state: JobState, got: Reading) -> tuple[Assignment, Assigned] | None:
    """Return the routes by region that L-GreCo assigns with the errors of a step.

    Relative errors are weighed by elements: optimizers such as Adam divide by the size of the
    gradients, so that absolute squares, which the largest gradients dominate, say little. Each
    region adds to the bound what the profile's route loses in it, or the budget's share of what
    the reference loses if that is more. The profile's routes are thus within the bound, and are
    used unless others save bytes. Regions that are demoted or locked, or whose errors are unknown,
    are left out.

    Returns:
        Route by the name of the region, and the totals; None if no error was measured.
    """
    asked = plan.assign
    if asked is None or all(one is None for its in got.regions for one in its.errors):
        return None
    layers, base, now = list[Layer](), dict[str, str](), dict[str, str]()
    limit, elements = 0.0, 0
    for number in plan.eligible:
        its, region = plan.regions[number], state.regions[number]
        errors: dict[str, float] = {
            name: error
            for name, error in zip(plan.candidates, got.regions[number].errors, strict=True)
            if error is not None
        }
        known = {asked.reference, its.route} <= errors.keys()
        if not known or region.status in (Status.DEMOTED, Status.LOCKED):
            continue
        size, errors[Route.FP32.value] = its.elements, 0.0
        options = {
            name: Option(errors[name] * size, bits * size)
            for name, bits in plan.bits
            if name in errors and name in (*its.candidates, Route.FP32)
        }
        layers.append(Layer(its.name, options))
        base[its.name], now[its.name] = its.route, region.route or its.route
        lost = asked.budget * errors[asked.reference] * size
        limit, elements = limit + max(lost, options[its.route].error), elements + size
    wanted = settle(layers, base, lgreco(layers, limit), limit)
    chosen = settle(layers, now, wanted, limit)
    error, size = error_of(layers, chosen), max(1, elements)
    return chosen, Assigned(got.step, error / size, limit / size, cost_of(layers, chosen))


def advance(plan: Plan, state: JobState, got: Reading) -> tuple[JobState, tuple[Decision, ...]]:
    """Return the state after one step with the agreed values ``got``, and that step's decisions.

    Raises:
        ValueError: The reading has another number of regions than the plan.
    """
    limits = plan.limits
    regions = tuple(
        one if own is one.signals else replace(one, signals=own)
        for one, reading, its in zip(state.regions, got.regions, plan.regions, strict=True)
        for own in [one.signals.read(limits, reading, its.margin, its.saturation)]
    )
    signals, far = state.signals.read(limits, got), _moved(limits, state, got)
    state = replace(state, step=got.step, regions=regions, signals=signals, moved=far)
    first = state.since == 0 and state.mode == Mode.FP32_WARMUP
    if state.mode == Mode.LOCKED_FP32 or (not first and got.step - state.since < limits.hold):
        return state, ()
    moved = _Move(plan, state)
    if state.mode in RUNNING and (why := _job_bad(plan, state)):
        moved.fall_back(why)
    elif state.mode == Mode.FP32_WARMUP:
        moved.end_warmup(got)
    elif state.mode == Mode.FALLBACK:
        moved.recover()
    else:
        moved.regions_in_and_out(got)
    return moved.result()


def _moved(limits: Thresholds, state: JobState, got: Reading) -> int:
    """Return the number of consecutive steps in which the network differs from the last judgement.

    At most `link_count`.
    """
    if state.link is None or got.link_latency is None or got.link_mib is None:
        return state.moved
    now = got.link_latency + got.link_mib
    far = now > state.link * limits.link_moved or now * limits.link_moved < state.link
    return min(state.moved + 1, limits.link_count) if far else 0


def _job_bad(plan: Plan, state: JobState) -> Bad | None:
    """Return the bad signal of the job, or None.

    The norm of the job is bad if regions with a bad norm hold more than half of the low-bit
    elements: then the fault is not local, and demotions one by one would take too long.
    """
    off = frozenset(plan.off)
    if (why := state.signals.bad(plan.limits, off)) or Reason.NORM in off:
        return why
    low = [n for n in plan.eligible if phase_of(plan, state, n) != Phase.WARMUP]
    bad = [n for n in low if state.regions[n].signals.norm.gate.bad]
    if len(bad) > 1 and 2 * _elements(plan, bad) > _elements(plan, low):
        largest = max(bad, key=lambda n: plan.regions[n].elements)
        return state.regions[largest].signals.bad(plan.limits, frozenset(Reason) - {Reason.NORM})
    return None


def _elements(plan: Plan, numbers: Iterable[int]) -> int:
    return sum(plan.regions[n].elements for n in numbers)


class _Move:
    """Transitions of one step, collected before they take effect together."""

    def __init__(self, plan: Plan, state: JobState) -> None:
        self._plan, self._limits, self._state = plan, plan.limits, state
        self._step = state.step
        self._regions = list(state.regions)
        self._decisions: list[Decision] = []

    def result(self) -> tuple[JobState, tuple[Decision, ...]]:
        """Return the new state and its decisions, those of regions first."""
        state = replace(self._state, regions=tuple(self._regions))
        if self._decisions:
            state = replace(state, since=self._step)
        return state, tuple(self._decisions)

    def fall_back(self, why: Bad) -> None:
        """Put the job into FALLBACK: FP32 in all regions for a cool-down that doubles each time.

        After `lock_fallbacks` fallbacks within `lock_within` steps it is LOCKED_FP32.
        """
        limits, state = self._limits, self._state
        recent = tuple(one for one in state.fallbacks if one > self._step - limits.lock_within)
        fallbacks = (*recent, self._step)
        locked = len(fallbacks) >= limits.lock_fallbacks
        cooldown = min(max(2 * state.cooldown, limits.cooldown), limits.cooldown_most)
        self._job(Mode.LOCKED_FP32 if locked else Mode.FALLBACK, why)
        # Regions get no decision here: the decision of the job covers them.
        for number in self._plan.eligible:
            if self._regions[number].status in (Status.LOW, Status.PROBE):
                self._set(number, status=Status.FP32)
        self._state = replace(
            self._state,
            fallbacks=fallbacks,
            cooldown=cooldown,
            until=self._step + cooldown,
            signals=self._state.signals.settled(),
        )

    def end_warmup(self, got: Reading) -> None:
        """End the warm-up once it is long enough and the loss has stopped falling fast.

        Regions are then admitted to low-bit if their sampled cosine is good or missing, else
        demoted; regions of an unverified profile are probed later.
        """
        plan, limits = self._plan, self._limits
        if self._step + 1 < plan.warmup:
            return
        if self._step + 1 < 2 * plan.warmup and self._state.signals.loss.falls(limits):
            return
        for number in plan.eligible:
            cosine = self._regions[number].signals.cosine
            if plan.unverified:
                continue  # `_one_back` probes them one by one
            if cosine.ema is None:  # no sample: trust the profile
                self._decide(number, Status.LOW, _TURN)
            elif cosine.ema >= on_grid(limits.good) or Reason.COSINE in plan.off:
                self._decide(number, Status.LOW, Bad(Reason.COSINE, cosine.ema, limits.good))
            else:
                self._demote(number, Bad(Reason.COSINE, cosine.ema, limits.good))
        self._assign(got)
        self._judge_capacity(got)
        self._state = replace(self._state, signals=self._state.signals.settled())
        self._job(self._by_regions(), Bad(Reason.SCHEDULE, self._step + 1, plan.warmup))

    def recover(self) -> None:
        """Leave FALLBACK for RECOVERY after the cool-down, once the loss is back in its band."""
        loss, limits = self._state.signals.loss, self._limits
        seen = bool(loss.recent) and Reason.LOSS_SPIKE not in self._plan.off
        if self._step < self._state.until or (seen and loss.band < limits.band_count):
            return
        self._state = replace(self._state, signals=self._state.signals.settled())
        self._job(Mode.RECOVERY, Bad(Reason.SCHEDULE, loss.band, limits.band_count))

    def regions_in_and_out(self, got: Reading) -> None:
        """Demote bad regions, judge capacity, then return at most one region to low-bit."""
        off = frozenset(self._plan.off)
        for number in self._plan.eligible:
            region = self._regions[number]
            if region.status not in (Status.LOW, Status.PROBE):
                continue
            used = off if region.status == Status.LOW else off | _LOW_ONLY
            if bad := region.signals.bad(self._limits, used):
                self._demote(number, bad)
        self._capacity(got)
        if not self._decisions:
            self._assign(got)
        if not self._decisions:
            self._one_back()
        mode = self._by_regions()
        if mode != self._state.mode:
            last = self._decisions[-1] if self._decisions else None
            self._job(mode, Bad(Reason(last.signal), last.value, last.limit) if last else _TURN)

    def _by_regions(self) -> Mode:
        eligible = [self._regions[number] for number in self._plan.eligible]
        coming = any(one.status in (Status.FP32, Status.PROBE) for one in eligible)
        if self._state.mode == Mode.RECOVERY and coming:
            return Mode.RECOVERY
        low = all(one.status == Status.LOW and not one.rejected for one in eligible)
        return Mode.LOWBIT if low else Mode.PARTIAL

    def _one_back(self) -> None:
        """Admit the region in PROBE after enough good samples, or start to probe another one.

        If none is in PROBE, the largest region starts that waits in FP32 or whose demotion has
        ended.
        """
        limits, regions = self._limits, self._regions
        probing = [n for n in self._plan.eligible if regions[n].status == Status.PROBE]
        if probing:
            number = probing[0]
            cosine = regions[number].signals.cosine
            if regions[number].route == Route.FP32:  # nothing to compare
                self._decide(number, Status.LOW, _TURN)
                return
            if (
                regions[number].signals.agreement.gate.run
                and Reason.AGREEMENT not in self._plan.off
            ):
                return  # a worker votes against the others, which the cosine may hide
            if cosine.good >= limits.probe_good or Reason.COSINE in self._plan.off:
                self._decide(number, Status.LOW, Bad(Reason.COSINE, cosine.last, limits.good))
            return
        waiting = [
            n
            for n in self._plan.eligible
            if regions[n].status == Status.FP32
            or (regions[n].status == Status.DEMOTED and regions[n].until <= self._step)
        ]
        if waiting:
            number = max(waiting, key=lambda n: (self._plan.regions[n].elements, -n))
            self._decide(number, Status.PROBE, _TURN)

    def _assign(self, got: Reading) -> None:
        """Give the regions the routes of the assignment; a new route starts with new signals."""
        state = replace(self._state, regions=tuple(self._regions))
        if (found := assignment(self._plan, state, got)) is None:
            return
        routes, totals = found
        self._state = replace(self._state, assigned=totals)
        why = Bad(Reason.ERROR, totals.error, totals.limit)
        for number in self._plan.eligible:
            its, region = self._plan.regions[number], self._regions[number]
            before = region.route or its.route
            if (route := routes.get(its.name, before)) != before:
                self._note(its.name, before, route, why)
                self._set(number, status=region.status, route=route)

    def _capacity(self, got: Reading) -> None:
        """Apply the device's and the capacity model's decisions (spec: runtime section 5.2).

        A device that calls for FP32 is obeyed at once, the model every `capacity_every` steps or
        when the network has changed.
        """
        limits, state, off = self._limits, self._state, self._plan.off
        if state.signals.device and Reason.REDUCER not in off:
            self._state = replace(state, signals=replace(state.signals, device=False))
            for number in self._plan.eligible:
                region = self._regions[number]
                if region.status == Status.LOW and not region.rejected:
                    times = region.rejections + 1
                    last = limits.capacity_cooldown << min(times - 1, 16)
                    until = self._step + min(last, limits.capacity_cooldown * 32)
                    why = Bad(Reason.REDUCER, state.signals.severe, limits.severe)
                    self._reject(number, until, why)
                    self._set(number, rejections=times)
        for number in self._plan.eligible:
            if 0 < self._regions[number].rejected <= self._step:
                self._reject(number, 0, Bad(Reason.REDUCER, 0.0, limits.severe))
        if self._step % limits.capacity_every == 0 or state.moved >= limits.link_count:
            self._judge_capacity(got)

    def _judge_capacity(self, got: Reading) -> None:
        if got.link_latency is None or got.link_mib is None or Reason.CAPACITY in self._plan.off:
            return
        ends = self._limits.capacity_admit, self._limits.capacity_drop
        seconds = got.link_latency + got.link_mib
        self._state = replace(self._state, judged=self._step, link=seconds, moved=0)
        for number in self._plan.eligible:
            cost, region = self._plan.regions[number].cost, self._regions[number]
            if cost is None or region.rejected > 0 or (cost.measured and got.host_mib is None):
                continue
            ratio = cost.ratio(got.link_latency, got.link_mib, got.host_mib or 0.0)
            before = not region.rejected and self._state.mode != Mode.FP32_WARMUP
            if admits(before, ratio, *ends) == bool(region.rejected):
                why = Bad(Reason.CAPACITY, ratio, ends[before])
                self._reject(number, 0 if region.rejected else BY_MODEL, why)

    def _reject(self, number: int, until: int, why: Bad) -> None:
        before, after = ("admitted", "rejected") if until else ("rejected", "admitted")
        self._note(self._plan.regions[number].name, before, after, why)
        self._set(number, rejected=until)

    def _demote(self, number: int, why: Bad) -> None:
        """Put a region into FP32 for a cool-down that doubles with every demotion.

        After `lock_demotions` demotions it is LOCKED.
        """
        limits, times = self._limits, self._regions[number].demotions + 1
        locked = times >= limits.lock_demotions
        wait = min(limits.cooldown << (times - 1), limits.cooldown_most)
        self._decide(number, Status.LOCKED if locked else Status.DEMOTED, why)
        self._set(number, demotions=times, until=self._step + wait)

    def _decide(self, number: int, status: Status, why: Bad) -> None:
        region = self._regions[number]
        self._note(self._plan.regions[number].name, region.status, status, why)
        self._set(number, status=status)

    def _set(self, number: int, *, status: Status | None = None, **values: Any) -> None:
        region = replace(self._regions[number], **values)
        if status is not None:
            fresh = RegionSignals(norm=replace(region.signals.norm, gate=Gate()))
            region = replace(region, status=status, since=self._step, signals=fresh)
        self._regions[number] = region

    def _job(self, mode: Mode, why: Bad) -> None:
        self._note("", self._state.mode, mode, why)
        self._state = replace(self._state, mode=mode)

    def _note(self, region: str, source: str, target: str, why: Bad) -> None:
        value, limit = float(why.value), float(why.limit)
        names = str(source), str(target), str(why.signal)
        self._decisions.append(Decision(self._step, region, *names, value, limit, why.worker))


_TURN = Bad(Reason.SCHEDULE, 0.0, 0.0)
_LOW_ONLY = frozenset({Reason.NORM, Reason.MARGIN, Reason.SATURATION})

# SPDX-License-Identifier: Apache-2.0
"""Health monitor of one rank, as the communication hook uses it.

Before the first bucket of a step the hook asks for `routes` and `samples`; after the last bucket it
passes the measurements of this rank to `step_end`. That call starts a reduction over the ranks, and
the next `routes` waits for its result, so that the reduction overlaps with the optimizer and the
next forward pass.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from neuron_fabric.codec.routes import Route
from neuron_fabric.errors import MonitorError
from neuron_fabric.monitor import states
from neuron_fabric.monitor.consensus import (
    AllReduce,
    Codec,
    agreed,
    both_ends,
    digest_of,
    field_names,
    minority_ranks,
)
from neuron_fabric.monitor.job_plan import Plan, plan_of
from neuron_fabric.monitor.log import FORMAT, VERSION, Log, Run, Step, plain
from neuron_fabric.monitor.signals import Reading, Reason, StepReport
from neuron_fabric.monitor.states import Decision, JobState
from neuron_fabric.profile.profile_types import Phase, PhaseRoute, Profile
from neuron_fabric.typed import typed

STATE_VERSION = 1
_SEEN = 6  # significant digits of numbers that are written for people


class Controller:
    """Monitor of one rank; all ranks of a job make the same calls in the same order.

    Args:
        profile: Operating profile of the job.
        all_reduce: Reduction over the ranks of the job, see `consensus.AllReduce`.
        rank: Rank of this process.
        world: Number of ranks.
        folder: Folder of the log; only rank 0 writes it.
        plan: Plan of the job; by default that of ``profile``.
        about: Texts for the log, such as versions and the device.

    Raises:
        ValueError: Wrong arguments or a wrong order of calls.
        MonitorError: On every rank: the ranks disagree, or results of the reducer are wrong.
    """

    def __init__(
        self,
        profile: Profile,
        all_reduce: AllReduce,
        *,
        rank: int = 0,
        world: int = 1,
        folder: Path | None = None,
        plan: Plan | None = None,
        about: Mapping[str, str] | None = None,
    ) -> None:
        self.plan = plan or plan_of(profile)
        self._profile = profile
        self._phases = [region.phases for region in profile.regions]
        self._all_reduce = all_reduce
        self._codec = Codec(self.plan, world, rank)
        self._state = states.start(self.plan)
        self._plan_digest = digest_of(self.plan)
        self._pending: Any = None
        self._log = Log(folder) if folder is not None and rank == 0 else None
        self._about = dict(about or {})
        self._started = False
        self.decisions: list[Decision] = []
        """All decisions since the start, in order."""

    @property
    def state(self) -> JobState:
        """Return the state that gives the next step's routes; wait for a pending reduction."""
        self._settle()
        return self._state

    def routes(self) -> dict[str, PhaseRoute]:
        """Return the route of every profile region in the next step, by name of region.

        Raises:
            MonitorError: The ranks disagree, or results of the reducer are wrong.
        """
        state = self.state
        return {
            region.name: self._route(number, states.phase_of(self.plan, state, number))
            for number, region in enumerate(self.plan.regions)
        }

    def _route(self, number: int, phase: Phase) -> PhaseRoute:
        phases = self._phases[number]
        if phase == Phase.RECOVERY and phase not in phases:
            phase = Phase.STEADY
        how, route = phases[phase], self._state.regions[number].route
        if phase != Phase.STEADY or route in ("", how.route):
            return how
        assigned = PhaseRoute(Route(route), why="assigned")
        if assigned.route == Route.FP32:
            return assigned
        return replace(assigned, feedback=how.feedback, signal=how.signal, beta=how.beta)

    def shadows(self) -> dict[str, PhaseRoute]:
        """Return the assigned routes by region, with which regions in FP32 are compared."""
        regions = enumerate(zip(self.plan.regions, self.state.regions, strict=True))
        return {its.name: self._route(n, Phase.STEADY) for n, (its, now) in regions if now.route}

    def errors(self) -> tuple[Route, ...]:
        """Return the routes whose errors are measured in the next step, in all regions."""
        due = states.errors_due(self.plan, self.state)
        return tuple(map(Route, self.plan.candidates)) if due else ()

    def samples(self) -> frozenset[str]:
        """Return the profile regions whose cosine is sampled in the next step.

        For a region in FP32 the votes of its steady route are reduced in addition, and only
        compared.
        """
        due = states.samples_due(self.plan, self.state)
        return frozenset(self.plan.regions[number].name for number in due)

    def step_end(self, report: StepReport) -> None:
        """Start the reduction of this rank's measurements of a step over the ranks.

        Raises:
            ValueError: The report is not that of the next step.
            MonitorError: As for `routes`, for the step before.
        """
        self._settle()
        if report.step != self._state.step + 1:
            raise ValueError(f"step {report.step} after step {self._state.step}")
        vector = self._codec.encode(report)
        ends = both_ends(self.digest), self._codec.least(report)
        wait = self._all_reduce(np.concatenate([vector, *ends]), vector.size)
        self._pending = report, wait

    @property
    def digest(self) -> int:
        """Return a 63-bit digest of the plan and the state, with the windows of all signals."""
        return digest_of(self._plan_digest, self._state)

    def _settle(self) -> None:
        if self._pending is None:
            return
        report, wait = self._pending
        self._pending = None
        vector, extremes = np.split(wait(), [self._codec.length])
        if not agreed(extremes):
            raise self._ended(self._disagreement(report.step))
        numbers = vector.tolist() + extremes[2:].tolist()
        got = self._codec.decode(report.step, numbers)
        before, (self._state, decided) = self._state, states.advance(self.plan, self._state, got)
        self.decisions += decided
        self._write(report, got, numbers, before, decided)
        if got.mismatch and Reason.REDUCER not in self.plan.off:
            what = f"step {report.step}: lines of the reducer differ from the shadow check"
            raise self._ended(MonitorError("monitor", what, "the reducer is not to be trusted"))

    def _disagreement(self, step: int) -> MonitorError:
        """Return the error that names the ranks with another state, after a gather of all digests.

        The digests are gathered by a sum in which each rank fills its own place.
        """
        own = np.zeros(self._codec.world, dtype=np.int64)
        own[self._codec.rank] = self.digest
        ranks = minority_ranks([int(one) for one in self._all_reduce(own, own.size)()])
        names = ", ".join(map(str, ranks[:8])) + ", ..." * (len(ranks) > 8)
        since = "from the start" if step == 0 else f"since step {step - 1}"
        what = f"step {step}: states of the ranks differ {since}: rank {names} against the others"
        return MonitorError("monitor", what, "give all ranks one profile and one checkpoint")

    def _ended(self, error: MonitorError) -> MonitorError:
        self.close(str(error))
        return error

    def state_dict(self) -> dict[str, Any]:
        """Return the state as plain data, from which `load_state_dict` continues exactly.

        It is the same on every rank.
        """
        return {
            "version": STATE_VERSION,
            "plan": self._plan_digest,
            "state": plain(self.state),
        }

    def load_state_dict(self, values: Mapping[str, Any]) -> None:
        """Restore a state of `state_dict`, which may come from another number of ranks.

        Raises:
            MonitorError: The state is damaged, or of another version or plan.
        """
        todo = "load a checkpoint of this profile, or start without it"
        if values.get("version") != STATE_VERSION:
            what = f"of version {values.get('version')!r}, this program reads {STATE_VERSION}"
            raise MonitorError("state of the monitor", what, todo)
        if values.get("plan") != self._plan_digest:
            raise MonitorError("state of the monitor", "of another profile", todo)
        try:
            state = typed(JobState, values.get("state"), "state")
        except ValueError as error:
            raise MonitorError("state of the monitor", error, todo) from None
        if len(state.regions) != len(self.plan.regions):
            raise MonitorError("state of the monitor", "of other regions", todo)
        self._pending, self._state, self._started = None, state, False

    def close(self, why: str = "closed") -> None:
        """Process the reduction of the last step and end the log with the reason ``why``.

        Raises:
            MonitorError: As for `routes`.
        """
        try:
            self._settle()
        finally:
            if self._log is not None:
                self._log.write("end", step=self._state.step, why=why)
                self._log.close()
                self._log = None

    def _write(
        self,
        report: StepReport,
        got: Reading,
        numbers: list[int],
        before: JobState,
        decided: tuple[Decision, ...],
    ) -> None:
        if self._log is None:
            return
        if not self._started:
            self._started = True
            run = Run(
                FORMAT,
                VERSION,
                self._profile.name,
                self._profile.fingerprint,
                self._codec.world,
                report.step,
                self.plan,
                tuple(field_names(self.plan)),
                before if report.step else None,
                self._about,
            )
            self._log.write("run", **plain(run))
        times = {
            part: float(f"{one:.{_SEEN}g}")
            for part, one in report.seconds.items()
            if math.isfinite(one)
        }
        moved = {str(route): both for route, both in report.bytes.items()}
        step = Step(report.step, tuple(numbers), before.mode, _seen(got.loss), moved, times)
        self._log.write("step", **plain(step))
        for bucket, late in report.closed:
            self._log.write("closed", step=report.step, bucket=bucket, late=list(late))
        named = zip(self.plan.regions, got.regions, strict=True)
        cosines = {its.name: _seen(one.cosine) for its, one in named if one.cosine is not None}
        if cosines:
            self._log.write("sample", step=report.step, cosines=cosines)
        for one in decided:
            self._log.write("decision", **plain(one), digest=self.digest)
        if self._state.judged == got.step:
            self._write_capacity(got)
        if (made := self._state.assigned).step == got.step:
            both = zip(self.plan.regions, self._state.regions, strict=True)
            routes = {its.name: now.route or its.route for its, now in both if its.eligible}
            seen = {"error": _seen(made.error), "limit": _seen(made.limit)}
            sent = round(made.bits / 8)
            self._log.write("assignment", step=got.step, routes=routes, bytes=sent, **seen)

    def _write_capacity(self, got: Reading) -> None:
        """Log T_low and T_fp32 of every region whose capacity was judged, changed or not."""
        assert self._log is not None
        link = got.link_latency or 0.0, got.link_mib or 0.0
        host = got.host_mib or 0.0
        for number in self.plan.eligible:
            its, now = self.plan.regions[number], self._state.regions[number]
            if its.cost is None or now.rejected > 0:  # by the device: the model is not used
                continue
            self._log.write(
                "capacity",
                step=got.step,
                region=its.name,
                t_low=_seen(its.cost.low(*link, host)),
                t_fp32=_seen(its.cost.network(*link)),
                ratio=_seen(its.cost.ratio(*link, host)),
                admitted=not now.rejected,
            )


def _seen(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{_SEEN}g}")

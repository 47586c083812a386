# SPDX-License-Identifier: Apache-2.0
"""Training session: the result of `attach` with a profile; needs torch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Protocol

import numpy as np
import torch

from neuron_fabric.calibration.calibration_job import checked_metrics
from neuron_fabric.capacity.network_times import HostRate
from neuron_fabric.codec import Route
from neuron_fabric.errors import AttachError
from neuron_fabric.hook.attach_checks import warn
from neuron_fabric.hook.bucket_hook import BucketRouter
from neuron_fabric.hook.capture_hook import CaptureState
from neuron_fabric.hook.steady_signs import Signs
from neuron_fabric.monitor import ReducerCounters, StepReport
from neuron_fabric.monitor.consensus import reduced
from neuron_fabric.profile import PhaseRoute
from neuron_fabric.reducers.interface import Counters
from neuron_fabric.reducers.torch_reducer import OwnGroup

VERSION = 1


class Controls(Protocol):
    """Interface of the controller that decides on routes, see `monitor.Controller`.

    The defaults: all regions in FP32, no samples, no state.
    """

    def routes(self) -> Mapping[str, PhaseRoute]:
        """Return the routes of the next step by profile region."""
        return {}

    def samples(self) -> frozenset[str]:
        """Return the profile regions to sample in the next step."""
        return frozenset()

    def shadows(self) -> Mapping[str, PhaseRoute]:
        """Return the routes, by region, with which regions in FP32 are compared from now on."""
        return {}

    def errors(self) -> Sequence[Route]:
        """Return the routes whose errors are measured in the next step."""
        return ()

    def step_end(self, report: StepReport) -> None:
        """Process the report of a step that has been reduced."""
        return

    def state_dict(self) -> Mapping[str, Any]:
        """Return the state for a checkpoint."""
        return {}

    def load_state_dict(self, values: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        return

    def close(self) -> None:
        """Close the log."""
        return


class TrainingSession:
    """Session of a training with a profile, on one rank; a copy of it is None.

    Call ``observe(loss)`` after each backward for the monitor. ``state_dict`` is for checkpoints,
    one per rank, because residuals belong to the gradients of a rank. ``close`` ends threads and
    log.
    """

    def __init__(self, router: BucketRouter, controls: Controls, scaler: Any = None) -> None:
        """Create the session.

        Args:
            router: State of the communication hook.
            controls: Decides on routes and samples.
            scaler: GradScaler of the training, whose scale residuals have to follow; None without
                one.
        """
        self.capture: CaptureState | None = None
        """Capture of the same training, if NF_CAPTURE_DIR requests one."""
        self._router, self.controls, self._scaler = router, controls, scaler
        self._loss: float | torch.Tensor | None = None
        self._scale = self._loss_scale()
        self._before, self._packed = _totals(router), 0
        self._host = HostRate(router.gradient_bytes)
        self._start = time.perf_counter()
        self.strange_losses = 0
        """Losses that were NaN or infinite."""
        router.first, router.last = self._first, self._last
        self.reporter: Callable[[Mapping[str, float]], None] = lambda metrics: None
        """Pass on the value of `report` after the last step: to `nf train calibrate`, by a file."""

    def __reduce__(self) -> tuple[type, tuple[()]]:
        """Copy and pickle as None; `state_dict` is for checkpoints."""
        return type(None), ()

    @property
    def step(self) -> int:
        """Return the number of the last step whose backward has begun; -1 before the first."""
        return self._router.step

    @property
    def routes(self) -> Mapping[str, PhaseRoute]:
        """Return the routes of the step `step`, by profile region."""
        return self._router.routes

    @property
    def sent(self) -> Mapping[str, int]:
        """Return the bytes that this rank has sent by route; all-reduces count as a ring."""
        return dict(self._router.reducer.counters.sent)

    @property
    def received(self) -> Mapping[str, int]:
        """Return the bytes that this rank has received by route."""
        return dict(self._router.reducer.counters.received)

    @property
    def reducer_counters(self) -> Counters:
        """Return the counters of the reducer."""
        return self._router.reducer.counters

    def observe(self, loss: Any) -> None:
        """Record the loss of this rank's step: a number or a tensor of one element.

        Raises:
            AttachError: it is something else.
        """
        if isinstance(loss, torch.Tensor):
            if loss.numel() != 1:
                what = f"the loss has {loss.numel()} elements"
                raise AttachError("observe", what, "give it the mean, a tensor of one element")
            if loss.is_cuda:
                self._loss = loss.detach().clone()  # read by the thread that reports the step
                return
            loss = loss.detach().item()
        try:
            value = float(loss)
        except (TypeError, ValueError, OverflowError):
            what = f"the loss is a {type(loss).__name__}"
            raise AttachError("observe", what, "give it a number") from None
        self._loss = self._counted(value)

    def _counted(self, loss: Any) -> float:
        value = float(loss)
        self.strange_losses += int(not math.isfinite(value))
        return value

    def report(self, **metrics: Any) -> None:
        """Report the metrics of the training once, at its end, as ``accuracy=0.95``.

        `nf train calibrate` compares them; in other trainings the call only checks them.

        Raises:
            CalibrationError: a metric is not a number.
        """
        found = checked_metrics(metrics)
        self._router.thread.drain()
        self.reporter(found)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of this rank for a checkpoint: numbers, texts and tensors."""
        self._router.thread.drain()
        router = self._router
        return {
            "version": VERSION,
            "world": router.workers,
            "rank": router.rank,
            "step": router.step,
            "loss": None if self._loss is None else float(self._loss),
            "scale": self._scale,
            "controls": self.controls.state_dict(),
            "residuals": _copies(router.memory.residuals),
            "momenta": _copies(router.memory.momenta),
            "factors": _copies(router.factors.right),
            "signs": _copies(router.signs.last),
            "runs": _copies(router.signs.run),
            "agreements": dict(router.agreements.running),
        }

    def load_state_dict(self, values: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned.

        Residuals and momenta of another rank or world size, or of other slices of a parameter, are
        dropped, with a warning.

        Raises:
            AttachError: The state has another version.
        """
        if values.get("version") != VERSION:
            what = f"version {values.get('version')!r}, this program reads {VERSION}"
            raise AttachError("state of the runtime", what, "start without it")
        router, rank = self._router, self._router.rank
        router.thread.drain()
        if self.capture is not None:
            self.capture.step += values["step"] - router.step
        router.step, self._loss, self._scale = values["step"], values["loss"], values["scale"]
        self.controls.load_state_dict(values["controls"])
        router.signs = Signs(self._placed(values["signs"]), self._placed(values["runs"]))
        router.factors.right = self._placed(values.get("factors", {}))  # the same on every rank
        if (values["world"], values["rank"]) == (router.workers, rank):
            router.agreements.running = dict(values.get("agreements", {}))
            router.memory.residuals = self._placed(values["residuals"])
            router.memory.momenta = self._placed(values["momenta"])
            if lost := sorted({*values["residuals"], *values["momenta"]} - {*router.layouts}):
                warn(f"rank {rank}: residuals of {lost[0]} are dropped: no slice has that name")
        elif values["residuals"] or values["momenta"]:
            whose = f"rank {values['rank']} of {values['world']}"
            warn(f"rank {rank} of {router.workers}: residuals of {whose} are dropped")

    def close(self) -> None:
        """Close threads, reducer and monitor log; call it on every rank after the last backward."""
        with ExitStack() as last:  # each of them, whatever the one before it has raised
            last.callback(self._router.reducer.close)
            last.callback(self._router.packer.close)
            last.callback(self._router.thread.close)
            last.callback(self.controls.close)
            self._router.thread.drain()

    def _first(self) -> None:
        memory, routes = self._router.memory, self.controls.routes()
        fed = any(how.feedback or how.signal == "momentum" for how in routes.values())
        fed = fed or bool(memory.residuals or memory.momenta)
        # Only then: reading the scale waits for a GPU.
        if fed and (scale := self._loss_scale()) != self._scale:
            memory.rescale(scale / self._scale)
            self._scale = scale
        self._router.routes = routes
        self._router.samples = self.controls.samples()
        self._router.shadows = {**self._router.shadows, **self.controls.shadows()}
        self._router.tried = self.controls.errors()
        before, self._start = self._start, time.perf_counter()
        if self._router.step:
            self._host.step(self._start - before)

    def _last(self) -> None:
        """Queue the report of a step after its last bucket.

        Its loss is that observed in the step before: this step's is not known yet, and the thread
        may run at any time.
        """
        loss, self._loss = self._loss, None
        router, step = self._router, self._router.step

        def report() -> None:
            router.settle()
            measured, totals = router.measured, _totals(router)
            sent, received, seconds, events = map(_difference, totals, self._before)
            self._before = totals
            self._host.work(seconds, router.packed_bytes - self._packed)
            self._packed = router.packed_bytes
            self.controls.step_end(
                StepReport(
                    step,
                    self._counted(loss) if isinstance(loss, torch.Tensor) else loss,
                    measured.norms,
                    measured.cosines,
                    measured.margins,
                    measured.nonfinite,
                    router.signs.saturation(router.regions),
                    ReducerCounters(**_whole(events)),
                    bytes={Route(one): (int(sent[one]), int(received.get(one, 0))) for one in sent},
                    seconds={
                        **seconds,
                        **router.link.seconds(),
                        **self._host.seconds(),
                        "reduce": time.perf_counter() - self._start,
                    },
                    agreements=router.agreements.step(),
                    errors=measured.errors,
                    closed=measured.closed,
                )
            )

        router.thread.put(report)

    def _placed(self, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return copies of a checkpoint's tensors, of pieces that there are, on the device."""
        router = self._router
        return {
            name: one.to(router.device, copy=True)
            for name, one in tensors.items()
            if name in router.layouts
        }

    def _loss_scale(self) -> float:
        enabled = self._scaler is not None and self._scaler.is_enabled()
        return float(self._scaler.get_scale()) if enabled else 1.0


def _totals(router: BucketRouter) -> tuple[dict[str, float], ...]:
    """Return bytes sent, bytes received, seconds and events of the reducer so far."""
    one = router.reducer.counters
    return dict(one.sent), dict(one.received), dict(one.seconds), dict(one.events)


def _difference(now: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    return {name: one - before.get(name, 0) for name, one in now.items()}


def _whole(counts: Mapping[str, float]) -> dict[str, Any]:
    return {name: int(one) for name, one in counts.items()}


def _copies(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: one.to("cpu", copy=True) for name, one in tensors.items()}


def all_reducer(group: OwnGroup) -> Callable[[Any, int], Callable[[], Any]]:
    """Return a function for `monitor.consensus.AllReduce` over a group.

    It starts a gather of all ranks' numbers and returns a function that waits and adds them: a ring
    would take W times the rounds for these few.
    """

    def start(vector: Any, sums: int) -> Callable[[], Any]:
        wait = group.start_gather(torch.from_numpy(np.array(vector, np.int64)))
        return lambda: reduced(wait().numpy(), sums)

    return start

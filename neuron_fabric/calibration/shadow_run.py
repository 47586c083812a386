# SPDX-License-Identifier: Apache-2.0
"""Training that `nf train calibrate` has started: the runtime that `attach` returns in it; needs
torch."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from neuron_fabric.calibration.calibrating import About, RowWriter
from neuron_fabric.calibration.calibration_job import Job, Report, write_report
from neuron_fabric.calibration.shadow_router import ShadowRouter
from neuron_fabric.codec import Route
from neuron_fabric.comm_hooks import ForwardHook
from neuron_fabric.hook.bucket_hook import bucket_hook
from neuron_fabric.hook.conditions import ConditionProbe, valid_for
from neuron_fabric.hook.lost_ranks import Peers, watch
from neuron_fabric.hook.refusal import check_model, warn
from neuron_fabric.hook.training_session import Controls, TrainingSession
from neuron_fabric.monitor import StepReport
from neuron_fabric.profile import sketch
from neuron_fabric.profile.model_sketch import head_of, last_weight
from neuron_fabric.profile.portability import Conditions
from neuron_fabric.reducers.torch_reducer import TorchReducer
from neuron_fabric.wrapped import bare_model

ROUTES = tuple(route for route in Route if route != Route.FP32)
"""Routes of the shadow, unless the job names some."""


def shadowed(
    model: Any,
    folder: Path,
    job: Job,
    *,
    steps: int | None,
    here: Conditions,
    timeout_s: float,
) -> TrainingSession:
    """Attach the shadow to a model; the training stays in FP32, bit-identical to DDP without a
    hook.

    Args:
        model: DistributedDataParallel model.
        folder: Folder of the job.
        job: The job.
        steps: Steps of the training, if known.
        here: Conditions that the script has passed.
        timeout_s: Time-out of a reduction in seconds.

    Raises:
        AttachError: No profile can be attached to the model.
    """
    check_model(model)
    group = model.process_group
    reducer = TorchReducer(timeout_s)
    reducer.open(group)
    routes = [route for route in ROUTES if job.routes is None or route in job.routes]
    router = ShadowRouter(model, reducer, job.every, routes)
    recorder = Recorder(router)
    if job.every and dist.get_rank(group) == 0:
        about = partial(About, router.workers, job.every, tuple(map(str, routes)), steps=steps)
        seen = ConditionProbe(model)

        def begin(head: Collection[str]) -> None:
            parameters = sketch(model, head)

            def rows() -> RowWriter:
                known = valid_for(here, seen.found, router.workers)
                return RowWriter(folder, about(parameters, valid_for=known))

            recorder.begin = rows

        watch_forward(model, begin)
    runtime = TrainingSession(router, recorder)
    model.register_comm_hook(router, bucket_hook)
    router.peers = Peers(group)
    watch(router.tell_lost)
    told(runtime, model, folder, job)
    return runtime


class Recorder(Controls):
    """Recorder of the shadow, in place of the monitor: it has no regions and writes the samples."""

    def __init__(self, router: ShadowRouter) -> None:
        """Record nothing until ``begin`` is set, after the first forward pass, when the head is
        known. It opens the file at the end of the first step, when the conditions of the
        training are known."""
        self._router = router
        self._rows: RowWriter | None = None
        self.begin: Callable[[], RowWriter] | None = None

    def step_end(self, report: StepReport) -> None:
        """Write the row of a sample."""
        found, self._router.found = self._router.found, {}
        if begin := self.begin:
            self.begin = None
            self._try(lambda: setattr(self, "_rows", begin()))
        rows = self._rows
        if found and rows is not None:
            self._try(lambda: rows.put(report.step, found))

    def close(self) -> None:
        """Close the file."""
        if self._rows is not None:
            self._rows.close()
            self._rows = None

    def _try(self, action: Any) -> None:
        """Run an action on the file. A full disk loses the samples, never the training."""
        try:
            action()
        except OSError as error:
            self._rows = None
            warn(f"no more samples are written: {error.strerror}")


def watch_forward(model: Any, done: Any) -> None:
    """Call ``done`` with the names of the head's parameters after the first forward pass."""
    bare, block, last = bare_model(model), ExitStack(), list[int]()

    def before(*_: Any) -> None:
        nonlocal last
        last = block.enter_context(last_weight(bare))

    def after(*_: Any) -> None:
        block.close()
        for hook in hooks:
            hook.remove()
        done(head_of(bare, last))

    hooks = (
        bare.register_forward_pre_hook(ForwardHook(before)),
        bare.register_forward_hook(ForwardHook(after), always_call=True),
    )


def told(runtime: TrainingSession, model: Any, folder: Path, job: Job) -> None:
    """Make ``runtime.report`` write a report, and stop the training if the job says so."""
    bare, rank = bare_model(model), dist.get_rank(model.process_group)

    def report(metrics: Mapping[str, float]) -> None:
        if rank == 0:
            made = Report(
                metrics, runtime.step + 1, weights_of(bare), runtime.sent, runtime.received
            )
            write_report(folder, made)

    runtime.reporter = report
    if job.stop is not None:
        runtime.observe = partial(_last, runtime, job.stop)  # type: ignore[method-assign]


def _last(runtime: TrainingSession, stop: int, loss: Any) -> None:
    """Observe a loss in a training that ends after ``stop`` steps."""
    TrainingSession.observe(runtime, loss)
    if runtime.step + 1 < stop:
        return
    runtime.close()
    os._exit(0)  # skip the rest of the script


def weights_of(module: Any) -> str:
    """Return the sha256 of all parameters."""
    digest = hashlib.sha256()
    for one in module.parameters():
        digest.update(one.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()

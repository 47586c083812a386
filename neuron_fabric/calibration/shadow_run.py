# SPDX-License-Identifier: Apache-2.0
"""Training that `nf train calibrate` has started: its session and its communication hook.

The hook is FP32, bit-identical to DDP without a hook. Every few steps it also packs and reduces the
gradients by all measured routes (the shadow) and computes statistics. Needs torch.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric.calibration.calibration_job import (
    NAMES,
    About,
    Job,
    Report,
    RowWriter,
    write_report,
)
from neuron_fabric.codec import Route
from neuron_fabric.codec.scale_groups import Granularity
from neuron_fabric.hook import payload
from neuron_fabric.hook.attach_checks import check_model, warn
from neuron_fabric.hook.bucket_hook import DTYPES, BucketRouter, bucket_hook
from neuron_fabric.hook.error_feedback import signal_of, values_of
from neuron_fabric.hook.hook_state import ForwardHook
from neuron_fabric.hook.lost_ranks import Peers, watch
from neuron_fabric.hook.training_conditions import ConditionProbe, valid_for
from neuron_fabric.hook.training_session import Controls, TrainingSession
from neuron_fabric.monitor import StepReport
from neuron_fabric.monitor.signals import random_margin
from neuron_fabric.profile import PhaseRoute, sketch
from neuron_fabric.profile.model_sketch import head_of, last_weight
from neuron_fabric.profile.portability import Conditions
from neuron_fabric.profile.profile_types import (
    GRANULARITIES,
    LEAST_ELEMENTS,
    Decode,
    decode_name,
)
from neuron_fabric.reducers.interface import F32, Outcome
from neuron_fabric.reducers.torch_reducer import TorchReducer
from neuron_fabric.wrapped import bare_model

ROUTES = tuple(route for route in Route if route != Route.FP32)
"""Routes of the shadow, unless the job names some."""


def shadowed(
    model: Any, folder: Path, job: Job, *, steps: int | None, here: Conditions, timeout_s: float
) -> TrainingSession:
    """Attach the shadow to a model and return the session.

    The training stays in FP32, bit-identical to DDP without a hook.

    Args:
        model: DistributedDataParallel model.
        folder: Folder of the job.
        job: The job.
        steps: Steps of the training, if known.
        here: Conditions of the training that the script has passed to `attach`.
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
        seen = ConditionProbe(model)

        def rows(head: Collection[str]) -> RowWriter:
            known = valid_for(here, seen.found, router.workers)
            names = tuple(map(str, routes))
            about = About(router.workers, job.every, names, sketch(model, head), steps, known)
            return RowWriter(folder, about)

        watch_forward(model, lambda head: setattr(recorder, "begin", partial(rows, head)))
    runtime = TrainingSession(router, recorder)
    model.register_comm_hook(router, bucket_hook)
    router.peers = Peers(group)
    watch(router.tell_lost)
    told(runtime, model, folder, job)
    return runtime


class Recorder(Controls):
    """Writer of the samples, in place of the monitor of a session; it controls no regions."""

    def __init__(self, router: ShadowRouter) -> None:
        """Create a recorder that writes nothing until ``begin`` is set.

        ``begin`` opens the file at the end of the first step, when the conditions of the training
        are known. It is set after the first forward pass, when the head is known.
        """
        self._router = router
        self._rows: RowWriter | None = None
        self.begin: Callable[[], RowWriter] | None = None

    def step_end(self, report: StepReport) -> None:
        """Write the row of a sampled step; after an OSError warn and write no more rows."""
        found, self._router.found = self._router.found, {}
        begin, self.begin = self.begin, None
        try:
            if begin is not None:
                self._rows = begin()
            if found and self._rows is not None:
                self._rows.put(report.step, found)
        except OSError as error:  # a full disk loses the samples, never the training
            self._rows = None
            warn(f"no more samples are written: {error.strerror}")

    def close(self) -> None:
        """Close the file, if it is open."""
        if self._rows is not None:
            self._rows.close()
            self._rows = None


def watch_forward(model: Any, done: Any) -> None:
    """Call ``done`` with the names of the head's parameters after the first forward pass.

    The head is found by `last_weight` during that pass.
    """
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
    """Make ``runtime.report`` write `report.json` (rank 0), and end training at ``job.stop``."""
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
    """Observe a loss; exit the process if it is that of step ``stop`` (the first is 1)."""
    TrainingSession.observe(runtime, loss)
    if runtime.step + 1 < stop:
        return
    runtime.close()
    os._exit(0)  # skip the rest of the script


def weights_of(module: Any) -> str:
    """Return the sha256 of all parameters of a module, as hex digits."""
    digest = hashlib.sha256()
    for one in module.parameters():
        digest.update(one.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


# Statistics of a tensor and its packed reduction, as sums over the elements.
#
# g_w is the gradient of worker w, m their mean in FP32, d the decoded gradient (shrink 1). All sums
# are in float64 and in one order, so that equal gradients give equal bits.
#
# | sum | is |
# |---|---|
# | dot, mean2, decoded2 | <m, d>, <m, m>, <d, d> |
# | zeros, gate | exact zeros, and elements with a vote: means over the workers |
# | margin | abs(plus - minus) / W, scaled to 0 for random signs and 1 for one voice; codes: 0 |
# | agree, weighted | elements where d has the sign of m; the same, each weighing abs(m) |
# | mean1, mean4 | abs(m), and m to the 4th power |
# | noise2 | squared norm of g_w - m, mean over the workers |

F64 = NDArray[np.float64]
_PIECE = 1 << 16  # elements that fit a processor cache


def shadow_sums(m: F32, d: F32, net: F32 | None, workers: int, own: F64) -> dict[str, float]:
    """Return all statistics of a tensor for one decode of one route, by name (see the table above).

    If the mean or the decoded gradient is not finite, all are 0, which gives a cosine of 0.

    Args:
        m: Mean gradient.
        d: Decoded gradient.
        net: Plus votes minus minus votes; None for integer codes.
        workers: Number of workers.
        own: Sums over the workers: squared norms, exact zeros, open gates.
    """
    own2, zeros, gates = own.tolist()
    total = dict.fromkeys(NAMES, 0.0)
    if not (np.isfinite(m).all() and np.isfinite(d).all() and np.isfinite(own2)):
        return total
    for at in range(0, m.size, _PIECE):
        for name, value in _piece(m[at : at + _PIECE], d[at : at + _PIECE]).items():
            total[name] += value
    margin, least = 0.0, random_margin(workers)
    if net is not None and workers > 1:
        voices = sum(_sum(np.abs(net[at : at + _PIECE])) for at in range(0, net.size, _PIECE))
        margin = (voices / workers - least * m.size) / (1 - least)
    return {
        **total,
        "zeros": zeros / workers,
        "gate": gates / workers,
        "margin": margin,
        "noise2": max(0.0, own2 / workers - total["mean2"]),
    }


def squared(x: F32) -> float:
    """Return the squared norm of x, summed in float64."""
    pieces = (x[at : at + _PIECE].astype(np.float64) for at in range(0, x.size, _PIECE))
    with np.errstate(over="ignore", invalid="ignore"):
        return sum((_sum(one * one) for one in pieces), 0.0)


def _piece(m: F32, d: F32) -> dict[str, float]:
    a, b = m.astype(np.float64), d.astype(np.float64)
    same, size, square = np.sign(a) == np.sign(b), np.abs(a), a * a
    return {
        "dot": _sum(a * b),
        "mean2": _sum(square),
        "decoded2": _sum(b * b),
        "agree": float(np.count_nonzero(same)),
        "weighted": _sum(size * same),
        "mean1": _sum(size),
        "mean4": _sum(square * square),
    }


def _sum(x: NDArray[np.floating]) -> float:
    """Return the sum in float64; a dot product would depend on the alignment of the memory."""
    return float(np.sum(x, dtype=np.float64))


Found = dict[tuple[str, str, str], Mapping[str, float]]
"""Statistics by parameter, route and decode."""


class ShadowRouter(BucketRouter):
    """Bucket router of a calibration: reduces every bucket in FP32 as DDP does, and samples steps.

    ``found`` holds the statistics of a sampled step on rank 0; other ranks only take part in the
    reduction.
    """

    def __init__(
        self,
        model: DistributedDataParallel,
        reducer: TorchReducer,
        every: int,
        routes: Sequence[Route],
    ) -> None:
        super().__init__(model, {}, reducer)
        self._every = every
        # Votes follow from the counts, so only the counts are requested.
        self._hows = [
            PhaseRoute(route, "net" if route.votes else "vote", granularity=granularity)
            for granularity in GRANULARITIES
            for route in routes
            if route.votes or granularity == "tensor"
        ]
        self._looks = self.rank == 0
        self.found: Found = {}

    @property
    def due(self) -> bool:
        """Return whether the present step is sampled."""
        return self._every > 0 and self.step % self._every == 0

    def _reduce(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        buffer = bucket.buffer()
        votes: list[payload.Vote] = []
        if self.due and not buffer.is_sparse and buffer.dtype in DTYPES:
            votes = self._votes(bucket)
        if not votes:
            return super()._reduce(bucket)
        own = _own(votes)
        side = payload.sidecar([vote.column for vote in votes])
        handle = self.reducer.submit(self.step, bucket.index(), payload.parts_of(votes), side)
        mean = super()._reduce(bucket)  # the buffer is overwritten from here on
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()

        def finish() -> None:
            outcome = self.reducer.wait(handle)
            every = self.reducer.second_group.gather(torch.from_numpy(own)).numpy()
            mean.wait()
            if self._looks:
                self._look(votes, outcome, every)
            future.set_result(buffer)

        self.thread.put(finish, future.set_exception)
        return future

    def _votes(self, bucket: dist.GradBucket) -> list[payload.Vote]:
        """Return one packed contribution per measured route for each large parameter in the bucket.

        Large means at least `LEAST_ELEMENTS` elements. Rows and columns are left out where the
        parameter has one scale anyway.
        """
        signals = [
            signal_of(name, "", gradient.view(-1), how, None, shadow=True, groups=groups)
            for parameter, gradient in zip(bucket.parameters(), bucket.gradients(), strict=True)
            if parameter.numel() >= LEAST_ELEMENTS
            for name in [self.names[id(parameter)]]
            for how in self._hows
            for groups in [self.groups(name, how)]
            if groups is not None or how.granularity == "tensor"
        ]
        return self._packed(signals, self._start_maxima(signals))

    def _look(self, votes: Sequence[payload.Vote], outcome: Outcome, own: Any) -> None:
        """Decode the reduced contributions and add their statistics to ``found``.

        Args:
            votes: Contributions of this worker.
            outcome: Their reduction.
            own: Sums of each worker, float64[W, votes * 3], see `_own`.
        """
        total = np.zeros(own.shape[1])
        for row in own:  # in the order of the workers
            total = total + row
        sums = total.reshape(len(votes), 3)
        every = payload.common_scales(votes, outcome)
        for n, (vote, part, first) in enumerate(payload.places(votes)):
            route, present = vote.how.route, outcome.present[n]
            s, net = every[n], None
            out = np.empty(vote.view.numel(), np.float32)
            reduced = outcome.parts[part][:, first : first + len(vote.lines)]
            if vote.units is None:
                net = out
                payload.decode(reduced, route, True, [out], [np.float32(present)], [present])
                vote_of = np.sign(net)  # a tie is + in G_BINARY and 0 in G_TERNARY
                if route == Route.G_BINARY:
                    vote_of[net == 0] = 1
                # As `payload.decode` does, in float32.
                longer = [vote_of.copy(), net.copy()]
                for one in longer:
                    if vote.groups is not None:
                        vote.groups.multiply(one, s)
                    else:
                        one *= s
                decoded: dict[Decode, F32] = {
                    "vote": longer[0],
                    "net": longer[1] / present if present else net,
                }
            else:
                more = (vote.units, self.workers)
                payload.decode(reduced, route, False, [out], [s], [present], *more)
                decoded = {"vote": out}
            m = values_of(vote.view)
            for name, d in decoded.items():
                sums_of = shadow_sums(m, d, net, self.workers, sums[n])
                for granularity in self._decoded_by(vote):
                    key = (vote.name, route.value, decode_name(name, granularity))
                    self.found[key] = sums_of

    def _decoded_by(self, vote: payload.Vote) -> list[Granularity]:
        """Return the granularity of a vote, and those that are the same for its parameter."""
        if vote.groups is not None or not vote.how.route.votes:
            return [vote.how.granularity]
        return [
            one
            for one in GRANULARITIES
            if self.groups(vote.name, replace(vote.how, granularity=one)) is None
        ]


def _own(votes: Sequence[payload.Vote]) -> Any:
    """Return squared norm, exact zeros and open gates of this worker, float64[votes * 3].

    Votes of one parameter are adjacent, so its norm is computed once.
    """
    rows, norm, last = [], 0.0, ""
    for vote in votes:
        if vote.name != last:
            values: F32 = values_of(vote.view)
            norm, last = squared(values), vote.name
        rows += [norm, float(vote.packed.zeros), float(vote.packed.open_gates)]
    return np.array(rows, np.float64)

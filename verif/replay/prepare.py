# SPDX-License-Identifier: Apache-2.0
"""A capture, checked whole and turned into lines, plans and expected lines; no simulator here.

The command line and the bench both call `prepare` with the same options: what is judged is never
passed from one to the other.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from models.formats import F32, LINE_BYTES, U8, Mode, Tie, lines_needed
from models.fp32 import ordered_sum
from models.reducers import reduce_binary, reduce_ternary
from models.regions import DeviceParams, planes_kept
from neuron_fabric.capture.reader import Capture, TensorSpec
from neuron_fabric.errors import CaptureError
from verif.replay.doubts import ZeroTensors, route_doubts
from verif.replay.options import ReplayOptions, parse_steps
from verif.replay.replay_plan import ReplayPlan, plan_replay
from verif.replay.routing import assign_routes, check_finite, parse_routes
from verif.replay.tensors import pack_workers


@dataclass(frozen=True)
class Lines:
    """Result lines uint8[n, 64] and count planes uint8[p, n, 64] (p = 0 in FP32) of a tensor."""

    result: U8
    planes: U8

    @staticmethod
    def empty(lines: int, planes: int) -> Lines:
        """Zeros of that size, to be filled."""
        return Lines(
            np.zeros((lines, LINE_BYTES), dtype=np.uint8),
            np.zeros((planes, lines, LINE_BYTES), dtype=np.uint8),
        )


@dataclass(frozen=True)
class TensorWork:
    """What every worker sends of a tensor, uint8[W, n, 64], and what the device must return."""

    spec: TensorSpec
    mode: Mode
    sent: U8
    expected: Lines

    @property
    def lines(self) -> int:
        """Lines a worker."""
        return int(self.sent.shape[1])

    def room(self) -> Lines:
        """Zeros in the shape of what is read back."""
        return Lines.empty(self.lines, len(self.expected.planes))


@dataclass(frozen=True)
class StepWork:
    """One step: `plan` places every tensor that has elements."""

    step: int
    plan: ReplayPlan
    tensors: dict[str, TensorWork]

    @property
    def lines(self) -> int:
        """Lines a worker, all tensors."""
        return sum(work.lines for work in self.tensors.values())

    @property
    def writes(self) -> int:
        """Contributions of all workers."""
        return self.lines * self.plan.workers

    @property
    def reads(self) -> int:
        """Lines read back: results and count planes."""
        return sum(work.lines * (1 + len(work.expected.planes)) for work in self.tensors.values())

    @property
    def fp32_lines(self) -> int:
        """Lines a worker if every tensor went by FP32."""
        return sum(lines_needed(w.spec.elements, Mode.FP32) for w in self.tensors.values())

    @property
    def epochs(self) -> list[int]:
        """Epochs that the step takes, one a round."""
        return [one.epoch for one in self.plan.rounds]


Session = tuple[StepWork, ...]
"""Steps that one device takes one after the other without a reset."""


@dataclass(frozen=True)
class Replay:
    """A capture that is ready to be driven."""

    capture: Capture
    options: ReplayOptions
    sessions: tuple[Session, ...]
    content: str
    """Names the gradients: two that read the capture at different times must have the same."""
    warnings: tuple[str, ...] = ()
    """What may be a mistake, one line each."""

    @property
    def steps(self) -> list[StepWork]:
        """All steps, in the order driven."""
        return [work for session in self.sessions for work in session]


def prepare(options: ReplayOptions) -> Replay:
    """Read and check everything; CaptureError, one line, when anything is wrong.

    Steps whose tensors take the same routes share a session, so that the device goes from epoch to
    epoch; other routes mean other regions, and a new session. CaptureError also when there is
    nothing to drive.
    """
    capture = Capture.open(options.capture)
    params = options.device
    steps = parse_steps(options.steps, capture)
    patterns = parse_routes(options.routes)
    routes = assign_routes(capture.tensors, patterns, capture.modules)
    zeros = ZeroTensors()
    loaded: list[tuple[int, dict[str, F32], dict[str, Mode]]] = []
    content = hashlib.sha256()
    for step in steps:
        gradients = capture.load(step)
        content.update(repr([(step, name, g.shape) for name, g in gradients.items()]).encode())
        for values in gradients.values():
            content.update(np.ascontiguousarray(values).data)
        own = check_finite(gradients, routes, step, options.nonfinite)
        zeros.look(step, gradients, own)
        loaded.append((step, gradients, own))
    sessions = []
    for _, group in groupby(loaded, key=lambda item: item[2]):
        members = list(group)
        plan = plan_replay(
            capture.tensors,
            members[0][2],
            capture.world_size,
            params,
            tie=options.tie,
            threshold=options.threshold,
        )
        sessions.append(
            tuple(
                StepWork(
                    step,
                    plan.from_epoch(1 + number * len(plan.rounds)),
                    {
                        spec.name: _tensor(spec, gradients[spec.name], own[spec.name], options)
                        for spec in capture.tensors
                    },
                )
                for number, (step, gradients, own) in enumerate(members)
            )
        )
    warnings = (*route_doubts(capture, routes, patterns), *zeros.lines())
    replay = Replay(capture, options, tuple(sessions), content.hexdigest(), warnings)
    if not any(work.lines for work in replay.steps):
        raise CaptureError(capture.path, "no tensor has an element", "there is nothing to replay")
    return replay


def _tensor(spec: TensorSpec, gradients: F32, mode: Mode, options: ReplayOptions) -> TensorWork:
    sent = pack_workers(gradients, mode, options.ratio)
    expected = expected_lines(sent, mode, options.tie, options.threshold, options.device)
    return TensorWork(spec, mode, sent, expected)


def expected_lines(
    sent: U8,
    mode: Mode,
    tie: Tie,
    threshold: int,
    device: DeviceParams,
    present: NDArray[np.bool_] | None = None,
) -> Lines:
    """What must come back for uint8[W, n, 64]: results, and the planes that carry counts.

    ``present`` bool[W, n]: who has contributed (None: all).
    """
    if mode == Mode.FP32:
        return Lines(ordered_sum(sent, present), np.zeros((0, *sent.shape[1:]), dtype=np.uint8))
    if mode == Mode.G_BINARY:
        low = reduce_binary(sent, present, tie, device.cnt_max)
    else:
        low = reduce_ternary(sent, present, threshold, device.cnt_max)
    return Lines(low.vote, low.planes[: planes_kept(len(sent), device.cnt_w)])

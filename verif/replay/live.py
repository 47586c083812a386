# SPDX-License-Identifier: Apache-2.0
"""Reducers for a training that goes on: every worker's lines in, the device's lines back.

`ModelReducer` asks the reference models. `RtlReducer` keeps one simulated device from step to step,
drives each step through it as bulk replay does, and checks what comes back before it is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol

from models.formats import U8, Mode
from models.regions import planes_kept
from neuron_fabric.capture.reader import TensorSpec
from neuron_fabric.errors import CaptureError
from neuron_fabric.text import LineError
from verif.replay.backend import Backend, BulkError
from verif.replay.bulk.device import BulkDevice, BulkFault
from verif.replay.bulk.rounds import Round, judge, lines_of, make_round, problems
from verif.replay.options import ReplayOptions
from verif.replay.prepare import Lines, expected_lines
from verif.replay.stream_plan import Extent, StreamPlan, plan_stream


class ReducerError(LineError):
    """The device did not do as the models say, or is gone; one line."""


@dataclass
class Totals:
    """What a reducer has done so far; lines are a worker's, ``cycles`` those of the device."""

    steps: int = 0
    lines: int = 0
    mismatches: int = 0
    cycles: int = 0


@dataclass(frozen=True)
class Contribution:
    """A tensor as the workers send it, uint8[W, n, 64] in the line format of its mode."""

    spec: TensorSpec
    mode: Mode
    sent: U8


class Reducer(Protocol):
    """Reduces one step of a training."""

    totals: Totals

    def reduce(self, tensors: Sequence[Contribution]) -> dict[str, Lines]:
        """Result lines and count planes by tensor; the same tensors and modes in every step."""


@dataclass
class ModelReducer:
    """What the reference models say; no simulator."""

    options: ReplayOptions = field(default_factory=lambda: ReplayOptions(capture=""))
    totals: Totals = field(default_factory=Totals)

    def reduce(self, tensors: Sequence[Contribution]) -> dict[str, Lines]:
        """See `Reducer`."""
        options = self.options
        self.totals.steps += 1
        self.totals.lines += sum(one.sent.shape[1] for one in tensors)
        return {
            one.spec.name: expected_lines(
                one.sent, one.mode, options.tie, options.threshold, options.device
            )
            for one in tensors
        }


@dataclass
class RtlReducer:
    """The RTL in a simulator, from step to step; use it as a context manager.

    ReducerError at the first mismatch, when the device counts what it should not, and when the
    simulator does not come up.
    """

    backend: Backend
    simulator: str = "verilator"
    options: ReplayOptions = field(default_factory=lambda: ReplayOptions(capture=""))
    name: str = "live"
    totals: Totals = field(default_factory=Totals)
    _plan: StreamPlan | None = None
    _epoch: int = 0

    def __enter__(self) -> RtlReducer:
        options = self.options
        folder = self.backend.workspace(f"{self.name}-{self.simulator}")
        try:
            model = self.backend.bulk(self.simulator, options.parameters)
            log2 = options.device.mem_lines_log2
            self._device: BulkDevice = model.open(folder, log2, options.seed)
        except (BulkError, BulkFault) as error:
            raise ReducerError(_one_line(self.simulator, error)) from None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._device.close()

    def reduce(self, tensors: Sequence[Contribution]) -> dict[str, Lines]:
        """See `Reducer`."""
        source = _StepSource({one.spec.name: one for one in tensors})
        if self._plan is None:
            self._plan = source.plan(self.options)
        planes = planes_kept(source.workers, self.options.device.cnt_w)
        out = {
            one.spec.name: Lines.empty(one.sent.shape[1], planes if one.mode.low_bit else 0)
            for one in tensors
        }
        for number in range(self._plan.rounds):
            self._epoch += 1
            step, seed = self.totals.steps, self.options.seed
            work = make_round(source, self._plan, step, number, self._epoch, seed)
            self._drive(work)
            for extent, _, lines in lines_of(work):
                part = slice(extent.first, extent.first + extent.lines)
                out[extent.tensor.name].result[part] = lines.result
                out[extent.tensor.name].planes[:, part] = lines.planes
        self.totals.steps += 1
        return out

    def _drive(self, work: Round) -> None:
        """A round through the device, checked."""
        before = self._device.figures().cycles
        try:
            self._device.run(work.traffic.block)
        except BulkFault as fault:
            raise ReducerError(_one_line(self.simulator, fault)) from None
        self.totals.cycles += self._device.figures().cycles - before
        self.totals.lines += work.lines
        mismatch = judge(work, self.options.device)
        if mismatch is not None:
            self.totals.mismatches += 1
            raise ReducerError(_one_line(self.simulator, mismatch.text))
        for text in problems(work):
            raise ReducerError(_one_line(self.simulator, text))


@dataclass
class _StepSource:
    """A step's contributions as bulk replay asks for them."""

    contributions: Mapping[str, Contribution]
    name: str = "training"
    steps: tuple[int, ...] = ()

    @property
    def workers(self) -> int:
        return len(next(iter(self.contributions.values())).sent)

    @property
    def tensors(self) -> tuple[TensorSpec, ...]:
        return tuple(one.spec for one in self.contributions.values())

    def routes(self, step: int) -> Mapping[str, Mode]:
        return {name: one.mode for name, one in self.contributions.items()}

    def lines(self, step: int, extent: Extent, mode: Mode) -> U8:
        sent = self.contributions[extent.tensor.name].sent
        return sent[:, extent.first : extent.first + extent.lines]

    def plan(self, options: ReplayOptions) -> StreamPlan:
        """ReducerError when the device does not take it."""
        try:
            return plan_stream(
                self.tensors,
                self.routes(0),
                self.workers,
                options.device,
                tie=options.tie,
                threshold=options.threshold,
            )
        except CaptureError as error:
            raise ReducerError(str(error)) from None


def _one_line(simulator: str, text: object) -> str:
    return f"{simulator}: {' '.join(str(text).split())[:600]}"

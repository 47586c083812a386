# SPDX-License-Identifier: Apache-2.0
"""Reducers for a training that goes on: every worker's lines in, the device's lines back.

`ModelReducer` asks the reference models. `RtlReducer` keeps one simulated device from step to step,
drives each step through it as bulk replay does, and checks what comes back before it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol

from models.line_packing import U8, Mode, Tie
from models.regions import RegionConfig
from neuron_fabric.capture import TensorSpec
from neuron_fabric.errors import CaptureError
from neuron_fabric.text import LineError
from verif.host.bulk_device import BulkDevice, BulkFault, BulkModel
from verif.replay.bulk.epoch_block import EpochBlock
from verif.replay.check import expected_lines, judge, reduced_by_words
from verif.replay.epoch import EpochLines
from verif.replay.options import EPOCH_LINES_LOG2, ReplayOptions
from verif.replay.plan import Plan, RegionUse, plan_step
from verif.replay.source import HeldLines
from verif.replay.views import Lines, carrier, selectors


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
        """What is read of each tensor; the same tensors and modes in every step."""


@dataclass
class ModelReducer:
    """What the reference models say; no simulator."""

    options: ReplayOptions = field(default_factory=lambda: ReplayOptions())
    totals: Totals = field(default_factory=Totals)

    def reduce(self, tensors: Sequence[Contribution]) -> dict[str, Lines]:
        """See `Reducer`."""
        self.totals.steps += 1
        self.totals.lines += sum(one.sent.shape[1] for one in tensors)
        return {one.spec.name: self._lines(one) for one in tensors}

    def _lines(self, one: Contribution) -> Lines:
        options, workers = self.options, len(one.sent)
        config = RegionConfig(
            *(0, 0, 0, workers, carrier(one.mode, options.sums)),
            tie_minus=options.tie == Tie.MINUS,
            threshold=options.threshold,
        )
        chosen = selectors(one.mode, config, options.device)
        use = RegionUse(0, config, (), one.mode, chosen)
        return expected_lines(one.sent, use, options.device)


@dataclass
class RtlReducer:
    """The RTL in a simulator, from step to step; use it as a context manager.

    ``model``: the design, built for bulk replay with the parameters of ``options``; what the
    simulator leaves goes to ``folder``. ReducerError at the first mismatch, when the device counts
    what it should not, and when the simulator does not come up.
    """

    model: BulkModel
    folder: Path
    simulator: str = "verilator"
    options: ReplayOptions = field(default_factory=ReplayOptions)
    totals: Totals = field(default_factory=Totals)
    _plan: Plan | None = None
    _epoch: int = 0

    def __enter__(self) -> RtlReducer:
        log2, seed = self.options.device.mem_lines_log2, self.options.seed
        try:
            self._device: BulkDevice = self.model.open(self.folder, log2, seed, self.options.memory)
        except BulkFault as error:
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
        modes = {one.spec: one.mode for one in tensors}
        source = HeldLines(modes, {one.spec.name: one.sent for one in tensors})
        if self._plan is None:
            options = self.options
            try:
                self._plan = plan_step(
                    *(source.tensors, source.routes(0), source.workers, options.device),
                    tie=options.tie,
                    threshold=options.threshold,
                    epoch_lines_log2=EPOCH_LINES_LOG2,
                    sums=options.sums,
                )
            except CaptureError as error:
                raise ReducerError(error) from None
        out: dict[str, Lines] = {}
        room = {one.spec.name: one.sent.shape[1] for one in tensors}
        for number in range(self._plan.epochs):
            self._epoch += 1
            work = EpochLines.read(source, self._plan, (self.totals.steps, number), self._epoch)
            self._drive(work)
            for extent, use, lines in work.extents():
                name = extent.tensor.name
                whole = out.setdefault(name, Lines.empty(use.selectors, room[name]))
                whole.stack[:, extent.first : extent.first + extent.lines] = lines.stack
        self.totals.steps += 1
        return out

    def _drive(self, work: EpochLines) -> None:
        """An epoch through the device, checked."""
        block = EpochBlock.of(work, self.options.seed)
        before = self._device.figures().cycles
        try:
            self._device.run(block.block)
        except BulkFault as fault:
            raise ReducerError(_one_line(self.simulator, fault)) from None
        self.totals.cycles += self._device.figures().cycles - before
        self.totals.lines += work.lines
        mismatch = judge(work, reduced_by_words).first
        if mismatch is not None:
            self.totals.mismatches += 1
            raise ReducerError(_one_line(self.simulator, mismatch.text))
        for text in block.problems():
            raise ReducerError(_one_line(self.simulator, text))


def _one_line(simulator: str, text: object) -> str:
    return f"{simulator}: {' '.join(str(text).split())[:600]}"

# SPDX-License-Identifier: Apache-2.0
"""What one call of bulk replay has to do: where lines come from, how they are cut, what is left."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from models.formats import LINE_BYTES, Mode, lines_needed
from models.regions import planes_kept
from neuron_fabric.capture.reader import Capture, TensorSpec
from neuron_fabric.errors import CaptureError
from verif.replay.bulk.journal import Key, digest
from verif.replay.bulk.source import NETWORKS, CaptureSource, LineSource, SyntheticSource
from verif.replay.doubts import route_doubts
from verif.replay.options import ReplayOptions, any_steps, parse_steps
from verif.replay.result import FORMAT, options_metadata
from verif.replay.routing import assign_routes, parse_routes
from verif.replay.stream_plan import ROUND_LINES_LOG2, StreamPlan, plan_stream

SLOW_LINES_LOG2 = min(8, ROUND_LINES_LOG2)
"""Lines of a round where Icarus takes part, to which a large round is a minute."""


@dataclass(frozen=True)
class StepPlan:
    """One step: its routes, and how its lines are cut into rounds; epochs from ``first_epoch``."""

    step: int
    routes: Mapping[str, Mode]
    plan: StreamPlan
    first_epoch: int

    @property
    def writes(self) -> int:
        """Contributions of all workers."""
        return self.plan.lines * self.plan.workers

    def reads(self) -> int:
        """Results and count planes."""
        planes = planes_kept(self.plan.workers, self.plan.params.cnt_w)
        return sum(
            row.lines * (1 + (planes if row.config.mode.low_bit else 0))
            for group in self.plan.groups
            for row in group.rows
        )


@dataclass(frozen=True)
class Shard:
    """Every ``of``-th round, this being number ``number`` of 1 .. of."""

    number: int = 1
    of: int = 1

    def takes(self, position: int) -> bool:
        """Whether the round at that position of the whole replay is in this shard."""
        return position % self.of == self.number - 1


@dataclass(frozen=True)
class BulkJob:
    """All rounds of a replay in order, as (step, round), and those that are asked for."""

    source: LineSource
    model: str
    options: ReplayOptions
    steps: tuple[StepPlan, ...]
    shard: Shard
    content: str
    """Names what the lines come from, every byte of it."""
    warnings: tuple[str, ...] = ()
    """What may be a mistake, one line each."""

    def rounds(self) -> list[Key]:
        """The rounds of this shard."""
        return [key for at, key in enumerate(self.all_rounds()) if self.shard.takes(at)]

    def all_rounds(self) -> list[Key]:
        """The rounds of the whole replay."""
        return [(one.step, number) for one in self.steps for number in range(one.plan.rounds)]

    def step(self, number: int) -> StepPlan:
        """The plan of a step."""
        return next(one for one in self.steps if one.step == number)

    def lines(self, keys: Sequence[Key]) -> int:
        """Contributions in some rounds."""
        return sum(
            share.lines * self.source.workers
            for step, number in keys
            for share in self.step(step).plan.round(number)
        )

    def identity(self, simulator: str) -> dict[str, Any]:
        """What must be the same for two journals to be of one replay."""
        options = self.options
        return {
            "content": self.content,
            "simulator": simulator,
            "steps": [one.step for one in self.steps],
            "routes": digest(repr([sorted(one.routes.items()) for one in self.steps]).encode()),
            "rounds": len(self.all_rounds()),
            "plan": digest(repr([one.plan for one in self.steps]).encode()),
            "parameters": dict(sorted(options.parameters.items())),
            "tie": options.tie.name,
            "threshold": options.threshold,
            "ratio": options.ratio,
            "seed": options.seed,
            "shard": f"{self.shard.number}/{self.shard.of}",
        }


def make_job(args: argparse.Namespace, options: ReplayOptions, shard: Shard) -> BulkJob:
    """Read and check everything; CaptureError, one line, when anything is wrong."""
    source, model = _synthetic(args, options) if args.synthetic else _captured(options)
    steps: list[StepPlan] = []
    epoch = 1
    for step in source.steps:
        routes = source.routes(step)
        plan = plan_stream(
            source.tensors,
            routes,
            source.workers,
            options.device,
            tie=options.tie,
            threshold=options.threshold,
            round_lines_log2=ROUND_LINES_LOG2 if args.sim == "verilator" else SLOW_LINES_LOG2,
        )
        steps.append(StepPlan(step, routes, plan, epoch))
        epoch += plan.rounds
    if epoch == 1:
        raise CaptureError(source.name, "no tensor has an element", "there is nothing to replay")
    warnings = tuple(source.warnings()) if isinstance(source, CaptureSource) else ()
    return BulkJob(source, model, options, tuple(steps), shard, source.content(), warnings)


def _captured(options: ReplayOptions) -> tuple[CaptureSource, str]:
    capture = Capture.open(options.capture)
    patterns = parse_routes(options.routes)
    wanted = assign_routes(capture.tensors, patterns, capture.modules)
    steps = parse_steps(options.steps, capture)
    doubts = route_doubts(capture, wanted, patterns)
    source = CaptureSource(capture, steps, wanted, options.nonfinite, options.ratio, doubts)
    return source, capture.model


def _synthetic(args: argparse.Namespace, options: ReplayOptions) -> tuple[SyntheticSource, str]:
    steps = any_steps(options.steps) if options.steps else (0,)
    tensors = NETWORKS[args.synthetic]()
    routes = assign_routes(tensors, parse_routes(options.routes))
    name = f"synthetic {args.synthetic}"
    source = SyntheticSource(
        name, tensors, args.workers, routes, options.ratio, options.seed, steps
    )
    return source, name


def metadata_of(job: BulkJob, one: StepPlan, cycles: Mapping[str, int]) -> dict[str, str]:
    """File metadata of a step, as the signal-level replay writes it; clocks by simulator."""
    fp32 = sum(_fp32_lines(spec) for spec in job.source.tensors)
    last = one.first_epoch + one.plan.rounds - 1
    epochs = str(last) if last == one.first_epoch else f"{one.first_epoch}-{last}"
    return {
        "format": FORMAT,
        "version": "1",
        "model": job.model,
        "step": str(one.step),
        "workers": str(one.plan.workers),
        "epoch": epochs,
        "bytes_to_device": str(one.writes * LINE_BYTES),
        "bytes_from_device": str(one.reads() * LINE_BYTES),
        "fp32_bytes_to_device": str(fp32 * one.plan.workers * LINE_BYTES),
        "fp32_bytes_from_device": str(fp32 * LINE_BYTES),
        **options_metadata(job.options, one.routes, cycles),
    }


def _fp32_lines(spec: TensorSpec) -> int:
    return lines_needed(spec.elements, Mode.FP32)

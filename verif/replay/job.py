# SPDX-License-Identifier: Apache-2.0
"""Work of one call of `nf replay`: the source of lines, the plan of each step, and its pieces."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

from models.modes import Mode, lines_needed
from neuron_fabric.capture import Capture
from neuron_fabric.errors import CaptureError
from verif.replay.epoch import EpochLines, Key
from verif.replay.gradient_source import NETWORKS, CaptureSource, LineSource, SyntheticSource
from verif.replay.options import ReplayOptions, any_steps, parse_steps
from verif.replay.plan import Plan, RegionUse, plan_step
from verif.replay.routing import assign_routes, parse_routes, route_warnings


@dataclass(frozen=True)
class StepPlan:
    """Plan and routes of one step of a replay.

    Attributes:
        step: Training step of the capture.
        routes: Route of each tensor by name.
        plan: Plan of the epochs.
        first_epoch: Value of EPOCH for the first commit; later epochs have the following numbers.
    """

    step: int
    routes: Mapping[str, Mode]
    plan: Plan
    first_epoch: int

    @property
    def epochs(self) -> range:
        """Return the values of EPOCH that are committed in this step."""
        return range(self.first_epoch, self.first_epoch + self.plan.epochs)


PIECE_EPOCHS = 4
"""Most epochs of a bulk piece: several, so that a device sees consecutive commits; few, so that
every core gets a piece. Opening a device takes as long as 100 contributions."""


@dataclass(frozen=True)
class Piece:
    """Epochs that go through one device after a reset; printed as "shard" of a bulk replay.

    Attributes:
        number: Number in the replay, from 1.
        keys: (step, number of the epoch in the step) of each epoch.
    """

    number: int
    keys: tuple[Key, ...]


@dataclass(frozen=True)
class Shard:
    """Part of a replay that one `nf replay --shard NUMBER/OF` drives: every ``of``-th piece.

    Attributes:
        number: Number of the shard, 1..of.
        of: Number of shards.
    """

    number: int = 1
    of: int = 1

    def takes(self, piece: Piece) -> bool:
        """Return whether a piece of the replay belongs to this shard."""
        return (piece.number - 1) % self.of == self.number - 1


@dataclass(frozen=True)
class Replay:
    """Replay of some steps: all epochs in order, and the shard of them to drive.

    Attributes:
        source: Source of the lines.
        model: Name of the network, as in the capture.
        options: Options of the command.
        steps: Plan of each step.
        shard: Part to drive.
    """

    source: LineSource
    model: str
    options: ReplayOptions
    steps: tuple[StepPlan, ...]
    shard: Shard
    content: str
    """Hash of the data that the lines are made from."""
    design: str = ""
    """Hash of the RTL; a journal of other RTL is refused."""
    warnings: tuple[str, ...] = ()
    """Possible mistakes, one line each."""

    def own_keys(self) -> list[Key]:
        """Return the (step, number) of each epoch of this shard, in order."""
        return [key for piece in self.pieces() for key in piece.keys]

    def all_keys(self) -> list[Key]:
        """Return the (step, number) of each epoch of the whole replay, in order."""
        return [(one.step, number) for one in self.steps for number in range(one.plan.epochs)]

    def pieces(self) -> list[Piece]:
        """Return the pieces of this shard."""
        return [piece for piece in self.all_pieces() if self.shard.takes(piece)]

    def all_pieces(self) -> list[Piece]:
        """Return the pieces of the whole replay.

        They do not depend on the number of jobs or shards, so neither do the cycles of an epoch.
        Consecutive steps with equal routes share pieces. At signal level there is one piece for
        them.
        """
        routes = {one.step: tuple(one.routes.items()) for one in self.steps}
        found: list[Sequence[Key]] = []
        for _, group in groupby(self.all_keys(), key=lambda key: routes[key[0]]):
            keys = list(group)
            count = -(-len(keys) // PIECE_EPOCHS) if self.options.bulk else 1
            bounds = [len(keys) * number // count for number in range(count + 1)]
            found += [keys[first:last] for first, last in pairwise(bounds)]
        return [Piece(number, tuple(keys)) for number, keys in enumerate(found, start=1)]

    def step(self, number: int) -> StepPlan:
        """Return the plan of the training step `number`."""
        return next(one for one in self.steps if one.step == number)

    def epoch(self, key: Key) -> EpochLines:
        """Read and return an epoch with the lines to send, by its (step, number)."""
        one = self.step(key[0])
        return EpochLines.read(self.source, one.plan, key, one.epochs[key[1]])

    def uses(self, key: Key) -> tuple[RegionUse, ...]:
        """Return the uses of regions in an epoch, by its (step, number)."""
        return self.step(key[0]).plan.epoch(key[1])

    def settle(self) -> None:
        """Compute the scales of all tensors of integer codes, which need whole tensors.

        Called before pieces are given to other processes, which have only parts of tensors.
        """
        for one in self.steps:
            for spec in self.source.tensors:
                if one.routes[spec.name].bits and spec.elements:
                    self.source.scales(one.step, spec, one.routes[spec.name])

    def writes(self, keys: Sequence[Key]) -> int:
        """Return the number of contributions in some epochs."""
        return sum(use.lines * self.source.workers for key in keys for use in self.uses(key))

    @property
    def fp32_lines(self) -> int:
        """Return the number of lines per worker and step if every tensor were sent as FP32."""
        return sum(lines_needed(spec.elements, Mode.FP32) for spec in self.source.tensors)

    def identity(self, simulator: str) -> dict[str, Any]:
        """Return the settings that must be equal for a journal to belong to this replay.

        The first difference is reported, so options precede the values that they change.

        Args:
            simulator: Name of the simulator.
        """
        options = self.options
        return {
            "simulator": simulator,
            "shard": f"{self.shard.number}/{self.shard.of}",
            "steps": [one.step for one in self.steps],
            "parameters": dict(sorted(options.parameters.items())),
            "tie": options.tie.name,
            "threshold": options.threshold,
            "ratio": options.ratio,
            "rounding": options.rounding,
            "sums": options.sums,
            "seed": options.seed,
            "memory": str(options.memory),
            "routes": _digest(repr([sorted(one.routes.items()) for one in self.steps])),
            "RTL": self.design,
            "content": self.content,
            "rounds": len(self.all_keys()),
            "pieces": len(self.all_pieces()),
            "plan": _digest(repr([one.plan for one in self.steps])),
        }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def make_replay(options: ReplayOptions, shard: Shard = Shard(), design: str = "") -> Replay:
    """Read and check all input of a replay, and plan it.

    Args:
        options: Options of the command.
        shard: Part to drive.
        design: Hash of the RTL.

    Raises:
        CaptureError: Something is wrong; the message is one line.
    """
    source, model = _synthetic(options) if options.synthetic else _captured(options)
    return planned(source, model, options, shard, design)


def planned(
    source: LineSource,
    model: str,
    options: ReplayOptions,
    shard: Shard = Shard(),
    design: str = "",
) -> Replay:
    """Plan a replay of a source.

    Args:
        source: Source of the lines.
        model: Name of the network.
        options: Options of the command.
        shard: Part to drive.
        design: Hash of the RTL.

    Raises:
        CaptureError: A step cannot be driven, or no tensor has an element.
    """
    steps: list[StepPlan] = []
    epoch = 1
    for step in source.steps:
        routes = source.routes(step)
        plan = plan_step(
            source.tensors,
            routes,
            source.workers,
            options.device,
            tie=options.tie,
            threshold=options.threshold,
            epoch_lines_log2=options.epoch_lines_log2,
            sums=options.sums,
        )
        if not options.bulk and steps and routes != steps[-1].routes:
            epoch = 1  # other routes need a new session
        steps.append(StepPlan(step, routes, plan, epoch))
        epoch += plan.epochs
    if not any(one.plan.lines for one in steps):
        raise CaptureError(source.name, "no tensor has an element", "there is nothing to replay")
    content, warnings = source.content(), tuple(source.warnings())
    return Replay(source, model, options, tuple(steps), shard, content, design, warnings)


def _captured(options: ReplayOptions) -> tuple[CaptureSource, str]:
    capture = Capture.open(options.capture)
    steps = parse_steps(options.steps, capture)
    patterns = parse_routes(options.routes)
    wanted = assign_routes(capture.tensors, patterns, capture.modules)
    guesses = route_warnings(capture, wanted, patterns)
    chosen = options.nonfinite, options.ratio, guesses, options.rounding, options.seed
    return CaptureSource(capture, steps, wanted, *chosen), capture.model


def _synthetic(options: ReplayOptions) -> tuple[SyntheticSource, str]:
    steps = any_steps(options.steps) if options.steps else (0,)
    tensors, name = NETWORKS[options.synthetic](), f"synthetic {options.synthetic}"
    routes = assign_routes(tensors, parse_routes(options.routes))
    drawn = options.workers, routes, options.ratio, options.seed, steps, options.rounding
    return SyntheticSource(name, tensors, *drawn), name

# SPDX-License-Identifier: Apache-2.0
"""An operating profile: which gradients of which model go by which route, and what showed it.

Regions are sets of parameters that get one decision; phases are parts of a training. The names are
those of the published abstracts, the numbers and the format are this project's.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from neuron_fabric.codec.routes import Route
from neuron_fabric.data import DataError

FORMAT = "neuron-fabric-profile"
VERSION = 1
WARMUP, STEADY, RECOVERY = "warmup", "steady", "recovery"
FIXED = re.compile(r"fixed:([0-9]+\.?[0-9]*(?:e[+-]?[0-9]+)?)")
LEAST_F32, MOST_F32 = 2.0**-126, (2 - 2.0**-23) * 2.0**127
"""Of float32, in which a vote is scaled: with less it would be 0 in every step, with more NaN."""

Range = tuple[float, float]
Measured = Mapping[str, Mapping[str, Mapping[str, Mapping[str, Range]]]]
"""[least, most] over the windows of a phase, by phase, route, decode and statistic. Routes here may
be Q2 to Q8 too, the quantisers of the host."""
QUANTISERS = tuple(f"Q{bits}" for bits in range(2, 9))
STATISTICS = (
    *("cosine", "shrink", "error", "zeros", "gate", "margin", "saturation", "norm_ratio", "snr"),
    *("agreement", "weighted_agreement", "moment4", "loss_impact"),
)


class Kind(StrEnum):
    """What a parameter is to its model; a region has one kind."""

    HEAD = "head"
    EMBEDDING = "embedding"
    NORM = "norm"
    BIAS = "bias"
    CONV = "conv"
    LINEAR = "linear"
    ATTENTION = "attention"
    RECURRENT = "recurrent"
    REST = "rest"


@dataclass(frozen=True)
class PhaseRoute:
    """How the gradients of a region travel in a phase.

    ``decode``: the majority's vote, or the net of plus and minus votes over the workers.
    ``scale``: of a worker's tensor: `mean_abs`, `rms` or `fixed:NUMBER`. ``shrink`` times the mean
    scale is the decoded step. ``feedback``: what a worker could not send is added to its next
    gradient. ``signal``: what it votes with: its gradient, or its momentum (of ``beta``).
    Integer codes have neither decode, scale nor shrink: their scale is the workers' largest, their
    sum is exact. ``rounding`` is theirs alone: stochastic, so that their mean is the gradient, or
    to the nearest code.
    """

    route: Route
    decode: Literal["vote", "net"] = "vote"
    scale: str = "mean_abs"
    shrink: float = 1.0
    feedback: bool = False
    why: str = ""
    signal: Literal["gradient", "momentum"] = "gradient"
    beta: float = 0.9
    rounding: Literal["stochastic", "nearest"] = "stochastic"

    def __post_init__(self) -> None:
        """DataError for what cannot go together."""
        fixed = FIXED.fullmatch(self.scale)
        if self.scale not in ("mean_abs", "rms") and not (fixed and float(fixed[1]) > 0):
            raise DataError(f"scale {self.scale!r} is none of mean_abs, rms, fixed:NUMBER")
        if not self.shrink > 0:
            raise DataError(f"shrink {self.shrink} is not above 0")
        factors = [("shrink", self.shrink)]
        if fixed:
            step = float(fixed[1]) * self.shrink
            factors += [("scale", float(fixed[1])), ("scale * shrink", step)]
        for name, factor in factors:
            if not LEAST_F32 <= factor <= MOST_F32:
                raise DataError(f"{name} {factor:g} is no float32 of full precision")
        if not 0 < self.beta < 1:
            raise DataError(f"beta {self.beta} is not between 0 and 1")
        if self.decode == "net" and not self.route.votes:
            raise DataError(f"decode net takes planes of counts, which {self.route} has not")
        if self.feedback and self.signal == "momentum":
            raise DataError("feedback with a momentum signal: a residual would be in both")
        if self.route.codes and (self.scale != "mean_abs" or self.shrink != 1):
            what = f"scale {self.scale}" if self.scale != "mean_abs" else f"shrink {self.shrink}"
            raise DataError(f"{what}: {self.route} has the scale of its codes; leave it out")
        if self.rounding != "stochastic" and not self.route.codes:
            raise DataError(f"rounding {self.rounding} is of integer codes, not of {self.route}")

    @property
    def fixed(self) -> float | None:
        """The scale, where it is given and not taken of the gradients."""
        found = FIXED.fullmatch(self.scale)
        return float(found[1]) if found else None


FULL = PhaseRoute(Route.FP32)
"""As it is."""


@dataclass(frozen=True)
class Region:
    """Parameters that get one decision.

    ``match``: globs over their names; without any, those of the kind (of `NAME.N`: its group by
    depth). ``elements``: in the model of the calibration. ``phases``: by name; `warmup` is FP32.
    """

    name: str
    kind: Kind
    match: tuple[str, ...]
    elements: int
    phases: Mapping[str, PhaseRoute]
    measured: Measured = field(default_factory=dict)

    @property
    def low_bit(self) -> bool:
        """Whether any phase of it is not FP32."""
        return any(how.route != Route.FP32 for how in self.phases.values())


@dataclass(frozen=True)
class ModelId:
    """The model of the calibration: `fingerprint.fingerprint` and its number of elements."""

    fingerprint: str
    parameters: int


@dataclass(frozen=True)
class ValidFor:
    """Trainings that the calibration speaks for; what is None was not fixed."""

    world_size: tuple[int, int] | None = None
    batch_per_worker: tuple[int, int] | None = None
    accumulation: int | None = None
    optimizer: str | None = None
    clipping: bool | None = None
    amp: str | None = None

    def __post_init__(self) -> None:
        """DataError for an empty range."""
        for name in ("world_size", "batch_per_worker"):
            span = getattr(self, name)
            if span is not None and not 1 <= span[0] <= span[1]:
                raise DataError(f"{name} {list(span)} is no range of [least, most]")


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over the seeds."""

    mean: float
    std: float


@dataclass(frozen=True)
class Reference:
    """What trainings with FP32 and with this profile reached. ``difference``: the 95 % interval of
    the mean difference to FP32, seed by seed."""

    metric: str
    fp32: Spread
    verified: Spread | None = None
    difference: Range | None = None


@dataclass(frozen=True)
class Calibration:
    """The training that was measured: its seed and steps, ``samples`` of them, one ``every`` so
    many steps. ``stopped_early``: it did not come to its end."""

    seed: int
    steps: int
    samples: int
    every: int
    stopped_early: bool = False

    def __post_init__(self) -> None:
        """DataError for what cannot be counted."""
        for name in ("steps", "samples", "every"):
            if getattr(self, name) < 0:
                raise DataError(f"{name} {getattr(self, name)} is negative")


@dataclass(frozen=True)
class Warmup:
    """``steps``: a share of all below 1, else a number; these are FP32."""

    steps: float = 0.10

    def __post_init__(self) -> None:
        """DataError for a negative number."""
        if self.steps < 0:
            raise DataError(f"steps {self.steps} is negative")


@dataclass(frozen=True)
class Steady:
    """``windows``: shares of all steps at which a window of the statistics ends."""

    windows: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """DataError for shares that do not rise from 0 to 1."""
        ends = (0.0, *self.windows)
        if any(b <= a for a, b in itertools.pairwise(ends)) or ends[-1] > 1:
            raise DataError(f"windows {list(self.windows)} do not rise from 0 to 1")


@dataclass(frozen=True)
class Phases:
    """The parts of a training; RECOVERY comes after a fallback, whenever that is."""

    warmup: Warmup = field(default_factory=Warmup)
    steady: Steady = field(default_factory=Steady)


@dataclass(frozen=True)
class Floor:
    """The least cosine to the mean gradient at which a route is admitted."""

    G_BINARY: float = 0.45
    G_TERNARY: float = 0.55
    other: float = 0.80

    def of(self, route: str) -> float:
        """The floor of a route."""
        named = {"G_BINARY": self.G_BINARY, "G_TERNARY": self.G_TERNARY}
        return named.get(str(route), self.other)


@dataclass(frozen=True)
class Rule:
    """What chose the routes. ``drop``: the cosine at which the monitor gives a region up.
    ``zeros``: the share of exact zeros from which they are named: a zero votes "+". ``shrink``:
    `fit`: what brings a vote nearest to the mean gradient; `one`: votes keep the workers' scale.
    ``routes``: those it chooses from. Integer codes are measured too, but take 6 to 12 times the
    bits of a vote, and pass their floor nearly everywhere: who wants them names them here.
    ``protect``: kinds that get no votes, whatever their cosine: most of what a worker sends of an
    embedding is zeros, and a head's gradients sum to 0 over the classes, which one bit cannot say.
    Codes say both, so they are chosen for these kinds too where ``routes`` names them.
    """

    floor: Floor = field(default_factory=Floor)
    drop: float = 0.30
    zeros: float = 0.05
    shrink: Literal["fit", "one"] = "fit"
    routes: tuple[Route, ...] = (Route.G_BINARY, Route.G_TERNARY)
    protect: tuple[Kind, ...] = (Kind.HEAD, Kind.EMBEDDING)

    def __post_init__(self) -> None:
        """DataError for a number that is no cosine or share, and for routes that are no choice."""
        if not self.routes or Route.FP32 in self.routes:
            raise DataError("routes names those to choose from; FP32 is what is left without any")
        shares = {**vars(self.floor), "drop": self.drop, "zeros": self.zeros}
        for name, value in shares.items():
            if not 0 <= value <= 1:
                raise DataError(f"{name} {value} is not from 0 to 1")


@dataclass(frozen=True)
class Profile:
    """A whole profile; `profile_file` reads and writes it."""

    name: str
    model: ModelId
    regions: tuple[Region, ...]
    version: int = VERSION
    verified: bool = False
    valid_for: ValidFor = field(default_factory=ValidFor)
    reference: Reference | None = None
    phases: Phases = field(default_factory=Phases)
    rule: Rule = field(default_factory=Rule)
    monitor: Mapping[str, object] = field(default_factory=dict)
    calibration: Calibration | None = None

    @property
    def fingerprint(self) -> str:
        """Of the model of the calibration."""
        return self.model.fingerprint

    def region(self, name: str) -> Region:
        """By name; KeyError."""
        for one in self.regions:
            if one.name == name:
                return one
        raise KeyError(name)

# SPDX-License-Identifier: Apache-2.0
"""Types of an operating profile: routes by region and phase, and the measurements for them.

A region is a set of parameters with one decision (not a region of the device); a phase is a part of
a training. The names are those of the published abstracts; the numbers and the format belong to
this project.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from neuron_fabric.codec.routes import Route
from neuron_fabric.codec.scale_groups import Granularity
from neuron_fabric.data import DataError
from neuron_fabric.profile.slices import sliced

FORMAT = "neuron-fabric-profile"
VERSION = 1
FIXED = re.compile(r"fixed:([0-9]+\.?[0-9]*(?:e[+-]?[0-9]+)?)")
LEAST_ELEMENTS = 1024
"""Parameters with fewer elements use FP32: two lines of G_BINARY."""
LEAST_WARMUP = 3
"""First step with an effect, as in `attach`: DDP rebuilds its buckets after the first step."""
LEAST_F32, MOST_F32 = 2.0**-126, (2 - 2.0**-23) * 2.0**127
"""Range of the scale of a vote in float32: below it every vote decodes to 0, above it to NaN."""

Decode = Literal["vote", "net"]
DECODES: tuple[Decode, ...] = ("vote", "net")
GRANULARITIES: tuple[Granularity, ...] = ("tensor", "row", "column")
Range = tuple[float, float]
Measured = Mapping[str, Mapping[str, Mapping[str, Mapping[str, Range]]]]
"""[least, most] over the windows of a phase, by phase, route, decode and statistic. Routes
include Q2 to Q8, the quantisers of the host."""
Measurement = Literal["vote", "net", "vote_row", "net_row", "vote_column", "net_column"]
"""Decode with the granularity of its scales, see `decode_name`."""
Quantiser = Literal["Q2", "Q3", "Q4", "Q5", "Q6", "Q7", "Q8"]
_Basic = Literal["cosine", "shrink", "error", "zeros", "gate", "margin", "saturation"]
Statistic = Literal[
    _Basic, "norm_ratio", "snr", "agreement", "weighted_agreement", "moment4", "loss_impact"
]


def decode_name(decode: Decode, granularity: Granularity) -> str:
    """Return the name of a decode with scales of the tensor, or of rows: `vote`, `vote_row`."""
    return decode if granularity == "tensor" else f"{decode}_{granularity}"


class Kind(StrEnum):
    """Role of a parameter in its model; a profile region has one kind."""

    HEAD = "head"
    EMBEDDING = "embedding"
    NORM = "norm"
    BIAS = "bias"
    CONV = "conv"
    LINEAR = "linear"
    ATTENTION = "attention"
    RECURRENT = "recurrent"
    REST = "rest"


class Phase(StrEnum):
    """Phase of a profile region, by which the profile names its routes."""

    WARMUP = "warmup"
    STEADY = "steady"
    RECOVERY = "recovery"


@dataclass(frozen=True)
class PhaseRoute:
    """Encoding of a profile region's gradients in a phase.

    Integer codes have no decode, scale or shrink: all workers share the unit of the largest value,
    and their sum is exact.

    Attributes:
        route: Format in which the gradient is sent.
        decode: For votes: `vote` decodes the majority, `net` the plus minus the minus votes.
        scale: Scale of a worker's tensor: `mean_abs`, `rms` or `fixed:NUMBER`.
        shrink: Factor on the workers' mean scale when votes are decoded.
        feedback: Whether the error of a worker is added to its next gradient.
        why: Reason of the choice.
        signal: Quantity that a worker votes with: its gradient, or its momentum.
        beta: Decay of the momentum.
        rounding: Rounding of integer codes: stochastic (unbiased) or to the nearest code.
        granularity: Elements that share a scale: the tensor, or its rows or columns.
        block: Rows or columns that share one; 0: as few as 5 % more lines have room for.
        low_rank: Columns of the two factors, of bfloat16, that are sent in place of an FP32 matrix
            and have error feedback; 0: the matrix itself.
    """

    route: Route
    decode: Decode = "vote"
    scale: str = "mean_abs"
    shrink: float = 1.0
    feedback: bool = False
    why: str = ""
    signal: Literal["gradient", "momentum"] = "gradient"
    beta: float = 0.9
    rounding: Literal["stochastic", "nearest"] = "stochastic"
    granularity: Granularity = "tensor"
    block: int = 0
    low_rank: int = 0

    def __post_init__(self) -> None:
        """Check that the fields fit together. Raise DataError if they do not."""
        if self.scale not in ("mean_abs", "rms") and not self.fixed:
            raise DataError(f"scale {self.scale!r} is not one of mean_abs, rms, fixed:NUMBER")
        if not self.shrink > 0:
            raise DataError(f"shrink {self.shrink} is not above 0")
        factors = {"shrink": self.shrink}
        if self.fixed:
            factors |= {"scale": self.fixed, "scale * shrink": self.fixed * self.shrink}
        for name, factor in factors.items():
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
        if self.low_rank < 0 or (self.low_rank and self.route != Route.FP32):
            raise DataError(
                f"low_rank {self.low_rank} is a number of columns in FP32, not {self.route}"
            )
        self._check_granularity()

    def _check_granularity(self) -> None:
        if self.granularity != "tensor" and (not self.route.votes or self.fixed):
            what = f"the fixed scale {self.scale}" if self.fixed else str(self.route)
            raise DataError(f"granularity {self.granularity} is of scales of votes, not of {what}")
        if self.block < 0 or (self.block and self.granularity == "tensor"):
            raise DataError(f"block {self.block} is a number of rows or columns with one scale")

    @property
    def measured_as(self) -> str:
        """Return the name of decode and granularity among the measurements of a profile."""
        return decode_name(self.decode, self.granularity)

    @property
    def fixed(self) -> float | None:
        """Return the scale if it is a constant (`fixed:NUMBER`), else None."""
        found = FIXED.fullmatch(self.scale)
        return float(found[1]) if found else None


FULL = PhaseRoute(Route.FP32)
"""Route of unchanged gradients."""


@dataclass(frozen=True)
class Region:
    """Region of a profile: a set of parameters, or slices of them, with one decision on routes.

    Attributes:
        name: Name of the region.
        kind: Kind of most of its elements.
        match: Globs for the names of its parameters, each with a slice of them or without (see
            `slices`); without any glob, all parameters of the kind (for `NAME.N`, its depth group).
        elements: Elements in the calibrated model.
        phases: Routes by phase; `warmup` is FP32.
        measured: Statistics of the calibration.
    """

    name: str
    kind: Kind
    match: tuple[str, ...]
    elements: int
    phases: Mapping[str, PhaseRoute]
    measured: Measured = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the slices of its globs. Raise DataError if one is wrong."""
        for glob in self.match:
            sliced(glob)

    @property
    def low_bit(self) -> bool:
        """Return whether the route of any phase is not FP32."""
        return any(how.route != Route.FP32 for how in self.phases.values())


def steady_route(region: Region) -> PhaseRoute:
    """Return the route of a profile region in the steady phase; FP32 if the profile gives none."""
    return region.phases.get(Phase.STEADY, FULL)


@dataclass(frozen=True)
class ModelId:
    """Identity of the calibrated model: its fingerprint and number of elements (``parameters``)."""

    fingerprint: str
    parameters: int


@dataclass(frozen=True)
class ValidFor:
    """Conditions of a calibration, for which its profile is valid; None for one that was not fixed.

    Ranges are (least, most).
    """

    world_size: tuple[int, int] | None = None
    batch_per_worker: tuple[int, int] | None = None
    accumulation: int | None = None
    optimizer: str | None = None
    clipping: bool | None = None
    amp: str | None = None

    def __post_init__(self) -> None:
        """Check that ranges are not empty. Raise DataError if one is."""
        for name in ("world_size", "batch_per_worker"):
            span = getattr(self, name)
            if span is not None and not 1 <= span[0] <= span[1]:
                raise DataError(f"{name} {list(span)} is no range of [least, most]")


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation of a metric over trainings with different seeds."""

    mean: float
    std: float


@dataclass(frozen=True)
class Reference:
    """Metric of a verification: trainings in FP32, and trainings with the profile if it passed.

    ``difference`` is the 95 % interval of the mean difference, seed by seed.
    """

    metric: str
    fp32: Spread
    verified: Spread | None = None
    difference: Range | None = None


@dataclass(frozen=True)
class Calibration:
    """Training from which a profile was calibrated.

    Attributes:
        seed: Its seed.
        steps: Its number of steps.
        samples: Number of sampled steps.
        every: Steps between samples.
        stopped_early: Whether it did not reach its end.
    """

    seed: int
    steps: int
    samples: int
    every: int
    stopped_early: bool = False

    def __post_init__(self) -> None:
        """Check that counts are not negative. Raise DataError if one is."""
        for name in ("steps", "samples", "every"):
            if getattr(self, name) < 0:
                raise DataError(f"{name} {getattr(self, name)} is negative")


@dataclass(frozen=True)
class Warmup:
    """Warm-up in FP32: ``steps`` below 1 is a share of the training, else a number of steps."""

    steps: float = 0.10

    def __post_init__(self) -> None:
        """Check that the length is not negative. Raise DataError if it is."""
        if self.steps < 0:
            raise DataError(f"steps {self.steps} is negative")


def warmup_of(warmup: float, steps: int | None) -> int:
    """Return the number of warm-up steps (in FP32) of a training of ``steps``; at least 3.

    ``warmup`` is a number of steps, or a share of ``steps`` if it is below 1; a share of None
    counts as 0.
    """
    return max(LEAST_WARMUP, round(warmup * (steps or 0)) if warmup < 1 else round(warmup))


@dataclass(frozen=True)
class Steady:
    """Steady phase: windows, over which statistics are taken, end at these shares of all steps."""

    windows: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Check that the shares increase within 0..1. Raise DataError if not."""
        ends = (0.0, *self.windows)
        if any(b <= a for a, b in itertools.pairwise(ends)) or ends[-1] > 1:
            raise DataError(f"windows {list(self.windows)} do not rise from 0 to 1")


@dataclass(frozen=True)
class Phases:
    """Phases of a training: warm-up, then steady; a third one, recovery, follows any fallback."""

    warmup: Warmup = field(default_factory=Warmup)
    steady: Steady = field(default_factory=Steady)


@dataclass(frozen=True)
class Floor:
    """Limits of the route rule: the least cosine at which it admits a route for a region.

    The cosine is that between the gradient decoded from the route's result and the mean gradient of
    the workers, for the worst parameter of the region.

    Attributes:
        G_BINARY: Limit of binary votes.
        G_TERNARY: Limit of ternary votes.
        other: Limit of all other routes, such as integer codes.
    """

    G_BINARY: float = 0.45
    G_TERNARY: float = 0.55
    other: float = 0.80

    def of(self, route: str) -> float:
        """Return the floor of a route by name."""
        named = {"G_BINARY": self.G_BINARY, "G_TERNARY": self.G_TERNARY}
        return named.get(str(route), self.other)


@dataclass(frozen=True)
class Assign:
    """Joint choice of the routes of all regions by L-GreCo: least bytes within an error budget.

    The error of a route in a region is its squared error over the squared norm of the gradient,
    times the elements (spec: runtime section 6).

    Attributes:
        reference: Route whose error, used in all regions, is the unit of the budget.
        budget: Greatest error of an assignment, as a share of that of the reference. While
            training, a region's share is at least the error of its route in the profile.
        every: Steps between assignments while training; 0 for none after the calibration.
    """

    reference: Route = Route.G_INT4
    budget: float = 0.25
    every: int = 50

    def __post_init__(self) -> None:
        """Check the values. Raise DataError if one is wrong."""
        if self.reference == Route.FP32:
            raise DataError("reference FP32 has no error; name a low-bit route")
        if not 0 < self.budget <= 1000:
            raise DataError(f"budget {self.budget} is not above 0 and at most 1000")
        if self.every < 0:
            raise DataError(f"every {self.every} is negative")


@dataclass(frozen=True)
class Rule:
    """Rule that chooses the routes of a profile from the calibration's samples.

    Attributes:
        floor: Least cosine of each route.
        drop: Cosine below which the monitor demotes a region.
        zeros: Share of exact zeros above which they are reported, since a zero votes "+".
        shrink: `fit` scales a vote to the least distance from the mean gradient; `one` keeps the
            scale of the workers.
        routes: Candidates. Integer codes are measured too, but need 6 to 12 times the bits of a
            vote and pass nearly everywhere, so that they must be named.
        protect: Kinds without votes at any cosine. Most of what a worker sends of an embedding is
            zeros, and gradients of a head sum to 0 over the classes; one bit can express neither.
            Integer codes can, so they are allowed for these kinds.
        assign: Joint choice of the regions' routes by an error budget; None: the cheapest route
            that passes, region by region.
    """

    floor: Floor = field(default_factory=Floor)
    drop: float = 0.30
    zeros: float = 0.05
    shrink: Literal["fit", "one"] = "fit"
    routes: tuple[Route, ...] = (Route.G_BINARY, Route.G_TERNARY)
    protect: tuple[Kind, ...] = (Kind.HEAD, Kind.EMBEDDING)
    assign: Assign | None = None

    def __post_init__(self) -> None:
        """Check candidates, cosines and shares. Raise DataError if one is wrong."""
        if not self.routes or Route.FP32 in self.routes:
            raise DataError("routes names those to choose from; FP32 is what is left without any")
        shares = {**vars(self.floor), "drop": self.drop, "zeros": self.zeros}
        for name, value in shares.items():
            if not 0 <= value <= 1:
                raise DataError(f"{name} {value} is not from 0 to 1")
        if self.assign and self.assign.reference not in self.routes:
            raise DataError(f"assign.reference {self.assign.reference} is not one of routes")

    def candidates(self, kind: Kind) -> tuple[Route, ...]:
        """Return the routes to choose from for regions of a kind: no votes if it is protected."""
        return tuple(one for one in self.routes if kind not in self.protect or not one.votes)


@dataclass(frozen=True)
class Profile:
    """Operating profile: regions with routes, conditions, rule and thresholds of the monitor.

    `profile_file` reads and writes it. ``verified`` means that trainings with it were compared with
    FP32 and passed.
    """

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
        """Return the fingerprint of the calibrated model."""
        return self.model.fingerprint

    def region(self, name: str) -> Region:
        """Return a region by name. Raise KeyError if there is none."""
        for one in self.regions:
            if one.name == name:
                return one
        raise KeyError(name)
